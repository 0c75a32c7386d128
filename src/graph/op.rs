//! The small set of operations a graph is made of. Payloads hold parameters, never tensors.

use std::sync::Arc;

use smallvec::SmallVec;
use strum::IntoStaticStr;

use crate::custom::Invocation;
use crate::dtype::Scalar;

/// What a node computes from its inputs.
#[derive(Clone, PartialEq, Eq, Hash, Debug, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Op {
    /// Memory that exists already: data, a variable, a step's input. The node's source says which.
    Leaf,
    /// A host value that may change between replays without changing the plan.
    Uniform,
    /// The same value everywhere; takes no memory.
    Const(Scalar),
    /// The coordinate along `axis`.
    Iota {
        /// The axis that counts.
        axis: usize,
    },
    /// One input, element by element.
    Unary(Unary),
    /// Two inputs of the same shape and type, element by element; comparisons yield bool.
    Binary(Binary),
    /// `condition ? a : b`, element by element; inputs are (condition: bool, a, b).
    Select,
    /// The same value in the node's own dtype (Rust's `as`; to bool: `!= 0`).
    Cast,
    /// The same bits in the node's own dtype of the same width (f32, i32, u32).
    Bitcast,
    /// An index clamped to `0..bound`; one outside sets the device's status word.
    CheckIndex {
        /// The method that was given the index, for the error.
        name: &'static str,
        /// Indices must be below it.
        bound: usize,
    },
    /// The same elements in row-major order under another shape.
    Reshape,
    /// Elements found through an affine index map.
    View(View),
    /// Sums, products, extrema over `axes`, which stay as axes of size 1.
    Reduce {
        /// The operation.
        op: ReduceOp,
        /// Ascending axes.
        axes: Vec<usize>,
    },
    /// Sum of products over shared axes: matrix product and convolution.
    Contract(Contract),
    /// `out[.., i.., ..] = x[.., index[i..], ..]`; inputs are (x, index: u32 or i32, already checked). The index's
    /// shape takes the place of `axis`.
    Gather {
        /// The axis of `x` that is indexed.
        axis: usize,
    },
    /// Sorts u32 keys in rows of `length` elements: every run of `run` elements of a row (the last may be shorter)
    /// ascends, and equal keys stay in order. The output is one vector: all sorted keys, then each one's former place
    /// in its row.
    Sort(Runs),
    /// What [`Op::Sort`] yields with runs twice as long, from what it yields with these.
    Merge(Runs),
    /// How many elements of a row come before each query: u32, by bisection. Inputs are (rows of `length` ascending u32
    /// elements, queries: u32); what follows the rows in the first input is not looked at.
    Search(Search),
    /// `out[s, c] = values[row(p), c]` reduced over `starts[s] <= p < starts[s + 1]`, one by one from the first.
    /// Inputs are (values, starts: u32, ascending) and maybe pairs as [`Op::Sort`] yields: then `row(p)` is where key `p`
    /// came from, else `p`. Shapes are free; all is row-major.
    Segments(Segments),
    /// All elements up to each place along `axis`, joined. Blocks begin anew. Inputs are the values and maybe what each
    /// block begins with, in the values' shape but for as many elements along `axis` as there are blocks. Values
    /// are f32, i32 or u32.
    Scan {
        /// The operation.
        op: ReduceOp,
        /// The axis.
        axis: usize,
        /// Elements of a block; with as many as there are, or more, nothing begins anew.
        block: usize,
        /// True for results of each element and those behind it.
        reverse: bool,
    },
    /// 32 random bits (u32) per element, a function of (seed, position, `stream`, element number): Philox 4x32-10.
    /// Inputs are two u32 tensors of shape `[]`: (seed, position).
    Random {
        /// Ordinal of the draw within its step; two draws are never merged.
        stream: u32,
    },
    /// The inputs, flattened, at `offsets` of one vector of `len` elements; the gaps are zero. Producers write in
    /// place.
    Pack {
        /// First element of each input.
        offsets: Vec<usize>,
        /// Elements in all.
        len: usize,
    },
    /// A part of attention, without the scores in memory. All is f32, row-major, its shapes are free.
    Attention(Attention),
    /// A kernel of the application's, on whole values.
    Kernel(Arc<Invocation>),
    /// The first input, unchanged, but not computed before the second one is: recomputation waits for its gradient.
    After,
    /// The first input, unchanged; carries a gradient rule of its own. Removed before planning.
    Custom,
    /// The input, unchanged; stops gradients. Removed before planning.
    Detach,
}

