//! Windows that lie next to each other as the lanes of vectors.
//!
//! The micro-kernel for windows has the other operand's own points as lanes: few filters leave most of them empty, and
//! its sums lie places by filters where results lie filters by places. Where the places of a line are neighbours in the
//! grid, the places are the lanes instead: a vector of them at each distance is one load, and sums lie as they are
//! stored. If the places are summed, each lane has a sum of its own, and these are joined at the end.
#![expect(unsafe_code, reason = "distances into a grid are checked together, not each of them")]

use pulp::{Arch, Simd, WithSimd};

use crate::dtype::DType;
use crate::graph::ReduceOp;

use super::fold::{larger, smaller};
use super::micro::{each, lanes_of};
use super::words::Words;

/// Neighbouring places that are neighbouring lanes of a vector.
#[derive(Clone, Copy, Debug)]
struct Run {
    vector: usize,
    lane: usize,
    place: usize,
    count: usize,
}

/// The vectors that cover a block's places.
#[derive(Debug)]
pub(super) struct Lanes {
    lanes: usize,
    /// Which places the vectors stand for, in order.
    runs: Vec<Run>,
    /// Distances of the vectors' first lanes.
    at: Vec<u32>,
    /// The first place that each vector stands for.
    first: Vec<u32>,
    /// The places of the vectors' first lanes, and how many vectors each line has, if vectors are parts of lines.
    to: Option<(Vec<u32>, usize)>,
    /// True if vectors stand for all their lanes, one after the other.
    whole: bool,
}

/// Of the vectors that lines of their own need, how many may cover the same places across lines to be used instead:
/// what lies between the lines has to be left out again.
const MAX_ACROSS: f64 = 0.8;

/// A share of the lanes that are used, at best 1.
fn share(used: usize, computed: usize) -> f64 {
    used as f64 / computed.max(1) as f64
}

impl Lanes {
    /// For places at these distances, of which `line` each are neighbours. If the places are summed, no lane may be a
    /// stranger's.
    pub(super) fn new(arch: Arch, places: &[u32], line: usize, summed: bool) -> Option<Self> {
        let lanes = lanes_of(arch);
        let neighbours = |line: &[u32]| line.windows(2).all(|pair| pair[1] == pair[0] + 1);
        if line == 0 || summed && line < lanes || !places.chunks(line).all(neighbours) {
            return None;
        }
        let of_lines = Self::of_lines(lanes, places, line);
        let ascends = || places.windows(2).all(|pair| pair[0] < pair[1]);
        let across = (!summed && line < 2 * lanes && ascends()).then(|| Self::across_lines(lanes, places));
        let pays = |across: &Self| across.at.len() as f64 <= MAX_ACROSS * of_lines.at.len() as f64;
        Some(across.filter(pays).unwrap_or(of_lines))
    }

    /// With vectors that are parts of lines.
    fn of_lines(lanes: usize, places: &[u32], line: usize) -> Self {
        let (mut runs, mut at, mut first, mut to) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (number, distances) in places.chunks(line).enumerate() {
            for begin in (0..distances.len()).step_by(lanes) {
                // The last vector of a line lies over the one before it.
                let start = if distances.len() < lanes { 0 } else { begin.min(distances.len() - lanes) };
                let (place, count) = (number * line + begin, lanes.min(distances.len() - begin));
                runs.push(Run { vector: at.len(), lane: begin - start, place, count });
                at.push(distances[start]);
                first.push(place as u32);
                to.push((number * line + start) as u32);
            }
        }
        let whole = runs.iter().all(|run| run.count == lanes);
        Self { lanes, runs, at, first, to: Some((to, line.div_ceil(lanes))), whole }
    }

    /// With as few vectors as there can be, each from the first place on that those before it do not reach, whatever
    /// lies between lines.
    fn across_lines(lanes: usize, places: &[u32]) -> Self {
        let (mut runs, mut at, mut first): (Vec<Run>, Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new(), Vec::new());
        for (place, &distance) in places.iter().enumerate() {
            if at.last().is_none_or(|&start| distance >= start + lanes as u32) {
                at.push(distance);
                first.push(place as u32);
            }
            let (vector, lane) = (at.len() - 1, (distance - at[at.len() - 1]) as usize);
            match runs.last_mut() {
                Some(run) if run.vector == vector && run.lane + run.count == lane => run.count += 1,
                _ => runs.push(Run { vector, lane, place, count: 1 }),
            }
        }
        Self { lanes, runs, at, first, to: None, whole: false }
    }

