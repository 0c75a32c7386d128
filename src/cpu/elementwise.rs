//! One vectorised loop per operation: rows of 32-bit words in, others out.

use half::f16;
use half::slice::HalfFloatSliceExt as _;
use pulp::{Arch, Simd, WithSimd};

use super::ahead::Ahead;
use super::math;
use super::micro::each;
use super::view::{Run, RunMut};
use crate::dtype::DType;
use crate::graph::{Binary, Unary};
use crate::ops::elementwise;

/// Words that are computed together; registers have no fewer, and a splat is one of them.
pub(super) const CHUNK: usize = 64;

/// How a register's bits are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// f32, and f16 computed as f32
    Float,
    /// i32
    Int,
    /// u32, u8, bool
    Word,
}

impl Kind {
    /// How values of `dtype` are computed.
    pub(super) fn of(dtype: DType) -> Self {
        match dtype {
            DType::F32 | DType::F16 => Self::Float,
            DType::I32 => Self::Int,
            DType::U32 | DType::U8 | DType::Bool => Self::Word,
        }
    }
}

/// An operand: rows of one word per element, or of one word that stands for all of a row's elements.
#[derive(Clone, Copy)]
pub(super) enum Arg<'a> {
    /// In a register, rows at this distance.
    Words(&'a [u32], usize),
    /// In a buffer.
    Run(Run),
    /// In a register, a word for each row; of a single one, a chunk of the same.
    Splat(&'a [u32]),
}

impl Arg<'_> {
    /// The word at a point of a row.
    fn word(&self, row: usize, point: usize) -> u32 {
        match self {
            Self::Words(words, pitch) => words[row * pitch + point],
            Self::Run(run) => run.row(row)[point],
            Self::Splat(words) => words[row],
        }
    }
}

/// Rows that are written.
pub(super) enum Target<'a> {
    /// In a register: rows of `len` words, `pitch` apart.
    Words { words: &'a mut [u32], rows: usize, len: usize, pitch: usize },
    /// In a buffer.
    Run(RunMut),
}

impl Target<'_> {
    fn rows(&self) -> usize {
        match self {
            Self::Words { rows, .. } => *rows,
            Self::Run(run) => run.rows(),
        }
    }

    #[inline(always)]
    fn row(&mut self, row: usize) -> &mut [u32] {
        match self {
            Self::Words { words, len, pitch, .. } => &mut words[row * *pitch..][..*len],
            Self::Run(run) => run.row_mut(row),
        }
    }

    fn fill(&mut self, bits: u32) {
        (0..self.rows()).for_each(|row| self.row(row).fill(bits));
    }
}

/// Calls `f(start, chunk)` for the chunks of `target`, at least one. The last one begins where it ends with the target,
/// upon the one before: what is computed twice is the same.
#[inline(always)]
fn for_each_chunk(target: &mut [u32], mut f: impl FnMut(usize, &mut [u32; CHUNK])) {
    let last = target.len() - CHUNK;
    for number in 0..target.len().div_ceil(CHUNK) {
        let start = (number * CHUNK).min(last);
        f(start, (&mut target[start..start + CHUNK]).try_into().expect("a range of CHUNK words"));
    }
}

struct Map<'t, 'm, 'a, const N: usize, F, W> {
    target: &'m mut Target<'t>,
    args: [Arg<'a>; N],
    f: F,
    /// Done with each chunk.
    with_chunk: W,
}

