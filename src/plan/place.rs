//! Where values lie before slots are chosen: in memory of the caller, in a pack, or in a buffer of their own.

use std::ops::Range;

use crate::graph::{Op, Output, Program, ProgramNode, Slot};

use super::emit::Home;
use super::kernel::{Buffer, BufferId, Place};
use super::layout;

/// For each node its home, the buffers, and the gaps in those of the plan.
type Places = (Vec<Option<Home>>, Vec<Buffer>, Vec<(BufferId, Range<usize>)>);

/// A place in memory for every stored node: externals first, then one buffer each.
pub(super) fn place_values(program: &Program, stored: &[bool]) -> Places {
    let mut homes: Vec<Option<Home>> = vec![None; program.nodes.len()];
    let mut zeroed = Vec::new();
    let users = program.users();
    let mut buffers: Vec<Buffer> = program
        .externals
        .iter()
        .enumerate()
        .map(|(number, external)| Buffer {
            dtype: external.dtype,
            elements: external.elements,
            place: Place::External(number),
            offset_bytes: 0,
            label: format!("external {number}"),
        })
        .collect();
    for &Output { node, external, offset } in &program.outputs {
        homes[node] = Some(Home::row_major(external, offset, &program.nodes[node].shape));
    }
    // packs before their inputs
    for (number, node) in program.nodes.iter().enumerate().rev() {
        let Op::Pack { offsets, len } = &node.op else { continue };
        let home = homes[number].get_or_insert_with(|| {
            buffers.push(slot(node, *len));
            Home::row_major(buffers.len() - 1, 0, &node.shape)
        });
        let (buffer, start) = (home.buffer, home.offset);
        let mut parts: Vec<Range<usize>> = Vec::new();
        for (&input, &offset) in node.inputs.iter().zip(offsets) {
            let (first, shape) = (start + offset, &program.nodes[input].shape);
            parts.push(first..first + shape.numel());
            homes[input] = Some(Home::row_major(buffer, first, shape));
        }
        if buffer >= program.externals.len() {
            zeroed.extend(between(parts, start..start + len).map(|gap| (buffer, gap)));
        }
    }
    for (number, node) in program.nodes.iter().enumerate() {
        match node.slot {
            Slot::External { external, offset } => {
                homes[number] = Some(Home::row_major(external, offset, &node.shape));
            }
            _ if stored[number] && homes[number].is_none() => {
                let strides = layout::strides(program, &users[number], stored, number);
                homes[number] = Some(Home { buffer: buffers.len(), offset: 0, strides });
                buffers.push(slot(node, node.shape.numel()));
            }
            _ => {}
        }
    }
    (homes, buffers, zeroed)
}

/// What of `whole` none of the `parts` covers.
pub(super) fn between(mut parts: Vec<Range<usize>>, whole: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    parts.sort_by_key(|part| part.start);
    parts.push(whole.end..whole.end);
    let mut covered = whole.start;
    let gaps = parts.into_iter().map(move |part| {
        let gap = covered..part.start;
        covered = covered.max(part.end);
        gap
    });
    gaps.filter(|gap| !gap.is_empty())
}

/// The buffer of a node's value, in some slot until one is chosen.
fn slot(node: &ProgramNode, elements: usize) -> Buffer {
    Buffer { dtype: node.dtype, elements, place: Place::Slot(0), offset_bytes: 0, label: node.describe() }
}
