//! Regression: numbers of held-out samples beside what the model says, and by how much they are missed.

use egui::{Align, Color32, ComboBox, Grid, Layout, Rect, ScrollArea, Sense, Ui, Vec2};
use egui_plot::{Line, Plot, Points};

use crate::runs::Recording;
use crate::train::record::{Predictions, Sample};

use crate::ui::numbers::number;
use crate::ui::palette;
use crate::ui::text::Text;

/// Points: of a sample in the chart, and of an error's bar.
const DOT: f32 = 2.5;
const BAR: Vec2 = Vec2::new(240.0, 14.0);

/// What the page remembers of numbers.
#[derive(Default)]
pub(super) struct NumbersPage {
    /// Which of the numbers is looked at.
    which: usize,
    worst_first: bool,
}

/// A number of a sample, and what the model says it is.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Pair {
    index: usize,
    is: f64,
    said: f64,
}

impl Pair {
    fn error(self) -> f64 {
        self.said - self.is
    }
}

impl NumbersPage {
    /// A line for each sample.
    pub(super) fn samples(&mut self, ui: &mut Ui, text: Text, said: &Predictions) {
        let mut pairs = Vec::new();
        ui.horizontal_wrapped(|ui| {
            pairs = self.chosen(ui, text, said);
            ui.separator();
            ui.selectable_value(&mut self.worst_first, false, text.t("in order"));
            ui.selectable_value(&mut self.worst_first, true, text.t("worst first"));
        });
        if self.worst_first {
            worst_first(&mut pairs);
        }
        let step = spread(&pairs) / 1e4;
        let most = pairs.iter().map(|pair| pair.error().abs()).filter(|error| error.is_finite()).fold(0.0, f64::max);
        ScrollArea::vertical().auto_shrink([false, false]).show(ui, |ui| {
            Grid::new("numbers").striped(true).spacing([26.0, 5.0]).show(ui, |ui| {
                for title in [text.t("sample"), text.t("is"), text.t("predicted"), text.t("error")] {
                    ui.weak(title);
                }
                ui.end_row();
                for pair in &pairs {
                    ui.label(format!("#{}", pair.index));
                    let sign = if pair.error() > 0.0 { "+" } else { "" };
                    let error = sign.to_owned() + &aligned(pair.error(), step);
                    for value in [aligned(pair.is, step), aligned(pair.said, step), error] {
                        ui.with_layout(Layout::right_to_left(Align::Center), |ui| ui.monospace(value));
                    }
                    bar(ui, (pair.error() / most) as f32);
                    ui.end_row();
                }
            });
        });
    }

    /// What is predicted over what is true: the nearer to the diagonal the better.
    pub(super) fn chart(&mut self, ui: &mut Ui, text: Text, said: &Predictions) {
        let pairs = self.chosen(ui, text, said);
        ui.weak(text.t("Each dot is a held-out sample; on the line, the prediction is right"));
        let finite: Vec<Pair> = pairs.into_iter().filter(|pair| pair.error().is_finite()).collect();
        let all = || finite.iter().flat_map(|pair| [pair.is, pair.said]);
        let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
        if finite.is_empty() {
            return super::super::nothing(ui, text.t("No samples were recorded"));
        }
        let dots: Vec<[f64; 2]> = finite.iter().map(|pair| [pair.is, pair.said]).collect();
        let side = ui.available_size().min_elem();
        Plot::new("predicted against true")
            .data_aspect(1.0)
            .width(side)
            .height(side)
            .x_axis_label(text.t("is"))
            .y_axis_label(text.t("predicted"))
            .allow_scroll(false)
            .show(ui, |plot| {
                let diagonal = vec![[low, low], [high, high]];
                plot.line(Line::new("", diagonal).color(Color32::GRAY).width(1.0));
                plot.points(Points::new("", dots).radius(DOT).color(palette::EMBER));
            });
    }

    /// Which of the numbers is looked at, if there are several; its pairs.
    fn chosen(&mut self, ui: &mut Ui, text: Text, said: &Predictions) -> Vec<Pair> {
        let names = &said.classes;
        self.which = self.which.min(names.len().saturating_sub(1));
        if names.len() > 1 {
            ComboBox::from_label(text.t("number")).selected_text(&names[self.which]).show_ui(ui, |ui| {
                for (which, name) in names.iter().enumerate() {
                    ui.selectable_value(&mut self.which, which, name);
                }
            });
        } else {
            names.first().map(|name| ui.strong(name));
        }
        pairs(&said.samples, self.which)
    }
}

