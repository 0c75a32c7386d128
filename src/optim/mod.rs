//! Optimizers: the update of all parameters of a group is a few elementwise operations over flat vectors.
//!
//! The variables of a group are moved into one arena, their gradients are packed the same way, and moments are as long as
//! the arena. A step's update is therefore one launch per group, however many layers the model has. Moments and counters
//! are variables like any other, so that a step that turns out not to be finite leaves them as they were.

mod adam;
mod group;
mod loss_scaler;
mod schedule;
mod sgd;

pub use adam::{Adam, AdamOptions, WeightDecay};
pub use loss_scaler::{LossScaleOptions, LossScaler};
pub use schedule::Schedule;
pub use sgd::{Momentum, Sgd, SgdOptions};

use crate::autodiff::Gradients;
use crate::runtime::Var;

/// Changes parameters along their gradients.
pub trait Optimizer: Send + Sync {
    /// Traces one update of all parameters, in [`Stage::Update`](crate::Stage::Update).
    ///
    /// A parameter that the loss does not depend on counts as having gradient zero.
    fn update(&self, gradients: &Gradients);

    /// Sets the learning rate of every group, for the steps from now on; captured steps stay as they are.
    fn set_learning_rate(&self, learning_rate: f32);

    /// The learning rate of the first group.
    fn learning_rate(&self) -> f32;

    /// What a checkpoint keeps besides the parameters; [`Var::name`] tells them apart.
    fn state(&self) -> Vec<Var>;
}