impl<const N: usize, F: Fn([u32; N]) -> u32, W: FnMut()> WithSimd for Map<'_, '_, '_, N, F, W> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let Self { target, args, f, mut with_chunk } = self;
        let mut spread = None;
        for row in 0..target.rows() {
            if target.rows() > 1 {
                let spread = spread.get_or_insert([Splat([0; CHUNK]); N]);
                for (splat, arg) in spread.iter_mut().zip(&args) {
                    if let Arg::Splat(words) = arg {
                        *splat = Splat([words[row]; CHUNK]);
                    }
                }
            }
            // all chunks of a splat begin where the first one does
            let rows: [(&[u32], usize); N] = each(|n| match (&args[n], &spread) {
                (Arg::Splat(_), Some(spread)) => (spread[n].0.as_slice(), 0),
                (Arg::Splat(words), None) => (*words, 0),
                (Arg::Words(words, pitch), _) => (&words[row * pitch..], usize::MAX),
                (Arg::Run(run), _) => (run.row(row), usize::MAX),
            });
            for_each_chunk(target.row(row), |start, target| {
                with_chunk();
                let args: [&[u32; CHUNK]; N] = each(|n| chunk(rows[n].0, start & rows[n].1));
                for (i, value) in target.iter_mut().enumerate() {
                    *value = f(args.map(|arg| arg[i]));
                }
            });
        }
    }
}

/// A word that stands for those of a chunk, on cache lines of its own.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Splat([u32; CHUNK]);

#[inline(always)]
fn chunk(words: &[u32], start: usize) -> &[u32; CHUNK] {
    words[start..start + CHUNK].try_into().expect("a range of CHUNK words")
}

#[inline(always)]
fn float(f: impl Fn(f32) -> f32) -> impl Fn([u32; 1]) -> u32 {
    #[inline(always)]
    move |[a]| f(f32::from_bits(a)).to_bits()
}

#[inline(always)]
fn floats(f: impl Fn(f32, f32) -> f32) -> impl Fn([u32; 2]) -> u32 {
    #[inline(always)]
    move |[a, b]| f(f32::from_bits(a), f32::from_bits(b)).to_bits()
}

#[inline(always)]
fn three(f: impl Fn(f32, f32, f32) -> f32) -> impl Fn([u32; 3]) -> u32 {
    #[inline(always)]
    move |[a, b, c]| f(f32::from_bits(a), f32::from_bits(b), f32::from_bits(c)).to_bits()
}

#[inline(always)]
fn ints(f: impl Fn(i32, i32) -> i32) -> impl Fn([u32; 2]) -> u32 {
    #[inline(always)]
    move |[a, b]| f(a.cast_signed(), b.cast_signed()).cast_unsigned()
}

#[inline(always)]
fn compare_floats(f: impl Fn(f32, f32) -> bool) -> impl Fn([u32; 2]) -> u32 {
    #[inline(always)]
    move |[a, b]| u32::from(f(f32::from_bits(a), f32::from_bits(b)))
}

/// Puts the standard library's value where the argument is too large for ours.
fn patch_far(target: &mut Target<'_>, arg: Arg<'_>, f: fn(f64) -> f64) {
    for row in 0..target.rows() {
        for (number, value) in target.row(row).iter_mut().enumerate() {
            let x = f32::from_bits(arg.word(row, number));
            if x.abs() > math::TRIGONOMETRIC_LIMIT {
                *value = (f(f64::from(x)) as f32).to_bits();
            }
        }
    }
}

/// The larger one; NaN if either is.
#[inline(always)]
pub(super) fn maximum(a: f32, b: f32) -> f32 {
    if a > b || a.is_nan() { a } else { b }
}

/// The smaller one; NaN if either is.
#[inline(always)]
pub(super) fn minimum(a: f32, b: f32) -> f32 {
    if a < b || a.is_nan() { a } else { b }
}

/// True if a function of floats takes so long that [`unary`] fetches meanwhile.
pub(super) fn is_slow(op: Unary) -> bool {
    matches!(
        op,
        Unary::Exp
            | Unary::Expm1
            | Unary::Log
            | Unary::Log1p
            | Unary::Sqrt
            | Unary::Rsqrt
            | Unary::Recip
            | Unary::Tanh
            | Unary::Erf
            | Unary::Sigmoid
    )
}

