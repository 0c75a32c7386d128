//! Convolutions of 3x3 windows by Winograd's F(2x2, 3x3): 16 multiplications for four results instead of 36
//! (Lavin and Gray, arXiv 1509.09308).
//!
//! A tile is 4x4 points of the grid, which give 2x2 results. The grid is split by the parity of lines and columns, so
//! that what a transform reads for neighbouring tiles lies next to each other, whatever the width: tiles are lanes of
//! vectors. Behind each line of tiles there is one of no meaning. Sums of the input's transform over channels are
//! products of matrices.

use pulp::{Arch, Simd, WithSimd};

use super::lanes::{Height, PlacesBlock, load, store};
use super::micro::lanes_of;
use super::prepack::Layout;
use super::words::Words;

/// Points of a transformed tile.
const POINTS: usize = 16;
/// Channels, filters, columns and places from which on this is faster than summing over windows: for few places it is
/// too much to transform the weights.
const LEAST: [usize; 4] = [32, 16, 16, 1024];
/// Words of a block's transformed input: half of a second-level cache of a megabyte.
const MAX_WORDS: usize = 128 << 10;
/// Panels of weights that are multiplied with a point's input while it is in the first-level cache.
const PANELS: usize = 4;

/// A block of a grid of 3x3 windows.
#[derive(Debug)]
pub(super) struct Winograd {
    lanes: usize,
    channels: usize,
    /// Places of an image, or of a part of it: lines and columns.
    lines: usize,
    columns: usize,
    /// Which summed point of a channel is at line i and column j of a window.
    taps: [[usize; 3]; 3],
    /// Words from one channel to the next.
    stride: usize,
    /// Where the vectors of tiles and the channels of a point lie.
    at: Vec<u32>,
    summed: Vec<u32>,
    pub(super) height: Height,
}

/// What a thread needs.
#[derive(Default)]
pub(super) struct Work {
    /// The four parts of a channel's grid.
    parts: Words,
    /// `[point][channel][tile]`
    input: Words,
    /// `[point][row][tile]`
    sums: Words,
    /// `[line][column][tile]` of a row's results
    results: Words,
}

/// Places of a block whose transformed input stays in cache.
pub(super) fn most_places(channels: usize) -> usize {
    MAX_WORDS / (POINTS / 4 * channels)
}

/// Places of a block of [`Winograd`].
pub(super) struct Places {
    pub(super) lead: usize,
    pub(super) lines: usize,
    pub(super) columns: usize,
}

impl Winograd {
    /// True if it is worth it for so many channels, filters, columns and places.
    pub(super) fn pays(sizes: [usize; 4]) -> bool {
        sizes.iter().zip(LEAST).all(|(&size, least)| size >= least)
    }

    /// For windows whose points are at these distances in a grid of `pitch` words a line; `None` if they are not 3x3.
    pub(super) fn new(
        arch: Arch,
        Places { lead, lines, columns }: Places,
        (channels, distances, pitch): (usize, &[u32], usize),
        filters: usize,
    ) -> Option<Self> {
        let least = distances.iter().min().copied()? as usize;
        let mut taps = [[None; 3]; 3];
        for (tap, &distance) in distances.iter().enumerate() {
            let distance = distance as usize - least;
            *taps.get_mut(distance / pitch)?.get_mut(distance % pitch)? = Some(tap);
        }
        if distances.len() != 9 || least != 0 || taps.as_flattened().contains(&None) || pitch != columns + 2 {
            return None;
        }
        let lanes = lanes_of(arch);
        let vectors = (lead * lines / 2 * (columns / 2 + 1)).div_ceil(lanes);
        // Transforms write whole vectors, the last one from the last tile on.
        let stride = (vectors + 1) * lanes;
        Some(Self {
            lanes,
            channels,
            lines,
            columns,
            taps: taps.map(|line| line.map(|tap| tap.unwrap_or(0))),
            stride,
            at: (0..vectors).map(|vector| (vector * lanes) as u32).collect(),
            summed: (0..channels).map(|channel| (channel * stride) as u32).collect(),
            height: Height::of_places(arch, filters),
        })
    }

    /// Tiles of a line, with the one of no meaning, and tiles of an image.
    fn tiles(&self) -> (usize, usize) {
        let line = self.columns / 2 + 1;
        (line, self.lines / 2 * line)
    }

    /// Places of an image, or of a part of it.
    pub(super) fn places(&self) -> usize {
        self.lines * self.columns
    }

