//! Recordings that are kept up to date.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::recording::own_name;
use super::{Recording, find};

/// Bytes read of a run before it is the next one's turn, so that a long run does not keep others from being shown; what
/// they say is taken in under the lock.
const PIECE: u64 = 2 << 20;

/// Keeps the recordings of all runs in some folders up to date, on a thread of its own, which ends when this is
/// dropped.
///
/// Runs come and go, so what belongs to one is known by its folder, not by its place in the list.
pub struct Watcher {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    /// Locked by the thread to take in what was read, never while it reads.
    recordings: Mutex<Vec<Recording>>,
    orders: Mutex<Orders>,
    ordered: Condvar,
}

#[derive(Default)]
struct Orders {
    roots: Vec<PathBuf>,
    look: bool,
    end: bool,
}

impl Watcher {
    /// Watches these folders, looking into them `every` so often. `changed` is called on the watching thread whenever
    /// something changed, with nothing locked.
    pub fn new(roots: Vec<PathBuf>, every: Duration, changed: impl Fn() + Send + 'static) -> Self {
        let shared = Arc::new(Shared::default());
        shared.orders.lock().roots = roots;
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("runs".into()).spawn(move || theirs.watch(every, &changed)).ok();
        Self { shared, thread }
    }

    /// The recordings in the order in which they began, the newest last. They change after this is dropped, so it
    /// should not be held for long.
    pub fn lock(&self) -> MutexGuard<'_, Vec<Recording>> {
        self.shared.recordings.lock()
    }

    /// Looks now.
    pub fn nudge(&self) {
        self.shared.order(|orders| orders.look = true);
    }

    /// Watches one more folder, from now on.
    pub fn add_root(&self, root: PathBuf) {
        self.shared.order(|orders| {
            if !orders.roots.contains(&root) {
                orders.roots.push(root);
            }
            orders.look = true;
        });
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.shared.order(|orders| orders.end = true);
        if let Some(thread) = self.thread.take() {
            // it has nothing to say if it panicked; that was told when it did
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn order(&self, change: impl FnOnce(&mut Orders)) {
        change(&mut self.orders.lock());
        self.ordered.notify_all();
    }

    fn watch(&self, every: Duration, changed: &dyn Fn()) {
        loop {
            let roots = self.orders.lock().roots.clone();
            let runs = runs(&roots);
            if self.set_runs(&runs) {
                changed();
            }
            let mut unread: Vec<&Path> = runs.iter().map(|(folder, _)| folder.as_path()).collect();
            while !unread.is_empty() {
                let mut news = false;
                unread.retain(|folder| {
                    // whoever waits for the end does not wait for all files
                    let (changed, more) = if self.orders.lock().end { (false, false) } else { self.read(folder) };
                    news |= changed;
                    more
                });
                if news {
                    changed();
                }
            }
            let until = Instant::now() + every;
            let mut orders = self.orders.lock();
            while !orders.look && !orders.end && !self.ordered.wait_until(&mut orders, until).timed_out() {}
            if orders.end {
                return;
            }
            orders.look = false;
        }
    }

    /// Makes the list that of these runs; whether it changed.
    fn set_runs(&self, runs: &[(PathBuf, String)]) -> bool {
        let known: HashSet<PathBuf> = self.recordings.lock().iter().map(|run| run.folder.clone()).collect();
        if known.len() == runs.len() && runs.iter().all(|(folder, _)| known.contains(folder)) {
            return false;
        }
        // when they began is read with nothing locked
        let new = runs.iter().filter(|(folder, _)| !known.contains(folder));
        let new: Vec<Recording> = new.map(|(folder, name)| Recording::unread(folder, name.clone())).collect();
        let places: HashMap<&Path, usize> =
            runs.iter().enumerate().map(|(place, (folder, _))| (folder.as_path(), place)).collect();
        let mut recordings = self.recordings.lock();
        recordings.retain(|run| places.contains_key(run.folder.as_path()));
        recordings.extend(new);
        recordings.sort_by_key(|run| (run.begun_unix_ms, places[run.folder.as_path()]));
        true
    }

    /// Reads a piece of what is new of a run: whether anything changed, and whether there is more.
    fn read(&self, folder: &Path) -> (bool, bool) {
        let mut reader = match self.recordings.lock().iter_mut().find(|run| run.folder == folder) {
            Some(run) => std::mem::take(&mut run.reader),
            None => return (false, false),
        };
        let news = reader.read(folder, PIECE);
        let more = news.more;
        let mut recordings = self.recordings.lock();
        let Some(run) = recordings.iter_mut().find(|run| run.folder == folder) else { return (false, false) };
        let before = run.version;
        run.apply(news);
        run.reader = reader;
        (run.version != before, more)
    }
}

/// The runs in these folders, each once, with their names.
fn runs(roots: &[PathBuf]) -> Vec<(PathBuf, String)> {
    let mut runs: Vec<(PathBuf, String)> = Vec::new();
    let mut known = HashSet::new();
    for root in roots {
        for folder in find(root) {
            let below = folder.strip_prefix(root).unwrap_or(&folder).to_string_lossy().into_owned();
            let name = if below.is_empty() { own_name(&folder) } else { below };
            if known.insert(folder.clone()) {
                runs.push((folder, name));
            }
        }
    }
    runs
}
