//! Simplification: a program to an equal, smaller one.
//!
//! Nodes are rebuilt in order. Each rule looks at one node whose inputs are already simplified; equal nodes are merged;
//! what no output needs is dropped at the end.

pub(crate) mod fold;
mod phases;
mod sums;
mod vectors;

use rustc_hash::FxHashMap;

use crate::dtype::{DType, Scalar};
use crate::graph::{Binary, Dim, Inputs, Op, Program, ProgramNode, ReduceOp, Slot, View};
use crate::ops::elementwise::cast_value;
use crate::plan::PlanOptions;
use crate::shape::Shape;

/// An equal program without detours, duplicates and dead nodes.
pub(super) fn simplify(program: &Program, options: &PlanOptions) -> Program {
    let users = program.users();
    let mut builder = Builder {
        uses: users.iter().map(Vec::len).collect(),
        reduced_matrix: options.reduced_matrix,
        ..Builder::default()
    };
    // what is read after the program is used once more
    program.outputs.iter().for_each(|output| builder.uses[output.node] += 1);
    let mut map = Vec::with_capacity(program.nodes.len());
    for (number, node) in program.nodes.iter().enumerate() {
        let mut node = node.clone();
        for input in &mut node.inputs {
            *input = map[*input];
        }
        let inputs = node.inputs.clone();
        let made = builder.add(node);
        // a node that became its own input passes its users on to it
        let passed = usize::from(inputs.contains(&made));
        let uses = builder.used_by_origin.entry(made).or_insert(passed);
        *uses = *uses + builder.uses[number] - passed;
        map.push(made);
    }
    let outputs = program
        .outputs
        .iter()
        .map(|output| crate::graph::Output { node: map[output.node], ..*output })
        .collect::<Vec<_>>();
    sweep(Program { nodes: builder.nodes, outputs, externals: program.externals.clone(), uniforms: program.uniforms })
}

/// Drops what no output needs.
pub(super) fn sweep(program: Program) -> Program {
    let mut needed = vec![false; program.nodes.len()];
    for output in &program.outputs {
        needed[output.node] = true;
    }
    for number in (0..program.nodes.len()).rev() {
        if needed[number] {
            for &input in &program.nodes[number].inputs {
                needed[input] = true;
            }
        }
    }
    let mut map = vec![usize::MAX; program.nodes.len()];
    let mut nodes = Vec::new();
    for (number, mut node) in program.nodes.into_iter().enumerate() {
        if needed[number] {
            for input in &mut node.inputs {
                *input = map[*input];
            }
            map[number] = nodes.len();
            nodes.push(node);
        }
    }
    let mut outputs = program.outputs;
    for output in &mut outputs {
        output.node = map[output.node];
    }
    Program { nodes, outputs, externals: program.externals, uniforms: program.uniforms }
}

type Key = (Op, Inputs, Shape, DType, u32, Slot);

#[derive(Default)]
struct Builder {
    /// See [`PlanOptions::reduced_matrix`].
    reduced_matrix: usize,
    nodes: Vec<ProgramNode>,
    /// For each node, whether computing it checks an index.
    checks: Vec<bool>,
    known: FxHashMap<Key, usize>,
    /// Users of each node of the original program.
    uses: Vec<usize>,
    /// For a new node, the users of all original nodes that became it.
    used_by_origin: FxHashMap<usize, usize>,
}

