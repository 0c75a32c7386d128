//! The bar at the bottom: how one's own run is getting on, and what can be done about it.

use std::path::PathBuf;

use egui::{Button, Color32, DragValue, ProgressBar, RichText, Ui};

use crate::runs::{RecordedState, Recording, Series};
use crate::train::Control;
use crate::train::record::Status;
use crate::units::{bytes, thousands};

use super::numbers::{duration, number};
use super::palette;
use super::session::{Fetching, Known, Session, Task};
use super::text::Text;
use super::window::Seen;

/// Points.
const BAR: f32 = 140.0;

/// What the bar remembers between frames.
#[derive(Default)]
pub(super) struct Steering {
    /// The run that the bar is about.
    folder: Option<PathBuf>,
    /// The factor for the learning rate that was asked for, until the run says that it has it.
    asked: Option<f64>,
}

/// Pauses the run, or lets it go on.
pub(super) fn toggle_pause(control: &Control) {
    if control.pausing() {
        control.resume();
    } else {
        control.pause();
    }
}

impl Steering {
    pub(super) fn ui(&mut self, ui: &mut Ui, seen: &mut Seen<'_>) {
        ui.add_space(3.0);
        match seen.session {
            Some(session) => {
                let known = session.known();
                let own = known.recording(seen.runs);
                let status = own.and_then(|run| run.status.as_ref());
                let rate = own.and_then(|run| run.series.get("learning_rate")).and_then(Series::last);
                self.follow(&known, status);
                ui.horizontal_wrapped(|ui| {
                    self.buttons(ui, seen.text, session, status);
                    if let Some(rate) = rate {
                        ui.label(seen.text.f("= {}", &[&number(rate.value, rate.value)]))
                            .on_hover_text(seen.text.t("The learning rate of the last step that was reported"));
                    }
                    progress(ui, seen.text, &known, session, own.zip(status));
                });
                message(ui, seen.text, &known);
            }
            None => of_others(ui, seen),
        }
        go_on(ui, seen);
        ui.add_space(2.0);
    }

    fn buttons(&mut self, ui: &mut Ui, text: Text, session: &Session, status: Option<&Status>) {
        let control = session.control();
        let running = session.is_running();
        let enabled = running && !control.stopping();
        let pause = if control.pausing() { text.t("Resume") } else { text.t("Pause") };
        if ui.add_enabled(enabled, Button::new(pause)).on_hover_text("Ctrl+P").clicked() {
            toggle_pause(control);
        }
        let stop = ui.add_enabled(enabled, Button::new(text.t("Stop")));
        if stop.on_hover_text(text.t("Ends the run after this step, and saves it")).clicked() {
            control.stop();
        }
        let save = ui.add_enabled(enabled, Button::new(text.t("Save")));
        if save.on_hover_text(text.t("Writes a checkpoint now (Ctrl+S)")).clicked() {
            control.save();
        }
        let evaluate = ui.add_enabled(enabled, Button::new(text.t("Evaluate")));
        if evaluate.on_hover_text(text.t("Judges the held-out samples now (Ctrl+E)")).clicked() {
            control.evaluate();
        }
        let label = ui.label(text.t("Learning rate ×"));
        let mut factor = self.asked.or(status.map(|status| status.learning_rate_factor)).unwrap_or(1.0);
        let drag = DragValue::new(&mut factor).range(1e-4..=1e4).speed(0.01).max_decimals(4);
        let drag = ui.add_enabled(enabled, drag).labelled_by(label.id);
        let drag =
            drag.on_hover_text(text.t("What the schedule's learning rate is multiplied by from the next step on"));
        if drag.changed() {
            control.set_learning_rate_factor(factor);
            self.asked = Some(factor);
        }
    }

    /// Forgets what was asked for once the run has it, has ended, or is another one.
    fn follow(&mut self, known: &Known, status: Option<&Status>) {
        let has_it =
            |asked: f64| status.is_some_and(|status| (status.learning_rate_factor - asked).abs() <= 1e-9 * asked.abs());
        if self.folder != known.folder || known.ended.is_some() || self.asked.is_some_and(has_it) {
            self.asked = None;
        }
        self.folder.clone_from(&known.folder);
    }
}

