//! Pooling, resizing and reshaping as modules; each calls the method of [`Tensor`] that says more.

use crate::ops::pool::PoolOptions;
use crate::runtime::Var;
use crate::shape::Shape;
use crate::tensor::{Interpolation, Tensor};

use super::Module;

/// Pooling over one to three spatial axes: the struct around its options, its names and its method.
macro_rules! pooling {
    ($($(#[$doc:meta])* $name:ident($options:ty): $one:ident = $pool1d:ident, $two:ident = $pool2d:ident, $three:ident = $pool3d:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct $name<const AXES: usize>($options);

        #[doc = concat!("[`", stringify!($name), "`] over `[batch, channels, length]`.")]
        pub type $one = $name<1>;
        #[doc = concat!("[`", stringify!($name), "`] over `[batch, channels, height, width]`.")]
        pub type $two = $name<2>;
        #[doc = concat!("[`", stringify!($name), "`] over `[batch, channels, depth, height, width]`.")]
        pub type $three = $name<3>;

        impl<const AXES: usize> Module for $name<AXES> {
            #[track_caller]
            fn forward(&self, input: &Tensor) -> Tensor {
                match AXES {
                    1 => input.$pool1d(&self.0),
                    2 => input.$pool2d(&self.0),
                    _ => input.$pool3d(&self.0),
                }
            }

            fn visit(&self, _: &mut dyn FnMut(&Var)) {}
        }
    )*};
}

pooling! {
    /// The largest element of each window.
    MaxPool(PoolOptions): MaxPool1d = max_pool1d_with, MaxPool2d = max_pool2d_with, MaxPool3d = max_pool3d_with;
    /// The mean of each window.
    AvgPool(PoolOptions): AvgPool1d = avg_pool1d_with, AvgPool2d = avg_pool2d_with, AvgPool3d = avg_pool3d_with;
    /// The means of as many parts as asked for.
    AdaptiveAvgPool(Shape): AdaptiveAvgPool1d = adaptive_avg_pool1d, AdaptiveAvgPool2d = adaptive_avg_pool2d,
        AdaptiveAvgPool3d = adaptive_avg_pool3d;
    /// The largest elements of as many parts as asked for.
    AdaptiveMaxPool(Shape): AdaptiveMaxPool1d = adaptive_max_pool1d, AdaptiveMaxPool2d = adaptive_max_pool2d,
        AdaptiveMaxPool3d = adaptive_max_pool3d;
}

macro_rules! by_windows {
    ($($name:ident),*) => {$(
        impl<const AXES: usize> $name<AXES> {
            /// Windows of `kernel` elements (one number, or one for each axis) side by side.
            pub fn new(kernel: impl Into<Shape>) -> Self {
                Self(PoolOptions::new(kernel))
            }

            /// Any windows.
            pub fn with(options: PoolOptions) -> Self {
                Self(options)
            }
        }
    )*};
}
by_windows!(MaxPool, AvgPool);

macro_rules! by_size {
    ($($name:ident),*) => {$(
        impl<const AXES: usize> $name<AXES> {
            /// To `size` parts: one number, or one for each axis.
            pub fn new(size: impl Into<Shape>) -> Self {
                Self(size.into())
            }
        }
    )*};
}
by_size!(AdaptiveAvgPool, AdaptiveMaxPool);

/// [`Tensor::interpolate_scale`]: each spatial axis at `scale` times its size.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Upsample {
    /// New size by old size.
    pub scale: f64,
    /// What stands between the old elements.
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

/// Modules whose output is one expression of the input.
macro_rules! functions {
    ($($name:ty: |$this:pat_param, $input:ident| $value:expr;)*) => {$(
        impl Module for $name {
            #[track_caller]
            fn forward(&self, $input: &Tensor) -> Tensor {
                let $this = self;
                $value
            }

            fn visit(&self, _: &mut dyn FnMut(&Var)) {}
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
}
