//! What a user may ask of a run while it goes on.

use std::time::Duration;

use crate::error::Result;
use crate::train::record::RunState;
use crate::train::{Control, Event};

use super::Run;

/// How often a run that waits says that it is still there.
const HEARTBEAT: Duration = Duration::from_secs(1);

impl Run<'_> {
    /// Does what was asked for, between two steps or two batches of an evaluation, and waits while the run is to pause.
    /// True if it is to end.
    pub(super) fn obey(&mut self, control: &Control) -> Result<bool> {
        let mut paused = false;
        loop {
            if let Some(factor) = control.take_learning_rate_factor() {
                self.set_learning_rate_factor(factor);
                let message =
                    format!("from step {} on, learning rates are those of the schedule times {factor}", self.steps + 1);
                self.tell(Event::Notice { message });
            }
            // one that is under way is the one that was asked for
            if control.take_evaluate() && !self.evaluating {
                self.watch.go_on();
                self.beside_the_pass(|run| run.evaluate(true, control))?;
            }
            let asked = control.take_save();
            if asked || self.requests.save {
                self.save_if_possible();
            }
            if asked {
                control.note_save();
            }
            let ends = control.stopping() || self.requests.stop.is_some();
            if ends || !control.pausing() {
                if paused {
                    self.watch.go_on();
                    self.tell(Event::Resumed);
                    self.report_as(RunState::Running, None);
                }
                return Ok(control.stopping());
            }
            self.watch.hold();
            self.energy.hold();
            if !paused {
                paused = true;
                self.tell(Event::Paused);
            }
            self.report_as(RunState::Paused, None);
            control.wait(HEARTBEAT);
        }
    }

    /// Does what is no training: neither its time nor its energy is that of the epoch under way.
    pub(super) fn beside_the_pass<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let (begun, joules) = (self.watch.elapsed(), self.energy.stand());
        let done = work(self);
        let now = self.watch.elapsed();
        self.epoch_start += now - begun;
        self.steps_known = (self.steps_known + (now - begun)).min(now);
        self.energy.leave_out_since(joules);
        done
    }

    pub(super) fn set_learning_rate_factor(&mut self, factor: f64) {
        self.trainer.rates.set_factor(factor);
        self.unsaved = true;
    }
}
