//! Reducing registers, always in an order that depends on lengths alone.

use pulp::{Arch, Simd, WithSimd};

use super::compile::register_bits;
use super::elementwise::{CHUNK, Kind, maximum, minimum};
use crate::dtype::DType;
use crate::graph::ReduceOp;

/// A reduction of one element type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fold {
    op: ReduceOp,
    kind: Kind,
    /// What changes nothing.
    pub(super) identity: u32,
}

/// Runs `$run` with `$f` bound to the function that joins two values.
macro_rules! with_join {
    ($fold:expr, |$f:ident| $run:expr) => {
        match ($fold.op, $fold.kind) {
            (ReduceOp::Sum, Kind::Float) => with_join!(@float $f, std::ops::Add::add, $run),
            (ReduceOp::Prod, Kind::Float) => with_join!(@float $f, std::ops::Mul::mul, $run),
            (ReduceOp::Max, Kind::Float) => with_join!(@float $f, maximum, $run),
            (ReduceOp::Min, Kind::Float) => with_join!(@float $f, minimum, $run),
            (ReduceOp::Sum, _) => with_join!(@word $f, u32::wrapping_add, $run),
            (ReduceOp::Prod, _) => with_join!(@word $f, u32::wrapping_mul, $run),
            (ReduceOp::Max, Kind::Int) => with_join!(@int $f, i32::max, $run),
            (ReduceOp::Min, Kind::Int) => with_join!(@int $f, i32::min, $run),
            (ReduceOp::Max, Kind::Word) => with_join!(@word $f, u32::max, $run),
            (ReduceOp::Min, Kind::Word) => with_join!(@word $f, u32::min, $run),
        }
    };
    (@float $f:ident, $join:expr, $run:expr) => {{
        let $f = |a: u32, b: u32| ($join)(f32::from_bits(a), f32::from_bits(b)).to_bits();
        $run
    }};
    (@int $f:ident, $join:expr, $run:expr) => {{
        let $f = |a: u32, b: u32| ($join)(a.cast_signed(), b.cast_signed()).cast_unsigned();
        $run
    }};
    (@word $f:ident, $join:expr, $run:expr) => {{
        let $f = |a: u32, b: u32| ($join)(a, b);
        $run
    }};
}

impl Fold {
    /// The reduction `op` of values of `dtype`.
    pub(super) fn new(op: ReduceOp, dtype: DType) -> Self {
        let identity = register_bits(op.identity(dtype));
        // any and all, on 0 and 1
        let op = match (op, dtype) {
            (ReduceOp::Sum, DType::Bool) => ReduceOp::Max,
            (ReduceOp::Prod, DType::Bool) => ReduceOp::Min,
            (op, _) => op,
        };
        Self { op, kind: Kind::of(dtype), identity }
    }

    /// All of `values` as one.
    pub(super) fn row(&self, arch: Arch, values: &[u32]) -> u32 {
        let identity = self.identity;
        if self.kind == Kind::Float && values.len() >= CHUNK {
            return arch.dispatch(FloatRow { op: self.op, values: bytemuck::cast_slice(values), identity });
        }
        with_join!(self, |f| arch.dispatch(Row { values, identity, f }))
    }

    /// `sum` joined with one value after the other.
    pub(super) fn in_order(&self, sum: u32, values: &[u32]) -> u32 {
        with_join!(self, |f| values.iter().fold(sum, |sum, &value| f(sum, value)))
    }

    /// Each of `values` becomes `sum` joined with all up to it; what the last one became.
    pub(super) fn up_to(&self, sum: u32, values: &mut [u32]) -> u32 {
        with_join!(self, |f| values.iter_mut().fold(sum, |sum, value| {
            *value = f(sum, *value);
            *value
        }))
    }

    /// `sums[i] = join(sums[i], values[i])`
    pub(super) fn columns(&self, arch: Arch, sums: &mut [u32], values: &[u32]) {
        with_join!(self, |f| arch.dispatch(Columns { sums, values, f }));
    }
}

