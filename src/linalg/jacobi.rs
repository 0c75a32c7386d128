//! Columns made orthogonal by turning pairs of them: what eigenvalues and singular values are computed by.

use std::sync::LazyLock;

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use crate::custom::{Call, CustomOp, Kernel, Signature, folded};
use crate::dtype::{DType, Scalar};
use crate::tensor::Tensor;

use super::matrices::{BLOCK, THREADS};

/// Times that every column meets every other, at the most: six to ten leave nothing but rounding.
const SWEEPS: usize = 12;

/// Columns of a block of so many rows; a workgroup has two blocks. A thread goes three times over its share of the rows
/// of a pair, for each column of a block, and Mesa's llvmpipe ends its loops after 65,535 steps: 12 for a row with 32
/// columns, 3 with 16.
const fn half(height: usize) -> usize {
    if height <= 8000 { BLOCK / 2 } else { BLOCK / 4 }
}

/// A V with orthogonal columns, for an orthogonal V, of square matrices `[count, n, n]` whose elements are about 1;
/// without a gradient.
#[track_caller]
pub(super) fn orthogonal_columns(a: &Tensor) -> Tensor {
    turn_all(a, false)
}

/// The same, and V.
#[track_caller]
pub(super) fn orthogonal_columns_by(a: &Tensor) -> (Tensor, Tensor) {
    let size = a.size(-1);
    let one = Tensor::eye(size, a.device()).expand(a.shape());
    let both = turn_all(&Tensor::cat(&[a, &one], -2), true);
    (both.slice(-2, 0..size), both.slice(-2, size..))
}

/// Columns after all turns; of `halves`, the lower half is turned along.
#[track_caller]
fn turn_all(columns: &Tensor, halves: bool) -> Tensor {
    let [count, _, width] = *columns.shape().dims() else { unreachable!("there is a batch") };
    if columns.numel() == 0 {
        return columns.clone();
    }
    let mut cosines = Tensor::ones([count], columns.device());
    if width <= BLOCK {
        let [turned, _] = kernel(Pairs::AllAtOnce, halves).call([columns, &cosines]);
        return turned;
    }
    // columns of zeros stay where they are
    let more = (width.next_multiple_of(BLOCK) - width) as isize;
    let mut blocks = Blocks::of(&columns.pad(&[(0, 0), (0, 0), (0, more)], 0));
    for _ in 0..SWEEPS {
        cosines = blocks.sweep(&cosines, halves);
    }
    blocks.columns().slice(-1, 0..width)
}

/// The columns of `[count, m, n]` in another order, i32 `[count, n]`.
#[track_caller]
pub(super) fn columns(matrices: &Tensor, order: &Tensor) -> Tensor {
    matrices.take_along_dim(&order.unsqueeze(-2), -1)
}

/// An even number of blocks of columns, `[count, blocks, rows, half]`.
struct Blocks(Tensor);

impl Blocks {
    #[track_caller]
    fn of(columns: &Tensor) -> Self {
        let [count, rows, width] = *columns.shape().dims() else { unreachable!("there is a batch") };
        let half = half(rows);
        Self(columns.reshape([count, rows, width / half, half]).permute([0, 2, 1, 3]))
    }

    #[track_caller]
    fn columns(&self) -> Tensor {
        self.0.permute([0, 2, 1, 3]).flatten(-2, -1)
    }

    /// Turns the pairs within blocks, then those of any two blocks, unless all cosines were small before: `[count]`, and
    /// so is the result, the largest of this sweep.
    #[track_caller]
    fn sweep(&mut self, before: &Tensor, halves: bool) -> Tensor {
        let (pairs, half) = (self.0.size(1) / 2, self.0.size(-1));
        let mut cosines;
        (self.0, cosines) = turn_each(&self.0, before, kernel(Pairs::All, halves));
        for _ in 0..2 * pairs - 1 {
            // the first of one half meets the last of the other
            let [left, right] = [self.0.slice(1, 0..pairs), self.0.slice(1, pairs..).flip(1)];
            let both = Tensor::cat(&[&left, &right], -1);
            let (turned, across) = turn_each(&both, before, kernel(Pairs::Across, halves));
            cosines = cosines.maximum(across);
            let (left, right) = (turned.slice(-1, 0..half), turned.slice(-1, half..).flip(1));
            // one stays, the others go round: after as many steps all are back
            let others = [right.slice(1, pairs - 1..), left.slice(1, 1..), right.slice(1, 0..pairs - 1)];
            self.0 = Tensor::cat(&[&left.slice(1, 0..1), &others[0], &others[1], &others[2]], 1);
        }
        cosines
    }
}

/// Turns pairs of columns of each of `[count, groups, rows, n]`, and their largest cosines, `[count]`.
#[track_caller]
fn turn_each(groups: &Tensor, before: &Tensor, kernel: &CustomOp<2, 2>) -> (Tensor, Tensor) {
    let [count, number, rows, width] = *groups.shape().dims() else { unreachable!("there are groups") };
    let before = before.unsqueeze(-1).expand([count, number]).reshape([count * number]);
    let [turned, cosines] = kernel.call([&groups.reshape([count * number, rows, width]), &before]);
    (turned.reshape(groups.shape()), cosines.reshape([count, number]).max_dim(-1))
}

