//! Averaged stochastic gradient descent.

use crate::error::Result;
use crate::runtime::Var;
use crate::tensor::Tensor;

use super::moments::{count, put};
use super::{Grouped, NewState, Rule, Setting, Update, WeightDecay};

/// Settings of a group of parameters; defaults are those of PyTorch's `ASGD`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ASGDOptions {
    /// Length of the first step along the gradient.
    pub learning_rate: f32,
    /// How fast steps become shorter, and how much parameters shrink in each: `lambd`.
    pub decay: f32,
    /// The power by which steps become shorter.
    pub alpha: f32,
    /// The step after which the average begins: `t0`.
    pub average_after: f32,
    /// Pull towards zero.
    pub weight_decay: WeightDecay,
}

impl Default for ASGDOptions {
    fn default() -> Self {
        Self { learning_rate: 1e-2, decay: 1e-4, alpha: 0.75, average_after: 1e6, weight_decay: WeightDecay::None }
    }
}

/// Averaged stochastic gradient descent (Polyak and Juditsky 1992), with PyTorch's order of operations: in step t `η =
/// learning_rate / (1 + decay · learning_rate · (t − 1))^alpha` and `p ← p (1 − decay · η) − η · g`. The average is
/// kept beside the parameters, as `state.NAME.ax` in [`state_dict`](super::Optimizer::state_dict): `ax ← ax + (p − ax)
/// μ` with `μ = 1 / max(1, t − 1 − average_after)`.
pub type ASGD = Grouped<ASGDOptions>;

/// What a group keeps from step to step.
#[derive(Debug)]
pub struct ASGDState {
    ax: Var,
    step: Var,
}

impl Rule for ASGDOptions {
    type State = ASGDState;

    fn learning_rate(&self) -> f32 {
        self.learning_rate
    }

    fn settings(&self) -> Vec<Setting> {
        vec![Setting::not_negative("decay", self.decay), self.weight_decay.setting()]
    }

    fn state(&self, new: &mut NewState<'_>) -> Result<ASGDState> {
        Ok(ASGDState { ax: new.flat("ax")?, step: new.scalar("step")? })
    }

    // a rate that is changed holds at once; PyTorch's one step later
    fn update(&self, state: &ASGDState, at: &Update<'_>) -> Tensor {
        let gradient = self.weight_decay.gradient(at);
        let earlier = count(&state.step) - 1.0;
        let rate = &at.rate / (&at.rate * self.decay * &earlier + 1.0).pow(f64::from(self.alpha));
        let parameters = self.weight_decay.parameters(at);
        let next = &parameters - &parameters * (&rate * self.decay) - gradient * rate;
        let share = (earlier - self.average_after).maximum(1.0).reciprocal();
        let mean = state.ax.tensor();
        put(&state.ax, share.eq(1.0).where_(&next, &mean + (&next - &mean) * share));
        next
    }
}
