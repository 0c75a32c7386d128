//! Contractions whose operand has gaps, and sums that have some: the input gradients of strided convolutions and of
//! pooling whose windows overlap.
//!
//! Along one axis such a gradient is `out[h] = Σ_k g[(a·h + b·k + c) / d] · w[k]`, where only whole quotients count: of
//! d products, d - 1 are with nothing. With h = d·h' + r and k = d·k' + m·r + e, where m and e are chosen so that a +
//! b·m and b·e + c are multiples of d, every quotient is whole:
//!
//! `out[d·h' + r] = Σ_k' g[a·h' + b·k' + (a + b·m)/d · r + (b·e + c)/d] · w[d·k' + m·r + e]`
//!
//! is a contraction with one more axis, r, and about 1/d of the terms. (Shi et al., "Is the deconvolution layer the
//! same as a convolutional layer?", 2016, call it sub-pixel convolution.) Past the ends of w there are zeros. The same
//! holds of a sum of what both indices choose, `Σ_k x[(a·h + b·k + c) / d, k]`.

use crate::dtype::Scalar;
use crate::graph::{Contract, Dim, Op, ProgramNode, ReduceOp, View};
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

/// A dimension of a view that is divided, and the axes it depends on, with their coefficients, in a sum over one of
/// them.
struct SumGaps {
    divided: usize,
    /// The dimension that takes the summed axis as it is.
    whole: usize,
    kept: (usize, i64),
    summed: (usize, i64),
}

/// How an axis of the output and a summed one, of coprime coefficients `a` and `b`, are cut into as many parts as the
/// divisor says: h = d·h' + r and k = d·k' + m·r + e.
struct Cut {
    a: i64,
    b: i64,
    /// d, the number of phases r.
    divisor: i64,
    /// m
    factor: i64,
    /// e
    start: i64,
    /// Values of k' and of h'.
    taps: usize,
    blocks: usize,
    offset: i64,
}

impl Cut {
    /// Of `length` outputs, each of which sums `steps` points at `(a·h + b·k + offset) / divisor`.
    fn new([a, b]: [i64; 2], offset: i64, divisor: i64, length: usize, steps: usize) -> Self {
        let whole = |value: i64| value.rem_euclid(divisor) == 0;
        let factor = (1 - divisor..divisor).filter(|m| whole(a + b * m)).min_by_key(|m| (a + b * m).abs());
        let factor = factor.expect("b has an inverse modulo d");
        let start = (0..divisor).find(|e| whole(b * e + offset)).expect("b has an inverse modulo d");
        // the first and last k' that any phase needs; k' is then counted from the first
        let first = (0..divisor).map(|r| -(factor * r + start).div_euclid(divisor)).min().expect("d > 1");
        let last = (0..divisor).map(|r| (steps as i64 - 1 - factor * r - start).div_euclid(divisor));
        let taps = (last.max().expect("d > 1") - first + 1) as usize;
        let start = start + divisor * first;
        Self { a, b, divisor, factor, start, taps, blocks: length.div_ceil(divisor as usize), offset }
    }

    fn phases(&self) -> usize {
        self.divisor as usize
    }

    /// k in terms of the axes k' and r.
    fn summed(&self, summed: usize, phase: usize) -> Dim {
        Dim { terms: vec![(summed, self.divisor), (phase, self.factor)], offset: self.start, divisor: 1 }
    }

    /// The quotient in terms of the axes h', k' and, where it depends on it, r.
    fn quotient(&self, kept: usize, summed: usize, phase: usize) -> Dim {
        let moved = (self.a + self.b * self.factor) / self.divisor;
        let terms = [(kept, self.a), (summed, self.b), (phase, moved)];
        let terms = terms.into_iter().filter(|&(_, factor)| factor != 0).collect();
        Dim { terms, offset: (self.b * self.start + self.offset) / self.divisor, divisor: 1 }
    }
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
        let &Gaps { side, kept: (kept, a), offset, divisor, .. } = gaps;
        let labels = [&contract.lhs, &contract.rhs];
        let shape = &self.nodes[node.inputs[side]].shape;
        let cut = Cut::new([a, b], offset, divisor, shape[kept], shape[summed]);
        let phase_label = (0..=u8::MAX).find(|label| labels.iter().all(|known| !known.contains(label)));
        let phase_label = phase_label.expect("tensors have fewer than 256 axes");

