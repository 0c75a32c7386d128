//! Activation checkpointing: compute a part of the model again in the backward pass instead of keeping its values.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::autodiff;
use crate::graph::{Node, NodeRef, Op, in_segment};
use crate::tensor::{Tensor, repeat_autocast};

use super::{random, trace};

/// `function(inputs)`, whose inner values are not kept for the gradient but computed again when it arrives (Chen et al.
/// 2016, "Training Deep Nets with Sublinear Memory Cost"). Dropout repeats its choices.
///
/// `function` must do the same each time it is called, and must not assign variables.
///
/// ```
/// use brasa::autodiff::grad;
/// use brasa::runtime::checkpoint;
/// use brasa::{Device, Tensor};
///
/// let x = Tensor::from_slice(&[0.5_f32, -1.0], [2], &Device::cpu())?;
/// let plain = grad(&x.sin().exp().sum(), &[&x]).remove(0);
/// let saving = checkpoint(&[&x], |inputs| inputs[0].sin().exp());
/// assert_eq!(grad(&saving.sum(), &[&x]).remove(0).to_vec::<f32>()?, plain.to_vec::<f32>()?);
/// # Ok::<(), brasa::Error>(())
/// ```
#[track_caller]
pub fn checkpoint(inputs: &[&Tensor], function: impl Fn(&[Tensor]) -> Tensor + Send + Sync + 'static) -> Tensor {
    let device = inputs[0].device().clone();
    let draws = trace::with(|trace| trace.draws);
    let outside = random::draws(&device);
    let own: Vec<Tensor> = inputs.iter().map(|&input| input.clone()).collect();
    let output = function(&own);
    let leaves = float_leaves(&output, inputs);
    let count = inputs.len();
    let mut nodes = vec![output.node().clone()];
    nodes.extend(inputs.iter().map(|input| input.node().clone()));
    nodes.extend(leaves);
    let as_before = repeat_autocast();
    let rule = move |node: &NodeRef, gradient: &NodeRef| -> Vec<Option<NodeRef>> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let segment = NEXT.fetch_add(1, Ordering::Relaxed);
        let (inputs, leaves) = node.inputs[1..].split_at(count);
        let later = |input: &NodeRef| {
            let inputs = vec![input.clone(), gradient.clone()];
            Tensor::from_node(Node::new(Op::After, inputs, input.shape.clone(), input.dtype, &input.device))
        };
        let inputs: Vec<Tensor> = inputs.iter().map(later).collect();
        let again = || in_segment(segment, || as_before(&|| function(&inputs)));
        let again = match draws {
            Some(start) => repeating_draws(start, again),
            None => random::repeating(&device, outside, again),
        };
        let leaves: Vec<Tensor> = leaves.iter().cloned().map(Tensor::from_node).collect();
        let wanted: Vec<&Tensor> = inputs.iter().chain(&leaves).filter(|tensor| tensor.dtype().is_float()).collect();
        // not the gradient of `again · gradient`: the incoming gradient may depend on the same parameters
        let gradient = Tensor::from_node(gradient.clone());
        let mut gradients = autodiff::pull_back(&again, &gradient, &wanted).into_iter();
        let of = |tensor: &Tensor| {
            let float = tensor.dtype().is_float();
            float.then(|| gradients.next().expect("one for each float").node().clone())
        };
        std::iter::once(None).chain(inputs.iter().chain(&leaves).map(of)).collect()
    };
    Tensor::from_node(Node::custom(nodes, Arc::new(rule)))
}

/// Float leaves that `output` depends on other than through `inputs`: the parameters inside.
fn float_leaves(output: &Tensor, inputs: &[&Tensor]) -> Vec<NodeRef> {
    let mut seen: HashSet<u64> = inputs.iter().map(|input| input.node().id).collect();
    let mut leaves = Vec::new();
    let mut stack = vec![output.node()];
    while let Some(node) = stack.pop() {
        if !seen.insert(node.id) {
            continue;
        }
        if node.source.is_some() && node.dtype.is_float() {
            leaves.push(node.clone());
        }
        stack.extend(&node.inputs);
    }
    leaves
}

/// Runs `f` with the draws of the step counted from `start`, as they were the first time.
fn repeating_draws<T>(start: u32, f: impl FnOnce() -> T) -> T {
    let now = trace::with(|trace| std::mem::replace(&mut trace.draws, start));
    let result = f();
    trace::with(|trace| trace.draws = now.unwrap_or_default().max(trace.draws));
    result
}