    /// The share of computed sums that are used.
    pub(super) fn share(&self, height: Height, rows: usize) -> f64 {
        let places = self.runs.iter().map(|run| run.count).sum();
        share(places, self.at.len() * self.lanes) * share(rows, rows.next_multiple_of(height.0))
    }

    /// Words beside the farthest place that a vector may reach.
    pub(super) fn margin(&self) -> usize {
        self.lanes
    }

    /// Where the first lanes of the vectors for the first `places` places are, which end with a line.
    pub(super) fn at(&self, places: usize) -> &[u32] {
        &self.at[..self.count(places)]
    }

    /// Which of the first `places` places the vectors begin with, if whole vectors can be written there in order.
    pub(super) fn to(&self, places: usize) -> Option<&[u32]> {
        Some(&self.to.as_ref()?.0[..self.count(places)])
    }

    /// How many vectors each line has, if they are parts of lines.
    pub(super) fn vectors_of_line(&self) -> Option<usize> {
        self.to.as_ref().map(|&(_, vectors)| vectors)
    }

    fn count(&self, places: usize) -> usize {
        self.first.partition_point(|&first| (first as usize) < places)
    }

    /// The runs of the first `places` places.
    fn runs(&self, places: usize) -> impl Iterator<Item = Run> {
        let runs = self.runs.iter().take_while(move |run| run.place < places);
        runs.map(move |run| Run { count: run.count.min(places - run.place), ..*run })
    }

    /// Words of a line of `places` places that is spread over whole vectors.
    pub(super) fn spread_len(&self, places: usize) -> usize {
        self.count(places) * self.lanes
    }

    /// Words for each place as lanes of vectors, zeros in lanes that another vector stands for. What lies in whole
    /// vectors does so already.
    pub(super) fn spread(&self, lines: &mut Words, scratch: &mut Words, (rows, places): (usize, usize)) {
        if self.whole {
            return;
        }
        let wide = self.spread_len(places);
        scratch.reserve(rows * wide);
        for (line, target) in lines.chunks_exact(places).zip(scratch.chunks_exact_mut(wide)).take(rows) {
            target.fill(0);
            for run in self.runs(places) {
                let words = &line[run.place..run.place + run.count];
                target[run.vector * self.lanes + run.lane..][..run.count].copy_from_slice(words);
            }
        }
        std::mem::swap(lines, scratch);
    }

    /// Sums of whole vectors as sums of places, without gaps.
    pub(super) fn gather(&self, sums: &mut [u32], (rows, places): (usize, usize)) {
        let wide = self.spread_len(places);
        // the last block may be shorter than whole vectors, though the others are not
        if self.whole && wide == places {
            return;
        }
        for row in 0..rows {
            for run in self.runs(places) {
                // Never behind where it is read: rows and vectors before it have lost lanes, not won any.
                let from = row * wide + run.vector * self.lanes + run.lane;
                sums.copy_within(from..from + run.count, row * places + run.place);
            }
        }
    }

    /// Writes results of whole vectors as those of places, without gaps.
    pub(super) fn gather_into(&self, vectors: &[u32], results: &mut [u32]) {
        for run in self.runs(results.len()) {
            let words = &vectors[run.vector * self.lanes + run.lane..][..run.count];
            results[run.place..run.place + run.count].copy_from_slice(words);
        }
    }
}

/// Rows that a micro-kernel works on together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Height(pub(super) usize);

impl Height {
    pub(super) const ONE: Self = Self(1);

    fn least_waste(heights: &[usize], rows: usize) -> Self {
        Self(heights.iter().copied().min_by_key(|&height| rows.next_multiple_of(height)).unwrap_or(1))
    }

    /// For [`PlacesBlock`].
    pub(super) fn of_places(arch: Arch, rows: usize) -> Self {
        match rows {
            // each filter has channels of its own
            ..=2 => Self(rows.max(1)),
            _ if lanes_of(arch) >= 16 => Self::least_waste(&[8, 6, 4], rows),
            // four rows leave a quarter of the registers unused
            _ if 8 * rows.next_multiple_of(6) <= 9 * rows.next_multiple_of(4) => Self(6),
            _ => Self(4),
        }
    }

