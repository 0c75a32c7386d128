//! Stochastic gradient descent.

use crate::error::Result;
use crate::runtime::Var;
use crate::tensor::Tensor;

use super::moments::{count, put};
use super::{Grouped, NewState, Rule, Setting, Update, WeightDecay};

/// Settings of a group of parameters; defaults are those of PyTorch's `SGD`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SGDOptions {
    /// Length of a step along the gradient.
    pub learning_rate: f32,
    /// How past gradients are carried on.
    pub momentum: Momentum,
    /// Pull towards zero.
    pub weight_decay: WeightDecay,
}

/// How past gradients are carried on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Momentum {
    /// Not at all.
    None,
    /// `v ← factor · v + g`, and the step follows `v`.
    Heavy(f32),
    /// `v ← factor · v + (1 − dampening) · g`, in the first step `v ← g`, and the step follows `v`.
    Dampened {
        /// How much of `v` stays.
        factor: f32,
        /// How much of `g` does not enter.
        dampening: f32,
    },
    /// `v` as for heavy momentum, and the step follows `g + factor · v`.
    Nesterov(f32),
}

impl Momentum {
    fn setting(self) -> Setting {
        let factor = match self {
            Self::None => 0.0,
            Self::Heavy(factor) | Self::Nesterov(factor) | Self::Dampened { factor, .. } => factor,
        };
        Setting::not_negative("momentum", factor)
    }
}

impl Default for SGDOptions {
    fn default() -> Self {
        Self { learning_rate: 1e-3, momentum: Momentum::None, weight_decay: WeightDecay::None }
    }
}

/// Stochastic gradient descent, as PyTorch's `SGD`: weight decay, then momentum, then `p ← p − learning_rate · g`.
pub type SGD = Grouped<SGDOptions>;

/// What a group keeps from step to step.
#[derive(Debug)]
pub struct SGDState {
    momentum_buffer: Option<Var>,
    /// Steps so far, where the first one differs.
    step: Option<Var>,
}

impl Rule for SGDOptions {
    type State = SGDState;

    fn learning_rate(&self) -> f32 {
        self.learning_rate
    }

    fn settings(&self) -> Vec<Setting> {
        vec![self.momentum.setting(), self.weight_decay.setting()]
    }

    fn state(&self, new: &mut NewState<'_>) -> Result<SGDState> {
        let has_buffer = self.momentum != Momentum::None;
        let counts = matches!(self.momentum, Momentum::Dampened { .. });
        let momentum_buffer = has_buffer.then(|| new.flat("momentum_buffer")).transpose()?;
        Ok(SGDState { momentum_buffer, step: counts.then(|| new.scalar("step")).transpose()? })
    }

    fn update(&self, state: &SGDState, at: &Update<'_>) -> Tensor {
        let gradient = self.weight_decay.gradient(at);
        let carry = |factor: f32, gradient: &Tensor| match &state.momentum_buffer {
            Some(buffer) => put(buffer, buffer.tensor() * factor + gradient),
            None => gradient.clone(),
        };
        let direction = match self.momentum {
            Momentum::None => gradient,
            Momentum::Heavy(factor) => carry(factor, &gradient),
            Momentum::Nesterov(factor) => &gradient + carry(factor, &gradient) * factor,
            Momentum::Dampened { factor, dampening } => {
                let step = state.step.as_ref().map(count);
                let part = step.map_or_else(|| at.rate.ones_like(), |step| step.gt(1.0).where_(1.0 - dampening, 1.0));
                carry(factor, &(gradient * part))
            }
        };
        self.weight_decay.parameters(at) - direction * &at.rate
    }
}
