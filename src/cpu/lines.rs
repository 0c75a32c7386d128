//! Planes of which each has one filter, several lines at a time.
//!
//! Where filters move from line to line of a grid, a vector of it belongs to as many results below each other as the
//! filter has lines. Loads that are not aligned take longer than multiplications; so each vector is loaded once for all
//! of them.
#![expect(unsafe_code, reason = "distances into a grid are checked together, not each of them")]

use pulp::{Simd, WithSimd};

use super::lanes::{Lanes, load_each, store};
use super::micro::each;

/// Lines of results that are computed together.
const LINES: usize = 4;
/// Lines that a filter may have: each number is a kernel of its own.
const HEIGHTS: [usize; 3] = [3, 5, 7];

/// How vectors and taps lie in lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines {
    /// Vectors of a line of results.
    vectors: usize,
    /// Words of the grid from a line to the next.
    step: u32,
    /// Lines of the filter.
    height: usize,
}

impl Lines {
    /// For the vectors of so many places, and a filter with `taps`; `None` if they do not lie in lines of the same grid.
    pub(super) fn new(lanes: &Lanes, places: usize, taps: &[u32]) -> Option<Self> {
        let (vectors, at) = (lanes.vectors_of_line()?, lanes.at(places));
        let step = at.get(vectors)?.checked_sub(at[0])?;
        let is_shifted = |later: &[u32], first: &[u32], lines: usize| {
            later.iter().zip(first).all(|(&later, &first)| later == first + lines as u32 * step)
        };
        let in_lines = |at: &[u32], len: usize| {
            at.len().is_multiple_of(len)
                && at.chunks_exact(len).enumerate().all(|(number, line)| is_shifted(line, &at[..len], number))
        };
        let fits = |&height: &usize| taps.len().is_multiple_of(height) && in_lines(taps, taps.len() / height);
        let height = HEIGHTS.into_iter().rev().find(fits)?;
        in_lines(at, vectors).then_some(Self { vectors, step, height })
    }

    /// True if the first `vectors` vectors, which end with a line, are enough to be computed so.
    pub(super) fn fill_tile(&self, vectors: usize) -> bool {
        vectors >= LINES * self.vectors
    }
}

/// `results[to[v]..] = sum of the vectors at grid[at[v] + taps[t]]` times the weight of tap t, in the order of taps.
///
/// Written in order of lines, as [`PlaneBlock`](super::lanes::PlaneBlock) does.
pub(super) struct LinesBlock<'a> {
    pub(super) lines: Lines,
    pub(super) grid: &'a [u32],
    pub(super) at: &'a [u32],
    pub(super) to: &'a [u32],
    pub(super) taps: &'a [u32],
    pub(super) weights: &'a [u32],
    /// With room for a vector from the last place on.
    pub(super) results: &'a mut [u32],
}

impl WithSimd for LinesBlock<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match (self.lines.height, self.lines.vectors) {
            (3, 1) => self.with_tile::<S, 3, 1>(simd),
            (3, _) => self.with_tile::<S, 3, 2>(simd),
            (5, 1) => self.with_tile::<S, 5, 1>(simd),
            (5, _) => self.with_tile::<S, 5, 2>(simd),
            (7, 1) => self.with_tile::<S, 7, 1>(simd),
            _ => self.with_tile::<S, 7, 2>(simd),
        }
    }
}

impl LinesBlock<'_> {
    #[inline(always)]
    fn with_tile<S: Simd, const HEIGHT: usize, const WIDE: usize>(self, simd: S) {
        let Self { lines: Lines { vectors, step, height }, grid, at, to, taps, weights, results } = self;
        assert!(height == HEIGHT && weights.len() == taps.len(), "{} weights for {} taps", weights.len(), taps.len());
        let (columns, step) = (&taps[..taps.len() / HEIGHT], step as usize);
        // The last lines are computed with those before them, once more.
        let last = (at.len() / vectors).checked_sub(LINES).expect("lines that fill a tile");
        let farthest = |at: &[u32]| at.iter().copied().max().unwrap_or(0) as usize;
        let reach = farthest(&at[..(last + 1) * vectors]) + (LINES + HEIGHT - 2) * step + farthest(columns);
        assert!(reach + S::F32_LANES <= grid.len(), "windows reach beyond their grid");
        let grid = bytemuck::cast_slice::<u32, f32>(grid).as_ptr();
        let weights = bytemuck::cast_slice(weights);
        let results: &mut [f32] = bytemuck::cast_slice_mut(results);
        for line in (0..=last).step_by(LINES).chain((!last.is_multiple_of(LINES)).then_some(last)) {
            let (at, to) = (&at[line * vectors..], &to[line * vectors..]);
            for first in (0..vectors).step_by(WIDE) {
                // Vectors behind the last one of a line repeat it.
                let number = |v: usize| (first + v).min(vectors - 1);
                let starts: [*const f32; WIDE] = each(|v| grid.wrapping_add(at[number(v)] as usize));
                let mut tile = [[simd.splat_f32s(0.0); WIDE]; LINES];
                macro_rules! each_line {
                    ($($line:literal)*) => {
                        $(if $line < LINES + HEIGHT - 1 {
                            let starts = each(|v| starts[v].wrapping_add($line * step));
                            // SAFETY: the last line's farthest vector was checked to lie in the grid.
                            unsafe { add_line::<S, HEIGHT, WIDE, $line>(simd, starts, (columns, weights), &mut tile) };
                        })*
                    };
                }
                const { assert!(LINES + HEIGHT - 1 <= 10, "a line is not listed") };
                each_line!(0 1 2 3 4 5 6 7 8 9);
                for (number_of_line, sums) in tile.into_iter().enumerate() {
                    for (v, sum) in sums.into_iter().enumerate() {
                        store::<S>(&mut results[to[number_of_line * vectors + number(v)] as usize..], sum);
                    }
                }
            }
        }
    }
}

/// Adds what line `LINE` of the grid, which begins at `starts`, gives to the lines of results. These see it as different
/// lines of the filter.
///
/// # Safety
/// A vector at each start and column lies in one allocation.
#[inline(always)]
unsafe fn add_line<S: Simd, const HEIGHT: usize, const WIDE: usize, const LINE: usize>(
    simd: S,
    starts: [*const f32; WIDE],
    (columns, weights): (&[u32], &[f32]),
    tile: &mut [[S::f32s; WIDE]; LINES],
) {
    let sees = |number: usize| (number..number + HEIGHT).contains(&LINE);
    let filters: [&[f32]; LINES] = each(|number| {
        let line = if sees(number) { LINE - number } else { 0 };
        &weights[line * columns.len()..][..columns.len()]
    });
    for (column, &distance) in columns.iter().enumerate() {
        // SAFETY: the caller's promise.
        let windows = unsafe { load_each::<S, WIDE>(starts, distance) };
        for (number, sums) in tile.iter_mut().enumerate() {
            if sees(number) {
                let weight = simd.splat_f32s(filters[number][column]);
                for (sum, &window) in sums.iter_mut().zip(&windows) {
                    *sum = simd.mul_add_e_f32s(weight, window, *sum);
                }
            }
        }
    }
}
