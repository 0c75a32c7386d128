//! Products that sum other terms at each point of a short axis, as one product for each.
//!
//! The input gradient of a convolution at steps of 2 has an axis for the places' phases (`plan/simplify/phases.rs`), and
//! conditions that say which taps each phase sees: of 3x3 ones, nine of sixteen pairs. Written as several products, none
//! is multiplied in vain, and each operand is what it would be in a convolution without steps.
//!
//! What is left out are products with zeros, which would show where the other factor is not finite: only of windows is it
//! not said whether they do (`semantics`).

use std::ops::Range;

use crate::graph::Unary;
use crate::plan::{Body, Cond, ContractKernel, InstrOp, Tape, ValueId};

use super::segments::simplified;

/// Points of an axis of phases, at most.
const MAX_PHASES: usize = 4;

/// Points of the operand for each phase, at least: fewer leave vectors empty.
const MIN_POINTS: usize = 64;

/// The share of all terms that may be left.
const MAX_LEFT: f64 = 0.9;

/// `kernel` as several, if there is such an axis.
pub(super) fn phases(kernel: &ContractKernel) -> Option<Vec<ContractKernel>> {
    let (axis, summed, terms) = split(kernel)?;
    let parts = terms.into_iter().enumerate().map(|(point, terms)| {
        let whole = Body::Contract(kernel.clone());
        let Body::Contract(mut part) = whole.within(axis, point..point + 1).within(summed, terms) else {
            unreachable!("parts are of its kind")
        };
        for (tape, value) in [&mut part.lhs, &mut part.rhs] {
            *tape = simplified(tape, &part.axes, &mut [value]);
        }
        part
    });
    Some(parts.flat_map(|part| phases(&part).unwrap_or_else(|| vec![part])).collect())
}

/// A short axis of an operand's own, a summed one, and which points of the latter each point of the former sees.
fn split(kernel: &ContractKernel) -> Option<(usize, usize, Vec<Range<usize>>)> {
    let (lhs, rhs) = (&kernel.lhs, &kernel.rhs);
    [(lhs, 1, rhs), (rhs, 2, lhs)].into_iter().find_map(|((tape, value), group, (other, _))| {
        bounds(tape, *value)?.iter().find_map(|condition| split_by(kernel, condition, group, other))
    })
}

/// The conditions without which a value is zero.
fn bounds(tape: &Tape, value: ValueId) -> Option<&[Cond]> {
    match &tape.instrs[value].op {
        InstrOp::Load { valid, .. } => Some(valid),
        InstrOp::Cast(of) | InstrOp::Unary(Unary::Neg, of) => bounds(tape, *of),
        InstrOp::Select(condition, of, other) => {
            let (InstrOp::Valid(tested), InstrOp::Const(other)) =
                (&tape.instrs[*condition].op, &tape.instrs[*other].op)
            else {
                return None;
            };
            bounds(tape, *of).filter(|bounds| bounds == tested && other.to_f64() == 0.0)
        }
        _ => None,
    }
}

/// By a condition on an operand of this group, of a product with `other`.
fn split_by(
    kernel: &ContractKernel,
    condition: &Cond,
    group: usize,
    other: &Tape,
) -> Option<(usize, usize, Vec<Range<usize>>)> {
    let Cond::InRange(value, _) = condition else { return None };
    let (strides, _) = value.affine(kernel.axes.len())?;
    let mut axes = (0..strides.len()).filter(|&axis| strides[axis] != 0);
    let (Some(axis), Some(summed), None) = (axes.next(), axes.next(), axes.next()) else { return None };
    let (size, all) = (kernel.axes[axis], kernel.axes[summed]);
    let are_phases = (2..=MAX_PHASES).contains(&size)
        && kernel.group(group).contains(&axis)
        && kernel.group(3).contains(&summed)
        && kernel.sizes()[group] / size >= MIN_POINTS;
    // windows read an element at several pairs of points
    let are_windows = strides[summed].abs() < size as i64 * strides[axis].abs();
    if !are_phases || are_windows || !slides(kernel, other, 3 - group, summed) {
        return None;
    }
    let mut point = vec![0; strides.len()];
    let terms = (0..size).map(|phase| {
        point[axis] = phase;
        let mut holds = (0..all).filter(|&term| {
            point[summed] = term;
            condition.holds(&point)
        });
        let first = holds.next()?;
        // the bounds of a sum hold without gaps
        Some(first..first + 1 + holds.count())
    });
    let terms = terms.collect::<Option<Vec<_>>>()?;
    let left: usize = terms.iter().map(Range::len).sum();
    (left as f64 <= MAX_LEFT * (size * all) as f64).then_some((axis, summed, terms))
}

/// True if what an operand of this group reads are windows along `summed`: steps along it are steps along an axis of its
/// own.
fn slides(kernel: &ContractKernel, tape: &Tape, group: usize, summed: usize) -> bool {
    tape.instrs.iter().any(|instr| {
        let InstrOp::Load { index, .. } = &instr.op else { return false };
        let Some((strides, _)) = index.affine(kernel.axes.len()) else { return false };
        let step = strides[summed].abs();
        let is_along = |axis: usize| {
            let own = strides[axis].abs();
            own != 0 && step != 0 && step % own == 0 && step < own * kernel.axes[axis] as i64
        };
        kernel.group(group).any(is_along)
    })
}
