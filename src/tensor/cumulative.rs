//! Cumulative reductions: windows of 16 elements that end at each place, then windows of 16 such results, and so on:
//! `⌈log₁₆ n⌉` reductions, whose order of summation depends on the length alone. All that a gradient needs is that of
//! windows and reductions.

use crate::dtype::Scalar;
use crate::graph::{Dim, Op, ReduceOp};
use crate::ops::movement::{Moved, identity};

use super::Tensor;

const RADIX: usize = 16;

impl Tensor {
    /// The sums of all elements up to each place along `axis`; bool and u8 give i32.
    #[track_caller]
    #[must_use]
    pub fn cumsum(&self, axis: isize) -> Self {
        self.summable().cumulative("cumsum", axis, ReduceOp::Sum)
    }

    /// The products of all elements up to each place along `axis`; bool and u8 give i32.
    #[track_caller]
    #[must_use]
    pub fn cumprod(&self, axis: isize) -> Self {
        self.summable().cumulative("cumprod", axis, ReduceOp::Prod)
    }

    /// The largest elements up to each place along `axis`, with the last index of each, as i32; NaN counts as largest.
    /// The gradient takes time in proportion to the square of the axis's size.
    #[track_caller]
    pub fn cummax(&self, axis: isize) -> (Self, Self) {
        self.extreme_so_far("cummax", axis, ReduceOp::Max)
    }

    /// The smallest elements up to each place along `axis`, with the last index of each, as [`Tensor::cummax`].
    #[track_caller]
    pub fn cummin(&self, axis: isize) -> (Self, Self) {
        self.extreme_so_far("cummin", axis, ReduceOp::Min)
    }

    /// `ln Σ e^x` over all elements up to each place along `axis`, without overflow.
    #[track_caller]
    #[must_use]
    pub fn logcumsumexp(&self, axis: isize) -> Self {
        let axis = self.axis("logcumsumexp", axis);
        let mut value = self.floats();
        let nothing = Scalar::new(value.dtype(), f64::NEG_INFINITY);
        for step in levels(self.shape()[axis]) {
            value = value.windows_back(axis, step, nothing).logsumexp(-1);
        }
        value
    }

    #[track_caller]
    fn cumulative(&self, name: &str, axis: isize, op: ReduceOp) -> Self {
        let axis = self.axis(name, axis);
        let nothing = op.identity(self.dtype());
        let kept = [self.shape().dims(), &[1]].concat();
        let mut value = self.clone();
        for step in levels(self.shape()[axis]) {
            let windows = value.windows_back(axis, step, nothing);
            let reduced = Op::Reduce { op, axes: vec![self.rank()] };
            value = Self::apply(reduced, &[&windows], kept.as_slice().into(), self.dtype()).reshape(self.shape());
        }
        value
    }

    #[track_caller]
    fn extreme_so_far(&self, name: &str, axis: isize, op: ReduceOp) -> (Self, Self) {
        let value = self.detach().cumulative(name, axis, op);
        let axis = self.axis(name, axis);
        let size = self.shape()[axis];
        let place = Self::iota(self.shape(), axis, self.device());
        let reached = self.eq(&value).or_nan(self).where_(place, 0);
        let index = reached.cumulative(name, axis.cast_signed(), ReduceOp::Max);
        if !self.dtype().is_float() {
            return (value, index);
        }
        let rule = move |_: &Self, inputs: &[Self], g: &Self| vec![Some(g.spread(&inputs[1], axis, size)), None];
        (value.with_gradient(&[self, &index], rule), index)
    }

    /// `[.., n, ..]` → `[.., n, .., window]`: the elements `step` apart that end at each place along `axis`; `nothing`
    /// before the first.
    #[track_caller]
    fn windows_back(&self, axis: usize, step: usize, nothing: Scalar) -> Self {
        let Moved { mut dims, shape } = identity(self.shape());
        dims[axis] = Dim { terms: vec![(axis, 1), (self.rank(), -(step as i64))], offset: 0, divisor: 1 };
        let window = RADIX.min(self.shape()[axis].div_ceil(step));
        self.moved(Moved { dims, shape: [shape.dims(), &[window]].concat().into() }, nothing)
    }
}

/// The distances within the windows of each level for an axis of `size` elements.
fn levels(size: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(1), |step| Some(step * RADIX)).take_while(move |&step| step < size)
}
