//! Sums of squared distances, as variances are made of, from sums of parts: each part's elements are read once for its
//! mean and for the distances from that, which a workgroup keeps in registers in between.
//!
//! With `r = Σ (x - a)` over the `n` elements of a part, `Σ (x - m)² = Σ (x - a)² + (a - m) · (2r + n · (a - m))` for
//! all `a` and `m`. With the part's mean as `a` nothing cancels (Chan, Golub and LeVeque, Updating Formulae and a
//! Pairwise Algorithm for Computing Sample Variances, 1979), and `r`, which is 0 but for rounding, makes up for that of
//! `a`.

use rustc_hash::FxHashSet;

use crate::dtype::{DType, Scalar};
use crate::graph::{Binary, Dim, Op, Program, ProgramNode, ReduceOp, View};
use crate::plan::simplify::always_inside;

use super::{Cut, Splitter};

/// A sum of `(x - m)²` over axes along which `m` is the same.
pub(super) struct Deviation {
    x: usize,
    /// What `m` is a view of, and the view.
    center: usize,
    view: View,
}

/// The values, with axes, whose squared distances from something are summed. Other sums of theirs are cut in the same
/// parts.
pub(super) fn centered(program: &Program) -> FxHashSet<(usize, Vec<usize>)> {
    let mut centered = FxHashSet::default();
    for node in &program.nodes {
        if let Op::Reduce { op: ReduceOp::Sum, axes } = &node.op
            && let Some(deviation) = deviation(&program.nodes, node.inputs[0], axes)
        {
            centered.extend([(deviation.x, axes.clone()), (node.inputs[0], axes.clone())]);
        }
    }
    centered
}

/// What squares are summed, if `squares` are such.
fn deviation(nodes: &[ProgramNode], squares: usize, axes: &[usize]) -> Option<Deviation> {
    let operands = |number: usize, op: Binary| {
        let node: &ProgramNode = &nodes[number];
        (node.op == Op::Binary(op) && node.dtype == DType::F32).then(|| [node.inputs[0], node.inputs[1]])
    };
    let [distance, same] = operands(squares, Binary::Mul)?;
    let [x, m] = operands(distance, Binary::Sub).filter(|_| distance == same)?;
    let Op::View(view) = &nodes[m].op else { return None };
    let center = nodes[m].inputs[0];
    let constant = view.dims.iter().flat_map(|dim| &dim.terms).all(|(axis, _)| !axes.contains(axis));
    let inside = |(dim, &size): (&Dim, &usize)| always_inside(dim, &nodes[m].shape, size);
    let inside = view.dims.iter().zip(nodes[center].shape.dims()).all(inside);
    (constant && inside).then(|| Deviation { x, center, view: view.clone() })
}

impl Splitter<'_> {
    pub(super) fn deviation(&self, squares: usize, axes: &[usize]) -> Option<Deviation> {
        deviation(&self.nodes, squares, axes)
    }

    /// Each part's share of the sum over `axes`, where all parts have as many elements.
    pub(super) fn deviations_of_parts(
        &mut self,
        like: &ProgramNode,
        Deviation { x, center, view }: &Deviation,
        axes: &[usize],
        cut: Cut,
    ) -> usize {
        let pieces = self.pieces(like, *x, cut, ReduceOp::Sum.identity(DType::F32));
        let all = self.nodes[pieces].shape.to_vec();
        let sums = self.reduce_parts(like, pieces, ReduceOp::Sum, axes, cut, true);
        let parts = self.nodes[sums].shape.to_vec();
        let count = all.iter().product::<usize>() as f64 / parts.iter().product::<usize>() as f64;
        let share = self.constant(like, 1.0 / count, &parts);
        let means = self.binary(like, Binary::Mul, [sums, share], &parts);

        let dims = parts.iter().zip(&all).enumerate();
        let dims = dims.map(|(axis, (part, whole))| if part == whole { Dim::axis(axis) } else { Dim::constant(0) });
        let fill = view.fill;
        let spread = Op::View(View { dims: dims.collect(), fill });
        let spread = self.derive(like, spread, &[means], &all, DType::F32);
        let distance = self.binary(like, Binary::Sub, [pieces, spread], &all);
        let squares = self.binary(like, Binary::Mul, [distance, distance], &all);
        let [rest, within] =
            [distance, squares].map(|summed| self.reduce_parts(like, summed, ReduceOp::Sum, axes, cut, true));

        let renumbered = |dim: &Dim| {
            let terms = dim.terms.iter().map(|&(axis, by)| (cut.renumber(axis), by)).collect();
            Dim { terms, ..dim.clone() }
        };
        let center_of_parts = Op::View(View { dims: view.dims.iter().map(renumbered).collect(), fill });
        let center = self.derive(like, center_of_parts, &[*center], &parts, DType::F32);
        let apart = self.binary(like, Binary::Sub, [means, center], &parts);
        let count = self.constant(like, count, &parts);
        let all_apart = self.binary(like, Binary::Mul, [count, apart], &parts);
        let twice = self.binary(like, Binary::Add, [rest, rest], &parts);
        let between = self.binary(like, Binary::Add, [twice, all_apart], &parts);
        let between = self.binary(like, Binary::Mul, [apart, between], &parts);
        self.binary(like, Binary::Add, [within, between], &parts)
    }

    /// The same number everywhere.
    fn constant(&mut self, like: &ProgramNode, value: f64, shape: &[usize]) -> usize {
        self.derive(like, Op::Const(Scalar::new(DType::F32, value)), &[], shape, DType::F32)
    }

    fn binary(&mut self, like: &ProgramNode, op: Binary, inputs: [usize; 2], shape: &[usize]) -> usize {
        self.derive(like, Op::Binary(op), &inputs, shape, DType::F32)
    }
}
