//! Lion.

use crate::error::Result;
use crate::runtime::Var;
use crate::tensor::Tensor;

use super::moments::follow;
use super::{Grouped, NewState, Rule, Setting, Update, WeightDecay};

/// Settings of a group of parameters; defaults are the paper's.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LionOptions {
    /// Length of a step, in each coordinate: a third to a tenth of Adam's.
    pub learning_rate: f32,
    /// How much of the mean enters the step's direction.
    pub beta1: f64,
    /// How much of the gradient's running mean each step keeps.
    pub beta2: f64,
    /// Pull towards zero: decoupled in the paper, and three to ten times Adam's.
    pub weight_decay: WeightDecay,
}

impl Default for LionOptions {
    fn default() -> Self {
        Self { learning_rate: 1e-4, beta1: 0.9, beta2: 0.99, weight_decay: WeightDecay::None }
    }
}

/// Lion (Chen et al., arXiv 2302.06675, algorithm 2):
/// `p ← p − learning_rate · (sign(beta1 · m + (1 − beta1) · g) + weight_decay · p)`, then
/// `m ← beta2 · m + (1 − beta2) · g`.
pub type Lion = Grouped<LionOptions>;

impl Rule for LionOptions {
    type State = Var;

    fn learning_rate(&self) -> f32 {
        self.learning_rate
    }

    fn settings(&self) -> Vec<Setting> {
        vec![
            Setting::below_one("beta1", self.beta1),
            Setting::below_one("beta2", self.beta2),
            self.weight_decay.setting(),
        ]
    }

    fn state(&self, new: &mut NewState<'_>) -> Result<Var> {
        new.flat("exp_avg")
    }

    fn update(&self, mean: &Var, at: &Update<'_>) -> Tensor {
        let gradient = self.weight_decay.gradient(at);
        let direction = (mean.tensor() * self.beta1 + &gradient * (1.0 - self.beta1)).sign();
        follow(mean, &gradient, self.beta2);
        self.weight_decay.parameters(at) - direction * &at.rate
    }
}
