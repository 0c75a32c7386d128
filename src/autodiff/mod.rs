//! Reverse-mode differentiation: a graph to a larger graph.
//!
//! [`grad`] and [`Tensor::backward`] are for one output; [`vjp`], [`jvp`], [`hessian_vector_product`], [`jacobian`] and
//! [`hessian`] are made of the same walk, [`custom_gradient`] gives a function a rule of its own, and [`gradcheck`]
//! compares a function's gradients with differences. Gradients are tensors, and [`Gradients`] can be changed, added and
//! made by hand before an optimizer sees them.
//!
//! ```
//! use brasa::autodiff::{grad, hessian_vector_product, jvp};
//! use brasa::{Device, Result, Tensor};
//!
//! # fn main() -> Result<()> {
//! let x = Tensor::from_slice(&[1.0_f32, 2.0], [2], &Device::cpu())?;
//! let v = Tensor::from_slice(&[1.0_f32, -1.0], [2], &Device::cpu())?;
//! let y = x.pow(3).sum();
//! let gradient = grad(&y, &[&x]).remove(0);
//! assert_eq!(gradient.to_vec::<f32>()?, [3.0, 12.0]);
//! // the second derivatives along v, and how the gradient changes along v: the same
//! assert_eq!(hessian_vector_product(&y, &[&x], &[&v])[0].to_vec::<f32>()?, [6.0, -12.0]);
//! assert_eq!(jvp(&[&gradient], &[&x], &[&v])[0].to_vec::<f32>()?, [6.0, -12.0]);
//! # Ok(())
//! # }
//! ```
//!
//! The walk names no op; each op's rule stands beside its shape rule in [`crate::ops`]. Rules are tensor methods, so a
//! gradient is an ordinary graph and can be differentiated again. Gradient nodes carry the line and module of the
//! forward node, and the stage `backward`.

mod check;
mod custom;
mod functional;
mod gradients;

pub use check::{Gradcheck, GradcheckError, gradcheck};
pub(crate) use custom::check_gradients;
pub use custom::custom_gradient;
pub use functional::{hessian, hessian_vector_product, jacobian, jvp, vjp};
pub use gradients::Gradients;

use std::collections::{HashMap, HashSet};

use crate::graph::{NodeRef, traced_like};
use crate::ops;
use crate::stage::Stage;
use crate::tensor::Tensor;

/// The gradients of `output` by each tensor of `wrt`; zeros where it does not depend on it.
///
/// An `output` of several elements counts as their sum.
///
/// # Panics
///
/// If `output` or a tensor of `wrt` is not a float.
#[track_caller]
#[must_use]
pub fn grad(output: &Tensor, wrt: &[&Tensor]) -> Vec<Tensor> {
    assert_float(output);
    for tensor in wrt {
        assert_float(tensor);
    }
    let gradients = walk(&[(output.clone(), ones(output))], &numbers(wrt), &HashSet::new());
    in_order(wrt, &gradients)
}

/// The gradients by `wrt` of a part of a graph, from `wrt` to `output`, whose gradient is given: nothing before a
/// tensor of `wrt` counts.
#[track_caller]
pub(crate) fn pull_back(output: &Tensor, gradient: &Tensor, wrt: &[&Tensor]) -> Vec<Tensor> {
    let ends = numbers(wrt);
    in_order(wrt, &walk(&[(output.clone(), gradient.clone())], &ends, &ends))
}

fn numbers(tensors: &[&Tensor]) -> HashSet<u64> {
    tensors.iter().map(|tensor| tensor.node().id).collect()
}

fn ones(output: &Tensor) -> Tensor {
    Stage::Backward.scope(|| traced_like(output.node(), || output.ones_like()))
}

fn in_order(wrt: &[&Tensor], gradients: &HashMap<u64, Tensor>) -> Vec<Tensor> {
    let gradient = |tensor: &&Tensor| {
        let zeros = || traced_like(tensor.node(), || Stage::Backward.scope(|| tensor.zeros_like()));
        gradients.get(&tensor.node().id).cloned().unwrap_or_else(zeros)
    };
    wrt.iter().map(gradient).collect()
}

