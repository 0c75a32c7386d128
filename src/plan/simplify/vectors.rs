//! Products of a large matrix and a vector (batch 1) as what they are to a GPU: reading the matrix once. A reduction of
//! products reads it in the order in which it lies, with many threads to a row; tiles of results would have nothing to
//! use twice, and keep few threads busy.

use crate::dtype::{DType, Scalar};
use crate::graph::{Binary, Contract, Dim, Op, ProgramNode, ReduceOp, View};
use crate::shape::Shape;

use super::Builder;

/// Fewer results or terms than this are no matrix to speak of.
const MIN_SIDE: usize = 64;

impl Builder {
    /// `contract` as a reduction of products; `None` if it is not of a large matrix (or many) and a vector.
    pub(super) fn by_vector(&mut self, node: &ProgramNode, contract: &Contract) -> Option<usize> {
        let elements = |side: usize| self.nodes[node.inputs[side]].shape.numel();
        if elements(0).max(elements(1)) < self.reduced_matrix || !node.dtype.is_float() {
            return None;
        }
        let size = |label: u8| {
            let axis_of = |side: usize, labels: &[u8]| {
                let axis = labels.iter().position(|&known| known == label)?;
                Some(self.nodes[node.inputs[side]].shape[axis])
            };
            axis_of(0, &contract.lhs).or_else(|| axis_of(1, &contract.rhs)).expect("every label is an operand's")
        };
        // how many rows or columns an operand has that the other one has not
        let own = |labels: &[u8], others: &[u8]| -> usize {
            labels.iter().filter(|label| !others.contains(label)).map(|&label| size(label)).product()
        };
        let summed: Vec<u8> = contract.lhs.iter().copied().filter(|label| !contract.out.contains(label)).collect();
        let matrix = match [own(&contract.lhs, &contract.rhs), own(&contract.rhs, &contract.lhs)] {
            [1, points] if points >= MIN_SIDE => 1,
            [points, 1] if points >= MIN_SIDE => 0,
            _ => return None,
        };
        let inner: usize = summed.iter().map(|&label| size(label)).product();
        let is_large = inner >= MIN_SIDE && elements(matrix) >= self.reduced_matrix;
        if !is_large || is_windows(&self.nodes[node.inputs[matrix]]) {
            return None;
        }
        let space: Vec<u8> = contract.out.iter().chain(&summed).copied().collect();
        let shape = Shape::from(space.iter().map(|&label| size(label)).collect::<Vec<_>>());
        let like = ProgramNode { dtype: DType::F32, ..node.clone() };
        let mut factors = Vec::new();
        for (&input, labels) in node.inputs.iter().zip([&contract.lhs, &contract.rhs]) {
            let source = self.nodes[input].shape.clone();
            let value = self.derive(&like, Op::Cast, &[input], source);
            let axis = |label: &u8| space.iter().position(|known| known == label).expect("in the output or summed");
            let dims = labels.iter().map(|label| Dim::axis(axis(label))).collect();
            let view = View { dims, fill: Scalar { dtype: DType::F32, bits: 0 } };
            factors.push(self.derive(&like, Op::View(view), &[value], shape.clone()));
        }
        let products = self.derive(&like, Op::Binary(Binary::Mul), &factors, shape.clone());
        let axes: Vec<usize> = (contract.out.len()..space.len()).collect();
        let mut kept = shape.to_vec();
        kept[contract.out.len()..].fill(1);
        let sum = self.derive(&like, Op::Reduce { op: ReduceOp::Sum, axes }, &[products], Shape::from(kept));
        let result = self.derive(&like, Op::Reshape, &[sum], node.shape.clone());
        Some(self.derive(node, Op::Cast, &[result], node.shape.clone()))
    }
}

/// True for values that are read several times, as a convolution does it.
fn is_windows(operand: &ProgramNode) -> bool {
    matches!(&operand.op, Op::View(view) if view.dims.iter().any(|dim| dim.terms.len() > 1))
}
