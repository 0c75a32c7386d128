//! The schedule that a configuration names, followed through a run.

use crate::error::Result;
use crate::optim::{Schedule, Scheduler};

use super::config::Config;

/// The learning rate of each step of a run. A plateau is asked after each evaluation, everything else counts steps.
pub(super) struct Rates {
    scheduler: Scheduler,
    is_plateau: bool,
}

impl Rates {
    /// For a run of `steps` steps.
    pub(super) fn new(config: &Config, steps: u64) -> Result<Self> {
        let schedule = config.schedule.clone().for_run(steps);
        let is_plateau = matches!(schedule, Schedule::Plateau(_));
        Ok(Self { scheduler: Scheduler::new(schedule, &[config.learning_rate()])?, is_plateau })
    }

    /// The learning rate of the step to come.
    pub(super) fn now(&self) -> f64 {
        self.scheduler.lr()
    }

    /// A step was handed over.
    pub(super) fn step_done(&mut self) {
        if !self.is_plateau {
            self.scheduler.step();
        }
    }

    /// The held-out samples have this mean loss.
    pub(super) fn evaluated(&mut self, loss: f32) {
        if self.is_plateau {
            self.scheduler.step_metric(f64::from(loss));
        }
    }
}
