//! Loops over joined values (a concatenation), or over phases that see different points, as one loop for each, which
//! reads no others.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::dtype::{DType, Scalar};
use crate::graph::Binary;
use crate::plan::{Body, Cond, Instr, InstrOp, LoopKernel, Tape, ValueId};

use super::unroll::folded;

/// Points from which on a loop is cut, and parts at most.
const MIN_POINTS: usize = 1 << 12;
const MAX_PARTS: usize = 64;
/// The share of all reads that may be left, and by cuts along one axis.
const MAX_LEFT: f64 = 0.7;
const MAX_LEFT_BY_AXIS: f64 = 0.9;

/// `kernel` as several, if conditions on single outer axes say what is read where and most reads can be spared.
pub(super) fn segmented(kernel: &LoopKernel) -> Option<Vec<LoopKernel>> {
    let points = |kernel: &LoopKernel| kernel.axes.iter().product::<usize>();
    let reads = |parts: &[LoopKernel]| parts.iter().map(|part| points(part) * loads(part)).sum::<usize>() as f64;
    let mut parts = vec![kernel.clone()];
    if loads(kernel) < 2 || points(kernel) < MIN_POINTS {
        return None;
    }
    for axis in 0..kernel.outer {
        let cut: Vec<LoopKernel> = parts.iter().flat_map(|part| cut(part, axis)).collect();
        if cut.len() <= MAX_PARTS && reads(&cut) <= MAX_LEFT_BY_AXIS * reads(&parts) {
            parts = cut;
        }
    }
    (reads(&parts) <= MAX_LEFT * reads(std::slice::from_ref(kernel))).then_some(parts)
}

/// `kernel` as several along `axis`, or as it is.
fn cut(kernel: &LoopKernel, axis: usize) -> Vec<LoopKernel> {
    let cuts = cuts(kernel, axis);
    if cuts.is_empty() || cuts.len() >= MAX_PARTS {
        return vec![kernel.clone()];
    }
    let whole = Body::Loop(kernel.clone());
    let bounds: Vec<usize> = [0].into_iter().chain(cuts).chain([kernel.axes[axis]]).collect();
    bounds.windows(2).map(|pair| part(&whole, axis, pair[0]..pair[1])).collect()
}

fn loads(kernel: &LoopKernel) -> usize {
    kernel.phases.iter().map(|phase| phase.tape.loads().count()).sum()
}

/// Where along `axis` a condition on it alone begins or ends to hold.
fn cuts(kernel: &LoopKernel, axis: usize) -> BTreeSet<usize> {
    let (rank, size) = (kernel.axes.len(), kernel.axes[axis] as i64);
    let conditions = kernel.phases.iter().flat_map(|phase| &phase.tape.instrs).flat_map(|instr| match &instr.op {
        InstrOp::Load { valid, .. } | InstrOp::Valid(valid) => valid.as_slice(),
        _ => &[],
    });
    let bounds = conditions.filter_map(|condition| {
        let Cond::InRange(value, below) = condition else { return None };
        let (strides, offset) = value.affine(rank)?;
        let alone = strides.iter().enumerate().all(|(other, &stride)| stride == i64::from(other == axis));
        alone.then_some([-offset, below - offset])
    });
    bounds.flatten().filter(|&bound| 0 < bound && bound < size).map(|bound| bound as usize).collect()
}

/// The loop at some points of an axis, without what is not read there.
fn part(whole: &Body, axis: usize, points: Range<usize>) -> LoopKernel {
    let Body::Loop(mut part) = whole.within(axis, points) else { unreachable!("parts are of its kind") };
    let axes = part.axes.clone();
    for phase in &mut part.phases {
        let mut roots: Vec<&mut ValueId> = phase.reductions.iter_mut().map(|(_, value)| value).collect();
        roots.extend(phase.stores.iter_mut().map(|store| &mut store.value));
        phase.tape = simplified(&phase.tape, &axes, &mut roots);
    }
    part
}

/// The tape without what its conditions, known at all points of these axes, leave out.
pub(super) fn simplified(tape: &Tape, axes: &[usize], roots: &mut [&mut ValueId]) -> Tape {
    needed(&known(tape, axes, roots), roots)
}