    /// For [`SumsBlock`].
    pub(super) fn of_sums(arch: Arch, rows: usize) -> Self {
        match rows {
            ..=1 => Self(1),
            _ => Self::least_waste(if lanes_of(arch) >= 16 { &[4, 6] } else { &[4, 2] }, rows),
        }
    }
}

/// The vector at `at`, aligned or not.
///
/// # Safety
/// The whole of it lies in one allocation.
#[inline(always)]
unsafe fn load_at<S: Simd>(at: *const f32) -> S::f32s {
    // SAFETY: the caller's promise.
    unsafe { at.cast::<S::f32s>().read_unaligned() }
}

/// The vectors at this distance from `starts`.
///
/// # Safety
/// The whole of each lies in one allocation.
#[inline(always)]
pub(super) unsafe fn load_each<S: Simd, const N: usize>(starts: [*const f32; N], distance: u32) -> [S::f32s; N] {
    // SAFETY: the caller's promise.
    each(|number| unsafe { load_at::<S>(starts[number].wrapping_add(distance as usize)) })
}

/// The vector that `words` begins with.
#[inline(always)]
pub(super) fn load<S: Simd>(words: &[f32]) -> S::f32s {
    S::as_simd_f32s(&words[..S::F32_LANES]).0[0]
}

/// Writes the vector that `words` begins with.
#[inline(always)]
pub(super) fn store<S: Simd>(words: &mut [f32], vector: S::f32s) {
    S::as_mut_simd_f32s(&mut words[..S::F32_LANES]).0[0] = vector;
}

/// The vectors' places and the distances of the other points, checked against the grid.
fn checked<'a, S: Simd>(grid: &'a [u32], at: &[u32], others: &[u32]) -> &'a [f32] {
    let farthest = |at: &[u32]| at.iter().copied().max().unwrap_or(0) as usize;
    assert!(farthest(at) + farthest(others) + S::F32_LANES <= grid.len(), "windows reach beyond their grid");
    bytemuck::cast_slice(grid)
}

/// `sums += rows · windows`, where windows at the places of vector v and summed point k are the vector at
/// `grid[at[v] + summed[k]]`.
pub(super) struct PlacesBlock<'a> {
    pub(super) grid: &'a [u32],
    pub(super) at: &'a [u32],
    pub(super) summed: &'a [u32],
    /// `[panel][k][height]`
    pub(super) rows: &'a [u32],
    /// Words from one panel to the next.
    pub(super) panel: usize,
    /// Row-major, a whole number of vectors in each row; rows are a whole number of panels.
    pub(super) sums: &'a mut [u32],
    pub(super) height: Height,
}

impl WithSimd for PlacesBlock<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match (self.height.0, S::F32_LANES >= 16) {
            (8, _) => self.with_tile::<S, 8, 3>(simd),
            (6, true) => self.with_tile::<S, 6, 4>(simd),
            (6, false) => self.with_tile::<S, 6, 2>(simd),
            (1, _) => self.with_tile::<S, 1, 8>(simd),
            (2, _) => self.with_tile::<S, 2, 4>(simd),
            (_, true) => self.with_tile::<S, 4, 6>(simd),
            (_, false) => self.with_tile::<S, 4, 2>(simd),
        }
    }
}

