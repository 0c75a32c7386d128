//! `status.json`: how the run is, for whoever looks at its folder.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::train::Event;
use crate::train::record::{RunState, STATUS, Status};

use super::Run;

/// How often it is written anew while nothing happens but steps.
const EVERY: Duration = Duration::from_secs(1);
/// Notices that are kept.
const NOTICES: usize = 20;

/// What is said of the run as a whole.
pub(super) struct Report {
    state: RunState,
    message: Option<String>,
    notices: Vec<String>,
    written: Option<Instant>,
    /// It could not be written; that is said once.
    failed: bool,
}

impl Default for Report {
    fn default() -> Self {
        Self { state: RunState::Running, message: None, notices: Vec::new(), written: None, failed: false }
    }
}

impl Run<'_> {
    /// Tells the listener, and keeps what should be known.
    pub(super) fn tell(&mut self, event: Event) {
        let notice = match &event {
            Event::Notice { message } => Some(message.clone()),
            Event::SaveFailed { message } => Some(format!("not saved: {message}")),
            _ => None,
        };
        self.report.notices.extend(notice);
        let surplus = self.report.notices.len().saturating_sub(NOTICES);
        self.report.notices.drain(..surplus);
        (self.listen)(event);
    }

    /// Writes how the run is, if that was not done for a while.
    pub(super) fn report(&mut self) {
        if self.report.written.is_none_or(|written| written.elapsed() >= EVERY) {
            self.write_status();
        }
    }

    /// Writes that the run is in this state now.
    pub(super) fn report_as(&mut self, state: RunState, message: Option<String>) {
        (self.report.state, self.report.message) = (state, message);
        self.write_status();
    }

    fn write_status(&mut self) {
        self.report.written = Some(Instant::now());
        let start = Instant::now();
        let status = self.status();
        let json = serde_json::to_vec(&status).expect("plain data");
        self.show(STATUS, &json);
        // the last steps would be pushed out of sight by what is told of a pause
        if self.report.state != RunState::Paused {
            self.log_took(start);
        }
    }

    /// Writes a file that only shows something. If it cannot be written the run goes on.
    pub(super) fn show(&mut self, name: &str, contents: &[u8]) {
        if let Err(error) = self.trainer.folder.replace(name, contents)
            && !std::mem::replace(&mut self.report.failed, true)
        {
            self.tell(Event::Notice { message: format!("how the run is cannot be shown: {error}") });
        }
    }

    fn status(&mut self) -> Status {
        self.take_device_times();
        let done = self.trainer.learner.log().take();
        self.timeline.add_device(done);
        let memory = self.trainer.device().memory();
        let elapsed_s = self.seconds();
        Status {
            state: self.report.state,
            message: self.report.message.clone(),
            notices: self.report.notices.clone(),
            step: self.steps,
            steps: self.steps_in_all(),
            epoch: (self.epoch + 1).min(self.trainer.config.epochs),
            elapsed_s,
            left_s: self.seconds_left(),
            learning_rate_factor: self.trainer.rates.factor(),
            memory_bytes: memory.live_bytes,
            memory_peak_bytes: memory.peak_bytes,
            stages: self.clock.report(),
            timeline: self.timeline.last_steps(),
            written_unix_ms: now_unix_ms(),
            process: std::process::id(),
        }
    }
}

/// Milliseconds since 1970.
pub(super) fn now_unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
