//! Tapes made ready to run over strips: index expressions as linear forms, values in few registers.

use crate::dtype::{DType, Scalar};
use crate::graph::{Binary, Unary};
use crate::plan::{Cond, InstrOp, Ix, Store, Tape, ValueId};

use super::access::Access;
use super::elementwise::Kind;
use super::joined::Part;
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
    pub(super) steps: Vec<Step>,
    pub(super) stores: Vec<(Access, Operand)>,
    /// The store whose value the last step may compute where it belongs.
    pub(super) written_in_place: Option<usize>,
    /// The values asked for at compilation, in that order.
    pub(super) results: Vec<Operand>,
    /// Registers needed.
    pub(super) slots: usize,
}

/// One instruction.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) target: Operand,
    pub(super) action: Action,
    /// What it loads may stay in memory, and one word may stand for all: it is neither needed any more when something is
    /// written, nor word by word.
    pub(super) may_stay: bool,
}

/// What a step computes.
#[derive(Clone, Debug)]
pub(super) enum Action {
    Const(u32),
    Uniform(usize),
    Coord(Access),
    Valid(Access),
    Load(Access),
    Gather { access: Access, stride: i64, value: Operand },
    Unary(Unary, Kind, Operand),
    Binary(Binary, Kind, Operand, Operand),
    Select(Operand, Operand, Operand),
    Cast(Kind, DType, Operand),
    Copy(Operand),
    CheckIndex { value: Operand, signed: bool, bound: u32, site: u32 },
    Random { access: Access, stream: u32, seed: Operand, position: Operand },
    Reduced(usize),
    Accumulator,
}

/// The bits of a literal in a register.
pub(super) fn register_bits(scalar: Scalar) -> u32 {
    match scalar.dtype {
        DType::F16 => (scalar.to_f64() as f32).to_bits(),
        _ => scalar.bits,
    }
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

/// On bool, arithmetic is logic.
fn on_dtype(op: Binary, dtype: DType) -> Binary {
    match (dtype, op) {
        (DType::Bool, Binary::Add | Binary::Max) => Binary::Or,
        (DType::Bool, Binary::Mul | Binary::Min) => Binary::And,
        (DType::Bool, Binary::Sub) => Binary::Xor,
        _ => op,
    }
}

/// Registers given out and taken back.
#[derive(Default)]
struct Slots {
    free: Vec<usize>,
    count: usize,
}

impl Slots {
    fn take(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.count += 1;
            self.count - 1
        })
    }
}

impl Program {
    /// `tape` over the axes `fixed` and `walked` of `axes`, keeping the values `results`. `dtypes` are the buffers'.
    pub(super) fn new(
        axes: &[usize],
        walk: (&[usize], &[usize]),
        tape: &Tape,
        stores: &[Store],
        results: &[ValueId],
        dtypes: &[DType],
    ) -> Self {
        let part = Part { end: tape.instrs.len(), stores: stores.to_vec(), results: results.to_vec() };
        Self::of_parts(axes, walk, (tape, &[part]), 0, dtypes).remove(0)
    }

    /// The parts of `tape`, which run one after the other over the same strip: later ones read what earlier ones have left in
    /// registers. The first `taken` registers are others'.
    pub(super) fn of_parts(
        axes: &[usize],
        (fixed, walked): (&[usize], &[usize]),
        (tape, parts): (&Tape, &[Part]),
        taken: usize,
        dtypes: &[DType],
    ) -> Vec<Self> {
        let all_stores: Vec<Store> = parts.iter().flat_map(|part| part.stores.iter().cloned()).collect();
        let all_results = parts.iter().flat_map(|part| part.results.iter().copied());
        let space = Space::new(axes, fixed, walked, &expressions(tape, &all_stores));
        let count = tape.instrs.len();
        // The last instruction that reads each value; `count` for what must stay to the end, None for what nobody reads.
        let mut last_use = vec![None; count];
        for value in all_results.chain(all_stores.iter().map(|store| store.value)) {
            last_use[value] = Some(count);
        }
        for (number, instr) in tape.instrs.iter().enumerate().rev() {
            let checks = matches!(instr.op, InstrOp::CheckIndex { .. });
            if last_use[number].is_some() || checks {
                for value in instr.op.values() {
                    last_use[value] = last_use[value].max(Some(number));
                }
            }
        }
        let copied = copied(tape, parts);
        let mut slots = Slots { count: taken, ..Slots::default() };
        let mut values: Vec<Option<Operand>> = vec![None; count];
        let mut steps = Vec::new();
        let mut programs = Vec::new();
        let mut start = 0;
        for (place, part) in parts.iter().enumerate() {
            for number in start..part.end {
                let instr = &tape.instrs[number];
                let checks = matches!(instr.op, InstrOp::CheckIndex { .. });
                if last_use[number].is_none() && !checks {
                    continue;
                }
                let action = compile(&instr.op, instr.dtype, &space, dtypes, tape, |value| {
                    values[value].expect("a value is defined before it is used")
                });
                let splat = match &action {
                    Action::Const(_) | Action::Uniform(_) => true,
                    Action::Coord(access) | Action::Valid(access) | Action::Load(access) => access.is_constant(),
                    Action::Gather { access, value, .. } => access.is_constant() && value.splat,
                    Action::Random { access, seed, position, .. } => {
                        access.is_constant() && seed.splat && position.splat
                    }
                    Action::Reduced(_) | Action::Accumulator => false,
                    _ => instr.op.values().all(|value| values[value].is_some_and(|operand| operand.splat)),
                };
                let target = Operand { slot: slots.take(), splat };
                for value in instr.op.values() {
                    if last_use[value] == Some(number)
                        && let Some(operand) = values[value]
                        && !slots.free.contains(&operand.slot)
                    {
                        slots.free.push(operand.slot);
                    }
                }
                if last_use[number].is_none() {
                    slots.free.push(target.slot);
                }
                values[number] = Some(target);
                steps.push(Step { target, action, may_stay: !copied[number] });
            }
            start = part.end;
            let operand = |value: ValueId| values[value].expect("results are defined");
            let store = |store: &Store| {
                let access = Access::new(&space, store.buffer, dtypes[store.buffer], &store.index, &[]);
                (access, operand(store.value))
            };
            let stores: Vec<_> = part.stores.iter().map(store).collect();
            let results = part.results.iter().map(|&value| operand(value)).collect();
            let steps = std::mem::take(&mut steps);
            // What is read where it lies may be what is written there, so nothing must be read after it.
            let is_last = place + 1 == parts.len();
            let written_in_place = steps.last().filter(|_| is_last).and_then(|step| written_by(step, &stores));
            programs.push(Self { space: space.clone(), steps, stores, written_in_place, results, slots: slots.count });
        }
        programs
    }
}

