//! Pooling: reductions over windows.

use crate::dtype::Scalar;
use crate::graph::ReduceOp;
use crate::ops::movement::{self, Window};
use crate::ops::{adjoint, ok, shape_error};

use super::Tensor;

impl Tensor {
    /// The largest element of each window of `[batch, channels, height, width]`; the first of equal ones takes the
    /// gradient.
    #[track_caller]
    #[must_use]
    pub fn max_pool2d(&self, kernel: usize, stride: usize, padding: usize) -> Self {
        assert!(padding <= kernel / 2, "max_pool2d: padding {padding} is more than half of kernel {kernel}");
        let outside = ReduceOp::Max.identity(self.dtype()).to_f64();
        let window = Window { kernel, stride, padding, dilation: 1 };
        let windows = self.pooled_windows("max_pool2d", window, outside);
        let largest = windows.max_dim([-2, -1]);
        if !self.dtype().is_float() {
            return largest;
        }
        let first = windows.eq(largest.unsqueeze(-1).unsqueeze(-1)).logical_or(&windows.isnan());
        let first = first.where_(windows.window_position(), i32::MAX).min_dim([-2, -1]);
        largest.with_gradient(&[self, &first], move |_, inputs, g| {
            vec![Some(inputs[0].unpool(&inputs[1], g, window)), None]
        })
    }

    /// The gradient of max pooling `self`: each window's `g` at the element number `first` of the window.
    #[track_caller]
    fn unpool(&self, first: &Self, g: &Self, window: Window) -> Self {
        let inner = |tensor: &Self| tensor.unsqueeze(-1).unsqueeze(-1);
        let moved = ok(movement::windows("max_pool2d", self.shape(), &[window, window]));
        let position = self.moved_zero(moved.clone()).window_position();
        let chosen = position.eq(inner(first)).where_(inner(g), 0.0);
        adjoint::adjoint(&moved.dims, self.shape(), &chosen)
    }

    /// The number of each element in its window, row-major, for windows over the last two axes.
    #[track_caller]
    fn window_position(&self) -> Self {
        let rank = self.rank();
        let row = Self::iota(self.shape(), rank - 2, self.device());
        let column = Self::iota(self.shape(), rank - 1, self.device());
        row * self.shape()[rank - 1] as i64 + column
    }

    /// The mean of each window of `[batch, channels, height, width]`; padding counts as zeros.
    #[track_caller]
    #[must_use]
    pub fn avg_pool2d(&self, kernel: usize, stride: usize, padding: usize) -> Self {
        let window = Window { kernel, stride, padding, dilation: 1 };
        self.pooled_windows("avg_pool2d", window, 0.0).mean_dim([-2, -1])
    }

    /// Means over `size` by `size` equal parts of each channel: `[batch, channels, size, size]`.
    #[track_caller]
    #[must_use]
    pub fn adaptive_avg_pool2d(&self, size: usize) -> Self {
        let &[batch, channels, height, width] = self.shape().dims() else {
            panic!("adaptive_avg_pool2d: {} is not [batch, channels, height, width]", self.shape())
        };
        assert!(
            size > 0 && height.is_multiple_of(size) && width.is_multiple_of(size),
            "adaptive_avg_pool2d: {} does not divide into {size} x {size} equal parts",
            self.shape()
        );
        self.reshape([batch, channels, size, height / size, size, width / size]).mean_dim([3, 5])
    }

    #[track_caller]
    fn pooled_windows(&self, name: &str, window: Window, fill: f64) -> Self {
        if self.rank() != 4 {
            ok(shape_error::<()>(format!("{name}: {} is not [batch, channels, height, width]", self.shape())));
        }
        let moved = ok(movement::windows(name, self.shape(), &[window, window]));
        self.moved(moved, Scalar::new(self.dtype(), fill))
    }
}
