//! What a function computes, traced once or, where the batch's size is left open, for several sizes that are compared.

use std::collections::{HashMap, HashSet};

use crate::device::Device;
use crate::error::{Error, Result};
use crate::graph::{Node, NodeRef, Op, Source, View, op_name};
use crate::runtime::trace;
use crate::shape::Shape;
use crate::tensor::{Tensor, no_grad};

use super::size::Size;
use super::{Batch, Input};

/// Sizes of the batch that are compared; 1 would be taken for an axis that is repeated.
const BATCHES: [usize; 2] = [2, 3];
/// A third one, by which what they tell is tried.
const TRIED: usize = 7;

/// More elements are computed by whoever runs the model.
const MAX_FOLDED: usize = 1 << 22;

/// A traced function.
pub(super) struct Traced {
    /// The leaf of each input.
    pub(super) inputs: Vec<NodeRef>,
    /// The function's values.
    pub(super) outputs: Vec<NodeRef>,
    /// What they are computed from, inputs before their users, without nodes that only hand on a value.
    pub(super) nodes: Vec<NodeRef>,
    /// The same nodes as traced for the other size of the batch.
    others: HashMap<u64, NodeRef>,
    /// Values that depend on nothing but numbers, and have the same size for every batch.
    constants: HashSet<u64>,
}

/// The node whose value this one hands on unchanged: what carries a gradient rule, stops gradients or waits is none of
/// its own.
pub(super) fn resolved(node: &NodeRef) -> &NodeRef {
    let mut node = node;
    while matches!(node.op, Op::Custom | Op::Detach | Op::After) {
        node = &node.inputs[0];
    }
    node
}

/// The inputs that a node's value is computed from.
pub(super) fn inputs(node: &Node) -> impl Iterator<Item = &NodeRef> {
    node.inputs.iter().map(resolved)
}

impl Traced {
    /// Traces `function`.
    pub(super) fn new(
        device: &Device,
        inputs: &[Input],
        batch: Batch,
        function: &dyn Fn(&[Tensor]) -> Vec<Tensor>,
    ) -> Result<Self> {
        let [first, second] = match batch {
            Batch::Fixed(size) => [size; 2],
            Batch::Named => BATCHES,
        };
        let (leaves, outputs) = traced(device, inputs, first, function)?;
        let mut nodes: Vec<NodeRef> = Vec::new();
        let mut stack: Vec<NodeRef> = outputs.clone();
        let mut seen = HashSet::new();
        while let Some(node) = stack.pop() {
            if seen.insert(node.id) {
                stack.extend(self::inputs(&node).cloned());
                nodes.push(node);
            }
        }
        // numbers grow with creation, and inputs are made first
        nodes.sort_unstable_by_key(|node| node.id);
        let unknown: Vec<String> = nodes.iter().filter(|node| !is_known(&node.op)).map(|node| what(node)).collect();
        if !unknown.is_empty() {
            return Err(Error::Export(format!("there is no operator of ONNX for {}", unknown.join(", "))));
        }
        let (_, other_outputs) = match batch {
            Batch::Fixed(_) => (Vec::new(), outputs.clone()),
            Batch::Named => traced(device, inputs, second, function)?,
        };
        let others = paired(&outputs, &other_outputs)?;
        let mut traced = Self { inputs: leaves, outputs, nodes, others, constants: HashSet::new() };
        if batch == Batch::Named {
            let (_, third) = self::traced(device, inputs, TRIED, function)?;
            traced.try_with(&paired(&traced.outputs, &third)?)?;
        }
        for number in 0..traced.nodes.len() {
            let node = &traced.nodes[number];
            let of_numbers = match node.op {
                Op::Leaf => false,
                _ if node.shape.numel() > MAX_FOLDED => false,
                _ => self::inputs(node).all(|input| traced.constants.contains(&input.id)),
            };
            if of_numbers && traced.sizes(node).iter().all(|size| size.is_fixed()) {
                traced.constants.insert(node.id);
            }
        }
        Ok(traced)
    }

    /// Sees that sizes of a third batch are what the two others tell of them.
    fn try_with(&self, third: &HashMap<u64, NodeRef>) -> Result<()> {
        for node in &self.nodes {
            let wanted = self.sizes(node).into_iter().map(|size| size.fixed + size.per_batch * TRIED as i64);
            if !third[&node.id].shape.iter().map(|&size| size as i64).eq(wanted) {
                return Err(depends(&what(node)));
            }
        }
        Ok(())
    }

    /// The sizes of a node's axes.
    pub(super) fn sizes(&self, node: &Node) -> Vec<Size> {
        let other = &self.others[&node.id].shape;
        node.shape.iter().zip(other.iter()).map(|(&a, &b)| Size::between(BATCHES, [a, b])).collect()
    }

    /// The size that is `a`, and `b` for the other size of the batch.
    pub(super) fn between(&self, a: usize, b: usize) -> Size {
        Size::between(BATCHES, [a, b])
    }

    /// The same node as traced for the other size of the batch.
    pub(super) fn other(&self, node: &Node) -> &NodeRef {
        &self.others[&node.id]
    }

