//! A plan as data: kernels over numbered buffers. Nothing here names a GPU type; both executors run it.

use std::ops::Range;
use std::sync::Arc;

use crate::dtype::{DType, Scalar};
use crate::graph::{Binary, ReduceOp, Unary};
use crate::matmul_precision::MatmulPrecision;
use crate::shape::Shape;
use crate::stage::Stage;

use super::index::{Cond, Ix};
use super::routine::Routine;

/// Number of a buffer in [`Plan::buffers`].
pub type BufferId = usize;
/// Number of an instruction in its [`Tape`], and of the value it defines.
pub type ValueId = usize;

/// What to run, in which order, over which memory.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The buffers that kernels name by number.
    pub buffers: Vec<Buffer>,
    /// The kernels in execution order.
    pub kernels: Vec<Kernel>,
    /// Ranges of `kernels` without dependencies among them; they cover it in order.
    pub waves: Vec<Range<usize>>,
    /// Bytes of each memory slot that the executor has to provide.
    pub slots: Vec<u64>,
    /// Number of externally provided storages ([`Place::External`]).
    pub externals: usize,
    /// Number of 32-bit host values ([`InstrOp::Uniform`]).
    pub uniforms: usize,
    /// Bytes of the largest set of slot-held buffers alive at once in this order.
    pub live_peak_bytes: u64,
    /// True if sizes should be written into kernels as constants (captured steps), false for one-off work, where
    /// kernels are shared between sizes.
    pub literal_sizes: bool,
    /// Gaps in plan-owned buffers: elements that no kernel writes and that read as zero. They are cleared once, when
    /// memory is provided, and no other buffer has them.
    pub zeroed: Vec<(BufferId, Range<usize>)>,
    /// Structural hash of the program this was made from.
    pub key: u64,
    /// Pairs of kernels that were not fused, and why: (first, second, reason).
    pub apart: Vec<(String, String, &'static str)>,
    /// Values that kernels write to memory, and why: (value, reason).
    pub stored: Vec<(String, String)>,
}

/// A piece of memory holding elements of one type.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// The elements' type.
    pub dtype: DType,
    /// Elements a kernel may touch, from `offset_bytes` on.
    pub elements: usize,
    /// What it lies in.
    pub place: Place,
    /// Its first byte there, a multiple of 256; of an external storage it is 0.
    pub offset_bytes: u64,
    /// For messages and dumps.
    pub label: String,
}

impl Buffer {
    /// Bytes of its elements.
    pub const fn bytes(&self) -> u64 {
        (self.elements * self.dtype.size_bytes()) as u64
    }

    /// Its bytes in what it lies in.
    pub const fn range(&self) -> Range<u64> {
        self.offset_bytes..self.offset_bytes + self.bytes()
    }

    /// The bytes of some of its elements in what it lies in.
    pub const fn bytes_of(&self, elements: Range<usize>) -> Range<u64> {
        let size = self.dtype.size_bytes();
        let [start, end] = [(elements.start * size) as u64, (elements.end * size) as u64];
        self.offset_bytes + start..self.offset_bytes + end
    }
}

/// What a buffer lies in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Place {
    /// Storage given at binding: parameters, data, inputs, outputs. Two buffers never name the same one.
    External(usize),
    /// A slot of the plan's own memory. Buffers that share a slot lie in different parts of it, or are never alive
    /// together.
    Slot(usize),
}

/// One launch.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// `family.op[shape]`, for timings, traces and errors.
    pub label: String,
    /// The stage it belongs to.
    pub stage: Stage,
    /// What it does.
    pub body: Body,
    /// The program's nodes whose values it stores.
    pub nodes: Vec<usize>,
    /// Element type and shape of each of these values.
    pub values: Vec<(DType, Shape)>,
    /// Paths of the modules whose work it does, in the order of that work; for reports.
    pub modules: Vec<Arc<str>>,
    /// Buffers it reads, without repetition.
    pub reads: Vec<BufferId>,
    /// Buffers it writes, without repetition. One that is also in `reads` is updated in place: every element is read
    /// only by the invocation that writes it, before it writes.
    pub writes: Vec<BufferId>,
    /// Arithmetic operations, for cost and reports.
    pub flops: u64,
    /// Bytes read and written once each, for cost and reports.
    pub bytes: u64,
}

