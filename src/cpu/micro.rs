//! The innermost loops of a contraction: tiles of sums that stay in vector registers.
#![expect(unsafe_code, reason = "distances into a grid are checked together, not each of them")]

use pulp::{Arch, Simd, WithSimd};

use super::windows::Distances;

/// Rows of a tile and its columns, for this machine's vectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tile {
    pub(super) rows: usize,
    pub(super) columns: usize,
}

/// Vectors of a tile's row.
const VECTORS: usize = 2;

/// What `f` says of each number below `N`. The standard library's `from_fn` and `map` are calls where the compiler does
/// not inline them, in the midst of kernels, and know nothing there of the machine's vectors.
#[inline(always)]
pub(super) fn each<T: Copy, const N: usize>(f: impl Fn(usize) -> T) -> [T; N] {
    let mut all = [f(0); N];
    for (number, value) in all.iter_mut().enumerate().skip(1) {
        *value = f(number);
    }
    all
}

/// Floats of this machine's vectors.
pub(super) fn lanes_of(arch: Arch) -> usize {
    struct Lanes;
    impl WithSimd for Lanes {
        type Output = usize;
        #[inline(always)]
        fn with_simd<S: Simd>(self, _simd: S) -> usize {
            S::F32_LANES
        }
    }
    arch.dispatch(Lanes)
}

impl Tile {
    /// The tile for `rows` rows: it fills the vector registers, or is a third smaller where that wastes fewer rows.
    pub(super) fn new(arch: Arch, rows: usize) -> Self {
        let lanes = lanes_of(arch);
        let (large, small) = if lanes >= 16 { (12, 8) } else { (6, 4) };
        let rows = if rows.next_multiple_of(small) < rows.next_multiple_of(large) { small } else { large };
        Self { rows, columns: VECTORS * lanes }
    }

    /// The tile for windows at points of which `run` each lie next to each other, and `columns` columns: one vector
    /// where a second would be empty; where there is a choice, rows in one run, which then need one address. Otherwise
    /// no more than there are registers for addresses.
    pub(super) fn of_windows(arch: Arch, columns: usize, run: usize) -> Self {
        let lanes = lanes_of(arch);
        let wide = Self::wide(arch, columns) / lanes;
        let (heights, otherwise): (&[usize], usize) = match (lanes >= 16, wide) {
            (true, 1) => (&[16, 14, 8, 7], 8),
            (true, _) => (&[8, 7], 8),
            (false, 1) => (&[], 8),
            (false, _) => (&[], 6),
        };
        let in_runs = heights.iter().copied().find(|&height| run.is_multiple_of(height));
        Self { rows: in_runs.unwrap_or(otherwise), columns: wide * lanes }
    }

    /// Columns of a tile of windows.
    pub(super) fn wide(arch: Arch, columns: usize) -> usize {
        let lanes = lanes_of(arch);
        if columns <= lanes { lanes } else { VECTORS * lanes }
    }

    /// Sums computed for a result of this size, those that fall outside included.
    pub(super) fn padded(arch: Arch, rows: usize, columns: usize) -> usize {
        let tile = Self::new(arch, rows);
        rows.next_multiple_of(tile.rows) * columns.next_multiple_of(tile.columns)
    }
}

/// `sums += lhs · rhs` for one block of panels.
pub(super) struct Block<'a> {
    /// `[panel][k][tile.rows]`
    pub(super) lhs: &'a [u32],
    /// `[panel][k][tile.columns]`
    pub(super) rhs: &'a [u32],
    /// Row-major, a whole number of tiles in both directions.
    pub(super) sums: &'a mut [u32],
    /// Words of a row of `sums`.
    pub(super) stride: usize,
    /// Summed points.
    pub(super) depth: usize,
    pub(super) tile: Tile,
}

impl Block<'_> {
    /// Calls `f(lhs panel, rhs panel, first sum)` for each tile; a panel of `rhs` stays in the first-level cache.
    #[inline(always)]
    fn for_each_tile(self, mut f: impl FnMut(&[u32], &[u32], &mut [u32])) {
        let Self { lhs, rhs, sums, stride, depth, tile } = self;
        for (j, rhs) in rhs.chunks_exact(depth * tile.columns).enumerate() {
            for (i, lhs) in lhs.chunks_exact(depth * tile.rows).enumerate() {
                f(lhs, rhs, &mut sums[i * tile.rows * stride + j * tile.columns..]);
            }
        }
    }

    /// Integers, wrapping.
    pub(super) fn run_words(self) {
        let (tile, stride) = (self.tile, self.stride);
        self.for_each_tile(|lhs, rhs, sums| {
            for (lhs, rhs) in lhs.chunks_exact(tile.rows).zip(rhs.chunks_exact(tile.columns)) {
                for (&a, sums) in lhs.iter().zip(sums.chunks_mut(stride)) {
                    for (sum, &b) in sums.iter_mut().zip(rhs) {
                        *sum = sum.wrapping_add(a.wrapping_mul(b));
                    }
                }
            }
        });
    }

    /// f32.
    pub(super) fn run_floats(self, arch: Arch) {
        arch.dispatch(Floats(self));
    }
}

