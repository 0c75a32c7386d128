//! The innermost loops of a contraction: tiles of sums that stay in vector registers.

use pulp::{Arch, Simd, WithSimd};

/// Rows of a tile and its columns, for this machine's vectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tile {
    pub(super) rows: usize,
    pub(super) columns: usize,
}

/// Vectors of a tile's row.
const VECTORS: usize = 2;

impl Tile {
    /// The tile for `rows` rows: it fills the vector registers, or is a third smaller where that wastes fewer rows.
    pub(super) fn new(arch: Arch, rows: usize) -> Self {
        struct Lanes;
        impl WithSimd for Lanes {
            type Output = usize;
            #[inline(always)]
            fn with_simd<S: Simd>(self, _simd: S) -> usize {
                S::F32_LANES
            }
        }
        let lanes = arch.dispatch(Lanes);
        let (large, small) = if lanes >= 16 { (12, 8) } else { (6, 4) };
        let rows = if rows.next_multiple_of(small) < rows.next_multiple_of(large) { small } else { large };
        Self { rows, columns: VECTORS * lanes }
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
    for (sums, new) in sums.chunks_mut(stride).zip(tile) {
        let sums = &mut bytemuck::cast_slice_mut::<u32, f32>(sums)[..VECTORS * S::F32_LANES];
        let (sums, _) = S::as_mut_simd_f32s(sums);
        for (sum, new) in sums.iter_mut().zip(new) {
            *sum = simd.add_f32s(*sum, new);
        }
    }
}
