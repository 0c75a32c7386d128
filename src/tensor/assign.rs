//! A tensor with some of its elements replaced: what other libraries write as an assignment to a part.

use std::ops::RangeBounds;

use crate::dtype::{DType, Scalar};
use crate::ops::movement::{self, with_size};
use crate::shape::Shape;

use super::{Operand, Tensor};

impl Tensor {
    /// `self` with `values` in place of a range along `axis`, to whose shape they are broadcast: NumPy's
    /// `x[:, 2:5] = values` is `x.slice_scatter(1, 2..5, values)`.
    ///
    /// ```
    /// use brasa::prelude::*;
    ///
    /// let x = Tensor::zeros([2, 4], &Device::cpu());
    /// assert_eq!(x.slice_scatter(1, 1..3, 7.0).to_vec::<f32>()?, [0.0, 7.0, 7.0, 0.0, 0.0, 7.0, 7.0, 0.0]);
    /// # Ok::<(), brasa::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn slice_scatter(&self, axis: isize, range: impl RangeBounds<usize>, values: impl Into<Operand>) -> Self {
        self.put_steps("slice_scatter", axis, self.steps("slice_scatter", axis, range, 1), 1, values.into())
    }

    /// The same with every `step`-th element of the range; a negative step goes backwards from its last one, as in
    /// [`slice_step`](Self::slice_step).
    #[track_caller]
    #[must_use]
    pub fn slice_step_scatter(
        &self,
        axis: isize,
        range: impl RangeBounds<usize>,
        step: isize,
        values: impl Into<Operand>,
    ) -> Self {
        let name = "slice_step_scatter";
        self.put_steps(name, axis, self.steps(name, axis, range, step), step, values.into())
    }

    /// `self` with `values` in place of so many elements along `axis`, from the first one on and `step` apart.
    #[track_caller]
    fn put_steps(
        &self,
        name: &str,
        axis: isize,
        (first, length): (usize, usize),
        step: isize,
        values: Operand,
    ) -> Self {
        let axis = self.axis(name, axis);
        let values = self.values_for(name, values, with_size(self.shape(), axis, length));
        if values.numel() == 0 {
            return self.clone();
        }
        let size = self.shape()[axis];
        let line = with_size(&Shape::from(vec![1; self.rank()]), axis, length);
        let is_there = Self::constant(line, Scalar::new(DType::Bool, 1.0), self.device());
        let is_there = is_there.moved_zero(movement::unslice(is_there.shape(), axis, first, step, size));
        let values = values.moved_zero(movement::unslice(values.shape(), axis, first, step, size));
        is_there.where_(values, self)
    }

    /// `self` with `values` in place of element `index` along `axis`, which they do not have; they are broadcast: NumPy's
    /// `x[3] = values` is `x.select_scatter(0, 3, values)`.
    #[track_caller]
    #[must_use]
    pub fn select_scatter(&self, axis: isize, index: usize, values: impl Into<Operand>) -> Self {
        let part = self.steps("select_scatter", axis, index..=index, 1);
        let mut shape = self.shape().to_vec();
        shape.remove(self.axis("select_scatter", axis));
        let values = self.values_for("select_scatter", values.into(), shape.into()).unsqueeze(axis);
        self.put_steps("select_scatter", axis, part, 1, values.into())
    }

    /// `self` with `values` on the diagonal that [`diagonal`](Self::diagonal) takes, of whose shape they are, or are
    /// broadcast to it.
    #[track_caller]
    #[must_use]
    pub fn diagonal_scatter(&self, offset: isize, first: isize, second: isize, values: impl Into<Operand>) -> Self {
        let name = "diagonal_scatter";
        let diagonal = self.diagonal(offset, first, second);
        let values = self.values_for(name, values.into(), diagonal.shape().clone());
        // with both axes as one, the last, the diagonal is every so many-th element
        let turned = self.movedim([first, second], [-2, -1]);
        let columns = turned.size(-1);
        let start = (-offset).max(0).cast_unsigned() * columns + offset.max(0).cast_unsigned();
        let part = (start, diagonal.size(-1));
        let step = (columns + 1).cast_signed();
        let put = turned.flatten(-2, -1).put_steps(name, -1, part, step, values.into());
        put.reshape(turned.shape()).movedim([-2, -1], [first, second])
    }

    /// `self` with `value`, a number, in all places along `axis` that `index` has, of any shape.
    #[track_caller]
    #[must_use]
    pub fn index_fill(&self, axis: isize, index: &Self, value: impl Into<Operand>) -> Self {
        let own = self.axis("index_fill", axis);
        let Some(value) = value.into().element(self.dtype()) else {
            panic!("index_fill: the value is a tensor; give a number")
        };
        let shape = with_size(self.shape(), own, index.numel());
        self.index_copy(axis, &index.flatten(0, -1), &Self::constant(shape, value, self.device()))
    }

    /// `values` of this shape and of the own type.
    #[track_caller]
    fn values_for(&self, name: &str, values: Operand, shape: Shape) -> Self {
        let values = values.into_tensor(&shape, self.dtype(), self.device());
        assert!(values.dtype() == self.dtype(), "{name}: {} into {}", values.dtype(), self.dtype());
        let fits = values.shape().broadcast(&shape).as_ref() == Some(&shape);
        assert!(fits, "{name}: {} into {shape}, a part of {}", values.shape(), self.shape());
        values.expand(shape)
    }
}
