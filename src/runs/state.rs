//! What a run is doing.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::train::record::{RunState, Status};

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
    /// Said to go on, but it has written nothing for longer than 10 seconds, and its process is gone or cannot be
    /// looked for.
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

pub(super) fn of(status: Option<&Status>) -> RecordedState {
    let Some(status) = status else { return RecordedState::Foreign };
    let goes_on = match status.state {
        RunState::Completed => return RecordedState::Completed,
        RunState::Stopped => return RecordedState::Stopped,
        RunState::Failed => return RecordedState::Failed,
        RunState::Running => RecordedState::Running,
        RunState::Paused => RecordedState::Paused,
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
    let seconds = now - status.written_unix_ms as f64 / 1e3;
    if seconds <= SILENT_SECONDS || exists(status.process) == Some(true) {
        return goes_on;
    }
    RecordedState::Silent { seconds }
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
        assert_eq!(of(Some(&status(RunState::Running, 1_000, gone))), RecordedState::Running);
        assert!(matches!(of(Some(&status(RunState::Running, 60_000, gone))),
            RecordedState::Silent { seconds } if (60.0..100.0).contains(&seconds)));
        assert!(!of(Some(&status(RunState::Paused, 60_000, gone))).is_alive());
        if exists(std::process::id()) == Some(true) {
            assert_eq!(of(Some(&status(RunState::Paused, 60_000, std::process::id()))), RecordedState::Paused);
        }
        assert_eq!(of(Some(&status(RunState::Completed, 1 << 40, gone))), RecordedState::Completed);
        assert_eq!(of(None), RecordedState::Foreign);
    }
}
