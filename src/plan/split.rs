//! Cuts long sums: a reduction or contraction over too many elements becomes two, the second over the partial results.
//! Long sorts become sorts of short runs and merges.
//!
//! The cut depends on shapes and [`PlanOptions`] alone, so the order of summation does too.

use smallvec::smallvec;

use crate::dtype::{DType, Scalar};
use crate::graph::{Contract, Dim, Inputs, Op, Program, ProgramNode, ReduceOp, View};
use crate::shape::Shape;

use super::{PlanOptions, shares_of_sum};

/// Parts of a contraction's sum are not asked to be shorter than this for the sake of parallelism, but may become half
/// as long where all are to have as many.
const LEAST_STEPS: usize = 256;
/// Nor are those of a reduction's rows, or of its columns, which a quarter of a workgroup's tile share, and in fewer
/// parts they are not cut: the second reduction takes time, too.
const LEAST_ROW: usize = 1 << 14;
const LEAST_COLUMN: usize = 1 << 10;
const LEAST_PARTS: usize = 8;

/// An equal program whose reductions and contractions respect the options' limits.
pub(super) fn split(program: &Program, options: &PlanOptions) -> Program {
    let mut result = Program {
        nodes: Vec::with_capacity(program.nodes.len()),
        outputs: program.outputs.clone(),
        externals: program.externals.clone(),
        uniforms: program.uniforms,
    };
    let mut map = Vec::with_capacity(program.nodes.len());
    for node in &program.nodes {
        let mut node = node.clone();
        for input in &mut node.inputs {
            *input = map[*input];
        }
        let made = match node.op.clone() {
            Op::Reduce { op, axes } => split_reduce(&mut result.nodes, &node, op, &axes, options),
            Op::Contract(contract) => split_contract(&mut result.nodes, &node, &contract, options),
            Op::Sort { length, run } => split_sort(&mut result.nodes, &node, length, run, options),
            _ => None,
        };
        map.push(made.unwrap_or_else(|| push(&mut result.nodes, node)));
    }
    for output in &mut result.outputs {
        output.node = map[output.node];
    }
    result
}

/// Short runs are sorted, then merged until they are long enough.
fn split_sort(
    nodes: &mut Vec<ProgramNode>,
    node: &ProgramNode,
    length: usize,
    run: usize,
    options: &PlanOptions,
) -> Option<usize> {
    let run = run.min(length);
    let mut sorted = options.sort_run;
    if run <= sorted {
        return None;
    }
    let mut made = push(nodes, ProgramNode { op: Op::Sort { length, run: sorted }, ..node.clone() });
    while sorted < run {
        made =
            push(nodes, ProgramNode { op: Op::Merge { length, run: sorted }, inputs: smallvec![made], ..node.clone() });
        sorted *= 2;
    }
    Some(made)
}

fn push(nodes: &mut Vec<ProgramNode>, node: ProgramNode) -> usize {
    nodes.push(node);
    nodes.len() - 1
}

/// `axis` of `input` cut into `parts` chunks of `chunk` elements: the axis becomes two, (parts, chunk); past the end is
/// `fill`.
fn cut(
    nodes: &mut Vec<ProgramNode>,
    like: &ProgramNode,
    input: usize,
    axis: usize,
    parts: usize,
    chunk: usize,
    fill: Scalar,
) -> usize {
    let mut shape = nodes[input].shape.to_vec();
    let rank = shape.len();
    shape[axis] = chunk;
    shape.insert(axis, parts);
    let dims = (0..rank)
        .map(|d| match d.cmp(&axis) {
            std::cmp::Ordering::Less => Dim::axis(d),
            std::cmp::Ordering::Equal => {
                Dim { terms: vec![(axis, chunk as i64), (axis + 1, 1)], offset: 0, divisor: 1 }
            }
            std::cmp::Ordering::Greater => Dim::axis(d + 1),
        })
        .collect();
    let dtype = nodes[input].dtype;
    let op = Op::View(View { dims, fill });
    push(nodes, ProgramNode { op, inputs: smallvec![input], shape: Shape::from(shape), dtype, ..like.clone() })
}

/// Elements in each of `parts` parts of an axis, or of some more: where it can be done, all parts have as many.
fn chunk(length: usize, parts: usize) -> usize {
    let chunk = length.div_ceil(parts.min(length));
    (chunk.div_ceil(2)..=chunk).rev().find(|&even| length.is_multiple_of(even)).unwrap_or(chunk)
}

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