fn progress(ui: &mut Ui, text: Text, known: &Known, session: &Session, own: Option<(&Recording, &Status)>) {
    let Some((run, status)) = own else {
        match &known.fetching {
            Some(Fetching { file, done, total }) => {
                let said = text.f("fetching {}: {} of {}", &[file, &bytes(*done), &bytes(*total)]);
                bar(ui, *done as f32 / (*total).max(1) as f32, said);
            }
            None if session.is_running() => {
                ui.spinner();
                ui.label(text.t("opening the data and the device"));
            }
            None => {}
        }
        return;
    };
    let part = if status.steps > 0 { status.step as f32 / status.steps as f32 } else { 0.0 };
    bar(ui, part, how_far(text, run, status));
    if known.ended.is_none() {
        if session.control().stopping() {
            ui.label(text.t("saving"));
        } else if session.control().pausing() {
            ui.label(RichText::new(text.t("paused")).strong());
        } else {
            ui.label(text.f("{} left", &[&duration(status.left_s)]));
        }
    }
    ui.label(text.f("{} in use", &[&bytes(status.memory_bytes)]));
}

/// A bar of which this part is done, and what it says beside it: words on it would have two grounds.
fn bar(ui: &mut Ui, part: f32, said: String) {
    let bar = ProgressBar::new(part).desired_width(BAR).fill(palette::EMBER.gamma_multiply(0.8));
    ui.add(bar).accessible_name(&said);
    ui.label(said);
}

/// Epochs and steps that are done, of how many.
fn how_far(text: Text, run: &Recording, status: &Status) -> String {
    let (step, steps) = (thousands(status.step), thousands(status.steps));
    // runs of other programs, and old ones, may have no settings
    let epochs = run.config.as_ref().and_then(|config| config.get("epochs")?.as_integer());
    match epochs {
        Some(epochs) => {
            let (epoch, epochs) = (thousands(status.epoch), thousands(epochs));
            text.f("epoch {} of {}, step {} of {}", &[&epoch, &epochs, &step, &steps])
        }
        None => text.f("epoch {}, step {} of {}", &[&thousands(status.epoch), &step, &steps]),
    }
}

fn message(ui: &mut Ui, text: Text, known: &Known) {
    match (&known.ended, &known.notice) {
        (Some(Err(error)), _) => {
            ui.colored_label(palette::BAD, text.f("The run failed: {}", &[error]));
        }
        (Some(Ok(summary)), _) => {
            let score = summary.test.map(|test| format!("{:.2} %", 100.0 * test.score())).unwrap_or_default();
            let line = match (&summary.stopped, summary.completed) {
                (Some(reason), _) => text.f("Stopped: {}. Test score {}", &[reason, &score]),
                (None, true) => text.f("Done. Test score {}, saved in {}", &[&score, &summary.folder.display()]),
                (None, false) => text.f("Stopped and saved in {}", &[&summary.folder.display()]),
            };
            ui.add(egui::Label::new(line).truncate());
        }
        (None, Some(notice)) => {
            ui.add(egui::Label::new(RichText::new(notice).weak()).truncate());
        }
        (None, None) => {}
    }
}

/// Where nothing trains: lets the run in focus go on if it ended before its time.
fn go_on(ui: &mut Ui, seen: &mut Seen<'_>) {
    if seen.session.is_some_and(Session::is_running) {
        return;
    }
    let Some(run) = seen.selection.focus(seen.runs).filter(|run| run.state().is_unfinished()) else { return };
    let button = ui.button(seen.text.f("Go on with {}", &[&run.name]));
    if button
        .on_hover_text(seen.text.t("Resumes the run from its last checkpoint, as brasa train --resume does"))
        .clicked()
    {
        seen.asks.start = Some(Task::Resume(run.folder.clone(), None));
    }
}

/// Where the window only looks: how the run in focus is.
fn of_others(ui: &mut Ui, seen: &Seen<'_>) {
    let Some(run) = seen.selection.focus(seen.runs) else {
        ui.label(seen.text.t("No run here yet. Start one on the first page, or drop a folder of runs on the window."));
        return;
    };
    ui.horizontal_wrapped(|ui| {
        ui.add(egui::Label::new(RichText::new(&run.name).strong()).truncate());
        ui.label(state(seen.text, run));
        if let Some(status) = &run.status {
            ui.label(how_far(seen.text, run, status));
        }
    });
}

/// How a run is, in words.
pub(super) fn state(text: Text, run: &Recording) -> RichText {
    let (word, color) = match run.state() {
        RecordedState::Running => (text.t("running"), palette::GOOD),
        RecordedState::Paused => (text.t("paused"), palette::WARN),
        RecordedState::Completed => (text.t("done"), palette::GOOD),
        RecordedState::Stopped => (text.t("stopped"), palette::WARN),
        RecordedState::Failed => (text.t("failed"), palette::BAD),
        RecordedState::Silent { .. } => (text.t("gone without an end"), palette::BAD),
        RecordedState::Foreign => (text.t("of another program"), Color32::GRAY),
    };
    RichText::new(word).color(color)
}
