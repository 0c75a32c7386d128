//! Normalisation over the features of each position.

use crate::error::Result;
use crate::graph::refuse;
use crate::runtime::Var;
use crate::shape::Shape;
use crate::tensor::Tensor;
use crate::variables;

use super::super::module::Scope;
use super::super::{Init, Initial, Module};
use super::EPSILON;

/// Layer norm over the last axes (Ba, Kiros, Hinton, arXiv 1607.06450): each position is shifted and scaled to mean 0
/// and variance 1, then `y = x̂ · weight + bias`.
#[derive(Debug)]
pub struct LayerNorm {
    /// The sizes of the last axes.
    pub weight: Option<Var>,
    /// The sizes of the last axes.
    pub bias: Option<Var>,
    sizes: Shape,
    epsilon: f64,
    scope: Scope,
}

impl LayerNorm {
    /// Over last axes of these sizes, usually one; scale 1 and shift 0 at first.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    pub fn new(sizes: impl Into<Shape>, init: &Init) -> Result<Self> {
        let layer = Self::without_bias(sizes, init)?;
        let bias = Some(init.parameter("bias", &layer.sizes, Initial::Constant(0.0))?);
        Ok(Self { bias, ..layer })
    }

    /// Without bias: PyTorch's `bias=False`.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    pub fn without_bias(sizes: impl Into<Shape>, init: &Init) -> Result<Self> {
        let layer = Self::without_affine(sizes, init);
        let weight = Some(init.parameter("weight", &layer.sizes, Initial::Constant(1.0))?);
        Ok(Self { weight, ..layer })
    }

    /// Without variables: PyTorch's `elementwise_affine=False`.
    pub fn without_affine(sizes: impl Into<Shape>, init: &Init) -> Self {
        Self {
            weight: None,
            bias: None,
            sizes: sizes.into(),
            epsilon: EPSILON,
            scope: Scope::new("LayerNorm", init.path()),
        }
    }

    /// With this number added to variances (1e-5 unless set).
    #[must_use]
    pub fn epsilon(mut self, epsilon: f64) -> Self {
        self.epsilon = epsilon;
        self
    }
}

variables!(LayerNorm: weight, bias);

impl Module for LayerNorm {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let _scope = self.scope.enter();
        if !input.shape().ends_with(&self.sizes) {
            refuse(format_args!("layer norm: the last axes of {} are not {}", input.shape(), self.sizes));
        }
        let [weight, bias] = [&self.weight, &self.bias].map(|var| var.as_ref().map(Var::tensor));
        let full = input.full_precision();
        full.layer_norm(self.sizes.rank(), weight.as_ref(), bias.as_ref(), self.epsilon).in_type_of(input)
    }
}

/// Layer norm over the channels of each pixel of `[batch, channels, height, width]`, as ConvNeXt has it.
#[derive(Debug)]
pub struct LayerNorm2d(LayerNorm);

impl LayerNorm2d {
    /// Scale 1 and shift 0 at first.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    pub fn new(channels: usize, init: &Init) -> Result<Self> {
        LayerNorm::new(channels, init).map(Self)
    }

    /// With this number added to variances (1e-5 unless set).
    #[must_use]
    pub fn epsilon(self, epsilon: f64) -> Self {
        Self(self.0.epsilon(epsilon))
    }
}

variables!(LayerNorm2d: 0);

impl Module for LayerNorm2d {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        if input.rank() != 4 {
            refuse(format_args!("layer norm: {} is not [batch, channels, height, width]", input.shape()));
        }
        self.0.forward(&input.permute([0, 2, 3, 1])).permute([0, 3, 1, 2])
    }
}

/// `x / sqrt(mean(x²) + epsilon) · weight` over the last axis (Zhang and Sennrich, arXiv 1910.07467).
#[derive(Debug)]
pub struct RMSNorm {
    /// `[width]`
    pub weight: Var,
    epsilon: f64,
    scope: Scope,
}

impl RMSNorm {
    /// Scale 1 at first; as PyTorch's, `epsilon` is the smallest step from 1 of f32, 2⁻²³, unless set.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    pub fn new(width: usize, init: &Init) -> Result<Self> {
        let weight = init.parameter("weight", width, Initial::Constant(1.0))?;
        Ok(Self { weight, epsilon: f64::from(f32::EPSILON), scope: Scope::new("RMSNorm", init.path()) })
    }

    /// With this number added to mean squares.
    #[must_use]
    pub fn epsilon(mut self, epsilon: f64) -> Self {
        self.epsilon = epsilon;
        self
    }
}

variables!(RMSNorm: weight);

impl Module for RMSNorm {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let _scope = self.scope.enter();
        if input.shape().last() != self.weight.shape().first() {
            refuse(format_args!("rms norm: the last axis of {} is not {}", input.shape(), self.weight.shape()));
        }
        input.full_precision().rms_norm(Some(&self.weight.tensor()), self.epsilon).in_type_of(input)
    }
}
