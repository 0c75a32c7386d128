//! Finds the origin of a NaN: every node of a program gets memory of its own, and the first bad value is named.

use std::sync::Arc;

use crate::device::{Device, Storage};
use crate::dtype::{DType, Element};
use crate::error::Result;
use crate::graph::{External, HostValue, Op, Output, Program};
use crate::plan::{self, PlanOptions};

/// The first node with a non-finite value, in words; `None` if there is none. The program's own outputs are not
/// written.
pub(super) fn first_non_finite(
    device: &Device,
    program: &Program,
    storages: &[Storage],
    hosts: &[Arc<HostValue>],
    options: &PlanOptions,
) -> Result<Option<String>> {
    let mut program = Program { outputs: Vec::new(), ..program.clone() };
    let mut storages = storages.to_vec();
    let mut watched = Vec::new();
    for number in 0..program.nodes.len() {
        let node = &program.nodes[number];
        // moved values are as finite as where they come from
        let moved = matches!(
            node.op,
            Op::View(_) | Op::Reshape | Op::After | Op::Custom | Op::Detach | Op::Pack { .. } | Op::Gather { .. }
        );
        let computed = !moved && !matches!(node.op, Op::Leaf | Op::Uniform | Op::Const(_) | Op::Iota { .. });
        if !node.dtype.is_float() || !computed || node.shape.numel() == 0 {
            continue;
        }
        let bytes = (node.shape.numel() * node.dtype.size_bytes()) as u64;
        let storage = device.alloc_pooled(bytes, "a value to be checked")?;
        let external = External { dtype: node.dtype, elements: node.shape.numel() };
        program.outputs.push(Output { node: number, external: program.externals.len(), offset: 0 });
        program.externals.push(external);
        watched.push((number, storage.clone()));
        storages.push(storage);
    }
    let plan = Arc::new(plan::plan(&program, options));
    let uniforms: Vec<u32> = hosts.iter().map(|host| host.get()).collect();
    device.prepare(plan)?.bind(&storages)?.run(&uniforms)?;
    for (number, storage) in watched {
        let node = &program.nodes[number];
        let bytes = (node.shape.numel() * node.dtype.size_bytes()) as u64;
        let bytes = pollster::block_on(device.read(&storage, 0, bytes))?;
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
