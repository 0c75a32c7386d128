//! Adagrad.

use crate::error::Result;
use crate::runtime::Var;
use crate::tensor::Tensor;

use super::moments::{count, put};
use super::{Grouped, NewState, Rule, Setting, Update, WeightDecay};

/// Settings of a group of parameters; defaults are those of PyTorch's `Adagrad`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AdagradOptions {
    /// Length of the first step, in each coordinate.
    pub learning_rate: f32,
    /// Step t (from 0) has the learning rate divided by `1 + t · learning_rate_decay`.
    pub learning_rate_decay: f32,
    /// Pull towards zero.
    pub weight_decay: WeightDecay,
    /// What the sum of squared gradients starts from.
    pub initial_accumulator: f32,
    /// Added to the root of the sum.
    pub epsilon: f32,
}

impl Default for AdagradOptions {
    fn default() -> Self {
        Self {
            learning_rate: 1e-2,
            learning_rate_decay: 0.0,
            weight_decay: WeightDecay::None,
            initial_accumulator: 0.0,
            epsilon: 1e-10,
        }
    }
}

/// Adagrad (Duchi, Hazan and Singer 2011), with PyTorch's order of operations: `s ← s + g²`, then
/// `p ← p − learning_rate · g / (sqrt(s) + epsilon)`.
pub type Adagrad = Grouped<AdagradOptions>;

/// What a group keeps from step to step.
#[derive(Debug)]
pub struct AdagradState {
    sum: Var,
    step: Var,
}

impl Rule for AdagradOptions {
    type State = AdagradState;

    fn learning_rate(&self) -> f32 {
        self.learning_rate
    }

    fn settings(&self) -> Vec<Setting> {
        vec![
            Setting::not_negative("learning_rate_decay", self.learning_rate_decay),
            Setting::not_negative("initial_accumulator", self.initial_accumulator),
            Setting::not_negative("epsilon", self.epsilon),
            self.weight_decay.setting(),
        ]
    }

    fn state(&self, new: &mut NewState<'_>) -> Result<AdagradState> {
        Ok(AdagradState { sum: new.flat_of("sum", self.initial_accumulator)?, step: new.scalar("step")? })
    }

    fn update(&self, state: &AdagradState, at: &Update<'_>) -> Tensor {
        let gradient = self.weight_decay.gradient(at);
        let earlier = count(&state.step) - 1.0;
        let rate = &at.rate / (earlier * self.learning_rate_decay + 1.0);
        let sum = put(&state.sum, state.sum.tensor() + gradient.square());
        self.weight_decay.parameters(at) - gradient / (sum.sqrt() + self.epsilon) * rate
    }
}
