//! The list of runs at the left: which are drawn, in which colour, and which one is looked at.

use egui::{Color32, Label, RichText, ScrollArea, Sense, Ui, Vec2};

use crate::runs::{RecordedState, Recording};

use super::numbers::score;
use super::palette;
use super::path_field::PathField;
use super::window::Seen;

/// Rows of the list, in points.
const ROW: f32 = 24.0;

/// What the list remembers.
#[derive(Default)]
pub(super) struct RunList {
    path: PathField,
    /// The path can be typed.
    opening: bool,
}

impl RunList {
    pub(super) fn ui(&mut self, ui: &mut Ui, seen: &mut Seen<'_>) {
        let text = seen.text;
        ui.add_space(4.0);
        ui.horizontal(|ui| {
            head(ui, seen);
            let open = ui.toggle_value(&mut self.opening, "+").accessible_name(text.t("further runs"));
            open.on_hover_text(text.t("Look at the runs in a further folder; it can be dropped on the window as well"));
        });
        if self.opening {
            let asked = ui.horizontal_wrapped(|ui| self.path.ui(ui, text, text.t("folder of runs")));
            if let Some(folder) = asked.inner {
                seen.asks.roots.push(folder);
                self.opening = false;
            }
        }
        ui.separator();
        list(ui, seen);
    }
}

fn head(ui: &mut Ui, seen: &mut Seen<'_>) {
    ui.strong(seen.text.t("Runs"));
    ui.weak(seen.runs.len().to_string());
    let all = seen.runs.iter().all(|run| seen.selection.is_shown(&run.folder));
    let label = if all { seen.text.t("none") } else { seen.text.t("all") };
    if ui.small_button(label).on_hover_text(seen.text.t("Draw all runs, or none")).clicked() {
        seen.runs.iter().for_each(|run| seen.selection.show(&run.folder, !all));
    }
}

fn list(ui: &mut Ui, seen: &mut Seen<'_>) {
    if seen.runs.is_empty() {
        ui.weak(seen.text.t("No runs yet"));
    }
    if seen.more_runs {
        ui.weak(seen.text.t("There are too many to list all of them; these are the newest"));
    }
    // newest first
    ScrollArea::vertical().auto_shrink([false, false]).show_rows(ui, ROW, seen.runs.len(), |ui, rows| {
        for row in rows {
            let run = &seen.runs[seen.runs.len() - 1 - row];
            entry(ui, seen, run);
        }
    });
}

fn entry(ui: &mut Ui, seen: &mut Seen<'_>, run: &Recording) {
    ui.horizontal(|ui| {
        ui.set_height(ROW - ui.spacing().item_spacing.y);
        let mut shown = seen.selection.is_shown(&run.folder);
        let color = seen.selection.color(&run.folder);
        let name = seen.text.f("Draw {}", &[&run.name]);
        let check = ui.add(egui::Checkbox::without_text(&mut shown)).accessible_name(name);
        if check.changed() {
            seen.selection.show(&run.folder, shown);
        }
        if check.on_hover_text(seen.text.t("Double click: draw this one alone")).double_clicked() {
            seen.selection.show_only(&run.folder);
        }
        let mut chosen = color;
        let button = ui.scope(|ui| {
            ui.spacing_mut().interact_size = Vec2::splat(14.0);
            egui::color_picker::color_edit_button_srgba(ui, &mut chosen, egui::color_picker::Alpha::Opaque)
        });
        let name = seen.text.f("colour of {}", &[&run.name]);
        if button.inner.accessible_name(name).changed() {
            seen.selection.set_color(&run.folder, chosen);
        }
        let focused = seen.selection.focus(seen.runs).is_some_and(|focus| focus.folder == run.folder);
        let text = RichText::new(&run.name);
        let text = if focused { text.strong() } else { text };
        let (dot, _) = ui.allocate_exact_size(Vec2::splat(8.0), Sense::hover());
        ui.painter().circle_filled(dot.center(), 3.5, light(run));
        let label = ui.add(Label::new(text).truncate().sense(Sense::click()));
        let label = label.on_hover_ui(|ui| details(ui, seen, run));
        if label.clicked() {
            seen.selection.set_focus(&run.folder);
        }
    });
}

fn light(run: &Recording) -> Color32 {
    match run.state() {
        RecordedState::Running => palette::GOOD,
        RecordedState::Paused | RecordedState::Stopped => palette::WARN,
        RecordedState::Failed | RecordedState::Silent { .. } => palette::BAD,
        RecordedState::Completed | RecordedState::Foreign => Color32::GRAY,
    }
}

fn details(ui: &mut Ui, seen: &Seen<'_>, run: &Recording) {
    ui.set_max_width(420.0);
    ui.label(RichText::new(&run.name).strong());
    ui.label(super::steer::state(ui, seen.text, run));
    if let Some(record) = &run.run {
        ui.label(seen.text.f("{} on {}, {}", &[&record.start.model, &record.start.dataset, &record.start.device]));
    }
    if let Some(best) = run.best() {
        ui.label(seen.text.f("best score {}", &[&score(best, run.regresses())]));
    }
    ui.weak(run.folder.display().to_string());
    for problem in &run.problems {
        ui.colored_label(palette::readable(ui, palette::WARN), problem);
    }
}
