//! Adam with Nesterov's momentum.

use crate::error::Result;
use crate::runtime::Var;
use crate::tensor::Tensor;

use super::moments::{Moments, count, of_moments, put};
use super::{Grouped, NewState, Rule, Setting, Update, WeightDecay};

/// Settings of a group of parameters; defaults are those of PyTorch's `NAdam`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NAdamOptions {
    /// About the length of a step, in each coordinate.
    pub learning_rate: f32,
    /// How much of the gradient's running mean each step keeps, in the long run.
    pub beta1: f64,
    /// How much of the squared gradient's running mean each step keeps.
    pub beta2: f64,
    /// Added to the root of the squared gradient's mean.
    pub epsilon: f32,
    /// Pull towards zero.
    pub weight_decay: WeightDecay,
    /// How fast the momentum rises to `beta1`.
    pub momentum_decay: f64,
}

impl Default for NAdamOptions {
    fn default() -> Self {
        Self {
            learning_rate: 2e-3,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            weight_decay: WeightDecay::None,
            momentum_decay: 4e-3,
        }
    }
}

/// `NAdam` (Dozat 2016, "Incorporating Nesterov Momentum into Adam"), with PyTorch's order of operations: with
/// `mu_t = beta1 · (1 − 0.5 · 0.96^(t · momentum_decay))`, a step follows
/// `(1 − mu_t) / (1 − Π mu) · g + mu_(t+1) / (1 − Π mu · mu_(t+1)) · m`, over Adam's length.
pub type NAdam = Grouped<NAdamOptions>;

/// What a group keeps from step to step.
#[derive(Debug)]
pub struct NAdamState {
    moments: Moments,
    step: Var,
    /// Product of all momenta so far.
    mu_product: Var,
}

impl NAdamOptions {
    fn momentum(&self, step: &Tensor) -> Tensor {
        let falling = (step * (self.momentum_decay * 0.96_f64.ln())).exp();
        (1.0 - falling * 0.5) * self.beta1
    }
}

impl Rule for NAdamOptions {
    type State = NAdamState;

    fn learning_rate(&self) -> f32 {
        self.learning_rate
    }

    fn settings(&self) -> Vec<Setting> {
        let mut settings = of_moments(self.beta1, self.beta2, self.epsilon, self.weight_decay);
        settings.push(Setting::not_negative("momentum_decay", self.momentum_decay));
        settings
    }

    fn state(&self, new: &mut NewState<'_>) -> Result<NAdamState> {
        let moments = Moments::new(new)?;
        Ok(NAdamState { moments, step: new.scalar("step")?, mu_product: new.scalar_of("mu_product", 1.0)? })
    }

    fn update(&self, state: &NAdamState, at: &Update<'_>) -> Tensor {
        let gradient = self.weight_decay.gradient(at);
        let step = count(&state.step);
        let (mu, next_mu) = (self.momentum(&step), self.momentum(&(&step + 1.0)));
        let product = put(&state.mu_product, state.mu_product.tensor() * &mu);
        let now = state.moments.next(&gradient, self.beta1, self.beta2);
        let length = (now.square / now.correction2).sqrt() + self.epsilon;
        let by_gradient = (1.0 - mu) / (1.0 - &product) * &at.rate;
        let by_mean = &next_mu / (1.0 - product * &next_mu) * &at.rate;
        self.weight_decay.parameters(at) - (gradient * by_gradient + now.mean * by_mean) / length
    }
}