fn split_reduce(
    nodes: &mut Vec<ProgramNode>,
    node: &ProgramNode,
    op: ReduceOp,
    axes: &[usize],
    options: &PlanOptions,
) -> Option<usize> {
    let mut input = node.inputs[0];
    let shape = nodes[input].shape.clone();
    let inner: usize = axes.iter().map(|&axis| shape[axis]).product();
    let outer = node.shape.numel();
    let parts = if inner > options.max_row {
        inner.div_ceil(options.max_row / 4)
    } else {
        // sums over all but the last axis are of columns, which lie side by side
        let columns = !axes.contains(&(shape.rank() - 1));
        let (abreast, least) = if columns { (options.group_tile / 4, LEAST_COLUMN) } else { (1, LEAST_ROW) };
        let parts = options.wanted_groups.div_ceil(outer.div_ceil(abreast).max(1)).min(inner / least);
        Some(parts).filter(|&parts| parts >= LEAST_PARTS)?
    };
    if node.dtype == DType::F16 {
        // partial results stay in the accumulator's precision
        input = push(
            nodes,
            ProgramNode { op: Op::Cast, inputs: smallvec![input], shape, dtype: DType::F32, ..node.clone() },
        );
        let wide = ProgramNode { inputs: smallvec![input], dtype: DType::F32, ..node.clone() };
        let wide = split_reduce(nodes, &wide, op, axes, options)?;
        return Some(push(nodes, ProgramNode { op: Op::Cast, inputs: smallvec![wide], ..node.clone() }));
    }
    let axis = *axes.iter().max_by_key(|&&axis| shape[axis])?;
    let chunk = chunk(shape[axis], parts);
    let parts = shape[axis].div_ceil(chunk);
    let pieces = cut(nodes, node, input, axis, parts, chunk, op.identity(node.dtype));
    let inner_axes: Vec<usize> = axes.iter().map(|&a| if a >= axis { a + 1 } else { a }).collect();
    let mut partial_shape = nodes[pieces].shape.to_vec();
    for &a in &inner_axes {
        partial_shape[a] = 1;
    }
    let partial = ProgramNode {
        op: Op::Reduce { op, axes: inner_axes },
        inputs: smallvec![pieces],
        shape: Shape::from(partial_shape.clone()),
        ..node.clone()
    };
    // what is left may still be too long
    let partial = match &partial.op {
        Op::Reduce { op, axes } => split_reduce(nodes, &partial, *op, axes, options),
        _ => None,
    }
    .unwrap_or_else(|| push(nodes, partial));
    partial_shape[axis] = 1;
    let whole = ProgramNode {
        op: Op::Reduce { op, axes: vec![axis] },
        inputs: smallvec![partial],
        shape: Shape::from(partial_shape),
        ..node.clone()
    };
    let whole = push(nodes, whole);
    Some(push(nodes, ProgramNode { op: Op::Reshape, inputs: smallvec![whole], ..node.clone() }))
}

fn split_contract(
    nodes: &mut Vec<ProgramNode>,
    node: &ProgramNode,
    contract: &Contract,
    options: &PlanOptions,
) -> Option<usize> {
    let [lhs, rhs] = [node.inputs[0], node.inputs[1]];
    let size = |label: u8| {
        let position = contract.lhs.iter().position(|&l| l == label).expect("a summed label is in both operands");
        nodes[lhs].shape[position]
    };
    let summed: Vec<u8> = contract.lhs.iter().copied().filter(|label| !contract.out.contains(label)).collect();
    let steps: usize = summed.iter().map(|&label| size(label)).product();
    let results = node.shape.numel();
    if steps.div_ceil(shares_of_sum(results, steps)) <= options.shared_steps {
        return None;
    }
    let wanted = options.wanted_groups.div_ceil(groups(&node.shape, contract, options).max(1));
    let parts = steps.div_ceil(options.max_contract_steps).max(wanted.min(steps / LEAST_STEPS));
    if parts <= 1 || node.shape.numel() == 0 {
        return None;
    }
    // the outermost summed axis that is long enough, else the longest
    let label = summed
        .iter()
        .copied()
        .find(|&label| size(label) >= parts)
        .or_else(|| summed.iter().copied().max_by_key(|&label| size(label)))?;
    let length = size(label);
    let chunk = chunk(length, parts);
    let parts = length.div_ceil(chunk);
    if parts <= 1 {
        return None;
    }
    let part_label = (0..=u8::MAX).find(|l| !contract.lhs.contains(l) && !contract.rhs.contains(l))?;
    let mut inputs = Inputs::new();
    let mut labels = [contract.lhs.clone(), contract.rhs.clone()];
    for (side, input) in [lhs, rhs].into_iter().enumerate() {
        let axis = labels[side].iter().position(|&l| l == label).expect("a summed label is in both operands");
        let zero = Scalar { dtype: nodes[input].dtype, bits: 0 };
        inputs.push(cut(nodes, node, input, axis, parts, chunk, zero));
        labels[side].insert(axis, part_label);
    }
    let mut out = contract.out.clone();
    out.insert(0, part_label);
    let mut shape = node.shape.to_vec();
    shape.insert(0, parts);
    let [lhs, rhs] = labels;
    // partial sums stay in the accumulator's precision
    let dtype = if node.dtype.is_float() { DType::F32 } else { node.dtype };
    let partial = ProgramNode {
        op: Op::Contract(Contract { lhs, rhs, out }),
        inputs,
        shape: Shape::from(shape.clone()),
        dtype,
        ..node.clone()
    };
    let partial = match &partial.op {
        // with work for all there is no further reason but length
        Op::Contract(contract) => {
            split_contract(nodes, &partial, contract, &PlanOptions { wanted_groups: 1, ..*options })
        }
        _ => None,
    }
    .unwrap_or_else(|| push(nodes, partial));
    shape[0] = 1;
    let sum = ProgramNode {
        op: Op::Reduce { op: ReduceOp::Sum, axes: vec![0] },
        inputs: smallvec![partial],
        shape: Shape::from(shape),
        dtype,
        ..node.clone()
    };
    let sum = push(nodes, sum);
    let whole = push(nodes, ProgramNode { op: Op::Reshape, inputs: smallvec![sum], dtype, ..node.clone() });
    Some(push(nodes, ProgramNode { op: Op::Cast, inputs: smallvec![whole], ..node.clone() }))
}

#[cfg(test)]
mod tests {
    use super::chunk;

    #[test]
    fn parts_are_even_where_they_can_be() {
        assert_eq!(chunk(128, 8), 16);
        assert_eq!(chunk(128, 15), 8, "16 parts of 8 instead of 15 of 9, the last of which would be 2");
        assert_eq!(chunk(13, 4), 4);
        assert_eq!(chunk(5, 9), 1);
    }
}
