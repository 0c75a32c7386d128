//! What colours mean, and words that have to fit.

use std::sync::Arc;

use egui::text::{LayoutJob, TextWrapping};
use egui::{Color32, FontId, Galley, Sense, Ui, Vec2};

/// Points.
const PATCH: f32 = 11.0;

/// Colours with what they stand for, in as many lines as it takes.
pub(super) fn legend(ui: &mut Ui, entries: impl Iterator<Item = (Color32, String)>) {
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing.x = 5.0;
        for (color, name) in entries {
            let (patch, _) = ui.allocate_exact_size(Vec2::splat(PATCH), Sense::hover());
            ui.painter().rect_filled(patch, 2.0, color);
            ui.label(name);
            ui.add_space(6.0);
        }
    });
}

/// A line of text that is no wider than `width`: it ends with `…` where it would be.
pub(super) fn fitted(ui: &Ui, words: String, font: FontId, color: Color32, width: f32) -> Arc<Galley> {
    let mut job = LayoutJob::simple_singleline(words, font, color);
    job.wrap = TextWrapping::truncate_at_width(width);
    ui.painter().layout_job(job)
}
