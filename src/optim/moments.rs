//! Running means and their corrections: what rules have in common.

use crate::error::Result;
use crate::runtime::Var;
use crate::tensor::Tensor;

use super::WeightDecay;
use super::rule::{NewState, Setting};

/// The settings of rules that follow gradients and their size, as Adam's does.
pub(super) fn of_moments(beta1: f64, beta2: f64, epsilon: f32, weight_decay: WeightDecay) -> Vec<Setting> {
    vec![
        Setting::below_one("beta1", beta1),
        Setting::below_one("beta2", beta2),
        Setting::not_negative("epsilon", epsilon),
        weight_decay.setting(),
    ]
}

/// Moves `running`, which starts at 0, towards `newest`: `running · beta + newest · (1 − beta)`.
pub(super) fn follow(running: &Var, newest: &Tensor, beta: f64) -> Tensor {
    let next = running.tensor() * beta as f32 + newest * (1.0 - beta) as f32;
    running.assign(&next);
    next
}

/// Assigns and returns.
pub(super) fn put(variable: &Var, value: Tensor) -> Tensor {
    variable.assign(&value);
    value
}

/// The number of this step, from 1 on.
pub(super) fn count(steps: &Var) -> Tensor {
    put(steps, steps.tensor() + 1.0)
}

/// `1 − beta^t` in step t, by which a running mean from 0 falls short.
///
/// It follows the recurrence `c ← c · beta + (1 − beta)` from 0: the one that the running means follow, with the same
/// rounded factors. All terms are positive, so that it keeps f32's relative precision, where `1 − 0.999^t` would lose
/// four digits in the first steps.
#[derive(Debug)]
pub(super) struct Correction(Var);

impl Correction {
    pub(super) fn new(name: &str, new: &mut NewState<'_>) -> Result<Self> {
        new.scalar(name).map(Self)
    }

    pub(super) fn next(&self, beta: f64) -> Tensor {
        follow(&self.0, &Tensor::full([], 1.0_f32, self.0.device()), beta)
    }
}

/// Running means of a gradient and of its square, with their corrections: what Adam and its relatives keep.
#[derive(Debug)]
pub struct Moments {
    exp_avg: Var,
    exp_avg_sq: Var,
    correction1: Correction,
    correction2: Correction,
}

/// [`Moments`] after a step.
pub(super) struct Moved {
    pub(super) mean: Tensor,
    pub(super) square: Tensor,
    pub(super) correction1: Tensor,
    pub(super) correction2: Tensor,
}

impl Moments {
    pub(super) fn new(new: &mut NewState<'_>) -> Result<Self> {
        Ok(Self {
            exp_avg: new.flat("exp_avg")?,
            exp_avg_sq: new.flat("exp_avg_sq")?,
            correction1: Correction::new("correction1", new)?,
            correction2: Correction::new("correction2", new)?,
        })
    }

    pub(super) fn next(&self, gradient: &Tensor, beta1: f64, beta2: f64) -> Moved {
        Moved {
            correction1: self.correction1.next(beta1),
            correction2: self.correction2.next(beta2),
            mean: follow(&self.exp_avg, gradient, beta1),
            square: follow(&self.exp_avg_sq, &gradient.square(), beta2),
        }
    }
}
