//! Normalisation over groups of channels.

use crate::error::Result;
use crate::runtime::Var;
use crate::tensor::Tensor;
use crate::variables;

use super::super::module::Scope;
use super::super::{Init, Initial, Module};
use super::EPSILON;

/// Group norm over `[batch, channels, size..]` (Wu and He, arXiv 1803.08494): each group of channels of each sample is
/// shifted and scaled to mean 0 and variance 1, then `y = x̂ · weight + bias` by channel.
#[derive(Debug)]
pub struct GroupNorm {
    /// `[channels]`
    pub weight: Var,
    /// `[channels]`
    pub bias: Var,
    groups: usize,
    epsilon: f64,
    scope: Scope,
}

impl GroupNorm {
    /// Scale 1 and shift 0 at first.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    #[track_caller]
    pub fn new(groups: usize, channels: usize, init: &Init) -> Result<Self> {
        let divides = groups > 0 && channels.is_multiple_of(groups);
        assert!(divides, "group norm: {channels} channels do not divide into {groups} groups");
        Ok(Self {
            weight: init.parameter("weight", channels, Initial::Constant(1.0))?,
            bias: init.parameter("bias", channels, Initial::Constant(0.0))?,
            groups,
            epsilon: EPSILON,
            scope: Scope::new("GroupNorm", init.path()),
        })
    }

    /// With this number added to variances (1e-5 unless set).
    #[must_use]
    pub fn epsilon(mut self, epsilon: f64) -> Self {
        self.epsilon = epsilon;
        self
    }
}

variables!(GroupNorm: weight, bias);

impl Module for GroupNorm {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let _scope = self.scope.enter();
        let (weight, bias) = (self.weight.tensor(), self.bias.tensor());
        input.full_precision().group_norm(self.groups, Some(&weight), Some(&bias), self.epsilon).in_type_of(input)
    }
}