/// `target = op(a)`, element by element; what takes long fetches some of what is `ahead` meanwhile.
pub(super) fn unary(arch: Arch, (op, kind): (Unary, Kind), target: &mut Target<'_>, a: Arg<'_>, ahead: &mut Ahead) {
    macro_rules! map {
        ($f:expr) => {
            arch.dispatch(Map { target, args: [a], f: $f, with_chunk: || () })
        };
    }
    macro_rules! slow {
        ($f:expr) => {
            arch.dispatch(Map { target, args: [a], f: float($f), with_chunk: || ahead.fetch_some() })
        };
    }
    match (op, kind) {
        (Unary::Neg, Kind::Float) => map!(float(|x| -x)),
        (Unary::Neg, _) => map!(|[x]: [u32; 1]| x.wrapping_neg()),
        (Unary::Abs, Kind::Float) => map!(float(f32::abs)),
        (Unary::Abs, Kind::Int) => map!(|[x]: [u32; 1]| x.cast_signed().wrapping_abs().cast_unsigned()),
        (Unary::Sign, Kind::Int) => map!(|[x]: [u32; 1]| x.cast_signed().signum().cast_unsigned()),
        (Unary::Sign, Kind::Word) => map!(|[x]: [u32; 1]| x.min(1)),
        (Unary::Not, _) => map!(|[x]: [u32; 1]| u32::from(x == 0)),
        (Unary::IsFinite, Kind::Float) => map!(|[x]: [u32; 1]| u32::from(x & 0x7f80_0000 != 0x7f80_0000)),
        (Unary::IsNan, Kind::Float) => map!(|[x]: [u32; 1]| u32::from(x & 0x7fff_ffff > 0x7f80_0000)),
        (Unary::IsFinite, _) => target.fill(1),
        (Unary::IsNan, _) => target.fill(0),
        (Unary::Exp, Kind::Float) => slow!(math::exp),
        (Unary::Expm1, Kind::Float) => slow!(math::expm1),
        (Unary::Log1p, Kind::Float) => slow!(math::log1p),
        (Unary::Log, Kind::Float) => slow!(math::log),
        (Unary::Sqrt, Kind::Float) => slow!(f32::sqrt),
        (Unary::Rsqrt, Kind::Float) => slow!(|x| 1.0 / x.sqrt()),
        (Unary::Recip, Kind::Float) => slow!(|x| 1.0 / x),
        (Unary::Sin, Kind::Float) => {
            map!(float(math::sin));
            patch_far(target, a, f64::sin);
        }
        (Unary::Cos, Kind::Float) => {
            map!(float(math::cos));
            patch_far(target, a, f64::cos);
        }
        (Unary::Tanh, Kind::Float) => slow!(math::tanh),
        (Unary::Erf, Kind::Float) => slow!(math::erf),
        (Unary::Sigmoid, Kind::Float) => slow!(math::sigmoid),
        (Unary::Floor, Kind::Float) => map!(float(f32::floor)),
        (Unary::Ceil, Kind::Float) => map!(float(f32::ceil)),
        (Unary::Round, Kind::Float) => map!(float(f32::round_ties_even)),
        (Unary::Abs | Unary::Floor | Unary::Ceil | Unary::Round, _) => map!(|[x]: [u32; 1]| x),
        // what has nothing faster
        (op, Kind::Float) => {
            let reference = elementwise::unary(op).reference;
            map!(float(|x| reference(f64::from(x)) as f32));
        }
        (op, _) => unreachable!("{op:?} is for floats only"),
    }
}

