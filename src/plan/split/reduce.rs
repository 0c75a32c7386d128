//! Reductions of long rows, and of rows that are too few.

use crate::dtype::DType;
use crate::graph::{Op, ProgramNode, ReduceOp};
use crate::plan::PlanOptions;
use crate::shape::Shape;

use super::deviation::Sum;
use super::{Cut, Splitter};

/// Parts that one cut of a row asks for at the most, and so many the last reduction is over, or some more.
const MAX_PARTS: usize = 1 << 12;
/// In fewer parts rows are not cut for the sake of parallelism, nor columns: the second reduction takes time, too. At
/// 20 GB/s a core reads the 32,768 elements of four parts in 6.5 µs, and a launch more takes some 2.2 (`benches/NOTES.md`).
const MIN_ROW_PARTS: usize = 4;
const MIN_COLUMN_PARTS: usize = 8;
/// Parts of columns are not asked to be shorter than this, a quarter of a workgroup's tile of them.
const MIN_COLUMN: usize = 1 << 10;
/// Elements that take longer to read once more than a launch does (8 MiB).
const WORTH_A_LAUNCH: usize = 1 << 21;

impl Splitter<'_> {
    /// The reduction `node` over `axes` in two, if that is better.
    pub(super) fn split_reduce(
        &mut self,
        node: &ProgramNode,
        op: ReduceOp,
        axes: &[usize],
        sum: &Sum,
    ) -> Option<usize> {
        let input = node.inputs[0];
        let shape = self.nodes[input].shape.clone();
        let cut = cut(&shape, axes, sum, self.options)?;
        if node.dtype == DType::F16 {
            // partial results stay in the accumulator's precision
            let input = self.derive(node, Op::Cast, &[input], &shape, DType::F32);
            let wide = ProgramNode { inputs: [input].as_slice().into(), dtype: DType::F32, ..node.clone() };
            let wide = self.split_reduce(&wide, op, axes, sum)?;
            return Some(self.derive(node, Op::Cast, &[wide], &node.shape, node.dtype));
        }
        let partial = match sum {
            Sum::Deviation(deviation) if cut.is_even(&shape) => self.deviations_of_parts(node, deviation, axes, cut),
            _ => {
                let pieces = self.pieces(node, input, cut, op.identity(node.dtype));
                self.reduce_parts(node, pieces, op, axes, cut)
            }
        };
        let mut whole = self.nodes[partial].shape.to_vec();
        whole[cut.axis] = 1;
        let whole = self.derive(node, Op::Reduce { op, axes: vec![cut.axis] }, &[partial], &whole, node.dtype);
        Some(self.derive(node, Op::Reshape, &[whole], &node.shape, node.dtype))
    }

    /// `pieces` reduced to one value for each part; parts that are still too long are cut in turn.
    pub(super) fn reduce_parts(
        &mut self,
        like: &ProgramNode,
        pieces: usize,
        op: ReduceOp,
        axes: &[usize],
        cut: Cut,
    ) -> usize {
        let axes: Vec<usize> = axes.iter().map(|&axis| cut.renumber(axis)).collect();
        let mut shape = self.nodes[pieces].shape.to_vec();
        for &axis in &axes {
            shape[axis] = 1;
        }
        let node = ProgramNode {
            op: Op::Reduce { op, axes: axes.clone() },
            inputs: [pieces].as_slice().into(),
            shape: Shape::from(shape.as_slice()),
            ..like.clone()
        };
        let shorter = self.split_reduce(&node, op, &axes, &Sum::Other);
        shorter.unwrap_or_else(|| self.derive(like, node.op, &[pieces], &shape, like.dtype))
    }
}

/// How the elements of each result are cut; `None`: they stay together.
fn cut(shape: &Shape, axes: &[usize], sum: &Sum, options: &PlanOptions) -> Option<Cut> {
    let inner = axes.iter().fold(1_usize, |inner, &axis| inner.saturating_mul(shape[axis]));
    let outer = (shape.numel() / inner.max(1)).max(1);
    let too_long = inner > options.max_row;
    let longest = (options.max_row / 4).max(1);
    // those over all but the last axis are of columns, which lie side by side
    if !axes.contains(&(shape.rank() - 1)) {
        let abreast = outer.div_ceil(options.group_tile / 4);
        let wanted = options.wanted_groups.div_ceil(abreast).min(inner / MIN_COLUMN);
        let parts = if too_long { inner.div_ceil(longest) } else { wanted };
        return (too_long || wanted >= MIN_COLUMN_PARTS).then(|| longest_runs(shape, axes, parts))?;
    }
    let part = options.row_part.min(longest);
    let parts = inner.div_ceil(part).min(MAX_PARTS);
    let wanted = options.wanted_groups.div_ceil(outer).min(inner / part);
    // even parts alone are read once for mean and variance
    let read_again = !matches!(sum, Sum::Other) && inner > options.fused_row && shape.numel() >= WORTH_A_LAUNCH;
    let better = |cut: &Cut| too_long || wanted >= MIN_ROW_PARTS || read_again && cut.is_even(shape);
    (parts > 1).then(|| longest_runs(shape, axes, parts))?.filter(better)
}

/// Which axis is cut into these parts: the outermost that is long enough, so that what lies side by side stays in one
/// part, and rather one whose parts are even, as conditions at the end of an axis keep loads from being read by fours.
fn longest_runs(shape: &Shape, axes: &[usize], parts: usize) -> Option<Cut> {
    let last = shape.rank() - 1;
    let cut = |&axis: &usize| Cut::new(axis, shape[axis], parts);
    let long = || axes.iter().filter(|&&axis| shape[axis] >= parts).map(cut);
    let even = |cut: &Cut| cut.axis != last && cut.is_even(shape);
    // of equally long ones the outermost
    let longest = || axes.iter().rev().max_by_key(|&&axis| shape[axis]).map(cut);
    long().find(even).or_else(|| long().next()).or_else(longest)
}
