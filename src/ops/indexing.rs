//! Indices that come from data.

use crate::error::Result;
use crate::graph::reference::{coordinates, ravel};
use crate::graph::{Node, NodeRef, Op, ReduceOp, opaque};
use crate::shape::Shape;
use crate::tensor::{Groups, Tensor};

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

/// With more products than this, or more comparisons for them, summing by sorting is cheaper than a contraction with
/// one-hot indices, as `benches/NOTES.md` has it. Sorting is a few launches more.
const MAX_PRODUCTS: usize = 1 << 24;
const MAX_COMPARISONS: usize = 1 << 18;

/// Adds each gradient to the element it came from.
pub(super) fn gather_gradient(axis: usize, node: &NodeRef, g: &Tensor) -> Tensor {
    let (x, index) = (&node.inputs[0], Tensor::from_node(node.inputs[1].clone()));
    index_add(g, &index, axis, x.shape[axis])
}

/// The sum of `g[.., i.., ..]` over all positions `i..` with `index[i..] = v`, for each `v` in `0..size`, which becomes
/// axis `axis` in place of the index's axes.
///
/// A contraction with one-hot indices where that is little work, else a sort of the index and sums over its groups: the
/// choice depends on shapes alone.
#[track_caller]
pub(crate) fn index_add(g: &Tensor, index: &Tensor, axis: usize, size: usize) -> Tensor {
    if g.numel().saturating_mul(size) > MAX_PRODUCTS || index.numel().saturating_mul(size) > MAX_COMPARISONS {
        return grouped_sum(g, index, axis, size);
    }
    let one_hot = index.one_hot_unchecked(size).to_dtype(g.dtype());
    let g_labels: Vec<u8> = (0..g.rank() as u8).collect();
    let index_labels = &g_labels[axis..axis + index.rank()];
    let value = [u8::MAX];
    let out = [&g_labels[..axis], &value, &g_labels[axis + index.rank()..]].concat();
    g.contract_as_it_is(&one_hot, &g_labels, &[index_labels, &value].concat(), &out)
}

/// [`index_add`] by sorting.
#[track_caller]
fn grouped_sum(g: &Tensor, index: &Tensor, axis: usize, size: usize) -> Tensor {
    let sum = opaque(|| {
        // rows of what belongs to one position of the index
        let positions = axis..axis + index.rank();
        let others = (0..axis).chain(positions.end..g.rank());
        let rows = g.permute(positions.clone().chain(others.clone()).collect::<Vec<_>>());
        let shape: Vec<usize> = std::iter::once(size).chain(others.map(|axis| g.shape()[axis])).collect();
        let width = shape[1..].iter().product();
        let sums = Groups::new(index, size).reduce(ReduceOp::Sum, &rows, width, shape.clone());
        sums.permute((1..=axis).chain([0]).chain(axis + 1..shape.len()).collect::<Vec<_>>())
    });
    sum.with_gradient(&[g, index], move |_, inputs, gradient| {
        let shape = inputs[0].shape().clone();
        vec![Some(Tensor::apply(Op::Gather { axis }, &[gradient, &inputs[1]], shape, gradient.dtype())), None]
    })
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
