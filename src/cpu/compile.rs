//! Tapes to programs: registers given out, what is the same along a row computed once for the row.

use crate::dtype::{DType, Scalar};
use crate::graph::Binary;
use crate::plan::{InstrOp, Ix, Store, Tape, ValueId};

use super::access::Access;
use super::elementwise::{Kind, are_pair};
use super::joined::Part;
use super::planes::has_planes;
use super::program::{Action, Operand, Program, Step, expressions};
use super::space::Space;

/// The bits of a literal in a register.
pub(super) fn register_bits(scalar: Scalar) -> u32 {
    match scalar.dtype {
        DType::F16 => (scalar.to_f64() as f32).to_bits(),
        _ => scalar.bits,
    }
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
        self.free.pop().unwrap_or_else(|| self.take_new())
    }

    /// One that was nobody's before.
    fn take_new(&mut self) -> usize {
        self.count += 1;
        self.count - 1
    }

    fn give_back(&mut self, slot: usize) {
        if !self.free.contains(&slot) {
            self.free.push(slot);
        }
    }
}

/// Where the values of a tape are.
struct Values<'a> {
    tape: &'a Tape,
    /// Those made only of results of reductions and of what is the same everywhere.
    per_row: Vec<bool>,
    /// Those needed after something was written, or word by word.
    copied: Vec<bool>,
    /// With one word for each row if they are `per_row`, else for each point.
    held: Vec<Option<Operand>>,
    /// Those `per_row` that were also needed for each point.
    spread: Vec<Option<Operand>>,
    /// Those that are the same at all points of a run.
    constant: Vec<bool>,
    /// Those that the only step that reads them computes as well.
    within: Vec<bool>,
    slots: Slots,
    constants: Vec<Step>,
    steps: Vec<Step>,
}

impl Values<'_> {
    fn push(&mut self, action: Action, splat: bool, value: ValueId, per_row: bool) -> Operand {
        let is_constant = self.constant[value];
        let slot = if is_constant { self.slots.take_new() } else { self.slots.take() };
        let target = Operand { slot, splat };
        let steps = if is_constant { &mut self.constants } else { &mut self.steps };
        steps.push(Step { target, action, may_stay: !self.copied[value], per_row });
        target
    }

    /// Sees to it that `value` can be read by a step for each row or for each point.
    fn need(&mut self, value: ValueId, per_row: bool) {
        if !self.per_row[value] {
            return;
        }
        let reduction = match self.tape.instrs[value].op {
            InstrOp::Reduced(number) => Some(number),
            _ => None,
        };
        if let (true, None, Some(number)) = (per_row, self.held[value], reduction) {
            self.held[value] = Some(self.push(Action::Reduced(number), false, value, true));
        }
        if !per_row && self.spread[value].is_none() {
            let action = match (reduction, self.held[value]) {
                (Some(number), _) => Action::Reduced(number),
                (None, held) => Action::Spread(held.expect("a value is defined before it is used")),
            };
            self.spread[value] = Some(self.push(action, false, value, false));
        }
    }

    fn operand(&self, value: ValueId, per_row: bool) -> Operand {
        let place = if self.per_row[value] && !per_row { self.spread[value] } else { self.held[value] };
        place.expect("a value is defined before it is used")
    }

    /// The operand for each point.
    fn whole(&mut self, value: ValueId) -> Operand {
        self.need(value, false);
        self.operand(value, false)
    }

    /// What computes `op` and its operand `first` at once.
    fn pair(&self, op: &InstrOp, first: ValueId) -> Action {
        let (&InstrOp::Binary(second, a, b), &InstrOp::Binary(op, x, y)) = (op, &self.tape.instrs[first].op) else {
            unreachable!("a pair is of binary operations")
        };
        let swapped = first != a;
        let operands = [x, y, if swapped { a } else { b }].map(|value| self.operand(value, false));
        Action::Pair { ops: [op, second], operands, swapped }
    }

    fn give_back(&mut self, value: ValueId) {
        if self.constant[value] {
            return;
        }
        for operand in [self.held[value], self.spread[value]].into_iter().flatten() {
            self.slots.give_back(operand.slot);
        }
    }

    fn is_splat(&self, value: ValueId) -> bool {
        self.held[value].is_some_and(|operand| operand.splat)
    }

    /// True if instruction `op` computes the same at all points of a row, but not of the strip.
    fn is_per_row(&self, op: &InstrOp) -> bool {
        match op {
            InstrOp::Reduced(_) => true,
            InstrOp::Unary(..) | InstrOp::Binary(..) | InstrOp::Select(..) | InstrOp::Cast(_) | InstrOp::Bitcast(_) => {
                op.values().any(|value| self.per_row[value])
                    && op.values().all(|value| self.per_row[value] || self.is_splat(value))
            }
            _ => false,
        }
    }
}

