//! Small products of plain matrices, read where they lie.
//!
//! The crate asks about caches and packs what it multiplies, which takes longer than a small product itself (70x70
//! results of 30 terms: 4.9 µs of which its multiplications take 2.3).
#![expect(unsafe_code, reason = "a product's addresses are checked together, not each of them")]

use pulp::{Arch, Simd, WithSimd};

use super::micro::{each, lanes_of};

/// Floats of a vector from which on this is faster than the crate at all: with AVX2 it takes 0.8 to 1.4 times as long for
/// all but the smallest products.
const LANES: usize = 16;
/// Multiplications of a product up to which it is: the crate turns the whole second operand over if its columns are no
/// whole vectors, and is as fast as this from a quarter on if they are.
const MOST: usize = 1 << 19;
/// Summed points at most: so many vectors of the second operand stay in the first-level cache.
const DEEPEST: usize = 256;
/// Rows of a tile of one, two and three vectors: sums for 16 to 24 of 32 vector registers.
const ROWS: [usize; 3] = [16, 8, 8];

/// `target = lhs · rhs`, where element (i, k) of lhs is `lhs[i · own + k · summed]`, row k of rhs begins at
/// `rhs[k · line]` and row i of the target at `target[i · stride]`.
pub(super) struct SmallProduct {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) depth: usize,
    pub(super) lhs: (*const f32, isize, isize),
    pub(super) rhs: (*const f32, isize),
    pub(super) target: (*mut f32, isize),
}

impl SmallProduct {
    /// True if a product of this shape is small, but no smaller than a tile, and the machine's vectors are long.
    pub(super) fn pays(arch: Arch, [rows, columns, depth]: [usize; 3]) -> bool {
        let lanes = lanes_of(arch);
        let size = rows * columns * depth;
        let small = size <= MOST / 4 || (size <= MOST && !columns.is_multiple_of(lanes));
        lanes >= LANES && small && depth <= DEEPEST && rows >= ROWS[0] && columns >= lanes
    }

    /// Computes it. Every sum begins at 0 and is added up in the order of k, as the crate's are.
    ///
    /// # Safety
    /// The elements of both operands are readable, and those of the target are nobody else's.
    pub(super) unsafe fn run(self, arch: Arch) {
        assert!(self.rows >= ROWS[0] && self.columns >= lanes_of(arch), "{}x{}", self.rows, self.columns);
        arch.dispatch(self);
    }

    /// Results in tiles of up to three vectors. The last tile of either direction lies upon the one before, and sums
    /// again what that has.
    #[inline(always)]
    fn in_tiles<S: Simd>(&self, simd: S) {
        let lanes = S::F32_LANES;
        let mut vectors = self.columns.div_ceil(lanes);
        let mut column = 0;
        while vectors > 0 {
            let wide = match vectors {
                1 => 1,
                2 | 4 => 2,
                _ => 3,
            };
            let wide = wide.min(self.columns / lanes);
            let start = column.min(self.columns - wide * lanes);
            match wide {
                1 => self.column::<S, { ROWS[0] }, 1>(simd, start),
                2 => self.column::<S, { ROWS[1] }, 2>(simd, start),
                _ => self.column::<S, { ROWS[2] }, 3>(simd, start),
            }
            column += wide * lanes;
            vectors -= wide;
        }
    }

    /// All rows of `WIDE` vectors of columns.
    #[inline(always)]
    fn column<S: Simd, const HIGH: usize, const WIDE: usize>(&self, simd: S, column: usize) {
        for row in (0..self.rows).step_by(HIGH) {
            self.tile::<S, HIGH, WIDE>(simd, row.min(self.rows - HIGH), column);
        }
    }

    #[inline(always)]
    fn tile<S: Simd, const HIGH: usize, const WIDE: usize>(&self, simd: S, row: usize, column: usize) {
        let ((lhs, own, summed), (rhs, line), (target, stride)) = (self.lhs, self.rhs, self.target);
        let starts: [*const f32; HIGH] = each(|i| lhs.wrapping_offset((row + i) as isize * own));
        let mut tile = [[simd.splat_f32s(0.0); WIDE]; HIGH];
        for k in 0..self.depth as isize {
            let b = rhs.wrapping_offset(k * line).wrapping_add(column).cast::<[S::f32s; WIDE]>();
            // SAFETY: within the columns of a row that can be read.
            let b = unsafe { b.read_unaligned() };
            for (sums, start) in tile.iter_mut().zip(starts) {
                // SAFETY: a row and a summed point that there are.
                let a = simd.splat_f32s(unsafe { start.wrapping_offset(k * summed).read() });
                for (sum, b) in sums.iter_mut().zip(b) {
                    *sum = simd.mul_add_e_f32s(a, b, *sum);
                }
            }
        }
        for (sums, row) in tile.into_iter().zip(row as isize..) {
            let place = target.wrapping_offset(row * stride).wrapping_add(column).cast::<[S::f32s; WIDE]>();
            // SAFETY: within the columns of a row of the target.
            unsafe { place.write_unaligned(sums) };
        }
    }
}

impl WithSimd for SmallProduct {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        self.in_tiles(simd);
    }
}
