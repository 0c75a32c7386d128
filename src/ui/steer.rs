//! The bar at the bottom: how one's own run is getting on, and what can be done about it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use egui::{Align, Button, Color32, DragValue, Label, Layout, RichText, TextStyle, Ui, Vec2};

use crate::runs::{RecordedState, Recording, Series};
use crate::train::record::Status;
use crate::train::{Control, HeldOut, TestMetrics, last_saved};
use crate::units::{bytes, thousands};

use super::dropped::Notices;
use super::numbers::{duration, number, score};
use super::pages::run_name;
use super::palette;
use super::progress::progress as progress_bar;
use super::session::{Fetching, Known, NoEnd, Session, Task};
use super::text::Text;
use super::window::Seen;

/// Points.
const BAR: f32 = 140.0;
/// For how long it is said what became of what was asked for.
const SAID: Duration = Duration::from_secs(8);
/// How often it is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What the bar remembers between frames.
#[derive(Default)]
pub(super) struct Steering {
    /// The run that the bar is about.
    folder: Option<PathBuf>,
    /// The factor for the learning rate that was asked for, until the run says that it has it.
    asked: Option<f64>,
    /// What else was asked for at last.
    request: Option<Request>,
    /// A run that ended before its time, in a version of its recording, and whether it has a checkpoint.
    unfinished: Option<(PathBuf, u64, bool)>,
}

/// What was asked of the run by a button or a key, until what became of it was said for a while.
enum Request {
    /// When it had saved so often, and failed to so often.
    Save { saves: u64, failures: u64 },
    /// When it had judged the held-out samples so often.
    Evaluate { evaluations: u64 },
    /// It was saved after so many steps,
    Saved(u64, Instant),
    /// and judged.
    Evaluated(Instant),
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
    /// Has the run save, and says when it has.
    pub(super) fn save(&mut self, session: &Session) {
        let (saves, failures) = (session.control().saves(), session.known().failures);
        session.control().save();
        self.request = Some(Request::Save { saves, failures });
    }

    /// Has the run judge the held-out samples, and says when it has.
    pub(super) fn evaluate(&mut self, session: &Session) {
        let evaluations = session.known().evaluations;
        session.control().evaluate();
        self.request = Some(Request::Evaluate { evaluations });
    }

    pub(super) fn ui(&mut self, ui: &mut Ui, seen: &mut Seen<'_>, notices: &mut Notices) {
        ui.add_space(3.0);
        let known = seen.session.map(Session::known);
        match seen.session.zip(known.as_ref()) {
            Some((session, known)) => {
                let own = known.recording(seen.runs);
                let status = own.and_then(|run| run.status.as_ref());
                let rate = own.and_then(|run| run.series.get("learning_rate")).and_then(Series::last);
                self.follow(known, status);
                self.look(ui, session, known);
                ui.horizontal_wrapped(|ui| {
                    self.buttons(ui, seen.text, session, status);
                    if let Some(rate) = rate {
                        ui.label(seen.text.f("= {}", &[&number(rate.value, rate.value)]))
                            .on_hover_text(seen.text.t("The learning rate of the last step that was reported"));
                    }
                    progress(ui, seen.text, known, session, own.zip(status));
                });
            }
            None => of_others(ui, seen),
        }
        // it is there with and without anything to say, so that no button moves when something is said
        let size = Vec2::new(ui.available_width(), ui.spacing().interact_size.y);
        ui.allocate_ui_with_layout(size, Layout::left_to_right(Align::Center), |ui| {
            ui.set_min_size(size);
            self.line(ui, seen, known.as_ref(), notices);
        });
        if let Some(Err(NoEnd::Failed(error))) = known.as_ref().and_then(|known| known.ended.as_ref()) {
            let words = seen.text.f("The run failed: {}", &[error]);
            ui.colored_label(palette::readable(ui, palette::BAD), words);
        }
        ui.add_space(2.0);
    }

