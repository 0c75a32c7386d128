//! Pooling: reductions over windows. Inputs are `[batch, channels, ..]` or `[channels, ..]`.

use crate::dtype::{DType, Scalar};
use crate::graph::ReduceOp;
use crate::ops::movement::{self, Moved, Window};
use crate::ops::pool::PoolOptions;
use crate::ops::{adjoint, ok};

use super::Tensor;

impl Tensor {
    /// The largest element of each window of `[batch, channels, height, width]`; the first of equal ones takes the
    /// gradient.
    ///
    /// ```
    /// # use brasa::{Device, Tensor};
    /// let x = Tensor::arange(16, &Device::cpu()).reshape([1, 1, 4, 4]);
    /// assert_eq!(x.max_pool2d(2, 2, 0).to_vec::<i32>()?, [5, 7, 13, 15]);
    /// # Ok::<(), brasa::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn max_pool2d(&self, kernel: usize, stride: usize, padding: usize) -> Self {
        self.max_pool2d_with(&PoolOptions::new(kernel).stride(stride).padding(padding))
    }

    /// [`Tensor::max_pool2d`] with any windows over one axis: `[batch, channels, length]`.
    #[track_caller]
    #[must_use]
    pub fn max_pool1d_with(&self, options: &PoolOptions) -> Self {
        self.max_pool("max_pool1d", 1, options)
    }

    /// [`Tensor::max_pool2d`] with any windows.
    #[track_caller]
    #[must_use]
    pub fn max_pool2d_with(&self, options: &PoolOptions) -> Self {
        self.max_pool("max_pool2d", 2, options)
    }

    /// [`Tensor::max_pool2d`] with any windows over three axes.
    #[track_caller]
    #[must_use]
    pub fn max_pool3d_with(&self, options: &PoolOptions) -> Self {
        self.max_pool("max_pool3d", 3, options)
    }

    #[track_caller]
    fn max_pool(&self, name: &str, spatial: usize, options: &PoolOptions) -> Self {
        let (windows, counts) = ok(options.windows(name, self.shape(), spatial));
        let moved = movement::counted_windows(self.shape(), &windows, &counts);
        let inside = self.moved(moved.clone(), ReduceOp::Max.identity(self.dtype()));
        let kernel = last_axes(spatial);
        let largest = inside.max_keepdim(kernel.as_slice());
        let squeezed = largest.squeeze(kernel.as_slice());
        if !self.dtype().is_float() {
            return squeezed;
        }
        let mut found = inside.eq(&largest).logical_or(&inside.isnan());
        if windows.iter().any(|window| window.padding > 0) {
            // of nothing but -infinity the padding, which may come first, is as large as any element
            let element = Self::constant(self.shape(), Scalar::new(DType::Bool, 1.0), self.device());
            found = found.logical_and(&element.moved_zero(moved.clone()));
        }
        let first = found.where_(inside.window_position(spatial), i32::MAX).min_keepdim(kernel);
        squeezed.with_gradient(&[self, &first], move |_, inputs, g| {
            vec![Some(inputs[0].unpool(&inputs[1], g, &moved, spatial)), None]
        })
    }

    /// The gradient of max pooling `self`: each window's `g` at the element number `first` of the window.
    #[track_caller]
    fn unpool(&self, first: &Self, g: &Self, moved: &Moved, spatial: usize) -> Self {
        let position = self.moved_zero(moved.clone()).window_position(spatial);
        let chosen = position.eq(first).where_(g.reshape(first.shape()), 0.0);
        adjoint::adjoint(&moved.dims, self.shape(), &chosen)
    }

    /// The number of each element in its window, row-major, for windows over the last axes.
    #[track_caller]
    fn window_position(&self, spatial: usize) -> Self {
        let first = self.rank() - spatial;
        let mut position = Self::iota(self.shape(), first, self.device());
        for axis in first + 1..self.rank() {
            position = position * self.shape()[axis] as i64 + Self::iota(self.shape(), axis, self.device());
        }
        position
    }

    /// The mean of each window of `[batch, channels, height, width]`; padding counts as zeros.
    #[track_caller]
    #[must_use]
    pub fn avg_pool2d(&self, kernel: usize, stride: usize, padding: usize) -> Self {
        self.avg_pool2d_with(&PoolOptions::new(kernel).stride(stride).padding(padding))
    }

    /// [`Tensor::avg_pool2d`] with any windows over one axis: `[batch, channels, length]`.
    #[track_caller]
    #[must_use]
    pub fn avg_pool1d_with(&self, options: &PoolOptions) -> Self {
        self.avg_pool("avg_pool1d", 1, options)
    }

    /// [`Tensor::avg_pool2d`] with any windows.
    #[track_caller]
    #[must_use]
    pub fn avg_pool2d_with(&self, options: &PoolOptions) -> Self {
        self.avg_pool("avg_pool2d", 2, options)
    }

    /// [`Tensor::avg_pool2d`] with any windows over three axes.
    #[track_caller]
    #[must_use]
    pub fn avg_pool3d_with(&self, options: &PoolOptions) -> Self {
        self.avg_pool("avg_pool3d", 3, options)
    }

    #[track_caller]
    fn avg_pool(&self, name: &str, spatial: usize, options: &PoolOptions) -> Self {
        assert!(self.dtype().is_float(), "{name}: not defined for {}; cast with to_dtype", self.dtype());
        let (windows, counts) = ok(options.windows(name, self.shape(), spatial));
        let dilated = windows.iter().any(|window| window.dilation != 1);
        assert!(!dilated, "{name}: means have no dilation");
        let moved = movement::counted_windows(self.shape(), &windows, &counts);
        let padded = windows.iter().any(|window| window.padding > 0);
        let parts = self.moved(moved, Scalar::new(self.dtype(), 0.0));
        let sums = parts.countable().sum_dim(last_axes(spatial));
        let means = if let Some(divisor) = options.divisor {
            sums / divisor as f64
        } else if options.ceil_mode || padded && !options.count_include_pad {
            let sizes = &self.shape()[self.rank() - spatial..];
            let counted = window_sizes(&windows, &counts, sizes, options.count_include_pad, self);
            sums / counted.to_dtype(DType::F32)
        } else {
            sums / windows.iter().map(|window| window.kernel).product::<usize>() as f64
        };
        means.to_dtype(self.dtype())
    }

    /// `(Σ x^p)^(1/p)` of each window of `[batch, channels, length]`.
    #[track_caller]
    #[must_use]
    pub fn lp_pool1d(&self, p: f64, options: &PoolOptions) -> Self {
        self.lp_pool("lp_pool1d", 1, p, options)
    }

    /// `(Σ x^p)^(1/p)` of each window of `[batch, channels, height, width]`.
    #[track_caller]
    #[must_use]
    pub fn lp_pool2d(&self, p: f64, options: &PoolOptions) -> Self {
        self.lp_pool("lp_pool2d", 2, p, options)
    }

    /// `(Σ x^p)^(1/p)` of each window over three axes.
    #[track_caller]
    #[must_use]
    pub fn lp_pool3d(&self, p: f64, options: &PoolOptions) -> Self {
        self.lp_pool("lp_pool3d", 3, p, options)
    }

    /// The gradient is 0 where the sum is, of `p` from 1 on.
    #[track_caller]
    fn lp_pool(&self, name: &str, spatial: usize, p: f64, options: &PoolOptions) -> Self {
        let (windows, _) = ok(options.windows(name, self.shape(), spatial));
        let elements: usize = windows.iter().map(|window| window.kernel).product();
        // through the mean, as PyTorch: where a window ends outside, its elements count for more
        let x = self.floats();
        let sums = x.countable().pow(p).avg_pool(name, spatial, options) * elements as f64;
        let flat = sums.eq(0.0);
        flat.where_(0.0, flat.where_(1.0, sums).pow(1.0 / p)).to_dtype(x.dtype())
    }
}

/// The last axes, as many as there are spatial ones.
pub(super) fn last_axes(spatial: usize) -> Vec<isize> {
    (1..=spatial.cast_signed()).map(|axis| -axis).collect()
}

/// The number of elements of each window that count, as i32 of the shape of `counts`.
#[track_caller]
fn window_sizes(windows: &[Window], counts: &[usize], sizes: &[usize], padding_counts: bool, like: &Tensor) -> Tensor {
    let mut product: Option<Tensor> = None;
    for (axis, (window, &size)) in windows.iter().zip(sizes).enumerate() {
        let start = Tensor::iota(counts, axis, like.device()) * window.stride as i64 - window.padding as i64;
        let edge = if padding_counts { size + window.padding } else { size };
        let end = (&start + window.kernel as i64).minimum(edge as i64);
        let along = end - if padding_counts { start } else { start.maximum(0) };
        product = Some(match product {
            Some(product) => product * along,
            None => along,
        });
    }
    product.unwrap_or_else(|| Tensor::zeros_of([], DType::I32, like.device()))
}