        let mut has_phases = false;
        let gapless = |axes: &mut Vec<usize>, dim: &mut Dim| {
            (axes[kept], axes[summed]) = (cut.blocks, cut.taps);
            *dim = cut.quotient(kept, summed, axes.len());
            has_phases = dim.terms.iter().any(|term| term.0 == axes.len());
            if has_phases {
                axes.push(cut.phases());
            }
        };
        let summed_label = labels[side][summed];
        let other_axis = labels[1 - side].iter().position(|&label| label == summed_label);
        let other_axis = other_axis.expect("a summed label is in both operands");
        let mut inputs = node.inputs.clone();
        inputs[side] = self.change_view(node.inputs[side], gaps.dim, gapless);
        inputs[1 - side] = self.view_phases(node, 1 - side, other_axis, &cut);

        let mut new_labels = [contract.lhs.clone(), contract.rhs.clone()];
        new_labels[1 - side].push(phase_label);
        if has_phases {
            new_labels[side].push(phase_label);
        }
        let place = contract.out.iter().position(|&label| label == labels[side][kept]).expect("a kept axis");
        let mut out = contract.out.clone();
        out.insert(place + 1, phase_label);
        let mut shape = node.shape.to_vec();
        shape[place] = cut.blocks;
        shape.insert(place + 1, cut.phases());
        let [lhs, rhs] = new_labels;
        let product = self.derive(node, Op::Contract(Contract { lhs, rhs, out }), &inputs, Shape::from(shape));
        let mut shape = node.shape.to_vec();
        shape[place] = cut.blocks * cut.phases();
        self.join_phases(node, product, shape)
    }

    /// The value of `node` from that with the phases of axes behind these; together, they are so many.
    fn join_phases(&mut self, node: &ProgramNode, phased: usize, sizes: Vec<usize>) -> usize {
        let joined = self.derive(node, Op::Reshape, &[phased], Shape::from(sizes));
        // the last block may be incomplete
        let dims = (0..node.shape.rank()).map(Dim::axis).collect();
        let fill = Scalar { dtype: node.dtype, bits: 0 };
        self.derive(node, Op::View(View { dims, fill }), &[joined], node.shape.clone())
    }

    /// `node`, a sum over `axes` of a view, without gaps: of each summed axis that divides one of the view's dimensions,
    /// and that another one takes as it is, so that it says where the summed points end. `None` if there is none.
    pub(super) fn sum_by_phases(
        &mut self,
        node: &ProgramNode,
        axes: &[usize],
        number: usize,
        view: &View,
    ) -> Option<usize> {
        let like = self.nodes[number].clone();
        if view.fill.to_f64() != 0.0 || like.shape.numel() == 0 {
            return None;
        }
        let (mut view, mut shape, mut cuts) = (view.clone(), like.shape.to_vec(), Vec::new());
        while let Some(SumGaps { divided, whole, kept, summed }) = self.find_gaps_of_sum(axes, &view, (&like, &shape)) {
            let ((kept, a), (summed, b), phase) = (kept, summed, shape.len());
            let Dim { offset, divisor, .. } = view.dims[divided];
            let cut = Cut::new([a, b], offset, divisor, shape[kept], shape[summed]);
            view.dims[divided] = cut.quotient(kept, summed, phase);
            view.dims[whole] = cut.summed(summed, phase);
            (shape[kept], shape[summed]) = (cut.blocks, cut.taps);
            shape.push(cut.phases());
            cuts.push((kept, phase));
        }
        if cuts.is_empty() {
            return None;
        }
        // phases belong behind their axes
        let phase_of = |axis: usize| cuts.iter().find(|cut| cut.0 == axis).map(|cut| cut.1);
        let rank = node.shape.rank();
        let order: Vec<usize> = (0..rank).flat_map(|axis| [Some(axis), phase_of(axis)]).flatten().collect();
        let place = |axis: usize| order.iter().position(|&other| other == axis).expect("all axes are in it");
        view.dims.iter_mut().flat_map(|dim| &mut dim.terms).for_each(|term| term.0 = place(term.0));
        let terms: Vec<usize> = order.iter().map(|&axis| shape[axis]).collect();
        let terms = self.derive(&like, Op::View(view), &like.inputs, Shape::from(terms));
        axes.iter().for_each(|&axis| shape[axis] = 1);
        let reduced: Vec<usize> = order.iter().map(|&axis| shape[axis]).collect();
        let sum = Op::Reduce { op: ReduceOp::Sum, axes: axes.iter().map(|&axis| place(axis)).collect() };
        let sums = self.derive(node, sum, &[terms], Shape::from(reduced));
        let size = |axis: usize| shape[axis] * phase_of(axis).map_or(1, |phase| shape[phase]);
        Some(self.join_phases(node, sums, (0..rank).map(size).collect()))
    }

    /// Gaps of a sum over `axes` of `view`, of this shape, which is that of `like` but for gaps that are gone.
    fn find_gaps_of_sum(
        &self,
        axes: &[usize],
        view: &View,
        (like, shape): (&ProgramNode, &[usize]),
    ) -> Option<SumGaps> {
        let source = &self.nodes[like.inputs[0]].shape;
        let mentions = |axis: usize| view.dims.iter().filter(|dim| dim.terms.iter().any(|term| term.0 == axis)).count();
        view.dims.iter().enumerate().filter(|(_, dim)| dim.divisor > 1).find_map(|(divided, dim)| {
            let &[first, second] = dim.terms.as_slice() else { return None };
            let (kept, summed) = if axes.contains(&first.0) { (second, first) } else { (first, second) };
            let is_summed = !axes.contains(&kept.0) && axes.contains(&summed.0);
            let are_coprime = [kept, summed].iter().all(|term| gcd(term.1, dim.divisor) == 1);
            let is_whole = |&other: &usize| view.dims[other] == Dim::axis(summed.0) && source[other] == shape[summed.0];
            let whole = (0..view.dims.len()).find(is_whole)?;
            let are_alone = mentions(kept.0) == 1 && mentions(summed.0) == 2;
            (is_summed && are_coprime && are_alone).then_some(SumGaps { divided, whole, kept, summed })
        })
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
    fn change_view(&mut self, number: usize, dim: usize, change: impl FnOnce(&mut Vec<usize>, &mut Dim)) -> usize {
        let like = self.nodes[number].clone();
        let Op::View(mut view) = like.op.clone() else { unreachable!("a view") };
        let mut axes = like.shape.to_vec();
        change(&mut axes, &mut view.dims[dim]);
        self.derive(&like, Op::View(view), &like.inputs, Shape::from(axes))
    }

    /// Operand `side` with k along `axis` as d·k' + m·r + e, k' in its place and r as the last axis. A view that takes
    /// k as it is changes itself: gaps along its other axes can then still be found.
    fn view_phases(&mut self, node: &ProgramNode, side: usize, axis: usize, cut: &Cut) -> usize {
        let number = node.inputs[side];
        let operand = self.nodes[number].clone();
        let like = ProgramNode { dtype: operand.dtype, ..node.clone() };
        let mut axes = operand.shape.to_vec();
        let phased = cut.summed(axis, axes.len());
        let steps = std::mem::replace(&mut axes[axis], cut.taps);
        axes.push(cut.phases());
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
