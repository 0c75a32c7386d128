//! Grids that are a buffer with a border of zeros (or another number), as those of most convolutions are: lines are
//! copied as they lie.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use crate::dtype::DType;
use crate::plan::{BufferId, Cond, Tape, ValueId};

use super::program::{LoneLoad, distance};
use super::view::{Run, View};

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
    pub(super) fn fill(
        &self,
        (arch, views): (Arch, &[View]),
        (point, start): (usize, usize),
        grid: &mut [u32],
        has_border: bool,
    ) {
        let Side { extent, ref inside, .. } = self.along;
        let (view, base, first) = (&views[self.buffer], self.base(point), start / extent);
        if !has_border {
            for (number, line) in grid.chunks_exact_mut(extent).enumerate() {
                let inside = if self.line(first + number).is_some() { inside.clone() } else { 0..0 };
                line[..inside.start].fill(self.border);
                line[inside.end..].fill(self.border);
            }
        }
        // most grids are planes
        if let [side] = self.across.as_slice() {
            let lines = side.inside.start.max(first)..side.inside.end.min(first + grid.len() / extent);
            if !lines.is_empty() && !inside.is_empty() {
                let source =
                    view.rows(base + side.stride * lines.start as i64, inside.len(), (lines.len(), side.stride));
                let target = &mut grid[(lines.start - first) * extent + inside.start..];
                arch.dispatch(CopyLines { source, target, pitch: extent });
            }
            return;
        }
        for (number, line) in grid.chunks_exact_mut(extent).enumerate() {
            if let Some(at) = self.line(first + number) {
                view.read_run::<u32>(base + at, &mut line[inside.clone()]);
            }
        }
    }

    /// The same of lines of which the points with even numbers come first, then the others.
    pub(super) fn fill_in_pairs(
        &self,
        (arch, views): (Arch, &[View]),
        (point, start): (usize, usize),
        grid: &mut [u32],
        has_border: bool,
    ) {
        let Side { extent, ref inside, .. } = self.along;
        let (view, base, first) = (&views[self.buffer], self.base(point), start / extent);
        for (number, line) in grid.chunks_exact_mut(extent).enumerate() {
            let at = self.line(first + number);
            let (even, odd) = line.split_at_mut(extent.div_ceil(2));
            if !has_border {
                let inside = if at.is_some() { inside.clone() } else { 0..0 };
                for outside in (0..inside.start).chain(inside.end..extent) {
                    let of_pairs = if outside % 2 == 0 { &mut *even } else { &mut *odd };
                    of_pairs[outside / 2] = self.border;
                }
            }
            if let Some(at) = at {
                let words = view.run(base + at, inside.len());
                let (same, other) = if inside.start % 2 == 0 { (even, odd) } else { (odd, even) };
                let targets = [&mut same[inside.start / 2..], &mut other[inside.start.div_ceil(2)..]];
                arch.dispatch(Deal { words: words.words(), targets });
            }
        }
    }

    /// The first element of the lines at fixed point number `point`.
    fn base(&self, point: usize) -> i64 {
        self.offset + distance(point, &self.fixed) + self.along.inside.start as i64
    }

    /// How far the first element of line `number` lies from that of the first one; `None` if the line is all border.
    #[inline]
    fn line(&self, number: usize) -> Option<i64> {
        if self.along.inside.is_empty() {
            return None;
        }
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

/// Copies lines to others `pitch` words apart. They may be so short that a call for each would take longer.
struct CopyLines<'a> {
    source: Run,
    target: &'a mut [u32],
    pitch: usize,
}

impl WithSimd for CopyLines<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { source, target, pitch } = self;
        for (number, target) in target.chunks_mut(pitch).take(source.rows()).enumerate() {
            let source = source.row(number);
            let (vectors, rest) = S::as_simd_u32s(source);
            let (targets, target) = S::as_mut_simd_u32s(&mut target[..source.len()]);
            targets.copy_from_slice(vectors);
            simd.partial_store_u32s(target, simd.partial_load_u32s(rest));
        }
    }
}

/// Deals words to two, one after the other.
struct Deal<'a> {
    words: &'a [u32],
    targets: [&'a mut [u32]; 2],
}

impl WithSimd for Deal<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let [first, second] = self.targets;
        // a step known beforehand becomes shuffles of vectors
        let (pairs, last) = self.words.as_chunks::<2>();
        first.iter_mut().zip(pairs).for_each(|(word, pair)| *word = pair[0]);
        second.iter_mut().zip(pairs).for_each(|(word, pair)| *word = pair[1]);
        first[pairs.len()..][..last.len()].copy_from_slice(last);
    }
}
