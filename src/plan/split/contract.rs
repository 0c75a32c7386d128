//! Contractions with long sums, or with fewer results than there are cores.

use smallvec::SmallVec;

use crate::dtype::{DType, Scalar};
use crate::graph::{Contract, Op, ProgramNode, ReduceOp};
use crate::plan::{PlanOptions, shares_of_sum};

use super::{Cut, Splitter};

/// Parts of a contraction's sum are not asked to be shorter than this for the sake of parallelism, but may become half
/// as long where all are to have as many.
const MIN_STEPS: usize = 256;

/// Workgroups that a contraction makes, or of a thin one, how many they are worth.
fn groups(results: &[usize], contract: &Contract, options: &PlanOptions) -> usize {
    let product = |wanted: [bool; 2]| -> usize {
        let sides = |label: &u8| [&contract.lhs, &contract.rhs].map(|side| side.contains(label));
        let sizes = contract.out.iter().zip(results).filter(|(label, _)| sides(label) == wanted);
        sizes.map(|(_, &size)| size).product()
    };
    let [batch, rows, columns] = [[true, true], [true, false], [false, true]].map(product);
    let tile = options.group_tile;
    if 2 * rows.min(columns) >= tile {
        batch * rows.div_ceil(tile) * columns.div_ceil(tile)
    } else {
        (batch * rows * columns).div_ceil(options.thin_results)
    }
}

impl Splitter<'_> {
    /// The contraction in parts, and their sum, if it is better; for the sake of parallelism until there are so many
    /// `wanted_groups`.
    pub(super) fn split_contract(
        &mut self,
        node: &ProgramNode,
        contract: &Contract,
        wanted_groups: usize,
    ) -> Option<usize> {
        let operands = [node.inputs[0], node.inputs[1]];
        let axis = |labels: &[u8], label: u8| {
            labels.iter().position(|&l| l == label).expect("a summed label is in both operands")
        };
        let size = |label: u8| self.nodes[operands[0]].shape[axis(&contract.lhs, label)];
        let summed = || contract.lhs.iter().copied().filter(|label| !contract.out.contains(label));
        let steps: usize = summed().map(size).product();
        let results = node.shape.numel();
        if steps.div_ceil(shares_of_sum(results, steps)) <= self.options.shared_steps {
            return None;
        }
        let wanted = wanted_groups.div_ceil(groups(&node.shape, contract, self.options).max(1));
        let parts = steps.div_ceil(self.options.max_contract_steps).max(wanted.min(steps / MIN_STEPS));
        if parts <= 1 || results == 0 {
            return None;
        }
        // the outermost summed axis that is long enough, else the longest
        let label =
            summed().find(|&label| size(label) >= parts).or_else(|| summed().max_by_key(|&label| size(label)))?;
        let length = size(label);
        let part_label = (0..=u8::MAX).find(|l| !contract.lhs.contains(l) && !contract.rhs.contains(l))?;
        let sides = [&contract.lhs, &contract.rhs];
        let cuts = sides.map(|labels| Cut::new(axis(labels, label), length, parts));
        let parts = cuts[0].parts;
        if parts <= 1 {
            return None;
        }
        let mut piece = |(input, cut): (usize, Cut)| {
            let zero = Scalar { dtype: self.nodes[input].dtype, bits: 0 };
            self.pieces(node, input, cut, zero)
        };
        let inputs = operands.into_iter().zip(cuts).map(&mut piece).collect();
        let with_parts = |labels: &[u8], at: usize| {
            let mut labels = SmallVec::from_slice(labels);
            labels.insert(at, part_label);
            labels
        };
        let [lhs, rhs] = [0, 1].map(|side| with_parts(sides[side], cuts[side].axis));
        let contract = Contract { lhs, rhs, out: with_parts(&contract.out, 0) };
        let mut shape = [&[parts], node.shape.dims()].concat();
        // partial sums stay in the accumulator's precision
        let dtype = if node.dtype.is_float() { DType::F32 } else { node.dtype };
        let op = Op::Contract(contract.clone());
        let partial = ProgramNode { op, inputs, shape: shape.as_slice().into(), dtype, ..node.clone() };
        // with work for all there is no further reason but length
        let partial = self.split_contract(&partial, &contract, 1).unwrap_or_else(|| self.push(partial));
        shape[0] = 1;
        let sum = Op::Reduce { op: ReduceOp::Sum, axes: vec![0] };
        let sum = self.derive(node, sum, &[partial], &shape, dtype);
        let whole = self.derive(node, Op::Reshape, &[sum], &node.shape, dtype);
        Some(self.derive(node, Op::Cast, &[whole], &node.shape, node.dtype))
    }
}
