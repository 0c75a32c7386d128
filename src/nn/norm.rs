//! Normalisation: batch norm and layer norm.

use crate::error::Result;
use crate::runtime::Var;
use crate::tensor::{Axes, Tensor};

use super::module::Scope;
use super::{Init, Initial, Mode, Module};

/// Added to variances, as in PyTorch.
const EPSILON: f32 = 1e-5;
/// Weight of the newest batch in the running statistics, as in PyTorch.
const MOMENTUM: f32 = 0.1;

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

    /// The output in terms of the batch's own statistics; moves the running ones.
    #[track_caller]
    fn train(&self, input: &Tensor) -> Tensor {
        let channels = self.weight.shape().numel();
        let count = input.numel() / channels;
        assert!(count > 1, "batch norm: one value per channel in {} has no variance; train with more", input.shape());
        let standard = Standard::new(input, BATCH_AXES);
        let [mean, variance] = [&standard.mean, &standard.variance].map(|value| value.detach().reshape([channels]));
        follow(&self.running_mean, &mean);
        follow(&self.running_var, &(variance * (count as f32 / (count - 1) as f32)));
        batch_norm(input, &per_channel(&self.weight), &per_channel(&self.bias), standard)
    }
}

/// All axes of `[batch, channels, height, width]` but the channels.
const BATCH_AXES: [isize; 3] = [0, 2, 3];

/// A variable `[channels]` as `[1, channels, 1, 1]`.
fn per_channel(variable: &Var) -> Tensor {
    variable.tensor().reshape([1, variable.shape().numel(), 1, 1])
}

/// Mean, biased variance and the reciprocal deviation of a tensor over some axes, which stay as axes of size 1.
struct Standard {
    mean: Tensor,
    variance: Tensor,
    reciprocal: Tensor,
}

impl Standard {
    /// Two passes: the mean, then the mean square around it, which loses no digits where the mean is large.
    #[track_caller]
    fn new(input: &Tensor, axes: impl Axes + Copy) -> Self {
        let mean = input.mean_keepdim(axes);
        let variance = (input - &mean).square().mean_keepdim(axes);
        let reciprocal = (&variance + EPSILON).rsqrt();
        Self { mean, variance, reciprocal }
    }

    /// `x̂ = (x − mean) / deviation`
    #[track_caller]
    fn apply(&self, input: &Tensor) -> Tensor {
        (input - &self.mean) * &self.reciprocal
    }
}

/// `x̂ · weight + bias` with `weight` and `bias` `[1, channels, 1, 1]`.
///
/// Why a gradient rule of its own: differentiating mean and variance one by one reads the batch three times, the sums that
/// the rule needs are those of the parameters' gradients anyway, and come out of one pass:
/// `dx = weight / deviation · (g − Σg / n − x̂ · Σ(g · x̂) / n)`.
#[track_caller]
fn batch_norm(input: &Tensor, weight: &Tensor, bias: &Tensor, standard: Standard) -> Tensor {
    let output = standard.apply(input) * weight + bias;
    output.with_gradient(&[input, weight, bias], move |_, inputs, gradient| {
        let [input, weight, _] = inputs else { unreachable!("three inputs") };
        let normal = standard.apply(input);
        let count = (input.numel() / weight.numel()) as f32;
        let bias_gradient = gradient.sum_keepdim(BATCH_AXES);
        let weight_gradient = (gradient * &normal).sum_keepdim(BATCH_AXES);
        let centred = gradient - &bias_gradient / count - normal * (&weight_gradient / count);
        let input_gradient = centred * (&standard.reciprocal * weight);
        vec![Some(input_gradient), Some(weight_gradient), Some(bias_gradient)]
    })
}

/// `x̂` over the last axis, with the same rule: `dx = (g − mean(g) − x̂ · mean(g · x̂)) / deviation`.
#[track_caller]
fn standardize_rows(input: &Tensor) -> Tensor {
    let standard = Standard::new(input, -1);
    standard.apply(input).with_gradient(&[input], move |_, inputs, gradient| {
        let normal = standard.apply(&inputs[0]);
        let mean = gradient.mean_keepdim(-1);
        let slope = (gradient * &normal).mean_keepdim(-1);
        vec![Some((gradient - mean - normal * slope) * &standard.reciprocal)]
    })
}

/// Moves a running value towards the newest one.
fn follow(running: &Var, newest: &Tensor) {
    running.assign(&(running.tensor() * (1.0 - MOMENTUM) + newest * MOMENTUM));
}

impl Module for BatchNorm2d {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        self.scope.run(|| match Mode::current() {
            Mode::Train => self.train(input),
            Mode::Evaluate => {
                let scale = (per_channel(&self.running_var) + EPSILON).rsqrt() * per_channel(&self.weight);
                (input - per_channel(&self.running_mean)) * scale + per_channel(&self.bias)
            }
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
        self.scope.run(|| standardize_rows(input) * self.weight.tensor() + self.bias.tensor())
    }

    fn visit(&self, visitor: &mut dyn FnMut(&Var)) {
        visitor(&self.weight);
        visitor(&self.bias);
    }
}