/// The kinds of kernels.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Body {
    /// Elementwise work and reductions.
    Loop(LoopKernel),
    /// A contraction with its prologues and epilogue.
    Contract(ContractKernel),
    /// Work that has loops of its own, such as sorting, sums over segments, scans and attention, or is an application's.
    Routine(Routine),
}

/// Elementwise work and reductions over one iteration space.
///
/// The space has `outer` leading axes, whose points are independent, and inner axes, over which each outer point's
/// *row* runs. Phases run in order for each outer point. A map has no inner axes and one `Outer` phase; a reduction has
/// an `Inner` phase with reductions and an `Outer` phase that stores them; softmax has three `Inner` phases.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LoopKernel {
    /// Sizes of the axes: outer ones, then inner ones. Index expressions count axes in this order.
    pub axes: Vec<usize>,
    /// How many of `axes` are outer.
    pub outer: usize,
    /// What happens at each outer point, in order.
    pub phases: Vec<Phase>,
}

/// One sweep over a row, or one evaluation at its outer point.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Phase {
    /// Over which axes it runs.
    pub level: Level,
    /// What is computed at each point. Values do not carry over between phases; [`InstrOp::Reduced`] does.
    pub tape: Tape,
    /// (operation, value) accumulated over the row; `Inner` only. Numbered on through all phases of the kernel.
    pub reductions: Vec<(ReduceOp, ValueId)>,
    /// What is written at each point.
    pub stores: Vec<Store>,
}

/// Over which axes a phase runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Level {
    /// Once for each outer point.
    Outer,
    /// Once for each point of each row.
    Inner,
}

/// A contraction: `out[b, m, n] = epilogue(Σ_k lhs[b, m, k] · rhs[b, k, n])`, each letter any number of axes.
///
/// Axes are numbered batch, m, n, k in all index expressions. The operand tapes run at (batch, m, k) and (batch, k, n);
/// the epilogue at (batch, m, n), where [`InstrOp::Accumulator`] is the sum.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ContractKernel {
    /// Sizes of the axes: batch, m, n, k.
    pub axes: Vec<usize>,
    /// How many of `axes` belong to batch, m, n and k.
    pub counts: [usize; 4],
    /// First operand; `(tape, value)`.
    pub lhs: (Tape, ValueId),
    /// Second operand.
    pub rhs: (Tape, ValueId),
    /// What happens to each sum.
    pub epilogue: Tape,
    /// What is written at each (batch, m, n).
    pub stores: Vec<Store>,
    /// Type of the accumulator: f32, i32 or u32.
    pub accumulator: DType,
    /// Of products of f32; others are exact.
    pub precision: MatmulPrecision,
}

/// Invocations that hide from a large GPU what each of them waits for, 16 warps on each core of an H200.
const SHARING_INVOCATIONS: usize = 1 << 16;
/// Invocations that share a sum at the most: one workgroup's.
const MAX_SHARES: usize = 64;
/// Products from which on a contraction is computed in tiles, which read less for each.
const MANY_PRODUCTS: usize = 1 << 23;

/// Invocations of a GPU that share each sum of a contraction over `inner` values of k, a power of two: more than one
/// where results, each invocation with four, are too few to keep it busy. Each adds up every so many fours of values,
/// and a tree joins them, so that this fixes the order of a sum.
pub(crate) fn shares_of_sum(results: usize, inner: usize) -> usize {
    let most = (SHARING_INVOCATIONS / results.div_ceil(4).max(1)).min(inner / 4).min(MAX_SHARES);
    if most < 2 || results.saturating_mul(inner) > MANY_PRODUCTS { 1 } else { 1 << most.ilog2() }
}