/// `target = op(a, b)`, element by element, of operands of this kind; a division fetches some of what is `ahead`
/// meanwhile.
pub(super) fn binary(
    arch: Arch,
    (op, kind): (Binary, Kind),
    target: &mut Target<'_>,
    args: [Arg<'_>; 2],
    ahead: &mut Ahead,
) {
    macro_rules! map {
        ($f:expr) => {
            arch.dispatch(Map { target, args, f: $f, with_chunk: || () })
        };
    }
    match (op, kind) {
        (Binary::Add, Kind::Float) => map!(floats(|a, b| a + b)),
        (Binary::Sub, Kind::Float) => map!(floats(|a, b| a - b)),
        (Binary::Mul, Kind::Float) => map!(floats(|a, b| a * b)),
        (Binary::Div, Kind::Float) => {
            let with_chunk = || ahead.fetch_some();
            arch.dispatch(Map { target, args, f: floats(|a, b| a / b), with_chunk });
        }
        (Binary::Rem, Kind::Float) => map!(floats(|a, b| a % b)),
        (Binary::Pow, Kind::Float) => map!(floats(f32::powf)),
        (Binary::Atan2, Kind::Float) => map!(floats(math::atan2)),
        (Binary::Max, Kind::Float) => map!(floats(maximum)),
        (Binary::Min, Kind::Float) => map!(floats(minimum)),
        (Binary::Eq, Kind::Float) => map!(compare_floats(|a, b| a == b)),
        (Binary::Ne, Kind::Float) => map!(compare_floats(|a, b| a != b)),
        (Binary::Lt, Kind::Float) => map!(compare_floats(|a, b| a < b)),
        (Binary::Le, Kind::Float) => map!(compare_floats(|a, b| a <= b)),
        (Binary::Add, _) => map!(|[a, b]: [u32; 2]| a.wrapping_add(b)),
        (Binary::Sub, _) => map!(|[a, b]: [u32; 2]| a.wrapping_sub(b)),
        (Binary::Mul, _) => map!(|[a, b]: [u32; 2]| a.wrapping_mul(b)),
        (Binary::Div, Kind::Int) => map!(ints(|a, b| if b == 0 { 0 } else { a.wrapping_div(b) })),
        (Binary::Div, Kind::Word) => map!(|[a, b]: [u32; 2]| a.checked_div(b).unwrap_or(0)),
        (Binary::Rem, Kind::Int) => map!(ints(|a, b| if b == 0 { 0 } else { a.wrapping_rem(b) })),
        (Binary::Rem, Kind::Word) => map!(|[a, b]: [u32; 2]| a.checked_rem(b).unwrap_or(0)),
        (Binary::Max, Kind::Int) => map!(ints(i32::max)),
        (Binary::Max, Kind::Word) => map!(|[a, b]: [u32; 2]| a.max(b)),
        (Binary::Min, Kind::Int) => map!(ints(i32::min)),
        (Binary::Min, Kind::Word) => map!(|[a, b]: [u32; 2]| a.min(b)),
        (Binary::And, _) => map!(|[a, b]: [u32; 2]| a & b),
        (Binary::Or, _) => map!(|[a, b]: [u32; 2]| a | b),
        (Binary::Xor, _) => map!(|[a, b]: [u32; 2]| a ^ b),
        (Binary::Shl, _) => map!(|[a, b]: [u32; 2]| a << (b & 31)),
        (Binary::Shr, Kind::Int) => map!(|[a, b]: [u32; 2]| (a.cast_signed() >> (b & 31)).cast_unsigned()),
        (Binary::Shr, _) => map!(|[a, b]: [u32; 2]| a >> (b & 31)),
        (Binary::Eq, _) => map!(|[a, b]: [u32; 2]| u32::from(a == b)),
        (Binary::Ne, _) => map!(|[a, b]: [u32; 2]| u32::from(a != b)),
        (Binary::Lt, Kind::Int) => map!(|[a, b]: [u32; 2]| u32::from(a.cast_signed() < b.cast_signed())),
        (Binary::Lt, _) => map!(|[a, b]: [u32; 2]| u32::from(a < b)),
        (Binary::Le, Kind::Int) => map!(|[a, b]: [u32; 2]| u32::from(a.cast_signed() <= b.cast_signed())),
        (Binary::Le, _) => map!(|[a, b]: [u32; 2]| u32::from(a <= b)),
        (Binary::Pow | Binary::Atan2, _) => unreachable!("{op:?} is for floats only"),
    }
}

/// True if [`pair`] computes `second` of what `first` makes of floats.
pub(super) fn are_pair(first: Binary, second: Binary) -> bool {
    let of_sums = matches!(second, Binary::Add | Binary::Sub | Binary::Mul | Binary::Max);
    matches!(first, Binary::Add | Binary::Sub | Binary::Mul) && of_sums || (first, second) == (Binary::Max, Binary::Min)
}

/// `target = ops[1](ops[0](a, b), c)` for floats, element by element, or, if it is `swapped`, `ops[1](c, ops[0](a, b))`: the
/// same roundings as one after the other.
pub(super) fn pair(arch: Arch, (ops, swapped): ([Binary; 2], bool), target: &mut Target<'_>, args: [Arg<'_>; 3]) {
    macro_rules! map {
        ($f:expr) => {
            arch.dispatch(Map { target, args, f: three($f), with_chunk: || () })
        };
    }
    macro_rules! of {
        ($op:tt) => {
            match (ops[1], swapped) {
                (Binary::Add, _) => map!(|a, b, c| (a $op b) + c),
                (Binary::Mul, _) => map!(|a, b, c| (a $op b) * c),
                (Binary::Sub, false) => map!(|a, b, c| (a $op b) - c),
                (Binary::Sub, true) => map!(|a, b, c| c - (a $op b)),
                (Binary::Max, false) => map!(|a, b, c| maximum(a $op b, c)),
                (Binary::Max, true) => map!(|a, b, c| maximum(c, a $op b)),
                _ => unreachable!("{ops:?} are no pair"),
            }
        };
    }
    match ops[0] {
        Binary::Add => of!(+),
        Binary::Sub => of!(-),
        Binary::Mul => of!(*),
        _ if swapped => map!(|a, b, c| minimum(c, maximum(a, b))),
        _ => map!(|a, b, c| minimum(maximum(a, b), c)),
    }
}

