//! Contractions whose operand has gaps: the input gradients of strided convolutions.
//!
//! Along one axis such a gradient is `out[h] = Σ_k g[(a·h + b·k + c) / d] · w[k]`, where only whole quotients count: of
//! d products, d - 1 are with nothing. With h = d·h' + r and k = d·k' + m·r + e, where m and e are chosen so that a +
//! b·m and b·e + c are multiples of d, every quotient is whole:
//!
//! `out[d·h' + r] = Σ_k' g[a·h' + b·k' + (a + b·m)/d · r + (b·e + c)/d] · w[d·k' + m·r + e]`
//!
//! is a contraction with one more axis, r, and about 1/d of the terms. (Shi et al., "Is the deconvolution layer the
//! same as a convolutional layer?", 2016, call it sub-pixel convolution.) Past the ends of w there are zeros.

use crate::dtype::Scalar;
use crate::graph::{Contract, Dim, Op, ProgramNode, View};
use crate::plan::index::gcd;
use crate::shape::Shape;

use super::Builder;

/// One dimension of an operand that is divided.
struct Gaps {
    /// Which operand, and which dimension of what its view is of.
    side: usize,
    dim: usize,
    /// The axis of the output and its coefficient.
    kept: (usize, i64),
    /// The summed axis and its coefficient; none where all windows are of one point.
    summed: Option<(usize, i64)>,
    offset: i64,
    divisor: i64,
}

impl Builder {
    /// `contract` without the gaps of one axis of an operand; `None` if it has none that this can remove.
    pub(super) fn by_phases(&mut self, node: &ProgramNode, contract: &Contract) -> Option<usize> {
        let gaps = self.find_gaps(node, contract)?;
        match gaps.summed.map(|summed| (summed, gcd(summed.1, gaps.divisor))) {
            Some((summed, 1)) => Some(self.one_phase_each(node, contract, &gaps, summed)),
            Some((_, common)) => self.only_phase(node, contract, &gaps, common),
            None => self.only_phase(node, contract, &gaps, gaps.divisor),
        }
    }

    fn find_gaps(&self, node: &ProgramNode, contract: &Contract) -> Option<Gaps> {
        (0..2).find_map(|side| {
            let labels = [&contract.lhs, &contract.rhs][side];
            let others = [&contract.rhs, &contract.lhs][side];
            let operand = &self.nodes[node.inputs[side]];
            let Op::View(view) = &operand.op else { return None };
            if view.fill.to_f64() != 0.0 || operand.shape.numel() == 0 {
                return None;
            }
            view.dims.iter().enumerate().filter(|(_, dim)| dim.divisor > 1).find_map(|(number, dim)| {
                let is_kept = |axis: usize| contract.out.contains(&labels[axis]);
                let (kept, summed) = match *dim.terms.as_slice() {
                    [only] if is_kept(only.0) => (only, None),
                    [first, second] if is_kept(first.0) && !is_kept(second.0) => (first, Some(second)),
                    [first, second] if !is_kept(first.0) && is_kept(second.0) => (second, Some(first)),
                    _ => return None,
                };
                let elsewhere = |axis: usize| {
                    let dims = view.dims.iter().enumerate().filter(|(other, _)| *other != number);
                    dims.flat_map(|(_, dim)| &dim.terms).any(|term| term.0 == axis)
                };
                let alone = !elsewhere(kept.0) && !summed.is_some_and(|summed| elsewhere(summed.0));
                let simple = alone && !others.contains(&labels[kept.0]);
                let Dim { offset, divisor, .. } = *dim;
                let gaps = Gaps { side, dim: number, kept, summed, offset, divisor };
                (simple && gcd(kept.1, divisor) == 1).then_some(gaps)
            })
        })
    }

    /// The case of coprime coefficient and divisor: all phases have terms.
    fn one_phase_each(
        &mut self,
        node: &ProgramNode,
        contract: &Contract,
        gaps: &Gaps,
        (summed, b): (usize, i64),
    ) -> usize {
        let &Gaps { side, kept: (kept, a), offset, divisor: d, .. } = gaps;
        let labels = [&contract.lhs, &contract.rhs];
        let shape = &self.nodes[node.inputs[side]].shape;
        let (length, steps) = (shape[kept], shape[summed] as i64);
        let whole = |value: i64| value.rem_euclid(d) == 0;
        let factor = (1 - d..d).filter(|m| whole(a + b * m)).min_by_key(|m| (a + b * m).abs());
        let factor = factor.expect("b has an inverse modulo d");
        let start = (0..d).find(|e| whole(b * e + offset)).expect("b has an inverse modulo d");
        // the first and last k' that any phase needs; k' is then counted from the first
        let first = (0..d).map(|r| -(factor * r + start).div_euclid(d)).min().expect("d > 1");
        let last = (0..d).map(|r| (steps - 1 - factor * r - start).div_euclid(d)).max().expect("d > 1");
        let start = start + d * first;
        let taps = (last - first + 1) as usize;
        let phases = d as usize;
        let blocks = length.div_ceil(phases);
        let phase_label = (0..=u8::MAX).find(|label| labels.iter().all(|known| !known.contains(label)));
        let phase_label = phase_label.expect("tensors have fewer than 256 axes");

        let moved = (a + b * factor) / d;
        let gapless = |axes: &mut Vec<usize>, dim: &mut Dim| {
            (axes[kept], axes[summed]) = (blocks, taps);
            let mut terms = vec![(kept, a), (summed, b)];
            if moved != 0 {
                terms.push((axes.len(), moved));
                axes.push(phases);
            }
            *dim = Dim { terms, offset: (b * start + offset) / d, divisor: 1 };
        };
        let summed_label = labels[side][summed];
        let other_axis = labels[1 - side].iter().position(|&label| label == summed_label);
        let other_axis = other_axis.expect("a summed label is in both operands");
        let mut inputs = node.inputs.clone();
        inputs[side] = self.change_view(node.inputs[side], gaps.dim, gapless);
        inputs[1 - side] = self.view_phases(node, 1 - side, other_axis, (taps, phases), (d, factor, start));

        let mut new_labels = [contract.lhs.clone(), contract.rhs.clone()];
        new_labels[1 - side].push(phase_label);
        if moved != 0 {
            new_labels[side].push(phase_label);
        }
        let place = contract.out.iter().position(|&label| label == labels[side][kept]).expect("a kept axis");
        let mut out = contract.out.clone();
        out.insert(place + 1, phase_label);
        let mut shape = node.shape.to_vec();
        shape[place] = blocks;
        shape.insert(place + 1, phases);
        let [lhs, rhs] = new_labels;
        let product = self.derive(node, Op::Contract(Contract { lhs, rhs, out }), &inputs, Shape::from(shape));
        let mut shape = node.shape.to_vec();
        shape[place] = blocks * phases;
        let joined = self.derive(node, Op::Reshape, &[product], Shape::from(shape));
        // the last block may be incomplete
        let dims = (0..node.shape.rank()).map(Dim::axis).collect();
        let fill = Scalar { dtype: node.dtype, bits: 0 };
        self.derive(node, Op::View(View { dims, fill }), &[joined], node.shape.clone())
    }