impl PlacesBlock<'_> {
    #[inline(always)]
    fn with_tile<S: Simd, const ROWS: usize, const WIDE: usize>(self, simd: S) {
        let Self { grid, at, summed, rows, panel, sums, height } = self;
        assert_eq!(height.0, ROWS, "the tile is this machine's");
        let grid = checked::<S>(grid, at, summed);
        let stride = at.len() * S::F32_LANES;
        let panels = sums.len() / (ROWS * stride);
        assert!(panels == 0 || (panels - 1) * panel + summed.len() * ROWS <= rows.len(), "a panel of rows is missing");
        // The windows of a tile stay in the first-level cache, and panels come one after the other.
        for (number, at) in at.chunks(WIDE).enumerate() {
            // Vectors behind the last one repeat it.
            let starts: [*const f32; WIDE] = each(|v| grid.as_ptr().wrapping_add(at[v.min(at.len() - 1)] as usize));
            for (panel, sums) in rows.chunks(panel).zip(sums.chunks_exact_mut(ROWS * stride)) {
                let (panel, _) = bytemuck::cast_slice::<u32, f32>(panel).as_chunks::<ROWS>();
                let mut tile = [[simd.splat_f32s(0.0); WIDE]; ROWS];
                for (&distance, panel) in summed.iter().zip(panel) {
                    // SAFETY: the farthest vector at the farthest distance was checked to lie in the grid.
                    let windows = unsafe { load_each::<S, WIDE>(starts, distance) };
                    for (sums, &weight) in tile.iter_mut().zip(panel) {
                        let weight = simd.splat_f32s(weight);
                        for (sum, &window) in sums.iter_mut().zip(&windows) {
                            *sum = simd.mul_add_e_f32s(weight, window, *sum);
                        }
                    }
                }
                for (sums, tile) in sums.chunks_exact_mut(stride).zip(tile) {
                    let sums = &mut sums[number * WIDE * S::F32_LANES..];
                    let (sums, _) = S::as_mut_simd_f32s(bytemuck::cast_slice_mut::<u32, f32>(sums));
                    for (sum, new) in sums.iter_mut().zip(&tile[..at.len()]) {
                        *sum = simd.add_f32s(*sum, *new);
                    }
                }
            }
        }
    }
}

/// `sums += lines · windows`, summed over places: windows of tap t at the places of vector v are the vector at
/// `grid[at[v] + taps[t]]`.
pub(super) struct SumsBlock<'a> {
    pub(super) grid: &'a [u32],
    pub(super) at: &'a [u32],
    pub(super) taps: &'a [u32],
    /// Row-major, as vectors.
    pub(super) lines: &'a [u32],
    /// Row-major, as many rows as `lines`, without gaps.
    pub(super) sums: &'a mut [u32],
    pub(super) height: Height,
}

impl WithSimd for SumsBlock<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match (self.height.0, S::F32_LANES >= 16) {
            (6, _) => self.with_tile::<S, 6, 4>(simd),
            (1, _) => self.with_tile::<S, 1, 9>(simd),
            (_, true) => self.with_tile::<S, 4, 6>(simd),
            (4, false) => self.with_tile::<S, 4, 3>(simd),
            (_, false) => self.with_tile::<S, 2, 4>(simd),
        }
    }
}

impl SumsBlock<'_> {
    #[inline(always)]
    fn with_tile<S: Simd, const ROWS: usize, const TAPS: usize>(self, simd: S) {
        let Self { grid, at, taps: all_taps, lines, sums, height } = self;
        assert_eq!(height.0, ROWS, "the tile is this machine's");
        let grid = checked::<S>(grid, at, all_taps);
        let (lines, _) = S::as_simd_f32s(bytemuck::cast_slice(lines));
        for (lines, sums) in lines.chunks(ROWS * at.len()).zip(sums.chunks_mut(ROWS * all_taps.len())) {
            // Rows and taps behind the last ones repeat it.
            let last = lines.len() / at.len() - 1;
            let rows: [&[S::f32s]; ROWS] = each(|row| &lines[row.min(last) * at.len()..][..at.len()]);
            for (number, taps) in all_taps.chunks(TAPS).enumerate() {
                let starts: [*const f32; TAPS] =
                    each(|tap| grid.as_ptr().wrapping_add(taps[tap.min(taps.len() - 1)] as usize));
                let mut tile = [[simd.splat_f32s(0.0); TAPS]; ROWS];
                for (v, &at) in at.iter().enumerate() {
                    // SAFETY: the farthest vector at the farthest distance was checked to lie in the grid.
                    let windows = unsafe { load_each::<S, TAPS>(starts, at) };
                    for (sums, row) in tile.iter_mut().zip(rows) {
                        for (sum, &window) in sums.iter_mut().zip(&windows) {
                            *sum = simd.mul_add_e_f32s(row[v], window, *sum);
                        }
                    }
                }
                for (sums, tile) in sums.chunks_exact_mut(all_taps.len()).zip(tile) {
                    let sums = bytemuck::cast_slice_mut::<u32, f32>(&mut sums[number * TAPS..]);
                    for (sum, lanes) in sums.iter_mut().zip(&tile[..taps.len()]) {
                        *sum += simd.reduce_sum_f32s(*lanes);
                    }
                }
            }
        }
    }
}

