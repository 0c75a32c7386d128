//! Where values lie before slots are chosen: in memory of the caller, in a pack, or in a buffer of their own.

use crate::graph::{Op, Output, Program, Slot};

use super::emit::Home;
use super::kernel::{Buffer, BufferId, Place};
use super::layout;

/// For each node its home, the buffers, and those of them that start as zeros.
type Places = (Vec<Option<Home>>, Vec<Buffer>, Vec<BufferId>);

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
            zeroed.push(buffers.len());
            buffers.push(Buffer { dtype: node.dtype, elements: *len, place: Place::Slot(0), label: node.describe() });
            Home::row_major(buffers.len() - 1, 0, &node.shape)
        });
        let (buffer, start) = (home.buffer, home.offset);
        for (&input, &offset) in node.inputs.iter().zip(offsets) {
            homes[input] = Some(Home::row_major(buffer, start + offset, &program.nodes[input].shape));
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
                let elements = node.shape.numel();
                buffers.push(Buffer { dtype: node.dtype, elements, place: Place::Slot(0), label: node.describe() });
            }
            _ => {}
        }
    }
    (homes, buffers, zeroed)
}