    /// The case of a common factor: only every so many outputs have any terms, the others are zero.
    fn only_phase(&mut self, node: &ProgramNode, contract: &Contract, gaps: &Gaps, common: i64) -> Option<usize> {
        let &Gaps { side, kept: (kept, a), summed, offset, divisor, .. } = gaps;
        let label = [&contract.lhs, &contract.rhs][side][kept];
        let length = self.nodes[node.inputs[side]].shape[kept];
        let phase =
            (0..common).find(|r| (a * r + offset).rem_euclid(common) == 0).expect("a is coprime to the divisor");
        let count = length.checked_sub(phase as usize)?.div_ceil(common as usize);
        let thinned = |axes: &mut Vec<usize>, dim: &mut Dim| {
            axes[kept] = count;
            let summed = summed.map(|(axis, b)| (axis, b / common));
            let terms = [(kept, a)].into_iter().chain(summed).collect();
            *dim = Dim { terms, offset: (a * phase + offset) / common, divisor: divisor / common };
        };
        let mut inputs = node.inputs.clone();
        inputs[side] = self.change_view(node.inputs[side], gaps.dim, thinned);
        let place = contract.out.iter().position(|&out| out == label).expect("a kept axis");
        let mut shape = node.shape.to_vec();
        shape[place] = count;
        let product = self.derive(node, Op::Contract(contract.clone()), &inputs, Shape::from(shape));
        let mut dims: Vec<Dim> = (0..node.shape.rank()).map(Dim::axis).collect();
        dims[place] = Dim { terms: vec![(place, 1)], offset: -phase, divisor: common };
        let fill = Scalar { dtype: node.dtype, bits: 0 };
        Some(self.derive(node, Op::View(View { dims, fill }), &[product], node.shape.clone()))
    }

    /// A view like `number`, with other axes and another dimension `dim`.
    fn change_view(&mut self, number: usize, dim: usize, change: impl Fn(&mut Vec<usize>, &mut Dim)) -> usize {
        let like = self.nodes[number].clone();
        let Op::View(mut view) = like.op.clone() else { unreachable!("a view") };
        let mut axes = like.shape.to_vec();
        change(&mut axes, &mut view.dims[dim]);
        self.derive(&like, Op::View(view), &like.inputs, Shape::from(axes))
    }

    /// Operand `side` with k along `axis` as d·k' + m·r + e, k' in its place and r as the last axis. A view that takes
    /// k as it is changes itself: gaps along its other axes can then still be found.
    fn view_phases(
        &mut self,
        node: &ProgramNode,
        side: usize,
        axis: usize,
        (taps, phases): (usize, usize),
        (d, m, e): (i64, i64, i64),
    ) -> usize {
        let number = node.inputs[side];
        let operand = self.nodes[number].clone();
        let like = ProgramNode { dtype: operand.dtype, ..node.clone() };
        let mut axes = operand.shape.to_vec();
        let phased = Dim { terms: vec![(axis, d), (axes.len(), m)], offset: e, divisor: 1 };
        let steps = std::mem::replace(&mut axes[axis], taps);
        axes.push(phases);
        if let Op::View(mut view) = operand.op.clone()
            && view.fill.to_f64() == 0.0
            && let Some(dim) = self.taken_as_it_is(&view, operand.inputs[0], axis, steps)
        {
            view.dims[dim] = phased;
            return self.derive(&like, Op::View(view), &operand.inputs, Shape::from(axes));
        }
        let mut dims: Vec<Dim> = (0..operand.shape.rank()).map(Dim::axis).collect();
        dims[axis] = phased;
        let fill = Scalar { dtype: like.dtype, bits: 0 };
        self.derive(&like, Op::View(View { dims, fill }), &[number], Shape::from(axes))
    }

    /// The dimension of `source` whose coordinate is `axis` of the view, whole and nowhere else.
    fn taken_as_it_is(&self, view: &View, source: usize, axis: usize, size: usize) -> Option<usize> {
        let users = view.dims.iter().filter(|dim| dim.terms.iter().any(|term| term.0 == axis)).count();
        let dim = view.dims.iter().position(|dim| *dim == Dim::axis(axis))?;
        (users == 1 && self.nodes[source].shape[dim] == size).then_some(dim)
    }
}
