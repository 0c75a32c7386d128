//! Elements chosen by indices that are data.

use crate::dtype::DType;
use crate::graph::Op;
use crate::ops::indexing::{gather_shape, index_add};
use crate::ops::{elementwise, ok};

use super::Tensor;

impl Tensor {
    /// Indices into `0..bound`: clamped where outside, which becomes an error of the device.
    #[track_caller]
    pub(crate) fn checked_index(&self, name: &str, bound: usize) -> Self {
        let index = match self.dtype() {
            DType::I32 | DType::U32 => self.clone(),
            DType::U8 => self.to_dtype(DType::I32),
            other => panic!("{name}: the index is {other}; cast to i32 with to_dtype"),
        };
        Self::apply(Op::CheckIndex { bound }, &[&index], index.shape().clone(), index.dtype())
    }

    /// `out[.., i.., ..] = x[.., index[i..], ..]`: the index's axes take the place of `axis`.
    #[track_caller]
    #[must_use]
    pub fn index_select(&self, axis: isize, index: &Self) -> Self {
        let (axis, shape) = ok(gather_shape("index_select", self.shape(), axis, index.shape()));
        let index = index.checked_index("index_select", self.shape()[axis]);
        Self::apply(Op::Gather { axis }, &[self, &index], shape, self.dtype())
    }

    /// Rows of `self`, the table `[vocabulary, features]`: `[...]` → `[..., features]`.
    #[track_caller]
    #[must_use]
    pub fn embedding(&self, index: &Self) -> Self {
        assert!(self.rank() == 2, "embedding: the table is {}, not [vocabulary, features]", self.shape());
        self.index_select(0, index)
    }

    /// `out[.., i, ..] = x[.., index[.., i, ..], ..]`: one element per index, as PyTorch's `gather`. Sizes other than
    /// `axis`'s agree. Takes time in proportion to the size of `axis` for each element.
    #[track_caller]
    #[must_use]
    pub fn gather(&self, axis: isize, index: &Self) -> Self {
        let axis = self.axis("gather", axis);
        let fits = self.rank() == index.rank()
            && self.shape().iter().zip(index.shape().iter()).enumerate().all(|(a, (x, i))| a == axis || x == i);
        assert!(fits, "gather: {} by {} along axis {axis}", self.shape(), index.shape());
        let size = self.shape()[axis];
        let index = index.checked_index("gather", size);
        // [.., i, candidates, ..]
        let candidates = self.unsqueeze(axis.cast_signed());
        let index = index.unsqueeze(axis.cast_signed() + 1);
        let shape = ok(elementwise::broadcast("gather", candidates.shape(), index.shape()));
        let position = Self::iota(shape.clone(), axis + 1, self.device()).to_dtype(index.dtype());
        position.eq(index).where_(candidates, 0).sum_dim(axis + 1).to_dtype(self.dtype())
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

    /// `self` with rows of `source` added at `index` along `axis`, as PyTorch's `index_add`: `index` is `[n]`, and `source`
    /// has size `n` along `axis`.
    #[track_caller]
    #[must_use]
    pub fn index_add(&self, axis: isize, index: &Self, source: &Self) -> Self {
        let axis = self.axis("index_add", axis);
        let size = self.shape()[axis];
        let fits = index.rank() == 1
            && source.rank() == self.rank()
            && *source.shape() == crate::ops::movement::with_size(self.shape(), axis, index.numel());
        assert!(fits, "index_add: {} at {} into {} along axis {axis}", source.shape(), index.shape(), self.shape());
        self + index_add(source, &index.checked_index("index_add", size), axis, size)
    }
}
