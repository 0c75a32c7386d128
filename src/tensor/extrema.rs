//! Places of the largest and smallest elements.

use crate::dtype::DType;
use crate::graph::{ReduceOp, opaque};
use crate::ops::movement::with_size;

use super::{Groups, MAX_IN_A_BINDING, Tensor};

/// Elements of a row that each place looks at, at most; of more, each place is told which are its own.
const MAX_COMPARED: usize = 32;

impl Tensor {
    /// The first index of the largest element along `axis`, as i32; NaN counts as largest.
    ///
    /// ```
    /// # use brasa::{Device, Tensor};
    /// let logits = Tensor::from_slice(&[0.1_f32, 2.0, -1.0, 5.0, 0.0, 5.0], [2, 3], &Device::cpu())?;
    /// assert_eq!(logits.argmax(-1).to_vec::<i32>()?, [1, 0]);
    /// # Ok::<(), brasa::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn argmax(&self, axis: isize) -> Self {
        self.argmax_keepdim(axis).squeeze(axis)
    }

    /// As [`Tensor::argmax`]; the axis stays with size 1.
    #[track_caller]
    #[must_use]
    pub fn argmax_keepdim(&self, axis: isize) -> Self {
        self.assert_not_empty("argmax", &[axis]);
        self.first_index(axis, &self.max_keepdim(axis))
    }

    /// The first index of the largest of all elements, counted in row-major order: PyTorch's `argmax` without an axis.
    #[track_caller]
    #[must_use]
    pub fn argmax_flat(&self) -> Self {
        self.reshape([self.numel()]).argmax(0)
    }

    /// The first index of the smallest element along `axis`, as i32; NaN counts as smallest.
    #[track_caller]
    #[must_use]
    pub fn argmin(&self, axis: isize) -> Self {
        self.argmin_keepdim(axis).squeeze(axis)
    }

    /// As [`Tensor::argmin`]; the axis stays with size 1.
    #[track_caller]
    #[must_use]
    pub fn argmin_keepdim(&self, axis: isize) -> Self {
        self.assert_not_empty("argmin", &[axis]);
        self.first_index(axis, &self.min_keepdim(axis))
    }

    /// The first index of the smallest of all elements, counted in row-major order.
    #[track_caller]
    #[must_use]
    pub fn argmin_flat(&self) -> Self {
        self.reshape([self.numel()]).argmin(0)
    }

    /// The largest elements along `axis` with their first indices, PyTorch's `max(dim)`: that element alone takes the
    /// gradient.
    #[track_caller]
    #[must_use]
    pub fn max_with_index(&self, axis: isize) -> (Self, Self) {
        self.assert_not_empty("max_with_index", &[axis]);
        self.with_index(axis, &self.max_keepdim(axis))
    }

    /// The smallest elements along `axis` with their first indices, PyTorch's `min(dim)`.
    #[track_caller]
    #[must_use]
    pub fn min_with_index(&self, axis: isize) -> (Self, Self) {
        self.assert_not_empty("min_with_index", &[axis]);
        self.with_index(axis, &self.min_keepdim(axis))
    }

    /// `value`, an element of `self` along `axis`, with its place.
    #[track_caller]
    fn with_index(&self, axis: isize, value: &Self) -> (Self, Self) {
        let index = self.first_index(axis, value);
        let number = self.axis("max_with_index", axis);
        let size = self.shape()[number];
        let value = if self.dtype().is_float() {
            value.with_gradient(&[self, &index], move |_, inputs, g| {
                vec![Some(g.spread(&inputs[1], number, size, false)), None]
            })
        } else {
            value.clone()
        };
        (value.squeeze(axis), index.squeeze(axis))
    }

    /// The adjoint of taking the elements at `index`, of the same shape as `self` and known to be below `size`, along
    /// `axis` of `size` elements: each element of `self` is added at its index. `ascending` says that it ascends.
    ///
    /// Each place looks at all elements where they are few, else those are grouped.
    #[track_caller]
    pub(super) fn spread(&self, index: &Self, axis: usize, size: usize, ascending: bool) -> Self {
        let position = axis.cast_signed();
        let length = self.shape()[axis];
        let results = self.numel() / length.max(1) * size;
        // what is sorted comes with its places
        let written = results.max(2 * self.numel());
        if length > MAX_COMPARED && results > 0 && written <= MAX_IN_A_BINDING {
            let sums = opaque(|| {
                let [values, index] = [self, index].map(|x| x.transpose(position, -1));
                let shape = with_size(values.shape(), self.rank() - 1, size);
                let rows = index.reshape([self.numel() / length, length]);
                let groups = Groups::in_rows(&rows, size, ascending);
                groups.reduce(ReduceOp::Sum, &values, 1, shape).transpose(position, -1)
            });
            return sums
                .with_gradient(&[self, index], move |_, inputs, g| vec![Some(g.gather(position, &inputs[1])), None]);
        }
        let mut shape = self.shape().to_vec();
        shape.insert(axis, size);
        let place = Self::iota(shape, axis, self.device()).to_dtype(index.dtype());
        place.eq(index.unsqueeze(position)).where_(self.unsqueeze(position), 0).sum_dim(axis + 1)
    }

    /// The first index along `axis`, which stays, where `self` equals `value` or is NaN; there is one.
    #[track_caller]
    fn first_index(&self, axis: isize, value: &Self) -> Self {
        let found = self.eq(value).or_nan(self);
        let axis = self.axis("argmax", axis);
        let position = Self::iota(self.shape().clone(), axis, self.device());
        found.where_(position, i32::MAX).min_keepdim(axis)
    }

    /// True where `self` is, or where `x` is NaN.
    #[track_caller]
    pub(super) fn or_nan(&self, x: &Self) -> Self {
        if matches!(x.dtype(), DType::F32 | DType::F16) { self.logical_or(&x.isnan()) } else { self.clone() }
    }
}
