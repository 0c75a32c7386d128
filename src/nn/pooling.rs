//! Pooling as modules; each calls the method of [`Tensor`] that says more.

use crate::ops::pool::PoolOptions;
use crate::shape::Shape;
use crate::tensor::Tensor;
use crate::variables;

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

        variables!(impl[const AXES: usize] $name<AXES>);

        impl<const AXES: usize> Module for $name<AXES> {
            #[track_caller]
            fn forward(&self, input: &Tensor) -> Tensor {
                match AXES {
                    1 => input.$pool1d(&self.0),
                    2 => input.$pool2d(&self.0),
                    _ => input.$pool3d(&self.0),
                }
            }
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

/// [`Tensor::lp_pool2d`]: `(Σ x^p)^(1/p)` of each window.
#[derive(Clone, PartialEq, Debug)]
pub struct LPPool<const AXES: usize> {
    /// The power.
    pub p: f64,
    /// The windows.
    pub options: PoolOptions,
}

/// [`LPPool`] over `[batch, channels, length]`.
pub type LPPool1d = LPPool<1>;
/// [`LPPool`] over `[batch, channels, height, width]`.
pub type LPPool2d = LPPool<2>;
/// [`LPPool`] over `[batch, channels, depth, height, width]`.
pub type LPPool3d = LPPool<3>;

impl<const AXES: usize> LPPool<AXES> {
    /// Windows of `kernel` elements (one number, or one for each axis) side by side.
    pub fn new(p: f64, kernel: impl Into<Shape>) -> Self {
        Self { p, options: PoolOptions::new(kernel) }
    }
}

variables!(impl[const AXES: usize] LPPool<AXES>);

impl<const AXES: usize> Module for LPPool<AXES> {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        match AXES {
            1 => input.lp_pool1d(self.p, &self.options),
            2 => input.lp_pool2d(self.p, &self.options),
            _ => input.lp_pool3d(self.p, &self.options),
        }
    }
}

impl<const AXES: usize> MaxPool<AXES> {
    /// The largest element of each window, and where it lies: PyTorch's `return_indices=True`.
    #[track_caller]
    pub fn forward_with_indices(&self, input: &Tensor) -> (Tensor, Tensor) {
        match AXES {
            1 => input.max_pool1d_with_indices(&self.0),
            2 => input.max_pool2d_with_indices(&self.0),
            _ => input.max_pool3d_with_indices(&self.0),
        }
    }
}

/// [`Tensor::max_unpool2d`]: maxima put back where [`MaxPool::forward_with_indices`] found them, zeros elsewhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MaxUnpool<const AXES: usize>(PoolOptions);

/// [`MaxUnpool`] to `[batch, channels, length]`.
pub type MaxUnpool1d = MaxUnpool<1>;
/// [`MaxUnpool`] to `[batch, channels, height, width]`.
pub type MaxUnpool2d = MaxUnpool<2>;
/// [`MaxUnpool`] to `[batch, channels, depth, height, width]`.
pub type MaxUnpool3d = MaxUnpool<3>;
by_windows!(MaxUnpool);

impl<const AXES: usize> MaxUnpool<AXES> {
    /// To the smallest size that has this many windows: `(count - 1) · stride - 2 · padding + kernel` along each axis.
    ///
    /// # Panics
    /// If shapes differ, the input is not `[batch, channels, ..]` or `[channels, ..]`, or kernel, stride or padding are for
    /// another number of axes.
    #[track_caller]
    pub fn forward(&self, input: &Tensor, indices: &Tensor) -> Tensor {
        let PoolOptions { kernel, stride, padding, .. } = &self.0;
        let stride = if stride.is_empty() { kernel } else { stride };
        let is_input = input.rank() == AXES + 1 || input.rank() == AXES + 2;
        assert!(is_input, "max_unpool: {} is not [batch, channels, {AXES} axes]", input.shape());
        for (what, values) in [("kernel", kernel), ("stride", stride), ("padding", padding)] {
            assert!(values.len() == 1 || values.len() == AXES, "max_unpool: {what} {values:?} for {AXES} axes");
        }
        let option = |values: &[usize], axis: usize| if let [one] = values { *one } else { values[axis] };
        let counts = &input.shape()[input.rank() - AXES..];
        let mut size = Vec::with_capacity(AXES);
        for (axis, &count) in counts.iter().enumerate() {
            let padding = option(padding, axis);
            let whole = count.checked_sub(1).map(|last| last * option(stride, axis) + option(kernel, axis));
            let inside = whole.and_then(|whole| whole.checked_sub(2 * padding));
            let Some(inside) = inside else { panic!("max_unpool: {} with padding {padding}", input.shape()) };
            size.push(inside);
        }
        self.forward_to(input, indices, size)
    }

    /// To this size: PyTorch's `output_size`.
    #[track_caller]
    pub fn forward_to(&self, input: &Tensor, indices: &Tensor, size: impl Into<Shape>) -> Tensor {
        match AXES {
            1 => input.max_unpool1d(indices, size),
            2 => input.max_unpool2d(indices, size),
            _ => input.max_unpool3d(indices, size),
        }
    }
}