/// Which instructions compute the same at all points of a run.
fn constants(tape: &Tape) -> Vec<bool> {
    let mut constants = Vec::with_capacity(tape.instrs.len());
    for instr in &tape.instrs {
        constants.push(match &instr.op {
            InstrOp::Const(_) | InstrOp::Uniform(_) => true,
            InstrOp::Load { index, valid, .. } => valid.is_empty() && index.as_constant().is_some(),
            InstrOp::Unary(..) | InstrOp::Binary(..) | InstrOp::Select(..) | InstrOp::Cast(_) | InstrOp::Bitcast(_) => {
                instr.op.values().all(|value| constants[value])
            }
            _ => false,
        });
    }
    constants
}

/// The flag by which all stores choose, as those of an update that may be skipped do: each is `select(flag, value, what
/// lies there)`. And the same stores without the choice, which are all to be left out where the flag is false.
fn gate(tape: &Tape, parts: &[Part], constants: &[bool]) -> Option<(ValueId, Vec<Store>)> {
    let [Part { stores, results, .. }] = parts else { return None };
    if !results.is_empty() || tape.instrs.iter().any(|instr| instr.op.is_check()) {
        return None;
    }
    let chosen = |store: &Store| {
        let InstrOp::Select(condition, value, other) = tape.instrs[store.value].op else { return None };
        let InstrOp::Load { buffer, ref index, ref valid } = tape.instrs[other].op else { return None };
        let is_kept = buffer == store.buffer && *index == store.index && valid.is_empty();
        (is_kept && constants[condition]).then_some((condition, value))
    };
    let gate = chosen(stores.first()?)?.0;
    let without = |store: &Store| {
        let (_, value) = chosen(store).filter(|chosen| chosen.0 == gate)?;
        Some(Store { value, ..store.clone() })
    };
    Some((gate, stores.iter().map(without).collect::<Option<_>>()?))
}

/// The last instruction that reads each value; the number of instructions for what must stay to the end, None for what
/// nobody reads.
fn last_uses(tape: &Tape, parts: &[Part], gate: Option<ValueId>) -> Vec<Option<usize>> {
    let count = tape.instrs.len();
    let mut last = vec![None; count];
    gate.into_iter().for_each(|gate| last[gate] = Some(count));
    for part in parts {
        for value in part.results.iter().copied().chain(part.stores.iter().map(|store| store.value)) {
            last[value] = Some(count);
        }
    }
    for (number, instr) in tape.instrs.iter().enumerate().rev() {
        if last[number].is_some() || instr.op.is_check() {
            for value in instr.op.values() {
                last[value] = last[value].max(Some(number));
            }
        }
    }
    last
}

/// Instructions between the two of a pair, at most: what the first one reads stays in registers until then.
const MAX_APART: usize = 8;