/// The kernel for some pairs.
fn kernel(pairs: Pairs, halves: bool) -> &'static CustomOp<2, 2> {
    static KERNELS: LazyLock<[[CustomOp<2, 2>; 3]; 2]> = LazyLock::new(|| {
        [false, true].map(|halves| {
            [Pairs::AllAtOnce, Pairs::All, Pairs::Across]
                .map(|pairs| CustomOp::new(Jacobi { pairs, halves }).expect("the WGSL is valid"))
        })
    });
    &KERNELS[usize::from(halves)][pairs as usize]
}

#[derive(PartialEq, Eq, Hash)]
struct Jacobi {
    pairs: Pairs,
    /// Whether the lower half of columns is turned along, instead of being a part of what is to be orthogonal.
    halves: bool,
}

/// Which pairs of columns are turned.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Pairs {
    /// All, until there is nothing to turn.
    AllAtOnce,
    /// All, once.
    All,
    /// One of the left half and one of the right, once.
    Across,
}

impl Pairs {
    const fn sweeps(self) -> usize {
        if matches!(self, Self::AllAtOnce) { SWEEPS } else { 1 }
    }

    /// The pairs of each step.
    fn steps(self, size: usize) -> Vec<Vec<(usize, usize)>> {
        if self == Self::Across {
            let half = size / 2;
            return (0..half).map(|step| (0..half).map(|pair| (pair, half + (step + pair) % half)).collect()).collect();
        }
        let others = size.next_multiple_of(2) - 1;
        let pair = |step: usize, pair: usize| match pair {
            0 => (step, others),
            _ => ((step + pair) % others, (step + others - pair) % others),
        };
        let pairs = |step| (0..others.div_ceil(2)).map(move |number| pair(step, number));
        (0..others).map(|step| pairs(step).filter(|pair| pair.1 < size).collect()).collect()
    }
}

impl Jacobi {
    /// Rows of so many that are to be orthogonal.
    fn rows(&self, height: usize) -> usize {
        if self.halves { height / 2 } else { height }
    }
}

/// The cosine of an angle that counts as a right one, because rounding leaves as much.
const TOLERANCE: f64 = 2.0 * f32::EPSILON as f64;

impl Kernel<2, 2> for Jacobi {
    fn name(&self) -> &str {
        "jacobi"
    }

    fn wgsl(&self) -> &str {
        include_str!("../../shaders/linalg/jacobi.wgsl")
    }

    fn outputs(&self, inputs: &[Signature; 2]) -> [Signature; 2] {
        inputs.clone()
    }

    fn groups(&self, call: &Call) -> [u32; 3] {
        folded(call.outputs[1].shape[0])
    }

    fn params(&self, call: &Call) -> Vec<Scalar> {
        let [count, height, size] = *call.outputs[0].shape.dims() else { unreachable!("there is a batch") };
        let lanes = (THREADS / size.div_ceil(2).next_power_of_two()).min(height.next_power_of_two());
        let across = usize::from(self.pairs == Pairs::Across);
        let numbers = [size, self.rows(height), height, count, across, lanes, self.pairs.sweeps()];
        let mut params = numbers.map(|number| Scalar::from(number as u32)).to_vec();
        params.push(Scalar::new(DType::F32, TOLERANCE));
        params
    }

    fn flops(&self, call: &Call) -> u64 {
        let [count, height, size] = *call.outputs[0].shape.dims() else { unreachable!("there is a batch") };
        let pairs = if self.pairs == Pairs::Across { size * size / 4 } else { size * size / 2 };
        // three sums of products, and a turn
        let of_pair = 6 * self.rows(height) + 8 * height;
        (count * self.pairs.sweeps() * pairs * of_pair) as u64
    }

    fn is_batched(&self) -> bool {
        true
    }

    fn host(&self, call: &Call, [stacks, before]: [&[f64]; 2], [turned, cosines]: [&mut [f64]; 2]) {
        let [_, height, size] = *call.outputs[0].shape.dims() else { unreachable!("there is a batch") };
        // nothing is rounded to f32 before it is all done
        let tolerance = if self.pairs == Pairs::AllAtOnce { 1e-6 * TOLERANCE } else { TOLERANCE };
        let (rows, steps) = (self.rows(height), self.pairs.steps(size));
        let arch = Arch::new();
        let of_all = turned.par_chunks_mut(height * size).zip(stacks.par_chunks(height * size));
        of_all.zip(before).zip(cosines).for_each(|(((turned, stack), &before), cosine)| {
            *cosine = before;
            let mut columns = columns_of(stack, size);
            for _ in 0..self.pairs.sweeps() {
                if *cosine <= tolerance {
                    break;
                }
                *cosine = arch.dispatch(Sweep { columns: &mut columns, height, rows, steps: &steps, tolerance });
            }
            turned.copy_from_slice(&columns_of(&columns, height));
        });
    }
}

