//! Where the time goes: the ten stages, and the last steps in time.

mod timeline;

use egui::{Align2, FontId, Grid, Rect, RichText, Role, ScrollArea, Sense, Ui, Vec2, WidgetInfo};

use crate::runs::Recording;
use crate::train::record::Status;
use crate::train::{Binding, StageReport, what_binds};

use crate::ui::palette;
use crate::ui::text::Text;
use crate::ui::window::Seen;

use timeline::TimelineView;

/// Points: the least width of a bar, and its height.
const BAR: Vec2 = Vec2::new(150.0, 16.0);
/// Points; what the other columns of the table take, in the longer language.
const OTHER_COLUMNS: f32 = 640.0;

/// What the page remembers.
#[derive(Default)]
pub(super) struct Stages {
    timeline: TimelineView,
}

impl Stages {
    pub(super) fn ui(&mut self, ui: &mut Ui, seen: &mut Seen<'_>) {
        let text = seen.text;
        let Some(run) = seen.selection.focus(seen.runs) else {
            return super::nothing(ui, text.t("No run is chosen"));
        };
        super::about_run(ui, seen, run);
        let Some(status) = run.status.as_ref().filter(|status| !status.stages.is_empty()) else {
            return super::nothing(ui, text.t("This run has not recorded where its time goes"));
        };
        self.timeline.follow(run);
        ScrollArea::vertical().auto_shrink([false, false]).show(ui, |ui| {
            let said = what_binds(&status.stages).map(|binding| in_words(text, &binding));
            ui.label(RichText::new(said.unwrap_or_else(|| text.t("nothing was run").to_owned())).size(16.0).strong());
            ui.add_space(6.0);
            ScrollArea::horizontal()
                .auto_shrink([false, true])
                .show(ui, |ui| bars(ui, text, &status.stages, steps_of_process(run, status)));
            ui.add_space(12.0);
            ui.horizontal(|ui| {
                ui.heading(text.t("The last steps"));
                self.timeline.controls(ui, text);
            });
            if status.timeline.lanes.is_empty() {
                ui.weak(text.t("nothing was recorded"));
            } else {
                self.timeline.ui(ui, text, &status.timeline);
            }
        });
    }
}

/// The steps whose stages were measured: those since the run was started, or went on from a checkpoint.
fn steps_of_process(run: &Recording, status: &Status) -> u64 {
    let before = run.run.as_ref().map_or(0, |record| record.start.steps_done as u64);
    status.step.saturating_sub(before).max(1)
}

/// What binds the run, and what to try.
fn in_words(text: Text, binding: &Binding) -> String {
    let said = text.of(binding.said, &[&binding.percent(), &text.t(binding.stage.name())]);
    text.f("{}: try {}", &[&said, &text.any(binding.advice)])
}

fn bars(ui: &mut Ui, text: Text, stages: &[StageReport], steps: u64) {
    let longest = stages.iter().map(|stage| stage.busy_ms.max(stage.exposed_ms)).fold(1e-9, f64::max);
    let width = (ui.available_width() - OTHER_COLUMNS).max(BAR.x);
    Grid::new("stages").num_columns(6).striped(true).spacing([14.0, 5.0]).show(ui, |ui| {
        for title in [
            text.t("stage"),
            text.t("busy, and waited for"),
            text.t("busy ms a step"),
            text.t("waited ms a step"),
            text.t("share"),
            text.t("where, known by"),
        ] {
            ui.weak(title);
        }
        ui.end_row();
        for stage in stages {
            let color = palette::of_stage(stage.stage);
            ui.colored_label(palette::readable(ui, color), text.t(stage.stage.name()));
            bar(ui, text, stage, longest, width);
            let each = |ms: f64| format!("{:.3}", ms / steps as f64);
            ui.monospace(each(stage.busy_ms));
            ui.monospace(each(stage.exposed_ms));
            ui.monospace(format!("{:>5.1} %", 100.0 * stage.share));
            match stage.source {
                Some(source) => ui.label(format!("{}, {}", stage.device, text.t(source.name()))),
                None => ui.weak(text.t("did not run")),
            };
            ui.end_row();
        }
    });
}

/// Busy time as a pale bar, exposed time as a full one on it.
fn bar(ui: &mut Ui, text: Text, stage: &StageReport, longest: f64, width: f32) {
    let color = palette::of_stage(stage.stage);
    let (area, response) = ui.allocate_exact_size(Vec2::new(width, BAR.y), Sense::hover());
    let part = |ms: f64, height: f32| {
        let width = (ms / longest) as f32 * area.width();
        Rect::from_min_size(area.left_center() - Vec2::new(0.0, height / 2.0), Vec2::new(width, height))
    };
    ui.painter().rect_filled(part(stage.busy_ms, BAR.y), 2.0, color.gamma_multiply(0.35));
    ui.painter().rect_filled(part(stage.exposed_ms, BAR.y - 6.0), 2.0, color);
    if stage.source.is_none() {
        let (font, weak) = (FontId::proportional(11.0), ui.visuals().weak_text_color());
        ui.painter().text(area.left_center(), Align2::LEFT_CENTER, "–", font, weak);
    }
    let busy = format!("{:.1}", stage.busy_ms);
    let exposed = format!("{:.1}", stage.exposed_ms);
    let said = text.f("{} ms of work in all; training waited {} ms for it", &[&busy, &exposed]);
    let name = format!("{}: {said}", text.t(stage.stage.name()));
    response.widget_info(|| WidgetInfo::labeled(Role::Image, true, &name));
    response.on_hover_text(said);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_before_a_run_went_on_are_not_counted() {
        let recorded = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ui/recorded");
        let mut run = Recording::open(&recorded);
        let status = run.status.clone().expect("it was recorded");
        assert_eq!(steps_of_process(&run, &status), status.step);
        run.run.as_mut().expect("it was recorded").start.steps_done = status.step as usize - 30;
        assert_eq!(steps_of_process(&run, &status), 30);
        // it went on, and has not said more yet
        run.run.as_mut().expect("it was recorded").start.steps_done = status.step as usize;
        assert_eq!(steps_of_process(&run, &status), 1);
    }
}
