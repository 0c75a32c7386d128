//! Adam and AdamW.

use crate::error::Result;
use crate::runtime::Var;
use crate::tensor::Tensor;

use super::moments::{Moments, of_moments, put};
use super::{Grouped, NewState, Rule, Setting, Update, WeightDecay};

/// Settings of a group of parameters; defaults are those of PyTorch's `Adam`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AdamOptions {
    /// About the length of a step, in each coordinate.
    pub learning_rate: f32,
    /// How much of the gradient's running mean each step keeps.
    pub beta1: f64,
    /// How much of the squared gradient's running mean each step keeps.
    pub beta2: f64,
    /// Added to the root of the squared gradient's mean.
    pub epsilon: f32,
    /// Pull towards zero.
    pub weight_decay: WeightDecay,
    /// Divides by the root of the largest mean so far (AMSGrad; Reddi, Kale and Kumar, arXiv 1904.09237).
    pub amsgrad: bool,
}

impl Default for AdamOptions {
    fn default() -> Self {
        Self {
            learning_rate: 1e-3,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            weight_decay: WeightDecay::None,
            amsgrad: false,
        }
    }
}

impl AdamOptions {
    /// The defaults of PyTorch's `AdamW`: decoupled weight decay of 0.01.
    pub fn adamw() -> Self {
        Self { weight_decay: WeightDecay::Decoupled(1e-2), ..Self::default() }
    }
}

/// Adam (Kingma and Ba, arXiv 1412.6980) and, with decoupled weight decay, AdamW (Loshchilov and Hutter, arXiv
/// 1711.05101), with PyTorch's order of operations: `p ← p − learning_rate / (1 − beta1^t) · m / (sqrt(v) / sqrt(1 −
/// beta2^t) + epsilon)`, where `m` and `v` are the running means of the gradient and its square.
pub type Adam = Grouped<AdamOptions>;

/// What a group keeps from step to step.
#[derive(Debug)]
pub struct AdamState {
    moments: Moments,
    max_exp_avg_sq: Option<Var>,
}

impl Rule for AdamOptions {
    type State = AdamState;

    fn learning_rate(&self) -> f32 {
        self.learning_rate
    }

    fn settings(&self) -> Vec<Setting> {
        of_moments(self.beta1, self.beta2, self.epsilon, self.weight_decay)
    }

    fn state(&self, new: &mut NewState<'_>) -> Result<AdamState> {
        let moments = Moments::new(new)?;
        let max_exp_avg_sq = self.amsgrad.then(|| new.flat("max_exp_avg_sq")).transpose()?;
        Ok(AdamState { moments, max_exp_avg_sq })
    }

    fn update(&self, state: &AdamState, at: &Update<'_>) -> Tensor {
        let gradient = self.weight_decay.gradient(at);
        let now = state.moments.next(&gradient, self.beta1, self.beta2);
        let square = match &state.max_exp_avg_sq {
            Some(largest) => put(largest, largest.tensor().maximum(now.square)),
            None => now.square,
        };
        let length = square.sqrt() / now.correction2.sqrt() + self.epsilon;
        self.weight_decay.parameters(at) - now.mean / length * (&at.rate / now.correction1)
    }
}
