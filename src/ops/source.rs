//! Values without inputs: constants and coordinates.

use crate::dtype::Scalar;
use crate::graph::{Node, reference::coordinates};

pub(super) fn constant_reference(value: Scalar, node: &Node) -> Vec<f64> {
    vec![value.to_f64(); node.shape.numel()]
}

pub(super) fn iota_reference(axis: usize, node: &Node) -> Vec<f64> {
    coordinates(&node.shape).map(|point| point[axis] as f64).collect()
}
