//! Indices that come from data.

use crate::error::Result;
use crate::graph::reference::{coordinates, ravel};
use crate::graph::{Node, NodeRef};
use crate::shape::Shape;
use crate::tensor::Tensor;

use super::resolve_axis;

/// The axis, and the shape of a gather: `index`'s shape in place of that axis of `x`.
///
/// # Errors
///
/// If `x` has no such axis.
pub fn gather_shape(name: &str, x: &Shape, axis: isize, index: &Shape) -> Result<(usize, Shape)> {
    let axis = resolve_axis(name, x, axis)?;
    Ok((axis, [&x[..axis], index, &x[axis + 1..]].concat().into()))
}

/// Adds each gradient to the element it came from: a contraction with the one-hot indices.
pub(super) fn gather_gradient(axis: usize, node: &NodeRef, g: &Tensor) -> Tensor {
    let (x, index) = (&node.inputs[0], Tensor::from_node(node.inputs[1].clone()));
    index_add(g, &index, axis, x.shape[axis])
}

/// The sum of `g[.., i.., ..]` over all positions `i..` with `index[i..] = v`, for each `v` in `0..size`, which becomes
/// axis `axis` in place of the index's axes.
#[track_caller]
pub(crate) fn index_add(g: &Tensor, index: &Tensor, axis: usize, size: usize) -> Tensor {
    let one_hot = index.one_hot_unchecked(size).to_dtype(g.dtype());
    let g_labels: Vec<u8> = (0..g.rank() as u8).collect();
    let index_labels = &g_labels[axis..axis + index.rank()];
    let value = [u8::MAX];
    let out = [&g_labels[..axis], &value, &g_labels[axis + index.rank()..]].concat();
    g.contract(&one_hot, &g_labels, &[index_labels, &value].concat(), &out)
}

pub(super) fn check_reference(bound: usize, inputs: &[&[f64]]) -> Vec<f64> {
    inputs[0].iter().map(|index| index.clamp(0.0, bound.saturating_sub(1) as f64)).collect()
}

pub(super) fn gather_reference(axis: usize, node: &Node, inputs: &[&[f64]]) -> Vec<f64> {
    let (x, index) = (&node.inputs[0].shape, &node.inputs[1].shape);
    let element = |point: Vec<usize>| {
        let (before, rest) = point.split_at(axis);
        let (position, after) = rest.split_at(index.rank());
        let chosen = inputs[1][ravel(position, index)] as usize;
        inputs[0][ravel(&[before, &[chosen], after].concat(), x)]
    };
    coordinates(&node.shape).map(element).collect()
}
