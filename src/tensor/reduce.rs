//! Reductions: over all axes, over some (`_dim`), or over some that stay with size 1 (`_keepdim`).
//!
//! ```
//! # use brasa::{Device, Tensor};
//! let x = Tensor::arange(6, &Device::cpu()).reshape([2, 3]);
//! assert_eq!(x.sum_dim(1).to_vec::<i32>()?, [3, 12]);
//! assert_eq!(x.max_keepdim([0, 1]).shape().dims(), [1, 1]);
//! assert_eq!(x.cumsum(1).to_vec::<i32>()?, [0, 1, 3, 3, 7, 12]);
//! # Ok::<(), brasa::Error>(())
//! ```

use crate::dtype::DType;
use crate::graph::{Op, ReduceOp};
use crate::ops::elementwise::Domain;
use crate::ops::{ok, reduce, resolve_axes};

use super::{Axes, Tensor};

impl Tensor {
    #[track_caller]
    fn reduce_keepdim(&self, name: &str, op: ReduceOp, axes: &[isize]) -> Self {
        let axes = ok(resolve_axes(name, self.shape(), axes));
        let shape = reduce::keepdim_shape(self.shape(), &axes);
        if axes.is_empty() {
            return self.clone();
        }
        Self::apply(Op::Reduce { op, axes }, &[self], shape, self.dtype())
    }

    /// Reduces, then drops the axes.
    #[track_caller]
    fn reduce(&self, name: &str, op: ReduceOp, axes: &[isize]) -> Self {
        let kept = self.reduce_keepdim(name, op, axes);
        let axes = ok(resolve_axes(name, self.shape(), axes));
        kept.reshape(reduce::squeezed_shape(self.shape(), &axes))
    }

    pub(super) fn all_axes(&self) -> Vec<isize> {
        (0..self.rank().cast_signed()).collect()
    }

    /// As i32 where sums would not fit: bool and u8.
    #[track_caller]
    pub(super) fn summable(&self) -> Self {
        if matches!(self.dtype(), DType::Bool | DType::U8) { self.to_dtype(DType::I32) } else { self.clone() }
    }

    #[track_caller]
    pub(super) fn assert_not_empty(&self, name: &str, axes: &[isize]) {
        for &axis in axes {
            assert!(self.axis_size(name, axis) > 0, "{name}: axis {axis} of {} has no elements", self.shape());
        }
    }

    /// The number of elements along `axes`.
    #[track_caller]
    pub(super) fn count(&self, name: &str, axes: &[isize]) -> usize {
        let axes = ok(resolve_axes(name, self.shape(), axes));
        axes.into_iter().map(|axis| self.shape()[axis]).product()
    }

    #[track_caller]
    pub(super) fn assert_addable(&self, name: &str, other: DType) {
        let dtype = self.dtype();
        assert!(dtype == other, "{name}: {dtype} and {other} do not mix; cast one with to_dtype");
        assert!(Domain::Number.contains(dtype), "{name}: not defined for {dtype}; cast with to_dtype");
    }

    #[track_caller]
    pub(super) fn assert_float(&self, name: &str) {
        assert!(self.dtype().is_float(), "{name}: not defined for {}; cast with to_dtype", self.dtype());
    }

    /// The sum of all elements.
    #[track_caller]
    #[must_use]
    pub fn sum(&self) -> Self {
        self.sum_dim(self.all_axes())
    }

    /// Sums over these axes; bool and u8 give i32.
    #[track_caller]
    #[must_use]
    pub fn sum_dim(&self, axes: impl Axes) -> Self {
        self.summable().reduce("sum", ReduceOp::Sum, &axes.axes())
    }

    /// Sums over these axes, which stay with size 1.
    #[track_caller]
    #[must_use]
    pub fn sum_keepdim(&self, axes: impl Axes) -> Self {
        self.summable().reduce_keepdim("sum", ReduceOp::Sum, &axes.axes())
    }

    /// The mean of all elements; NaN if there are none.
    #[track_caller]
    #[must_use]
    pub fn mean(&self) -> Self {
        self.mean_dim(self.all_axes())
    }

    /// Means over these axes.
    #[track_caller]
    #[must_use]
    pub fn mean_dim(&self, axes: impl Axes) -> Self {
        let axes = axes.axes();
        self.assert_float("mean");
        let sum = self.countable().sum_dim(axes.as_slice());
        self.divided(sum, "mean", &axes).to_dtype(self.dtype())
    }

    /// Means over these axes, which stay with size 1.
    #[track_caller]
    #[must_use]
    pub fn mean_keepdim(&self, axes: impl Axes) -> Self {
        let axes = axes.axes();
        self.assert_float("mean");
        let sum = self.countable().sum_keepdim(axes.as_slice());
        self.divided(sum, "mean", &axes).to_dtype(self.dtype())
    }

    /// `sum`, of these axes, by how many elements it is of. Of none: NaN, whatever a driver makes of zero by zero.
    #[track_caller]
    fn divided(&self, sum: Self, name: &str, axes: &[isize]) -> Self {
        match self.count(name, axes) {
            0 => sum + f64::NAN,
            // not times a rounded share: what is the same everywhere is its own mean
            count => sum / count as f64,
        }
    }

    /// The largest element; NaN if any is.
    #[track_caller]
    #[must_use]
    pub fn max(&self) -> Self {
        self.max_dim(self.all_axes())
    }

