//! Sums of squared distances, as variances are made of, from sums of parts: each part's elements are read once for its
//! mean and for the distances from that, which a workgroup keeps in registers in between.
//!
//! With `r = Σ (x - a)` over the `n` elements of a part, `Σ (x - m)² = Σ (x - a)² + (a - m) · (2r + n · (a - m))` for
//! all `a` and `m`. With the part's mean as `a` nothing cancels (Chan, Golub and LeVeque, Updating Formulae and a
//! Pairwise Algorithm for Computing Sample Variances, 1979), and `r`, which is 0 but for rounding, makes up for that of
//! `a`.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::dtype::{DType, Scalar};
use crate::graph::{Binary, Dim, Op, Program, ProgramNode, ReduceOp, View};
use crate::plan::simplify::always_inside;

use super::{Cut, Splitter};

/// What is known of a reduction when it is cut.
#[derive(Default)]
pub(super) enum Sum {
    /// A variance: the sum of squared distances from a mean.
    Deviation(Deviation),
    /// Of what such a sum is asked for as well: both are cut in the same parts.
    Centered,
    #[default]
    Other,
}

/// A sum of `(x - m)²` over axes along which `m` is the same.
pub(super) struct Deviation {
    x: usize,
    /// What `m` is a view of, and the view.
    center: usize,
    view: View,
}

impl Sum {
    /// With other numbers for the nodes.
    pub(super) fn renumbered(self, map: &[usize]) -> Self {
        match self {
            Self::Deviation(of) => Self::Deviation(Deviation { x: map[of.x], center: map[of.center], ..of }),
            other => other,
        }
    }
}

/// The reductions of a program of which something is known, by number.
pub(super) fn sums(program: &Program) -> FxHashMap<usize, Sum> {
    let mut sums = FxHashMap::default();
    let mut centered = FxHashSet::default();
    for (number, node) in program.nodes.iter().enumerate() {
        if let Op::Reduce { op: ReduceOp::Sum, axes } = &node.op
            && let Some(deviation) = deviation(&program.nodes, node.inputs[0], axes)
        {
            centered.insert((deviation.x, axes));
            sums.insert(number, Sum::Deviation(deviation));
        }
    }
    for (number, node) in program.nodes.iter().enumerate() {
        if let Op::Reduce { axes, .. } = &node.op
            && centered.contains(&(node.inputs[0], axes))
        {
            sums.entry(number).or_insert(Sum::Centered);
        }
    }
    sums
}

/// What squares are summed, if `squares` are such of distances from a mean.
fn deviation(nodes: &[ProgramNode], squares: usize, axes: &[usize]) -> Option<Deviation> {
    let operands = |number: usize, op: Binary| {
        let node: &ProgramNode = &nodes[number];
        (node.op == Op::Binary(op) && node.dtype == DType::F32).then(|| [node.inputs[0], node.inputs[1]])
    };
    let [distance, same] = operands(squares, Binary::Mul)?;
    let [x, m] = operands(distance, Binary::Sub).filter(|_| distance == same)?;
    let Op::View(view) = &nodes[m].op else { return None };
    let center = nodes[m].inputs[0];
    let shape = &nodes[m].shape;
    let inside = |(dim, &size): (&Dim, &usize)| always_inside(dim, shape, size);
    let inside = view.dims.iter().zip(nodes[center].shape.dims()).all(inside);
    let kept = (0..shape.rank()).filter(|axis| shape[*axis] > 1 && !axes.contains(axis)).map(Dim::axis);
    let moves = |dim: &&Dim| dim.terms.iter().any(|&(axis, _)| shape[axis] > 1);
    let own_row = view.dims.iter().filter(moves).cloned().eq(kept);
    let fits = inside && own_row && is_mean(nodes, center, x, axes);
    fits.then(|| Deviation { x, center, view: view.clone() })
}

/// Whether `center` is a multiple of the sum of `x`. Distances from other finite numbers are infinite where `x` is, but
/// have no number by way of its parts' means; and these would be one sum more.
fn is_mean(nodes: &[ProgramNode], mut center: usize, x: usize, axes: &[usize]) -> bool {
    loop {
        let node = &nodes[center];
        let is_share = |side: usize| matches!(nodes[node.inputs[side]].op, Op::Const(share) if share.to_f64() > 0.0);
        center = match &node.op {
            Op::Reduce { op: ReduceOp::Sum, axes: summed } => return node.inputs[0] == x && summed == axes,
            Op::Reshape => node.inputs[0],
            Op::Binary(Binary::Mul | Binary::Div) if is_share(1) => node.inputs[0],
            Op::Binary(Binary::Mul) if is_share(0) => node.inputs[1],
            _ => return false,
        };
    }
}

impl Splitter<'_> {
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
        let sums = self.reduce_parts(like, pieces, ReduceOp::Sum, axes, cut);
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
        let [rest, within] = [distance, squares].map(|of| self.reduce_parts(like, of, ReduceOp::Sum, axes, cut));

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
