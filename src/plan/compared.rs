//! Values that are compared with their own maximum or minimum: `argmax`, `cummax`, the gradients of `max`, of pooling and
//! of `scatter_reduce`.
//!
//! Both sides must be rounded alike. A driver may contract a product and a sum in one place and not in another, and f16
//! values have more bits in registers; so what is computed with rounding is stored, and whoever compares reads it back.

use rustc_hash::FxHashSet;

use crate::dtype::DType;
use crate::graph::{Binary, Op, Program, ProgramNode, ReduceOp, Segments, Unary};

/// For each node, whether it is computed with rounding and is compared with an extremum of itself.
pub(super) fn compared(program: &Program) -> Vec<bool> {
    let mut compared = vec![false; program.nodes.len()];
    for node in &program.nodes {
        let Op::Binary(op) = node.op else { continue };
        if !op.is_comparison() {
            continue;
        }
        for (side, extremum) in [(0, 1), (1, 0)] {
            let value = moved(program, node.inputs[side]);
            compared[value] |= is_extremum(program, node.inputs[extremum], value) && rounds(program, value);
        }
    }
    compared
}

/// The node below views and reshapes.
fn moved(program: &Program, mut number: usize) -> usize {
    while program.nodes[number].op.is_move() {
        number = program.nodes[number].inputs[0];
    }
    number
}

/// True if `number` is the largest or smallest element of `value`, or of some of it, reduced in one step or several.
fn is_extremum(program: &Program, number: usize, value: usize) -> bool {
    let mut seen = FxHashSet::default();
    let mut stack = vec![(number, false)];
    while let Some((number, reduced)) = stack.pop() {
        let node = &program.nodes[number];
        if reduced && number == value {
            return true;
        }
        if !seen.insert(number) {
            continue;
        }
        match node.op {
            Op::Reduce { op: ReduceOp::Max | ReduceOp::Min, .. }
            | Op::Scan { op: ReduceOp::Max | ReduceOp::Min, .. }
            | Op::Segments(Segments { op: ReduceOp::Max | ReduceOp::Min, .. }) => {
                stack.push((node.inputs[0], true));
            }
            Op::Gather { .. } => stack.push((node.inputs[0], reduced)),
            _ if node.op.is_move() => stack.push((node.inputs[0], reduced)),
            // a reduction of f16 that is cut has partial results in f32
            Op::Cast if reduced || is_split(program, number) => stack.push((node.inputs[0], reduced)),
            // of parts that are joined, as cumulative ones are
            Op::Binary(Binary::Max | Binary::Min) => stack.extend(node.inputs.iter().map(|&part| (part, true))),
            // of what a mask leaves
            Op::Select if reduced => stack.extend(node.inputs[1..].iter().map(|&branch| (branch, true))),
            _ => {}
        }
    }
    false
}

/// True for the cast back to f16 behind a reduction in f32.
fn is_split(program: &Program, number: usize) -> bool {
    let input = moved(program, program.nodes[number].inputs[0]);
    program.nodes[number].dtype == DType::F16
        && matches!(program.nodes[input].op, Op::Reduce { .. } | Op::Scan { .. } | Op::Segments(_))
}

/// True if the value depends on how its floats are rounded on the way: everything but moves, choices and exact ops from
/// what lies in memory in any case.
fn rounds(program: &Program, number: usize) -> bool {
    let mut seen = FxHashSet::default();
    let mut stack = vec![number];
    while let Some(number) = stack.pop() {
        let node = &program.nodes[number];
        let stored = matches!(node.op, Op::Leaf | Op::Reduce { .. } | Op::Contract(_) | Op::Pack { .. });
        if stored || super::routine::is_routine(&node.op) || !seen.insert(number) {
            continue;
        }
        if !is_exact(node) {
            return true;
        }
        stack.extend(&node.inputs);
    }
    false
}

fn is_exact(node: &ProgramNode) -> bool {
    match node.op {
        Op::Unary(op) => {
            use Unary::{Abs, Ceil, Floor, IsFinite, IsNan, Neg, Not, Round, Sign};
            !node.dtype.is_float() || matches!(op, Neg | Abs | Sign | Floor | Ceil | Round | Not | IsFinite | IsNan)
        }
        Op::Binary(op) => !node.dtype.is_float() || matches!(op, Binary::Max | Binary::Min),
        _ => true,
    }
}
