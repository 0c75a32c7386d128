//! Contractions: sums of products over shared axes.

use smallvec::SmallVec;

use crate::error::Result;
use crate::graph::reference::coordinates;
use crate::graph::{Contract, Labels, Node, NodeRef};
use crate::shape::Shape;
use crate::tensor::Tensor;

use super::{shape_error, wrap};

/// The output's shape.
///
/// # Errors
///
/// If labels and ranks differ, a label has two sizes or is repeated, or one is in neither the output nor both operands.
pub fn shape(contract: &Contract, lhs: &Shape, rhs: &Shape) -> Result<Shape> {
    let mut sizes = SmallVec::<[(u8, usize); 8]>::new();
    let size = |sizes: &[(u8, usize)], label: u8| sizes.iter().find(|known| known.0 == label).map(|known| known.1);
    for (labels, shape) in [(&contract.lhs, lhs), (&contract.rhs, rhs)] {
        if labels.len() != shape.rank() {
            return shape_error(format!("contract: {} labels for {shape}", labels.len()));
        }
        for (number, (&label, &own)) in labels.iter().zip(shape.iter()).enumerate() {
            if labels[..number].contains(&label) {
                return shape_error(format!("contract: {shape} has two axes with one label"));
            }
            match size(&sizes, label) {
                None => sizes.push((label, own)),
                Some(known) if known == own => {}
                Some(known) => return shape_error(format!("contract: {lhs} x {rhs}, sizes {known} != {own}")),
            }
        }
    }
    for (label, _) in &sizes {
        let [l, r, o] = [&contract.lhs, &contract.rhs, &contract.out].map(|labels| labels.contains(label));
        if !(o || l && r) {
            return shape_error(format!("contract: {lhs} x {rhs}, an axis of one operand is missing from the output"));
        }
    }
    match contract.out.iter().map(|&label| size(&sizes, label)).collect() {
        Some(shape) => Ok(shape),
        None => shape_error("contract: an output label is in neither operand"),
    }
}

/// The operands' and output's labels of a matrix product `[..., m, k] x [..., k, n]` with broadcast batch axes; a
/// vector has one axis, which is summed. Batch axes of size 1 that the other operand repeats are left out (reshape them
/// away).
#[derive(Debug)]
pub struct MatMul {
    /// What to contract.
    pub contract: Contract,
    /// The first operand's shape without its repeated batch axes.
    pub lhs: Shape,
    /// The second operand's shape without its repeated batch axes.
    pub rhs: Shape,
}

/// How `[..., m, k]` and `[..., k, n]` are multiplied.
///
/// # Errors
///
/// If the inner sizes differ, the batch axes do not broadcast, or an operand has no axes.
pub fn matmul(name: &str, lhs: &Shape, rhs: &Shape) -> Result<MatMul> {
    const ROW: u8 = 253;
    const INNER: u8 = 254;
    const COLUMN: u8 = 255;
    let (Some(&lhs_inner), Some(_)) = (lhs.last(), rhs.last()) else {
        return shape_error(format!("{name}: {lhs} x {rhs}, operands need at least one axis"));
    };
    let rhs_inner = rhs[rhs.rank().saturating_sub(2)];
    if lhs_inner != rhs_inner {
        return shape_error(format!("{name}: {lhs} x {rhs}, inner {lhs_inner} != {rhs_inner}"));
    }
    let (lhs_batch, lhs_matrix) = lhs.split_at(lhs.rank().saturating_sub(2));
    let (rhs_batch, rhs_matrix) = rhs.split_at(rhs.rank().saturating_sub(2));
    let Some(batch) = Shape::from(lhs_batch).broadcast(&Shape::from(rhs_batch)) else {
        return shape_error(format!("{name}: {lhs} x {rhs}, batch axes do not broadcast"));
    };
    let operand = |own: &[usize], matrix: &[usize], matrix_labels: [&[u8]; 2]| {
        let missing = batch.rank() - own.len();
        let kept = || (missing..batch.rank()).filter(|&axis| own[axis - missing] == batch[axis]);
        let labels: Labels =
            kept().map(|axis| axis as u8).chain(matrix_labels.into_iter().flatten().copied()).collect();
        let shape: Shape = kept().map(|axis| batch[axis]).chain(matrix.iter().copied()).collect();
        (labels, shape)
    };
    let rows: &[u8] = if lhs_matrix.len() == 2 { &[ROW] } else { &[] };
    let columns: &[u8] = if rhs_matrix.len() == 2 { &[COLUMN] } else { &[] };
    let (lhs_labels, lhs) = operand(lhs_batch, lhs_matrix, [rows, &[INNER]]);
    let (rhs_labels, rhs) = operand(rhs_batch, rhs_matrix, [&[INNER], columns]);
    let out = (0..batch.rank() as u8).chain(rows.iter().copied()).chain(columns.iter().copied()).collect();
    Ok(MatMul { contract: Contract { lhs: lhs_labels, rhs: rhs_labels, out }, lhs, rhs })
}

pub(super) fn gradient(contract: &Contract, node: &NodeRef, g: &Tensor) -> Vec<Option<Tensor>> {
    let [lhs, rhs] = [0, 1].map(|number: usize| Tensor::from_node(node.inputs[number].clone()));
    vec![
        Some(g.contract_as_it_is(&rhs, &contract.out, &contract.rhs, &contract.lhs)),
        Some(lhs.contract_as_it_is(g, &contract.lhs, &contract.out, &contract.rhs)),
    ]
}

pub(super) fn reference(contract: &Contract, node: &Node, inputs: &[&[f64]]) -> Vec<f64> {
    let [lhs, rhs] = [0, 1].map(|number: usize| &*node.inputs[number].shape);
    let summed: Labels = contract.lhs.iter().copied().filter(|label| !contract.out.contains(label)).collect();
    let axis = |label: &u8| contract.lhs.iter().position(|own| own == label).expect("taken from these labels");
    let summed_shape: Shape = summed.iter().map(|label| lhs[axis(label)]).collect();
    // where the elements at each point of some axes lie, counted from the first
    let places = |shape: &[usize], labels: &[u8]| -> Vec<[usize; 2]> {
        let strides = [(&contract.lhs, lhs), (&contract.rhs, rhs)].map(|(own, sizes)| {
            let stride = |label: &u8| {
                own.iter().position(|own| own == label).map_or(0, |axis| sizes[axis + 1..].iter().product::<usize>())
            };
            labels.iter().map(stride).collect::<Vec<_>>()
        });
        let place =
            |point: &[usize], strides: &[usize]| point.iter().zip(strides).map(|(at, stride)| at * stride).sum();
        coordinates(shape).map(|point| strides.each_ref().map(|strides| place(&point, strides))).collect()
    };
    let inner = places(&summed_shape, &summed);
    let sum = |outer: [usize; 2]| {
        let factors = inner.iter().map(|inner| (inputs[0][outer[0] + inner[0]], inputs[1][outer[1] + inner[1]]));
        if node.dtype.is_float() {
            factors.fold(0.0, |sum, (a, b)| sum + a * b)
        } else {
            wrap(node.dtype, factors.fold(0, |sum: i64, (a, b)| sum.wrapping_add((a as i64).wrapping_mul(b as i64))))
        }
    };
    places(&node.shape, &contract.out).into_iter().map(sum).collect()
}
