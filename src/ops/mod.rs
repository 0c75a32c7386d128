//! The ops, one file per family: shape rule, gradient rule and f64 reference stand together.
//!
//! Shape rules are pure functions of shapes that return [`Error::Shape`]; [`Tensor`]'s methods panic with the same
//! message at the caller's line. Gradient rules are written in tensor methods, so a gradient can be differentiated
//! again. A reference computes one node on the host in f64, as plainly as possible.

pub(crate) mod adjoint;
pub(crate) mod attention;
pub mod contract;
pub mod conv;
pub mod elementwise;
pub mod indexing;
pub mod movement;
pub mod pool;
pub mod random;
pub mod reduce;
pub mod scan;
pub mod sort;
mod source;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::{Node, NodeRef, Op, refuse};
use crate::tensor::Tensor;

use self::scan::Scan;

/// The gradients of a node's inputs, given that of its output; `None` where there is none.
pub(crate) fn gradient(node: &NodeRef, gradient: &Tensor) -> Vec<Option<Tensor>> {
    let rule = |f: fn(&NodeRef, &Tensor) -> Tensor| vec![Some(f(node, gradient))];
    match &node.op {
        Op::Leaf | Op::Uniform | Op::Const(_) | Op::Iota { .. } | Op::Random { .. } => Vec::new(),
        Op::Bitcast | Op::CheckIndex { .. } | Op::Detach | Op::Sort(_) | Op::Merge(_) => vec![None],
        Op::Search(_) => vec![None, None],
        // its rule stands beside it (`custom`)
        Op::Kernel(_) => vec![None; node.inputs.len()],
        Op::Attention(attention) => attention::gradient(attention, node, gradient),
        Op::Scan { .. } => rule(scan::gradient),
        Op::Segments(_) => unreachable!("segments are traced without gradient, below a rule of their own"),
        Op::Unary(op) => vec![elementwise::unary_gradient(*op, node, gradient)],
        Op::Binary(op) => elementwise::binary_gradient(*op, node, gradient),
        Op::Select => elementwise::select_gradient(node, gradient),
        Op::Cast => rule(elementwise::cast_gradient),
        Op::Reshape => rule(movement::reshape_gradient),
        Op::View(view) => vec![Some(movement::view_gradient(view, node, gradient))],
        Op::Pack { offsets, .. } => movement::pack_gradient(offsets, node, gradient),
        Op::Reduce { op, .. } => vec![Some(reduce::gradient(*op, node, gradient))],
        Op::Contract(contract) => contract::gradient(contract, node, gradient),
        Op::Gather { axis } => vec![Some(indexing::gather_gradient(*axis, node, gradient)), None],
        Op::After => vec![Some(gradient.clone()), None],
        Op::Custom => custom_gradient(node, gradient),
    }
}

/// True if no gradient passes through a node, whatever its inputs are.
pub(crate) fn stops_gradient(node: &Node) -> bool {
    node.no_gradient || !node.dtype.is_float() || matches!(node.op, Op::Detach | Op::Bitcast)
}

/// A node's value in f64 from those of its inputs. Leaves have none.
pub(crate) fn reference(node: &Node, inputs: &[&[f64]]) -> Vec<f64> {
    match &node.op {
        Op::Leaf | Op::Uniform => unreachable!("the value of a leaf is given"),
        Op::Const(value) => source::constant_reference(*value, node),
        Op::Iota { axis } => source::iota_reference(*axis, node),
        Op::Unary(op) => elementwise::unary_reference(*op, node, inputs),
        Op::Binary(op) => elementwise::binary_reference(*op, node, inputs),
        Op::Select => elementwise::select_reference(inputs),
        Op::Cast => elementwise::cast_reference(node, inputs),
        Op::Bitcast => elementwise::bitcast_reference(node, inputs),
        Op::CheckIndex { bound, .. } => indexing::check_reference(*bound, inputs),
        Op::View(view) => movement::view_reference(view, node, inputs),
        Op::Pack { offsets, len } => movement::pack_reference(offsets, *len, inputs),
        Op::Reduce { op, axes } => reduce::reference(*op, axes, node, inputs),
        Op::Contract(contract) => contract::reference(contract, node, inputs),
        Op::Gather { axis } => indexing::gather_reference(*axis, node, inputs),
        Op::Sort(runs) => sort::sorted(*runs, inputs),
        Op::Merge(runs) => sort::merged(*runs, inputs),
        Op::Search(search) => sort::found(*search, inputs),
        Op::Segments(segments) => sort::segments(*segments, node.dtype, inputs),
        Op::Scan { .. } => {
            let scan = Scan::of(&node.op, node.dtype, &node.shape).expect("it is one");
            scan::reference(&scan, inputs)
        }
        Op::Attention(attention) => attention::reference(attention, inputs),
        Op::Kernel(kernel) => {
            let mut value = vec![0.0; node.shape.numel()];
            kernel.evaluate(inputs, &mut value);
            value
        }
        Op::Random { stream } => random::reference(*stream, node, inputs),
        Op::Reshape | Op::After | Op::Custom | Op::Detach => inputs[0].to_vec(),
    }
}

fn custom_gradient(node: &NodeRef, gradient: &Tensor) -> Vec<Option<Tensor>> {
    let rule = node.gradient.as_ref().expect("a custom node has a gradient rule");
    rule(node, gradient.node()).into_iter().map(|gradient| gradient.map(Tensor::from_node)).collect()
}

/// The value, or a panic with the error's message at the caller's line.
#[track_caller]
pub(crate) fn ok<T>(result: Result<T>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => refuse(error),
    }
}

/// A shape error with this message.
pub(crate) fn shape_error<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::Shape(message.into()))
}

/// `axis` of a tensor of this shape counted from the front, or an error that names the op.
pub(crate) fn resolve_axis(name: &str, shape: &crate::Shape, axis: isize) -> Result<usize> {
    match shape.axis(axis) {
        Some(axis) => Ok(axis),
        None => shape_error(format!("{name}: {shape} has no axis {axis}")),
    }
}

/// Resolved, ascending axes; repeated ones are an error.
pub(crate) fn resolve_axes(name: &str, shape: &crate::Shape, axes: &[isize]) -> Result<Vec<usize>> {
    let mut resolved = axes.iter().map(|&axis| resolve_axis(name, shape, axis)).collect::<Result<Vec<_>>>()?;
    resolved.sort_unstable();
    if resolved.windows(2).any(|pair| pair[0] == pair[1]) {
        return shape_error(format!("{name}: an axis of {shape} occurs twice in {axes:?}"));
    }
    Ok(resolved)
}

/// `value` brought into the range of an integer type by dropping high bits; bool: `!= 0`.
pub(crate) fn wrap(dtype: DType, value: i64) -> f64 {
    match dtype {
        DType::I32 => f64::from(value as i32),
        DType::U32 => f64::from(value as u32),
        DType::U8 => f64::from(value as u8),
        DType::Bool => f64::from(u8::from(value != 0)),
        DType::F32 | DType::F16 => value as f64,
    }
}
