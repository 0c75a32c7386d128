//! Normalisation of each channel of each sample.

use crate::error::Result;
use crate::graph::refuse;
use crate::runtime::Var;
use crate::tensor::Tensor;
use crate::variables;

use super::super::module::{Scope, follows_statistics};
use super::super::{Init, Initial, Module};
use super::{EPSILON, MOMENTUM};

/// Instance norm over `[batch, channels, length]`.
pub type InstanceNorm1d = InstanceNorm<1>;
/// Instance norm over `[batch, channels, height, width]`.
pub type InstanceNorm2d = InstanceNorm<2>;
/// Instance norm over `[batch, channels, depth, height, width]`.
pub type InstanceNorm3d = InstanceNorm<3>;

/// Instance norm over `[batch, channels, size..]` (Ulyanov, Vedaldi, Lempitsky, arXiv 1607.08022): each channel of each
/// sample is shifted and scaled to mean 0 and variance 1, in training and in use alike; in use by the running
/// statistics if it tracks them.
#[derive(Debug)]
pub struct InstanceNorm<const AXES: usize> {
    /// `[channels]`
    pub weight: Option<Var>,
    /// `[channels]`
    pub bias: Option<Var>,
    /// Means over samples, moved in training.
    pub running: Option<InstanceStatistics>,
    epsilon: f64,
    momentum: f64,
    scope: Scope,
}

/// What an [`InstanceNorm`] that tracks statistics keeps.
#[derive(Debug)]
pub struct InstanceStatistics {
    /// `[channels]`
    pub running_mean: Var,
    /// `[channels]`, with Bessel's correction.
    pub running_var: Var,
    /// Named as in PyTorch, where it stays 0, too: `[]`.
    pub num_batches_tracked: Var,
}

impl<const AXES: usize> InstanceNorm<AXES> {
    /// Without variables, as PyTorch's default.
    pub fn new(init: &Init) -> Self {
        let scope = Scope::over(AXES, ["InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"], init.path());
        Self { weight: None, bias: None, running: None, epsilon: EPSILON, momentum: MOMENTUM, scope }
    }

    /// Then `· weight + bias` by channel; scale 1 and shift 0 at first.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    pub fn affine(channels: usize, init: &Init) -> Result<Self> {
        Ok(Self {
            weight: Some(init.parameter("weight", channels, Initial::Constant(1.0))?),
            bias: Some(init.parameter("bias", channels, Initial::Constant(0.0))?),
            ..Self::new(init)
        })
    }

    /// With running statistics, mean 0 and variance 1 at first: PyTorch's `track_running_stats=True`. Training moves
    /// them by a tenth of the mean over the batch, unless [`freeze_statistics`](crate::nn::freeze_statistics) holds.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub fn track_running_stats(mut self, channels: usize, init: &Init) -> Result<Self> {
        self.running = Some(InstanceStatistics {
            running_mean: init.buffer("running_mean", channels, Initial::Constant(0.0))?,
            running_var: init.buffer("running_var", channels, Initial::Constant(1.0))?,
            num_batches_tracked: init.counter("num_batches_tracked")?,
        });
        Ok(self)
    }

    /// With this number added to variances (1e-5 unless set).
    #[must_use]
    pub fn epsilon(mut self, epsilon: f64) -> Self {
        self.epsilon = epsilon;
        self
    }

    /// With this weight of the newest batch in the running statistics (0.1 unless set).
    #[must_use]
    pub fn momentum(mut self, momentum: f64) -> Self {
        self.momentum = momentum;
        self
    }

    #[track_caller]
    fn run(&self, input: &Tensor) -> Tensor {
        let [weight, bias] = [&self.weight, &self.bias].map(|var| var.as_ref().map(Var::tensor));
        let count = input.shape().get(2..).map_or(0, |sizes| sizes.iter().product::<usize>());
        if count == 1 && (self.running.is_none() || follows_statistics()) {
            refuse(format_args!("instance norm: one value per channel in {}, and it needs 2 or more", input.shape()));
        }
        let Some(running) = &self.running else {
            return input.instance_norm(weight.as_ref(), bias.as_ref(), self.epsilon);
        };
        if !follows_statistics() {
            let (mean, variance) = (running.running_mean.tensor(), running.running_var.tensor());
            return input.batch_norm_eval(&mean, &variance, weight.as_ref(), bias.as_ref(), self.epsilon);
        }
        // each channel of each sample as a channel of one
        let (batch, channels) = (input.size(0), input.size(1));
        let count = input.numel() / (batch * channels).max(1);
        if count < 2 {
            let shape = input.shape();
            refuse(format_args!("instance norm: {count} values per channel in {shape}, and training needs 2 or more"));
        }
        let each = |values: Option<Tensor>| values.map(|values| values.repeat(&[batch]));
        let normal = input.reshape([1, batch * channels, count]).batch_norm(
            each(weight).as_ref(),
            each(bias).as_ref(),
            self.epsilon,
        );
        for (kept, newest) in [(&running.running_mean, normal.mean), (&running.running_var, normal.variance)] {
            let newest = newest.detach().reshape([batch, channels]).mean_dim(0);
            kept.assign(&(kept.tensor() * (1.0 - self.momentum) + newest * self.momentum));
        }
        normal.output.reshape(input.shape())
    }
}

variables!(InstanceStatistics: running_mean, running_var, num_batches_tracked);
variables!(impl[const AXES: usize] InstanceNorm<AXES>: weight, bias, running);

impl<const AXES: usize> Module for InstanceNorm<AXES> {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let _scope = self.scope.enter();
        if input.rank() != AXES + 2 {
            refuse(format_args!("instance norm: {} is not [batch, channels, {AXES} axes]", input.shape()));
        }
        self.run(&input.full_precision()).in_type_of(input)
    }
}