/// For each instruction the operand that is computed together with it, if there is one: so a strip is walked once for
/// both.
fn pairs(tape: &Tape, parts: &[Part], last_use: &[Option<usize>]) -> Vec<Option<ValueId>> {
    let mut uses = vec![0; tape.instrs.len()];
    let is_read = |&number: &usize| last_use[number].is_some() || tape.instrs[number].op.is_check();
    for number in (0..tape.instrs.len()).filter(is_read) {
        tape.instrs[number].op.values().for_each(|value| uses[value] += 1);
    }
    for part in parts {
        let stored = part.stores.iter().map(|store| store.value);
        part.results.iter().copied().chain(stored).for_each(|value| uses[value] += 1);
    }
    let part = |number: usize| parts.iter().position(|part| number < part.end);
    let float = |number: ValueId| match tape.instrs[number].op {
        InstrOp::Binary(op, a, _) if tape.instrs[a].dtype.is_float() => Some(op),
        _ => None,
    };
    let mut pairs: Vec<Option<ValueId>> = Vec::with_capacity(uses.len());
    for (number, last_use) in last_use.iter().enumerate() {
        let second = float(number).filter(|_| last_use.is_some());
        let fits = |&first: &ValueId| {
            let ops = float(first).zip(second);
            uses[first] == 1
                && number - first <= MAX_APART
                && part(first) == part(number)
                && pairs[first].is_none()
                && ops.is_some_and(|(first, second)| are_pair(first, second))
        };
        pairs.push(tape.instrs[number].op.values().find(fits));
    }
    pairs
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
        Self::of_parts(axes, walk, (tape, &[part]), (0, false), dtypes).remove(0)
    }

    /// The parts of `tape`, which run one after the other over the same strip: later ones read what earlier ones have
    /// left in registers. The first `taken` registers are others'. `by_rows`: the results of reductions are spread by
    /// rows.
    pub(super) fn of_parts(
        axes: &[usize],
        (fixed, walked): (&[usize], &[usize]),
        (tape, parts): (&Tape, &[Part]),
        (taken, by_rows): (usize, bool),
        dtypes: &[DType],
    ) -> Vec<Self> {
        let everywhere = constants(tape);
        let gated = gate(tape, parts, &everywhere);
        let gate = gated.as_ref().map(|(gate, _)| *gate);
        let gated = gated.map(|(_, stores)| [Part { stores, results: Vec::new(), end: tape.instrs.len() }]);
        let parts = gated.as_ref().map_or(parts, |gated| gated);
        let all_stores: Vec<Store> = parts.iter().flat_map(|part| part.stores.iter().cloned()).collect();
        let space = Space::new(axes, fixed, walked, &expressions(tape, &all_stores));
        let count = tape.instrs.len();
        let mut last_use = last_uses(tape, parts, gate);
        let pairs = pairs(tape, parts, &last_use);
        let mut is_first = vec![false; count];
        for (number, first) in pairs.iter().enumerate().filter_map(|(number, first)| Some((number, (*first)?))) {
            is_first[first] = true;
            tape.instrs[first].op.values().for_each(|value| last_use[value] = last_use[value].max(Some(number)));
        }
        let mut values = Values {
            tape,
            per_row: vec![false; count],
            copied: copied(tape, parts),
            held: vec![None; count],
            spread: vec![None; count],
            constant: vec![false; count],
            within: vec![false; count],
            slots: Slots { count: taken, ..Slots::default() },
            constants: Vec::new(),
            steps: Vec::new(),
        };
        let mut programs = Vec::new();
        let mut start = 0;
        for (place, part) in parts.iter().enumerate() {
            for number in start..part.end {
                let instr = &tape.instrs[number];
                if last_use[number].is_none() && !instr.op.is_check() {
                    continue;
                }
                let per_row = by_rows && values.is_per_row(&instr.op);
                values.per_row[number] = per_row;
                if per_row && matches!(instr.op, InstrOp::Reduced(_)) {
                    // read once it is known how
                    continue;
                }
                instr.op.values().for_each(|value| values.need(value, per_row));
                if is_first[number] && !per_row && !instr.op.values().all(|value| values.is_splat(value)) {
                    values.within[number] = true;
                    continue;
                }
                let action = match pairs[number].filter(|&first| values.within[first]) {
                    Some(first) => values.pair(&instr.op, first),
                    None => {
                        compile(&instr.op, instr.dtype, &space, dtypes, tape, |value| values.operand(value, per_row))
                    }
                };
                let splat = match &action {
                    Action::Const(_) | Action::Uniform(_) => true,
                    Action::Coord(access) | Action::Valid(access) | Action::Load(access) => access.is_constant(),
                    Action::Gather { access, value, .. } => access.is_constant() && value.splat,
                    Action::Random { access, seed, position, .. } => {
                        access.is_constant() && seed.splat && position.splat
                    }
                    Action::Reduced(_) | Action::Spread(_) | Action::Accumulator | Action::Pair { .. } => false,
                    _ => instr.op.values().all(|value| values.is_splat(value)),
                };
                values.constant[number] = splat && everywhere[number];
                let target = values.push(action, splat, number, per_row);
                values.held[number] = Some(target);
                let of_first = pairs[number].into_iter().flat_map(|first| tape.instrs[first].op.values());
                for value in instr.op.values().chain(of_first).filter(|&value| last_use[value] == Some(number)) {
                    values.give_back(value);
                }
                if last_use[number].is_none() {
                    values.give_back(number);
                }
            }
            start = part.end;
            let store = |store: &Store| {
                let access = Access::new(&space, store.buffer, dtypes[store.buffer], &store.index, &[]);
                (access, values.whole(store.value))
            };
            let stores: Vec<_> = part.stores.iter().map(store).collect();
            let results: Vec<_> = part.results.iter().map(|&value| values.whole(value)).collect();
            let [constants, steps] = [&mut values.constants, &mut values.steps].map(std::mem::take);
            // What is read where it lies may be what is written there, so nothing must be read after it.
            let is_last = place + 1 == parts.len();
            let written_in_place = steps.last().filter(|_| is_last).and_then(|step| written_by(step, &stores));
            let slots = values.slots.count;
            let gate = gate.map(|gate| values.operand(gate, false).slot);
            let has_planes = results.is_empty() && has_planes(&space, constants.iter().chain(&steps), &stores);
            let space = space.clone();
            programs.push(Self { space, constants, steps, stores, gate, written_in_place, results, slots, has_planes });
        }
        programs
    }
}

