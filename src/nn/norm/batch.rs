//! Batch norm.

use crate::error::Result;
use crate::graph::refuse;
use crate::runtime::Var;
use crate::tensor::Tensor;
use crate::variables;

use super::super::module::{Scope, follows_statistics};
use super::super::{Init, Initial, Module};
use super::{EPSILON, MOMENTUM};

/// Batch norm over `[batch, channels]` or `[batch, channels, length]`.
pub type BatchNorm1d = BatchNorm<1>;
/// Batch norm over `[batch, channels, height, width]`.
pub type BatchNorm2d = BatchNorm<2>;
/// Batch norm over `[batch, channels, depth, height, width]`.
pub type BatchNorm3d = BatchNorm<3>;

/// Batch norm over `[batch, channels, size..]` (Ioffe and Szegedy, arXiv 1502.03167): each channel is shifted and
/// scaled to mean 0 and variance 1, then `y = x̂ · weight + bias`.
///
/// In [`Mode::Train`](crate::nn::Mode::Train) the batch's own statistics are used and move the running ones by a tenth
/// (their variance with Bessel's correction, as PyTorch keeps it); in [`Mode::Evaluate`](crate::nn::Mode::Evaluate), or
/// where [`freeze_statistics`](crate::nn::freeze_statistics) holds, the running ones are used.
#[derive(Debug)]
pub struct BatchNorm<const AXES: usize> {
    /// `[channels]`
    pub weight: Option<Var>,
    /// `[channels]`
    pub bias: Option<Var>,
    /// `[channels]`
    pub running_mean: Var,
    /// `[channels]`
    pub running_var: Var,
    /// Batches seen in training, `[]`.
    pub num_batches_tracked: Var,
    epsilon: f64,
    momentum: Option<f64>,
    scope: Scope,
}

impl<const AXES: usize> BatchNorm<AXES> {
    /// The identity at first: scale 1, shift 0, running mean 0 and variance 1.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    pub fn new(channels: usize, init: &Init) -> Result<Self> {
        let weight = Some(init.parameter("weight", channels, Initial::Constant(1.0))?);
        let bias = Some(init.parameter("bias", channels, Initial::Constant(0.0))?);
        Ok(Self { weight, bias, ..Self::without_affine(channels, init)? })
    }

    /// Without weight and bias: PyTorch's `affine=False`.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    pub fn without_affine(channels: usize, init: &Init) -> Result<Self> {
        Ok(Self {
            weight: None,
            bias: None,
            running_mean: init.buffer("running_mean", channels, Initial::Constant(0.0))?,
            running_var: init.buffer("running_var", channels, Initial::Constant(1.0))?,
            num_batches_tracked: init.counter("num_batches_tracked")?,
            epsilon: EPSILON,
            momentum: Some(MOMENTUM),
            scope: Scope::over(AXES, ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d"], init.path()),
        })
    }

    /// With this number added to variances (1e-5 unless set).
    #[must_use]
    pub fn epsilon(mut self, epsilon: f64) -> Self {
        self.epsilon = epsilon;
        self
    }

    /// With this weight of the newest batch in the running statistics (0.1 unless set); `None`: the mean over all
    /// batches.
    #[must_use]
    pub fn momentum(mut self, momentum: Option<f64>) -> Self {
        self.momentum = momentum;
        self
    }

    #[track_caller]
    fn train(&self, input: &Tensor) -> Tensor {
        let count = input.numel() / input.size(1).max(1);
        if count < 2 {
            let shape = input.shape();
            refuse(format_args!("batch norm: {count} values per channel in {shape}, and training needs 2 or more"));
        }
        let [weight, bias] = [&self.weight, &self.bias].map(|var| var.as_ref().map(Var::tensor));
        let normal = input.batch_norm(weight.as_ref(), bias.as_ref(), self.epsilon);
        let batches = self.num_batches_tracked.tensor() + 1;
        for (running, newest) in [(&self.running_mean, &normal.mean), (&self.running_var, &normal.variance)] {
            let (old, newest) = (running.tensor(), newest.detach());
            running.assign(&match self.momentum {
                Some(momentum) => old * (1.0 - momentum) + newest * momentum,
                None => &old + (newest - &old) / batches.to_dtype(old.dtype()),
            });
        }
        self.num_batches_tracked.assign(&batches);
        normal.output
    }

    #[track_caller]
    fn evaluate(&self, input: &Tensor) -> Tensor {
        let [weight, bias] = [&self.weight, &self.bias].map(|var| var.as_ref().map(Var::tensor));
        let (mean, variance) = (self.running_mean.tensor(), self.running_var.tensor());
        input.batch_norm_eval(&mean, &variance, weight.as_ref(), bias.as_ref(), self.epsilon)
    }
}

variables!(impl[const AXES: usize] BatchNorm<AXES>: weight, bias, running_mean, running_var, num_batches_tracked);

impl<const AXES: usize> Module for BatchNorm<AXES> {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let _scope = self.scope.enter();
        let channels = self.running_mean.shape().numel();
        let fits = input.rank() == AXES + 2 || AXES == 1 && input.rank() == 2;
        if !fits || input.size(1) != channels {
            refuse(format_args!("batch norm: {} is not [batch, {channels} channels, {AXES} axes]", input.shape()));
        }
        let full = input.full_precision();
        let output = if follows_statistics() { self.train(&full) } else { self.evaluate(&full) };
        output.in_type_of(input)
    }
}