/// Rows of keys, and the runs of each that ascend.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Runs {
    /// Elements of a row.
    pub length: usize,
    /// Elements of a run, the last of a row may have fewer; with `length`, or more, a row is one run.
    pub run: usize,
}

/// Rows that are looked into.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Search {
    /// Elements of a row.
    pub length: usize,
    /// Queries that look into one row, before they move on to the next.
    pub queries: usize,
    /// True if elements equal to the query come before it.
    pub right: bool,
}

/// What is done with the rows of each segment.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Segments {
    /// The operation.
    pub op: ReduceOp,
    /// Elements of a row of values, and of the output.
    pub width: usize,
    /// No segment is longer.
    pub longest: usize,
    /// Keys of a row of the pairs.
    pub keys: usize,
}

/// `softmax(scale · q kᵀ) v` of each head, or its gradients: sizes that all parts share, and which one it is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Attention {
    /// What is computed.
    pub part: AttentionPart,
    /// Pairs of queries' and keys' matrices; batches of them count as heads, too.
    pub heads: usize,
    /// Queries of a head.
    pub queries: usize,
    /// Keys of a head, and values.
    pub keys: usize,
    /// Elements of a query and of a key.
    pub features: usize,
    /// Elements of a value and of an output.
    pub outputs: usize,
    /// f32; what products of queries and keys are multiplied by.
    pub scale: Scalar,
    /// True if a query sees the keys at its own place and before only, the last query all of them; there are no fewer
    /// keys than queries.
    pub causal: bool,
}

/// The parts of attention. Inputs are (queries, keys, values), and for gradients what `Forward` yields and the gradient
/// of its outputs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AttentionPart {
    /// One vector: the outputs, then for each query the logarithm of the sum of its scores' exponentials.
    Forward,
    /// The gradient by the queries.
    Queries,
    /// One vector: the gradient by the keys, then that by the values.
    KeysAndValues,
}

/// Operations of one input.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Unary {
    /// `-x`
    Neg,
    /// `|x|`
    Abs,
    /// -1, 0 or 1; NaN stays.
    Sign,
    /// `e^x`
    Exp,
    /// `e^x - 1`
    Expm1,
    /// natural logarithm
    Log,
    /// `ln(1 + x)`
    Log1p,
    /// square root
    Sqrt,
    /// `1/sqrt(x)`
    Rsqrt,
    /// `1/x`
    Recip,
    /// sine
    Sin,
    /// cosine
    Cos,
    /// hyperbolic tangent
    Tanh,
    /// error function
    Erf,
    /// `1/(1+e^-x)`
    Sigmoid,
    /// largest integer not above
    Floor,
    /// smallest integer not below
    Ceil,
    /// nearest integer, ties to even
    Round,
    /// logical not of a bool
    Not,
    /// bool: neither NaN nor infinite, judged by bits
    IsFinite,
    /// bool: NaN, judged by bits
    IsNan,
}

/// Operations of two inputs of one type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Binary {
    /// `a + b`; bool: or
    Add,
    /// `a - b`
    Sub,
    /// `a * b`; bool: and
    Mul,
    /// `a / b`; integers truncate, by zero: 0
    Div,
    /// remainder with the sign of `a` (Rust's `%`); integers by zero: 0
    Rem,
    /// `a^b`, floats only; as C's powf
    Pow,
    /// angle of the point (b, a), floats only; as C's atan2f
    Atan2,
    /// larger one; NaN if either is
    Max,
    /// smaller one; NaN if either is
    Min,
    /// bitwise and
    And,
    /// bitwise or
    Or,
    /// bitwise exclusive or
    Xor,
    /// `a << (b & 31)`, integers
    Shl,
    /// `a >> (b & 31)`, integers; arithmetic for i32
    Shr,
    /// `a == b` → bool
    Eq,
    /// `a != b` → bool
    Ne,
    /// `a < b` → bool
    Lt,
    /// `a <= b` → bool
    Le,
}