/// The only store of what `step` computes, if a vector loop can write it: consecutive elements of 32 bits.
fn written_by(step: &Step, stores: &[(Access, Operand)]) -> Option<usize> {
    let is_loop = step.action.is_loop() && !matches!(step.action, Action::Copy(_));
    let mut of_step = (0..stores.len()).filter(|&store| stores[store].1.slot == step.target.slot);
    let store = of_step.next().filter(|_| is_loop && !step.target.splat && of_step.next().is_none())?;
    let access = &stores[store].0;
    let is_run = access.position.straight && access.position.stride == 1;
    (is_run && access.dtype.size_bytes() == size_of::<u32>()).then_some(store)
}

/// Which values are needed when something has been written, or word by word. A contraction's sums lie in no buffer that
/// could be written.
fn copied(tape: &Tape, parts: &[Part]) -> Vec<bool> {
    let mut copied = vec![false; tape.instrs.len()];
    let mut writes = false;
    for part in parts {
        for store in &part.stores {
            copied[store.value] |= !matches!(tape.instrs[store.value].op, InstrOp::Accumulator);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Unary;
    use crate::plan::Instr;

    #[test]
    fn what_is_the_same_along_a_row_is_computed_once_for_it() {
        let ops = [
            InstrOp::Load { buffer: 0, index: Ix::axis(0).times(8).plus(&Ix::axis(1)), valid: Vec::new() },
            InstrOp::Reduced(0),
            InstrOp::Unary(Unary::Rsqrt, 1),
            InstrOp::Binary(Binary::Sub, 0, 1),
            InstrOp::Binary(Binary::Mul, 3, 2),
            InstrOp::Binary(Binary::Add, 4, 2),
        ];
        let tape = Tape { instrs: ops.map(|op| Instr { op, dtype: DType::F32 }).to_vec() };
        let part = || [Part { end: tape.instrs.len(), stores: Vec::new(), results: vec![5] }];
        let programs =
            |by_rows| Program::of_parts(&[4, 8], (&[], &[0, 1]), (&tape, &part()), (0, by_rows), &[DType::F32]);
        let steps = |by_rows| {
            let name = |step: &Step| match step.action {
                Action::Reduced(_) => "reduced",
                Action::Spread(_) => "spread",
                Action::Unary(..) => "unary",
                Action::Binary(..) => "binary",
                Action::Pair { .. } => "pair",
                _ => "other",
            };
            let programs = programs(by_rows);
            programs[0].steps.iter().map(|step| (name(step), step.per_row)).collect::<Vec<_>>()
        };
        let [once, all] = [true, false];
        let expected = [
            ("other", all),
            ("reduced", once),
            ("unary", once),
            ("reduced", all),
            ("spread", all),
            ("pair", all),
            ("binary", all),
        ];
        assert_eq!(steps(true), expected);
        assert!(steps(false).iter().all(|&(name, per_row)| !per_row && name != "spread"));
        // Whoever reads a register finds what was put there: none is given out again before its last use.
        let programs = programs(true);
        let target = |number: usize| programs[0].steps[number].target.slot;
        assert_eq!(programs[0].results[0].slot, target(6));
        assert!([1, 3].iter().all(|&number| target(number) != target(2)));
    }

    #[test]
    fn what_only_one_step_reads_is_computed_by_it() {
        let [load, other] = [0, 1].map(|buffer| InstrOp::Load { buffer, index: Ix::axis(0), valid: Vec::new() });
        let two = InstrOp::Const(Scalar::new(DType::F32, 2.0));
        let steps = |ops: &[InstrOp], results: &[ValueId]| {
            let tape = Tape { instrs: ops.iter().map(|op| Instr { op: op.clone(), dtype: DType::F32 }).collect() };
            let program = Program::new(&[100], (&[], &[0]), &tape, &[], results, &[DType::F32; 2]);
            // what a step reads is in no register that it writes
            for (number, step) in program.steps.iter().enumerate() {
                assert!(step.action.operands().all(|operand| operand.slot != step.target.slot), "step {number}");
            }
            let pairs = program.steps.iter().filter(|step| matches!(step.action, Action::Pair { .. })).count();
            (pairs, program.steps.len())
        };
        let binary = InstrOp::Binary;
        // x · 2 + y, then its maximum with 2
        let chain = [load.clone(), two.clone(), binary(Binary::Mul, 0, 1), other.clone(), binary(Binary::Add, 3, 2)];
        assert_eq!(steps(&chain, &[4]), (1, 3));
        let longer = [&chain[..], &[binary(Binary::Max, 4, 1)]].concat();
        assert_eq!(steps(&longer, &[5]), (1, 4), "a pair is none of another");
        // what is needed elsewhere, or twice
        assert_eq!(steps(&chain, &[4, 2]), (0, 4));
        let square = [load.clone(), other.clone(), binary(Binary::Add, 0, 1), binary(Binary::Mul, 2, 2)];
        assert_eq!(steps(&square, &[3]), (0, 4));
        // its operand is last read between the two
        let between =
            [load, other, binary(Binary::Sub, 0, 1), InstrOp::Unary(Unary::Exp, 0), binary(Binary::Sub, 3, 2)];
        assert_eq!(steps(&between, &[4]), (1, 4));
        // what is the same everywhere is computed once for all
        let constants = [two.clone(), two, binary(Binary::Mul, 0, 1), chain[0].clone(), binary(Binary::Add, 2, 3)];
        assert_eq!(steps(&constants, &[4]), (0, 2));
    }

    #[test]
    fn an_update_that_may_be_skipped_has_a_gate_in_place_of_selections() {
        let load = |buffer, index| InstrOp::Load { buffer, index, valid: Vec::new() };
        let instr = |op, dtype| Instr { op, dtype };
        let two = Scalar::new(DType::F32, 2.0);
        let program = |flag: Ix, to: usize| {
            let tape = Tape {
                instrs: vec![
                    instr(load(2, flag), DType::Bool),
                    instr(load(0, Ix::axis(0)), DType::F32),
                    instr(InstrOp::Const(two), DType::F32),
                    instr(InstrOp::Binary(Binary::Mul, 1, 2), DType::F32),
                    instr(InstrOp::Select(0, 3, 1), DType::F32),
                ],
            };
            let stores = [Store { buffer: to, index: Ix::axis(0), value: 4 }];
            Program::new(&[100], (&[], &[0]), &tape, &stores, &[], &[DType::F32, DType::F32, DType::Bool])
        };
        let selects = |program: &Program| program.steps.iter().any(|step| matches!(step.action, Action::Select(..)));
        let gated = program(Ix::constant(0), 0);
        assert!(gated.gate.is_some_and(|gate| gated.constants.iter().any(|step| step.target.slot == gate)));
        assert!(!selects(&gated) && gated.written_in_place == Some(0));
        // elsewhere something has to be written in any case, and what differs from point to point is no gate
        for other in [program(Ix::constant(0), 1), program(Ix::axis(0), 0)] {
            assert!(other.gate.is_none() && selects(&other));
        }
    }
}
