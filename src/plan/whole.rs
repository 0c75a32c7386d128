//! Memory of own kernels: each of their values is bound as a range of its own, which starts where a binding may and, if it
//! is written, holds nothing else.

use std::collections::{BTreeSet, HashSet};

use crate::custom::ALIGNMENT;
use crate::graph::{Op, Program, Slot};

use super::copies::{copy_of, copy_placed};

/// Puts copies between own kernels and places that do not fit: what they read from the middle of a storage, and what they
/// write as a part of one. Outputs and parts of packs have nodes of their own.
pub(super) fn separate(program: &mut Program) {
    if !program.nodes.iter().any(|node| matches!(node.op, Op::Kernel(_))) {
        return;
    }
    let written = written_as_parts(program);
    if !written.is_empty() {
        copy_placed(program, &written);
    }
    copy_inputs(program);
}

/// Own kernels whose values belong in a pack, or in a storage with others.
fn written_as_parts(program: &Program) -> BTreeSet<usize> {
    let outputs = program.outputs.iter().filter(|output| {
        let elements = program.nodes[output.node].shape.numel();
        output.offset > 0 || program.externals[output.external].elements != elements
    });
    let packs = program.nodes.iter().filter(|node| matches!(node.op, Op::Pack { .. }));
    let placed = outputs.map(|output| output.node).chain(packs.flat_map(|pack| pack.inputs.iter().copied()));
    placed.filter(|&node| matches!(program.nodes[node].op, Op::Kernel(_))).collect()
}

fn copy_inputs(program: &mut Program) {
    let anywhere = anywhere(program);
    let old = std::mem::take(&mut program.nodes);
    let mut names = Vec::with_capacity(old.len());
    for mut node in old {
        for input in &mut node.inputs {
            let copied = matches!(node.op, Op::Kernel(_)) && anywhere.contains(input);
            *input = names[*input];
            if copied {
                *input = copy_of(program, *input);
            }
        }
        names.push(program.nodes.len());
        program.nodes.push(node);
    }
    for output in &mut program.outputs {
        output.node = names[output.node];
    }
}

/// Nodes that do not lie where a binding may start.
fn anywhere(program: &Program) -> HashSet<usize> {
    let starts = |node: usize, offset: usize| {
        let node = &program.nodes[node];
        (offset * node.dtype.size_bytes()).is_multiple_of(ALIGNMENT) && (offset == 0 || node.shape.numel() > 0)
    };
    let outputs = program.outputs.iter().filter(|output| !starts(output.node, output.offset));
    let mut found: HashSet<usize> = outputs.map(|output| output.node).collect();
    for (number, node) in program.nodes.iter().enumerate() {
        match (&node.op, node.slot) {
            (Op::Pack { .. }, _) => found.extend(&node.inputs),
            (_, Slot::External { offset, .. }) if !starts(number, offset) => drop(found.insert(number)),
            _ => {}
        }
    }
    found
}
