//! Rprop.

use crate::error::Result;
use crate::runtime::Var;
use crate::tensor::Tensor;

use super::moments::put;
use super::{Grouped, NewState, Rule, Setting, Update};

/// Settings of a group of parameters; defaults are those of PyTorch's `Rprop`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RpropOptions {
    /// Length of the first step, in each coordinate; later ones follow from it.
    pub learning_rate: f32,
    /// Factor of a step where the gradient changed its sign.
    pub shrink: f32,
    /// Factor of a step where it kept its sign.
    pub grow: f32,
    /// The shortest step.
    pub least: f32,
    /// The longest step.
    pub most: f32,
}

impl Default for RpropOptions {
    fn default() -> Self {
        Self { learning_rate: 1e-2, shrink: 0.5, grow: 1.2, least: 1e-6, most: 50.0 }
    }
}

/// Resilient propagation (Riedmiller and Braun 1993), with PyTorch's order of operations: each coordinate has a step of
/// its own, which grows while its gradient keeps its sign and shrinks where it changes, which also skips that
/// coordinate once. It needs gradients over all the data: those of a batch change their signs by chance.
pub type Rprop = Grouped<RpropOptions>;

/// What a group keeps from step to step.
#[derive(Debug)]
pub struct RpropState {
    prev: Var,
    /// 0 before the first step.
    step_size: Var,
}

impl Rule for RpropOptions {
    type State = RpropState;

    fn learning_rate(&self) -> f32 {
        self.learning_rate
    }

    fn settings(&self) -> Vec<Setting> {
        vec![
            Setting::below_one("shrink", self.shrink),
            Setting::not_negative("grow", self.grow),
            Setting::not_negative("least", self.least),
        ]
    }

    fn state(&self, new: &mut NewState<'_>) -> Result<RpropState> {
        Ok(RpropState { prev: new.flat("prev")?, step_size: new.flat("step_size")? })
    }

    fn update(&self, state: &RpropState, at: &Update<'_>) -> Tensor {
        let turn = &at.gradient * state.prev.tensor();
        let turned = turn.lt(0.0);
        let factor = turned.where_(f64::from(self.shrink), turn.gt(0.0).where_(f64::from(self.grow), turn.ones_like()));
        let length = state.step_size.tensor();
        let length = length.eq(0.0).where_(&at.rate, &length) * factor;
        let length = put(&state.step_size, length.clamp(self.least, self.most));
        let gradient = put(&state.prev, turned.where_(0.0, &at.gradient));
        &at.parameters - gradient.sign() * length
    }
}
