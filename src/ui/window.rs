//! What is in the window, wherever it is shown.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use egui::{CentralPanel, Key, KeyboardShortcut, Modifiers, Panel, RichText, Ui};
use parking_lot::Mutex;

use crate::runs::{Recording, Series, Watcher};
use crate::train::Config;

use super::dropped::{self, Notices};
use super::look::dress;
use super::pages::Pages;
use super::runs::RunList;
use super::selection::Selection;
use super::session::{Ended, Session, Task};
use super::settings::{Language, Page, Settings};
use super::steer::{self, Steering};
use super::text::Text;
use super::top::top;

/// How often run folders are looked at, and thereby how often the window is drawn if nobody touches it.
const LOOK_EVERY: Duration = Duration::from_millis(400);
/// As good as at once; egui draws twice when it is told to draw without any delay.
const SOON: Duration = Duration::from_millis(1);
/// Points; in a narrower window the list of runs is opened by a button.
const NARROW: f32 = 760.0;

/// What the window shows, and what it does first.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Folders with runs, or runs.
    pub roots: Vec<PathBuf>,
    /// What to train; `None` only looks.
    pub train: Option<Box<Config>>,
    /// The run to go on with, by the settings in `train`.
    pub resume: Option<PathBuf>,
    /// Closes it.
    pub closer: Closer,
}

/// Where the window is drawn, once it is.
type Shown = Arc<Mutex<Option<egui::Context>>>;

/// Closes the window from outside, as when Ctrl-C is pressed; its run is saved first.
#[derive(Clone, Debug, Default)]
pub struct Closer {
    asked: Arc<AtomicBool>,
    context: Shown,
}

impl Closer {
    /// Has the run end and save, and the window close once it has.
    pub fn close(&self) {
        self.asked.store(true, Ordering::Relaxed);
        repaint(&self.context)();
    }
}

/// The contents of the window. An application of one's own that uses egui can show them, too.
pub struct Window {
    settings: Settings,
    watcher: Watcher,
    selection: Selection,
    session: Option<Session>,
    /// How the one before it ended.
    ended: Option<Ended>,
    /// Starts once the run that is under way has ended.
    next: Option<Task>,
    steering: Steering,
    pages: Pages,
    /// The folder of the session's run is watched, wherever it is.
    watched: bool,
    /// It was put into focus.
    followed: bool,
    run_list: RunList,
    notices: Notices,
    /// Somebody wants to close it, and is asked whether the run may end.
    closing: bool,
    /// It closes once the run has ended.
    leaving: bool,
    closer: Closer,
    /// Why the window was lost and opened again, until somebody has read it.
    failure: Option<String>,
}

impl fmt::Debug for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Window").field("is_training", &self.is_training()).finish_non_exhaustive()
    }
}

/// What pages see, and may ask for.
pub(super) struct Seen<'a> {
    pub(super) text: Text,
    pub(super) runs: &'a [Recording],
    /// There are more of them, which are not listed.
    pub(super) more_runs: bool,
    pub(super) selection: &'a mut Selection,
    pub(super) settings: &'a mut Settings,
    /// One's own run.
    pub(super) session: Option<&'a Session>,
    pub(super) asks: &'a mut Asks,
}

/// What pages ask for; done after the frame.
#[derive(Default)]
pub(super) struct Asks {
    /// Train this, instead of what is trained now.
    pub(super) start: Option<Task>,
    /// Look at these folders, too.
    pub(super) roots: Vec<PathBuf>,
    /// Tell this, until it was read.
    pub(super) notice: Option<String>,
}

impl Window {
    /// A window that shows what `options` say; training starts at once if they say so.
    pub fn new(options: Options, settings: SavedSettings) -> Self {
        let Options { mut roots, train, resume, closer } = options;
        if let Some(config) = &train {
            roots.push(resume.clone().unwrap_or_else(|| config.out.clone()));
        }
        let watcher = Watcher::new(roots, LOOK_EVERY, repaint(&closer.context));
        let pages = Pages::new(train.as_deref());
        let mut settings = settings.0;
        // it was left there another day; what was asked for is to see runs
        if settings.page == Page::Start {
            settings.page = Page::Curves;
        }
        let task = train.map(|config| match resume {
            Some(folder) => Task::Resume(folder, Some(config)),
            None => Task::New(config),
        });
        let session = task.map(|task| Session::start(task, repaint(&closer.context)));
        Self {
            selection: Selection::remembering(&settings.runs_chosen),
            settings,
            watcher,
            session,
            ended: None,
            next: None,
            steering: Steering::default(),
            pages,
            watched: false,
            followed: false,
            run_list: RunList::default(),
            notices: Notices::default(),
            closing: false,
            leaving: false,
            closer,
            failure: None,
        }
    }