/// The only store of what `step` computes, if a vector loop can write it: consecutive elements of 32 bits.
fn written_by(step: &Step, stores: &[(Access, Operand)]) -> Option<usize> {
    let is_loop = matches!(step.action, Action::Unary(..) | Action::Binary(..) | Action::Select(..) | Action::Cast(..));
    let mut of_step = (0..stores.len()).filter(|&store| stores[store].1.slot == step.target.slot);
    let store = of_step.next().filter(|_| is_loop && !step.target.splat && of_step.next().is_none())?;
    let access = &stores[store].0;
    let is_run = access.position.straight && access.position.stride == 1;
    (is_run && access.dtype.size_bytes() == size_of::<u32>()).then_some(store)
}

/// Which values are needed when something has been written, or word by word.
fn copied(tape: &Tape, parts: &[Part]) -> Vec<bool> {
    let mut copied = vec![false; tape.instrs.len()];
    let mut writes = false;
    for part in parts {
        part.stores.iter().for_each(|store| copied[store.value] = true);
        writes |= !part.stores.is_empty();
        part.results.iter().filter(|_| writes).for_each(|&value| copied[value] = true);
    }
    for instr in &tape.instrs {
        match instr.op {
            InstrOp::Gather { value, .. } | InstrOp::CheckIndex { value, .. } => copied[value] = true,
            InstrOp::Random { seed, position, .. } => (copied[seed], copied[position]) = (true, true),
            _ => {}
        }
    }
    copied
}

impl Action {
    /// What a vector loop reads.
    pub(super) fn operands(&self) -> impl Iterator<Item = Operand> {
        let operands = match *self {
            Self::Unary(_, _, a) | Self::Cast(_, _, a) => [Some(a), None, None],
            Self::Binary(_, _, a, b) => [Some(a), Some(b), None],
            Self::Select(c, a, b) => [Some(c), Some(a), Some(b)],
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

fn compile(
    op: &InstrOp,
    dtype: DType,
    space: &Space,
    dtypes: &[DType],
    tape: &Tape,
    operand: impl Fn(ValueId) -> Operand,
) -> Action {
    let kind = |value: ValueId| Kind::of(tape.instrs[value].dtype);
    match *op {
        InstrOp::Const(scalar) => Action::Const(register_bits(scalar)),
        InstrOp::Uniform(number) => Action::Uniform(number),
        InstrOp::Coord(ref ix) => Action::Coord(Access::new(space, 0, dtype, ix, &[])),
        InstrOp::Valid(ref conditions) => Action::Valid(Access::new(space, 0, dtype, &Ix::constant(0), conditions)),
        InstrOp::Load { buffer, ref index, ref valid } => {
            Action::Load(Access::new(space, buffer, dtypes[buffer], index, valid))
        }
        InstrOp::Gather { buffer, ref base, stride, value, ref valid } => Action::Gather {
            access: Access::new(space, buffer, dtypes[buffer], base, valid),
            stride,
            value: operand(value),
        },
        InstrOp::Unary(op, a) => Action::Unary(op, kind(a), operand(a)),
        InstrOp::Binary(op, a, b) => {
            Action::Binary(on_dtype(op, tape.instrs[a].dtype), kind(a), operand(a), operand(b))
        }
        InstrOp::Select(c, a, b) => Action::Select(operand(c), operand(a), operand(b)),
        InstrOp::Cast(a) => Action::Cast(kind(a), dtype, operand(a)),
        InstrOp::Bitcast(a) => Action::Copy(operand(a)),
        InstrOp::CheckIndex { value, bound, site } => Action::CheckIndex {
            value: operand(value),
            signed: kind(value) == Kind::Int,
            bound: u32::try_from(bound).unwrap_or(u32::MAX),
            site,
        },
        InstrOp::Random { ref counter, stream, seed, position } => Action::Random {
            access: Access::new(space, 0, dtype, counter, &[]),
            stream,
            seed: operand(seed),
            position: operand(position),
        },
        InstrOp::Reduced(number) => Action::Reduced(number),
        InstrOp::Accumulator => Action::Accumulator,
    }
}
