//! Cumulative reductions. Sums and extrema have a kernel of their own, [`Op::Scan`].
//!
//! Others, whose gradients are not as plain, short axes, which fuse with their neighbours so, and what is larger than
//! the one binding that a kernel writes, are composed: windows of 16 elements that end at each place, then windows of 16
//! such results, and so on. An axis that would take more than three of these reductions, each of which goes over all
//! elements, is cut into blocks of 16 first, and what comes before each block is the cumulative reduction of what blocks
//! reduce to. The order of summation depends on the shape alone, and all that a gradient needs is that of windows and
//! reductions.

use crate::dtype::{DType, Scalar};
use crate::graph::{Dim, Op, ReduceOp};
use crate::ops::movement::{Moved, identity};
use crate::shape::Shape;

use super::{MAX_IN_A_BINDING, Tensor};

/// Elements of a window, and of a block.
const RADIX: usize = 16;
/// Elements of an axis up to which it stays in one piece.
const LONGEST: usize = RADIX.pow(3);

/// What is reduced cumulatively.
#[derive(Clone, Copy)]
enum Joined {
    Reduce(ReduceOp),
    LogSumExp,
}

impl Joined {
    /// What changes nothing that it is joined with.
    fn identity(self, dtype: DType) -> Scalar {
        match self {
            Self::Reduce(op) => op.identity(dtype),
            Self::LogSumExp => Scalar::new(dtype, f64::NEG_INFINITY),
        }
    }

    /// All elements along an axis, which goes.
    #[track_caller]
    fn reduced(self, values: &Tensor, axis: usize) -> Tensor {
        let Self::Reduce(op) = self else { return values.logsumexp(axis.cast_signed()) };
        let mut shape = values.shape().to_vec();
        shape[axis] = 1;
        let kept = Tensor::apply(Op::Reduce { op, axes: vec![axis] }, &[values], Shape::from(&*shape), values.dtype());
        shape.remove(axis);
        kept.reshape(shape)
    }

    /// What two parts come to.
    #[track_caller]
    fn joined(self, before: &Tensor, part: &Tensor) -> Tensor {
        match self {
            Self::Reduce(ReduceOp::Sum) => before + part,
            Self::Reduce(ReduceOp::Prod) => before * part,
            Self::Reduce(ReduceOp::Max) => before.maximum(part),
            Self::Reduce(ReduceOp::Min) => before.minimum(part),
            Self::LogSumExp => before.logaddexp(part),
        }
    }
}

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
    #[track_caller]
    #[must_use]
    pub fn cummax(&self, axis: isize) -> (Self, Self) {
        self.extreme_so_far("cummax", axis, ReduceOp::Max)
    }

    /// The smallest elements up to each place along `axis`, with the last index of each, as [`Tensor::cummax`].
    #[track_caller]
    #[must_use]
    pub fn cummin(&self, axis: isize) -> (Self, Self) {
        self.extreme_so_far("cummin", axis, ReduceOp::Min)
    }

    /// `ln Σ e^x` over all elements up to each place along `axis`, without overflow.
    #[track_caller]
    #[must_use]
    pub fn logcumsumexp(&self, axis: isize) -> Self {
        let axis = self.axis("logcumsumexp", axis);
        self.floats().scan(axis, Joined::LogSumExp)
    }

    #[track_caller]
    fn cumulative(&self, name: &str, axis: isize, op: ReduceOp) -> Self {
        let axis = self.axis(name, axis);
        // a kernel's values are words; extrema are exact in every type
        self.summable().countable().scan(axis, Joined::Reduce(op)).to_dtype(self.dtype())
    }

    /// All elements up to each place along `axis`, reduced.
    #[track_caller]
    fn scan(&self, axis: usize, what: Joined) -> Self {
        let size = self.shape()[axis];
        if let Joined::Reduce(op @ (ReduceOp::Sum | ReduceOp::Max | ReduceOp::Min)) = what
            && size > RADIX
            && self.numel() <= MAX_IN_A_BINDING
        {
            let op = Op::Scan { op, axis, block: usize::MAX, reverse: false };
            return Self::apply(op, &[self], self.shape().clone(), self.dtype());
        }
        if size > LONGEST {
            return self.scan_blocks(axis, what);
        }
        let steps = std::iter::successors(Some(1), |step| Some(step * RADIX)).take_while(|&step| step < size);
        let mut value = self.clone();
        for step in steps {
            value = what.reduced(&value.windows_back(axis, step, what), self.rank());
        }
        value
    }

    /// The same by blocks: what comes before each, joined with its own elements up to each place.
    #[track_caller]
    fn scan_blocks(&self, axis: usize, what: Joined) -> Self {
        let nothing = what.identity(self.dtype());
        let resized = |shape: &Shape, size: usize| {
            let mut shape = shape.to_vec();
            shape[axis] = size;
            shape
        };
        let size = self.shape()[axis];
        let whole = resized(self.shape(), size.next_multiple_of(RADIX));
        let filled = Moved { dims: identity(self.shape()).dims, shape: Shape::from(&*whole) };
        let mut cut = resized(self.shape(), size.div_ceil(RADIX));
        cut.insert(axis + 1, RADIX);
        let blocks = self.moved(filled, nothing).reshape(cut);
        // what comes before a block ends with the one before it
        let up_to = what.reduced(&blocks, axis + 1).scan(axis, what);
        let mut shifted = identity(up_to.shape());
        shifted.dims[axis].offset = -1;
        let before = up_to.moved(shifted, nothing).unsqueeze(axis.cast_signed() + 1);
        let within = what.reduced(&blocks.windows_back(axis + 1, 1, what), blocks.rank());
        what.joined(&before, &within).reshape(whole).narrow(axis.cast_signed(), 0, size)
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
        let rule = move |_: &Self, inputs: &[Self], g: &Self| vec![Some(g.spread(&inputs[1], axis, size, true)), None];
        (value.with_gradient(&[self, &index], rule), index)
    }

    /// `[.., n, ..]` → `[.., n, .., window]`: the elements `step` apart that end at each place along `axis`; nothing
    /// before the first.
    #[track_caller]
    fn windows_back(&self, axis: usize, step: usize, what: Joined) -> Self {
        let Moved { mut dims, shape } = identity(self.shape());
        dims[axis] = Dim { terms: vec![(axis, 1), (self.rank(), -(step as i64))], offset: 0, divisor: 1 };
        let window = RADIX.min(self.shape()[axis].div_ceil(step));
        let shape = [shape.dims(), &[window]].concat().into();
        self.moved(Moved { dims, shape }, what.identity(self.dtype()))
    }
}
