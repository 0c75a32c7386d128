//! A schedule under way.

use crate::error::{Error, Result};

use super::{Plateau, Schedule};

/// A schedule with the step it is at: one `step` after each step of the optimizer (or epoch), as in PyTorch.
///
/// It serialises whole: a run that goes on from a checkpoint gets the same learning rates.
///
/// ```
/// use brasa::optim::{Schedule, Scheduler};
///
/// # fn main() -> brasa::Result<()> {
/// // The base of each parameter group: `optimizer.learning_rates()`.
/// let mut scheduler = Scheduler::new("step:size=2,gamma=0.5".parse()?, &[0.1, 0.2])?;
/// let mut seen = Vec::new();
/// for _ in 0..4 {
///     seen.push(scheduler.lr()); // optimizer.set_learning_rates(&scheduler.learning_rates());
///     scheduler.step();
/// }
/// assert_eq!(seen, [0.1, 0.1, 0.05, 0.05]);
///
/// let mut scheduler = Scheduler::new("plateau:patience=1,factor=0.5".parse()?, &[0.1])?;
/// for loss in [1.0, 1.0, 1.0] {
///     scheduler.step_metric(loss);
/// }
/// assert_eq!(scheduler.lr(), 0.05);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Scheduler {
    schedule: Schedule,
    /// What the schedule is of, now.
    base: Vec<f64>,
    /// The same at first; empty in what was written before there was this.
    #[serde(default)]
    initial: Vec<f64>,
    step: u64,
    /// What the metrics have changed.
    watch: Watch,
}

/// What a plateau is known by.
#[derive(Clone, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize)]
struct Watch {
    /// The best metric; none was better than infinitely bad so far.
    best: Option<f64>,
    bad: u64,
    cooldown: u64,
}

impl Scheduler {
    /// At step 0 of `schedule`, for groups with these learning rates of their own.
    ///
    /// # Errors
    /// If the schedule does not make sense or a length is left open.
    ///
    /// # Panics
    /// If there is no group.
    #[track_caller]
    pub fn new(schedule: Schedule, learning_rates: &[f64]) -> Result<Self> {
        assert!(!learning_rates.is_empty(), "Scheduler: no learning rate");
        schedule.check()?;
        // anything is filled in, if something was open
        if schedule.clone().for_run(u64::MAX) != schedule {
            return Err(Error::Config(format!("schedule `{schedule}` has no length: give it steps, or use for_run")));
        }
        let base = learning_rates.to_vec();
        Ok(Self { schedule, initial: base.clone(), base, step: 0, watch: Watch::default() })
    }

    /// The learning rate of the first group now.
    pub fn lr(&self) -> f64 {
        self.schedule.lr(self.base[0], self.step)
    }

    /// The learning rates of all groups now, for [`Optimizer::set_learning_rates`](crate::optim::Optimizer).
    pub fn learning_rates(&self) -> Vec<f32> {
        self.base.iter().map(|&base| self.schedule.lr(base, self.step) as f32).collect()
    }

    /// Number of steps so far.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// At this step of the schedule.
    pub fn go_to(&mut self, step: u64) {
        self.step = step;
    }

    /// At the step of `other`, and with what metrics changed there; the schedule and its base stay what they are: of
    /// another base, a plateau has lowered the same share.
    pub fn go_on_from(&mut self, other: &Self) {
        self.step = other.step;
        self.watch = other.watch.clone();
        let Schedule::Plateau(plateau) = self.schedule else { return };
        if self.base.len() != other.base.len() {
            return;
        }
        if other.initial.is_empty() || other.initial == self.initial {
            self.base.clone_from(&other.base);
            return;
        }
        for (own, (now, first)) in self.base.iter_mut().zip(other.base.iter().zip(&other.initial)) {
            if now != first {
                *own = (*own * (now / first)).max(plateau.min);
            }
        }
    }

    /// One step on.
    pub fn step(&mut self) {
        self.step += 1;
    }

    /// One step on, after which `metric` was measured: a plateau may lower the learning rates.
    pub fn step_metric(&mut self, metric: f64) {
        self.step();
        let Schedule::Plateau(plateau) = self.schedule else { return };
        if self.watch.is_plateau(&plateau, metric) {
            for rate in &mut self.base {
                let lower = (*rate * plateau.factor).max(plateau.min);
                if *rate - lower > plateau.epsilon {
                    *rate = lower;
                }
            }
        }
    }
}

impl Watch {
    fn is_plateau(&mut self, plateau: &Plateau, metric: f64) -> bool {
        let Plateau { maximize, threshold, absolute, .. } = *plateau;
        let is_better = self.best.map_or(metric < f64::INFINITY || maximize, |best| match (maximize, absolute) {
            (false, false) => metric < best * (1.0 - threshold),
            (false, true) => metric < best - threshold,
            (true, false) => metric > best * (1.0 + threshold),
            (true, true) => metric > best + threshold,
        });
        if is_better && !metric.is_nan() {
            self.best = Some(metric);
            self.bad = 0;
        } else {
            self.bad += 1;
        }
        if self.cooldown > 0 {
            self.cooldown -= 1;
            self.bad = 0;
        }
        let over = self.bad > plateau.patience;
        if over {
            self.cooldown = plateau.cooldown;
            self.bad = 0;
        }
        over
    }
}
