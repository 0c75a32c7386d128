//! What a node is at the end of: pieces of graphs, told by their ops alone.

use crate::graph::{Binary, NodeRef, Op, ReduceOp, Unary};
use crate::ops::reduce::keepdim_shape;

use super::trace::{Traced, resolved};
use super::views::is_expansion;

/// The two inputs of a binary op.
pub(super) fn operands(node: &NodeRef, wanted: Binary) -> Option<[&NodeRef; 2]> {
    match node.op {
        Op::Binary(op) if op == wanted => Some([resolved(&node.inputs[0]), resolved(&node.inputs[1])]),
        _ => None,
    }
}

/// The input of an op of one.
pub(super) fn operand(node: &NodeRef, wanted: Unary) -> Option<&NodeRef> {
    match node.op {
        Op::Unary(op) if op == wanted => Some(resolved(&node.inputs[0])),
        _ => None,
    }
}

/// The input of a reduction, and its axes.
pub(super) fn reduction(node: &NodeRef, wanted: ReduceOp) -> Option<(&NodeRef, &[usize])> {
    match &node.op {
        Op::Reduce { op, axes } if *op == wanted => Some((resolved(&node.inputs[0]), axes)),
        _ => None,
    }
}

/// The number that a value is everywhere.
pub(super) fn number(node: &NodeRef) -> Option<f64> {
    match node.op {
        Op::Const(value) => Some(value.to_f64()),
        _ => None,
    }
}

/// The value before it was broadcast.
pub(super) fn unexpanded(node: &NodeRef) -> &NodeRef {
    let mut node = resolved(node);
    while let Op::View(view) = &node.op
        && is_expansion(view, node)
    {
        node = resolved(&node.inputs[0]);
    }
    node
}

/// The value before its axes were counted otherwise.
pub(super) fn unshaped(node: &NodeRef) -> &NodeRef {
    let mut node = resolved(node);
    while matches!(node.op, Op::Reshape) {
        node = resolved(&node.inputs[0]);
    }
    node
}

/// The vector of `length` elements that a value is along the axis that `behind` others follow, the same everywhere
/// else.
pub(super) fn vector(node: &NodeRef, behind: usize, length: usize) -> Option<&NodeRef> {
    let node = unexpanded(node);
    let place = node.shape.rank().checked_sub(behind + 1)?;
    let along = node.shape.iter().enumerate().all(|(axis, &size)| size == if axis == place { length } else { 1 });
    let before = if node.shape.rank() == 1 { node } else { unshaped(node) };
    (along && *before.shape == [length]).then_some(before)
}

/// `(x, axes)` of a mean of floats over axes of fixed sizes, whether it keeps them or not.
pub(super) fn mean<'n>(traced: &Traced, node: &'n NodeRef) -> Option<(&'n NodeRef, &'n [usize])> {
    let [sum, divisor] = operands(node, Binary::Div)?;
    let (x, axes) = reduction(unshaped(sum), ReduceOp::Sum)?;
    let sizes = traced.sizes(x);
    let count: Option<usize> = axes.iter().map(|&axis| sizes[axis].known()).product();
    let Op::Const(divisor) = divisor.op else { return None };
    let is_mean = node.dtype.is_float() && divisor == crate::Scalar::new(node.dtype, count? as f64);
    is_mean.then_some((x, axes))
}

/// `1 / sqrt(x + epsilon)` → `(x, epsilon)`
pub(super) fn inverse_root(node: &NodeRef) -> Option<(&NodeRef, f64)> {
    let [x, epsilon] = operands(operand(node, Unary::Rsqrt)?, Binary::Add)?;
    Some((x, number(epsilon)?))
}

/// `(x - mean) / sqrt(variance + epsilon)` with those of `x` itself.
pub(super) struct Standardized<'a> {
    pub(super) x: &'a NodeRef,
    pub(super) axes: &'a [usize],
    pub(super) epsilon: f64,
}

