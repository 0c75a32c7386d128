//! The schedule that a configuration names, followed through a run.

use crate::error::Result;
use crate::optim::{Schedule, Scheduler};

use super::config::Config;

/// The learning rate of each step of a run. A plateau is asked after each evaluation, everything else counts steps.
pub(super) struct Rates {
    scheduler: Scheduler,
    is_plateau: bool,
    /// What callbacks, or the user, multiply it by.
    factor: f64,
}

/// What callbacks, or the user, may multiply learning rates by.
///
/// # Panics
/// If `factor` is not a positive number.
#[track_caller]
pub(super) fn checked_factor(factor: f64) -> f64 {
    assert!(factor.is_finite() && factor > 0.0, "a learning rate factor is a positive number, not {factor}");
    factor
}

impl Rates {
    /// For a run of `steps` steps.
    pub(super) fn new(config: &Config, steps: u64) -> Result<Self> {
        let schedule = config.schedule.clone().for_run(steps);
        let is_plateau = matches!(schedule, Schedule::Plateau(_));
        Ok(Self { scheduler: Scheduler::new(schedule, &[config.learning_rate()])?, is_plateau, factor: 1.0 })
    }

    /// The learning rate of the step to come.
    pub(super) fn now(&self) -> f64 {
        self.scheduler.lr() * self.factor
    }

    /// A step was handed over.
    pub(super) fn step_done(&mut self) {
        if !self.is_plateau {
            self.scheduler.step();
        }
    }

    /// The held-out samples have this mean loss.
    pub(super) fn evaluated(&mut self, loss: f64) {
        if self.is_plateau {
            self.scheduler.step_metric(loss);
        }
    }

    /// From now on rates are those of the schedule times `factor`.
    pub(super) fn set_factor(&mut self, factor: f64) {
        self.factor = factor;
    }

    /// What the schedule's rates are multiplied by.
    pub(super) fn factor(&self) -> f64 {
        self.factor
    }

    /// What a checkpoint keeps.
    pub(super) fn state(&self) -> (Scheduler, f64) {
        (self.scheduler.clone(), self.factor)
    }

    /// Goes on from what a checkpoint kept. The schedule is the one of now, so that a longer run can be asked for.
    pub(super) fn load(&mut self, (scheduler, factor): (Scheduler, f64)) {
        self.scheduler.go_on_from(&scheduler);
        self.factor = factor;
    }
}