struct Floats<'a>(Block<'a>);

impl WithSimd for Floats<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let stride = self.0.stride;
        match self.0.tile.rows {
            12 => self.0.for_each_tile(|lhs, rhs, sums| multiply::<S, 12>(simd, lhs, rhs, sums, stride)),
            8 => self.0.for_each_tile(|lhs, rhs, sums| multiply::<S, 8>(simd, lhs, rhs, sums, stride)),
            6 => self.0.for_each_tile(|lhs, rhs, sums| multiply::<S, 6>(simd, lhs, rhs, sums, stride)),
            _ => self.0.for_each_tile(|lhs, rhs, sums| multiply::<S, 4>(simd, lhs, rhs, sums, stride)),
        }
    }
}

#[inline(always)]
fn multiply<S: Simd, const ROWS: usize>(simd: S, lhs: &[u32], rhs: &[u32], sums: &mut [u32], stride: usize) {
    let (lhs, _) = bytemuck::cast_slice::<u32, f32>(lhs).as_chunks::<ROWS>();
    let (rhs, _) = S::as_simd_f32s(bytemuck::cast_slice(rhs));
    let (rhs, _) = rhs.as_chunks::<VECTORS>();
    let mut tile = [[simd.splat_f32s(0.0); VECTORS]; ROWS];
    for (a, b) in lhs.iter().zip(rhs) {
        for (sums, &a) in tile.iter_mut().zip(a) {
            let a = simd.splat_f32s(a);
            for (sum, &b) in sums.iter_mut().zip(b) {
                *sum = simd.mul_add_e_f32s(a, b, *sum);
            }
        }
    }
    add(simd, tile, sums, stride);
}

/// Adds a tile to the sums from the first on.
#[inline(always)]
fn add<S: Simd, const ROWS: usize, const WIDE: usize>(
    simd: S,
    tile: [[S::f32s; WIDE]; ROWS],
    sums: &mut [u32],
    stride: usize,
) {
    for (sums, new) in sums.chunks_mut(stride).zip(tile) {
        let sums = &mut bytemuck::cast_slice_mut::<u32, f32>(sums)[..WIDE * S::F32_LANES];
        let (sums, _) = S::as_mut_simd_f32s(sums);
        for (sum, new) in sums.iter_mut().zip(new) {
            *sum = simd.add_f32s(*sum, new);
        }
    }
}

/// `sums += windows · rhs` for one block, where row i of the windows at summed point k is `grid[own[i] + summed[k]]`.
pub(super) struct WindowBlock<'a> {
    pub(super) grid: &'a [u32],
    pub(super) at: Distances<'a>,
    /// `[panel][k][tile.columns]`
    pub(super) rhs: &'a [u32],
    /// Row-major, a whole number of tiles in both directions.
    pub(super) sums: &'a mut [u32],
    /// Words of a row of `sums`.
    pub(super) stride: usize,
    pub(super) tile: Tile,
}

impl WindowBlock<'_> {
    pub(super) fn run(self, arch: Arch) {
        arch.dispatch(self);
    }

    #[inline(always)]
    fn with_rows<S: Simd, const ROWS: usize>(self, simd: S) {
        if self.tile.columns == S::F32_LANES {
            self.with_tile::<S, ROWS, 1>(simd);
        } else {
            self.with_tile::<S, ROWS, VECTORS>(simd);
        }
    }

    #[inline(always)]
    fn with_tile<S: Simd, const ROWS: usize, const WIDE: usize>(self, simd: S) {
        let Self { grid, at: Distances { own, summed }, rhs, sums, stride, tile } = self;
        let grid: &[f32] = bytemuck::cast_slice(grid);
        let farthest = |at: &[u32]| at.iter().copied().max().unwrap_or(0) as usize;
        assert!(farthest(own) + farthest(summed) < grid.len(), "windows reach beyond their grid");
        for (j, rhs) in rhs.chunks_exact(summed.len() * tile.columns).enumerate() {
            let (rhs, _) = S::as_simd_f32s(bytemuck::cast_slice(rhs));
            let (rhs, _) = rhs.as_chunks::<WIDE>();
            for (i, own) in own.chunks(ROWS).enumerate() {
                let sums = &mut sums[i * ROWS * stride + j * WIDE * S::F32_LANES..];
                let start = grid.as_ptr().wrapping_add(own[0] as usize);
                if own.len() == ROWS && own.iter().zip(own[0]..).all(|(&at, next)| at == next) {
                    let row = |row: usize| start.wrapping_add(row);
                    // SAFETY: the farthest row at the farthest distance was checked to lie in the grid.
                    let tile = unsafe { window_tile::<S, ROWS, WIDE>(simd, row, summed, rhs) };
                    add(simd, tile, sums, stride);
                } else {
                    // Rows behind the last one repeat it.
                    let rows: [*const f32; ROWS] =
                        each(|row| grid.as_ptr().wrapping_add(own[row.min(own.len() - 1)] as usize));
                    // SAFETY: as above.
                    let tile = unsafe { window_tile::<S, ROWS, WIDE>(simd, |row| rows[row], summed, rhs) };
                    add(simd, tile, sums, stride);
                }
            }
        }
    }
}

