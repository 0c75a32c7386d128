//! Recordings that are kept up to date.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::Recording;
use super::find::{Found, search};
use super::recording::own_name;

/// Bytes read of a run before it is the next one's turn, so that a long run does not keep others from being shown; what
/// they say is taken in under the lock.
const PIECE: u64 = 2 << 20;
/// How many times as long as looking takes it is not looked again: thousands of runs on a slow disk keep nobody busy.
const REST: u32 = 10;
/// How often runs are looked at that are over; somebody may let them go on.
const OVER_EVERY: Duration = Duration::from_secs(3);

/// Keeps the recordings of all runs in some folders up to date, on a thread of its own, which ends when this is
/// dropped.
///
/// Runs come and go, so what belongs to one is known by its folder, not by its place in the list.
pub struct Watcher {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").field("roots", &self.shared.orders.lock().roots).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Shared {
    /// Locked by the thread to take in what was read, never while it reads.
    recordings: Mutex<Vec<Recording>>,
    /// Not all runs are in the list.
    is_cut: AtomicBool,
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
    /// Watches these folders, looking into them `every` so often, or less often if that takes long; runs that are over
    /// are looked at every few seconds. `changed` is called on the watching thread whenever something changed, with
    /// nothing locked. A run that is in several of the folders is listed once, by the first one's name.
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

    /// Whether there are more runs than the newest ones that are listed; see [`find`](fn@super::find).
    pub fn is_cut(&self) -> bool {
        self.shared.is_cut.load(Ordering::Relaxed)
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
        let mut asked = true;
        let (mut next_search, mut next_over) = (Instant::now(), Instant::now());
        loop {
            let now = Instant::now();
            if asked || now >= next_search {
                let roots = self.orders.lock().roots.clone();
                let (runs, is_cut) = runs(&roots);
                let was_cut = self.is_cut.swap(is_cut, Ordering::Relaxed);
                if self.set_runs(&runs) || was_cut != is_cut {
                    changed();
                }
                next_search = Instant::now() + every.max(REST * now.elapsed());
            }
            let all = asked || now >= next_over;
            if all {
                next_over = now + OVER_EVERY;
            }
            let took = self.read_runs(all, changed);
            let until = Instant::now() + every.max(REST * took);
            let mut orders = self.orders.lock();
            while !orders.look && !orders.end && !self.ordered.wait_until(&mut orders, until).timed_out() {}
            if orders.end {
                return;
            }
            asked = std::mem::take(&mut orders.look);
        }
    }

    /// Reads what is new of all runs, or of those that are not over; how long looking took where nothing was new.
    fn read_runs(&self, all: bool, changed: &dyn Fn()) -> Duration {
        let recordings = self.recordings.lock();
        let asked = recordings.iter().enumerate().filter(|(_, run)| all || !run.is_over());
        let mut unread: Vec<(usize, PathBuf)> = asked.map(|(number, run)| (number, run.folder.clone())).collect();
        drop(recordings);
        let mut took = Duration::ZERO;
        while !unread.is_empty() {
            let mut news = false;
            unread.retain(|(number, folder)| {
                let start = Instant::now();
                // whoever waits for the end does not wait for all files
                let (changed, more) = if self.orders.lock().end { (false, false) } else { self.read(*number, folder) };
                if !changed && !more {
                    took += start.elapsed();
                }
                news |= changed;
                more
            });
            if news {
                changed();
            }
        }
        took
    }

    /// Makes the list that of these runs; whether it changed.
    fn set_runs(&self, runs: &[Listed]) -> bool {
        let known: HashSet<PathBuf> = self.recordings.lock().iter().map(|run| run.folder.clone()).collect();
        if known.len() == runs.len() && runs.iter().all(|run| known.contains(&run.folder)) {
            return false;
        }
        // when they began is read with nothing locked
        let new = runs.iter().filter(|run| !known.contains(&run.folder));
        let new: Vec<Recording> =
            new.map(|run| Recording::unread(&run.folder, run.place.clone(), run.name.clone())).collect();
        let places: HashMap<&Path, usize> =
            runs.iter().enumerate().map(|(place, run)| (run.folder.as_path(), place)).collect();
        let mut recordings = self.recordings.lock();
        recordings.retain(|run| places.contains_key(run.folder.as_path()));
        recordings.extend(new);
        recordings.sort_by_key(|run| (run.begun_unix_ms, places[run.folder.as_path()]));
        true
    }

    /// Reads a piece of what is new of a run: whether anything changed, and whether there is more.
    fn read(&self, number: usize, folder: &Path) -> (bool, bool) {
        let mut reader = match at(&mut self.recordings.lock(), number, folder) {
            Some(run) => std::mem::take(&mut run.reader),
            None => return (false, false),
        };
        let news = reader.read(folder, PIECE);
        let more = news.more;
        let mut recordings = self.recordings.lock();
        let Some(run) = at(&mut recordings, number, folder) else { return (false, false) };
        let before = run.version;
        run.apply(news);
        run.reader = reader;
        (run.version != before, more)
    }
}

/// The run at this place of the list, unless somebody who locked the list has changed it.
fn at<'a>(recordings: &'a mut [Recording], number: usize, folder: &Path) -> Option<&'a mut Recording> {
    recordings.get_mut(number).filter(|run| run.folder == folder)
}

/// A run that is to be in the list.
struct Listed {
    folder: PathBuf,
    /// See [`Recording::place`].
    place: PathBuf,
    name: String,
}

/// The runs in these folders, each once, and whether there are more.
fn runs(roots: &[PathBuf]) -> (Vec<Listed>, bool) {
    let (mut runs, mut is_cut) = (Vec::new(), false);
    let mut known = HashSet::new();
    for root in roots {
        let found = search(root);
        is_cut |= found.is_cut;
        for Found { folder, place } in found.runs {
            if known.insert(place.clone()) {
                let below = folder.strip_prefix(root).unwrap_or(&folder).to_string_lossy().into_owned();
                let name = if below.is_empty() { own_name(&folder) } else { below };
                runs.push(Listed { folder, place, name });
            }
        }
    }
    (runs, is_cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_listed_once_however_its_folder_is_named() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let run = root.path().join("all/.hidden/run-1");
        std::fs::create_dir_all(&run).expect("writable");
        std::fs::write(run.join("metrics.jsonl"), "").expect("writable");
        let hidden = root.path().join("all/.hidden");
        let (listed, is_cut) = runs(&[root.path().join("all"), hidden.clone(), hidden.join("../.hidden"), run.clone()]);
        assert_eq!((listed.len(), is_cut), (1, false));
        assert_eq!((&listed[0].folder, listed[0].name.as_str()), (&run, "run-1"));
        // the folder of a run itself is one however hidden
        let (listed, _) = runs(&[run.join("../run-1"), run]);
        assert_eq!((listed.len(), listed[0].name.as_str()), (1, "run-1"));
    }

    #[cfg(unix)]
    #[test]
    fn a_run_is_listed_once_by_whatever_links_it_is_found() {
        let [root, other] = [0; 2].map(|_| tempfile::tempdir().expect("a temporary folder"));
        std::fs::write(other.path().join("metrics.jsonl"), "").expect("writable");
        for name in ["a", "b"] {
            std::os::unix::fs::symlink(other.path(), root.path().join(name)).expect("a link");
        }
        let (listed, _) = runs(&[root.path().to_owned(), other.path().to_owned()]);
        assert_eq!((listed.len(), listed[0].name.as_str()), (1, "a"));
    }
}
