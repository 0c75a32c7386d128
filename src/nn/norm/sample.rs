//! Normalisation within each sample.

use crate::error::Result;
use crate::runtime::Var;
use crate::tensor::Tensor;

use super::super::module::Scope;
use super::super::{Init, Initial, Module};
use super::EPSILON;

/// Group norm over `[batch, channels, size..]` (Wu and He, arXiv 1803.08494): each group of channels of each sample is
/// shifted and scaled to mean 0 and variance 1, then `y = x̂ · weight + bias` by channel.
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
    pub fn new(groups: usize, channels: usize, init: &Init) -> Result<Self> {
        let divides = groups > 0 && channels.is_multiple_of(groups);
        assert!(divides, "group norm: {channels} channels do not divide into {groups} groups");
        Ok(Self {
            weight: init.parameter("weight", channels, Initial::Constant(1.0))?,
            bias: init.parameter("bias", channels, Initial::Constant(0.0))?,
            groups,
            epsilon: EPSILON,
            scope: Scope::new(init.path()),
        })
    }

    /// With this number added to variances (1e-5 unless set).
    #[must_use]
    pub fn epsilon(mut self, epsilon: f64) -> Self {
        self.epsilon = epsilon;
        self
    }
}

impl Module for GroupNorm {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let (weight, bias) = (self.weight.tensor(), self.bias.tensor());
        self.scope.run(|| input.group_norm(self.groups, Some(&weight), Some(&bias), self.epsilon))
    }

    fn visit(&self, visitor: &mut dyn FnMut(&Var)) {
        visitor(&self.weight);
        visitor(&self.bias);
    }
}

/// Instance norm over `[batch, channels, length]`.
pub type InstanceNorm1d = InstanceNorm<1>;
/// Instance norm over `[batch, channels, height, width]`.
pub type InstanceNorm2d = InstanceNorm<2>;
/// Instance norm over `[batch, channels, depth, height, width]`.
pub type InstanceNorm3d = InstanceNorm<3>;

/// Instance norm over `[batch, channels, size..]` (Ulyanov, Vedaldi, Lempitsky, arXiv 1607.08022): each channel of each
/// sample is shifted and scaled to mean 0 and variance 1, in training and in use alike.
pub struct InstanceNorm<const AXES: usize> {
    /// `[channels]`
    pub weight: Option<Var>,
    /// `[channels]`
    pub bias: Option<Var>,
    epsilon: f64,
    scope: Scope,
}

impl<const AXES: usize> InstanceNorm<AXES> {
    /// Without variables, as PyTorch's default.
    pub fn new(init: &Init) -> Self {
        Self { weight: None, bias: None, epsilon: EPSILON, scope: Scope::new(init.path()) }
    }

    /// Then `· weight + bias` by channel; scale 1 and shift 0 at first.
    pub fn affine(channels: usize, init: &Init) -> Result<Self> {
        Ok(Self {
            weight: Some(init.parameter("weight", channels, Initial::Constant(1.0))?),
            bias: Some(init.parameter("bias", channels, Initial::Constant(0.0))?),
            ..Self::new(init)
        })
    }

    /// With this number added to variances (1e-5 unless set).
    #[must_use]
    pub fn epsilon(mut self, epsilon: f64) -> Self {
        self.epsilon = epsilon;
        self
    }
}

impl<const AXES: usize> Module for InstanceNorm<AXES> {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        assert!(input.rank() == AXES + 2, "instance norm: {} is not [batch, channels, {AXES} axes]", input.shape());
        let [weight, bias] = [&self.weight, &self.bias].map(|var| var.as_ref().map(Var::tensor));
        self.scope.run(|| input.instance_norm(weight.as_ref(), bias.as_ref(), self.epsilon))
    }

    fn visit(&self, visitor: &mut dyn FnMut(&Var)) {
        self.weight.iter().chain(&self.bias).for_each(visitor);
    }
}
