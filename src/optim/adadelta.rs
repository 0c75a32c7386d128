//! Adadelta.

use crate::error::Result;
use crate::runtime::Var;
use crate::tensor::Tensor;

use super::moments::{follow, with_penalty};
use super::{Grouped, NewState, Rule, Update};

/// Settings of a group of parameters; defaults are those of PyTorch's `Adadelta`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AdadeltaOptions {
    /// Scales the step, which has a length of its own.
    pub learning_rate: f32,
    /// How much of the running means each step keeps.
    pub rho: f64,
    /// Added below both roots.
    pub epsilon: f32,
    /// The gradient gets this times the parameter added (L2 penalty).
    pub weight_decay: f32,
}

impl Default for AdadeltaOptions {
    fn default() -> Self {
        Self { learning_rate: 1.0, rho: 0.9, epsilon: 1e-6, weight_decay: 0.0 }
    }
}

/// Adadelta (Zeiler, arXiv 1212.5701), with PyTorch's order of operations: the step is
/// `d = sqrt(u + epsilon) / sqrt(v + epsilon) · g`, where `v` and `u` are the running means of `g²` and of earlier `d²`.
pub type Adadelta = Grouped<AdadeltaOptions>;

/// What a group keeps from step to step.
pub struct AdadeltaState {
    square_avg: Var,
    acc_delta: Var,
}

impl Rule for AdadeltaOptions {
    type State = AdadeltaState;

    fn learning_rate(&self) -> f32 {
        self.learning_rate
    }

    fn state(&self, new: &mut NewState<'_>) -> Result<AdadeltaState> {
        Ok(AdadeltaState { square_avg: new.flat("square_avg")?, acc_delta: new.flat("acc_delta")? })
    }

    fn update(&self, state: &AdadeltaState, at: &Update<'_>) -> Tensor {
        let gradient = with_penalty(at, self.weight_decay);
        let square = follow(&state.square_avg, &gradient.square(), self.rho);
        let before = state.acc_delta.tensor();
        let step = (before + self.epsilon).sqrt() / (square + self.epsilon).sqrt() * gradient;
        follow(&state.acc_delta, &step.square(), self.rho);
        &at.parameters - step * &at.rate
    }
}