/// Whether a condition holds at all points, or at none.
fn decided(condition: &Cond, axes: &[usize]) -> Option<bool> {
    let Cond::InRange(value, below) = condition else { return None };
    let (strides, offset) = value.affine(axes.len())?;
    let reach = |pick: fn(i64, i64) -> i64| {
        offset + strides.iter().zip(axes).map(|(stride, &size)| pick(0, stride * (size as i64 - 1))).sum::<i64>()
    };
    let (least, largest) = (reach(i64::min), reach(i64::max));
    match (least >= 0 && largest < *below, largest < 0 || least >= *below) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}

/// The conditions that are left over; `None` if they never hold together.
fn undecided(conditions: &[Cond], axes: &[usize]) -> Option<Vec<Cond>> {
    let mut left = Vec::new();
    for condition in conditions {
        match decided(condition, axes) {
            Some(true) => {}
            Some(false) => return None,
            None => left.push(condition.clone()),
        }
    }
    Some(left)
}

/// The tape with what is known of its conditions at all points.
fn known(tape: &Tape, axes: &[usize], roots: &mut [&mut ValueId]) -> Tape {
    let mut known = Tape::default();
    let mut numbers: Vec<ValueId> = Vec::with_capacity(tape.instrs.len());
    for Instr { op, dtype } in &tape.instrs {
        let (mut op, dtype) = (op.clone(), *dtype);
        op.map_values(|value| numbers[value]);
        let constant = |value: ValueId| match known.instrs[value].op {
            InstrOp::Const(scalar) => Some(scalar),
            _ => None,
        };
        let is_nothing = |value: ValueId| constant(value).is_some_and(adds_nothing);
        let same = match op {
            InstrOp::Select(condition, a, b) => constant(condition).map(|holds| if holds.bits != 0 { a } else { b }),
            InstrOp::Binary(Binary::Add | Binary::Or, a, b) if is_nothing(a) => Some(b),
            InstrOp::Binary(Binary::Add | Binary::Or, a, b) if is_nothing(b) => Some(a),
            _ => None,
        };
        if let Some(same) = same {
            numbers.push(same);
            continue;
        }
        let op = match op {
            InstrOp::Valid(valid) => match undecided(&valid, axes) {
                Some(left) if !left.is_empty() => InstrOp::Valid(left),
                holds => InstrOp::Const(Scalar::new(DType::Bool, f64::from(u8::from(holds.is_some())))),
            },
            InstrOp::Load { buffer, index, valid } => match undecided(&valid, axes) {
                Some(valid) => InstrOp::Load { buffer, index, valid },
                None => InstrOp::Const(Scalar::new(dtype, 0.0)),
            },
            op => op,
        };
        let mut instr = Instr { op, dtype };
        if let Some(scalar) = folded(&instr, constant) {
            instr.op = InstrOp::Const(scalar);
        }
        numbers.push(known.instrs.len());
        known.instrs.push(instr);
    }
    roots.iter_mut().for_each(|root| **root = numbers[**root]);
    known
}

/// True for what may be added to anything: only -0 leaves the sign of a zero as it is.
fn adds_nothing(scalar: Scalar) -> bool {
    scalar.to_f64().to_bits() == if scalar.dtype.is_float() { (-0.0_f64).to_bits() } else { 0 }
}

/// The instructions that the roots need, and those that check indices.
fn needed(tape: &Tape, roots: &mut [&mut ValueId]) -> Tape {
    let is_needed = tape.needed(roots.iter().map(|root| **root).chain(tape.checks()), &[]);
    let (mut left, mut numbers) = (Tape::default(), vec![0; tape.instrs.len()]);
    for (number, instr) in tape.instrs.iter().enumerate().filter(|(number, _)| is_needed[*number]) {
        let mut op = instr.op.clone();
        op.map_values(|value| numbers[value]);
        numbers[number] = left.instrs.len();
        left.instrs.push(Instr { op, dtype: instr.dtype });
    }
    roots.iter_mut().for_each(|root| **root = numbers[**root]);
    left
}
