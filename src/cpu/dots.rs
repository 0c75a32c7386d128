//! Products of matrices that both lie along the summed points, as the dot products of their lines.
//!
//! The crate turns such an operand over while it packs it, which for few rows takes longer than to multiply: 384 lines of
//! 3,072 elements and 8 others took it 3.5 ms, of which 0.16 are multiplications (`benches/NOTES.md`).
#![expect(unsafe_code, reason = "lines are checked as a matrix, not each of them")]

use pulp::{Arch, Simd, WithSimd};

use super::gemm::FEW;
use super::micro::{each, lanes_of};

/// Lines of an operand, at most, for which turning the other one over does not pay, and if it is done once for many runs.
const MAX_LINES: usize = 256;
const MAX_LINES_BEFOREHAND: usize = 16;
/// Fewer are vectors, for which the crate turns nothing over.
const MIN_LINES: usize = FEW + 1;
/// Summed points for each of these lines, at least: in the end each sum's lanes have to be added up.
const POINTS: usize = 3;
/// Lines of a tile: a sum for each pair of them stays in a vector register, and so do the vectors of one operand.
const LINES: usize = 4;
/// Summed points at a time: so much of the lines that are read again and again stays in the second-level cache.
const DEPTH: usize = 1024;
/// The same without vectors, whose lanes have a sum each.
const DEPTH_OF_ONE_SUM: usize = 512;
const FEW_REGISTERS: usize = 16;
const LINES_OF_FEW: usize = 3;

/// One operand: its first element, how many lines it has, and the distance between them.
#[derive(Clone, Copy)]
pub(super) struct Lines {
    pub(super) start: *const f32,
    pub(super) count: usize,
    pub(super) stride: isize,
}

/// `target[i · to.0 + j · to.1]`, or what it is added to if this `adds`, is the dot product of line i of one operand and
/// line j of the other.
pub(super) struct Dots {
    /// The one with more lines, each of which is read once, and the one whose lines stay in cache.
    lines: [Lines; 2],
    depth: usize,
    target: *mut f32,
    to: [isize; 2],
    adds: bool,
}

/// True if a product of so many rows, columns and summed points, whose operands lie along these, has few enough rows or
/// columns; the columns' might be turned over `beforehand`.
pub(super) fn pays([rows, columns, depth]: [usize; 3], beforehand: bool) -> bool {
    let few = rows.min(columns);
    let most = if beforehand { MAX_LINES_BEFOREHAND } else { MAX_LINES };
    (MIN_LINES..=most).contains(&few) && POINTS * few <= depth
}

/// Summed points of one call.
pub(super) fn depth(arch: Arch) -> usize {
    if lanes_of(arch) == 1 { DEPTH_OF_ONE_SUM } else { DEPTH }
}

impl Dots {
    /// Results begin at `target`, rows at this distance from each other and columns without gaps.
    pub(super) fn new(
        rows: Lines,
        columns: Lines,
        depth: usize,
        (target, stride): (*mut f32, isize),
        adds: bool,
    ) -> Self {
        let (lines, to) =
            if rows.count > columns.count { ([rows, columns], [stride, 1]) } else { ([columns, rows], [1, stride]) };
        Self { lines, depth, target, to, adds }
    }

    /// Computes them.
    ///
    /// # Safety
    /// All elements of both operands are readable, and those of the target are nobody else's, and initialised if they are
    /// added to.
    pub(super) unsafe fn run(self, arch: Arch) {
        arch.dispatch(self);
    }

    #[inline(always)]
    fn in_tiles<S: Simd, const N: usize>(&self, simd: S) {
        let [many, few] = self.lines;
        for i in (0..many.count).step_by(N) {
            for j in (0..few.count).step_by(N) {
                // a tile that is not full would take as long as one that is
                match few.count - j {
                    1 => self.tile::<S, N, 1>(simd, i, j),
                    2 => self.tile::<S, N, 2>(simd, i, j),
                    _ => self.tile::<S, N, N>(simd, i, j),
                }
            }
        }
    }

    /// The results of lines from `i` and `j` on, as many as there are; those behind the last one repeat it.
    #[inline(always)]
    fn tile<S: Simd, const MANY: usize, const FEW: usize>(&self, simd: S, i: usize, j: usize) {
        let Self { lines: [many, few], depth, target, to, adds } = *self;
        let start = |lines: Lines, number: usize| {
            lines.start.wrapping_offset(number.min(lines.count - 1) as isize * lines.stride)
        };
        let a: [*const f32; MANY] = each(|number| start(many, i + number));
        let b: [*const f32; FEW] = each(|number| start(few, j + number));
        let mut tile = [[simd.splat_f32s(0.0); FEW]; MANY];
        let whole = depth / S::F32_LANES * S::F32_LANES;
        for k in (0..whole).step_by(S::F32_LANES) {
            // SAFETY: a vector of a line's points, of which so many are left.
            let load = |line: *const f32| unsafe { line.wrapping_add(k).cast::<S::f32s>().read_unaligned() };
            add::<S, MANY, FEW>(simd, &mut tile, each(|number| load(a[number])), each(|number| load(b[number])));
        }
        if whole < depth {
            // SAFETY: the line's last points.
            let rest =
                |line: *const f32| unsafe { std::slice::from_raw_parts(line.wrapping_add(whole), depth - whole) };
            let load = |line: *const f32| simd.partial_load_f32s(rest(line));
            add::<S, MANY, FEW>(simd, &mut tile, each(|number| load(a[number])), each(|number| load(b[number])));
        }
        for (i, sums) in (i..many.count).zip(tile) {
            for (j, sum) in (j..few.count).zip(sums) {
                let place = target.wrapping_offset(i as isize * to[0] + j as isize * to[1]);
                let sum = simd.reduce_sum_f32s(sum);
                // SAFETY: a result that there is, by the caller's promise nobody else's.
                unsafe { place.write(if adds { place.read() + sum } else { sum }) };
            }
        }
    }
}

#[inline(always)]
fn add<S: Simd, const MANY: usize, const FEW: usize>(
    simd: S,
    tile: &mut [[S::f32s; FEW]; MANY],
    a: [S::f32s; MANY],
    b: [S::f32s; FEW],
) {
    for (sums, a) in tile.iter_mut().zip(a) {
        for (sum, b) in sums.iter_mut().zip(b) {
            *sum = simd.mul_add_e_f32s(a, b, *sum);
        }
    }
}

impl WithSimd for Dots {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if S::REGISTER_COUNT > FEW_REGISTERS {
            self.in_tiles::<S, LINES>(simd);
        } else {
            self.in_tiles::<S, LINES_OF_FEW>(simd);
        }
    }
}
