//! `RMSprop`.

use crate::error::Result;
use crate::runtime::Var;
use crate::tensor::Tensor;

use super::moments::{follow, put};
use super::{Grouped, NewState, Rule, Setting, Update, WeightDecay};

/// Settings of a group of parameters; defaults are those of PyTorch's `RMSprop`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RMSpropOptions {
    /// About the length of a step, in each coordinate.
    pub learning_rate: f32,
    /// How much of the squared gradient's running mean each step keeps.
    pub alpha: f64,
    /// Added to the root of the squared gradient's mean.
    pub epsilon: f32,
    /// Pull towards zero.
    pub weight_decay: WeightDecay,
    /// How much of the last step is repeated.
    pub momentum: f32,
    /// Divides by the gradient's standard deviation instead of its root mean square (Graves, arXiv 1308.0850).
    pub centered: bool,
}

impl Default for RMSpropOptions {
    fn default() -> Self {
        Self {
            learning_rate: 1e-2,
            alpha: 0.99,
            epsilon: 1e-8,
            weight_decay: WeightDecay::None,
            momentum: 0.0,
            centered: false,
        }
    }
}

/// `RMSprop` (Hinton, lecture 6e of "Neural Networks for Machine Learning", 2012), with PyTorch's order of operations:
/// `p ← p − learning_rate · g / (sqrt(v) + epsilon)`, where `v` is the running mean of the squared gradient.
pub type RMSprop = Grouped<RMSpropOptions>;

/// What a group keeps from step to step.
#[derive(Debug)]
pub struct RMSpropState {
    square_avg: Var,
    grad_avg: Option<Var>,
    momentum_buffer: Option<Var>,
}

impl Rule for RMSpropOptions {
    type State = RMSpropState;

    fn learning_rate(&self) -> f32 {
        self.learning_rate
    }

    fn settings(&self) -> Vec<Setting> {
        vec![
            Setting::below_one("alpha", self.alpha),
            Setting::not_negative("epsilon", self.epsilon),
            Setting::not_negative("momentum", self.momentum),
            self.weight_decay.setting(),
        ]
    }

    fn state(&self, new: &mut NewState<'_>) -> Result<RMSpropState> {
        Ok(RMSpropState {
            square_avg: new.flat("square_avg")?,
            grad_avg: self.centered.then(|| new.flat("grad_avg")).transpose()?,
            momentum_buffer: (self.momentum > 0.0).then(|| new.flat("momentum_buffer")).transpose()?,
        })
    }

    fn update(&self, state: &RMSpropState, at: &Update<'_>) -> Tensor {
        let gradient = self.weight_decay.gradient(at);
        let mut square = follow(&state.square_avg, &gradient.square(), self.alpha);
        if let Some(mean) = &state.grad_avg {
            // rounding alone makes it negative, when the gradient does not change
            square = (square - follow(mean, &gradient, self.alpha).square()).maximum(0.0);
        }
        let mut direction = gradient / (square.sqrt() + self.epsilon);
        if let Some(buffer) = &state.momentum_buffer {
            direction = put(buffer, buffer.tensor() * self.momentum + direction);
        }
        self.weight_decay.parameters(at) - direction * &at.rate
    }
}
