//! Places in memory.

use crate::plan::index::Ix;
use crate::plan::kernel::BufferId;
use crate::shape::Shape;

/// Where a node's value lies in memory, and in which order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::plan) struct Home {
    pub buffer: BufferId,
    pub offset: usize,
    /// Elements between neighbours along each axis: the physical layout, which the planner chooses.
    pub strides: Vec<i64>,
}

impl Home {
    /// Row-major from element `offset` on.
    pub(in crate::plan) fn row_major(buffer: BufferId, offset: usize, shape: &Shape) -> Self {
        Self { buffer, offset, strides: shape.strides().into_iter().map(|stride| stride as i64).collect() }
    }

    /// The element at `coords`.
    pub(super) fn index(&self, coords: &[Ix]) -> Ix {
        let start = Ix::constant(self.offset as i64);
        coords.iter().zip(&self.strides).fold(start, |sum, (coord, &stride)| sum.plus(&coord.times(stride)))
    }
}
