//! Cuts long sums: a reduction or contraction over too many elements becomes two, the second over the partial results.
//! Long sorts become sorts of short runs and merges, and long scans those of blocks.
//!
//! The cut depends on shapes, [`PlanOptions`] and the program alone, so the order of summation does too.

mod contract;
mod deviation;
mod reduce;
mod scan;

use rustc_hash::FxHashMap;
use smallvec::smallvec;

use crate::dtype::{DType, Scalar};
use crate::graph::{Dim, Inputs, Op, Program, ProgramNode, Runs, View};
use crate::shape::Shape;

use super::{PlanOptions, simplify};

/// An equal program whose reductions and contractions respect the options' limits.
pub(super) fn split(program: &Program, options: &PlanOptions) -> Program {
    let mut splitter = Splitter { options, nodes: Vec::with_capacity(program.nodes.len()), made: FxHashMap::default() };
    let mut sums = deviation::sums(program);
    let mut map = Vec::with_capacity(program.nodes.len());
    for (number, original) in program.nodes.iter().enumerate() {
        let mut node = original.clone();
        for input in &mut node.inputs {
            *input = map[*input];
        }
        let made = match node.op.clone() {
            Op::Reduce { op, axes } => {
                let sum = sums.remove(&number).unwrap_or_default();
                splitter.split_reduce(&node, op, &axes, &sum.renumbered(&map))
            }
            Op::Contract(contract) => splitter.split_contract(&node, &contract, options.wanted_groups),
            Op::Sort(runs) => splitter.split_sort(&node, runs),
            Op::Scan { .. } => splitter.split_scan(&node),
            _ => None,
        };
        map.push(made.unwrap_or_else(|| splitter.push(node)));
    }
    let mut outputs = program.outputs.clone();
    for output in &mut outputs {
        output.node = map[output.node];
    }
    let (nodes, externals) = (splitter.nodes, program.externals.clone());
    simplify::sweep(Program { nodes, outputs, externals, uniforms: program.uniforms })
}

/// The program that is made.
struct Splitter<'o> {
    options: &'o PlanOptions,
    nodes: Vec<ProgramNode>,
    /// Pieces that were cut, so that two sums over the same ones share them: a node's operation, inputs, shape, type and
    /// segment, with its number.
    made: FxHashMap<(Op, Inputs, Shape, DType, u32), usize>,
}

impl Splitter<'_> {
    fn push(&mut self, node: ProgramNode) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// A node like `like`, with another operation, inputs, shape and type, if there is none that is the same.
    fn derive(&mut self, like: &ProgramNode, op: Op, inputs: &[usize], shape: &[usize], dtype: DType) -> usize {
        let (inputs, shape) = (Inputs::from_slice(inputs), Shape::from(shape));
        let key = (op.clone(), inputs.clone(), shape.clone(), dtype, like.segment);
        if let Some(&number) = self.made.get(&key) {
            // one value in two stages belongs to the earlier one
            let stage = &mut self.nodes[number].stage;
            *stage = like.stage.min(*stage);
            return number;
        }
        let number = self.push(ProgramNode { op, inputs, shape, dtype, ..like.clone() });
        self.made.insert(key, number);
        number
    }

    /// Short runs are sorted, then merged until they are long enough.
    fn split_sort(&mut self, node: &ProgramNode, Runs { length, run }: Runs) -> Option<usize> {
        let run = run.min(length);
        let mut sorted = self.options.sort_run;
        if run <= sorted {
            return None;
        }
        let mut made = self.push(ProgramNode { op: Op::Sort(Runs { length, run: sorted }), ..node.clone() });
        while sorted < run {
            let op = Op::Merge(Runs { length, run: sorted });
            made = self.push(ProgramNode { op, inputs: smallvec![made], ..node.clone() });
            sorted *= 2;
        }
        Some(made)
    }

    /// `input` with an axis cut: it becomes two, (parts, chunk); past the end is `fill`.
    fn pieces(&mut self, like: &ProgramNode, input: usize, cut: Cut, fill: Scalar) -> usize {
        let mut shape = self.nodes[input].shape.to_vec();
        let dim = |axis: usize| {
            if axis == cut.axis {
                Dim { terms: vec![(axis, cut.chunk as i64), (axis + 1, 1)], offset: 0, divisor: 1 }
            } else {
                Dim::axis(cut.renumber(axis))
            }
        };
        let dims = (0..shape.len()).map(dim).collect();
        shape[cut.axis] = cut.chunk;
        shape.insert(cut.axis, cut.parts);
        let dtype = self.nodes[input].dtype;
        self.derive(like, Op::View(View { dims, fill }), &[input], &shape, dtype)
    }
}

/// How an axis is cut: into `parts` of `chunk` elements, the last of which may have fewer.
#[derive(Clone, Copy)]
struct Cut {
    axis: usize,
    parts: usize,
    chunk: usize,
}

impl Cut {
    /// Into as many parts, or some more: where it can be done, all have as many elements.
    fn new(axis: usize, length: usize, parts: usize) -> Self {
        let chunk = length.div_ceil(parts.min(length));
        let even = (chunk.div_ceil(2)..=chunk).rev().find(|&even| length.is_multiple_of(even));
        let chunk = even.unwrap_or(chunk);
        Self { axis, parts: length.div_ceil(chunk), chunk }
    }

    /// Whether all parts of what has this shape have as many elements.
    fn is_even(self, shape: &Shape) -> bool {
        shape[self.axis].is_multiple_of(self.chunk)
    }

    /// The number of an axis of what is cut, or of the elements of its parts, among those of the pieces.
    const fn renumber(self, axis: usize) -> usize {
        if axis >= self.axis { axis + 1 } else { axis }
    }
}

#[cfg(test)]
mod tests {
    use super::Cut;

    #[test]
    fn parts_are_even_where_they_can_be() {
        let chunk = |length, parts| Cut::new(0, length, parts).chunk;
        assert_eq!(chunk(128, 8), 16);
        assert_eq!(chunk(128, 15), 8, "16 parts of 8 instead of 15 of 9, the last of which would be 2");
        assert_eq!(chunk(13, 4), 4);
        assert_eq!(chunk(5, 9), 1);
    }
}