    /// How weights are transformed.
    pub(super) fn layout(&self) -> Layout {
        Layout::Tiles { height: self.height.0, taps: self.taps }
    }

    /// Words of the transformed weights of `filters` filters.
    pub(super) fn weights_len(&self, filters: usize) -> usize {
        POINTS * self.channels * filters.next_multiple_of(self.height.0)
    }

    /// Transforms a panel of weights `[channel and tap][row]` to `[point][channel][row]`.
    pub(super) fn weights(&self, panel: &[f32], target: &mut [f32]) {
        let height = self.height.0;
        for (channel, weights) in panel.chunks_exact(9 * height).enumerate() {
            for row in 0..height {
                let g = |i: usize, j: usize| weights[self.taps[i][j] * height + row];
                // G g
                let along = |j: usize| {
                    let (a, b, c) = (g(0, j), g(1, j), g(2, j));
                    [a, 0.5 * (a + b + c), 0.5 * (a - b + c), c]
                };
                let columns = [along(0), along(1), along(2)];
                for i in 0..4 {
                    let [a, b, c] = columns.map(|column| column[i]);
                    for (j, value) in [a, 0.5 * (a + b + c), 0.5 * (a - b + c), c].into_iter().enumerate() {
                        target[((4 * i + j) * self.channels + channel) * height + row] = value;
                    }
                }
            }
        }
    }

    /// Leaves in `sums`, `[row][place]`, what the windows of `grid` give with panels of [`weights`](Self::weights), for
    /// so many leading points.
    pub(super) fn sum(
        &self,
        arch: Arch,
        (grid, lead): (&[u32], usize),
        panels: &[u32],
        (sums, rows): (&mut [u32], usize),
        work: &mut Work,
    ) {
        let Work { parts, input, sums: products, results } = work;
        let (line, image) = self.tiles();
        let height = self.height.0;
        let plane = (self.lines / 2 + 1) * line;
        parts.reserve(4 * plane + self.lanes);
        input.reserve(POINTS * self.channels * self.stride + self.lanes);
        let group = PANELS * height;
        products.reserve(POINTS * group * self.stride + self.lanes);
        results.reserve(4 * (image + self.lanes));
        let words = (self.lines + 2) * (self.columns + 2);
        for (number, grid) in grid.chunks_exact(words).take(lead * self.channels).enumerate() {
            split(bytemuck::cast_slice(grid), self.columns + 2, bytemuck::cast_slice_mut(parts), plane);
            let at = number % self.channels * self.stride + number / self.channels * image;
            let target = &mut bytemuck::cast_slice_mut(input)[at..];
            let stride = self.channels * self.stride;
            arch.dispatch(Input { parts: bytemuck::cast_slice(parts), plane, line, tiles: image, target, stride });
        }
        let at = &self.at[..(lead * image).div_ceil(self.lanes)];
        let wide = at.len() * self.lanes;
        let places = lead * self.places();
        let panel = POINTS * self.channels * height;
        for (panels, sums) in panels.chunks(PANELS * panel).zip(sums[..rows * places].chunks_mut(group * places)) {
            let len = panels.len() / panel * height * wide;
            for (point, (grid, sums)) in
                input.chunks(self.channels * self.stride).zip(products.chunks_exact_mut(len)).take(POINTS).enumerate()
            {
                sums.fill(0);
                let rows = &panels[point * self.channels * height..];
                arch.dispatch(PlacesBlock { grid, at, summed: &self.summed, rows, panel, sums, height: self.height });
            }
            for (row, sums) in sums.chunks_exact_mut(places).enumerate() {
                for (lead, sums) in sums.chunks_exact_mut(self.places()).enumerate() {
                    let source = &bytemuck::cast_slice(products)[row * wide + lead * image..];
                    let target = bytemuck::cast_slice_mut(results);
                    let part = image + self.lanes;
                    arch.dispatch(Output { source, stride: len, tiles: image, target, part });
                    join(target, (part, line), self.columns, bytemuck::cast_slice_mut(sums));
                }
            }
        }
    }
}

