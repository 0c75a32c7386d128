//! Reductions over segments: neighbouring positions, or those that sorting has made neighbours.

use std::ops::Range;

use half::f16;

use super::execute::{Env, typed};
use super::fold::Fold;
use super::routine::{PIECE, at};
use super::scratch::reserve;
use crate::dtype::DType;
use crate::graph::Segments;
use crate::plan::Routine;

/// Places, and values of one element, that are read at a time.
const AT_ONCE: usize = 256;

/// Computes what the routine, a reduction over segments of values of a type, writes.
pub(super) fn run(env: &Env<'_>, routine: &Routine, of: Segments, dtype: DType) {
    let Segments { op, width, longest, keys } = of;
    let (starts, output) = (&routine.inputs[1], &routine.output);
    let grouped = Grouped { env, routine, fold: Fold::new(op, dtype), dtype, width, keys };
    let segments = starts.elements - 1;
    let mean = (routine.inputs[0].elements + output.elements) / segments.max(1);
    let per_piece = (PIECE / mean.max(1)).max(1);
    env.threads.for_each_piece(segments.div_ceil(per_piece), |piece, scratch| {
        let first = piece * per_piece;
        let count = per_piece.min(segments - first);
        let bounds = &mut scratch.sorter.keys;
        bounds.resize(count + 1, 0);
        env.views[starts.buffer].read_run::<u32>(at(starts, first), bounds);
        let segments = bounds.windows(2).map(|bounds| {
            let (start, end) = (bounds[0] as usize, bounds[1] as usize);
            start..end.min(start + longest)
        });
        reserve(&mut scratch.partial, 2, width.max(count));
        let (values, sums) = scratch.partial.split_at_mut(1);
        let sums = &mut sums[0];
        if width == 1 {
            grouped.elements(segments, bounds[count] as usize, &mut sums[..count]);
            grouped.write(first, &sums[..count]);
            return;
        }
        for (segment, range) in (first..).zip(segments) {
            grouped.rows(range, &mut sums[..width], &mut values[0][..width]);
            grouped.write(segment, &sums[..width]);
        }
    });
}

/// A reduction over segments.
struct Grouped<'a> {
    env: &'a Env<'a>,
    routine: &'a Routine,
    fold: Fold,
    dtype: DType,
    /// Elements of a row.
    width: usize,
    /// Keys of a row of the pairs.
    keys: usize,
}

impl Grouped<'_> {
    /// Reduces the rows at the positions `range`, one after the other.
    fn rows(&self, range: Range<usize>, sums: &mut [u32], values: &mut [u32]) {
        let span = &self.routine.inputs[0];
        let view = &self.env.views[span.buffer];
        let mut places = [0; AT_ONCE];
        sums.fill(self.fold.identity);
        for start in range.clone().step_by(places.len()) {
            let places = &mut places[..(range.end - start).min(AT_ONCE)];
            self.places(start, places);
            for &place in &*places {
                let first = at(span, place as usize * self.width);
                typed!(view, self.dtype, read_run(first, values));
                self.fold.columns(self.env.arch, sums, values);
            }
        }
    }

    /// Reduces the elements at the positions of each of `segments`, which ascend up to `end`: most have few, so they are
    /// read for several of them.
    fn elements(&self, segments: impl Iterator<Item = Range<usize>>, end: usize, sums: &mut [u32]) {
        let mut values = [0; AT_ONCE];
        let mut read = 0..0;
        for (sum, mut rest) in sums.iter_mut().zip(segments) {
            *sum = self.fold.identity;
            while !rest.is_empty() {
                if !read.contains(&rest.start) {
                    read = rest.start..end.max(rest.end).min(rest.start + AT_ONCE);
                    self.read(read.start, &mut values[..read.len()]);
                }
                let here = rest.start..rest.end.min(read.end);
                *sum = self.fold.in_order(*sum, &values[here.start - read.start..here.end - read.start]);
                rest.start = here.end;
            }
        }
    }

    /// The elements at the positions from `start` on.
    fn read(&self, start: usize, values: &mut [u32]) {
        let span = &self.routine.inputs[0];
        let view = &self.env.views[span.buffer];
        if self.routine.inputs.len() < 3 {
            typed!(view, self.dtype, read_run(at(span, start), values));
            return;
        }
        let mut elements = [0; AT_ONCE];
        let elements = &mut elements[..values.len()];
        self.places(start, values);
        elements.iter_mut().zip(&*values).for_each(|(element, &place)| *element = at(span, place as usize));
        typed!(view, self.dtype, read_at(elements, -1, values));
    }

    /// The rows at the positions from `start` on.
    fn places(&self, start: usize, places: &mut [u32]) {
        let numbers = places.iter_mut().zip(start..);
        let Some(pairs) = self.routine.inputs.get(2) else {
            return numbers.for_each(|(place, p)| *place = p as u32);
        };
        self.env.views[pairs.buffer].read_run::<u32>(at(pairs, pairs.elements / 2 + start), places);
        if pairs.elements > 2 * self.keys {
            let numbers = places.iter_mut().zip(start..);
            numbers.for_each(|(place, p)| *place += (p - p % self.keys) as u32);
        }
    }

    /// Writes results from those of `segment` on.
    fn write(&self, segment: usize, sums: &[u32]) {
        let output = &self.routine.output;
        let view = &self.env.views[output.buffer];
        typed!(view, self.dtype, write_run(at(output, segment * self.width), sums));
    }
}
