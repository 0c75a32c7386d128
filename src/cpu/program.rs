//! Tapes made ready to run over strips: index expressions as linear forms, values in few registers.

use crate::dtype::DType;
use crate::graph::{Binary, Unary};
use crate::plan::{BufferId, Cond, InstrOp, Ix, Store, Tape, ValueId};

use super::access::Access;
use super::compile::register_bits;
use super::elementwise::Kind;
use super::space::Space;

/// Where a value lies while a strip is computed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    /// Number of the register.
    pub(super) slot: usize,
    /// True if one chunk stands for all elements.
    pub(super) splat: bool,
}

/// A tape over a space, with what it writes.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) space: Space,
    /// What is the same at all points of a run, in registers that nothing else is put into.
    pub(super) constants: Vec<Step>,
    pub(super) steps: Vec<Step>,
    pub(super) stores: Vec<(Access, Operand)>,
    /// The constant that says whether anything is computed and stored at all.
    pub(super) gate: Option<usize>,
    /// The store whose value the last step may compute where it belongs.
    pub(super) written_in_place: Option<usize>,
    /// The values asked for at compilation, in that order.
    pub(super) results: Vec<Operand>,
    /// Registers needed.
    pub(super) slots: usize,
    /// True if it can run over several fixed points at once.
    pub(super) has_planes: bool,
}

/// One instruction.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) target: Operand,
    pub(super) action: Action,
    /// What it loads may stay in memory, and one word may stand for all: it is neither needed any more when something
    /// is written, nor word by word.
    pub(super) may_stay: bool,
    /// It has one word for each of the strip's rows instead of each of its points.
    pub(super) per_row: bool,
}

/// What a step computes.
#[derive(Clone, Debug)]
pub(super) enum Action {
    Const(u32),
    Uniform(usize),
    Coord(Access),
    Valid(Access),
    Load(Access),
    Gather {
        access: Access,
        stride: i64,
        value: Operand,
    },
    Unary(Unary, Kind, Operand),
    Binary(Binary, Kind, Operand, Operand),
    /// `ops[1]` of `ops[0]` of the first two operands and the third one, or the other way round.
    Pair {
        ops: [Binary; 2],
        operands: [Operand; 3],
        swapped: bool,
    },
    Select(Operand, Operand, Operand),
    Cast(Kind, DType, Operand),
    Copy(Operand),
    CheckIndex {
        value: Operand,
        signed: bool,
        bound: u32,
        site: u32,
    },
    Random {
        access: Access,
        stream: u32,
        seed: Operand,
        position: Operand,
    },
    Reduced(usize),
    /// A value with one word for each row, at all points.
    Spread(Operand),
    Accumulator,
}

/// All index expressions of a tape and its stores.
pub(super) fn expressions<'a>(tape: &'a Tape, stores: &'a [Store]) -> Vec<&'a Ix> {
    let mut found = Vec::new();
    for instr in &tape.instrs {
        match &instr.op {
            InstrOp::Coord(ix) | InstrOp::Random { counter: ix, .. } => found.push(ix),
            InstrOp::Valid(conditions) => found.extend(conditions.iter().map(Cond::value)),
            InstrOp::Load { index, valid, .. } | InstrOp::Gather { base: index, valid, .. } => {
                found.push(index);
                found.extend(valid.iter().map(Cond::value));
            }
            _ => {}
        }
    }
    found.extend(stores.iter().map(|store| &store.index));
    found
}

/// A tape that is no more than one load of f32 at places that depend on the axes alone, each at one stride, or that and
/// a constant where there is nothing to load.
pub(super) struct LoneLoad<'a> {
    pub(super) buffer: BufferId,
    /// For each axis.
    pub(super) strides: Vec<i64>,
    pub(super) offset: i64,
    pub(super) valid: &'a [Cond],
    /// The bits of what it is where `valid` does not hold.
    pub(super) elsewhere: u32,
}

impl<'a> LoneLoad<'a> {
    /// `value` of `tape` over so many axes, if it is one.
    pub(super) fn new((tape, value): (&'a Tape, ValueId), rank: usize, dtypes: &[DType]) -> Option<Self> {
        let op = |number: usize| &tape.instrs[number].op;
        let (load, elsewhere) = match *op(value) {
            InstrOp::Load { .. } if tape.instrs.len() == 1 => (value, 0),
            InstrOp::Select(condition, load, other) if tape.instrs.len() == 4 => {
                match (op(condition), op(load), op(other)) {
                    (InstrOp::Valid(tested), InstrOp::Load { valid, .. }, InstrOp::Const(other)) if tested == valid => {
                        (load, register_bits(*other))
                    }
                    _ => return None,
                }
            }
            _ => return None,
        };
        let InstrOp::Load { buffer, ref index, ref valid } = *op(load) else { return None };
        let (strides, offset) = index.affine(rank)?;
        (dtypes[buffer] == DType::F32).then_some(Self { buffer, strides, offset, valid, elsewhere })
    }
}

/// How far point number `point` of axes, given by size and stride, lies from the first one.
pub(super) fn distance(mut point: usize, axes: &[(usize, i64)]) -> i64 {
    let mut distance = 0;
    for &(size, stride) in axes.iter().rev() {
        distance += stride * (point % size) as i64;
        point /= size;
    }
    distance
}

impl Action {
    /// True if a vector loop computes it.
    pub(super) fn is_loop(&self) -> bool {
        matches!(
            self,
            Self::Unary(..) | Self::Binary(..) | Self::Pair { .. } | Self::Select(..) | Self::Cast(..) | Self::Copy(_)
        )
    }

    /// What a vector loop reads.
    pub(super) fn operands(&self) -> impl Iterator<Item = Operand> {
        let operands = match *self {
            Self::Unary(_, _, a) | Self::Cast(_, _, a) => [Some(a), None, None],
            Self::Binary(_, _, a, b) => [Some(a), Some(b), None],
            Self::Select(c, a, b) => [Some(c), Some(a), Some(b)],
            Self::Pair { operands, .. } => operands.map(Some),
            _ => [None; 3],
        };
        operands.into_iter().flatten()
    }
}

impl Program {
    /// Rough nanoseconds per element that reading takes.
    pub(super) fn read_cost(&self) -> f64 {
        let costs = self.steps.iter().filter_map(|step| match &step.action {
            Action::Load(access) | Action::Gather { access, .. } if !step.target.splat => {
                Some(access.read_cost(self.space.row()))
            }
            _ => None,
        });
        costs.sum()
    }
}
