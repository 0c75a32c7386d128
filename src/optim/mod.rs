//! Optimizers, gradient clipping and learning rate schedules.
//!
//! The variables of a group are moved into one arena, their gradients are packed the same way, and moments are as long
//! as the arena. An elementwise update is therefore one launch per group, however many layers the model has. Moments
//! and counters are variables like any other, so that a step that turns out not to be finite leaves them as they were.
//!
//! An optimizer is a [`Rule`]: a small file with its options, its state and its formula. Names and defaults are
//! PyTorch's (`torch.optim`), or the paper's where PyTorch has none.
//!
//! ```
//! use brasa::optim::{Adam, AdamOptions, Optimizer};
//! use brasa::runtime::Var;
//! use brasa::{Device, Result, Tensor};
//!
//! # fn main() -> Result<()> {
//! let device = Device::cpu();
//! let weight = Var::parameter("weight", &Tensor::full([2], 1.0_f32, &device))?;
//! let bias = Var::parameter("bias", &Tensor::full([1], 1.0_f32, &device))?;
//! // Groups have options of their own: no decay for the bias.
//! let optimizer = Adam::new(&[weight.clone()], AdamOptions::adamw())?
//!     .with_group(&[bias.clone()], AdamOptions::default())?
//!     .with_max_norm(1.0);
//! for _ in 0..3 {
//!     let loss = weight.tensor().square().sum() + bias.tensor().square().sum();
//!     optimizer.update(&loss.backward());
//! }
//! assert!(weight.tensor().to_vec::<f32>()?[0] < 0.998);
//! // Everything that it keeps, by name: `state.weight.exp_avg`, `param_groups.0.lr`, …
//! let saved = optimizer.state_dict();
//! optimizer.load_state_dict(&saved)?;
//! # Ok(())
//! # }
//! ```

mod adadelta;
mod adagrad;
mod adam;
mod adamax;
mod asgd;
mod clip;
mod ema;
mod group;
mod lamb;
mod lion;
mod loss_scaler;
mod moments;
mod muon;
mod nadam;
mod radam;
mod rmsprop;
mod rprop;
mod rule;
mod schedule;
mod sgd;
mod state;
mod weight_decay;

pub use adadelta::{Adadelta, AdadeltaOptions};
pub use adagrad::{Adagrad, AdagradOptions};
pub use adam::{Adam, AdamOptions};
pub use adamax::{Adamax, AdamaxOptions};
pub use asgd::{ASGD, ASGDOptions};
pub use clip::{Norm, clip_grad_norm, clip_grad_value};
pub use ema::ExponentialMovingAverage;
pub use group::Grouped;
pub use lamb::{Lamb, LambOptions};
pub use lion::{Lion, LionOptions};
pub use loss_scaler::{LossScaleOptions, LossScaler};
pub use muon::{Muon, MuonAdjust, MuonOptions};
pub use nadam::{NAdam, NAdamOptions};
pub use radam::{RAdam, RAdamOptions};
pub use rmsprop::{RMSprop, RMSpropOptions};
pub use rprop::{Rprop, RpropOptions};
pub use rule::{Layout, NewState, Rule, Setting, Update};
pub use schedule::{Anneal, Cycle, Plateau, Schedule, Scheduler};
pub use sgd::{Momentum, SGD, SGDOptions};
pub use weight_decay::WeightDecay;

use std::collections::BTreeMap;

use crate::autodiff::Gradients;
use crate::error::Result;
use crate::runtime::Var;
use crate::tensor::Tensor;

/// Changes parameters along their gradients.
pub trait Optimizer: Send + Sync {
    /// Traces one update of all parameters, in [`Stage::Update`](crate::Stage::Update).
    ///
    /// A parameter that the loss does not depend on counts as having gradient zero. Returns the Euclidean norm of all
    /// gradients together before anything limits it, of shape `[]`; nothing computes it unless it is used.
    ///
    /// # Panics
    /// If the loss depends on none of the parameters.
    #[track_caller]
    fn update(&self, gradients: &Gradients) -> Tensor;

    /// Traces that these gradients are added to those of the next [`update`](Self::update): a batch in several parts,
    /// each with its share of the loss.
    ///
    /// # Panics
    /// If the optimizer was not made [`with_accumulation`](Grouped::with_accumulation), or as [`update`](Self::update).
    #[track_caller]
    fn accumulate(&self, gradients: &Gradients);

    /// Traces that all gradients which [`accumulate`](Self::accumulate) has added up so far are multiplied by `factor`,
    /// f32 `[]`: such as one over a count of targets that only the whole batch knows.
    ///
    /// # Panics
    /// If the optimizer was not made [`with_accumulation`](Grouped::with_accumulation), or the factor is no number.
    #[track_caller]
    fn scale_accumulated(&self, factor: &Tensor);

    /// Where the parameters of each group lie, or of each of its parts, if no buffer of the device holds all.
    fn layouts(&self) -> Vec<&Layout>;

    /// Sets the learning rate of each group, for the steps from now on; captured steps stay as they are.
    ///
    /// # Panics
    /// If there are not as many as groups, or one is negative or not finite.
    #[track_caller]
    fn set_learning_rates(&self, learning_rates: &[f32]);

    /// The learning rate of each group.
    fn learning_rates(&self) -> Vec<f32>;

    /// Sets the learning rate of every group to the same.
    ///
    /// # Panics
    /// If it is negative or not finite.
    #[track_caller]
    fn set_learning_rate(&self, learning_rate: f32) {
        self.set_learning_rates(&vec![learning_rate; self.learning_rates().len()]);
    }

    /// The learning rate of the first group.
    fn learning_rate(&self) -> f32 {
        self.learning_rates()[0]
    }

    /// What a checkpoint keeps besides the parameters, as it lies in memory; [`Var::name`] tells them apart.
    fn state(&self) -> Vec<Var>;

    /// The same and the learning rates as tensors by name: `state.NAME.SLOT` for what belongs to the parameter of this
    /// name and has its shape, `param_groups.NUMBER.SLOT` for what belongs to a group.
    ///
    /// # Panics
    /// If two parameters have the same name.
    fn state_dict(&self) -> BTreeMap<String, Tensor>;

    /// Sets everything that [`Optimizer::state_dict`] gave, perhaps of an optimizer in another process.
    ///
    /// # Errors
    /// If a name is missing or unknown, or a shape is another (nothing changes then), or the device fails.
    fn load_state_dict(&self, state: &BTreeMap<String, Tensor>) -> Result<()>;
}