/// The columns of a matrix of rows of so many elements, one after the other.
fn columns_of(matrix: &[f64], width: usize) -> Vec<f64> {
    let height = matrix.len() / width;
    let mut columns = vec![0.0; matrix.len()];
    // several rows at a time: elements of one column may all want the same place in the cache
    for (number, rows) in matrix.chunks(8 * width).enumerate() {
        for column in 0..width {
            let to = columns[column * height + 8 * number..].iter_mut();
            to.zip(rows[column..].iter().step_by(width)).for_each(|(to, value)| *to = *value);
        }
    }
    columns
}

/// Makes the first `rows` elements of pairs of columns orthogonal; the largest cosine before.
struct Sweep<'a> {
    columns: &'a mut [f64],
    height: usize,
    rows: usize,
    steps: &'a [Vec<(usize, usize)>],
    tolerance: f64,
}

impl WithSimd for Sweep<'_> {
    type Output = f64;
    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) -> f64 {
        let Self { columns, height, rows, steps, tolerance } = self;
        let mut largest = 0.0_f64;
        for &(first, second) in steps.iter().flatten() {
            let (low, high) = (first.min(second), first.max(second));
            let (before, from) = columns.split_at_mut(high * height);
            let (low, high) = (&mut before[low * height..][..height], &mut from[..height]);
            let (a, b) = if first < second { (low, high) } else { (high, low) };
            largest = largest.max(turn(a, b, rows, tolerance));
        }
        largest
    }
}

/// Sums that do not wait for each other.
const ABREAST: usize = 16;

/// One pair, unless the cosine of its angle, which this is, is too small.
#[inline(always)]
fn turn(first: &mut [f64], second: &mut [f64], rows: usize, tolerance: f64) -> f64 {
    let mut sums = [[0.0; ABREAST]; 3];
    let mut add = |at: usize, a: f64, b: f64| {
        sums[0][at] += a * a;
        sums[1][at] += b * b;
        sums[2][at] += a * b;
    };
    let (a, b) = (first[..rows].chunks_exact(ABREAST), second[..rows].chunks_exact(ABREAST));
    let rests = (a.remainder(), b.remainder());
    for (a, b) in a.zip(b) {
        for at in 0..ABREAST {
            add(at, a[at], b[at]);
        }
    }
    rests.0.iter().zip(rests.1).for_each(|(a, b)| add(0, *a, *b));
    let [alpha, beta, gamma] = sums.map(|sums| sums.iter().sum::<f64>());
    let angle = if gamma == 0.0 { 0.0 } else { (gamma.abs() / (alpha.sqrt() * beta.sqrt())).min(1.0) };
    if angle <= tolerance {
        return angle;
    }
    let slope = (beta - alpha) / (2.0 * gamma);
    let tangent = if slope < 0.0 { -1.0 } else { 1.0 } / (slope.abs() + slope.hypot(1.0));
    let cosine = tangent.hypot(1.0).recip();
    let sine = cosine * tangent;
    for (a, b) in first.iter_mut().zip(second) {
        (*a, *b) = (cosine * *a - sine * *b, sine * *a + cosine * *b);
    }
    angle
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn operations_are_those_of_all_pairs() {
        let matrices = Signature::new(DType::F32, [1000, 64, 64]);
        let both = [matrices.clone(), Signature::new(DType::F32, [1000])];
        let call = Call { inputs: both.to_vec(), outputs: both.to_vec() };
        for (pairs, sweeps) in [(Pairs::AllAtOnce, SWEEPS), (Pairs::All, 1), (Pairs::Across, 1)] {
            let turns = 1000 * sweeps * pairs.steps(64).iter().flatten().count();
            let (counted, told) = (turns as u64 * 14 * 64, Jacobi { pairs, halves: false }.flops(&call));
            assert!(told >= counted && told < counted / 9 * 10, "{told} of {counted}");
        }
    }

    #[test]
    fn every_pair_has_one_step_and_every_column_one_pair_in_it() {
        for size in 1..20 {
            for pairs in [Pairs::All, Pairs::Across] {
                let steps = pairs.steps(size);
                for step in &steps {
                    let columns: BTreeSet<usize> = step.iter().flat_map(|&(a, b)| [a, b]).collect();
                    assert_eq!(columns.len(), 2 * step.len(), "{step:?} of {size}");
                }
                let met: BTreeSet<(usize, usize)> =
                    steps.iter().flatten().map(|&(a, b)| (a.min(b), a.max(b))).collect();
                let expected = if pairs == Pairs::All { size * (size - 1) / 2 } else { (size / 2) * (size / 2) };
                assert_eq!((met.len(), steps.iter().flatten().count()), (expected, expected), "of {size}");
            }
        }
    }
}
