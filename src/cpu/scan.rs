//! Cumulative reductions: a block of one row, or of rows that lie side by side, is gone over a strip at a time. Sums of
//! floats are kept in f64.

use pulp::{Simd, WithSimd};

use crate::dtype::DType;
use crate::graph::ReduceOp;
use crate::ops::scan::Scan;
use crate::plan::Routine;

use super::execute::{Env, STRIP};
use super::fold::Fold;
use super::routine::{PIECE, at};

/// Rows side by side that are gone over together, at most.
const ABREAST: usize = 256;

/// Computes what the routine, a scan, writes.
pub(super) fn run(env: &Env<'_>, routine: &Routine, scan: &Scan) {
    let output = &routine.output;
    let lanes = scan.inner.div_ceil(ABREAST);
    let of_block = (scan.block * scan.inner.min(ABREAST)).max(1);
    let blocks = output.elements / (scan.length * scan.inner).max(1) * scan.blocks() * lanes;
    let per_piece = (PIECE / of_block).max(1);
    env.threads.for_each_piece(blocks.div_ceil(per_piece), |piece, scratch| {
        super::scratch::reserve(&mut scratch.partial, 2, STRIP);
        let (sums, values) = scratch.partial.split_at_mut(1);
        for number in piece * per_piece..blocks.min((piece + 1) * per_piece) {
            let (block, first) = (number / lanes, number % lanes * ABREAST);
            let width = ABREAST.min(scan.inner - first);
            let lane = Lane { env, routine, scan, block, first };
            lane.run(&mut sums[0][..width], &mut values[0][..STRIP]);
        }
    });
}

/// Some rows that lie side by side, in one block.
struct Lane<'a> {
    env: &'a Env<'a>,
    routine: &'a Routine,
    scan: &'a Scan,
    /// Its number among all blocks of the rows that lie side by side.
    block: usize,
    /// The first of its rows among those.
    first: usize,
}

impl Lane<'_> {
    /// With memory for a result of each row, and for a strip.
    fn run(&self, sums: &mut [u32], strip: &mut [u32]) {
        let &Self { env, routine: Routine { inputs, output, .. }, scan, block, first } = self;
        let &Scan { op, dtype, length, inner, reverse, .. } = scan;
        let fold = Fold::new(op, dtype);
        match inputs.get(1) {
            Some(before) => env.views[before.buffer].read_run::<u32>(at(before, block * inner + first), sums),
            None => sums.fill(fold.identity),
        }
        let mut wide = [0.0; ABREAST];
        let is_wide = op == ReduceOp::Sum && dtype == DType::F32;
        wide.iter_mut().zip(&*sums).for_each(|(wide, &sum)| *wide = f64::from(f32::from_bits(sum)));

        let (outer, number) = (block / scan.blocks(), block % scan.blocks());
        let (start, width) = (number * scan.block, sums.len());
        let count = scan.block.min(length - start);
        // rows that are all there are lie in one piece
        let step = if width == inner { strip.len() / width } else { 1 };
        for done in (0..count).step_by(step) {
            let step = step.min(count - done);
            let place = start + if reverse { count - done - step } else { done };
            let element = (outer * length + place) * inner + first;
            let values = &mut strip[..step * width];
            env.views[inputs[0].buffer].read_run::<u32>(at(&inputs[0], element), values);
            // of one row the strip is turned over, of several only their order
            let turn = |values: &mut [u32]| {
                if reverse && width == 1 {
                    values.reverse();
                }
            };
            turn(values);
            if is_wide {
                env.arch.dispatch(Sums { sums: &mut wide[..width], values, reverse });
            } else if width == 1 {
                sums[0] = fold.up_to(sums[0], values);
            } else {
                for_each_row(values, width, reverse, |row| {
                    fold.columns(env.arch, sums, row);
                    row.copy_from_slice(sums);
                });
            }
            turn(values);
            env.views[output.buffer].write_run::<u32>(at(output, element), values);
        }
    }
}

/// Calls `join` for one row after the other.
#[inline(always)]
fn for_each_row(values: &mut [u32], width: usize, reverse: bool, join: impl FnMut(&mut [u32])) {
    let rows = values.chunks_exact_mut(width);
    if reverse { rows.rev().for_each(join) } else { rows.for_each(join) }
}

/// `values`, rows of f32, become the sums up to each of them, which begin with `sums`.
struct Sums<'a> {
    sums: &'a mut [f64],
    values: &'a mut [u32],
    reverse: bool,
}

impl WithSimd for Sums<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let Self { sums, values, reverse } = self;
        let width = sums.len();
        if width == 1 {
            sums[0] = up_to(sums[0], values);
            return;
        }
        for_each_row(values, width, reverse, |row| {
            for (sum, value) in sums.iter_mut().zip(row) {
                *sum += f64::from(f32::from_bits(*value));
                *value = (*sum as f32).to_bits();
            }
        });
    }
}

/// The same for one row. Four sums wait for one addition to the one before them, instead of each for its neighbour's.
#[inline(always)]
fn up_to(mut sum: f64, values: &mut [u32]) -> f64 {
    let mut fours = values.chunks_exact_mut(4);
    for four in &mut fours {
        let [a, b, c, d] = [four[0], four[1], four[2], four[3]].map(|value| f64::from(f32::from_bits(value)));
        let (two, rest) = (a + b, c + d);
        let sums = [sum + a, sum + two, sum + (two + c), sum + (two + rest)];
        sum = sums[3];
        four.iter_mut().zip(sums).for_each(|(value, sum)| *value = (sum as f32).to_bits());
    }
    for value in fours.into_remainder() {
        sum += f64::from(f32::from_bits(*value));
        *value = (sum as f32).to_bits();
    }
    sum
}
