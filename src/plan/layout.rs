//! Physical layout: in which order of its axes a value lies in memory.

use crate::graph::{Op, Program};

use super::routine::is_routine;
use super::simplify::permutation;

/// Elements between neighbours along each axis of `number`: the order in which all its users want to read it, if they
/// agree on one (a projection that is split into heads, a transposed operand), else row-major.
pub(super) fn strides(program: &Program, users: &[usize], stored: &[bool], number: usize) -> Vec<i64> {
    let shape = &program.nodes[number].shape;
    let wanted = users.iter().map(|&user| if stored[user] { None } else { reading_order(program, user, number) });
    let mut orders = wanted.map(|order| order.unwrap_or_else(|| (0..shape.rank()).collect()));
    let first = orders.next().unwrap_or_else(|| (0..shape.rank()).collect());
    let free = !is_routine(&program.nodes[number].op);
    let order = if free && orders.all(|order| order == first) { first } else { (0..shape.rank()).collect() };
    let mut strides = vec![0; shape.rank()];
    let mut stride = 1_i64;
    for &axis in order.iter().rev() {
        strides[axis] = stride;
        stride = stride.saturating_mul(shape[axis] as i64);
    }
    strides
}

/// The axes of `number` in the order in which a `user` that only moves axes has them.
fn reading_order(program: &Program, user: usize, number: usize) -> Option<Vec<usize>> {
    let node = &program.nodes[user];
    let Op::View(view) = &node.op else { return None };
    let shape = &program.nodes[number].shape;
    let from = permutation(view, shape, &node.shape)?;
    let mut order: Vec<usize> = from.into_iter().flatten().collect();
    // axes of size 1 that the view drops may stand anywhere
    let dropped: Vec<usize> = (0..shape.rank()).filter(|axis| !order.contains(axis)).collect();
    order.splice(0..0, dropped);
    Some(order)
}
