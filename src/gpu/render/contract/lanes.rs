//! Which axes run in the four lanes of a vector.

use crate::gpu::render::space::{Expr, Lanes, Space};
use crate::plan::{Atom, ContractKernel, InstrOp, Ix, Tape};

use super::{COLUMNS, INNER};

/// Which axis of an operand runs in four lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wide {
    /// None: one value at a time.
    None,
    /// The last axis of k, whose size is a multiple of four.
    Inner,
    /// The last axis of the operand's rows or columns, whose size is a multiple of four.
    Outer,
    /// Four neighbouring rows or columns, across axes.
    Points,
}

/// Results run in four lanes along columns: they should be many, and next to each other in memory.
pub(super) fn prefers_exchange(kernel: &ContractKernel, exchanged: &ContractKernel) -> bool {
    let [_, rows, columns, _] = kernel.sizes();
    if rows.min(4) != columns.min(4) {
        return columns < rows.min(4);
    }
    whole_stores(exchanged) > whole_stores(kernel)
}

/// How many stores write neighbouring columns next to each other.
fn whole_stores(kernel: &ContractKernel) -> usize {
    let space = side_space(kernel, COLUMNS, column_lanes(kernel));
    let aligned = |ix: &Ix| matches!(space.lanes(&space.rewrite(ix)), Lanes::Aligned(_));
    kernel.stores.iter().filter(|store| aligned(&store.index) || unit_stride(kernel, &store.index)).count()
}

/// True if neighbouring columns are neighbours in memory.
fn unit_stride(kernel: &ContractKernel, ix: &Ix) -> bool {
    kernel
        .group(COLUMNS)
        .rev()
        .find(|&axis| kernel.axes[axis] > 1)
        .is_some_and(|axis| ix.terms.contains(&(Atom::Axis(axis), 1)))
}

/// How columns are numbered in lanes.
pub(super) fn column_lanes(kernel: &ContractKernel) -> Wide {
    lanes_of_group(kernel, COLUMNS)
}

fn lanes_of_group(kernel: &ContractKernel, group: usize) -> Wide {
    match kernel.group(group).next_back() {
        Some(last) if kernel.axes[last].is_multiple_of(4) => Wide::Outer,
        _ => Wide::Points,
    }
}

/// The space of an operand or of the results, with lanes in group `side` (or in k for [`Wide::Inner`]). Coordinates
/// have no text yet, only whether they differ between lanes.
pub(super) fn side_space(kernel: &ContractKernel, side: usize, wide: Wide) -> Space {
    let mut axes = kernel.axes.clone();
    let mut of_kernel: Vec<Ix> = (0..axes.len()).map(Ix::axis).collect();
    let mut lane = None;
    let split = match wide {
        Wide::Outer => kernel.group(side).next_back(),
        Wide::Inner => kernel.group(INNER).next_back(),
        Wide::None | Wide::Points => None,
    };
    if let Some(axis) = split {
        axes[axis] /= 4;
        of_kernel[axis] = Ix::axis(axis).times(4).plus(&Ix::axis(axes.len()));
        lane = Some(axes.len());
        axes.push(4);
    }
    let varies = |axis: usize| Some(axis) == lane || (wide == Wide::Points && kernel.group(side).contains(&axis));
    let coordinates = (0..axes.len()).map(|axis| Expr { text: String::new(), varying: varies(axis) }).collect();
    let width = if wide == Wide::None { 1 } else { 4 };
    Space { axes, coordinates, of_kernel, lane, width, ..Space::default() }
}

/// How many loads that depend on k have neighbouring lanes, less those that have not.
fn score(kernel: &ContractKernel, tape: &Tape, side: usize, wide: Wide) -> i32 {
    let space = side_space(kernel, side, wide);
    let inner = kernel.group(INNER);
    let value = |ix: &Ix| match space.lanes(&space.rewrite(ix)) {
        Lanes::Aligned(_) => 1,
        Lanes::Same => 0,
        Lanes::Apart => -1,
    };
    let loads = tape.instrs.iter().filter_map(|instr| match &instr.op {
        InstrOp::Load { index, .. } if inner.clone().any(|axis| index.uses(axis)) => Some(value(index)),
        InstrOp::Gather { .. } => Some(-1),
        _ => None,
    });
    loads.sum()
}

/// The lanes in which an operand is read best, if there are some with neighbouring elements.
pub(super) fn operand_lanes(kernel: &ContractKernel, tape: &Tape, side: usize) -> Option<Wide> {
    let inner_fits = kernel.group(INNER).next_back().is_some_and(|last| kernel.axes[last].is_multiple_of(4));
    let outer_fits = lanes_of_group(kernel, side) == Wide::Outer;
    let inner = if inner_fits { score(kernel, tape, side, Wide::Inner) } else { 0 };
    let outer = if outer_fits { score(kernel, tape, side, Wide::Outer) } else { 0 };
    match () {
        () if outer > 0 && outer >= inner => Some(Wide::Outer),
        () if inner > 0 => Some(Wide::Inner),
        () => None,
    }
}