    /// Whether a value depends on nothing but numbers.
    pub(super) fn is_constant(&self, node: &Node) -> bool {
        self.constants.contains(&node.id)
    }
}

type Leaves = Vec<NodeRef>;

/// The leaves that stand for the inputs, and what `function` makes of them.
fn traced(
    device: &Device,
    inputs: &[Input],
    batch: usize,
    function: &dyn Fn(&[Tensor]) -> Vec<Tensor>,
) -> Result<(Leaves, Vec<NodeRef>)> {
    let leaf = |(slot, input): (usize, &Input)| {
        let shape = if input.batched { [&[batch], &*input.shape].concat().into() } else { input.shape.clone() };
        Node::leaf(Source::Input(slot), shape, input.dtype, device)
    };
    let leaves: Leaves = inputs.iter().enumerate().map(leaf).collect();
    let tensors: Vec<Tensor> = leaves.iter().cloned().map(Tensor::from_node).collect();
    let (results, trace) = trace::collect(|| no_grad(|| function(&tensors)));
    if let Some(name) = trace.first_assigned() {
        return Err(Error::Export(format!(
            "the function assigns to `{name}`, which a model in a file cannot: trace it under `Mode::Evaluate`"
        )));
    }
    Ok((leaves, results.iter().map(|result| resolved(result.node()).clone()).collect()))
}

/// Each node below `a`, by number, with the one at its place below `b`.
fn paired(a: &[NodeRef], b: &[NodeRef]) -> Result<HashMap<u64, NodeRef>> {
    if a.len() != b.len() {
        return Err(depends("the number of results"));
    }
    let mut pairs: HashMap<u64, NodeRef> = HashMap::new();
    let mut stack: Vec<(NodeRef, NodeRef)> = a.iter().cloned().zip(b.iter().cloned()).collect();
    while let Some((a, b)) = stack.pop() {
        if let Some(known) = pairs.get(&a.id) {
            if known.id != b.id {
                return Err(depends(&what(&a)));
            }
            continue;
        }
        if !agree(&a.op, &b.op)
            || !same_source(&a, &b)?
            || a.inputs.len() != b.inputs.len()
            || a.shape.rank() != b.shape.rank()
        {
            return Err(depends(&what(&a)));
        }
        stack.extend(inputs(&a).cloned().zip(inputs(&b).cloned()));
        pairs.insert(a.id, b);
    }
    Ok(pairs)
}

/// Whether there are operators of ONNX for an op.
const fn is_known(op: &Op) -> bool {
    !matches!(
        op,
        Op::Bitcast
            | Op::Sort(_)
            | Op::Merge(_)
            | Op::Search(_)
            | Op::Segments(_)
            | Op::Random { .. }
            | Op::Pack { .. }
            | Op::Kernel(_)
    )
}

/// Whether two nodes are the same input, variable or numbers, or neither is any of them.
fn same_source(a: &NodeRef, b: &NodeRef) -> Result<bool> {
    Ok(match (&a.source, &b.source) {
        (Some(Source::Input(a)), Some(Source::Input(b))) => a == b,
        (Some(Source::Var(a)), Some(Source::Var(b))) => a.id == b.id,
        (Some(Source::Host(a)), Some(Source::Host(b))) => a.get() == b.get(),
        (Some(Source::Memory(_)), Some(Source::Memory(_))) => {
            a.id == b.id || a.shape == b.shape && a.dtype == b.dtype && bytes(a)? == bytes(b)?
        }
        (None, None) => true,
        _ => false,
    })
}

fn bytes(node: &NodeRef) -> Result<Vec<u8>> {
    pollster::block_on(Tensor::from_node(node.clone()).to_bytes())
}

/// Whether two ops do the same for batches of different sizes.
fn agree(a: &Op, b: &Op) -> bool {
    match (a, b) {
        // only its first input is looked at
        (Op::Leaf | Op::Uniform, Op::Leaf | Op::Uniform) => true,
        // its number of heads is the batch's
        (Op::Attention(a), Op::Attention(b)) => crate::graph::Attention { heads: b.heads, ..a.clone() } == *b,
        (Op::View(View { dims: a, fill }), Op::View(View { dims: b, fill: other })) => a == b && fill == other,
        (a, b) => a == b,
    }
}

/// An op with its line, for messages.
pub(super) fn what(node: &Node) -> String {
    let module = node.module.as_ref().map(|module| format!(" in module `{module}`")).unwrap_or_default();
    format!("{} {} at {}{module}", op_name(&node.op), node.shape, node.location)
}

/// An error: this is not the same for every size of the batch.
pub(super) fn depends(what: &str) -> Error {
    Error::Export(format!(
        "{what} depends on the size of the batch in a way that no ONNX model has: export it for batches of one size"
    ))
}

/// The shape of these sizes, if none of them is open.
pub(super) fn fixed_shape(sizes: &[Size]) -> Option<Shape> {
    let known: Option<Vec<usize>> = sizes.iter().map(|size| size.known()).collect();
    known.map(Shape::from)
}
