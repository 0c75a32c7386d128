//! LAMB.

use crate::error::Result;
use crate::tensor::Tensor;

use super::moments::{Moments, of_moments};
use super::{Grouped, NewState, Rule, Setting, Update, WeightDecay};

/// Settings of a group of parameters; `epsilon`, the betas and the decay are those of the paper's BERT runs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LambOptions {
    /// Length of a step, as a part of the parameter's norm.
    pub learning_rate: f32,
    /// How much of the gradient's running mean each step keeps.
    pub beta1: f64,
    /// How much of the squared gradient's running mean each step keeps.
    pub beta2: f64,
    /// Added to the root of the squared gradient's mean.
    pub epsilon: f32,
    /// Pull towards zero. A decoupled one, the paper's, is part of the direction.
    pub weight_decay: WeightDecay,
}

impl Default for LambOptions {
    fn default() -> Self {
        Self {
            learning_rate: 1e-3,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-6,
            weight_decay: WeightDecay::Decoupled(1e-2),
        }
    }
}

/// LAMB (You et al., arXiv 1904.00962, algorithm 2, with φ the identity): Adam's direction plus the decay,
/// `u = m̂ / (sqrt(v̂) + epsilon) + weight_decay · p`, and for each parameter tensor
/// `p ← p − learning_rate · ‖p‖ / ‖u‖ · u`; the ratio is 1 where either norm is 0.
pub type Lamb = Grouped<LambOptions>;

impl Rule for LambOptions {
    type State = Moments;

    fn learning_rate(&self) -> f32 {
        self.learning_rate
    }

    fn settings(&self) -> Vec<Setting> {
        of_moments(self.beta1, self.beta2, self.epsilon, self.weight_decay)
    }

    fn state(&self, new: &mut NewState<'_>) -> Result<Moments> {
        Moments::new(new)
    }

    fn update(&self, moments: &Moments, at: &Update<'_>) -> Tensor {
        let now = moments.next(&self.weight_decay.gradient(at), self.beta1, self.beta2);
        let length = (now.square / now.correction2).sqrt() + self.epsilon;
        let mut direction = now.mean / now.correction1 / length;
        if let WeightDecay::Decoupled(factor) = self.weight_decay {
            direction += &at.parameters * factor;
        }
        let norm = |tensor: &Tensor| tensor.square().sum().sqrt();
        let parts = at.layout.split(&at.parameters).into_iter().zip(at.layout.split(&direction));
        let moved = parts.map(|(parameter, direction)| {
            let (whole, step) = (norm(&parameter), norm(&direction));
            let usable = whole.gt(0.0).logical_and(&step.gt(0.0));
            let ratio = usable.where_(whole / usable.where_(step, 1.0), 1.0);
            parameter - direction * (ratio * &at.rate)
        });
        at.layout.pack(&moved.collect::<Vec<_>>())
    }
}