impl ContractKernel {
    /// Products of the axes' sizes: (batch, m, n, k).
    pub fn sizes(&self) -> [usize; 4] {
        let mut axes = self.axes.iter();
        self.counts.map(|count| axes.by_ref().take(count).product())
    }

    /// The type of what it multiplies, and how exactly it does so.
    pub fn products(&self) -> (DType, MatmulPrecision) {
        let is_half = |(tape, value): &(Tape, ValueId)| tape.instrs[*value].dtype == DType::F16;
        let dtype = if is_half(&self.lhs) && is_half(&self.rhs) { DType::F16 } else { self.accumulator };
        (dtype, self.precision)
    }

    /// The range of axis numbers of group 0 (batch), 1 (m), 2 (n) or 3 (k).
    pub fn group(&self, group: usize) -> Range<usize> {
        let start: usize = self.counts[..group].iter().sum();
        start..start + self.counts[group]
    }
}

/// A write of one value per point: `buffer[index] = value`. Different points write different elements.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Store {
    /// Where to.
    pub buffer: BufferId,
    /// Element number; never negative, always below the buffer's `elements`.
    pub index: Ix,
    /// What; its dtype is the buffer's.
    pub value: ValueId,
}

/// Straight-line code in single assignment: instruction `i` defines value `i` from earlier ones.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Tape {
    /// The instructions in order.
    pub instrs: Vec<Instr>,
}

/// One instruction.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Instr {
    /// What it computes.
    pub op: InstrOp,
    /// The type of its value. In registers f16 is f32, u8 is u32; rounding to f16 happens at `Cast` and `Store`.
    pub dtype: DType,
}

/// What an instruction computes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum InstrOp {
    /// A literal.
    Const(Scalar),
    /// The 32 bits of host value number n, read as the instruction's dtype.
    Uniform(usize),
    /// An index expression as a number (i32 or u32).
    Coord(Ix),
    /// Whether all conditions hold (bool).
    Valid(Vec<Cond>),
    /// `buffer[index]` where all conditions hold, else 0; the index is in bounds where they hold and must not be used
    /// where they do not.
    Load {
        /// Where from.
        buffer: BufferId,
        /// Element number.
        index: Ix,
        /// When it may be read.
        valid: Vec<Cond>,
    },
    /// `buffer[base + stride · value]` where all conditions hold, else 0; `value` has passed `CheckIndex`.
    Gather {
        /// Where from.
        buffer: BufferId,
        /// Element number but for the data-dependent part.
        base: Ix,
        /// Elements between neighbours of the indexed axis.
        stride: i64,
        /// The checked index.
        value: ValueId,
        /// When it may be read.
        valid: Vec<Cond>,
    },
    /// One operand.
    Unary(Unary, ValueId),
    /// Two operands of the same type.
    Binary(Binary, ValueId, ValueId),
    /// `condition ? a : b`.
    Select(ValueId, ValueId, ValueId),
    /// Conversion as Rust's `as`; to bool: `!= 0`; to f16: rounds.
    Cast(ValueId),
    /// The same bits (f32, i32, u32).
    Bitcast(ValueId),
    /// The value (i32 or u32) clamped to `0..bound`; outside, the status word becomes the larger of itself and `site`.
    CheckIndex {
        /// The index.
        value: ValueId,
        /// Must be below it.
        bound: usize,
        /// Registered number of the op and line, not 0.
        site: u32,
    },
    /// 32 random bits: lane `counter % 4` of Philox 4x32-10 with counter words (counter / 4, stream, position, 0) and
    /// key words (seed, 0).
    Random {
        /// Element number.
        counter: Ix,
        /// Ordinal of the draw.
        stream: u32,
        /// u32 value.
        seed: ValueId,
        /// u32 value.
        position: ValueId,
    },
    /// The result of the kernel's reduction number n, in phases after the one that computes it.
    Reduced(usize),
    /// The contraction's sum, in its epilogue.
    Accumulator,
}