    /// What should be remembered for the next time.
    pub fn settings(&self) -> SavedSettings {
        let mut settings = Settings { runs_chosen: self.selection.to_remember(), ..self.settings.clone() };
        if let Some(report) = self.pages.unkept_benchmark() {
            settings.benchmark = Some(report);
        }
        SavedSettings(settings)
    }

    /// The page that is open.
    pub fn page(&self) -> Page {
        self.settings.page
    }

    /// Opens a page.
    pub fn open_page(&mut self, page: Page) {
        self.settings.page = page;
    }

    /// Speaks this language from now on.
    pub fn speak(&mut self, language: Language) {
        self.settings.language = language;
    }

    /// True while a run of this window goes on.
    pub fn is_training(&self) -> bool {
        self.session.as_ref().is_some_and(Session::is_running)
    }

    /// Has the run of this window end and save, and waits for it.
    pub fn finish(&mut self) {
        if let Some(session) = self.session.take() {
            self.ended = session.finish();
        }
    }

    /// How the run ended that this window had at last; `None` before it [was finished](Self::finish), and where nothing
    /// was trained.
    pub fn ended(&self) -> Option<&Ended> {
        self.ended.as_ref()
    }

    /// To be called when the window is about to be opened again after it failed because of `why`.
    pub(super) fn reopened(&mut self, why: String) {
        *self.closer.context.lock() = None;
        self.failure = Some(why);
    }

    /// True once its [`Closer`], or its user, was told to.
    pub(super) fn is_asked_to_close(&self) -> bool {
        self.leaving || self.closer.asked.load(Ordering::Relaxed)
    }

    /// Points of all curves that were read so far.
    pub fn points(&self) -> usize {
        self.watcher.lock().iter().flat_map(|run| run.series.values()).map(Series::len).sum()
    }

    /// What is done before each frame, and while the window is hidden.
    pub fn logic(&mut self, ctx: &egui::Context) {
        if self.closer.context.lock().replace(ctx.clone()).is_none() {
            dress(ctx);
        }
        if self.closer.asked.swap(false, Ordering::Relaxed) {
            self.leave();
        }
        if self.leaving && !self.is_training() {
            self.finish();
            ctx.send_viewport_cmd(egui::ViewportCommand::Close);
        }
        if !self.is_training()
            && let Some(task) = self.next.take()
        {
            self.start(task);
        }
        if let (Some(session), false) = (&self.session, self.followed) {
            let known = session.known();
            if let (Some(folder), false) = (&known.folder, self.watched) {
                // it may be hidden, or one of very many
                self.watcher.add_root(folder.clone());
                self.watched = true;
            }
            let runs = self.watcher.lock();
            if let Some(run) = known.recording(&runs) {
                self.selection.follow(&runs);
                self.selection.set_focus(&run.folder);
                self.followed = true;
            }
        }
    }

    /// Draws the window.
    pub fn ui(&mut self, ui: &mut Ui) {
        self.logic(&ui.ctx().clone());
        self.shortcuts(ui);
        self.before_closing(ui);
        self.after_failing(ui);
        let mut asks = Asks::default();
        let mut files: Vec<PathBuf> =
            ui.input(|input| input.raw.dropped_files.iter().map(|file| file.path().to_owned()).collect());
        {
            let runs = self.watcher.lock();
            self.selection.follow(&runs);
            let mut seen = Seen {
                text: Text(self.settings.language),
                runs: &runs,
                more_runs: self.watcher.is_cut(),
                selection: &mut self.selection,
                settings: &mut self.settings,
                session: self.session.as_ref(),
                asks: &mut asks,
            };
            let narrow = ui.available_width() < NARROW;
            let mut list_open = seen.settings.list_open.unwrap_or(!narrow);
            Panel::top("tabs").show(ui, |ui| top(ui, &mut seen, narrow, &mut list_open));
            if list_open == narrow || seen.settings.list_open.is_some() {
                seen.settings.list_open = Some(list_open);
            }
            Panel::bottom("steering").show(ui, |ui| {
                self.steering.ui(ui, &mut seen, &mut self.notices);
            });
            if list_open {
                Panel::left("runs")
                    .default_size(230.0)
                    .size_range(140.0..=420.0)
                    .show(ui, |ui| self.run_list.ui(ui, &mut seen));
            }
            CentralPanel::default().show(ui, |ui| {
                let drop = std::mem::take(&mut files);
                self.pages.ui(ui, &mut seen, &drop);
            });
            dropped::hint(ui, &seen);
        }
        for root in asks.roots {
            self.notices.look_for_runs(ui.ctx(), &root);
            self.watcher.add_root(root);
        }
        if let Some(notice) = asks.notice {
            self.notices.say(notice);
        }
        if let Some(task) = asks.start {
            self.settings.page = Page::Curves;
            match &self.session {
                Some(session) if session.is_running() => {
                    session.control().stop();
                    self.next = Some(task);
                }
                _ => self.start(task),
            }
        }
    }

