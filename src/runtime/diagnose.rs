//! Finds the origin of a NaN: what is given is read first, then every node of a program gets memory of its own, some at a
//! time, and the first bad value is named.

use std::sync::Arc;

use crate::device::{Device, Storage};
use crate::dtype::{DType, Element};
use crate::error::{Error, Result};
use crate::graph::{External, Op, Output, Program, ProgramNode, Slot};
use crate::plan::{self, PlanOptions};

use super::capture::Captured;

/// Most bytes of the values that are kept at a time; for each further group of them the program runs again.
const GROUP_BYTES: u64 = 256 << 20;

/// The first non-finite values of the captured step, in words: the one that is given already, if there is one, and the
/// first that is computed. A given one alone need not be the cause, as masks are infinite. `None` if there is neither.
/// Its own outputs are not written.
pub(super) fn first_non_finite(device: &Device, captured: &Captured, options: &PlanOptions) -> Result<Option<String>> {
    let given = first_given(device, captured)?;
    let computed = first_computed(device, captured, options)?;
    Ok(match (given, computed) {
        (Some(given), Some(computed)) => Some(format!("{given}; of what is computed, {computed}")),
        (given, computed) => given.or(computed),
    })
}

/// The first input, else the first variable or tensor from outside, that has a non-finite value before anything is
/// computed.
fn first_given(device: &Device, captured: &Captured) -> Result<Option<String>> {
    let numbers = captured.program.nodes.iter().filter(|node| is_number(node));
    let leaf = |node: &ProgramNode| match node.slot {
        Slot::External { external, offset } => Some((external, offset)),
        Slot::None | Slot::Uniform(_) => None,
    };
    let mut leaves: Vec<_> =
        numbers.filter_map(|node| leaf(node).map(|(external, offset)| (node, external, offset))).collect();
    leaves.sort_by_key(|&(_, external, _)| external >= captured.inputs.len());
    for (node, external, offset) in leaves {
        let storage = &captured.storages[external];
        if let Some((index, value)) = first_bad(device, storage, offset, node)? {
            let name = captured.name_of(external, offset, &node.shape);
            let name = name.unwrap_or_else(|| format!("the tensor that is read at {}", node.location));
            return Ok(Some(format!("{name} is {value} already, at element {index} of {}", node.shape)));
        }
    }
    Ok(None)
}

/// The first node that computes a non-finite value, in words.
///
/// Where memory is short, fewer values are kept at a time; where it does not do for a single one, the nodes on the way
/// to it are fused as in the captured step.
fn first_computed(device: &Device, captured: &Captured, options: &PlanOptions) -> Result<Option<String>> {
    let Captured { program, storages, hosts, .. } = captured;
    let uniforms: Vec<u32> = hosts.iter().map(|host| host.get()).collect();
    let mut search = Search { device, program, storages, uniforms, options: PlanOptions { fuse: false, ..*options } };
    let watched: Vec<usize> = (0..program.nodes.len()).filter(|&number| is_computed(&program.nodes[number])).collect();
    let (mut left, mut limit) = (&watched[..], GROUP_BYTES);
    while !left.is_empty() {
        let mut sum = 0;
        let fitting = left.iter().take_while(|&&number| {
            sum += search.bytes(number);
            sum <= limit
        });
        let group = &left[..fitting.count().max(1)];
        match search.first_of(group) {
            Ok(None) => left = &left[group.len()..],
            Err(Error::OutOfMemory { .. } | Error::BufferTooLarge { .. }) if group.len() > 1 => {
                limit = group.iter().map(|&number| search.bytes(number)).sum::<u64>() / 2;
            }
            Err(Error::OutOfMemory { .. } | Error::BufferTooLarge { .. }) if !search.options.fuse && options.fuse => {
                search.options.fuse = true;
            }
            found => return found,
        }
    }
    Ok(None)
}

/// Whether a node can be the first with a bad value: moved values are as finite as where they come from.
fn is_computed(node: &ProgramNode) -> bool {
    let moved = matches!(
        node.op,
        Op::View(_) | Op::Reshape | Op::After | Op::Custom | Op::Detach | Op::Pack { .. } | Op::Gather { .. }
    );
    let given = matches!(node.op, Op::Leaf | Op::Uniform | Op::Const(_) | Op::Iota { .. });
    is_number(node) && !moved && !given
}

/// Whether a node's value can be bad at all.
fn is_number(node: &ProgramNode) -> bool {
    node.dtype.is_float() && node.shape.numel() > 0
}

/// Index and value of the first bad element of `node`, which lies in `storage` from element `offset` on.
fn first_bad(device: &Device, storage: &Storage, offset: usize, node: &ProgramNode) -> Result<Option<(usize, f32)>> {
    let start = (offset * node.dtype.size_bytes()) as u64;
    let bytes = device.begin_read::<u8>(storage, start, node.shape.bytes(node.dtype)).now()?;
    let first = |values: &mut dyn Iterator<Item = f32>| values.enumerate().find(|(_, value)| !value.is_finite());
    Ok(match node.dtype {
        DType::F16 => first(&mut half::f16::from_bytes(&bytes).iter().map(|value| value.to_f32())),
        _ => first(&mut f32::from_bytes(&bytes).iter().copied()),
    })
}

struct Search<'a> {
    device: &'a Device,
    program: &'a Program,
    storages: &'a [Storage],
    uniforms: Vec<u32>,
    options: PlanOptions,
}

impl Search<'_> {
    fn bytes(&self, number: usize) -> u64 {
        let node = &self.program.nodes[number];
        node.shape.bytes(node.dtype)
    }

    /// The same among the nodes of `group`.
    fn first_of(&self, group: &[usize]) -> Result<Option<String>> {
        let mut program = Program { outputs: Vec::new(), ..self.program.clone() };
        let mut storages = self.storages.to_vec();
        for &number in group {
            let node = &self.program.nodes[number];
            storages.push(self.device.alloc_pooled(self.bytes(number), "a value to be checked")?);
            program.outputs.push(Output { node: number, external: program.externals.len(), offset: 0 });
            program.externals.push(External { dtype: node.dtype, elements: node.shape.numel() });
        }
        let plan = Arc::new(plan::plan(&program, &self.options));
        self.device.prepare(plan)?.bind(&storages)?.run(&self.uniforms)?;
        for (&number, storage) in group.iter().zip(&storages[self.storages.len()..]) {
            let node = &program.nodes[number];
            if let Some((index, _)) = first_bad(self.device, storage, 0, node)? {
                return Ok(Some(format!("the first non-finite value is element {index} of {}", node.describe())));
            }
        }
        Ok(None)
    }
}
