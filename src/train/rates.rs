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

    /// Goes on from what a checkpoint kept behind so many steps. The schedule is the one of now, so that a longer run, or
    /// another schedule, can be asked for.
    pub(super) fn load(&mut self, (scheduler, factor): (Scheduler, f64), steps: u64) {
        self.scheduler.go_on_from(&scheduler);
        if !self.is_plateau {
            // a plateau has counted evaluations
            self.scheduler.go_to(steps);
        }
        self.factor = factor;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(schedule: &str) -> Rates {
        let config = Config { schedule: schedule.parse().expect("a schedule"), lr: Some(1.0), ..Config::default() };
        Rates::new(&config.resolve().expect("good settings"), 100).expect("a schedule")
    }

    #[test]
    fn a_schedule_of_steps_goes_on_at_the_run_s_step_whatever_was_before() {
        let mut plateau = rates("plateau");
        for step in 1..=50 {
            plateau.step_done();
            if step % 25 == 0 {
                plateau.evaluated(1.0);
            }
        }
        let mut cosine = rates("cosine");
        cosine.load(plateau.state(), 50);
        assert!((cosine.now() - 0.5).abs() < 1e-12, "{}", cosine.now());
        cosine.step_done();
        let kept = cosine.state();
        let mut again = rates("cosine");
        again.load(kept, 51);
        assert_eq!(again.now().to_bits(), cosine.now().to_bits());
    }
}
