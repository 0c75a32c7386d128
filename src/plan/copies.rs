//! Copies of values that would have to lie in two places, or in a place where they are in the way.

use std::collections::BTreeSet;

use rustc_hash::FxHashSet;
use smallvec::smallvec;

use crate::graph::{Op, Program, ProgramNode, Slot};

/// A node that is a copy of `node`, in its own memory.
fn copy_of(program: &mut Program, node: usize) -> usize {
    let original = &program.nodes[node];
    let copy = ProgramNode { op: Op::Cast, inputs: smallvec![node], slot: Slot::None, ..original.clone() };
    program.nodes.push(copy);
    program.nodes.len() - 1
}

/// Gives every output and every part of a pack a node of its own, which can lie where it has to.
pub(super) fn copy_shared(program: &mut Program) {
    let mut claimed = FxHashSet::default();
    copy(program, |program, node, into_pack| {
        let fixed = match program.nodes[node].op {
            Op::Leaf => true,
            Op::Pack { .. } => into_pack,
            _ => false,
        };
        fixed || !claimed.insert(node)
    });
}

/// Has copies of these outputs and parts of packs put where they belong; returns the new number of each node.
pub(super) fn copy_placed(program: &mut Program, nodes: &BTreeSet<usize>) -> Vec<usize> {
    let before = program.nodes.len();
    let names = copy(program, |_, node, _| nodes.contains(&node));
    assert!(program.nodes.len() > before, "a value that lies in memory of its own is in nobody's way");
    names
}

/// Copies those outputs and parts of packs that `needed` says (told of the program, the node, and whether it is a
/// part), outputs first; returns the new number of each node.
fn copy(program: &mut Program, mut needed: impl FnMut(&Program, usize, bool) -> bool) -> Vec<usize> {
    let outputs: Vec<bool> = program.outputs.iter().map(|output| needed(program, output.node, false)).collect();
    let mut parts = FxHashSet::default();
    for (number, node) in program.nodes.iter().enumerate() {
        let Op::Pack { .. } = node.op else { continue };
        let inputs = node.inputs.iter().enumerate();
        parts.extend(inputs.filter(|&(_, &input)| needed(program, input, true)).map(|(place, _)| (number, place)));
    }
    let names = copy_inputs(program, &parts);
    for (position, copied) in outputs.into_iter().enumerate() {
        if copied {
            program.outputs[position].node = copy_of(program, program.outputs[position].node);
        }
    }
    names
}

/// Copies these inputs (node, and which of its inputs); returns the new number of each node. A copy has to come before
/// its reader, so the program is rebuilt in order.
pub(super) fn copy_inputs(program: &mut Program, inputs: &FxHashSet<(usize, usize)>) -> Vec<usize> {
    let old = std::mem::take(&mut program.nodes);
    let mut names = Vec::with_capacity(old.len());
    for (number, mut node) in old.into_iter().enumerate() {
        for (place, input) in node.inputs.iter_mut().enumerate() {
            *input = names[*input];
            if inputs.contains(&(number, place)) {
                *input = copy_of(program, *input);
            }
        }
        names.push(program.nodes.len());
        program.nodes.push(node);
    }
    for output in &mut program.outputs {
        output.node = names[output.node];
    }
    names
}