/// Lines of a grid by the parity of line and column, into four parts of `plane` words.
fn split(grid: &[f32], pitch: usize, parts: &mut [f32], plane: usize) {
    let line = pitch / 2;
    for (number, words) in grid.chunks_exact(pitch).enumerate() {
        let at = number % 2 * 2 * plane + number / 2 * line;
        let (even, odd) = parts[at..].split_at_mut(plane);
        let pairs = words.as_chunks::<2>().0;
        for ((even, odd), &[a, b]) in even[..line].iter_mut().zip(&mut odd[..line]).zip(pairs) {
            (*even, *odd) = (a, b);
        }
    }
}

/// Four parts of results, of which each line of tiles has one behind it that is left out, as places.
fn join(parts: &[f32], (part, line): (usize, usize), columns: usize, places: &mut [f32]) {
    for (number, places) in places.chunks_exact_mut(columns).enumerate() {
        let at = number % 2 * 2 * part + number / 2 * line;
        let (even, odd) = (&parts[at..][..line], &parts[at + part..][..line]);
        for (pair, (&a, &b)) in places.as_chunks_mut::<2>().0.iter_mut().zip(even.iter().zip(odd)) {
            *pair = [a, b];
        }
    }
}

/// `Bᵀ d B` of one channel's tiles.
struct Input<'a> {
    parts: &'a [f32],
    plane: usize,
    /// Tiles of a line.
    line: usize,
    tiles: usize,
    target: &'a mut [f32],
    /// Words from one point to the next.
    stride: usize,
}

impl WithSimd for Input<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { parts, plane, line, tiles, target, stride } = self;
        assert!(4 * plane + S::F32_LANES <= parts.len() && tiles + line <= plane, "a tile reaches beyond its grid");
        let end = tiles.next_multiple_of(S::F32_LANES);
        assert!((POINTS - 1) * stride + end <= target.len(), "a tile has no place");
        for tile in (0..tiles).step_by(S::F32_LANES) {
            let mut columns = [[simd.splat_f32s(0.0); 4]; 4];
            for (j, column) in columns.iter_mut().enumerate() {
                for (i, value) in column.iter_mut().enumerate() {
                    let part = i % 2 * 2 + j % 2;
                    *value = load::<S>(&parts[part * plane + tile + i / 2 * line + j / 2..]);
                }
                *column = input_transform(simd, *column);
            }
            for i in 0..4 {
                let values = input_transform(simd, across(&columns, i));
                for (j, value) in values.into_iter().enumerate() {
                    store::<S>(&mut target[(4 * i + j) * stride + tile..], value);
                }
            }
        }
    }
}

/// `Bᵀ` times a column.
#[inline(always)]
fn input_transform<S: Simd>(simd: S, [a, b, c, d]: [S::f32s; 4]) -> [S::f32s; 4] {
    [simd.sub_f32s(a, c), simd.add_f32s(b, c), simd.sub_f32s(c, b), simd.sub_f32s(b, d)]
}

/// `Aᵀ` times a column.
#[inline(always)]
fn output_transform<S: Simd>(simd: S, [a, b, c, d]: [S::f32s; 4]) -> [S::f32s; 2] {
    let (sum, difference) = (simd.add_f32s(b, c), simd.sub_f32s(b, c));
    [simd.add_f32s(a, sum), simd.sub_f32s(difference, d)]
}

/// Line `i` of columns.
#[inline(always)]
fn across<T: Copy, const LEN: usize>(columns: &[[T; LEN]; 4], i: usize) -> [T; 4] {
    [columns[0][i], columns[1][i], columns[2][i], columns[3][i]]
}

/// `Aᵀ m A` of one row's tiles.
struct Output<'a> {
    source: &'a [f32],
    /// Words from one point to the next.
    stride: usize,
    tiles: usize,
    target: &'a mut [f32],
    /// Words from one of the four parts to the next.
    part: usize,
}

impl WithSimd for Output<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { source, stride, tiles, target, part } = self;
        for tile in (0..tiles).step_by(S::F32_LANES) {
            let mut columns = [[simd.splat_f32s(0.0); 2]; 4];
            for (j, column) in columns.iter_mut().enumerate() {
                let mut values = [simd.splat_f32s(0.0); 4];
                for (i, value) in values.iter_mut().enumerate() {
                    *value = load::<S>(&source[(4 * i + j) * stride + tile..]);
                }
                *column = output_transform(simd, values);
            }
            for i in 0..2 {
                let values = output_transform(simd, across(&columns, i));
                for (j, value) in values.into_iter().enumerate() {
                    store::<S>(&mut target[(2 * i + j) * part + tile..], value);
                }
            }
        }
    }
}
