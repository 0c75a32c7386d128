//! Writes one tape.

use rustc_hash::FxHashMap;

use crate::dtype::{DType, Scalar};
use crate::graph::{Op, Slot, View};
use crate::plan::index::{Cond, Ix};
use crate::plan::kernel::{Instr, InstrOp, Level, Store, Tape, ValueId};
use crate::plan::store::gathered_from;

use super::coords::reshaped;
use super::{Context, Home, Refusal};

/// A tape longer than this is not worth one kernel.
const MAX_TAPE: usize = 600;
/// Writing recurses along chains of nodes; this many fit any thread's stack.
const MAX_DEPTH: usize = 256;

/// A member's value within the kernel.
pub(super) struct Local {
    /// The only coordinates at which it is known.
    pub coords: Vec<Ix>,
    pub value: LocalValue,
}

/// Where a member's value comes from.
pub(super) enum LocalValue {
    /// Computed where it is needed.
    Inline,
    /// The result of a reduction of this number.
    Reduced(usize),
    /// A reduction whose sweep is not over.
    Pending,
    /// The contraction's sum.
    Accumulator,
}

/// Writes one tape.
pub(super) struct Writer<'a> {
    context: Context<'a>,
    axes: &'a [usize],
    pub tape: Tape,
    numbers: FxHashMap<Instr, ValueId>,
    memo: FxHashMap<(usize, Vec<Ix>, Vec<Cond>), ValueId>,
    /// What is computed in this kernel.
    pub local: FxHashMap<usize, Local>,
    depth: usize,
    /// True when a value is asked for in order to store it.
    storing: bool,
}

impl<'a> Writer<'a> {
    pub(super) fn new(context: Context<'a>, axes: &'a [usize]) -> Self {
        Self {
            context,
            axes,
            tape: Tape::default(),
            numbers: FxHashMap::default(),
            memo: FxHashMap::default(),
            local: FxHashMap::default(),
            depth: 0,
            storing: false,
        }
    }

    /// Makes the members of a row kernel known, with the reductions computed so far.
    pub(super) fn know(&mut self, places: &FxHashMap<usize, (Vec<Ix>, Level)>, reduced: &FxHashMap<usize, usize>) {
        for (&member, (coords, _)) in places {
            let value = match reduced.get(&member) {
                Some(&number) => LocalValue::Reduced(number),
                None if matches!(self.context.program.nodes[member].op, Op::Reduce { .. }) => LocalValue::Pending,
                None => LocalValue::Inline,
            };
            self.local.insert(member, Local { coords: coords.clone(), value });
        }
    }

    pub(super) fn stores(&mut self, targets: &[(usize, Vec<Ix>)], wanted: &[usize]) -> Result<Vec<Store>, Refusal> {
        let mut stores = Vec::new();
        for (node, coords) in targets.iter().filter(|(node, _)| wanted.contains(node)) {
            let home = self.context.homes[*node].as_ref().expect("a stored node has a place in memory");
            self.storing = true;
            let value = self.emit(*node, coords, &[])?;
            stores.push(Store { buffer: home.buffer, index: home.index(coords), value });
        }
        Ok(stores)
    }

    fn push(&mut self, op: InstrOp, dtype: DType) -> ValueId {
        let instr = Instr { op, dtype };
        if let Some(&known) = self.numbers.get(&instr) {
            return known;
        }
        let number = self.tape.instrs.len();
        self.numbers.insert(instr.clone(), number);
        self.tape.instrs.push(instr);
        number
    }

