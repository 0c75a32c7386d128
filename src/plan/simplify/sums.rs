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
        let space = self.nodes[view_node].shape.clone();
        // new labels: one for each axis of the view, then one for each axis that was summed before
        let old_sums: Vec<u8> = contract.lhs.iter().copied().filter(|label| !contract.out.contains(label)).collect();
        let label_of_axis = |axis: usize| axis as u8;
        let label_of_sum = |label: u8| {
            let position = old_sums.iter().position(|&known| known == label).expect("a summed label");
            (space.rank() + position) as u8
        };
        let operands = [contract.lhs.clone(), contract.rhs.clone()];
        let mut new_labels: [Labels; 2] = Default::default();
        let mut views: [Vec<Dim>; 2] = Default::default();
        let mut shapes: [Vec<usize>; 2] = Default::default();
        for side in 0..2 {
            let operand = self.nodes[source].inputs[side];
            for (position, &label) in operands[side].iter().enumerate() {
                let out = contract.out.iter().position(|&out| out == label);
                let dim = match out {
                    Some(out) => view.dims[out].clone(),
                    None => Dim::axis(label_of_sum(label).into()),
                };
                // zeros around one operand would be multiplied by what the other one has; only of windows is it not
                // said whether that shows (`semantics`)
                if let Some(out) = out
                    && !operands[1 - side].contains(&label)
                    && !always_inside(&dim, &space, self.nodes[source].shape[out])
                    && !dim.terms.iter().any(|(axis, _)| axes.contains(axis))
                {
                    return None;
                }
                for &(axis, _) in &dim.terms {
                    if new_labels[side].contains(&(axis as u8)) {
                        continue;
                    }
                    new_labels[side].push(axis as u8);
                    let summed = old_sums.iter().position(|&l| axis == usize::from(label_of_sum(l)));
                    shapes[side].push(match summed {
                        Some(_) => self.nodes[operand].shape[position],
                        None => space[axis],
                    });
                }
                views[side].push(dim);
            }
            // express the view in its own axes
            let labels = &new_labels[side];
            for dim in &mut views[side] {
                for (axis, _) in &mut dim.terms {
                    *axis =
                        labels.iter().position(|&label| usize::from(label) == *axis).expect("a label of this operand");
                }
            }
        }
        let reduced: Vec<u8> = axes.iter().map(|&axis| label_of_axis(axis)).collect();
        let out: Labels = (0..space.rank()).map(label_of_axis).filter(|label| !reduced.contains(label)).collect();
        // Axes of size 1 may be missing everywhere; every other one must be known to the right operands.
        let known = |label: &u8| [new_labels[0].contains(label), new_labels[1].contains(label)];
        let out: Labels =
            out.into_iter().filter(|label| known(label) != [false, false] || space[usize::from(*label)] != 1).collect();
        if out.iter().any(|label| known(label) == [false, false]) {
            return None;
        }
        if reduced.iter().any(|label| known(label) != [true, true] && space[usize::from(*label)] != 1) {
            return None;
        }
        // what was multiplied once must not be multiplied for each window that it is part of
        let sizes: BTreeMap<u8, usize> =
            new_labels.iter().flatten().copied().zip(shapes.iter().flatten().copied()).collect();
        let of = |from: u8| sizes.range(from..).map(|(_, &size)| size as f64).product::<f64>();
        let kept = self.nodes[source].shape.numel();
        let (before, after) = (kept as f64 * of(space.rank() as u8), of(0) / view.holes() as f64);
        if after > MAX_PRODUCTS * before && kept <= MAX_KEPT * sum.shape.numel() {
            return None;
        }
        // reduced axes of size 1 in one operand only: leave them to the output
        let mut out_labels = out;
        for label in &reduced {
            if matches!(known(label), [true, false] | [false, true]) {
                out_labels.push(*label);
            }
        }
        let fill = |number: usize, nodes: &[ProgramNode]| Scalar { dtype: nodes[number].dtype, bits: 0 };
        let mut inputs = Inputs::new();
        for side in 0..2 {
            let operand = self.nodes[source].inputs[side];
            let like = ProgramNode { dtype: self.nodes[operand].dtype, ..sum.clone() };
            let op = Op::View(View { dims: views[side].clone(), fill: fill(operand, &self.nodes) });
            inputs.push(self.derive(&like, op, &[operand], Shape::from(shapes[side].clone())));
        }
        let out_shape: Vec<usize> = out_labels.iter().map(|&label| space[usize::from(label)]).collect();
        let [lhs, rhs] = new_labels;
        let op = Op::Contract(Contract { lhs, rhs, out: out_labels });
        let product = self.derive(sum, op, &inputs, Shape::from(out_shape));
        Some(self.derive(sum, Op::Reshape, &[product], sum.shape.clone()))
    }
}