pub(super) fn standardized<'n>(traced: &Traced, node: &'n NodeRef) -> Option<Standardized<'n>> {
    let [centered, scale] = operands(node, Binary::Mul)?;
    let [x, mean_of_x] = operands(centered, Binary::Sub)?;
    let (mean_of_x, scale) = (unexpanded(mean_of_x), unexpanded(scale));
    let (averaged, axes) = mean(traced, mean_of_x)?;
    let (variance, epsilon) = inverse_root(scale)?;
    let (squares, over) = mean(traced, variance)?;
    let [a, b] = operands(squares, Binary::Mul)?;
    let same = averaged.id == x.id && axes == over && a.id == centered.id && b.id == centered.id;
    // each lies along the axes that it is of
    let kept = keepdim_shape(&x.shape, axes);
    (same && mean_of_x.shape == kept && scale.shape == kept).then_some(Standardized { x, axes, epsilon })
}

/// The parts that are joined along an axis: each is padded to the whole, and they are added.
pub(super) fn joined(node: &NodeRef) -> Option<(usize, Vec<&NodeRef>)> {
    let mut parts: Vec<(usize, &NodeRef)> = Vec::new();
    let mut along = None;
    let mut stack = vec![node];
    while let Some(part) = stack.pop() {
        if let Some(both) = operands(part, Binary::Add).or_else(|| operands(part, Binary::Or)) {
            stack.extend(both);
            continue;
        }
        let Op::View(view) = &part.op else { return None };
        let source = resolved(&part.inputs[0]);
        let neutral = if node.dtype.is_float() { -0.0_f64 } else { 0.0 };
        if view.fill.to_f64().to_bits() != neutral.to_bits() || source.shape.rank() != node.shape.rank() {
            return None;
        }
        let axis = (0..source.shape.rank()).find(|&axis| source.shape[axis] != node.shape[axis])?;
        let start = usize::try_from(-view.dims[axis].offset).ok()?;
        let placed = view.dims.iter().enumerate().all(|(number, dim)| {
            let offset = if number == axis { -(start as i64) } else { 0 };
            dim.terms[..] == [(number, 1)] && dim.divisor == 1 && dim.offset == offset
        });
        let others =
            (0..source.shape.rank()).all(|number| number == axis || source.shape[number] == node.shape[number]);
        // more parts than elements: they lie over each other
        if parts.len() >= node.shape[axis] {
            return None;
        }
        if !placed || !others || *along.get_or_insert(axis) != axis {
            return None;
        }
        parts.push((start, source));
    }
    let axis = along?;
    parts.sort_by_key(|part| part.0);
    let mut end = 0;
    for (start, part) in &parts {
        if *start != end {
            return None;
        }
        end += part.shape[axis];
    }
    (end == node.shape[axis]).then(|| (axis, parts.into_iter().map(|part| part.1).collect()))
}

/// `(x, axis, count)` of an `x` whose elements are repeated along an axis, each `count` times in a row.
pub(super) fn repeated(node: &NodeRef) -> Option<(&NodeRef, usize, usize)> {
    let Op::Reshape = node.op else { return None };
    let wide = resolved(&node.inputs[0]);
    let Op::View(view) = &wide.op else { return None };
    let narrow = resolved(&wide.inputs[0]);
    let x = if matches!(narrow.op, Op::Reshape) { resolved(&narrow.inputs[0]) } else { narrow };
    let rank = x.shape.rank();
    let axis = (0..rank).find(|&axis| x.shape[axis] != node.shape.get(axis).copied().unwrap_or(0))?;
    let split = [&x.shape[..=axis], &[1], &x.shape[axis + 1..]].concat();
    let count = wide.shape.get(axis + 1).copied()?;
    let whole = [&x.shape[..axis], &[x.shape[axis] * count], &x.shape[axis + 1..]].concat();
    let fits = is_expansion(view, wide)
        && wide.shape.rank() == narrow.shape.rank()
        && *narrow.shape == split[..]
        && wide.shape[..=axis] == split[..=axis]
        && *node.shape == whole[..];
    fits.then_some((x, axis, count))
}

/// `x` of `x - max x` along an axis.
pub(super) fn less_its_largest(node: &NodeRef, axis: usize) -> Option<&NodeRef> {
    let [x, largest] = operands(node, Binary::Sub)?;
    let (of, axes) = reduction(unexpanded(largest), ReduceOp::Max)?;
    (of.id == x.id && axes == [axis]).then_some(x)
}
