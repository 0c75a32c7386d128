//! Elements chosen by indices that are data.

use crate::dtype::DType;
use crate::graph::Op;
use crate::ops::indexing::{gather_shape, index_add};
use crate::ops::{elementwise, ok};

use super::{Operand, Tensor};

impl Tensor {
    /// Indices into `0..bound`: clamped where outside, which becomes an error of the device.
    #[track_caller]
    pub(crate) fn checked_index(&self, name: &'static str, bound: usize) -> Self {
        let index = match self.dtype() {
            DType::I32 | DType::U32 => self.clone(),
            DType::U8 => self.to_dtype(DType::I32),
            other => panic!("{name}: the index is {other}; cast to i32 with to_dtype"),
        };
        let shape = index.shape();
        assert!(bound > 0 || index.numel() == 0, "{name}: an index of shape {shape} into an axis of size 0");
        Self::apply(Op::CheckIndex { name, bound }, &[&index], index.shape().clone(), index.dtype())
    }

    /// `out[.., i.., ..] = x[.., index[i..], ..]`: the index's axes take the place of `axis`.
    #[track_caller]
    #[must_use]
    pub fn index_select(&self, axis: isize, index: &Self) -> Self {
        self.select_checked("index_select", axis, index)
    }

    #[track_caller]
    fn select_checked(&self, name: &'static str, axis: isize, index: &Self) -> Self {
        let (axis, shape) = ok(gather_shape(name, self.shape(), axis, index.shape()));
        let index = index.checked_index(name, self.shape()[axis]);
        Self::apply(Op::Gather { axis }, &[self, &index], shape, self.dtype())
    }

    /// Rows of `self`, the table `[vocabulary, features]`: `[...]` → `[..., features]`.
    #[track_caller]
    #[must_use]
    pub fn embedding(&self, index: &Self) -> Self {
        assert!(self.rank() == 2, "embedding: the table is {}, not [vocabulary, features]", self.shape());
        self.select_checked("embedding", 0, index)
    }

    /// `out[.., i, ..] = x[.., index[.., i, ..], ..]`: one element per index, as PyTorch's `gather`. Along other axes
    /// than `axis` the index may be shorter.
    ///
    /// ```
    /// # use brasa::{Device, Tensor};
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &device)?;
    /// let index = Tensor::from_slice(&[1, 0], [2, 1], &device)?;
    /// assert_eq!(x.gather(1, &index).to_vec::<f32>()?, [2.0, 3.0]);
    /// # Ok::<(), brasa::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn gather(&self, axis: isize, index: &Self) -> Self {
        let axis = self.axis("gather", axis);
        self.assert_indexable("gather", axis, index);
        let size = self.shape()[axis];
        let index = index.checked_index("gather", size);
        let mut place = index.zeros_like();
        for (other, &stride) in self.shape().strides().iter().enumerate() {
            let coordinate = if other == axis {
                index.clone()
            } else {
                Self::iota(index.shape(), other, self.device()).to_dtype(index.dtype())
            };
            place += coordinate * stride as i64;
        }
        let flat = self.reshape([self.numel()]);
        let value = Self::apply(Op::Gather { axis: 0 }, &[&flat, &place], index.shape().clone(), self.dtype());
        if !self.dtype().is_float() {
            return value;
        }
        value.with_gradient(&[self, &index], move |_, inputs, g| {
            let spread = g.spread(&inputs[1], axis, size, false);
            vec![Some(spread.padded_to(inputs[0].shape())), None]
        })
    }

    /// As [`Tensor::gather`], but `self` and `index` broadcast along the other axes.
    #[track_caller]
    #[must_use]
    pub fn take_along_dim(&self, index: &Self, axis: isize) -> Self {
        assert!(self.rank() == index.rank(), "take_along_dim: {} by {}", self.shape(), index.shape());
        let axis = self.axis("take_along_dim", axis);
        let one = |shape: &crate::Shape| crate::ops::movement::with_size(shape, axis, 1);
        let others = ok(elementwise::broadcast("take_along_dim", &one(self.shape()), &one(index.shape())));
        let whole = |size: usize| crate::ops::movement::with_size(&others, axis, size);
        let index = index.expand(whole(index.shape()[axis]));
        self.expand(whole(self.shape()[axis])).gather(axis.cast_signed(), &index)
    }

    /// `value` where the bool `mask`, broadcast to `self`, is true, else `self`. A float makes f32 of integers and
    /// bools, an integer i32 of bools, as in [`Tensor::where_`] (PyTorch keeps the type).
    #[track_caller]
    #[must_use]
    pub fn masked_fill(&self, mask: &Self, value: impl Into<Operand>) -> Self {
        let (shape, own) = (mask.shape(), self.shape());
        let fits = shape.broadcast(own).as_ref() == Some(own);
        assert!(fits, "masked_fill: the mask {shape} does not broadcast to {own}");
        mask.chosen(["masked_fill", "mask"], value, self)
    }

    /// The elements of `source`, in row-major order, where the bool `mask` (broadcast with `self`) is true, else
    /// `self`. Fewer elements than there are places become an error of the device.
    ///
    /// # Panics
    ///
    /// If `source` has another type, or no elements while `self` has some.
    #[track_caller]
    #[must_use]
    pub fn masked_scatter(&self, mask: &Self, source: &Self) -> Self {
        assert!(mask.dtype() == DType::Bool, "masked_scatter: the mask is {}, not bool", mask.dtype());
        assert!(source.dtype() == self.dtype(), "masked_scatter: {} into {}", source.dtype(), self.dtype());
        let shape = ok(elementwise::broadcast("masked_scatter", self.shape(), mask.shape()));
        let count = source.numel();
        if shape.numel() == 0 {
            return self.expand(shape);
        }
        assert!(count > 0, "masked_scatter: no elements for {shape}");
        let mask = mask.expand(&shape);
        let number = mask.reshape([shape.numel()]).cumsum(0).reshape(&shape) - 1;
        let number = mask.where_(number, 0).checked_index("masked_scatter", count);
        let chosen = Self::apply(Op::Gather { axis: 0 }, &[&source.reshape([count]), &number], shape, self.dtype());
        mask.where_(chosen, self)
    }

    /// One-hot rows: `[...]` → `[..., classes]` as i32, 1 at each index and 0 elsewhere.
    #[track_caller]
    #[must_use]
    pub fn one_hot(&self, classes: usize) -> Self {
        self.checked_index("one_hot", classes).one_hot_unchecked(classes).to_dtype(DType::I32)
    }

    /// True where the new last axis's coordinate is the index.
    #[track_caller]
    pub(crate) fn one_hot_unchecked(&self, classes: usize) -> Self {
        let shape = [self.shape().dims(), &[classes]].concat();
        let position = Self::iota(shape, self.rank(), self.device()).to_dtype(self.dtype());
        position.eq(self.unsqueeze(-1))
    }

    /// `self` with rows of `source` added at `index` along `axis`, as PyTorch's `index_add`: `index` is `[n]`, and
    /// `source` has size `n` along `axis`.
    #[track_caller]
    #[must_use]
    pub fn index_add(&self, axis: isize, index: &Self, source: &Self) -> Self {
        let axis = self.axis("index_add", axis);
        let size = self.shape()[axis];
        let fits = index.rank() == 1
            && source.rank() == self.rank()
            && *source.shape() == crate::ops::movement::with_size(self.shape(), axis, index.numel());
        assert!(fits, "index_add: {} at {} into {} along axis {axis}", source.shape(), index.shape(), self.shape());
        self.assert_addable("index_add", source.dtype());
        self + index_add(source, &index.checked_index("index_add", size), axis, size)
    }
}
