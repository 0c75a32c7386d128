//! What a kernel binds of its buffers: the window that it touches, from which its indices then count.
//!
//! So kernels that do the same with other parts of a vector, such as the parameters of two equal layers, have the same
//! text and are compiled once, however deep a network is.

use std::ops::Range;

use crate::custom;
use crate::plan::{Body, BufferId, InstrOp, Kernel, Plan};

use super::Capabilities;
use super::module::{Storage, Uses};

/// Bytes at whose multiples windows start.
const ALIGNMENT: u64 = custom::ALIGNMENT as u64;

/// First and last element that the kernel may write of `buffer`.
pub(super) fn written(body: &Body, buffer: BufferId) -> Option<(i64, i64)> {
    union(body.written(buffer).into_iter().filter_map(ends))
}

/// First and last element that it may read, everything for gathers.
fn read(body: &Body, buffer: BufferId) -> Option<(i64, i64)> {
    if let Body::Routine(routine) = body {
        let spans = routine.inputs.iter().filter(|span| span.buffer == buffer);
        return union(spans.filter_map(|span| ends(span.range())));
    }
    let instrs = body.tapes().into_iter().flat_map(|tape| &tape.instrs);
    union(instrs.filter_map(|instr| match &instr.op {
        InstrOp::Load { buffer: b, index, .. } if *b == buffer => Some(index.range(body.axes())),
        InstrOp::Gather { buffer: b, .. } if *b == buffer => Some((0, i64::MAX)),
        _ => None,
    }))
}

fn ends(range: Range<usize>) -> Option<(i64, i64)> {
    (!range.is_empty()).then(|| (range.start as i64, range.end as i64 - 1))
}

fn union(ranges: impl Iterator<Item = (i64, i64)>) -> Option<(i64, i64)> {
    ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

/// First byte and bytes of the window that holds elements `range`.
pub(super) fn window(range: (i64, i64), element_bytes: u64) -> (u64, u64) {
    let start = range.0.unsigned_abs() * element_bytes / ALIGNMENT * ALIGNMENT;
    let end = (range.1.unsigned_abs() + 1) * element_bytes;
    (start, (end - start).next_multiple_of(16))
}

pub(super) fn buffer_bytes(plan: &Plan, buffer: BufferId) -> u64 {
    plan.buffers[buffer].bytes().max(1).next_multiple_of(16)
}

/// Binds what a piece of the kernel touches, in the order in which it does, and has its indices count from there.
pub(super) fn bind(plan: &Plan, kernel: &Kernel, body: &mut Body, caps: &Capabilities) -> Vec<Storage> {
    let storages: Vec<Storage> =
        body.in_order_of_use().into_iter().map(|buffer| storage(plan, kernel, body, buffer, caps)).collect();
    body.rebase(|buffer| {
        let storage = storages.iter().find(|storage| storage.buffer == buffer);
        storage.map_or(0, |storage| storage.first)
    });
    storages
}

fn storage(plan: &Plan, kernel: &Kernel, body: &Body, buffer: BufferId, caps: &Capabilities) -> Storage {
    let (dtype, elements) = (plan.buffers[buffer].dtype, plan.buffers[buffer].elements);
    let element_bytes = dtype.size_bytes() as u64;
    let last = elements.saturating_sub(1) as i64;
    let touched = union(written(body, buffer).into_iter().chain(read(body, buffer)));
    // a load may name elements beside the buffer where it is not valid: the window's first one then stands in
    let touched = touched.map(|(low, high)| window((low.clamp(0, last), high.clamp(0, last)), element_bytes));
    let (windows, first) = match touched.filter(|window| window.1 <= caps.max_binding_bytes) {
        Some(window) => (vec![window], (window.0 / element_bytes) as usize),
        None => {
            let longest = caps.max_binding_bytes / ALIGNMENT * ALIGNMENT;
            let bytes = buffer_bytes(plan, buffer);
            let starts = (0..bytes).step_by(longest as usize);
            (starts.map(|start| (start, longest.min(bytes - start))).collect(), 0)
        }
    };
    let writable = kernel.writes.contains(&buffer);
    Storage { buffer, dtype, windows, first, elements: elements - first, writable, uses: Uses::default() }
}
