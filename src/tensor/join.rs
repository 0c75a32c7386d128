//! Tensors put together and taken apart.

use crate::dtype::DType;
use crate::graph::at_callers_line;
use crate::ops::{movement, ok, shape_error};

use super::Tensor;

/// A kernel reads at most about as many tensors as this.
const AT_ONCE: usize = 8;

impl Tensor {
    /// Tensors one after another along an axis that may differ in size.
    ///
    /// ```
    /// # use brasa::{Device, Tensor};
    /// let x = Tensor::arange(2, &Device::cpu());
    /// assert_eq!(Tensor::cat(&[&x, &x], 0).to_vec::<i32>()?, [0, 1, 0, 1]);
    /// assert_eq!(Tensor::stack(&[&x, &x], 1).to_vec::<i32>()?, [0, 0, 1, 1]);
    /// # Ok::<(), brasa::Error>(())
    /// ```
    ///
    /// Each is padded to the whole size and they are added; floats are padded with -0.0, for `x + -0.0` is `x` to the
    /// bit. Many are joined a few at a time, so that the whole is not written once for every few of them.
    #[track_caller]
    #[doc(alias = "concat")]
    pub fn cat(tensors: &[&Self], axis: isize) -> Self {
        let first = match tensors.first() {
            Some(first) => *first,
            None => panic!("cat: no tensors"),
        };
        if tensors.iter().any(|tensor| tensor.dtype() != first.dtype()) {
            // under an autocast floats of both types may meet
            let full: Vec<Self> = at_callers_line(|| tensors.iter().map(|tensor| tensor.full_precision()).collect());
            if full.iter().all(|tensor| tensor.dtype() == DType::F32) {
                return Self::cat(&full.iter().collect::<Vec<_>>(), axis);
            }
        }
        let axis = first.axis("cat", axis);
        let total: usize = ok(tensors
            .iter()
            .map(|tensor| {
                let fits = tensor.rank() == first.rank() && tensor.dtype() == first.dtype();
                if fits && movement::with_size(tensor.shape(), axis, 0) == movement::with_size(first.shape(), axis, 0) {
                    return Ok(tensor.shape()[axis]);
                }
                shape_error(format!(
                    "cat: {}{} and {}{} along axis {axis}",
                    first.dtype(),
                    first.shape(),
                    tensor.dtype(),
                    tensor.shape()
                ))
            })
            .sum());
        if tensors.len() > AT_ONCE {
            let join = |some: &[&Self]| Self::cat(some, axis.cast_signed());
            let pieces: Vec<Self> = at_callers_line(|| tensors.chunks(AT_ONCE).map(join).collect());
            return Self::cat(&pieces.iter().collect::<Vec<_>>(), axis.cast_signed());
        }
        let fill = if first.dtype().is_float() { -0.0 } else { 0.0 };
        let mut start = 0;
        let mut sum: Option<Self> = None;
        for tensor in tensors.iter().filter(|tensor| tensor.shape()[axis] > 0) {
            let mut widths = vec![(0, 0); tensor.rank()];
            let end = start + tensor.shape()[axis];
            widths[axis] = (start.cast_signed(), (total - end).cast_signed());
            let part = tensor.pad(&widths, fill);
            sum = Some(match sum {
                None => part,
                // u8 has no sum, but where one part is, the others are zero
                Some(sum) if tensor.dtype() == DType::U8 => sum.bitwise_or(part),
                Some(sum) => sum + part,
            });
            start = end;
        }
        sum.unwrap_or_else(|| first.clone())
    }

    /// Tensors of one shape one after another along a new axis.
    #[track_caller]
    pub fn stack(tensors: &[&Self], axis: isize) -> Self {
        let mut parts = Vec::with_capacity(tensors.len());
        for tensor in tensors {
            assert!(tensor.shape() == tensors[0].shape(), "stack: {} and {}", tensors[0].shape(), tensor.shape());
            parts.push(tensor.unsqueeze(axis));
        }
        Self::cat(&parts.iter().collect::<Vec<_>>(), axis)
    }

    /// Pieces of `size` elements along `axis`; the last may be smaller.
    #[track_caller]
    pub fn split(&self, size: usize, axis: isize) -> Vec<Self> {
        assert!(size > 0, "split: pieces of size 0");
        self.pieces(self.axis_size("split", axis), size, axis)
    }

    #[track_caller]
    fn pieces(&self, total: usize, size: usize, axis: isize) -> Vec<Self> {
        if total == 0 {
            return vec![self.clone()];
        }
        let mut pieces = Vec::new();
        for start in (0..total).step_by(size) {
            pieces.push(self.narrow(axis, start, size.min(total - start)));
        }
        pieces
    }

    /// Pieces of these sizes along `axis`, which they fill.
    #[track_caller]
    pub fn split_sizes(&self, sizes: &[usize], axis: isize) -> Vec<Self> {
        let total = sizes.iter().try_fold(0usize, |total, &size| total.checked_add(size));
        assert!(
            total == Some(self.axis_size("split_sizes", axis)),
            "split_sizes: {sizes:?} along axis {axis} of {}",
            self.shape()
        );
        let mut pieces = Vec::with_capacity(sizes.len());
        let mut start = 0;
        for &size in sizes {
            pieces.push(self.narrow(axis, start, size));
            start += size;
        }
        pieces
    }

    /// The slices along `axis`, which vanishes.
    #[track_caller]
    pub fn unbind(&self, axis: isize) -> Vec<Self> {
        let count = self.axis_size("unbind", axis);
        let mut slices = Vec::with_capacity(count);
        for index in 0..count {
            slices.push(self.select(axis, index));
        }
        slices
    }

    /// The coordinates of a grid over vectors, each of shape `[len of the first, len of the second, ..]`: PyTorch's
    /// `meshgrid` with `indexing="ij"`.
    #[track_caller]
    pub fn meshgrid(vectors: &[&Self]) -> Vec<Self> {
        let shape: Vec<usize> = vectors.iter().map(|vector| vector.numel()).collect();
        let mut grids = Vec::with_capacity(vectors.len());
        for (axis, vector) in vectors.iter().enumerate() {
            assert!(vector.rank() <= 1, "meshgrid: {} is not a vector", vector.shape());
            let mut along = vec![1; shape.len()];
            along[axis] = shape[axis];
            grids.push(vector.reshape(along).expand(shape.as_slice()));
        }
        grids
    }

    /// At most `count` pieces of equal size along `axis`; the last may be smaller.
    #[track_caller]
    pub fn chunk(&self, count: usize, axis: isize) -> Vec<Self> {
        assert!(count > 0, "chunk: no pieces");
        let total = self.axis_size("chunk", axis);
        if total == 0 {
            return vec![self.clone(); count];
        }
        self.pieces(total, total.div_ceil(count).max(1), axis)
    }
}
