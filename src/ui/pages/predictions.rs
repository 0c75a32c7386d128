//! Held-out samples with what the model says about them, what is taken for what, and pictures of one's own.

mod own;
mod scores;
mod sheets;

use std::path::PathBuf;

use egui::{Color32, Rect, ScrollArea, Sense, Slider, Stroke, StrokeKind, Ui, Vec2};

use crate::runs::Recording;
use crate::train::record::{Predictions, Sample};

use crate::ui::palette;
use crate::ui::text::Text;
use crate::ui::window::Seen;

use own::OwnPictures;
use sheets::Sheets;

/// Points.
const SIDE: f32 = 84.0;
const MASK_SIDE: f32 = 190.0;
const LINE: f32 = 15.0;

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
        ui.horizontal_wrapped(|ui| {
            for (view, name) in [
                (View::Samples, text.t("samples")),
                (View::Confusion, text.t("confusion matrix")),
                (View::Classes, text.t("classes")),
                (View::Own, text.t("pictures of your own")),
            ] {
                ui.selectable_value(&mut self.view, view, name);
            }
        });
        ui.separator();
        match self.view {
            View::Samples => match &run.predictions {
                Some(predictions) => self.samples(ui, text, run, predictions, &mut seen.settings.mask_opacity),
                None => super::nothing(ui, text.t("Predictions are written after the first evaluation")),
            },
            View::Confusion => scores::matrix(ui, text, run),
            View::Classes => scores::table(ui, text, run),
            View::Own => self.own.ui(ui, text, run, seen.settings.mask_opacity),
        }
    }

    fn samples(&mut self, ui: &mut Ui, text: Text, run: &Recording, said: &Predictions, opacity: &mut f32) {
        let masked = said.masks.is_some();
        ui.horizontal_wrapped(|ui| {
            ui.label(text.f("after step {}", &[&said.step]));
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
                let label = ui.label(text.t("masks"));
                ui.add(Slider::new(opacity, 0.0..=1.0)).labelled_by(label.id);
                ui.weak(text.t("left: as it is; right: as the model says"));
            } else {
                ui.checkbox(&mut self.only_wrong, text.t("wrong ones only"));
            }
        });
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
            ui.colored_label(palette::BAD, problem);
        }
        let cell = if masked {
            Vec2::new(2.0 * MASK_SIDE + 4.0, MASK_SIDE + LINE)
        } else {
            Vec2::new(SIDE, SIDE + 2.0 * LINE)
        };
        let columns = ((ui.available_width() + 8.0) / (cell.x + 8.0)).floor().max(1.0) as usize;
        let rows = order.len().div_ceil(columns);
        ScrollArea::vertical().auto_shrink([false, false]).show_rows(ui, cell.y + 4.0, rows, |ui, seen_rows| {
            for row in seen_rows {
                ui.horizontal(|ui| {
                    for &number in order.iter().skip(row * columns).take(columns) {
                        if masked {
                            self.masked(ui, text, said, number, *opacity);
                        } else {
                            self.classified(ui, text, said, number);
                        }
                    }
                });
            }
        });
    }

    fn classified(&self, ui: &mut Ui, text: Text, said: &Predictions, number: usize) {
        let sample = &said.samples[number];
        let (area, response) = ui.allocate_exact_size(Vec2::new(SIDE, SIDE + 2.0 * LINE), Sense::hover());
        let picture = Rect::from_min_size(area.min, Vec2::splat(SIDE)).shrink(2.0);
        let right = sample.accuracy >= 1.0;
        let frame = if right { palette::GOOD } else { palette::BAD };
        if !self.sheets.picture(ui, picture, number) {
            ui.painter().rect_filled(picture, 2.0, ui.visuals().faint_bg_color);
            let font = egui::FontId::proportional(12.0);
            let color = ui.visuals().weak_text_color();
            ui.painter().text(picture.center(), egui::Align2::CENTER_CENTER, format!("#{}", sample.index), font, color);
        }
        ui.painter().rect_stroke(picture, 2.0, Stroke::new(2.0, frame), StrokeKind::Outside);
        let name = |class: u32| class_name(&said.classes, class);
        let (first, sure) = sample.likeliest.first().copied().unwrap_or((0, 0.0));
        let line = |number: f32, words: String, color: Color32| {
            let at = egui::pos2(area.left() + 2.0, area.top() + SIDE + LINE * (number + 0.5));
            let painter = ui.painter_at(area);
            painter.text(at, egui::Align2::LEFT_CENTER, words, egui::FontId::proportional(11.5), color);
        };
        line(0.0, format!("{} {:.0} %", name(first), 100.0 * sure), frame);
        if let (false, Some(label)) = (right, sample.label) {
            line(1.0, text.f("is {}", &[&name(label)]), ui.visuals().text_color());
        }
        response.on_hover_ui(|ui| {
            let is = sample.label.map(name).unwrap_or_default();
            ui.strong(text.f("sample {}: {}", &[&sample.index, &is]));
            for (class, part) in &sample.likeliest {
                ui.label(format!("{:>5.1} %  {}", 100.0 * part, name(*class)));
            }
            ui.weak(text.f("loss {}", &[&format!("{:.4}", sample.loss)]));
        });
    }

    fn masked(&self, ui: &mut Ui, text: Text, said: &Predictions, number: usize, opacity: f32) {
        let sample = &said.samples[number];
        let size = Vec2::new(2.0 * MASK_SIDE + 4.0, MASK_SIDE + LINE);
        let (area, _) = ui.allocate_exact_size(size, Sense::hover());
        for (side, which) in [0, 1].into_iter().enumerate() {
            let corner = area.min + Vec2::new(side as f32 * (MASK_SIDE + 4.0), 0.0);
            let place = Rect::from_min_size(corner, Vec2::splat(MASK_SIDE));
            self.sheets.picture(ui, place, number);
            self.sheets.mask(ui, place, number, which, opacity);
        }
        let words = text.f(
            "sample {}: {} of its pixels are right, loss {}",
            &[&sample.index, &format!("{:.1} %", 100.0 * sample.accuracy), &format!("{:.3}", sample.loss)],
        );
        let at = egui::pos2(area.left(), area.bottom() - LINE / 2.0);
        let color = ui.visuals().text_color();
        ui.painter().text(at, egui::Align2::LEFT_CENTER, words, egui::FontId::proportional(11.5), color);
    }
}

/// The probability of what the model says.
fn sureness(sample: &Sample) -> f32 {
    sample.likeliest.first().map_or(1.0, |(_, part)| *part)
}

/// A class by name, or by number if it has none.
fn class_name(classes: &[String], class: u32) -> String {
    classes.get(class as usize).cloned().unwrap_or_else(|| class.to_string())
}
