//! Normalisation: batch norm and layer norm.

use crate::error::Result;
use crate::runtime::Var;
use crate::tensor::Tensor;

use super::module::Scope;
use super::{Init, Initial, Mode, Module};

/// Added to variances, as in PyTorch.
const EPSILON: f64 = 1e-5;
/// Weight of the newest batch in the running statistics, as in PyTorch.
const MOMENTUM: f64 = 0.1;

/// Batch norm over `[batch, channels, height, width]` (Ioffe and Szegedy, arXiv 1502.03167): each channel is shifted and
/// scaled to mean 0 and variance 1, then `y = x̂ · weight + bias`.
///
/// In [`Mode::Train`] the batch's own statistics are used and move the running ones by a tenth (their variance with
/// Bessel's correction, as PyTorch keeps it); in [`Mode::Evaluate`] the running ones are used.
pub struct BatchNorm2d {
    /// `[channels]`
    pub weight: Var,
    /// `[channels]`
    pub bias: Var,
    /// `[channels]`
    pub running_mean: Var,
    /// `[channels]`
    pub running_var: Var,
    scope: Scope,
}

impl BatchNorm2d {
    /// The identity at first: scale 1, shift 0, running mean 0 and variance 1.
    pub fn new(channels: usize, init: &Init) -> Result<Self> {
        Ok(Self {
            weight: init.parameter("weight", channels, Initial::Constant(1.0))?,
            bias: init.parameter("bias", channels, Initial::Constant(0.0))?,
            running_mean: init.buffer("running_mean", channels, Initial::Constant(0.0))?,
            running_var: init.buffer("running_var", channels, Initial::Constant(1.0))?,
            scope: Scope::new(init.path()),
        })
    }

    #[track_caller]
    fn train(&self, input: &Tensor) -> Tensor {
        let count = input.numel() / self.weight.shape().numel();
        assert!(count > 1, "batch norm: one value per channel in {} has no variance; train with more", input.shape());
        let normal = input.batch_norm(Some(&self.weight.tensor()), Some(&self.bias.tensor()), EPSILON);
        follow(&self.running_mean, &normal.mean);
        follow(&self.running_var, &normal.variance);
        normal.output
    }

    #[track_caller]
    fn evaluate(&self, input: &Tensor) -> Tensor {
        let [weight, bias, mean, variance] =
            [&self.weight, &self.bias, &self.running_mean, &self.running_var].map(Var::tensor);
        input.batch_norm_eval(&mean, &variance, Some(&weight), Some(&bias), EPSILON)
    }
}

/// Moves a running value towards the newest one.
fn follow(running: &Var, newest: &Tensor) {
    running.assign(&(running.tensor() * (1.0 - MOMENTUM) + newest.detach() * MOMENTUM));
}

impl Module for BatchNorm2d {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        self.scope.run(|| match Mode::current() {
            Mode::Train => self.train(input),
            Mode::Evaluate => self.evaluate(input),
        })
    }

    fn visit(&self, visitor: &mut dyn FnMut(&Var)) {
        for variable in [&self.weight, &self.bias, &self.running_mean, &self.running_var] {
            visitor(variable);
        }
    }
}

/// Layer norm over the last axis (Ba, Kiros, Hinton, arXiv 1607.06450): each row is shifted and scaled to mean 0 and
/// variance 1, then `y = x̂ · weight + bias`.
pub struct LayerNorm {
    /// `[width]`
    pub weight: Var,
    /// `[width]`
    pub bias: Var,
    scope: Scope,
}

impl LayerNorm {
    /// Scale 1 and shift 0 at first.
    pub fn new(width: usize, init: &Init) -> Result<Self> {
        Ok(Self {
            weight: init.parameter("weight", width, Initial::Constant(1.0))?,
            bias: init.parameter("bias", width, Initial::Constant(0.0))?,
            scope: Scope::new(init.path()),
        })
    }
}

impl Module for LayerNorm {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        self.scope.run(|| input.layer_norm(1, Some(&self.weight.tensor()), Some(&self.bias.tensor()), EPSILON))
    }

    fn visit(&self, visitor: &mut dyn FnMut(&Var)) {
        visitor(&self.weight);
        visitor(&self.bias);
    }
}
