//! What is said of a kernel: its label and its arithmetic.

use crate::graph::{Op, Program, op_name};
use crate::shape::Shape;

use super::fuse::Group;
use super::kernel::{Body, InstrOp, Level, Tape};
use super::routine::{Routine, RoutineKind};

/// `family.op[shape]`: the op that gives the kernel its form, and the last one in it.
pub(super) fn label(program: &Program, group: &Group, body: &Body) -> String {
    let last = *group.members.last().expect("not empty");
    let root = group
        .members
        .iter()
        .copied()
        .find(|&node| matches!(program.nodes[node].op, Op::Reduce { .. } | Op::Contract(_)));
    let family = match body {
        Body::Contract(_) => "contract",
        Body::Routine(Routine { kind: RoutineKind::Custom(_), .. }) => "custom",
        Body::Routine(_) => "routine",
        Body::Loop(kernel) if kernel.phases.iter().filter(|phase| phase.level == Level::Inner).count() > 1 => "rows",
        Body::Loop(kernel) if kernel.outer < kernel.axes.len() => "reduce",
        Body::Loop(_) if root.is_some() => "reduce",
        Body::Loop(_) => "map",
    };
    let mut name = String::new();
    for node in root.into_iter().chain((root != Some(last)).then_some(last)) {
        let op = match &program.nodes[node].op {
            Op::Contract(_) => continue,
            op => op_name(op),
        };
        if !name.is_empty() {
            name.push('+');
        }
        name.push_str(&op);
    }
    let separator = if name.is_empty() { "" } else { "." };
    format!("{family}{separator}{name}{}", program.nodes[last].shape)
}

/// Arithmetic operations of a kernel: instructions that compute, times the points they run at.
pub(super) fn flops(body: &Body) -> u64 {
    let work = |tape: &Tape| {
        let arithmetic = |op: &InstrOp| {
            matches!(op, InstrOp::Unary(..) | InstrOp::Binary(..) | InstrOp::Select(..) | InstrOp::Random { .. })
        };
        tape.instrs.iter().filter(|instr| arithmetic(&instr.op)).count() as u64
    };
    match body {
        Body::Loop(kernel) => {
            let points = |axes: &[usize]| Shape::from(axes).numel();
            let (outer, all) = (points(&kernel.axes[..kernel.outer]), points(&kernel.axes));
            kernel
                .phases
                .iter()
                .map(|phase| {
                    let points = if phase.level == Level::Outer { outer } else { all };
                    (work(&phase.tape) + phase.reductions.len() as u64) * points as u64
                })
                .sum()
        }
        Body::Contract(kernel) => {
            let [batch, m, n, k] = kernel.sizes().map(|size| size as u64);
            2 * batch * m * n * k + batch * m * n * work(&kernel.epilogue)
        }
        Body::Routine(routine) => routine.operations(),
    }
}
