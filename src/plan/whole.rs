//! Memory of own kernels: each of their values is bound as a range of its own, which starts where a binding may and, if
//! it is written, holds nothing else.

use std::collections::BTreeSet;

use rustc_hash::FxHashSet;

use crate::custom::ALIGNMENT;
use crate::graph::{Op, Program, ProgramNode, Slot};

use super::copies::{copy_inputs, copy_placed};

/// Puts copies between own kernels and places that do not fit: what they read from the middle of a storage, and what
/// they write as a part of one. Outputs and parts of packs have nodes of their own.
pub(super) fn separate(program: &mut Program) {
    if !program.nodes.iter().any(is_own) {
        return;
    }
    let written = written_as_parts(program);
    if !written.is_empty() {
        copy_placed(program, &written);
    }
    let unaligned = unaligned(program);
    let mut inputs = FxHashSet::default();
    for (number, node) in program.nodes.iter().enumerate().filter(|(_, node)| is_own(node)) {
        let moved = node.inputs.iter().enumerate().filter(|(_, input)| unaligned.contains(input));
        inputs.extend(moved.map(|(place, _)| (number, place)));
    }
    copy_inputs(program, &inputs);
}

fn is_own(node: &ProgramNode) -> bool {
    matches!(node.op, Op::Kernel(_))
}

/// Own kernels whose values belong in a pack, or in a storage with others.
fn written_as_parts(program: &Program) -> BTreeSet<usize> {
    let outputs = program.outputs.iter().filter(|output| {
        let elements = program.nodes[output.node].shape.numel();
        output.offset > 0 || program.externals[output.external].elements != elements
    });
    let packs = program.nodes.iter().filter(|node| matches!(node.op, Op::Pack { .. }));
    let placed = outputs.map(|output| output.node).chain(packs.flat_map(|pack| pack.inputs.iter().copied()));
    placed.filter(|&node| is_own(&program.nodes[node])).collect()
}

/// Nodes that do not lie where a binding may start.
pub(super) fn unaligned(program: &Program) -> FxHashSet<usize> {
    let starts = |node: usize, offset: usize| {
        let node = &program.nodes[node];
        (offset * node.dtype.size_bytes()).is_multiple_of(ALIGNMENT) && (offset == 0 || node.shape.numel() > 0)
    };
    let outputs = program.outputs.iter().filter(|output| !starts(output.node, output.offset));
    let mut found: FxHashSet<usize> = outputs.map(|output| output.node).collect();
    for (number, node) in program.nodes.iter().enumerate() {
        match (&node.op, node.slot) {
            (Op::Pack { .. }, _) => found.extend(&node.inputs),
            (_, Slot::External { offset, .. }) if !starts(number, offset) => drop(found.insert(number)),
            _ => {}
        }
    }
    found
}