/// The sums of one tile; `row(i)` is where row i lies at distance 0.
///
/// # Safety
/// All rows can be read at all distances.
#[inline(always)]
unsafe fn window_tile<S: Simd, const ROWS: usize, const WIDE: usize>(
    simd: S,
    row: impl Fn(usize) -> *const f32,
    summed: &[u32],
    rhs: &[[S::f32s; WIDE]],
) -> [[S::f32s; WIDE]; ROWS] {
    let mut tile = [[simd.splat_f32s(0.0); WIDE]; ROWS];
    for (&at, b) in summed.iter().zip(rhs) {
        for (number, sums) in tile.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            let a = simd.splat_f32s(unsafe { row(number).wrapping_add(at as usize).read() });
            for (sum, &b) in sums.iter_mut().zip(b) {
                *sum = simd.mul_add_e_f32s(a, b, *sum);
            }
        }
    }
    tile
}

impl WithSimd for WindowBlock<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match self.tile.rows {
            16 => self.with_tile::<S, 16, 1>(simd),
            14 => self.with_tile::<S, 14, 1>(simd),
            7 => self.with_rows::<S, 7>(simd),
            8 => self.with_rows::<S, 8>(simd),
            _ => self.with_rows::<S, 6>(simd),
        }
    }
}

/// Columns of a [`ThinBlock`]: whole vectors of any machine.
pub(super) const THIN: usize = 32;

/// `sums = lhs · rhs`, or `sums += lhs · rhs` if it `adds`, where element (i, k) of lhs is `lhs[i · row + k · step]`.
pub(super) struct ThinBlock<'a> {
    pub(super) lhs: &'a [f32],
    pub(super) row: usize,
    pub(super) step: usize,
    /// One line for each summed point.
    pub(super) rhs: &'a [[f32; THIN]],
    pub(super) sums: &'a mut [[f32; THIN]],
    pub(super) adds: bool,
}

impl WithSimd for ThinBlock<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if S::F32_LANES >= 16 {
            self.in_tiles::<S, 8>(simd);
        } else {
            self.in_tiles::<S, 4>(simd);
        }
    }
}

impl ThinBlock<'_> {
    #[inline(always)]
    fn in_tiles<S: Simd, const ROWS: usize>(self, simd: S) {
        let Self { lhs, row, step, rhs, sums, adds } = self;
        let wide = VECTORS * S::F32_LANES;
        assert!(THIN.is_multiple_of(wide), "columns are whole vectors");
        if sums.is_empty() {
            return;
        }
        let last = (sums.len() - 1) * row + rhs.len().saturating_sub(1) * step;
        assert!(rhs.is_empty() || last < lhs.len(), "element {last} of {}", lhs.len());
        for (number, sums) in sums.chunks_mut(ROWS).enumerate() {
            // Rows behind the last one repeat it.
            let starts: [*const f32; ROWS] =
                each(|i| lhs.as_ptr().wrapping_add((number * ROWS + i.min(sums.len() - 1)) * row));
            for column in (0..THIN).step_by(wide) {
                let mut tile = [[simd.splat_f32s(0.0); VECTORS]; ROWS];
                for (k, line) in rhs.iter().enumerate() {
                    let (line, _) = S::as_simd_f32s(&line[column..column + wide]);
                    let b = line.first_chunk::<VECTORS>().expect("so many vectors");
                    for (sums, start) in tile.iter_mut().zip(starts) {
                        // SAFETY: the last row at the last point was checked to lie in `lhs`.
                        let a = simd.splat_f32s(unsafe { start.wrapping_add(k * step).read() });
                        for (sum, &b) in sums.iter_mut().zip(b) {
                            *sum = simd.mul_add_e_f32s(a, b, *sum);
                        }
                    }
                }
                for (sums, tile) in sums.iter_mut().zip(tile) {
                    let (sums, _) = S::as_mut_simd_f32s(&mut sums[column..column + wide]);
                    for (sum, new) in sums.iter_mut().zip(tile) {
                        *sum = if adds { simd.add_f32s(*sum, new) } else { new };
                    }
                }
            }
        }
    }
}
