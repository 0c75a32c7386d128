//! Kernels rewritten into equivalent ones: cut along an axis so that their writes fit into bindings and none takes too
//! long, or with rows and columns exchanged.

use crate::plan::{Body, BufferId, ContractKernel, Ix, Kernel, Plan, Store, Tape};

use crate::gpu::passes::pessimistic_milliseconds;

use super::Capabilities;
use super::loops::same_order;
use super::windows::{buffer_bytes, window, written};

/// Cuts fall on multiples of this many points where the axis is long enough: whole words and vectors stay together.
const CUT: usize = 64;

/// The tape with every index expression replaced.
pub(crate) fn map_tape(tape: &Tape, f: &dyn Fn(&Ix) -> Ix) -> Tape {
    let mut tape = tape.clone();
    tape.map_indices(&mut |ix| f(ix));
    tape
}

fn map_stores(stores: &mut [Store], f: &dyn Fn(&Ix) -> Ix) {
    stores.iter_mut().for_each(|store| store.index = f(&store.index));
}

/// The same contraction as `rhsᵀ · lhsᵀ`: rows become columns.
pub(crate) fn exchange(kernel: &ContractKernel) -> ContractKernel {
    let [batch, rows, columns, _] = kernel.counts;
    let mut axes = kernel.axes.clone();
    axes[batch..batch + rows + columns].rotate_left(rows);
    let coordinates: Vec<Ix> = (0..axes.len())
        .map(|axis| {
            Ix::axis(match axis {
                axis if (batch..batch + rows).contains(&axis) => axis + columns,
                axis if (batch + rows..batch + rows + columns).contains(&axis) => axis - rows,
                axis => axis,
            })
        })
        .collect();
    let swap = |ix: &Ix| ix.substitute(&coordinates, &axes);
    let mut stores = kernel.stores.clone();
    map_stores(&mut stores, &swap);
    ContractKernel {
        counts: [kernel.counts[0], columns, rows, kernel.counts[3]],
        lhs: (map_tape(&kernel.rhs.0, &swap), kernel.rhs.1),
        rhs: (map_tape(&kernel.lhs.0, &swap), kernel.lhs.1),
        epilogue: map_tape(&kernel.epilogue, &swap),
        stores,
        accumulator: kernel.accumulator,
        precision: kernel.precision,
        axes,
    }
}

/// Cuts the kernel into pieces whose writes into each buffer fit into one binding, and which take no longer than a
/// launch may. Only axes of results are cut, never a sum.
pub(crate) fn pieces(plan: &Plan, kernel: &Kernel, caps: &Capabilities) -> Vec<Body> {
    let large: Vec<BufferId> =
        kernel.writes.iter().copied().filter(|&buffer| buffer_bytes(plan, buffer) > caps.max_binding_bytes).collect();
    let mut done = Vec::new();
    let mut pending = vec![kernel.body.clone()];
    while let Some(body) = pending.pop() {
        let cut_here = next_cut(plan, &body, &large, caps).or_else(|| time_cut(kernel, &body, caps));
        match cut_here {
            None => done.push(body),
            Some((axis, at)) => {
                let size = body.axes()[axis];
                pending.push(body.within(axis, at..size));
                pending.push(body.within(axis, 0..at));
            }
        }
    }
    done
}

/// Bytes of the largest window that the body writes.
fn largest_window(plan: &Plan, body: &Body, large: &[BufferId]) -> u64 {
    let windows = large.iter().filter_map(|&buffer| {
        written(body, buffer).map(|range| window(range, plan.buffers[buffer].dtype.size_bytes() as u64).1)
    });
    windows.max().unwrap_or(0)
}

/// How many axes, the first ones, are of results that do not depend on each other.
fn independent_axes(body: &Body) -> usize {
    match body {
        Body::Loop(kernel) => kernel.outer,
        Body::Contract(kernel) => kernel.counts[..3].iter().sum(),
        Body::Routine(_) => 0,
    }
}

/// How many of these results there are.
pub(super) fn independent_points(body: &Body) -> usize {
    body.axes()[..independent_axes(body)].iter().product()
}

/// Where an axis is cut in two, if it can be.
fn middle(size: usize) -> Option<usize> {
    let half = size / 2;
    let at = if half >= CUT { half / CUT * CUT } else { half.next_multiple_of(4).min(size.saturating_sub(1)) };
    (at > 0).then_some(at)
}

/// The longest axis, of the longest side of a contraction, and where to cut it, or `None` if the piece does not take
/// too long or no cut leaves the bits alone.
fn time_cut(kernel: &Kernel, body: &Body, caps: &Capabilities) -> Option<(usize, usize)> {
    let points = |body: &Body| body.axes().iter().map(|&size| size as f64).product::<f64>();
    let part = points(body) / points(&kernel.body);
    let of_piece = |whole: u64| (whole as f64 * part) as u64;
    if pessimistic_milliseconds(of_piece(kernel.flops), of_piece(kernel.bytes)) <= caps.launch_milliseconds {
        return None;
    }
    // A contraction adds up in order of k whatever its sizes are; a loop's order depends on them.
    let keeps_order = |piece: &Body| match (piece, &kernel.body) {
        (Body::Loop(piece), Body::Loop(whole)) => same_order(piece, whole, caps),
        _ => true,
    };
    let mut axes: Vec<usize> = (0..independent_axes(body)).collect();
    // of a product the longer side, or pieces would have few rows and no use for what they read
    let side = |axis: usize| match body {
        Body::Contract(kernel) => {
            let group = (0..3).find(|&number| kernel.group(number).contains(&axis));
            group.map_or(0, |number| kernel.sizes()[number])
        }
        Body::Loop(_) | Body::Routine(_) => 0,
    };
    axes.sort_by_key(|&axis| std::cmp::Reverse((side(axis), body.axes()[axis])));
    axes.into_iter().find_map(|axis| {
        let size = body.axes()[axis];
        let at = middle(size)?;
        (keeps_order(&body.within(axis, 0..at)) && keeps_order(&body.within(axis, at..size))).then_some((axis, at))
    })
}

/// The axis to cut and where, or `None` if the writes fit or no cut helps.
fn next_cut(plan: &Plan, body: &Body, large: &[BufferId], caps: &Capabilities) -> Option<(usize, usize)> {
    let now = largest_window(plan, body, large);
    if now <= caps.max_binding_bytes {
        return None;
    }
    let candidates = (0..independent_axes(body)).filter_map(|axis| {
        let size = body.axes()[axis];
        middle(size).map(|at| {
            let largest = |points| largest_window(plan, &body.within(axis, points), large);
            let larger = largest(0..at).max(largest(at..size));
            (larger, axis, at)
        })
    });
    let (larger, axis, at) = candidates.min()?;
    (larger < now).then_some((axis, at))
}
