//! Shapes, row-major strides, broadcasting: pure functions of integers.

use std::fmt;
use std::ops::Deref;

use smallvec::SmallVec;

use crate::dtype::DType;

/// The most elements of a value in memory, and points along an axis of a kernel: what indices of 32 bits reach.
pub const MAX_ELEMENTS: usize = i32::MAX as usize;

/// The most elements of a value that is never in memory: what is counted of it (elements, operations, bytes) stays
/// within 64 bits.
pub(crate) const MAX_COUNTED: u64 = 1 << 48;

/// The sizes of a tensor's axes.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Shape(SmallVec<[usize; 4]>);

impl Shape {
    /// Number of elements; 1 for rank 0. It saturates, so that no shape passes for a small one.
    pub fn numel(&self) -> usize {
        if self.0.contains(&0) { 0 } else { self.0.iter().fold(1, |numel: usize, &size| numel.saturating_mul(size)) }
    }

    /// Bytes of a value of this shape and type; they saturate, too.
    pub(crate) fn bytes(&self, dtype: DType) -> u64 {
        self.numel().saturating_mul(dtype.size_bytes()) as u64
    }

    /// The shape, which a value in memory can have; `what` is made with it.
    #[track_caller]
    pub(crate) fn in_memory(self, what: &str) -> Self {
        let numel = self.numel();
        assert!(
            numel <= MAX_ELEMENTS,
            "{what}: {self} has {numel} elements, more than the {MAX_ELEMENTS} that indices of 32 bits reach"
        );
        self
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// The sizes.
    pub fn dims(&self) -> &[usize] {
        &self.0
    }

    /// Elements between neighbours along each axis, row-major.
    pub fn strides(&self) -> Vec<usize> {
        let mut strides = vec![1usize; self.0.len()];
        for axis in (1..self.0.len()).rev() {
            // without an element there is no place, whatever the other sizes are
            strides[axis - 1] = strides[axis].wrapping_mul(self.0[axis]);
        }
        strides
    }

    /// The shape both broadcast to: aligned at the last axis, sizes equal or one of them 1.
    pub fn broadcast(&self, other: &Self) -> Option<Self> {
        let rank = self.rank().max(other.rank());
        let size = |shape: &Self, axis: usize| (axis + shape.rank()).checked_sub(rank).map_or(1, |axis| shape.0[axis]);
        (0..rank)
            .map(|axis| match (size(self, axis), size(other, axis)) {
                (a, b) if a == b => Some(a),
                (1, b) => Some(b),
                (a, 1) => Some(a),
                _ => None,
            })
            .collect::<Option<_>>()
            .map(Self)
    }

    /// `axis` counted from the front; negative ones count from the back.
    pub fn axis(&self, axis: isize) -> Option<usize> {
        let rank = self.rank().cast_signed();
        let axis = if axis < 0 { axis + rank } else { axis };
        (0..rank).contains(&axis).then_some(axis.cast_unsigned())
    }
}

impl Deref for Shape {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl FromIterator<usize> for Shape {
    fn from_iter<I: IntoIterator<Item = usize>>(dims: I) -> Self {
        Self(dims.into_iter().collect())
    }
}
impl From<Vec<usize>> for Shape {
    fn from(dims: Vec<usize>) -> Self {
        Self::from(dims.as_slice())
    }
}
impl From<&[usize]> for Shape {
    fn from(dims: &[usize]) -> Self {
        Self(SmallVec::from_slice(dims))
    }
}
impl<const N: usize> From<[usize; N]> for Shape {
    fn from(dims: [usize; N]) -> Self {
        Self::from(dims.as_slice())
    }
}
impl From<usize> for Shape {
    fn from(dim: usize) -> Self {
        Self(SmallVec::from_slice(&[dim]))
    }
}
impl From<&Shape> for Shape {
    fn from(shape: &Shape) -> Self {
        shape.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broadcasting_aligns_at_the_last_axis() {
        let shape = |dims: &[usize]| Shape::from(dims);
        assert_eq!(shape(&[3, 1]).broadcast(&shape(&[2, 1, 4])), Some(shape(&[2, 3, 4])));
        assert_eq!(shape(&[]).broadcast(&shape(&[0])), Some(shape(&[0])));
        assert_eq!(shape(&[0, 1]).broadcast(&shape(&[1])), Some(shape(&[0, 1])));
        assert_eq!(shape(&[2]).broadcast(&shape(&[3])), None);
    }

    #[test]
    fn elements_are_counted_without_wrapping_around() {
        assert_eq!(Shape::from([]).numel(), 1);
        assert_eq!(Shape::from([1 << 32, 1 << 32]).numel(), usize::MAX);
        assert_eq!(Shape::from([1 << 40, 1 << 40, 0]).numel(), 0);
    }

    #[test]
    fn strides_are_row_major() {
        assert_eq!(Shape::from([2, 3, 5]).strides(), [15, 5, 1]);
        assert_eq!(Shape::from([]).strides(), [0; 0]);
    }
}