struct Row<'a, F> {
    values: &'a [u32],
    identity: u32,
    f: F,
}

/// Joins `lanes[i]` with `lanes[i + half]` until one is left. Each half is a loop of its own, of a length known
/// beforehand, so that it becomes vector instructions.
#[inline(always)]
fn halve<const N: usize>(mut lanes: [u32; N], f: impl Fn(u32, u32) -> u32) -> u32 {
    macro_rules! half {
        ($($half:literal)*) => {
            $(if N >= 2 * $half {
                for i in 0..$half {
                    lanes[i] = f(lanes[i], lanes[i + $half]);
                }
            })*
        };
    }
    const { assert!(N.is_power_of_two() && N <= 64, "halved to the end") };
    half!(32 16 8 4 2 1);
    lanes[0]
}

/// Joins elements `N` apart in lanes, then the lanes.
#[inline(always)]
fn in_lanes<const N: usize>(values: &[u32], identity: u32, f: impl Fn(u32, u32) -> u32) -> u32 {
    let mut lanes = [identity; N];
    let mut chunks = values.chunks_exact(N);
    for chunk in &mut chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = f(*lane, value);
        }
    }
    for (lane, &value) in lanes.iter_mut().zip(chunks.remainder()) {
        *lane = f(*lane, value);
    }
    halve(lanes, f)
}

impl<F: Fn(u32, u32) -> u32> WithSimd for Row<'_, F> {
    type Output = u32;
    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) -> u32 {
        let Self { values, identity, f } = self;
        match values.len() {
            0..8 => values.iter().fold(identity, |sum, &value| f(sum, value)),
            8..CHUNK => in_lanes::<8>(values, identity, f),
            _ => in_lanes::<CHUNK>(values, identity, f),
        }
    }
}

/// A row of floats, joined as [`in_lanes`] does it with [`CHUNK`] lanes, but in registers: of an array of words the
/// compiler makes memory, and each addition then waits for the one before to be stored.
struct FloatRow<'a> {
    op: ReduceOp,
    values: &'a [f32],
    identity: u32,
}

impl WithSimd for FloatRow<'_> {
    type Output = u32;
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> u32 {
        let Self { op, values, identity } = self;
        match op {
            ReduceOp::Sum => join_floats(simd, values, identity, |a, b| simd.add_f32s(a, b), |a, b| a + b),
            ReduceOp::Prod => join_floats(simd, values, identity, |a, b| simd.mul_f32s(a, b), |a, b| a * b),
            ReduceOp::Max => join_floats(simd, values, identity, |a, b| larger(simd, a, b), maximum),
            ReduceOp::Min => join_floats(simd, values, identity, |a, b| smaller(simd, a, b), minimum),
        }
    }
}

/// The larger one of each pair; NaN if either is.
#[inline(always)]
pub(super) fn larger<S: Simd>(simd: S, a: S::f32s, b: S::f32s) -> S::f32s {
    let larger = simd.select_f32s(simd.less_than_or_equal_f32s(a, b), b, a);
    simd.select_f32s(simd.equal_f32s(b, b), larger, b)
}

/// The smaller one of each pair; NaN if either is.
#[inline(always)]
pub(super) fn smaller<S: Simd>(simd: S, a: S::f32s, b: S::f32s) -> S::f32s {
    let smaller = simd.select_f32s(simd.less_than_or_equal_f32s(b, a), b, a);
    simd.select_f32s(simd.equal_f32s(b, b), smaller, b)
}