impl Binary {
    /// True for those whose result is bool whatever the inputs are.
    pub const fn is_comparison(self) -> bool {
        matches!(self, Self::Eq | Self::Ne | Self::Lt | Self::Le)
    }

    /// True if the inputs may be exchanged.
    pub const fn is_commutative(self) -> bool {
        matches!(
            self,
            Self::Add | Self::Mul | Self::Max | Self::Min | Self::And | Self::Or | Self::Xor | Self::Eq | Self::Ne
        )
    }
}

/// What a reduction does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, IntoStaticStr)]
#[strum(serialize_all = "lowercase", prefix = "reduce_")]
pub enum ReduceOp {
    /// sum; bool: any
    Sum,
    /// product; bool: all
    Prod,
    /// largest; NaN if any is
    Max,
    /// smallest; NaN if any is
    Min,
}

impl ReduceOp {
    /// What joins two values.
    pub const fn join(self) -> Binary {
        match self {
            Self::Sum => Binary::Add,
            Self::Prod => Binary::Mul,
            Self::Max => Binary::Max,
            Self::Min => Binary::Min,
        }
    }

    /// The value that changes nothing, for `dtype`.
    pub fn identity(self, dtype: crate::DType) -> Scalar {
        use crate::DType as D;
        let value = match (self, dtype) {
            (Self::Sum, _) => 0.0,
            (Self::Prod, _) => 1.0,
            (Self::Max, D::F32 | D::F16) => f64::NEG_INFINITY,
            (Self::Min, D::F32 | D::F16) => f64::INFINITY,
            (Self::Max, D::I32) => f64::from(i32::MIN),
            (Self::Min, D::I32) => f64::from(i32::MAX),
            (Self::Max, _) => 0.0,
            (Self::Min, D::U32) => f64::from(u32::MAX),
            (Self::Min, D::U8) => 255.0,
            (Self::Min, D::Bool) => 1.0,
        };
        Scalar::new(dtype, value)
    }
}

/// An affine index map: which element of the input each element of the output is.
///
/// Input coordinate `d` is `(Σ coefficient · output coordinate + offset) / divisor`. Where that is not a whole number
/// or lies outside the input, the element is `fill`. Permuting, expanding, slicing, flipping, padding, sliding windows
/// and their adjoints are all of this form.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct View {
    /// One for each axis of the input.
    pub dims: Vec<Dim>,
    /// The element outside.
    pub fill: Scalar,
}

impl Op {
    /// True for those that only move their input.
    pub const fn is_move(&self) -> bool {
        matches!(self, Self::View(_) | Self::Reshape)
    }
}

impl View {
    /// Of so many output points, one has whole coordinates; the others are `fill`.
    pub fn holes(&self) -> usize {
        self.dims.iter().map(|dim| usize::try_from(dim.divisor).unwrap_or(1)).product()
    }
}

/// One input coordinate of a [`View`]. An output axis may occur in several of them (in gradients of windows).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Dim {
    /// (output axis, coefficient), no coefficient zero.
    pub terms: Vec<(usize, i64)>,
    /// Added to the terms.
    pub offset: i64,
    /// Divides the sum; at least 1.
    pub divisor: i64,
}

impl Dim {
    /// The coordinate along output axis `axis`, as it is.
    pub fn axis(axis: usize) -> Self {
        Self { terms: vec![(axis, 1)], offset: 0, divisor: 1 }
    }

    /// Always `offset`.
    pub fn constant(offset: i64) -> Self {
        Self { terms: Vec::new(), offset, divisor: 1 }
    }
}

/// A contraction (einsum of two operands): every axis of an operand has a label; no label twice in one operand.
///
/// In both operands and the output: batch; in one operand and the output: rows or columns; in both operands only:
/// summed. Accumulates in f32 (i32, u32 for integers), in an order fixed by shapes and device.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Contract {
    /// Labels of the first input's axes.
    pub lhs: Labels,
    /// Labels of the second input's axes.
    pub rhs: Labels,
    /// Labels of the output's axes.
    pub out: Labels,
}

/// The labels of an operand's axes; few need a heap.
pub type Labels = SmallVec<[u8; 16]>;
