//! Held-out samples with what the model says about them, what is taken for what, and pictures of one's own.

mod cells;
mod numbers;
mod own;
mod scores;
mod sheets;

use std::path::PathBuf;

use egui::{ScrollArea, Slider, Ui};

use crate::runs::Recording;
use crate::train::record::{Predictions, Sample};

use crate::ui::legend::legend;
use crate::ui::palette;
use crate::ui::text::Text;
use crate::ui::window::Seen;

use numbers::NumbersPage;
use own::OwnPictures;
use sheets::{Sheets, class_color};

/// What comes first.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Order {
    #[default]
    DataSet,
    Worst,
    LeastSure,
}

/// What is shown.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum View {
    #[default]
    Samples,
    Confusion,
    Classes,
    Own,
}

/// What the page remembers.
#[derive(Default)]
pub(super) struct PredictionsPage {
    view: View,
    order: Order,
    only_wrong: bool,
    sheets: Sheets,
    own: OwnPictures,
    numbers: NumbersPage,
}

impl PredictionsPage {
    /// Pictures that were dropped are judged by the run in focus.
    pub(super) fn take_dropped(&mut self, seen: &Seen<'_>, dropped: &[PathBuf]) {
        if let (Some(run), false) = (seen.selection.focus(seen.runs), dropped.is_empty()) {
            self.view = View::Own;
            self.own.judge(run, seen.session, dropped);
        }
    }

    pub(super) fn ui(&mut self, ui: &mut Ui, seen: &mut Seen<'_>) {
        let text = seen.text;
        let Some(run) = seen.selection.focus(seen.runs) else {
            return super::nothing(ui, text.t("No run is chosen"));
        };
        super::about_run(ui, seen, run);
        ui.horizontal_wrapped(|ui| {
            let (each, together) = match run.regresses() {
                true => (text.t("predicted against true"), text.t("errors")),
                false => (text.t("confusion matrix"), text.t("classes")),
            };
            for (view, name) in [
                (View::Samples, text.t("samples")),
                (View::Confusion, each),
                (View::Classes, together),
                (View::Own, text.t("pictures of your own")),
            ] {
                ui.selectable_value(&mut self.view, view, name);
            }
        });
        ui.separator();
        match self.view {
            View::Classes if run.regresses() => numbers::errors(ui, text, run),
            View::Samples | View::Confusion if run.regresses() => match &run.predictions {
                Some(said) => {
                    told_of(ui, text, run, said);
                    match self.view {
                        View::Samples => self.numbers.samples(ui, text, said),
                        _ => self.numbers.chart(ui, text, said),
                    }
                }
                None => super::nothing(ui, text.t("Predictions are written after the first evaluation")),
            },
            View::Samples => match &run.predictions {
                Some(predictions) => self.samples(ui, text, run, predictions, &mut seen.settings.mask_opacity),
                None => super::nothing(ui, text.t("Predictions are written after the first evaluation")),
            },
            View::Confusion => scores::matrix(ui, text, run),
            View::Classes => scores::table(ui, text, run),
            View::Own => {
                if let Some(path) = self.own.ui(ui, text, run, &mut seen.settings.mask_opacity) {
                    self.own.judge(run, seen.session, &[path]);
                }
            }
        }
    }

    fn samples(&mut self, ui: &mut Ui, text: Text, run: &Recording, said: &Predictions, opacity: &mut f32) {
        if said.samples.is_empty() {
            return super::nothing(ui, text.t("No samples were recorded"));
        }
        let masked = said.masks.is_some();
        ui.horizontal_wrapped(|ui| {
            told_of(ui, text, run, said);
            ui.separator();
            for (order, name) in [
                (Order::DataSet, text.t("in order")),
                (Order::Worst, text.t("worst first")),
                (Order::LeastSure, text.t("least sure first")),
            ] {
                if order != Order::LeastSure || !masked {
                    ui.selectable_value(&mut self.order, order, name);
                }
            }
            if masked {
                opacity_slider(ui, text, opacity);
                ui.weak(text.t("left: as it is; right: as the model says"));
            } else {
                ui.checkbox(&mut self.only_wrong, text.t("wrong ones only"));
            }
        });
        if masked {
            mask_legend(ui, text, &said.classes);
        }
        let mut order: Vec<usize> = (0..said.samples.len()).collect();
        let sample = |number: &usize| &said.samples[*number];
        if self.only_wrong && !masked {
            order.retain(|number| sample(number).accuracy < 1.0);
        }
        match self.order {
            Order::DataSet => {}
            Order::Worst => order.sort_by(|a, b| sample(b).loss.total_cmp(&sample(a).loss)),
            Order::LeastSure => order.sort_by(|a, b| sureness(sample(a)).total_cmp(&sureness(sample(b)))),
        }
        if order.is_empty() {
            return super::nothing(ui, text.t("The model is right about all of them"));
        }
        if let Some(problem) = self.sheets.follow(ui.ctx(), run, said) {
            ui.colored_label(palette::readable(ui, palette::BAD), problem);
        }
        let cell = if masked { cells::MASKED } else { cells::CLASSIFIED };
        let columns = ((ui.available_width() + 8.0) / (cell.x + 8.0)).floor().max(1.0) as usize;
        let rows = order.len().div_ceil(columns);
        ScrollArea::vertical().auto_shrink([false, false]).show_rows(ui, cell.y + 4.0, rows, |ui, seen_rows| {
            for row in seen_rows {
                ui.horizontal(|ui| {
                    for &number in order.iter().skip(row * columns).take(columns) {
                        if masked {
                            cells::masked(ui, text, &self.sheets, said, number, *opacity);
                        } else {
                            cells::classified(ui, text, &self.sheets, said, number);
                        }
                    }
                });
            }
        });
    }
}

/// Which samples are shown, and when the model was asked.
fn told_of(ui: &mut Ui, text: Text, run: &Recording, said: &Predictions) {
    let all = run.run.as_ref().map(|record| record.start.judged_samples());
    let all = all.filter(|all| *all > said.samples.len()).unwrap_or(said.samples.len());
    let of = [said.samples.len(), all];
    ui.label(text.f("the first {} of {} held-out samples, after step {}", &[&of[0], &of[1], &said.step]))
        .on_hover_text(text.t("Orders are among these; what is counted is of all samples"));
}

/// The probability of what the model says.
fn sureness(sample: &Sample) -> f32 {
    sample.likeliest.first().map_or(1.0, |(_, part)| *part)
}

/// How much of masks is seen.
fn opacity_slider(ui: &mut Ui, text: Text, opacity: &mut f32) {
    let label = ui.label(text.t("masks"));
    ui.add(Slider::new(opacity, 0.0..=1.0)).labelled_by(label.id);
}

/// The colours of classes in masks.
fn mask_legend(ui: &mut Ui, text: Text, classes: &[String]) {
    const MOST: usize = 24;
    let known = classes.iter().take(MOST).zip(0_u8..);
    legend(ui, known.map(|(name, class)| (class_color(class), name.chars().take(40).collect())));
    if classes.len() > MOST {
        ui.weak(text.f("and {} further classes", &[&(classes.len() - MOST)]));
    }
}

/// A class by name, or by number if it has none.
fn class_name(classes: &[String], class: u32) -> String {
    classes.get(class as usize).cloned().unwrap_or_else(|| class.to_string())
}