    /// The value of `node` at `coords`; only points where `valid` holds matter.
    pub(super) fn emit(&mut self, node: usize, coords: &[Ix], valid: &[Cond]) -> Result<ValueId, Refusal> {
        if self.context.compared[node] && self.local.contains_key(&node) && !self.storing {
            return Err(Refusal::Compared);
        }
        self.storing = false;
        let key = (node, coords.to_vec(), valid.to_vec());
        if let Some(&known) = self.memo.get(&key) {
            return Ok(known);
        }
        if self.tape.instrs.len() > MAX_TAPE || self.depth > MAX_DEPTH {
            return Err(Refusal::TooLong);
        }
        self.depth += 1;
        let value = match self.local.get(&node) {
            Some(local) => {
                if local.coords != coords {
                    return Err(Refusal::OtherPoint);
                }
                match local.value {
                    LocalValue::Inline => self.compute(node, coords, valid)?,
                    LocalValue::Reduced(number) => {
                        self.push(InstrOp::Reduced(number), self.context.program.nodes[node].dtype)
                    }
                    LocalValue::Accumulator => {
                        let dtype = self.context.program.nodes[node].dtype;
                        let accumulator = if dtype.is_float() { DType::F32 } else { dtype };
                        let value = self.push(InstrOp::Accumulator, accumulator);
                        if accumulator == dtype { value } else { self.push(InstrOp::Cast(value), dtype) }
                    }
                    LocalValue::Pending => return Err(Refusal::OtherPoint),
                }
            }
            None => match &self.context.homes[node] {
                Some(home) => {
                    let load = InstrOp::Load { buffer: home.buffer, index: home.index(coords), valid: valid.to_vec() };
                    self.push(load, self.context.program.nodes[node].dtype)
                }
                None => self.compute(node, coords, valid)?,
            },
        };
        self.depth -= 1;
        self.memo.insert(key, value);
        Ok(value)
    }

    fn compute(&mut self, number: usize, coords: &[Ix], valid: &[Cond]) -> Result<ValueId, Refusal> {
        let node = &self.context.program.nodes[number];
        let dtype = node.dtype;
        let input = |n: usize| node.inputs[n];
        Ok(match &node.op {
            Op::Const(value) => self.push(InstrOp::Const(*value), dtype),
            Op::Uniform => match node.slot {
                Slot::Uniform(slot) => self.push(InstrOp::Uniform(slot), dtype),
                _ => unreachable!("a host value has a slot"),
            },
            Op::Iota { axis } => self.push(InstrOp::Coord(coords[*axis].clone()), dtype),
            Op::Unary(op) => {
                let a = self.emit(input(0), coords, valid)?;
                self.push(InstrOp::Unary(*op, a), dtype)
            }
            Op::Binary(op) => {
                let a = self.emit(input(0), coords, valid)?;
                let b = self.emit(input(1), coords, valid)?;
                let (a, b) = if op.is_commutative() { (a.min(b), a.max(b)) } else { (a, b) };
                self.push(InstrOp::Binary(*op, a, b), dtype)
            }
            Op::Select => {
                let condition = self.emit(input(0), coords, valid)?;
                let a = self.emit(input(1), coords, valid)?;
                let b = self.emit(input(2), coords, valid)?;
                self.push(InstrOp::Select(condition, a, b), dtype)
            }
            Op::Cast => {
                let a = self.emit(input(0), coords, valid)?;
                if self.tape.instrs[a].dtype == dtype { a } else { self.push(InstrOp::Cast(a), dtype) }
            }
            Op::Bitcast => {
                let a = self.emit(input(0), coords, valid)?;
                self.push(InstrOp::Bitcast(a), dtype)
            }
            Op::CheckIndex { bound, .. } => {
                let mut value = self.emit(input(0), coords, valid)?;
                if !valid.is_empty() {
                    // what is computed where nobody looks must not count as out of range
                    let inside = self.push(InstrOp::Valid(valid.to_vec()), DType::Bool);
                    let zero = self.push(InstrOp::Const(Scalar { dtype, bits: 0 }), dtype);
                    value = self.push(InstrOp::Select(inside, value, zero), dtype);
                }
                // the place is registered once the plan is final
                let site = number as u32;
                self.push(InstrOp::CheckIndex { value, bound: *bound, site }, dtype)
            }
            Op::Reshape => {
                let inner = reshaped(coords, &node.shape, &self.context.program.nodes[input(0)].shape, self.axes);
                self.emit(input(0), &inner, valid)?
            }
            Op::View(view) => return self.view(input(0), view, coords, valid),
            Op::After => self.emit(input(0), coords, valid)?,
            // what this kernel computes is not in memory yet, whatever the index
            Op::Gather { .. } if self.local.contains_key(&self.gathered_from(number)) => {
                return Err(Refusal::OtherPoint);
            }
            Op::Gather { axis } => {
                let (axis, index_rank) = (*axis, self.context.program.nodes[input(1)].shape.rank());
                let value = self.emit(input(1), &coords[axis..axis + index_rank], valid)?;
                let home = self.gathered_home(number);
                let mut source = coords[..axis].to_vec();
                source.push(Ix::constant(0));
                source.extend_from_slice(&coords[axis + index_rank..]);
                let (base, stride) = (home.index(&source), home.strides[axis]);
                let gather = InstrOp::Gather { buffer: home.buffer, base, stride, value, valid: valid.to_vec() };
                self.push(gather, dtype)
            }
            Op::Random { stream } => {
                let seed = self.emit(input(0), &[], valid)?;
                let position = self.emit(input(1), &[], valid)?;
                let counter = Ix::linear(coords, &node.shape);
                self.push(InstrOp::Random { counter, stream: *stream, seed, position }, dtype)
            }
            Op::Leaf | Op::Reduce { .. } | Op::Contract(_) | Op::Pack { .. } | Op::Custom | Op::Detach => {
                unreachable!("{:?} lies in memory", node.op)
            }
            Op::Sort(_) | Op::Merge(_) | Op::Search(_) | Op::Segments(_) | Op::Scan { .. } => {
                unreachable!("{:?} lies in memory", node.op)
            }
            Op::Attention(_) | Op::Kernel(_) => unreachable!("{:?} lies in memory", node.op),
        })
    }

