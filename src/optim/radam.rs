//! Rectified Adam.

use crate::error::Result;
use crate::runtime::Var;
use crate::tensor::Tensor;

use super::moments::{Moments, count, of_moments, put};
use super::{Grouped, NewState, Rule, Setting, Update, WeightDecay};

/// Settings of a group of parameters; defaults are those of PyTorch's `RAdam`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RAdamOptions {
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
}

impl Default for RAdamOptions {
    fn default() -> Self {
        Self { learning_rate: 1e-3, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: WeightDecay::None }
    }
}

/// `RAdam` (Liu et al., arXiv 1908.03265), with PyTorch's order of operations: momentum alone while the variance of the
/// squared gradient's mean is not tractable (`rho_t ≤ 5`), then Adam's step times the rectification
/// `sqrt((rho_t − 4) (rho_t − 2) rho_∞ / ((rho_∞ − 4) (rho_∞ − 2) rho_t))`.
pub type RAdam = Grouped<RAdamOptions>;

/// What a group keeps from step to step.
///
/// `rho_t = rho_∞ − 2 t beta2^t / (1 − beta2^t)` is a small difference of large numbers. The same number is `2 E / S −
/// 1` with the sums of positive terms `E = Σ k beta2^(k−1)` and `S = Σ beta2^(k−1)` over k from 1 to t, which f32 can
/// hold.
#[derive(Debug)]
pub struct RAdamState {
    moments: Moments,
    step: Var,
    /// `beta2^(t−1)`.
    power: Var,
    /// `S`.
    weights: Var,
    /// `E`.
    weighted_steps: Var,
}

impl Rule for RAdamOptions {
    type State = RAdamState;

    fn learning_rate(&self) -> f32 {
        self.learning_rate
    }

    fn settings(&self) -> Vec<Setting> {
        of_moments(self.beta1, self.beta2, self.epsilon, self.weight_decay)
    }

    fn state(&self, new: &mut NewState<'_>) -> Result<RAdamState> {
        Ok(RAdamState {
            moments: Moments::new(new)?,
            step: new.scalar("step")?,
            power: new.scalar_of("power", 1.0)?,
            weights: new.scalar("weights")?,
            weighted_steps: new.scalar("weighted_steps")?,
        })
    }

    fn update(&self, state: &RAdamState, at: &Update<'_>) -> Tensor {
        let gradient = self.weight_decay.gradient(at);
        let step = count(&state.step);
        let power = state.power.tensor();
        let weights = put(&state.weights, state.weights.tensor() + &power);
        let weighted = put(&state.weighted_steps, state.weighted_steps.tensor() + step * &power);
        put(&state.power, power * self.beta2);
        let rho = weighted / weights * 2.0 - 1.0;
        let limit = 2.0 / (1.0 - self.beta2) - 1.0;
        let tractable = rho.gt(5.0);
        let ratio = (&rho - 4.0) * (&rho - 2.0) / &rho * (limit / ((limit - 4.0) * (limit - 2.0)));
        let rectification = tractable.where_(ratio, 1.0).sqrt();

        let now = state.moments.next(&gradient, self.beta1, self.beta2);
        let length = (now.square.sqrt() + self.epsilon) / now.correction2.sqrt();
        let length = tractable.where_(length, 1.0);
        self.weight_decay.parameters(at) - now.mean / length * (rectification * &at.rate / now.correction1)
    }
}
