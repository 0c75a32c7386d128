//! Weights, gradients and activations over time.

mod ridge;

use std::collections::BTreeMap;

use egui::{Grid, RichText, ScrollArea, TextEdit, Ui, Vec2};

use crate::runs::{RecordedHistogram, Recording};

use crate::ui::numbers::two_digits;
use crate::ui::palette;
use crate::ui::settings::{HistogramKind as Kind, HistogramSettings, HistogramView as View};
use crate::ui::text::Text;
use crate::ui::window::Seen;

use ridge::{Ridge, distribution};

/// Points.
const CELL: Vec2 = Vec2::new(330.0, 210.0);
const GAP: f32 = 12.0;
/// Part of a module's units that never answer at which that is worth a word.
const DEAD: f64 = 0.5;
/// A layer's values explode where their root mean square is no finite number, or is beyond this and at least twice as
/// large as at first. Growth alone says nothing: logits begin near 0. Nor does size: inputs may be large.
const TOO_LARGE: f64 = 1e3;
const GROWTH: f64 = 2.0;

pub(super) fn ui(ui: &mut Ui, seen: &mut Seen<'_>) {
    let text = seen.text;
    let Some(focus) = seen.selection.focus(seen.runs) else {
        return super::nothing(ui, text.t("No run is chosen"));
    };
    super::about_run(ui, seen, focus);
    controls(ui, text, &mut seen.settings.histograms);
    let settings = &seen.settings.histograms;
    let shown = if settings.view == View::Overlay { seen.selection.shown(seen.runs) } else { vec![focus] };
    let warnings: Vec<String> = warnings(text, focus);
    if !warnings.is_empty() {
        ScrollArea::vertical().id_salt("warnings").max_height(60.0).show(ui, |ui| {
            for warning in &warnings {
                ui.colored_label(palette::readable(ui, palette::WARN), warning);
            }
        });
    }
    ui.separator();
    let mut tags: BTreeMap<&str, Vec<(&Recording, &[RecordedHistogram])>> = BTreeMap::new();
    for run in shown {
        for (tag, histograms) in run.histograms.iter().filter(|(tag, _)| wants(settings, tag)) {
            tags.entry(tag).or_default().push((run, histograms));
        }
    }
    if tags.is_empty() {
        return super::nothing(
            ui,
            text.t("No histograms yet: they are written after each evaluation, unless --tensorboard=false"),
        );
    }
    let columns = ((ui.available_width() + GAP) / (CELL.x + GAP)).floor().max(1.0) as usize;
    ScrollArea::vertical().auto_shrink([false, false]).show(ui, |ui| {
        Grid::new("histograms").num_columns(columns).spacing([GAP, GAP]).show(ui, |ui| {
            for (number, (tag, of)) in tags.iter().enumerate() {
                cell(ui, seen, tag, of);
                if (number + 1).is_multiple_of(columns) {
                    ui.end_row();
                }
            }
        });
    });
}

fn controls(ui: &mut Ui, text: Text, settings: &mut HistogramSettings) {
    ui.horizontal_wrapped(|ui| {
        for (kind, name) in [
            (Kind::All, text.t("all")),
            (Kind::Weights, text.t("weights")),
            (Kind::Gradients, text.t("gradients")),
            (Kind::Activations, text.t("activations")),
        ] {
            ui.selectable_value(&mut settings.kind, kind, name);
        }
        ui.separator();
        for (view, name) in [
            (View::Offset, text.t("over time")),
            (View::Distribution, text.t("quantiles")),
            (View::Overlay, text.t("runs over each other")),
        ] {
            ui.selectable_value(&mut settings.view, view, name);
        }
        let filter = TextEdit::singleline(&mut settings.filter).desired_width(130.0);
        let filter = ui.add(filter.hint_text(text.t("filter names")));
        filter.on_hover_text(text.t("Draw those whose names contain this"));
    });
}

fn wants(settings: &HistogramSettings, tag: &str) -> bool {
    let starts = match settings.kind {
        Kind::All => "",
        Kind::Weights => "weights/",
        Kind::Gradients => "gradients/",
        Kind::Activations => "activations/",
    };
    tag.starts_with(starts) && tag.to_lowercase().contains(&settings.filter.trim().to_lowercase())
}

fn cell(ui: &mut Ui, seen: &Seen<'_>, tag: &str, of: &[(&Recording, &[RecordedHistogram])]) {
    ui.allocate_ui(CELL, |ui| {
        ui.set_min_size(CELL);
        ui.vertical(|ui| {
            ui.add(egui::Label::new(RichText::new(tag).strong()).truncate());
            if !ui.is_rect_visible(ui.available_rect_before_wrap()) {
                return;
            }
            let lines: Vec<_> = of.iter().map(|(run, all)| (seen.selection.color(&run.folder), *all)).collect();
            match seen.settings.histograms.view {
                View::Offset => Ridge::over_time(lines[0].0, lines[0].1).ui(ui, seen.text),
                View::Distribution => distribution(ui, tag, lines[0].0, lines[0].1),
                View::Overlay => Ridge::overlay(&lines).ui(ui, seen.text),
            }
        });
    });
}

/// What somebody should look at.
fn warnings(text: Text, run: &Recording) -> Vec<String> {
    let mut found = Vec::new();
    for (tag, series) in &run.series {
        let Some(module) = tag.strip_prefix("dead/") else { continue };
        if let Some(last) = series.last().filter(|last| last.value >= DEAD) {
            let part = format!("{:.0} %", 100.0 * last.value);
            found.push(text.f("{}: {} of its units are 0 for every sample that was looked at", &[&module, &part]));
        }
    }
    for (tag, histograms) in &run.histograms {
        let (Some(first), Some(last)) = (histograms.first(), histograms.last()) else { continue };
        let (before, now) = (first.root_mean_square(), last.root_mean_square());
        if explodes(before, now) {
            let sizes = [two_digits(before), two_digits(now)];
            found.push(
                text.f("{} explodes: its values went from {} to {} (root mean square)", &[tag, &sizes[0], &sizes[1]]),
            );
        } else if tag.starts_with("gradients/") && !tag.contains("bias") && now == 0.0 {
            found.push(text.f("{} vanishes: all of its values are 0", &[tag]));
        }
    }
    found
}

fn explodes(before: f64, now: f64) -> bool {
    !now.is_finite() || (now > TOO_LARGE && now >= GROWTH * before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_too_large_and_grows_explodes() {
        assert!(!explodes(5.9e-2, 7.0), "logits of a classifier that has learned");
        assert!(!explodes(5e4, 6e4), "inputs that are large");
        assert!(explodes(3.0, 2e3) && explodes(0.0, 1e30) && explodes(1.0, f64::INFINITY) && explodes(1.0, f64::NAN));
    }
}
