//! Resizing, reshaping and comparing as modules; each calls the method of [`Tensor`] that says more.

use crate::ops::conv::ConvOptions;
use crate::tensor::{Interpolation, Tensor};
use crate::variables;

use super::Module;

/// [`Tensor::interpolate_scale`]: each spatial axis at `scale` times its size.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Upsample {
    /// New size by old size.
    pub scale: f64,
    /// What is put between the old elements.
    pub mode: Interpolation,
}

impl Upsample {
    /// The nearest element, as PyTorch's default.
    pub fn new(scale: f64) -> Self {
        Self { scale, mode: Interpolation::Nearest }
    }

    /// With this interpolation.
    #[must_use]
    pub fn mode(self, mode: Interpolation) -> Self {
        Self { mode, ..self }
    }
}

/// [`Tensor::pixel_shuffle`]: channels become pixels, `factor` times as many along both sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PixelShuffle(pub usize);

/// [`Tensor::pixel_unshuffle`]: the inverse of [`PixelShuffle`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PixelUnshuffle(pub usize);

/// [`Tensor::channel_shuffle`] in this many groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChannelShuffle(pub usize);

/// [`Tensor::flatten`]: the axes from `start` to `end` become one; all but the batch's unless set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flatten {
    /// The first axis.
    pub start: isize,
    /// The last axis.
    pub end: isize,
}

impl Default for Flatten {
    fn default() -> Self {
        Self { start: 1, end: -1 }
    }
}

/// [`Tensor::unflatten`]: one axis becomes several; one of the sizes may be -1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unflatten {
    /// The axis.
    pub axis: isize,
    /// What it becomes.
    pub sizes: Vec<isize>,
}

/// Its input.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Identity;

/// [`Tensor::threshold`]: `x` where it is above the limit, else the value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Threshold {
    /// From where on `x` stays.
    pub limit: f64,
    /// What replaces the rest.
    pub value: f64,
}

/// [`Tensor::softmax`] over the channels of `[batch, channels, height, width]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Softmax2d;

/// [`Tensor::im2col`]: the windows of a picture as columns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unfold {
    /// Height and width of a window.
    pub kernel: [usize; 2],
    /// Stride, padding and dilation.
    pub options: ConvOptions,
}

/// [`Tensor::col2im`]: columns added up where they lie in a picture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fold {
    /// Height and width of the picture.
    pub size: [usize; 2],
    /// Height and width of a window.
    pub kernel: [usize; 2],
    /// Stride, padding and dilation.
    pub options: ConvOptions,
}

/// [`Tensor::local_response_norm`]: each element by the mean square of its neighbours in other channels.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LocalResponseNorm {
    /// Channels that count.
    pub size: usize,
    /// Weight of the mean.
    pub alpha: f64,
    /// Power of the sum.
    pub beta: f64,
    /// What is added to the mean.
    pub k: f64,
}

impl LocalResponseNorm {
    /// With PyTorch's defaults: 1e-4, 0.75 and 1.
    pub fn new(size: usize) -> Self {
        Self { size, alpha: 1e-4, beta: 0.75, k: 1.0 }
    }
}

/// [`Tensor::cosine_similarity`] of two tensors.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CosineSimilarity {
    /// The axis of the vectors.
    pub axis: isize,
    /// The least norm.
    pub epsilon: f64,
}

impl Default for CosineSimilarity {
    fn default() -> Self {
        Self { axis: 1, epsilon: 1e-8 }
    }
}

impl CosineSimilarity {
    /// The cosine of the angle between the vectors of both.
    #[track_caller]
    pub fn forward(&self, first: &Tensor, second: &Tensor) -> Tensor {
        first.cosine_similarity(second, self.axis, self.epsilon)
    }
}

/// [`Tensor::pairwise_distance`] of two tensors.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PairwiseDistance {
    /// Which norm.
    pub p: f64,
    /// Added to each difference.
    pub epsilon: f64,
}

impl Default for PairwiseDistance {
    fn default() -> Self {
        Self { p: 2.0, epsilon: 1e-6 }
    }
}

impl PairwiseDistance {
    /// The norm of the difference of both along the last axis.
    #[track_caller]
    pub fn forward(&self, first: &Tensor, second: &Tensor) -> Tensor {
        first.pairwise_distance(second, self.p, self.epsilon)
    }
}

/// Modules whose output is one expression of the input.
macro_rules! functions {
    ($($name:ty: |$this:pat_param, $input:ident| $value:expr;)*) => {$(
        variables!($name);

        impl Module for $name {
            #[track_caller]
            fn forward(&self, $input: &Tensor) -> Tensor {
                let $this = self;
                $value
            }
        }
    )*};
}

functions! {
    Upsample: |this, input| input.interpolate_scale(this.scale, this.mode);
    PixelShuffle: |this, input| input.pixel_shuffle(this.0);
    PixelUnshuffle: |this, input| input.pixel_unshuffle(this.0);
    ChannelShuffle: |this, input| input.channel_shuffle(this.0);
    Flatten: |this, input| input.flatten(this.start, this.end);
    Unflatten: |this, input| input.unflatten(this.axis, this.sizes.as_slice());
    Identity: |_, input| input.clone();
    Threshold: |this, input| input.threshold(this.limit, this.value);
    Softmax2d: |_, input| input.softmax(-3);
    Unfold: |this, input| input.im2col(this.kernel, &this.options);
    Fold: |this, input| input.col2im(this.size, this.kernel, &this.options);
    LocalResponseNorm: |this, input| input.local_response_norm(this.size, this.alpha, this.beta, this.k);
}
