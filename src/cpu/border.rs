//! Grids that are a buffer with a border of zeros (or another number), as those of most convolutions are: lines are
//! copied as they lie.

use std::ops::Range;

use crate::dtype::DType;
use crate::plan::{BufferId, Cond, Tape, ValueId};

use super::program::{LoneLoad, distance};
use super::view::View;

/// What a grid shows.
#[derive(Debug)]
pub(super) struct Bordered {
    buffer: BufferId,
    /// The element at the first point of all axes.
    offset: i64,
    /// Size and stride of the axes that are not the grid's own.
    fixed: Vec<(usize, i64)>,
    /// The grid's axes but for the last one.
    across: Vec<Side>,
    along: Side,
    /// The bits of the border's number.
    border: u32,
}

/// An axis of a grid.
#[derive(Clone, Debug)]
struct Side {
    extent: usize,
    stride: i64,
    /// Where there are elements; elsewhere is the border.
    inside: Range<usize>,
}

/// Where along `axis` a condition on that axis alone holds, if that is one piece.
fn piece(condition: &Cond, axes: &[usize], axis: usize) -> Option<Range<usize>> {
    let mut point = vec![0; axes.len()];
    let mut holds = (0..axes[axis]).filter(|&coord| {
        point[axis] = coord;
        condition.holds(&point)
    });
    let Some(first) = holds.next() else { return Some(0..0) };
    let (mut end, mut whole) = (first + 1, true);
    for coord in holds {
        whole &= coord == end;
        end = coord + 1;
    }
    whole.then_some(first..end)
}

impl Bordered {
    /// The grid over `walked` axes at points of the `fixed` ones; `None` if it is not of this kind.
    pub(super) fn new(
        axes: &[usize],
        (fixed, walked): (&[usize], &[usize]),
        operand: (&Tape, ValueId),
        dtypes: &[DType],
    ) -> Option<Self> {
        let LoneLoad { buffer, strides, offset, valid, elsewhere } = LoneLoad::new(operand, axes.len(), dtypes)?;
        let side = |&axis: &usize| Side { extent: axes[axis], stride: strides[axis], inside: 0..axes[axis] };
        let mut sides: Vec<Side> = walked.iter().map(side).collect();
        for condition in valid {
            let mut on = (0..axes.len()).filter(|&axis| axes[axis] > 1 && condition.value().uses(axis));
            let (axis, None) = (on.next()?, on.next()) else { return None };
            let inside = &mut sides[walked.iter().position(|&walked| walked == axis)?].inside;
            let holds = piece(condition, axes, axis)?;
            *inside = inside.start.max(holds.start)..inside.end.min(holds.end);
        }
        let along = sides.pop()?;
        let fixed = fixed.iter().map(|&axis| (axes[axis], strides[axis])).collect();
        // Blocks of a single axis are parts of a line.
        let is_of_lines = along.stride == 1 && !sides.is_empty();
        is_of_lines.then_some(Self { buffer, offset, fixed, across: sides, along, border: elsewhere })
    }

    /// Fills `grid`, whole lines, from word `start` on, at fixed point number `point`. If it `has_border`, which is that
    /// of all fixed points, only what lies inside is written.
    pub(super) fn fill(&self, views: &[View], (point, start): (usize, usize), grid: &mut [u32], has_border: bool) {
        let view = &views[self.buffer];
        let Side { extent, ref inside, .. } = self.along;
        let base = self.offset + distance(point, &self.fixed) + inside.start as i64;
        let first = start / extent;
        for (number, line) in grid.chunks_exact_mut(extent).enumerate() {
            let at = self.line(first + number);
            if !has_border {
                let inside = if at.is_some() { inside.clone() } else { 0..0 };
                line[..inside.start].fill(self.border);
                line[inside.end..].fill(self.border);
            }
            if let Some(at) = at {
                view.read_run::<u32>(base + at, &mut line[inside.clone()]);
            }
        }
    }

    /// How far the first element of line `number` lies from that of the first one; `None` if the line is all border.
    #[inline]
    fn line(&self, number: usize) -> Option<i64> {
        if self.along.inside.is_empty() {
            return None;
        }
        // most grids are planes
        if let [side] = self.across.as_slice() {
            return side.inside.contains(&number).then_some(side.stride * number as i64);
        }
        let (mut rest, mut at) = (number, 0);
        for side in self.across.iter().rev() {
            let coord = rest % side.extent;
            rest /= side.extent;
            at += side.stride * coord as i64;
            if !side.inside.contains(&coord) {
                return None;
            }
        }
        Some(at)
    }
}