/// Joins elements [`CHUNK`] apart, then the lanes.
#[inline(always)]
fn join_floats<S: Simd>(
    simd: S,
    values: &[f32],
    identity: u32,
    join: impl Fn(S::f32s, S::f32s) -> S::f32s,
    join_one: impl Fn(f32, f32) -> f32,
) -> u32 {
    let identity = f32::from_bits(identity);
    if S::F32_LANES < 4 {
        let join = |a, b| join_one(f32::from_bits(a), f32::from_bits(b)).to_bits();
        return in_lanes::<CHUNK>(bytemuck::cast_slice(values), identity.to_bits(), join);
    }
    let mut count = CHUNK / S::F32_LANES;
    let mut sums = [simd.splat_f32s(identity); CHUNK / 4];
    let mut chunks = values.chunks_exact(CHUNK);
    for chunk in &mut chunks {
        let (vectors, _) = S::as_simd_f32s(chunk);
        for i in 0..count {
            sums[i] = join(sums[i], vectors[i]);
        }
    }
    let mut lanes = [identity; CHUNK];
    if !chunks.remainder().is_empty() {
        S::as_mut_simd_f32s(&mut lanes).0.copy_from_slice(&sums[..count]);
        lanes.iter_mut().zip(chunks.remainder()).for_each(|(lane, &value)| *lane = join_one(*lane, value));
        sums[..count].copy_from_slice(S::as_simd_f32s(&lanes).0);
    }
    while count > 1 {
        count /= 2;
        for i in 0..count {
            sums[i] = join(sums[i], sums[i + count]);
        }
    }
    S::as_mut_simd_f32s(&mut lanes).0[0] = sums[0];
    let mut half = S::F32_LANES / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] = join_one(lanes[i], lanes[i + half]);
        }
        half /= 2;
    }
    lanes[0].to_bits()
}

struct Columns<'a, F> {
    sums: &'a mut [u32],
    values: &'a [u32],
    f: F,
}

impl<F: Fn(u32, u32) -> u32> WithSimd for Columns<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        for (sum, &value) in self.sums.iter_mut().zip(self.values) {
            *sum = (self.f)(*sum, value);
        }
    }
}

/// Partial results joined pairwise as they come: like a balanced tree, in memory that grows with its height only.
///
/// Each entry is a vector of as many words as the tree is wide.
#[derive(Default)]
pub(super) struct Tree {
    levels: Vec<Vec<u32>>,
    count: usize,
}

impl Tree {
    /// Empties it.
    pub(super) fn clear(&mut self) {
        self.count = 0;
    }

    /// Adds a partial result, which is overwritten.
    pub(super) fn push(&mut self, fold: &Fold, arch: Arch, partial: &mut [u32]) {
        let mut level = 0;
        while self.count >> level & 1 == 1 {
            fold.columns(arch, partial, &self.levels[level][..partial.len()]);
            level += 1;
        }
        if self.levels.len() == level {
            self.levels.push(Vec::new());
        }
        let target = &mut self.levels[level];
        target.clear();
        target.extend_from_slice(partial);
        self.count += 1;
    }

    /// The result of all; the identity if there are none.
    pub(super) fn finish(&self, fold: &Fold, arch: Arch, result: &mut [u32]) {
        result.fill(fold.identity);
        for (level, words) in self.levels.iter().enumerate() {
            if self.count >> level & 1 == 1 {
                fold.columns(arch, result, &words[..result.len()]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_join_rows_as_lanes_do() {
        let arch = Arch::new();
        let values: Vec<u32> = (0..400u32)
            .map(|i| match i % 97 {
                13 => -0.0f32,
                14 => 0.0,
                number => 0.5 + f32::from(number.wrapping_mul(2_654_435_761).to_le_bytes()[1]) / 256.0,
            })
            .map(f32::to_bits)
            .collect();
        for op in [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min] {
            let fold = Fold::new(op, DType::F32);
            for len in [64, 65, 127, 128, 191, 256, 400] {
                let expected = with_join!(fold, |f| in_lanes::<CHUNK>(&values[..len], fold.identity, f));
                assert_eq!(fold.row(arch, &values[..len]), expected, "{op:?} of {len}");
                for place in [0, 40, len - 1] {
                    let mut values = values[..len].to_vec();
                    values[place] = f32::NAN.to_bits();
                    assert!(f32::from_bits(fold.row(arch, &values)).is_nan(), "{op:?} of {len} with NaN at {place}");
                }
            }
        }
    }
}
