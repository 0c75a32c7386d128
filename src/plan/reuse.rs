//! Memory of a plan: updates in place, buffers that are not needed, slots.

use std::collections::BTreeSet;

use super::kernel::{Body, Buffer, BufferId, InstrOp, Level, LoopKernel, Place, Plan};
use super::memory::{self, Life};

/// An elementwise kernel's output takes the place of an input that nobody needs afterwards.
pub(super) fn update_in_place(plan: &mut Plan) {
    let lives = lives(plan);
    let mut renamed: Vec<BufferId> = (0..plan.buffers.len()).collect();
    let mut last: Vec<usize> = lives.iter().map(|life| life.map_or(0, |life| life.last)).collect();
    for number in 0..plan.kernels.len() {
        plan.kernels[number].body.map_buffers(|buffer| renamed[buffer]);
        let kernel = &plan.kernels[number];
        let (Body::Loop(LoopKernel { phases, .. }), 1) = (&kernel.body, kernel.writes.len()) else {
            continue;
        };
        let [phase] = phases.as_slice() else { continue };
        if phase.level != Level::Outer {
            continue;
        }
        let [store] = phase.stores.as_slice() else { continue };
        let target = store.buffer;
        if !matches!(plan.buffers[target].place, Place::Slot(_)) || plan.zeroed.contains(&target) {
            continue;
        }
        let same_point = |buffer: BufferId| {
            phase.tape.instrs.iter().all(|instr| match &instr.op {
                InstrOp::Load { buffer: b, index, valid } if *b == buffer => valid.is_empty() && *index == store.index,
                InstrOp::Gather { buffer: b, .. } => *b != buffer,
                _ => true,
            })
        };
        let fits = |buffer: BufferId| {
            let (from, to) = (&plan.buffers[buffer], &plan.buffers[target]);
            matches!(from.place, Place::Slot(_))
                && !plan.zeroed.contains(&buffer)
                && buffer != target
                && from.dtype == to.dtype
                && from.elements == to.elements
                && last[buffer] == number
                && same_point(buffer)
        };
        let loads: BTreeSet<BufferId> = phase.tape.loads().collect();
        if let Some(source) = loads.into_iter().find(|&buffer| fits(buffer)) {
            renamed[target] = source;
            last[source] = last[target];
            for name in &mut renamed {
                if *name == target {
                    *name = source;
                }
            }
            plan.kernels[number].body.map_buffers(|buffer| renamed[buffer]);
        }
    }
    for kernel in &mut plan.kernels {
        for list in [&mut kernel.reads, &mut kernel.writes] {
            let names: BTreeSet<BufferId> = list.iter().map(|&buffer| renamed[buffer]).collect();
            *list = names.into_iter().collect();
        }
    }
}

/// Renumbers the buffers so that every plan-owned one is used.
pub(super) fn drop_unused_buffers(plan: &mut Plan) {
    let mut used = vec![false; plan.buffers.len()];
    used[..plan.externals].fill(true);
    for kernel in &plan.kernels {
        for &buffer in kernel.reads.iter().chain(&kernel.writes) {
            used[buffer] = true;
        }
    }
    let mut names = vec![usize::MAX; used.len()];
    let mut kept = Vec::new();
    for (number, buffer) in std::mem::take(&mut plan.buffers).into_iter().enumerate() {
        if used[number] {
            names[number] = kept.len();
            kept.push(buffer);
        }
    }
    plan.buffers = kept;
    for kernel in &mut plan.kernels {
        kernel.body.map_buffers(|buffer| names[buffer]);
        for buffer in kernel.reads.iter_mut().chain(&mut kernel.writes) {
            *buffer = names[*buffer];
        }
    }
    plan.zeroed = plan.zeroed.iter().map(|&buffer| names[buffer]).filter(|&name| name != usize::MAX).collect();
}

/// First and last kernel that touches each plan-owned buffer.
fn lives(plan: &Plan) -> Vec<Option<Life>> {
    let mut lives: Vec<Option<Life>> = vec![None; plan.buffers.len()];
    for (number, kernel) in plan.kernels.iter().enumerate() {
        for &buffer in kernel.reads.iter().chain(&kernel.writes) {
            let Buffer { place: Place::Slot(_), elements, dtype, .. } = plan.buffers[buffer] else { continue };
            let bytes = ((elements * dtype.size_bytes()) as u64).next_multiple_of(16).max(16);
            lives[buffer].get_or_insert(Life { first: number, last: number, bytes }).last = number;
        }
    }
    // what must keep its zeros is never shared
    for &buffer in &plan.zeroed {
        if let Some(life) = &mut lives[buffer] {
            (life.first, life.last) = (0, plan.kernels.len());
        }
    }
    lives
}

pub(super) fn place_buffers(plan: &mut Plan) {
    let lives = lives(plan);
    let owned: Vec<BufferId> = (0..lives.len()).filter(|&buffer| lives[buffer].is_some()).collect();
    let lives: Vec<Life> = lives.into_iter().flatten().collect();
    let (slots, places) = memory::place(&lives);
    for (&buffer, &slot) in owned.iter().zip(&places) {
        plan.buffers[buffer].place = Place::Slot(slot);
    }
    plan.live_peak_bytes = memory::live_peak(&lives);
    plan.slots = slots;
}
