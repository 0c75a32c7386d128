//! Reductions over axes, which stay as axes of size 1.

use crate::dtype::DType;
use crate::graph::reference::{coordinates, ravel};
use crate::graph::{Node, NodeRef, ReduceOp};
use crate::shape::Shape;
use crate::tensor::Tensor;

use super::wrap;

/// `shape` with `axes` of size 1.
pub fn keepdim_shape(shape: &Shape, axes: &[usize]) -> Shape {
    let size = |(axis, &size): (usize, &usize)| if axes.contains(&axis) { 1 } else { size };
    shape.iter().enumerate().map(size).collect::<Vec<_>>().into()
}

/// `shape` without `axes`.
pub fn squeezed_shape(shape: &Shape, axes: &[usize]) -> Shape {
    let kept = shape.iter().enumerate().filter(|(axis, _)| !axes.contains(axis));
    kept.map(|(_, &size)| size).collect::<Vec<_>>().into()
}

pub(super) fn gradient(op: ReduceOp, node: &NodeRef, g: &Tensor) -> Tensor {
    let x = Tensor::from_node(node.inputs[0].clone());
    match op {
        ReduceOp::Sum => g.expand(x.shape()),
        ReduceOp::Prod => product_gradient(&x, g),
        // ties share the gradient equally
        ReduceOp::Max | ReduceOp::Min => {
            // anew: the node's own value may have been read before, and another plan rounds `x` in another way
            let y = Tensor::apply(node.op.clone(), &[&x], node.shape.clone(), node.dtype);
            let winners = x.eq(&y);
            let axes: Vec<isize> = reduced_axes(&x, &y);
            let count = winners.to_dtype(DType::F32).sum_keepdim(axes.as_slice());
            winners.where_((g.to_dtype(DType::F32) / count).to_dtype(x.dtype()), 0.0)
        }
    }
}

/// The product of the others: of those before each element and those after it, so without a division, which an element
/// of zero would spoil here or in the next derivative.
fn product_gradient(x: &Tensor, g: &Tensor) -> Tensor {
    let reduced = reduced_axes(x, g);
    let kept = (0..x.rank().cast_signed()).filter(|axis| !reduced.contains(axis));
    let order: Vec<isize> = kept.chain(reduced.iter().copied()).collect();
    let turned = x.permute(order.as_slice());
    let factors = reduced.iter().map(|&axis| x.shape()[axis.cast_unsigned()]).product();
    let rows = turned.reshape([turned.numel() / usize::max(factors, 1), factors]);
    let others = product_so_far(&rows, Side::Before) * product_so_far(&rows, Side::After);
    let mut back = vec![0; order.len()];
    for (place, &axis) in order.iter().enumerate() {
        back[axis.cast_unsigned()] = place.cast_signed();
    }
    g * others.reshape(turned.shape()).permute(back.as_slice())
}

#[derive(Clone, Copy)]
enum Side {
    Before,
    After,
}

/// The products of all elements of a row on one side of each, in `⌈log₂ n⌉` steps that double what is covered.
fn product_so_far(rows: &Tensor, side: Side) -> Tensor {
    let shifted = |x: &Tensor, by: isize| match side {
        Side::Before => x.pad(&[(0, 0), (by, -by)], 1.0),
        Side::After => x.pad(&[(0, 0), (-by, by)], 1.0),
    };
    let size = rows.shape()[1].cast_signed();
    let mut product = if size == 0 { rows.clone() } else { shifted(rows, 1) };
    let mut covered = 1;
    while covered < size - 1 {
        product = &product * shifted(&product, covered);
        covered *= 2;
    }
    product
}

fn reduced_axes(x: &Tensor, y: &Tensor) -> Vec<isize> {
    let sizes = x.shape().iter().zip(y.shape().iter());
    sizes.enumerate().filter(|(_, (x, y))| x != y).map(|(axis, _)| axis.cast_signed()).collect()
}

pub(super) fn reference(op: ReduceOp, axes: &[usize], node: &Node, inputs: &[&[f64]]) -> Vec<f64> {
    let dtype = node.dtype;
    let mut out = vec![op.identity(dtype).to_f64(); node.shape.numel()];
    for (mut point, &x) in coordinates(&node.inputs[0].shape).zip(inputs[0]) {
        for &axis in axes {
            point[axis] = 0;
        }
        let sum = &mut out[ravel(&point, &node.shape)];
        let value = match op {
            ReduceOp::Sum => *sum + x,
            ReduceOp::Prod if dtype.is_float() => *sum * x,
            ReduceOp::Prod => (*sum as i64).wrapping_mul(x as i64) as f64,
            ReduceOp::Max | ReduceOp::Min if x.is_nan() || sum.is_nan() => f64::NAN,
            ReduceOp::Max => sum.max(x),
            ReduceOp::Min => sum.min(x),
        };
        *sum = if dtype.is_float() { value } else { wrap(dtype, value as i64) };
    }
    out
}
