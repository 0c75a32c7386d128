//! Activation checkpointing: compute a part of the model again in the backward pass instead of keeping its values.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::autodiff;
use crate::graph::{Node, NodeRef, Op, Source, in_segment};
use crate::tensor::Tensor;

/// What `function` gives. The values inside it are not kept for the gradient but computed again when that arrives (Chen
/// et al. 2016, "Training Deep Nets with Sublinear Memory Cost"). It runs once: what is computed again is what it
/// traced, so dropout repeats its choices, and variables that it assigns get their values once.
///
/// ```
/// use brasa::autodiff::grad;
/// use brasa::runtime::checkpoint;
/// use brasa::{Device, Tensor};
///
/// let x = Tensor::from_slice(&[0.5_f32, -1.0], [2], &Device::cpu())?;
/// let plain = grad(&x.sin().exp().sum(), &[&x]).remove(0);
/// let saving = checkpoint(|| x.sin().exp());
/// assert_eq!(grad(&saving.sum(), &[&x]).remove(0).to_vec::<f32>()?, plain.to_vec::<f32>()?);
/// # Ok::<(), brasa::Error>(())
/// ```
#[track_caller]
#[must_use]
pub fn checkpoint(function: impl FnOnce() -> Tensor) -> Tensor {
    let first = Node::next_id();
    let output = function();
    if output.node().id < first {
        return output;
    }
    let (mut nodes, edge) = (vec![output.node().clone()], Inside::of(output.node(), |node| node.id < first).edge);
    nodes.extend(edge);
    Tensor::from_node(Node::custom(nodes, Arc::new(compute_again)))
}

/// The gradients of the inputs of `node`, a checkpoint: its output, then all that the inside was computed from.
fn compute_again(node: &NodeRef, gradient: &NodeRef) -> Vec<Option<NodeRef>> {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let segment = NEXT.fetch_add(1, Ordering::Relaxed);
    let (output, edge) = node.inputs.split_first().expect("a checkpoint has an output");
    let mut copies: HashMap<u64, NodeRef> = edge.iter().map(|node| (node.id, later(node, gradient))).collect();
    let inside = Inside::of(output, |node| copies.contains_key(&node.id)).nodes;
    in_segment(segment, || {
        for node in inside {
            let inputs = node.inputs.iter().map(|input| copies[&input.id].clone()).collect();
            copies.insert(node.id, node.again(inputs));
        }
    });
    let tensor = |node: &NodeRef| Tensor::from_node(copies[&node.id].clone());
    let floats: Vec<Tensor> = edge.iter().filter(|node| node.dtype.is_float()).map(tensor).collect();
    // not the gradient of `again · gradient`: the incoming gradient may depend on the same parameters
    let gradient = Tensor::from_node(gradient.clone());
    let mut gradients = autodiff::pull_back(&tensor(output), &gradient, &floats.iter().collect::<Vec<_>>()).into_iter();
    let mut of = |node: &NodeRef| {
        let float = node.dtype.is_float();
        float.then(|| gradients.next().expect("one for each float").node().clone())
    };
    std::iter::once(None).chain(edge.iter().map(&mut of)).collect()
}

/// `input`, but not before `gradient` is there. Parameters and constants need not wait: nothing is computed of them
/// alone.
fn later(input: &NodeRef, gradient: &NodeRef) -> NodeRef {
    if matches!(input.source, Some(Source::Var(_) | Source::Host(_))) {
        return input.clone();
    }
    let inputs = vec![input.clone(), gradient.clone()];
    Node::new(Op::After, inputs, input.shape.clone(), input.dtype, &input.device)
}

/// A part of a graph that ends with one node.
struct Inside {
    /// In an order in which they can be computed.
    nodes: Vec<NodeRef>,
    /// What they are computed from.
    edge: Vec<NodeRef>,
}

impl Inside {
    /// What `output` is computed from, as far as leaves and nodes that are `outside`.
    fn of(output: &NodeRef, outside: impl Fn(&Node) -> bool) -> Self {
        let (mut nodes, mut edge) = (HashMap::new(), HashMap::new());
        let mut stack = vec![output];
        while let Some(node) = stack.pop() {
            let given = node.source.is_some() || node.variable.is_some();
            let side = if outside(node) || given { &mut edge } else { &mut nodes };
            if side.insert(node.id, node).is_none() && !edge.contains_key(&node.id) {
                stack.extend(&node.inputs);
            }
        }
        // a node is made after its inputs
        let ordered = |nodes: HashMap<u64, &NodeRef>| {
            let mut nodes: Vec<NodeRef> = nodes.into_values().cloned().collect();
            nodes.sort_unstable_by_key(|node| node.id);
            nodes
        };
        Self { nodes: ordered(nodes), edge: ordered(edge) }
    }
}
