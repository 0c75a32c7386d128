//! Maps that transpose: points in blocks, so that neighbours in a workgroup read neighbours, and its stores fill lines
//! of memory. What takes the way through workgroup memory is in `loops/transposed.rs`.

use std::fmt::Write as _;

use crate::plan::{Atom, InstrOp, Ix, LoopKernel};

use super::module::Module;
use super::space::{Expr, unravel};

/// Points to each side of a block, 64 bytes of f32.
const SIDE: usize = 16;
/// Its sides in fours.
const QUARTER: usize = SIDE / 4;
/// Invocations for a block, each of which takes four points.
const INVOCATIONS: usize = SIDE * QUARTER;

/// The axis along which some load finds its neighbours, where stores find theirs along the last one.
pub(super) fn read_axis(kernel: &LoopKernel) -> Option<usize> {
    let axes = &kernel.axes[..kernel.outer];
    let last = axes.len().checked_sub(1)?;
    let loads = kernel.phases.iter().flat_map(|phase| &phase.tape.instrs).filter_map(|instr| match &instr.op {
        InstrOp::Load { index, .. } => Some(index),
        _ => None,
    });
    let along = |index: &Ix| (0..last).find(|&axis| is_along(index, axis, last));
    loads.filter_map(along).find(|&axis| axes[axis] >= SIDE && axes[last] >= SIDE)
}

/// Whether neighbours along `axis` are neighbours in memory, and those along the `last` one are not.
pub(super) fn is_along(index: &Ix, axis: usize, last: usize) -> bool {
    let is_far = |(atom, stride): &(Atom, i64)| *atom == Atom::Axis(last) && stride.unsigned_abs() > 1;
    index.terms.contains(&(Atom::Axis(axis), 1)) && index.terms.iter().any(is_far)
}

/// Statements that find the coordinates of `work` in `sizes`, the last of which counts fours, and return where it lies
/// outside; with how many values `work` takes.
pub(super) fn block_coordinates(
    module: &mut Module<'_>,
    sizes: &[usize],
    axis: usize,
    code: &mut String,
) -> (Vec<Expr>, usize) {
    let last = sizes.len() - 1;
    let mut blocks = sizes.to_vec();
    blocks[axis] = sizes[axis].div_ceil(SIDE);
    blocks[last] = sizes[last].div_ceil(QUARTER);
    let mut coordinates = unravel(module, &Expr::scalar(format!("(work / {INVOCATIONS}u)")), &blocks, "b", code);
    let (read, written) = (&coordinates[axis].text, &coordinates[last].text);
    let _ = writeln!(code, "    let read = {read} * {SIDE}u + work % {SIDE}u;");
    let _ = writeln!(code, "    let written = {written} * {QUARTER}u + work / {SIDE}u % {QUARTER}u;");
    let (reads, writes) = (module.number(sizes[axis] as u64), module.number(sizes[last] as u64));
    let _ = writeln!(code, "    if (read >= {reads} || written >= {writes}) {{\n        return;\n    }}");
    coordinates[axis] = Expr::scalar("read");
    coordinates[last] = Expr::scalar("written");
    (coordinates, blocks.iter().product::<usize>() * INVOCATIONS)
}