    /// Which run this is about, and what there is to say.
    fn line(&mut self, ui: &mut Ui, seen: &mut Seen<'_>, known: Option<&Known>, notices: &mut Notices) {
        if let Some(run) = known.and_then(|known| known.recording(seen.runs)) {
            run_name(ui, seen, run);
        }
        self.go_on(ui, seen);
        let words = known.and_then(|known| self.in_words(seen.text, known));
        if let Some(words) = words {
            // side by side with a notice, each has half of the line
            let room = ui.available_width() / if notices.is_empty() { 1.0 } else { 2.0 };
            ui.scope(|ui| {
                ui.set_max_width(room);
                ui.add(Label::new(words).truncate());
            });
        }
        notices.ui(ui, seen.text);
    }

    /// Whether what was asked for was done.
    fn look(&mut self, ui: &Ui, session: &Session, known: &Known) {
        let now = Instant::now();
        let done = match self.request {
            Some(Request::Save { saves, failures }) if session.control().saves() > saves => {
                // what went wrong is a notice
                let saved = known.folder.as_deref().and_then(last_saved).filter(|_| known.failures == failures);
                saved.map(|steps| Request::Saved(steps, now))
            }
            Some(Request::Evaluate { evaluations }) if known.evaluations > evaluations => Some(Request::Evaluated(now)),
            Some(Request::Saved(_, since) | Request::Evaluated(since)) if since.elapsed() > SAID => None,
            _ if known.ended.is_some() => None,
            Some(_) => return ui.ctx().request_repaint_after(LOOK_EVERY),
            None => return,
        };
        self.request = done;
    }

    fn buttons(&mut self, ui: &mut Ui, text: Text, session: &Session, status: Option<&Status>) {
        let control = session.control();
        let running = session.is_running();
        let enabled = running && !control.stopping();
        let words = [text.t("Pause"), text.t("Resume")];
        let pause = Button::new(words[usize::from(control.pausing())]).min_size(Vec2::new(widest(ui, words), 0.0));
        if ui.add_enabled(enabled, pause).on_hover_text("Ctrl+P").clicked() {
            toggle_pause(control);
        }
        let stop = ui.add_enabled(enabled, Button::new(text.t("Stop")));
        if stop.on_hover_text(text.t("Ends the run after this step, and saves it")).clicked() {
            control.stop();
        }
        let save = ui.add_enabled(enabled, Button::new(text.t("Save")));
        if save.on_hover_text(text.t("Writes a checkpoint now (Ctrl+S)")).clicked() {
            self.save(session);
        }
        let evaluate = ui.add_enabled(enabled, Button::new(text.t("Evaluate")));
        if evaluate.on_hover_text(text.t("Judges the held-out samples now (Ctrl+E)")).clicked() {
            self.evaluate(session);
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
        if self.folder != known.folder {
            self.request = None;
        }
        self.folder.clone_from(&known.folder);
    }
}

/// The score of an evaluation.
fn of_test(test: &TestMetrics) -> String {
    score(test.score(), test.regression().is_some())
}

impl Steering {
    /// What is said of one's own run.
    fn in_words(&self, text: Text, known: &Known) -> Option<RichText> {
        let words = match (&known.ended, &self.request) {
            (Some(Err(NoEnd::Failed(_))), _) => return None,
            (Some(Err(NoEnd::Stopped(what))), _) => text.f("The run did not begin: {}", &[what]),
            (Some(Ok(summary)), _) => {
                let score = summary.test.as_ref().map(of_test).unwrap_or_default();
                let score = match summary.test.map(|test| test.part) {
                    Some(HeldOut::Validation) => text.f("Validation score {}", &[&score]),
                    _ => text.f("Test score {}", &[&score]),
                };
                match (&summary.stopped, summary.completed) {
                    (Some(reason), _) => text.f("Stopped: {}. {}", &[reason, &score]),
                    (None, true) => text.f("Done. {}, saved in {}", &[&score, &summary.folder.display()]),
                    (None, false) => text.f("Stopped and saved in {}", &[&summary.folder.display()]),
                }
            }
            (None, Some(Request::Save { .. })) => text.t("saving").to_owned(),
            (None, Some(Request::Evaluate { .. })) => text.t("evaluating…").to_owned(),
            (None, Some(Request::Saved(steps, _))) => text.f("saved step {}", &[&thousands(*steps)]),
            (None, Some(Request::Evaluated(_))) => {
                let (step, test) = known.evaluated.as_ref()?;
                text.f("evaluated after step {}: {}", &[&thousands(*step), &of_test(test)])
            }
            (None, None) => return known.notice.as_ref().map(|notice| RichText::new(notice).weak()),
        };
        Some(RichText::new(words))
    }

