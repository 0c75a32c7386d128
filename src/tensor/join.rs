//! Tensors put together and taken apart.

use crate::dtype::DType;
use crate::ops::{movement, ok, shape_error};

use super::Tensor;

impl Tensor {
    /// Tensors one after another along an axis that may differ in size.
    ///
    /// Each is padded to the whole size and they are added; floats are padded with -0.0, for `x + -0.0` is `x` to the bit.
    #[track_caller]
    pub fn cat(tensors: &[&Self], axis: isize) -> Self {
        let first = match tensors.first() {
            Some(first) => *first,
            None => panic!("cat: no tensors"),
        };
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
        let total = self.size(axis);
        let mut pieces = Vec::new();
        for start in (0..total).step_by(size) {
            pieces.push(self.narrow(axis, start, size.min(total - start)));
        }
        pieces
    }

    /// At most `count` pieces of equal size along `axis`; the last may be smaller.
    #[track_caller]
    pub fn chunk(&self, count: usize, axis: isize) -> Vec<Self> {
        assert!(count > 0, "chunk: no pieces");
        self.split(self.size(axis).div_ceil(count).max(1), axis)
    }
}
