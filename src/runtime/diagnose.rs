//! Finds the origin of a NaN: every node of a program gets memory of its own, some at a time, and the first bad value
//! is named.

use std::sync::Arc;

use crate::device::{Device, Storage};
use crate::dtype::{DType, Element};
use crate::error::{Error, Result};
use crate::graph::{External, HostValue, Op, Output, Program, ProgramNode};
use crate::plan::{self, PlanOptions};

/// Most bytes of the values that are kept at a time; for each further group of them the program runs again.
const GROUP_BYTES: u64 = 256 << 20;

/// The first node with a non-finite value, in words; `None` if there is none. The program's own outputs are not
/// written.
///
/// Where memory is short, fewer values are kept at a time; where it does not do for a single one, the nodes on the way
/// to it are fused as in the captured step.
pub(super) fn first_non_finite(
    device: &Device,
    program: &Program,
    storages: &[Storage],
    hosts: &[Arc<HostValue>],
    options: &PlanOptions,
) -> Result<Option<String>> {
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
            Err(Error::OutOfMemory { .. }) if group.len() > 1 => {
                limit = group.iter().map(|&number| search.bytes(number)).sum::<u64>() / 2;
            }
            Err(Error::OutOfMemory { .. }) if !search.options.fuse && options.fuse => search.options.fuse = true,
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
    node.dtype.is_float() && !moved && !given && node.shape.numel() > 0
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
            let bytes = self.device.begin_read::<u8>(storage, 0, self.bytes(number)).now()?;
            let bad = match node.dtype {
                DType::F16 => half::f16::from_bytes(&bytes).iter().position(|value| !value.is_finite()),
                _ => f32::from_bytes(&bytes).iter().position(|value| !value.is_finite()),
            };
            if let Some(index) = bad {
                return Ok(Some(format!("the first non-finite value is element {index} of {}", node.describe())));
            }
        }
        Ok(None)
    }
}
