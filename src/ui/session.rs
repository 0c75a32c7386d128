//! One's own run: a thread that trains, and what the window knows of it beside its folder.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::data::{self, Progress};
use crate::error::{Error, Result, panic_message};
use crate::runs::{Recording, place};
use crate::train::{Config, Control, Event, Summary, TestMetrics, Trainer};

/// How long a run may take to save; it does so between two steps, or two batches of an evaluation.
const SAVING: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often the window hears how far a transfer is.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// A run in this process.
pub(super) struct Session {
    control: Control,
    known: Arc<Mutex<Known>>,
    thread: Option<JoinHandle<()>>,
}

/// How a run in the window ended.
pub type Ended = std::result::Result<Box<Summary>, NoEnd>;

/// Why a run in the window came to no end of its own.
#[derive(Clone, Debug)]
pub enum NoEnd {
    /// Its user stopped it before it began; what there is of it by then.
    Stopped(String),
    /// An error, or a panic, as text.
    Failed(String),
}

/// What the training thread tells.
#[derive(Clone, Default)]
pub(super) struct Known {
    /// Where the run is saved, once it has begun.
    pub(super) folder: Option<PathBuf>,
    /// The same, however the folder is named.
    place: Option<PathBuf>,
    /// The file that is being fetched for it.
    pub(super) fetching: Option<Fetching>,
    /// The last thing that should be known.
    pub(super) notice: Option<String>,
    /// How often the held-out samples were judged, and after which step and how well at last.
    pub(super) evaluations: u64,
    pub(super) evaluated: Option<(usize, TestMetrics)>,
    /// How often something could not be saved.
    pub(super) failures: u64,
    /// How it ended, if it did.
    pub(super) ended: Option<Ended>,
}

/// A file that is being fetched: its name, and bytes that are there and that there will be.
#[derive(Clone, Debug)]
pub(super) struct Fetching {
    pub(super) file: String,
    pub(super) done: u64,
    pub(super) total: u64,
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
                Ok(Err(error @ Error::Stopped { .. })) => Err(NoEnd::Stopped(error.to_string())),
                Ok(Err(error)) => Err(NoEnd::Failed(error.to_string())),
                Err(panic) => {
                    let said = panic_message(panic.as_ref()).unwrap_or("it did not say why");
                    Err(NoEnd::Failed(format!("the trainer crashed: {said}")))
                }
            });
            changed();
        };
        let thread = std::thread::Builder::new().name("training".into()).spawn(train);
        let thread = match thread {
            Ok(thread) => Some(thread),
            Err(error) => {
                known.lock().ended = Some(Err(NoEnd::Failed(format!("no thread to train on: {error}"))));
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

/// Fetches the data that a run lacks, if its settings say so, until it is stopped. (The trainer would do it, too, but
/// without a word.)
fn fetch(config: &Config, control: &Control, known: &Mutex<Known>, changed: &dyn Fn()) -> Result<()> {
    if !config.download {
        return Ok(());
    }
    let mut told: Option<Instant> = None;
    let done = data::fetch(&config.dataset, &config.open_options(), &mut |Progress { file, done, total }| {
        if done == total || told.is_none_or(|told| told.elapsed() > TELL_EVERY) {
            told = Some(Instant::now());
            known.lock().fetching = Some(Fetching { file: file.into(), done, total });
            changed();
        }
        if control.stopping() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    known.lock().fetching = None;
    changed();
    done.map(drop)
}

fn train(task: Task, control: &Control, known: &Mutex<Known>, changed: &dyn Fn()) -> Result<Summary> {
    let (folder, config) = match task {
        Task::New(config) => (None, config),
        Task::Resume(folder, Some(config)) => (Some(folder), config),
        Task::Resume(folder, None) => {
            let config = Trainer::config_of(&folder)?;
            (Some(folder), Box::new(config))
        }
    };
    fetch(&config, control, known, changed)?;
    let mut trainer = match folder {
        None => Trainer::new_until(*config, control)?,
        Some(folder) => Trainer::resume_until(&folder, *config, control)?,
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
            Event::Notice { message } => known.lock().notice = Some(message),
            Event::SaveFailed { message } => {
                let mut known = known.lock();
                (known.notice, known.failures) = (Some(message), known.failures + 1);
            }
            Event::Evaluated { step, test, .. } => {
                let mut known = known.lock();
                (known.evaluated, known.evaluations) = (Some((step, test)), known.evaluations + 1);
            }
            // the folder says the rest
            _ => return,
        }
        changed();
    });
    device.set_beside_display(false);
    done
}

#[cfg(all(test, feature = "download"))]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use crate::data::{DatasetName, Published, PublishedFile};

    use super::*;

    const BYTES: u64 = 1 << 20;

    /// A set of one file, of which a little comes every few milliseconds.
    fn slow_set() -> DatasetName {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = format!("http://{}/", listener.local_addr().expect("bound"));
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            assert!(stream.read(&mut [0; 4096]).expect("a request") > 0);
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {BYTES}\r\n\r\n").expect("it listens");
            // until the other side hangs up
            while stream.write_all(&[7; 1000]).is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let file = PublishedFile { name: "slow.bin", bytes: BYTES, sha256: "", unpacked: "slow.bin", unpack: false };
        DatasetName::Published(Box::leak(Box::new(Published {
            name: "slow",
            about: "",
            licence: "",
            home: "",
            address: address.leak(),
            files: vec![file].leak(),
        })))
    }

    #[test]
    fn a_transfer_before_a_run_is_told_and_stopped() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let data_dir = Some(place.path().to_owned());
        let config = Config { dataset: slow_set(), download: true, data_dir, ..Config::default() };
        let session = Session::start(Task::New(Box::new(config)), || {});
        let begun = Instant::now();
        let wait = |done: &dyn Fn() -> bool, what: &str| {
            while !done() {
                assert!(begun.elapsed() < Duration::from_secs(60), "{what}: {:?}", session.known().ended);
                std::thread::sleep(LOOK_EVERY);
            }
        };
        let comes = || session.known().fetching.is_some_and(|fetching| fetching.done > 0);
        wait(&comes, "nothing came");
        let Fetching { file, total, .. } = session.known().fetching.expect("it comes");
        assert_eq!((file.as_str(), total), ("slow.bin", BYTES));
        session.control().stop();
        wait(&|| !session.is_running(), "it went on");
        assert!(session.known().fetching.is_none());
        let Some(Err(NoEnd::Stopped(message))) = session.finish() else { panic!("it is no failure") };
        assert!(message.contains("are kept"), "{message}");
        let part = place.path().join("slow/slow.bin.part");
        assert!(part.metadata().expect("it is kept").len() > 0);
    }
}