/// `results[to(v)..] = join of the vectors at grid[at[v] + taps[t]]` over all taps, each times its weight if there are
/// any.
///
/// Vectors are written in order, and each has the whole of its lanes: those that stand for places of others, of the
/// same line or of lines behind, are the same there or are written again; those behind the last place mean nothing.
pub(super) struct PlaneBlock<'a> {
    pub(super) grid: &'a [u32],
    pub(super) at: &'a [u32],
    /// Where the vectors go; one after the other if nothing is said.
    pub(super) to: Option<&'a [u32]>,
    pub(super) taps: &'a [u32],
    pub(super) how: Join<'a>,
    /// With room for a vector from the last place on.
    pub(super) results: &'a mut [u32],
}

/// What becomes of the points of a window.
#[derive(Clone, Copy)]
pub(super) enum Join<'a> {
    Reduce(ReduceOp),
    /// Summed with these weights.
    Weigh(&'a [u32]),
}

impl WithSimd for PlaneBlock<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let zero = simd.splat_f32s(0.0);
        match self.how {
            Join::Weigh(weights) => {
                let weights: &[f32] = bytemuck::cast_slice(weights);
                let weigh = |tap: usize| {
                    let weight = simd.splat_f32s(weights[tap]);
                    move |sum, window| simd.mul_add_e_f32s(weight, window, sum)
                };
                // vectors behind the last one are computed, too
                match self.at.len() {
                    ..=2 => self.joined::<S, 2, _>(zero, weigh),
                    3..=4 => self.joined::<S, 4, _>(zero, weigh),
                    5 => self.joined::<S, 5, _>(zero, weigh),
                    6..=7 => self.joined::<S, 7, _>(zero, weigh),
                    _ => self.joined::<S, 8, _>(zero, weigh),
                }
            }
            Join::Reduce(op) => {
                let identity = simd.splat_f32s(op.identity(DType::F32).to_f64() as f32);
                match op {
                    ReduceOp::Max => self.joined::<S, 4, _>(identity, |_| |a, b| larger(simd, a, b)),
                    ReduceOp::Min => self.joined::<S, 4, _>(identity, |_| |a, b| smaller(simd, a, b)),
                    ReduceOp::Sum => self.joined::<S, 8, _>(identity, |_| |a, b| simd.add_f32s(a, b)),
                    ReduceOp::Prod => self.joined::<S, 8, _>(identity, |_| |a, b| simd.mul_f32s(a, b)),
                }
            }
        }
    }
}

impl PlaneBlock<'_> {
    #[inline(always)]
    fn joined<S: Simd, const WIDE: usize, F: Fn(S::f32s, S::f32s) -> S::f32s>(
        self,
        start: S::f32s,
        join: impl Fn(usize) -> F,
    ) {
        let Self { grid, at, to, taps, results, .. } = self;
        let grid = checked::<S>(grid, at, taps);
        let results: &mut [f32] = bytemuck::cast_slice_mut(results);
        for (number, at) in at.chunks(WIDE).enumerate() {
            // Vectors behind the last one repeat it.
            let starts: [*const f32; WIDE] = each(|v| grid.as_ptr().wrapping_add(at[v.min(at.len() - 1)] as usize));
            let mut joined = [start; WIDE];
            for (tap, &distance) in taps.iter().enumerate() {
                let join = join(tap);
                for (joined, start) in joined.iter_mut().zip(starts) {
                    // SAFETY: the farthest vector at the farthest distance was checked to lie in the grid.
                    *joined = join(*joined, unsafe { load_at::<S>(start.wrapping_add(distance as usize)) });
                }
            }
            for (vector, joined) in (number * WIDE..).zip(joined).take(at.len()) {
                let place = to.map_or(vector * S::F32_LANES, |to| to[vector] as usize);
                store::<S>(&mut results[place..], joined);
            }
        }
    }
}