impl Tensor {
    /// The gradients of this tensor (of its sum, if it has several elements) by every float leaf it depends on.
    ///
    /// # Panics
    ///
    /// If it is not a float.
    #[track_caller]
    #[must_use = "gradients are returned, not stored: give them to `Optimizer::update`"]
    pub fn backward(&self) -> Gradients {
        assert_float(self);
        // a captured step whose loss is NaN must not count
        crate::runtime::check_finite(std::slice::from_ref(self.node()));
        let targets = Gradients::targets(reachable([self]).values());
        let numbers = targets.values().copied().collect();
        Gradients::by_nodes(targets, walk(&[(self.clone(), ones(self))], &numbers, &HashSet::new()))
    }
}

#[track_caller]
fn assert_float(tensor: &Tensor) {
    assert!(tensor.dtype().is_float(), "grad: {} has no gradient; cast with to_dtype before", tensor.dtype());
}

/// All nodes that a gradient of `outputs` passes through, by number.
fn reachable<'a>(outputs: impl IntoIterator<Item = &'a Tensor>) -> HashMap<u64, NodeRef> {
    let mut found = HashMap::new();
    let mut stack: Vec<NodeRef> = outputs.into_iter().map(|output| output.node().clone()).collect();
    while let Some(node) = stack.pop() {
        if node.dtype.is_float() && !found.contains_key(&node.id) {
            if !ops::stops_gradient(&node) {
                stack.extend(node.inputs.iter().cloned());
            }
            found.insert(node.id, node);
        }
    }
    found
}

/// The gradients by `targets` (numbers of nodes), if those of some outputs are given (output, gradient). Nothing passes
/// through `ends`.
fn walk(outputs: &[(Tensor, Tensor)], targets: &HashSet<u64>, ends: &HashSet<u64>) -> HashMap<u64, Tensor> {
    let stops = |node: &NodeRef| ends.contains(&node.id) || ops::stops_gradient(node);
    let mut nodes: Vec<NodeRef> = reachable(outputs.iter().map(|(output, _)| output)).into_values().collect();
    // numbers grow with creation, so inputs have smaller ones
    nodes.sort_unstable_by_key(|node| node.id);
    let mut needed: HashSet<u64> = HashSet::new();
    for node in &nodes {
        let through = !stops(node) && node.inputs.iter().any(|input| needed.contains(&input.id));
        if through || targets.contains(&node.id) {
            needed.insert(node.id);
        }
    }
    let mut pending: HashMap<u64, Tensor> = HashMap::new();
    let mut results = HashMap::new();
    Stage::Backward.scope(|| {
        for (output, start) in outputs {
            let sum = match pending.remove(&output.node().id) {
                Some(sum) => traced_like(output.node(), || sum + start),
                None => start.clone(),
            };
            pending.insert(output.node().id, sum);
        }
        for node in nodes.iter().rev() {
            let Some(gradient) = pending.remove(&node.id) else { continue };
            if targets.contains(&node.id) {
                results.insert(node.id, gradient.clone());
            }
            if stops(node) || !node.inputs.iter().any(|input| needed.contains(&input.id)) {
                continue;
            }
            traced_like(node, || {
                for (input, gradient) in node.inputs.iter().zip(ops::gradient(node, &gradient)) {
                    if let Some(gradient) = gradient.filter(|_| needed.contains(&input.id)) {
                        let made = (gradient.shape(), gradient.dtype());
                        assert_eq!(made, (&input.shape, input.dtype), "gradient rule of {node:?}");
                        let sum = match pending.remove(&input.id) {
                            Some(sum) => sum + gradient,
                            None => gradient,
                        };
                        pending.insert(input.id, sum);
                    }
                }
            });
        }
    });
    results
}
