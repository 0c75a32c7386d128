//! What this is.

use egui::{Grid, RichText, ScrollArea, Ui};

use crate::ui::palette;
use crate::ui::window::Seen;

pub(super) fn ui(ui: &mut Ui, seen: &mut Seen<'_>) {
    let text = seen.text;
    ScrollArea::vertical().auto_shrink([false, false]).show(ui, |ui| {
        ui.add_space(12.0);
        ui.label(RichText::new("brasa").size(34.0).strong().color(palette::readable(ui, palette::EMBER)));
        ui.label(format!("{} {}", text.t("version"), env!("CARGO_PKG_VERSION")));
        ui.add_space(8.0);
        ui.label(text.t(
            "Trains and runs neural networks on whatever GPU the machine has: every tensor op and every gradient is a WGSL \
             compute kernel, run through wgpu on Vulkan, Metal or DX12, with a native CPU backend beside it.",
        ));
        ui.label(text.t("The name is Portuguese for ember."));
        ui.label(text.t("Licence: MIT or Apache-2.0, as you like. The bundled digits are the UCI's, CC BY 4.0."));
        ui.add_space(16.0);
        ui.heading(text.t("Keys"));
        Grid::new("keys").num_columns(2).spacing([24.0, 6.0]).show(ui, |ui| {
            let mut row = |keys: &str, what: &str| {
                ui.monospace(keys);
                ui.label(what);
                ui.end_row();
            };
            row("Ctrl+1 … Ctrl+9", text.t("open a page"));
            row("F1", text.t("open this page"));
            row("Ctrl+B", text.t("show or hide the list of runs"));
            row("Ctrl+P", text.t("pause, or go on"));
            row("Ctrl+S", text.t("write a checkpoint"));
            row("Ctrl+E", text.t("evaluate now"));
            row("Ctrl++  Ctrl+-  Ctrl+0", text.t("larger, smaller, as it was"));
        });
        ui.add_space(16.0);
        ui.heading(text.t("Files"));
        ui.label(text.t(
            "All that is shown is read from run folders: metrics.jsonl, status.json, plan.json, predictions.json and \
             TensorBoard event files, which other programs can read, too.",
        ));
    });
}
