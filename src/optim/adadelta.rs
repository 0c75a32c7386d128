//! Adadelta.

use crate::error::Result;
use crate::runtime::Var;
use crate::tensor::Tensor;

use super::moments::follow;
use super::{Grouped, NewState, Rule, Setting, Update, WeightDecay};

/// Settings of a group of parameters; defaults are those of PyTorch's `Adadelta`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AdadeltaOptions {
    /// Scales the step, which has a length of its own.
    pub learning_rate: f32,
    /// How much of the running means each step keeps.
    pub rho: f64,
    /// Added below both roots.
    pub epsilon: f32,
    /// Pull towards zero.
    pub weight_decay: WeightDecay,
}

impl Default for AdadeltaOptions {
    fn default() -> Self {
        Self { learning_rate: 1.0, rho: 0.9, epsilon: 1e-6, weight_decay: WeightDecay::None }
    }
}

/// Adadelta (Zeiler, arXiv 1212.5701), with PyTorch's order of operations: the step is `d = sqrt(u + epsilon) / sqrt(v
/// + epsilon) · g`, where `v` and `u` are the running means of `g²` and of earlier `d²`.
pub type Adadelta = Grouped<AdadeltaOptions>;

/// What a group keeps from step to step.
#[derive(Debug)]
pub struct AdadeltaState {
    square_avg: Var,
    acc_delta: Var,
}

impl Rule for AdadeltaOptions {
    type State = AdadeltaState;

    fn learning_rate(&self) -> f32 {
        self.learning_rate
    }

    fn settings(&self) -> Vec<Setting> {
        vec![
            Setting::below_one("rho", self.rho),
            Setting::not_negative("epsilon", self.epsilon),
            self.weight_decay.setting(),
        ]
    }

    fn state(&self, new: &mut NewState<'_>) -> Result<AdadeltaState> {
        Ok(AdadeltaState { square_avg: new.flat("square_avg")?, acc_delta: new.flat("acc_delta")? })
    }

    fn update(&self, state: &AdadeltaState, at: &Update<'_>) -> Tensor {
        let gradient = self.weight_decay.gradient(at);
        let square = follow(&state.square_avg, &gradient.square(), self.rho);
        let before = state.acc_delta.tensor();
        let step = (before + self.epsilon).sqrt() / (square + self.epsilon).sqrt() * gradient;
        follow(&state.acc_delta, &step.square(), self.rho);
        self.weight_decay.parameters(at) - step * &at.rate
    }
}
