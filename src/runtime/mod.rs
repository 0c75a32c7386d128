//! Evaluation, variables and captured steps. A stand-in until the planner lands: values come from the f64 reference.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::device::Device;
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::graph::{HostValue, Memory, Node, NodeRef, Source, reference};
use crate::shape::Shape;

/// State that lives on a device.
pub struct VarCell;

pub(crate) fn realize(nodes: &[NodeRef]) -> Result<()> {
    let values = reference::evaluate(nodes, &HashMap::new());
    for (node, values) in nodes.iter().zip(values) {
        let mut bytes = Vec::new();
        for value in values {
            let bits = Scalar::new(node.dtype, value).bits.to_le_bytes();
            bytes.extend_from_slice(&bits[..node.dtype.size_bytes()]);
        }
        let storage = node.device.alloc(bytes.len() as u64, "value")?;
        node.device.write(&storage, 0, &bytes)?;
        node.set_value(Memory::new(storage, 0));
    }
    Ok(())
}

/// Seed, position and ordinal for a draw of random numbers.
pub(crate) fn random_inputs(device: &Device) -> (NodeRef, NodeRef, u32) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let scalar = |bits| Node::leaf(Source::Host(Arc::new(HostValue::new(bits))), Shape::from([]), DType::U32, device);
    (scalar(42), scalar(0), NEXT.fetch_add(1, Ordering::Relaxed))
}
