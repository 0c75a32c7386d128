//! Adamax.

use crate::error::Result;
use crate::runtime::Var;
use crate::tensor::Tensor;

use super::moments::{Correction, follow, of_moments, put};
use super::{Grouped, NewState, Rule, Setting, Update, WeightDecay};

/// Settings of a group of parameters; defaults are those of PyTorch's `Adamax`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AdamaxOptions {
    /// About the length of a step, in each coordinate.
    pub learning_rate: f32,
    /// How much of the gradient's running mean each step keeps.
    pub beta1: f64,
    /// How much of the largest gradient's size each step keeps.
    pub beta2: f64,
    /// Added to each gradient's size.
    pub epsilon: f32,
    /// Pull towards zero.
    pub weight_decay: WeightDecay,
}

impl Default for AdamaxOptions {
    fn default() -> Self {
        Self { learning_rate: 2e-3, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: WeightDecay::None }
    }
}

/// Adamax (Kingma and Ba, arXiv 1412.6980, section 7.1), with PyTorch's order of operations:
/// `u ← max(beta2 · u, |g| + epsilon)`, then `p ← p − learning_rate / (1 − beta1^t) · m / u`.
pub type Adamax = Grouped<AdamaxOptions>;

/// What a group keeps from step to step.
#[derive(Debug)]
pub struct AdamaxState {
    exp_avg: Var,
    exp_inf: Var,
    correction: Correction,
}

impl Rule for AdamaxOptions {
    type State = AdamaxState;

    fn learning_rate(&self) -> f32 {
        self.learning_rate
    }

    fn settings(&self) -> Vec<Setting> {
        of_moments(self.beta1, self.beta2, self.epsilon, self.weight_decay)
    }

    fn state(&self, new: &mut NewState<'_>) -> Result<AdamaxState> {
        let (exp_avg, exp_inf) = (new.flat("exp_avg")?, new.flat("exp_inf")?);
        Ok(AdamaxState { exp_avg, exp_inf, correction: Correction::new("correction1", new)? })
    }

    fn update(&self, state: &AdamaxState, at: &Update<'_>) -> Tensor {
        let gradient = self.weight_decay.gradient(at);
        let mean = follow(&state.exp_avg, &gradient, self.beta1);
        let size = (state.exp_inf.tensor() * self.beta2).maximum(gradient.abs() + self.epsilon);
        let size = put(&state.exp_inf, size);
        self.weight_decay.parameters(at) - mean / size * (&at.rate / state.correction.next(self.beta1))
    }
}