/// A number with as many decimals as all others beside it.
fn aligned(value: f64, step: f64) -> String {
    match step {
        1e-9..1e6 => format!("{value:.*}", (-step.log10().floor()).max(0.0) as usize),
        _ => number(value, step),
    }
}

/// An error as a part of the largest one, to the left of the middle if too little was said.
fn bar(ui: &mut Ui, part: f32) {
    let (area, _) = ui.allocate_exact_size(BAR, Sense::hover());
    let (middle, sides) = (area.center().x, area.y_range());
    if part.is_finite() {
        let end = middle + part * BAR.x / 2.0;
        let filled = Rect::from_x_y_ranges(middle.min(end)..=middle.max(end), sides.shrink(3.0));
        ui.painter().rect_filled(filled, 1.0, palette::EMBER);
    }
    ui.painter().vline(middle, sides, ui.visuals().widgets.noninteractive.bg_stroke);
}

fn pairs(samples: &[Sample], which: usize) -> Vec<Pair> {
    let pair = |sample: &Sample| {
        let (is, said) = (*sample.target.get(which)?, *sample.predicted.get(which)?);
        Some(Pair { index: sample.index, is: is.into(), said: said.into() })
    };
    samples.iter().filter_map(pair).collect()
}

/// By how much they are missed; what is no number is worst.
fn worst_first(pairs: &mut [Pair]) {
    pairs.sort_by(|a, b| b.error().abs().total_cmp(&a.error().abs()));
}

/// How far they lie apart, or something if they do not.
fn spread(pairs: &[Pair]) -> f64 {
    let (low, high) = pairs
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), pair| (low.min(pair.is), high.max(pair.is)));
    if high > low { high - low } else { 1.0 }
}

/// Errors of all held-out samples, number by number.
pub(super) fn errors(ui: &mut Ui, text: Text, run: &Recording) {
    let Some(residuals) = &run.residuals else {
        return super::super::nothing(ui, text.t("Nothing was evaluated yet"));
    };
    let names = run.run.as_ref().map_or(&[][..], |record| &record.classes);
    ui.label(text.f("{} held-out samples", &[&residuals.samples()]));
    ScrollArea::vertical().auto_shrink([false, false]).show(ui, |ui| {
        Grid::new("errors").striped(true).spacing([26.0, 5.0]).show(ui, |ui| {
            let titles = [text.t("number"), "R²", "RMSE", text.t("mean absolute error"), text.t("mean error")];
            for title in titles {
                ui.weak(title);
            }
            ui.end_row();
            for place in 0..residuals.numbers() {
                let scores = residuals.number(place);
                ui.label(names.get(place).cloned().unwrap_or_else(|| place.to_string()));
                ui.monospace(format!("{:.4}", scores.r2));
                for value in [scores.rmse, scores.mae, residuals.mean_error(place)] {
                    ui.monospace(number(value, value / 1e3));
                }
                ui.end_row();
            }
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missed_most_comes_first() {
        let sample = |index, is: f32, said: f32| {
            let json = serde_json::json!({
                "index": index, "label": null, "likeliest": [], "target": [0.0, is], "predicted": [0.0, said],
                "loss": 0.0, "accuracy": 0.0,
            });
            serde_json::from_value(json).expect("a sample")
        };
        let samples = [sample(0, 1.0, 1.5), sample(1, 1.0, -1.0), sample(2, 2.0, f32::NAN)];
        let mut found = pairs(&samples, 1);
        assert_eq!((found.len(), found[1].error()), (3, -2.0));
        worst_first(&mut found);
        assert_eq!(found.iter().map(|pair| pair.index).collect::<Vec<_>>(), [2, 1, 0]);
        assert_eq!(spread(&found), 1.0);
        assert_eq!([aligned(12.3456, 1e-2), aligned(-12_345.6, 40.0)], ["12.35", "-12346"]);
        assert!(pairs(&samples, 2).is_empty(), "no such number");
    }
}
