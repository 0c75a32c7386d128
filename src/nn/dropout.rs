//! Layers that leave something out at random in training, and are the identity in evaluation.

use crate::tensor::Tensor;
use crate::variables;

use super::{Mode, Module};

/// Sets elements to zero at random in [`Mode::Train`] and scales the others up, so that the expected value stays
/// (Srivastava et al. 2014); the identity in [`Mode::Evaluate`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Dropout {
    probability: f64,
}

/// Drops whole channels of `[batch, channels, length]`.
pub type Dropout1d = ChannelDropout<1>;
/// Drops whole channels of `[batch, channels, height, width]`.
pub type Dropout2d = ChannelDropout<2>;
/// Drops whole channels of `[batch, channels, depth, height, width]`.
pub type Dropout3d = ChannelDropout<3>;

/// As [`Dropout`], but drops whole channels of `[batch, channels, size..]` (Tompson et al., arXiv 1411.4280).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ChannelDropout<const AXES: usize> {
    probability: f64,
}

/// As [`Dropout`], but sets elements to the value SELU saturates at, and keeps mean and variance of its outputs
/// (Klambauer et al., arXiv 1706.02515).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AlphaDropout {
    probability: f64,
}

/// As [`AlphaDropout`], but drops whole channels of `[batch, channels, ..]`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FeatureAlphaDropout {
    probability: f64,
}

/// As [`Dropout`], but drops whole samples of `[batch, ..]`: a residual branch left out (Huang et al., arXiv
/// 1603.09382).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StochasticDepth {
    probability: f64,
}

impl Dropout {
    /// Drops each element with `probability`.
    #[track_caller]
    pub fn new(probability: f64) -> Self {
        Self { probability: checked(probability) }
    }

    /// True if it drops anything in the current mode.
    pub(super) fn is_active(self) -> bool {
        is_active(self.probability)
    }
}

impl<const AXES: usize> ChannelDropout<AXES> {
    /// Drops each channel with `probability`.
    #[track_caller]
    pub fn new(probability: f64) -> Self {
        Self { probability: checked(probability) }
    }
}

impl AlphaDropout {
    /// Drops each element with `probability`.
    #[track_caller]
    pub fn new(probability: f64) -> Self {
        Self { probability: checked(probability) }
    }
}

impl FeatureAlphaDropout {
    /// Drops each channel with `probability`.
    #[track_caller]
    pub fn new(probability: f64) -> Self {
        Self { probability: checked(probability) }
    }
}

impl StochasticDepth {
    /// Drops each sample with `probability`.
    #[track_caller]
    pub fn new(probability: f64) -> Self {
        Self { probability: checked(probability) }
    }
}

#[track_caller]
fn checked(probability: f64) -> f64 {
    assert!((0.0..=1.0).contains(&probability), "dropout: {probability} is not a probability");
    probability
}

fn is_active(probability: f64) -> bool {
    Mode::current() == Mode::Train && probability > 0.0
}

/// `input` times what dropout makes of ones of the same size along the first `axes` axes.
#[track_caller]
fn drop_leading(input: &Tensor, axes: usize, probability: f64) -> Tensor {
    let mut shape = vec![1; input.rank()];
    shape[..axes].copy_from_slice(&input.shape()[..axes]);
    input * Tensor::ones(shape, input.device()).to_dtype(input.dtype()).dropout(probability)
}

variables!(Dropout);

impl Module for Dropout {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        if is_active(self.probability) { input.dropout(self.probability) } else { input.clone() }
    }
}

variables!(impl[const AXES: usize] ChannelDropout<AXES>);

impl<const AXES: usize> Module for ChannelDropout<AXES> {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let rank = input.rank();
        let fits = rank == AXES + 1 || rank == AXES + 2;
        assert!(fits, "dropout: {} is not [batch, channels, {AXES} axes]", input.shape());
        // PyTorch takes [batch, channels, length] for what it is, and other ranks for a sample without a batch
        let leading = if AXES == 2 { 2 } else { rank - AXES };
        if is_active(self.probability) { drop_leading(input, leading, self.probability) } else { input.clone() }
    }
}

/// `input` with what it saturates at where a draw of `shape` says so, and with mean and variance as before.
#[track_caller]
fn drop_to_saturation(input: &Tensor, shape: &[usize], probability: f64) -> Tensor {
    // -λα of SELU
    const SATURATED: f64 = -1.758_099_340_847_376_6;
    if probability == 1.0 {
        return input * 0.0;
    }
    let scale = 1.0 / ((1.0 - probability) * (1.0 + probability * SATURATED * SATURATED)).sqrt();
    let kept = Tensor::rand(shape, input.device()).ge(probability).expand(input.shape());
    kept.where_(input, SATURATED) * scale - scale * probability * SATURATED
}

variables!(AlphaDropout);

impl Module for AlphaDropout {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        if is_active(self.probability) {
            drop_to_saturation(input, input.shape().dims(), self.probability)
        } else {
            input.clone()
        }
    }
}

variables!(FeatureAlphaDropout);

impl Module for FeatureAlphaDropout {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        assert!(input.rank() >= 2, "dropout: {} is not [batch, channels, ..]", input.shape());
        if !is_active(self.probability) {
            return input.clone();
        }
        let mut shape = vec![1; input.rank()];
        shape[..2].copy_from_slice(&input.shape()[..2]);
        drop_to_saturation(input, &shape, self.probability)
    }
}

variables!(StochasticDepth);

impl Module for StochasticDepth {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        if is_active(self.probability) { drop_leading(input, 1, self.probability) } else { input.clone() }
    }
}
