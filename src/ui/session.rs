//! One's own run: a thread that trains, and what the window knows of it beside its folder.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::error::{Result, panic_message};
use crate::runs::{Recording, place};
use crate::train::{Config, Control, Event, Summary, Trainer};

/// How long a run may take to save; it does so between two steps.
const SAVING: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A run in this process.
pub(super) struct Session {
    control: Control,
    known: Arc<Mutex<Known>>,
    thread: Option<JoinHandle<()>>,
}

/// How a run in the window ended; an error, or a panic, as text.
pub type Ended = std::result::Result<Box<Summary>, String>;

/// What the training thread tells.
#[derive(Clone, Default)]
pub(super) struct Known {
    /// Where the run is saved, once it has begun.
    pub(super) folder: Option<PathBuf>,
    /// The same, however the folder is named.
    place: Option<PathBuf>,
    /// The last thing that should be known.
    pub(super) notice: Option<String>,
    /// How it ended, if it did.
    pub(super) ended: Option<Ended>,
}

impl Known {
    /// Whether this is the run.
    pub(super) fn is(&self, run: &Recording) -> bool {
        self.place.as_ref() == Some(&run.place)
    }

    /// The run among those that are listed.
    pub(super) fn recording<'a>(&self, runs: &'a [Recording]) -> Option<&'a Recording> {
        runs.iter().find(|run| self.is(run))
    }
}

/// What to train.
pub(super) enum Task {
    /// A new run.
    New(Box<Config>),
    /// The run in this folder goes on, with these settings or its own.
    Resume(PathBuf, Option<Box<Config>>),
}

impl Session {
    /// Starts training on a thread of its own; `changed` is called there when something is known that was not before.
    pub(super) fn start(task: Task, changed: impl Fn() + Send + 'static) -> Self {
        let control = Control::default();
        let known = Arc::new(Mutex::new(Known::default()));
        let (obeyed, told) = (control.clone(), Arc::clone(&known));
        let train = move || {
            // a bug in the trainer must not take the window with it
            let ended = catch_unwind(AssertUnwindSafe(|| train(task, &obeyed, &told, &changed)));
            told.lock().ended = Some(match ended {
                Ok(Ok(summary)) => Ok(Box::new(summary)),
                Ok(Err(error)) => Err(error.to_string()),
                Err(panic) => {
                    let said = panic_message(panic.as_ref()).unwrap_or("it did not say why");
                    Err(format!("the trainer crashed: {said}"))
                }
            });
            changed();
        };
        let thread = std::thread::Builder::new().name("training".into()).spawn(train);
        let thread = match thread {
            Ok(thread) => Some(thread),
            Err(error) => {
                known.lock().ended = Some(Err(format!("no thread to train on: {error}")));
                None
            }
        };
        Self { control, known, thread }
    }

    /// The handle that steers it.
    pub(super) fn control(&self) -> &Control {
        &self.control
    }

    /// What is known by now.
    pub(super) fn known(&self) -> Known {
        self.known.lock().clone()
    }

    /// True until it has ended, and saved.
    pub(super) fn is_running(&self) -> bool {
        self.known.lock().ended.is_none()
    }

    /// Has it save, and waits until it has, for a thread that can wait.
    pub(super) fn saving(&self) -> impl FnOnce() -> std::result::Result<(), String> + Send + 'static {
        let (control, known) = (self.control.clone(), Arc::clone(&self.known));
        move || {
            let (before, start) = (control.saves(), Instant::now());
            control.save();
            // at its end, a run saves in any case
            while control.saves() == before && known.lock().ended.is_none() {
                if start.elapsed() > SAVING {
                    return Err(format!("the run has not saved what it knows within {} s", SAVING.as_secs()));
                }
                std::thread::sleep(LOOK_EVERY);
            }
            Ok(())
        }
    }

    /// Has it end and save, and waits until it has; how it ended.
    pub(super) fn finish(mut self) -> Option<Ended> {
        self.control.stop();
        if let Some(thread) = self.thread.take() {
            // what went wrong in it is among what is known
            let _ = thread.join();
        }
        self.known.lock().ended.take()
    }
}

fn train(task: Task, control: &Control, known: &Mutex<Known>, changed: &dyn Fn()) -> Result<Summary> {
    let mut trainer = match task {
        Task::New(config) => Trainer::new(*config)?,
        Task::Resume(folder, Some(config)) => Trainer::resume(&folder, *config)?,
        Task::Resume(folder, None) => Trainer::resume(&folder, Trainer::config_of(&folder)?)?,
    };
    trainer.add_tensorboard();
    let device = trainer.device().clone();
    device.set_beside_display(true);
    let done = trainer.run(control, &mut |event| {
        match event {
            Event::Started(start) => {
                let place = place(&start.folder);
                let mut known = known.lock();
                (known.folder, known.place) = (Some(start.folder), Some(place));
            }
            Event::Notice { message } | Event::SaveFailed { message } => known.lock().notice = Some(message),
            // the folder says the rest
            _ => return,
        }
        changed();
    });
    device.set_beside_display(false);
    done
}
