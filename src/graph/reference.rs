//! The f64 reference: a graph's values on the host, op by op, as plainly as possible.

use std::collections::HashMap;

use crate::dtype::{DType, Element};

use super::{Node, NodeRef, Source};

/// The values of `roots` in row-major order.
///
/// A value is looked up in `leaves` by node number, be it a leaf's or not; another leaf's is read back from its device.
/// Floats are not rounded except by casts; integers wrap at 32 bits.
///
/// # Panics
///
/// If a leaf has neither a given nor a readable value.
pub fn evaluate<S: std::hash::BuildHasher>(roots: &[NodeRef], leaves: &HashMap<u64, Vec<f64>, S>) -> Vec<Vec<f64>> {
    let mut values: HashMap<u64, Vec<f64>> = HashMap::new();
    for node in inputs_first(roots, leaves) {
        let value = if let Some(value) = leaves.get(&node.id) {
            assert_eq!(value.len(), node.shape.numel(), "value given for {node:?}");
            value.clone()
        } else if node.source.is_some() {
            leaf(node)
        } else {
            let inputs: Vec<&[f64]> = node.inputs.iter().map(|input| values[&input.id].as_slice()).collect();
            crate::ops::reference(node, &inputs)
        };
        values.insert(node.id, value);
    }
    roots.iter().map(|root| values[&root.id].clone()).collect()
}

/// All nodes that `roots` depend on, each after its inputs; those of a given value are not needed.
fn inputs_first<'a, S: std::hash::BuildHasher>(
    roots: &'a [NodeRef],
    given: &HashMap<u64, Vec<f64>, S>,
) -> Vec<&'a NodeRef> {
    let mut found: HashMap<u64, &NodeRef> = HashMap::new();
    let mut stack: Vec<&NodeRef> = roots.iter().collect();
    while let Some(node) = stack.pop() {
        if found.insert(node.id, node).is_none() && !given.contains_key(&node.id) {
            stack.extend(&node.inputs);
        }
    }
    let mut nodes: Vec<&NodeRef> = found.into_values().collect();
    // numbers grow with creation, and inputs are made first
    nodes.sort_unstable_by_key(|node| node.id);
    nodes
}

fn leaf(node: &Node) -> Vec<f64> {
    if let Some(Source::Host(value)) = &node.source {
        return vec![crate::Scalar { dtype: node.dtype, bits: value.get() }.to_f64()];
    }
    let memory = match &node.source {
        Some(Source::Var(var)) => Some(var.memory()),
        _ => node.value(),
    };
    let memory = memory.unwrap_or_else(|| panic!("the reference needs a value for {node:?}"));
    let _exclusive = node.device.exclusive();
    let (storage, first) = memory.get();
    let size = node.dtype.size_bytes();
    let read = node.device.begin_read::<u8>(&storage, (first * size) as u64, node.shape.bytes(node.dtype));
    decode(node.dtype, &read.now().unwrap_or_else(|error| panic!("reading {node:?}: {error}")))
}

/// Elements in memory as f64, exactly.
pub fn decode(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    fn with<T: Element>(bytes: &[u8], f: impl Fn(T) -> f64) -> Vec<f64> {
        T::from_bytes(bytes).into_iter().map(f).collect()
    }
    match dtype {
        DType::F32 => with::<f32>(bytes, f64::from),
        DType::F16 => with::<half::f16>(bytes, f64::from),
        DType::I32 => with::<i32>(bytes, f64::from),
        DType::U32 => with::<u32>(bytes, f64::from),
        DType::U8 | DType::Bool => with::<u8>(bytes, f64::from),
    }
}

/// All coordinates of a shape, in row-major order.
pub(crate) fn coordinates(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> {
    let count = shape.iter().product();
    (0..count).map(|number| unravel(number, shape))
}

/// The coordinates of element `number` in row-major order.
pub(crate) fn unravel(mut number: usize, shape: &[usize]) -> Vec<usize> {
    let mut point = vec![0; shape.len()];
    for (coordinate, &size) in point.iter_mut().zip(shape).rev() {
        *coordinate = number % size;
        number /= size;
    }
    point
}

/// The row-major number of the element at `point`.
pub(crate) fn ravel(point: &[usize], shape: &[usize]) -> usize {
    point.iter().zip(shape).fold(0, |number, (coordinate, size)| number * size + coordinate)
}