    /// The largest elements along these axes, as PyTorch's `amax`: equals share the gradient.
    #[track_caller]
    #[must_use]
    pub fn max_dim(&self, axes: impl Axes) -> Self {
        let axes = axes.axes();
        self.assert_not_empty("max", &axes);
        self.reduce("max", ReduceOp::Max, &axes)
    }

    /// The largest elements along these axes, which stay with size 1.
    #[track_caller]
    #[must_use]
    pub fn max_keepdim(&self, axes: impl Axes) -> Self {
        let axes = axes.axes();
        self.assert_not_empty("max", &axes);
        self.reduce_keepdim("max", ReduceOp::Max, &axes)
    }

    /// The smallest element; NaN if any is.
    #[track_caller]
    #[must_use]
    pub fn min(&self) -> Self {
        self.min_dim(self.all_axes())
    }

    /// The smallest elements along these axes, as PyTorch's `amin`.
    #[track_caller]
    #[must_use]
    pub fn min_dim(&self, axes: impl Axes) -> Self {
        let axes = axes.axes();
        self.assert_not_empty("min", &axes);
        self.reduce("min", ReduceOp::Min, &axes)
    }

    /// The smallest elements along these axes, which stay with size 1.
    #[track_caller]
    #[must_use]
    pub fn min_keepdim(&self, axes: impl Axes) -> Self {
        let axes = axes.axes();
        self.assert_not_empty("min", &axes);
        self.reduce_keepdim("min", ReduceOp::Min, &axes)
    }

    /// The product of all elements.
    #[track_caller]
    #[must_use]
    pub fn prod(&self) -> Self {
        self.prod_dim(self.all_axes())
    }

    /// Products along these axes; bool and u8 give i32.
    #[track_caller]
    #[must_use]
    pub fn prod_dim(&self, axes: impl Axes) -> Self {
        self.summable().reduce("prod", ReduceOp::Prod, &axes.axes())
    }

    /// Products along these axes, which stay with size 1.
    #[track_caller]
    #[must_use]
    pub fn prod_keepdim(&self, axes: impl Axes) -> Self {
        self.summable().reduce_keepdim("prod", ReduceOp::Prod, &axes.axes())
    }

    /// True if any element is; numbers count as true unless zero.
    #[track_caller]
    #[must_use]
    pub fn any(&self) -> Self {
        self.any_dim(self.all_axes())
    }

    /// True where any element along these axes is.
    #[track_caller]
    #[must_use]
    pub fn any_dim(&self, axes: impl Axes) -> Self {
        self.to_dtype(DType::Bool).reduce("any", ReduceOp::Sum, &axes.axes())
    }

    /// True if all elements are; numbers count as true unless zero.
    #[track_caller]
    #[must_use]
    pub fn all(&self) -> Self {
        self.all_dim(self.all_axes())
    }

    /// True where all elements along these axes are.
    #[track_caller]
    #[must_use]
    pub fn all_dim(&self, axes: impl Axes) -> Self {
        self.to_dtype(DType::Bool).reduce("all", ReduceOp::Prod, &axes.axes())
    }

    /// The number of elements along these axes that are not zero, as i32.
    #[track_caller]
    #[must_use]
    pub fn count_nonzero(&self, axes: impl Axes) -> Self {
        self.to_dtype(DType::Bool).sum_dim(axes)
    }

    /// Sums over these axes without the NaNs.
    #[track_caller]
    #[must_use]
    pub fn nansum(&self, axes: impl Axes) -> Self {
        self.isnan().where_(self.zeros_like(), self).sum_dim(axes)
    }

    /// Means over these axes without the NaNs.
    #[track_caller]
    #[must_use]
    pub fn nanmean(&self, axes: impl Axes) -> Self {
        let axes = axes.axes();
        self.assert_float("nanmean");
        let count = self.isnan().logical_not().sum_dim(axes.as_slice());
        (self.countable().nansum(axes) / count.to_dtype(DType::F32)).to_dtype(self.dtype())
    }

    /// `ln Σ e^x` along these axes, without overflow.
    #[track_caller]
    #[must_use]
    pub fn logsumexp(&self, axes: impl Axes) -> Self {
        let axes = axes.axes();
        let kept = self.logsumexp_keepdim(axes.as_slice());
        let axes = ok(resolve_axes("logsumexp", self.shape(), &axes));
        kept.reshape(reduce::squeezed_shape(self.shape(), &axes))
    }

    /// `ln Σ e^x` along these axes, which stay with size 1.
    #[track_caller]
    #[must_use]
    pub fn logsumexp_keepdim(&self, axes: impl Axes) -> Self {
        let axes = axes.axes();
        let x = self.floats();
        if self.count("logsumexp", &axes) == 0 {
            return x.sum_keepdim(axes).log();
        }
        let wide = x.countable();
        let largest = wide.max_keepdim(axes.as_slice()).detach();
        // infinite maxima would give inf - inf
        let largest = largest.isfinite().where_(&largest, 0.0);
        let value = (&wide - &largest).exp().sum_keepdim(axes.as_slice()).log() + largest;
        let value = value.with_gradient(&[&wide], |y, inputs, g| {
            // of nothing but -infinity
            let y = y.eq(f64::NEG_INFINITY).where_(0.0, y);
            vec![Some(g * (&inputs[0] - y).exp())]
        });
        value.to_dtype(x.dtype())
    }
}