    /// Where nothing trains: lets the run in focus go on if it ended before its time, and has a checkpoint.
    fn go_on(&mut self, ui: &mut Ui, seen: &mut Seen<'_>) {
        if seen.session.is_some_and(Session::is_running) {
            return;
        }
        let Some(run) = seen.selection.focus(seen.runs).filter(|run| run.state().is_unfinished()) else { return };
        if !self.has_checkpoint(&run.folder, run.version) {
            return;
        }
        let button = ui.button(seen.text.f("Go on with {}", &[&run.name]));
        let hint = seen.text.t("Resumes the run from its last checkpoint, as brasa train --resume does");
        if button.on_hover_text(hint).clicked() {
            seen.asks.start = Some(Task::Resume(run.folder.clone(), None));
        }
    }

    /// Looked up anew when the run has changed, and not with each frame.
    fn has_checkpoint(&mut self, run: &Path, version: u64) -> bool {
        match &self.unfinished {
            Some((of, when, has)) if of == run && *when == version => *has,
            _ => {
                let has = last_saved(run).is_some();
                self.unfinished = Some((run.to_owned(), version, has));
                has
            }
        }
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
            // before the first steps nothing is known
            let left = if status.left_s > 0.0 || status.step >= status.steps { status.left_s } else { f64::NAN };
            ui.label(text.f("{} left", &[&duration(left)]));
        }
    }
    ui.label(text.f("{} in use", &[&bytes(status.memory_bytes)]));
}

/// A bar of which this part is done, and what it says beside it: words on it would have two grounds.
fn bar(ui: &mut Ui, part: f32, said: String) {
    progress_bar(ui, part, BAR, palette::EMBER.gamma_multiply(0.8)).accessible_name(&said);
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

/// What a button takes with the widest of these words on it.
fn widest(ui: &Ui, words: [&str; 2]) -> f32 {
    let font = TextStyle::Button.resolve(ui.style());
    let width = |words: &str| ui.painter().layout_no_wrap(words.into(), font.clone(), Color32::WHITE).size().x;
    words.map(width).into_iter().fold(0.0, f32::max) + 2.0 * ui.spacing().button_padding.x
}

/// Where the window only looks: how the run in focus is.
fn of_others(ui: &mut Ui, seen: &Seen<'_>) {
    let Some(run) = seen.selection.focus(seen.runs) else {
        ui.label(seen.text.t("No run here yet. Start one on the first page, or drop a folder of runs on the window."));
        return;
    };
    ui.horizontal_wrapped(|ui| {
        ui.add(Label::new(RichText::new(&run.name).strong()).truncate());
        ui.label(state(ui, seen.text, run));
        if let Some(status) = &run.status {
            ui.label(how_far(seen.text, run, status));
        }
    });
}

/// How a run is, in words.
pub(super) fn state(ui: &Ui, text: Text, run: &Recording) -> RichText {
    let (word, color) = match run.state() {
        RecordedState::Running => (text.t("running"), palette::GOOD),
        RecordedState::Paused => (text.t("paused"), palette::WARN),
        RecordedState::Completed => (text.t("done"), palette::GOOD),
        RecordedState::Stopped => (text.t("stopped"), palette::WARN),
        RecordedState::Failed => (text.t("failed"), palette::BAD),
        RecordedState::Silent { .. } => (text.t("gone without an end"), palette::BAD),
        RecordedState::Foreign => (text.t("of another program"), Color32::GRAY),
    };
    RichText::new(word).color(palette::readable(ui, color))
}
