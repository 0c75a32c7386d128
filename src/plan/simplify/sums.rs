//! The sum of a view of a contraction is a contraction of views: the gradients of convolutions.

use std::collections::BTreeMap;

use crate::dtype::Scalar;
use crate::graph::{Contract, Dim, Inputs, Labels, Op, ProgramNode, View};
use crate::shape::Shape;

use super::{Builder, always_inside};

/// How many times as many products there may be afterwards, unless that saves much memory ([`MAX_KEPT`]). Gradients of
/// convolutions have more than before, those with zeros around the windows.
const MAX_PRODUCTS: f64 = 4.0;
/// How many of the sums that are added up there may be for each result before their memory counts more than products.
const MAX_KEPT: usize = 4;

/// A contraction, and the sum of a view of it.
struct Summed<'a> {
    contract: Contract,
    /// The contraction's operands and what it gives.
    nodes: [&'a ProgramNode; 3],
    view: &'a View,
    /// The view's shape.
    space: &'a Shape,
    /// The view's axes that are summed.
    axes: &'a [usize],
}

/// An operand of the new contraction, as a view of the old one's.
#[derive(Default)]
struct Operand {
    labels: Labels,
    dims: Vec<Dim>,
    shape: Vec<usize>,
}

impl Builder {
    /// The contraction that `sum`, over `axes` of the view numbered `view_node`, is; `None` if it is none.
    pub(super) fn sum_of_contraction(
        &mut self,
        sum: &ProgramNode,
        axes: &[usize],
        view_node: usize,
        view: &View,
    ) -> Option<usize> {
        let source = self.nodes[view_node].inputs[0];
        let Op::Contract(contract) = self.nodes[source].op.clone() else { return None };
        if !self.used_once(view_node) || !self.used_once(source) || view.fill.to_f64() != 0.0 {
            return None;
        }
        let numbers = [self.nodes[source].inputs[0], self.nodes[source].inputs[1]];
        let nodes = [numbers[0], numbers[1], source].map(|number| &self.nodes[number]);
        let summed = Summed { contract, nodes, view, space: &self.nodes[view_node].shape, axes };
        let operands = [summed.operand(0)?, summed.operand(1)?];
        let out = summed.out(&operands)?;
        if summed.is_too_much(&operands, sum) {
            return None;
        }
        let out_shape: Vec<usize> = out.iter().map(|&label| summed.space[usize::from(label)]).collect();
        let mut inputs = Inputs::new();
        for (operand, &number) in operands.iter().zip(&numbers) {
            let dtype = self.nodes[number].dtype;
            let like = ProgramNode { dtype, ..sum.clone() };
            let op = Op::View(View { dims: operand.dims.clone(), fill: Scalar { dtype, bits: 0 } });
            inputs.push(self.derive(&like, op, &[number], Shape::from(operand.shape.clone())));
        }
        let [lhs, rhs] = operands.map(|operand| operand.labels);
        let product = self.derive(sum, Op::Contract(Contract { lhs, rhs, out }), &inputs, Shape::from(out_shape));
        Some(self.derive(sum, Op::Reshape, &[product], sum.shape.clone()))
    }
}

/// New labels are numbers: of the view's axes first, then of the points that the contraction summed before.
impl Summed<'_> {
    fn labels(&self, side: usize) -> &Labels {
        [&self.contract.lhs, &self.contract.rhs][side]
    }

    /// The new label of one that the contraction summed.
    fn label_of_sum(&self, label: u8) -> u8 {
        let Contract { lhs, out, .. } = &self.contract;
        let mut sums = lhs.iter().filter(|label| !out.contains(label));
        (self.space.rank() + sums.position(|&known| known == label).expect("a summed label")) as u8
    }

    /// An operand, seen through the view.
    fn operand(&self, side: usize) -> Option<Operand> {
        let mut new = Operand::default();
        for (position, &label) in self.labels(side).iter().enumerate() {
            let size = self.nodes[side].shape[position];
            let out = self.contract.out.iter().position(|&out| out == label);
            let dim = match out {
                Some(out) => self.view.dims[out].clone(),
                None => Dim::axis(self.label_of_sum(label).into()),
            };
            if out.is_some_and(|out| self.shows_zeros(&dim, out, self.labels(1 - side).contains(&label))) {
                return None;
            }
            for &(axis, _) in &dim.terms {
                if !new.labels.contains(&(axis as u8)) {
                    new.labels.push(axis as u8);
                    new.shape.push(if axis < self.space.rank() { self.space[axis] } else { size });
                }
            }
            new.dims.push(dim);
        }
        // express the view in its own axes
        let Operand { labels, dims, .. } = &mut new;
        for (axis, _) in dims.iter_mut().flat_map(|dim| &mut dim.terms) {
            *axis = labels.iter().position(|&label| usize::from(label) == *axis).expect("a label of this operand");
        }
        Some(new)
    }

    /// Whether zeros around one operand would be multiplied by what the other one has, which is not so where both have
    /// the axis; only of windows is it not said whether that shows (`semantics`).
    fn shows_zeros(&self, dim: &Dim, out: usize, in_both: bool) -> bool {
        !in_both
            && !always_inside(dim, self.space, self.nodes[2].shape[out])
            && !dim.terms.iter().any(|(axis, _)| self.axes.contains(axis))
    }

    /// Labels of the result: the axes that are left, and those of size 1 that only one operand has.
    fn out(&self, operands: &[Operand; 2]) -> Option<Labels> {
        // Axes of size 1 may be missing everywhere; every other one must be known to the right operands.
        let known = |label: &u8| [0, 1].map(|side: usize| operands[side].labels.contains(label));
        let is_one = |label: &u8| self.space[usize::from(*label)] == 1;
        let (reduced, left): (Vec<u8>, Vec<u8>) =
            (0..self.space.rank() as u8).partition(|&label| self.axes.contains(&label.into()));
        let is_missing = |label: &u8| known(label) == [false, false];
        if left.iter().any(|label| is_missing(label) && !is_one(label)) {
            return None;
        }
        if reduced.iter().any(|label| known(label) != [true, true] && !is_one(label)) {
            return None;
        }
        let in_one = |label: &u8| matches!(known(label), [true, false] | [false, true]);
        let left = left.into_iter().filter(|label| !is_missing(label));
        let reduced = self.axes.iter().map(|&axis| axis as u8).filter(in_one);
        Some(left.chain(reduced).collect())
    }

    /// Whether what was multiplied once would be multiplied for each window that it is part of.
    fn is_too_much(&self, operands: &[Operand; 2], sum: &ProgramNode) -> bool {
        let sizes: BTreeMap<u8, usize> = operands
            .iter()
            .flat_map(|operand| operand.labels.iter().copied().zip(operand.shape.iter().copied()))
            .collect();
        let of = |from: u8| sizes.range(from..).map(|(_, &size)| size as f64).product::<f64>();
        let kept = self.nodes[2].shape.numel();
        let (before, after) = (kept as f64 * of(self.space.rank() as u8), of(0) / self.view.holes() as f64);
        after > MAX_PRODUCTS * before && kept <= MAX_KEPT * sum.shape.numel()
    }
}