    fn start(&mut self, task: Task) {
        self.finish();
        if let Task::New(config) = &task {
            self.watcher.add_root(config.out.clone());
        }
        (self.watched, self.followed) = (false, false);
        self.session = Some(Session::start(task, repaint(&self.closer.context)));
    }

    fn shortcuts(&mut self, ui: &mut Ui) {
        // Ctrl+0 is egui's, to undo zooming
        const KEYS: [Key; 9] =
            [Key::Num1, Key::Num2, Key::Num3, Key::Num4, Key::Num5, Key::Num6, Key::Num7, Key::Num8, Key::Num9];
        for (key, page) in KEYS.into_iter().zip(Page::ALL) {
            if ui.input_mut(|input| input.consume_shortcut(&KeyboardShortcut::new(Modifiers::COMMAND, key))) {
                self.settings.page = page;
            }
        }
        if ui.input_mut(|input| input.consume_key(Modifiers::NONE, Key::F1)) {
            self.settings.page = Page::About;
        }
        let pressed =
            |key| ui.input_mut(|input| input.consume_shortcut(&KeyboardShortcut::new(Modifiers::COMMAND, key)));
        if pressed(Key::B) {
            let open = self.settings.list_open.unwrap_or(ui.available_width() >= NARROW);
            self.settings.list_open = Some(!open);
        }
        let Some(session) = self.session.as_ref().filter(|session| session.is_running()) else { return };
        if pressed(Key::P) {
            steer::toggle_pause(session.control());
        }
        if pressed(Key::S) {
            self.steering.save(session);
        }
        if pressed(Key::E) {
            self.steering.evaluate(session);
        }
    }

    /// Says why the window is another one than a moment ago.
    fn after_failing(&mut self, ui: &Ui) {
        let Some(why) = &self.failure else { return };
        let text = Text(self.settings.language);
        let answer = egui::Modal::new(egui::Id::unique("failed")).show(ui.ctx(), |ui| {
            ui.set_max_width(480.0);
            ui.heading(text.t("The window was lost and opened again"));
            ui.label(text.t("What trains in it was not disturbed, unless it used the same device."));
            ui.label(RichText::new(why).monospace());
            ui.button(text.t("Close")).clicked()
        });
        if answer.inner || answer.should_close() {
            self.failure = None;
        }
    }

    /// Has the run end and save, and the window close once it has: frames are drawn meanwhile, as that may take long.
    fn leave(&mut self) {
        self.next = None;
        (self.closing, self.leaving) = (false, true);
        if let Some(session) = &self.session {
            session.control().stop();
        }
    }

    /// Closing while something trains asks first, and waits for its end.
    fn before_closing(&mut self, ui: &mut Ui) {
        let context = ui.ctx().clone();
        if !self.is_training() {
            // what was asked has an answer now
            if self.closing {
                self.leave();
                context.request_repaint_after(SOON);
            }
            return;
        }
        if ui.input(|input| input.viewport().close_requested()) {
            context.send_viewport_cmd(egui::ViewportCommand::CancelClose);
            self.closing = !self.leaving;
        }
        if self.leaving {
            self.tell_leaving(&context);
        } else if self.closing {
            self.ask_closing(&context);
        }
    }

    fn tell_leaving(&self, context: &egui::Context) {
        let text = Text(self.settings.language);
        egui::Modal::new(egui::Id::unique("leaving")).show(context, |ui| {
            ui.horizontal(|ui| {
                ui.spinner();
                ui.label(text.t("Saving; the window closes when that is done"));
            });
        });
    }

    fn ask_closing(&mut self, context: &egui::Context) {
        let text = Text(self.settings.language);
        let answer = egui::Modal::new(egui::Id::unique("closing")).show(context, |ui| {
            ui.set_max_width(360.0);
            ui.heading(text.t("Training is going on"));
            ui.label(text.t("Closing ends the run. What was learned is saved, and the run can be resumed."));
            ui.add_space(8.0);
            ui.horizontal(|ui| {
                let close = ui.button(text.t("Save and close")).clicked();
                let stay = ui.button(text.t("Go on training")).clicked();
                (close, stay)
            })
            .inner
        });
        let (close, stay) = answer.inner;
        if close {
            self.leave();
        } else if stay || answer.should_close() {
            self.closing = false;
        }
    }
}

/// What is remembered; opaque, and of use for [`Window::new`] alone.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct SavedSettings(Settings);

fn repaint(context: &Shown) -> impl Fn() + Send + 'static {
    let context = Arc::clone(context);
    move || {
        // not to be held while egui takes its own lock
        let shown = context.lock().clone();
        if let Some(context) = shown {
            context.request_repaint_after(SOON);
        }
    }
}
