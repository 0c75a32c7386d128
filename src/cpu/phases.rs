//! Products that sum other terms at each point of a short axis, as one product for each.
//!
//! The input gradient of a convolution at steps of 2 has an axis for the places' phases (`plan/simplify/phases.rs`), and
//! conditions that say which taps each phase sees: of 3x3 ones, nine of sixteen pairs. Written as several products, none
//! is multiplied in vain, and each operand is what it would be in a convolution without steps.

use std::ops::Range;

use crate::plan::{Body, Cond, ContractKernel, InstrOp, Tape, ValueId};

use super::segments::simplified;

/// Points of an axis of phases, at most.
const MAX_PHASES: usize = 4;

/// Points of the operand for each phase, at least: fewer leave vectors empty.
const MIN_POINTS: usize = 64;

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

/// A short axis of rows or columns, a summed one, and which points of the latter each point of the former sees.
fn split(kernel: &ContractKernel) -> Option<(usize, usize, Vec<Range<usize>>)> {
    let conditions = [&kernel.lhs, &kernel.rhs].into_iter().flat_map(conditions);
    conditions.filter_map(|condition| split_by(kernel, condition)).next()
}

fn split_by(kernel: &ContractKernel, condition: &Cond) -> Option<(usize, usize, Vec<Range<usize>>)> {
    let (strides, _) = condition.value().affine(kernel.axes.len())?;
    let mut axes = (0..strides.len()).filter(|&axis| strides[axis] != 0);
    let (Some(axis), Some(summed), None) = (axes.next(), axes.next(), axes.next()) else { return None };
    let (size, own) = (kernel.axes[axis], kernel.group(1).start..kernel.group(2).end);
    let are_phases = (2..=MAX_PHASES).contains(&size) && own.contains(&axis) && kernel.group(3).contains(&summed);
    let group = if kernel.group(1).contains(&axis) { 1 } else { 2 };
    // windows read an element at several pairs of points
    let are_windows = strides[summed].abs() < size as i64 * strides[axis].abs();
    if !are_phases || are_windows || kernel.sizes()[group] / size < MIN_POINTS {
        return None;
    }
    let mut point = vec![0; strides.len()];
    let terms = (0..size).map(|phase| {
        point[axis] = phase;
        let mut holds = (0..kernel.axes[summed]).filter(|&term| {
            point[summed] = term;
            condition.holds(&point)
        });
        let first = holds.next()?;
        // the bounds of a sum hold without gaps
        Some(first..first + 1 + holds.count())
    });
    let terms = terms.collect::<Option<Vec<_>>>()?;
    terms.iter().any(|terms| terms.len() < kernel.axes[summed]).then_some((axis, summed, terms))
}

/// The bounds within which what an operand reads lies.
fn conditions((tape, _): &(Tape, ValueId)) -> impl Iterator<Item = &Cond> {
    let valid = tape.instrs.iter().flat_map(|instr| match &instr.op {
        InstrOp::Load { valid, .. } => valid.as_slice(),
        _ => &[],
    });
    valid.filter(|condition| matches!(condition, Cond::InRange(..)))
}
