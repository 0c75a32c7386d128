//! Batches of matrices, and their blocks.

use std::ops::Range;

use crate::dtype::{DType, Scalar};
use crate::graph::refuse;
use crate::shape::Shape;
use crate::tensor::Tensor;

/// Matrices up to this size, or this many columns, are a kernel's; larger ones are cut in two, again and again, so that
/// most of their work is products.
pub(super) const BLOCK: usize = 64;

/// Threads of a workgroup that has a matrix to itself.
pub(super) const THREADS: usize = 256;

/// A tensor as a batch of matrices in f32.
pub(super) struct Matrices {
    /// `[count, rows, columns]`
    pub(super) all: Tensor,
    /// The axes before the last two.
    pub(super) lead: Shape,
    /// The type of results.
    pub(super) dtype: DType,
}

impl Matrices {
    #[track_caller]
    pub(super) fn of(name: &str, tensor: &Tensor) -> Self {
        let rank = tensor.rank();
        if rank < 2 {
            refuse(format_args!("{name}: {} is not a matrix", tensor.shape()));
        }
        let (lead, matrix) = tensor.shape().split_at(rank - 2);
        let count = lead.iter().product();
        let floats = tensor.floats();
        let all = floats.to_dtype(DType::F32).reshape([count, matrix[0], matrix[1]]);
        Self { all, lead: lead.into(), dtype: floats.dtype() }
    }

    /// The same for square ones.
    #[track_caller]
    pub(super) fn square(name: &str, tensor: &Tensor) -> Self {
        assert_square(name, tensor);
        Self::of(name, tensor)
    }

    /// `[count, ...]` as `[..., ...]`, in the tensor's type.
    #[track_caller]
    pub(super) fn back(&self, result: &Tensor) -> Tensor {
        result.reshape([self.lead.dims(), &result.shape()[1..]].concat()).to_dtype(self.dtype)
    }
}

/// Panics unless the last two axes are of one size.
#[track_caller]
pub(super) fn assert_square(name: &str, tensor: &Tensor) {
    if tensor.rank() < 2 || tensor.size(-2) != tensor.size(-1) {
        refuse(format_args!("{name}: {} is not square", tensor.shape()));
    }
}

/// The matrix product of `[count, m, k]` and `[count, k, n]` in f32, whatever [`autocast`](crate::tensor::autocast) is
/// under way.
#[track_caller]
pub(super) fn product(a: &Tensor, b: &Tensor) -> Tensor {
    a.contract_as_it_is(b, &[0, 1, 2], &[0, 2, 3], &[0, 1, 3])
}

/// Some rows and columns.
#[track_caller]
pub(super) fn block(matrix: &Tensor, rows: Range<usize>, columns: Range<usize>) -> Tensor {
    matrix.slice(-2, rows).slice(-1, columns)
}

/// A matrix of four blocks.
#[track_caller]
pub(super) fn joined([[a, b], [c, d]]: [[&Tensor; 2]; 2]) -> Tensor {
    Tensor::cat(&[&Tensor::cat(&[a, b], -1), &Tensor::cat(&[c, d], -1)], -2)
}

/// With its last two axes exchanged.
#[track_caller]
pub(super) fn transposed(matrix: &Tensor) -> Tensor {
    matrix.transpose(-2, -1)
}

/// The mean of a matrix and its transposed one.
#[track_caller]
pub(super) fn symmetric(a: &Tensor) -> Tensor {
    (a + transposed(a)) * 0.5
}

/// Matrices whose largest elements are about 1, and those elements, `[count, 1, 1]`: squares of larger ones might not
/// be finite.
#[track_caller]
pub(super) fn scaled(a: &Tensor) -> (Tensor, Tensor) {
    if a.numel() == 0 {
        return (a.clone(), Tensor::ones([a.size(0), 1, 1], a.device()));
    }
    let largest = a.abs().max_dim([-2, -1]).reshape([-1, 1, 1]);
    let size = largest.gt(0.0).where_(&largest, 1.0);
    (a / &size, size)
}

/// Columns of a panel of so many rows that one workgroup factors. For each column a thread of a reflection goes twice
/// over its share of the rows, `height · width / THREADS` steps, and Mesa's llvmpipe ends an invocation's loops after
/// 65,535 steps in all; what is left of those is for copying and for sums over threads. (A single column is as narrow as
/// a panel gets: five million rows are too many there.)
pub(super) fn panel(height: usize) -> usize {
    let widths = std::iter::successors(Some(BLOCK), |width| (*width > 1).then_some(width / 2));
    widths.into_iter().find(|width| 2 * width * width * height / THREADS <= 40_000).unwrap_or(1)
}

/// The uniform of a panel's kernel, for `[count, rows, columns]`: rows, columns, the power of two from there on, count.
pub(super) fn of_panels(shape: &Shape) -> Vec<Scalar> {
    [shape[1], shape[2], shape[2].next_power_of_two(), shape[0]].map(|number| Scalar::from(number as u32)).to_vec()
}

/// Where so many columns are cut, in whole blocks, so that most parts have the same sizes and share their kernels.
pub(super) const fn halved(size: usize, block: usize) -> usize {
    block * size.div_ceil(block).next_power_of_two() / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_whole_blocks() {
        for size in BLOCK + 1..6 * BLOCK {
            let half = halved(size, BLOCK);
            assert!(half.is_multiple_of(BLOCK) && half < size && size <= 2 * half, "{size} at {half}");
        }
        assert_eq!([1, 1000, 5000, 100_000].map(panel), [64, 64, 32, 4]);
    }
}
