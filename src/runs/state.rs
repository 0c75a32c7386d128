//! What a run is doing.

use std::fs::TryLockError;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::train::record::{LOCK, RunState, Status};

use super::open::open;

/// A run writes how it is about once a second; after so many without that, it is looked for.
const SILENT_SECONDS: f64 = 10.0;

/// What a run is doing, as far as its folder tells.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum RecordedState {
    /// Training or evaluating.
    Running,
    /// Waiting for its user.
    Paused,
    /// Over, all epochs done, or ended by a callback.
    Completed,
    /// Ended by its user.
    Stopped,
    /// Ended by an error, which [`Recording::status`](super::Recording::status) has.
    Failed,
    /// Said to go on, but it has written nothing for longer than 10 seconds, and its folder is not locked any more; or,
    /// where that cannot be told, its process is gone or cannot be looked for.
    Silent {
        /// Seconds since it wrote at last.
        seconds: f64,
    },
    /// It does not say: another program's, or from before there were states.
    Foreign,
}

impl RecordedState {
    /// Whether the run goes on, or may.
    pub fn is_alive(self) -> bool {
        matches!(self, Self::Running | Self::Paused)
    }

    /// Whether the run ended before its time, so that it may be resumed from its last checkpoint.
    pub fn is_unfinished(self) -> bool {
        matches!(self, Self::Stopped | Self::Failed | Self::Silent { .. })
    }
}

/// What a run is doing, by its last status and by whether [its folder was locked](is_held) when it was silent.
pub(super) fn of(status: Option<&Status>, held: Option<bool>) -> RecordedState {
    let Some(status) = status else { return RecordedState::Foreign };
    let goes_on = match status.state {
        RunState::Completed => return RecordedState::Completed,
        RunState::Stopped => return RecordedState::Stopped,
        RunState::Failed => return RecordedState::Failed,
        RunState::Running => RecordedState::Running,
        RunState::Paused => RecordedState::Paused,
    };
    match silence(status.state, status.written_unix_ms) {
        // another process may have got the number, so that it is asked for last
        Some(seconds) if held.or_else(|| exists(status.process)) != Some(true) => RecordedState::Silent { seconds },
        _ => goes_on,
    }
}

/// Whether a run has said that it is over, or was found to be gone.
pub(super) fn is_over(status: Option<&Status>, held: Option<bool>) -> bool {
    status.is_some_and(|status| !goes_on(status.state) || held == Some(false))
}

/// For how many seconds a run that should go on has written nothing, if they are too many.
pub(super) fn silence(state: RunState, written_unix_ms: u64) -> Option<f64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
    let seconds = now - written_unix_ms as f64 / 1e3;
    (goes_on(state) && seconds > SILENT_SECONDS).then_some(seconds)
}

fn goes_on(state: RunState) -> bool {
    matches!(state, RunState::Running | RunState::Paused)
}

/// Whether a process trains in this folder; `None` where there is no lock to tell, as in what older versions wrote, or
/// on a file system that knows none. A lock that is free is taken for a moment.
pub(super) fn is_held(folder: &Path) -> Option<bool> {
    let (file, _) = open(&folder.join(LOCK)).ok()?;
    match file.try_lock_shared() {
        Ok(()) => {
            // closing it does so as well, unless a child of this process is being started
            let _ = file.unlock();
            Some(false)
        }
        Err(TryLockError::WouldBlock) => Some(true),
        Err(TryLockError::Error(_)) => None,
    }
}

/// Whether there is a process of this number, where the system has a file that says so.
fn exists(process: u32) -> Option<bool> {
    let all = Path::new("/proc");
    all.join("self").exists().then(|| all.join(process.to_string()).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(state: RunState, age_ms: u64, process: u32) -> Status {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64;
        let json = serde_json::json!({
            "state": state, "step": 1, "steps": 2, "epoch": 1, "elapsed_s": 1.0, "left_s": 1.0,
            "learning_rate_factor": 1.0, "memory_bytes": 0, "memory_peak_bytes": 0, "stages": [],
            "timeline": { "lanes": [] }, "written_unix_ms": now - age_ms, "process": process,
        });
        serde_json::from_value(json).expect("a status")
    }

    #[test]
    fn a_run_whose_process_is_gone_is_silent() {
        // no system gives this number to a process
        let gone = u32::MAX;
        let of = |state, age_ms, process| of(Some(&status(state, age_ms, process)), None);
        assert_eq!(of(RunState::Running, 1_000, gone), RecordedState::Running);
        assert!(matches!(of(RunState::Running, 60_000, gone),
            RecordedState::Silent { seconds } if (60.0..100.0).contains(&seconds)));
        assert!(!of(RunState::Paused, 60_000, gone).is_alive());
        if exists(std::process::id()) == Some(true) {
            assert_eq!(of(RunState::Paused, 60_000, std::process::id()), RecordedState::Paused);
        }
        assert_eq!(of(RunState::Completed, 1 << 40, gone), RecordedState::Completed);
        assert_eq!(super::of(None, None), RecordedState::Foreign);
    }

    #[test]
    fn a_lock_says_more_than_the_number_of_a_process() {
        let of = |held, process| of(Some(&status(RunState::Running, 60_000, process)), held);
        assert!(matches!(of(Some(false), std::process::id()), RecordedState::Silent { .. }));
        assert_eq!(of(Some(true), u32::MAX), RecordedState::Running);
        let folder = tempfile::tempdir().expect("a temporary folder");
        assert_eq!(is_held(folder.path()), None);
        let file = std::fs::File::create(folder.path().join(LOCK)).expect("writable");
        if file.try_lock().is_ok() {
            assert_eq!(is_held(folder.path()), Some(true));
            file.unlock().expect("it was locked");
            assert_eq!(is_held(folder.path()), Some(false));
            file.try_lock().expect("nobody holds it");
        }
    }
}