    fn gathered_from(&self, gather: usize) -> usize {
        gathered_from(self.context.program, gather, |node| self.context.homes[node].is_some())
    }

    /// Where that which `gather` reads lies, in the shape in which it does.
    fn gathered_home(&self, gather: usize) -> Home {
        let program = self.context.program;
        let [source, shaped] = [self.gathered_from(gather), program.nodes[gather].inputs[0]];
        let home = self.context.homes[source].clone().expect("what is gathered from lies in memory");
        if source == shaped {
            return home;
        }
        debug_assert_eq!(home, Home::row_major(home.buffer, home.offset, &program.nodes[source].shape));
        Home::row_major(home.buffer, home.offset, &program.nodes[shaped].shape)
    }

    fn view(&mut self, input: usize, view: &View, coords: &[Ix], valid: &[Cond]) -> Result<ValueId, Refusal> {
        let shape = &self.context.program.nodes[input].shape;
        let mut inner = Vec::with_capacity(shape.rank());
        let mut added: Vec<Cond> = Vec::new();
        for (dim, &size) in view.dims.iter().zip(shape.iter()) {
            let mut sum = Ix::constant(dim.offset);
            for &(axis, coefficient) in &dim.terms {
                sum = sum.plus(&coords[axis].times(coefficient));
            }
            // the multiple is judged before the quotient rounds
            let mut conditions = Vec::new();
            if dim.divisor > 1 {
                conditions.push(Cond::Multiple(sum.clone(), dim.divisor));
                sum = sum.div(dim.divisor, self.axes);
            }
            conditions.push(Cond::InRange(sum.clone(), size as i64));
            for condition in conditions {
                match condition.known(self.axes) {
                    Some(true) => {}
                    Some(false) => {
                        let dtype = self.context.program.nodes[input].dtype;
                        return Ok(self.push(InstrOp::Const(view.fill), dtype));
                    }
                    None => added.push(condition),
                }
            }
            inner.push(if size == 1 { Ix::constant(0) } else { sum });
        }
        if added.is_empty() {
            return self.emit(input, &inner, valid);
        }
        let mut all = valid.to_vec();
        all.extend(added.iter().cloned());
        all.sort_unstable();
        all.dedup();
        let value = self.emit(input, &inner, &all)?;
        let zero_outside = matches!(self.tape.instrs[value].op, InstrOp::Load { .. } | InstrOp::Gather { .. });
        if zero_outside && view.fill.bits == 0 {
            return Ok(value);
        }
        let dtype = self.tape.instrs[value].dtype;
        let inside = self.push(InstrOp::Valid(added), DType::Bool);
        let fill = self.push(InstrOp::Const(Scalar { dtype, bits: view.fill.bits }), dtype);
        Ok(self.push(InstrOp::Select(inside, value, fill), dtype))
    }
}
