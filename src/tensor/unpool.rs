//! Max pooling that also returns the places of its maxima, and its inverse.

use crate::dtype::DType;
use crate::graph::ReduceOp;
use crate::ops::pool::PoolOptions;
use crate::ops::{movement, ok};
use crate::shape::Shape;

use super::Tensor;
use super::pool::last_axes;

impl Tensor {
    /// [`Tensor::max_pool1d_with`], and where in `length` each maximum lies.
    #[track_caller]
    #[must_use]
    pub fn max_pool1d_with_indices(&self, options: &PoolOptions) -> (Self, Self) {
        (self.max_pool1d_with(options), self.max_pool_indices("max_pool1d", 1, options))
    }

    /// [`Tensor::max_pool2d_with`], and where each maximum lies: the row-major number of the element in its picture of
    /// `height · width`, i32, the first of equal ones; of NaN the first, where PyTorch names the last. What
    /// [`Tensor::max_unpool2d`] takes.
    ///
    /// ```
    /// # use brasa::{Device, Tensor, ops::pool::PoolOptions};
    /// let x = Tensor::arange(16, &Device::cpu()).reshape([1, 1, 4, 4]);
    /// let (largest, indices) = x.max_pool2d_with_indices(&PoolOptions::new(2));
    /// assert_eq!(indices.to_vec::<i32>()?, [5, 7, 13, 15]);
    /// let spread = largest.max_unpool2d(&indices, [4, 4]);
    /// assert_eq!(spread.to_vec::<i32>()?, [0, 0, 0, 0, 0, 5, 0, 7, 0, 0, 0, 0, 0, 13, 0, 15]);
    /// # Ok::<(), brasa::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn max_pool2d_with_indices(&self, options: &PoolOptions) -> (Self, Self) {
        (self.max_pool2d_with(options), self.max_pool_indices("max_pool2d", 2, options))
    }

    /// As [`Tensor::max_pool2d_with_indices`] over three axes.
    #[track_caller]
    #[must_use]
    pub fn max_pool3d_with_indices(&self, options: &PoolOptions) -> (Self, Self) {
        (self.max_pool3d_with(options), self.max_pool_indices("max_pool3d", 3, options))
    }

    #[track_caller]
    fn max_pool_indices(&self, name: &str, spatial: usize, options: &PoolOptions) -> Self {
        let (windows, counts) = ok(options.windows(name, self.shape(), spatial));
        let moved = movement::counted_windows(self.shape(), &windows, &counts);
        let kernel = last_axes(spatial);
        let inside = self.moved(moved.clone(), ReduceOp::Max.identity(self.dtype()));
        let largest = inside.eq(inside.max_keepdim(kernel.as_slice()));
        let largest = if self.dtype().is_float() { largest.logical_or(&inside.isnan()) } else { largest };
        let first = self.rank() - spatial;
        let mut number = Self::zeros_of(self.shape(), DType::I32, self.device());
        for axis in first..self.rank() {
            number = number * self.shape()[axis] as i64 + Self::iota(self.shape(), axis, self.device());
        }
        // the padding comes after all elements, whatever it compares like
        let number = number.moved(moved, ReduceOp::Min.identity(DType::I32));
        largest.where_(number, i32::MAX).min_dim(kernel)
    }

    /// Elements at their places in `length`, zeros elsewhere, as [`Tensor::max_unpool2d`].
    #[track_caller]
    #[must_use]
    pub fn max_unpool1d(&self, indices: &Self, size: impl Into<Shape>) -> Self {
        self.max_unpool("max_unpool1d", 1, indices, &size.into())
    }

    /// The inverse of [`Tensor::max_pool2d_with_indices`], as far as there is one: `[batch, channels, ..]` and its
    /// indices → `[batch, channels, height, width]` of this size, zero where no maximum was. Of several elements for
    /// one place the last one is kept. PyTorch's size, unless one is given, is `(count - 1) · stride - 2 · padding +
    /// kernel`.
    #[track_caller]
    #[must_use]
    pub fn max_unpool2d(&self, indices: &Self, size: impl Into<Shape>) -> Self {
        self.max_unpool("max_unpool2d", 2, indices, &size.into())
    }

    /// As [`Tensor::max_unpool2d`] over three axes.
    #[track_caller]
    #[must_use]
    pub fn max_unpool3d(&self, indices: &Self, size: impl Into<Shape>) -> Self {
        self.max_unpool("max_unpool3d", 3, indices, &size.into())
    }

    #[track_caller]
    fn max_unpool(&self, name: &str, spatial: usize, indices: &Self, size: &Shape) -> Self {
        let fits = (self.rank() == spatial + 1 || self.rank() == spatial + 2)
            && self.shape() == indices.shape()
            && size.rank() == spatial;
        assert!(fits, "{name}: {} at {} in {size}", self.shape(), indices.shape());
        let (leading, inner) = self.shape().split_at(self.rank() - spatial);
        let planes: usize = leading.iter().product();
        let rows = [planes, inner.iter().product()];
        let spread = Self::zeros_of([planes, size.numel()], self.dtype(), self.device());
        let spread = spread.scatter(1, &indices.reshape(rows), self.reshape(rows));
        spread.reshape([leading, size.dims()].concat())
    }
}