/// `target = condition ? a : b`, element by element.
pub(super) fn select(arch: Arch, target: &mut Target<'_>, condition: Arg<'_>, a: Arg<'_>, b: Arg<'_>) {
    let f = |[c, a, b]: [u32; 3]| if c != 0 { a } else { b };
    arch.dispatch(Map { target, args: [condition, a, b], f, with_chunk: || () });
}

/// f32 bits rounded to f16 and back.
fn round(bits: &mut [u32]) {
    let mut halves = [f16::ZERO; 64];
    for bits in bits.chunks_mut(halves.len()) {
        let halves = &mut halves[..bits.len()];
        halves.convert_from_f32_slice(bytemuck::cast_slice(bits));
        halves.convert_to_f32_slice(bytemuck::cast_slice_mut(bits));
    }
}

/// `target = a as to`, element by element.
pub(super) fn cast(arch: Arch, from: Kind, to: DType, target: &mut Target<'_>, a: Arg<'_>) {
    macro_rules! map {
        ($f:expr) => {
            arch.dispatch(Map { target, args: [a], f: $f, with_chunk: || () })
        };
    }
    match (from, to) {
        (Kind::Float, DType::F32) => map!(|[x]: [u32; 1]| x),
        (Kind::Int, DType::F32) => map!(|[x]: [u32; 1]| (x.cast_signed() as f32).to_bits()),
        (Kind::Word, DType::F32) => map!(|[x]: [u32; 1]| (x as f32).to_bits()),
        (_, DType::F16) => {
            cast(arch, from, DType::F32, target, a);
            (0..target.rows()).for_each(|row| round(target.row(row)));
        }
        (Kind::Float, DType::I32) => map!(|[x]: [u32; 1]| (f32::from_bits(x) as i32).cast_unsigned()),
        (Kind::Float, DType::U32) => map!(|[x]: [u32; 1]| f32::from_bits(x) as u32),
        (Kind::Float, DType::U8) => map!(|[x]: [u32; 1]| u32::from(f32::from_bits(x) as u8)),
        (Kind::Float, DType::Bool) => map!(|[x]: [u32; 1]| u32::from(f32::from_bits(x) != 0.0)),
        (_, DType::I32 | DType::U32) => map!(|[x]: [u32; 1]| x),
        (_, DType::U8) => map!(|[x]: [u32; 1]| x & 0xff),
        (_, DType::Bool) => map!(|[x]: [u32; 1]| u32::from(x != 0)),
    }
}