impl Builder {
    /// Adds a node whose inputs are numbers of this builder, simplified; returns its number.
    fn add(&mut self, node: ProgramNode) -> usize {
        if let Some(number) = self.rewrite(&node) {
            return number;
        }
        let key = (
            node.op.clone(),
            node.inputs.clone(),
            node.shape.clone(),
            node.dtype,
            // leaves and constants are the same in every segment
            if node.inputs.is_empty() { 0 } else { node.segment },
            node.slot,
        );
        if let Some(&known) = self.known.get(&key) {
            // one value in two stages belongs to the earlier one
            self.nodes[known].stage = self.nodes[known].stage.min(node.stage);
            return known;
        }
        self.known.insert(key, self.nodes.len());
        let checks = matches!(node.op, Op::CheckIndex { .. }) || node.inputs.iter().any(|&input| self.checks[input]);
        self.checks.push(checks);
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn constant(&self, number: usize) -> Option<Scalar> {
        match self.nodes[number].op {
            Op::Const(value) => Some(value),
            _ => None,
        }
    }

    /// A node like `like`, with another op and inputs.
    fn derive(&mut self, like: &ProgramNode, op: Op, inputs: &[usize], shape: Shape) -> usize {
        self.add(ProgramNode { op, inputs: Inputs::from_slice(inputs), shape, ..like.clone() })
    }

    fn rewrite(&mut self, node: &ProgramNode) -> Option<usize> {
        match &node.op {
            Op::Custom | Op::Detach => Some(node.inputs[0]),
            Op::Cast => self.rewrite_cast(node),
            Op::Unary(op) => {
                let value = self.constant(node.inputs[0])?;
                let folded = fold::unary(*op, value)?;
                Some(self.derive(node, Op::Const(folded), &[], node.shape.clone()))
            }
            Op::Binary(op) => self.rewrite_binary(node, *op),
            Op::Select => {
                let condition = self.constant(node.inputs[0]);
                let branches = condition.map(|value| if value.bits != 0 { (1, 2) } else { (2, 1) });
                // indices are still to be checked, though what is made of them is not chosen or decides nothing
                let branch = branches.filter(|&(_, dropped)| !self.checks[node.inputs[dropped]]);
                let alike = node.inputs[1] == node.inputs[2] && !self.checks[node.inputs[0]];
                branch.map(|(branch, _)| node.inputs[branch]).or_else(|| alike.then(|| node.inputs[1]))
            }
            Op::Reshape => {
                let input = node.inputs[0];
                if self.nodes[input].shape == node.shape {
                    return Some(input);
                }
                match self.nodes[input].op.clone() {
                    Op::Const(value) => Some(self.derive(node, Op::Const(value), &[], node.shape.clone())),
                    Op::Reshape => {
                        let inner = self.nodes[input].inputs[0];
                        Some(self.derive(node, Op::Reshape, &[inner], node.shape.clone()))
                    }
                    _ => None,
                }
            }
            Op::View(view) => self.rewrite_view(node, view),
            Op::Reduce { op, axes } => self.rewrite_reduce(node, *op, axes),
            Op::Contract(contract) => self.by_vector(node, contract).or_else(|| self.by_phases(node, contract)),
            _ => None,
        }
    }

    fn rewrite_cast(&mut self, node: &ProgramNode) -> Option<usize> {
        let input = node.inputs[0];
        if self.nodes[input].dtype == node.dtype {
            return Some(input);
        }
        let value = self.constant(input)?;
        let folded = Scalar::new(node.dtype, cast_value(value.dtype, node.dtype, value.to_f64()));
        Some(self.derive(node, Op::Const(folded), &[], node.shape.clone()))
    }

    fn rewrite_binary(&mut self, node: &ProgramNode, op: Binary) -> Option<usize> {
        let (a, b) = (node.inputs[0], node.inputs[1]);
        let (left, right) = (self.constant(a), self.constant(b));
        if let (Some(left), Some(right)) = (left, right) {
            let folded = fold::binary(op, left, right, node.dtype)?;
            return Some(self.derive(node, Op::Const(folded), &[], node.shape.clone()));
        }
        // Only rules that keep every bit: x + 0 is not among them (-0 + 0 = 0), x + -0 is.
        let neutral = |value: Option<Scalar>| value.map(Scalar::to_f64);
        let float = node.dtype.is_float();
        let is_zero = |value: Option<f64>| value == Some(0.0) && (!float || value.is_some_and(f64::is_sign_negative));
        match op {
            Binary::Add if is_zero(neutral(right)) => Some(a),
            Binary::Add if is_zero(neutral(left)) => Some(b),
            Binary::Sub if neutral(right).is_some_and(|v| v == 0.0 && v.is_sign_positive()) => Some(a),
            Binary::Mul | Binary::Div if neutral(right) == Some(1.0) && node.dtype != DType::Bool => Some(a),
            Binary::Mul if neutral(left) == Some(1.0) && node.dtype != DType::Bool => Some(b),
            _ => None,
        }
    }

    fn rewrite_view(&mut self, node: &ProgramNode, view: &View) -> Option<usize> {
        let input = node.inputs[0];
        let shape = self.nodes[input].shape.clone();
        let identity = shape == node.shape
            && view.dims.iter().enumerate().all(|(axis, dim)| shape[axis] == 1 || *dim == Dim::axis(axis))
            && (0..shape.rank()).all(|axis| always_inside(&view.dims[axis], &node.shape, shape[axis]));
        if identity {
            return Some(input);
        }
        let value = self.constant(input)?;
        let inside = view.dims.iter().zip(shape.iter()).all(|(dim, &size)| always_inside(dim, &node.shape, size));
        (inside || value == view.fill).then(|| self.derive(node, Op::Const(value), &[], node.shape.clone()))
    }

    fn rewrite_reduce(&mut self, node: &ProgramNode, op: ReduceOp, axes: &[usize]) -> Option<usize> {
        let input = node.inputs[0];
        let shape = self.nodes[input].shape.clone();
        if axes.iter().all(|&axis| shape[axis] == 1) {
            return Some(input);
        }
        if let (Some(value), true) = (self.constant(input), node.dtype.is_float()) {
            let count: usize = axes.iter().map(|&axis| shape[axis]).product();
            let folded = match op {
                _ if count == 0 => op.identity(node.dtype).to_f64(),
                ReduceOp::Sum => value.to_f64() * count as f64,
                ReduceOp::Max | ReduceOp::Min => value.to_f64(),
                ReduceOp::Prod => return None,
            };
            let folded = Op::Const(Scalar::new(node.dtype, folded));
            return Some(self.derive(node, folded, &[], node.shape.clone()));
        }
        if let Some(moved) = self.reduce_before_moving(node, op, axes) {
            return Some(moved);
        }
        match self.nodes[input].op.clone() {
            // Σ over a view of a contraction is a contraction of views: the gradients of convolutions.
            Op::View(view) if op == ReduceOp::Sum => {
                let product = self.sum_of_contraction(node, axes, input, &view);
                product.or_else(|| self.sum_by_phases(node, axes, input, &view))
            }
            // one reduction of another, both over their own axes
            Op::Reduce { op: inner, axes: inner_axes } if inner == op && self.used_once(input) => {
                let mut axes: Vec<usize> = axes.iter().chain(&inner_axes).copied().collect();
                axes.sort_unstable();
                axes.dedup();
                let source = self.nodes[input].inputs[0];
                Some(self.derive(node, Op::Reduce { op, axes }, &[source], node.shape.clone()))
            }
            _ => None,
        }
    }

    /// A reduction of moved axes is a reduction of the axes where they were: kernels over the same rows are then seen
    /// to be so.
    fn reduce_before_moving(&mut self, node: &ProgramNode, op: ReduceOp, axes: &[usize]) -> Option<usize> {
        let input = node.inputs[0];
        let Op::View(view) = self.nodes[input].op.clone() else { return None };
        let moved = self.nodes[input].shape.clone();
        let source = self.nodes[input].inputs[0];
        let shape = self.nodes[source].shape.clone();
        let from = permutation(&view, &shape, &moved)?;
        let mut reduced: Vec<usize> = axes.iter().filter_map(|&axis| from[axis]).collect();
        reduced.sort_unstable();
        let mut small = shape.to_vec();
        for &axis in &reduced {
            small[axis] = 1;
        }
        let small = Shape::from(small);
        let result = self.derive(node, Op::Reduce { op, axes: reduced }, &[source], small.clone());
        let kept: Vec<usize> = (0..moved.rank()).filter(|a| !axes.contains(a)).filter_map(|axis| from[axis]).collect();
        if kept.is_sorted() {
            return Some(self.derive(node, Op::Reshape, &[result], node.shape.clone()));
        }
        let dim = |(axis, dim): (usize, &Dim)| if small[axis] == 1 { Dim::constant(0) } else { dim.clone() };
        let dims = view.dims.iter().enumerate().map(dim).collect();
        Some(self.derive(node, Op::View(View { dims, fill: view.fill }), &[result], node.shape.clone()))
    }

    fn used_once(&self, number: usize) -> bool {
        self.used_by_origin.get(&number).is_none_or(|&uses| uses <= 1)
    }
}

/// For each axis of a view that only moves axes, the axis of `shape` it comes from (none for new axes of size 1).
pub(super) fn permutation(view: &View, shape: &Shape, moved: &Shape) -> Option<Vec<Option<usize>>> {
    if shape.numel() != moved.numel() || shape.numel() == 0 {
        return None;
    }
    let mut from = vec![None; moved.rank()];
    for (source, dim) in view.dims.iter().enumerate() {
        match (dim.terms.as_slice(), dim.offset, dim.divisor) {
            // an axis that is read twice is a diagonal
            (&[(axis, 1)], 0, 1) if moved[axis] == shape[source] && from[axis].is_none() => from[axis] = Some(source),
            // of one element, which may be missed
            _ if shape[source] == 1 && always_inside(dim, moved, 1) => {}
            _ => return None,
        }
    }
    Some(from)
}

/// True if the coordinate stays within `0..size` and whole, for every output coordinate in `shape`.
pub(super) fn always_inside(dim: &Dim, shape: &Shape, size: usize) -> bool {
    let (mut low, mut high) = (dim.offset, dim.offset);
    for &(axis, coefficient) in &dim.terms {
        let end = coefficient * (shape[axis] as i64 - 1).max(0);
        low += end.min(0);
        high += end.max(0);
    }
    dim.divisor == 1 && low >= 0 && high < size as i64
}
