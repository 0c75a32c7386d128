//! Checks of what files say: types, axes, sizes.

use crate::dtype::DType;
use crate::error::Result;
use crate::shape::{MAX_ELEMENTS, Shape};
use crate::tensor::Tensor;

use super::call::fail;

/// f32 or f16; anything else is an error.
pub(super) fn float(tensor: Tensor) -> Result<Tensor> {
    if tensor.dtype().is_float() {
        return Ok(tensor);
    }
    fail(format!("is not defined for {}{}", tensor.dtype(), tensor.shape()))
}

/// u8 as i32; bool is an error.
pub(super) fn as_number(tensor: Tensor) -> Result<Tensor> {
    match tensor.dtype() {
        DType::U8 => Ok(tensor.to_dtype(DType::I32)),
        DType::Bool => fail(format!("is not defined for bool{}", tensor.shape())),
        _ => Ok(tensor),
    }
}

/// Both in one type.
pub(super) fn alike(a: Tensor, b: Tensor) -> Result<(Tensor, Tensor)> {
    match (a.dtype(), b.dtype()) {
        (of_a, of_b) if of_a == of_b => Ok((a, b)),
        (of_a, of_b) if of_a.is_float() && of_b.is_float() => Ok((a.to_dtype(DType::F32), b.to_dtype(DType::F32))),
        // what was u8 before it was computed with
        (DType::U8 | DType::I32, DType::U8 | DType::I32) => Ok((a.to_dtype(DType::I32), b.to_dtype(DType::I32))),
        (of_a, of_b) => fail(format!("{of_a}{} and {of_b}{} do not mix", a.shape(), b.shape())),
    }
}

/// `axis` counted from the front among `rank` ones.
pub(super) fn axis(axis: i64, rank: usize, shape: &Shape) -> Result<usize> {
    let count = rank as i64;
    let from_front = if axis < 0 { axis.saturating_add(count) } else { axis };
    if (0..count).contains(&from_front) {
        return Ok(from_front as usize);
    }
    fail(format!("there is no axis {axis} in {shape}"))
}

/// The same of several, ascending; one that occurs twice is an error.
pub(super) fn axes(axes: &[i64], rank: usize, shape: &Shape) -> Result<Vec<usize>> {
    let mut all = axes.iter().map(|&number| axis(number, rank, shape)).collect::<Result<Vec<_>>>()?;
    all.sort_unstable();
    if all.windows(2).any(|pair| pair[0] == pair[1]) {
        return fail(format!("an axis occurs twice in {axes:?}"));
    }
    Ok(all)
}

/// A shape of ones but for this axis.
pub(super) fn shape_along(rank: usize, axis: usize, size: usize) -> Vec<usize> {
    let mut shape = vec![1; rank];
    shape[axis] = size;
    shape
}

/// The elements of a shape, in which a size of 0 counts as 1: what the others make must not overflow, either.
pub(super) fn span(sizes: &[usize]) -> usize {
    sizes.iter().fold(1, |span: usize, &size| span.saturating_mul(size.max(1)))
}

/// Sizes that must not be negative.
pub(super) fn sizes(values: &[i64], what: &str) -> Result<Vec<usize>> {
    match values.iter().map(|&value| usize::try_from(value).ok().filter(|&size| size <= MAX_ELEMENTS)).collect() {
        Some(sizes) => Ok(sizes),
        None => fail(format!("{what} {values:?} are no sizes")),
    }
}
