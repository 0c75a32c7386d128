//! Memory of a plan: updates in place, buffers that are not needed, slots.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::kernel::{Body, BufferId, InstrOp, Level, LoopKernel, Place, Plan};
use super::memory::{self, Life, Part, Placement};
use super::place::between;

/// An elementwise kernel's output takes the place of an input that nobody needs afterwards.
pub(super) fn update_in_place(plan: &mut Plan) {
    let lives = lives(plan);
    let mut renamed: Vec<BufferId> = (0..plan.buffers.len()).collect();
    let mut last: Vec<usize> = lives.iter().map(|life| life.as_ref().map_or(0, |life| life.last)).collect();
    let has_gaps = |buffer: BufferId| plan.zeroed.iter().any(|(other, _)| *other == buffer);
    let has_gaps: Vec<bool> = (0..plan.buffers.len()).map(has_gaps).collect();
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
        // of a vector that several kernels write, this may not be the first part
        let is_first = lives[target].as_ref().is_some_and(|life| life.first == number);
        if !is_first || has_gaps[target] {
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
            is_owned(plan, buffer)
                && !has_gaps[buffer]
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
    plan.zeroed.retain_mut(|(buffer, _)| {
        *buffer = names[*buffer];
        *buffer != usize::MAX
    });
}

fn is_owned(plan: &Plan, buffer: BufferId) -> bool {
    matches!(plan.buffers[buffer].place, Place::Slot(_))
}

/// When each plan-owned buffer is alive.
fn lives(plan: &Plan) -> Vec<Option<Life>> {
    let mut lives: Vec<Option<Life>> = vec![None; plan.buffers.len()];
    for (number, kernel) in plan.kernels.iter().enumerate() {
        for &buffer in kernel.reads.iter().chain(&kernel.writes) {
            if is_owned(plan, buffer) {
                let bytes = plan.buffers[buffer].bytes().next_multiple_of(16).max(16);
                let new = || Life { first: number, bytes, ..Life::default() };
                lives[buffer].get_or_insert_with(new).last = number;
            }
        }
    }
    lives
}

/// Notes of the vectors that kernels write in parts that each part is alive from its own writer on. Gaps are alive
/// always.
fn add_parts(plan: &Plan, lives: &mut [Option<Life>]) {
    /// The writers, of gaps none, and what they write.
    type Written = Vec<(Option<usize>, Range<usize>)>;
    let mut parts: BTreeMap<BufferId, Written> = BTreeMap::new();
    for (number, kernel) in plan.kernels.iter().enumerate() {
        for &buffer in &kernel.writes {
            let written = kernel.body.written(buffer).into_iter().map(|part| (Some(number), part));
            parts.entry(buffer).or_default().extend(written);
        }
    }
    for (buffer, gap) in &plan.zeroed {
        parts.entry(*buffer).or_default().push((None, gap.clone()));
    }
    for (number, parts) in parts {
        let (Some(life), buffer) = (&mut lives[number], &plan.buffers[number]) else { continue };
        if parts.iter().any(|(writer, part)| writer.is_some() && part.len() == buffer.elements) {
            continue;
        }
        let (first, last) = (life.first, life.last);
        // there should be none
        let rest = between(parts.iter().map(|(_, part)| part.clone()).collect(), 0..buffer.elements);
        let rest = rest.map(|part| (first, last, part));
        let parts = parts.into_iter().map(|(writer, part)| match writer {
            Some(writer) => (writer, last, part),
            None => (0, plan.kernels.len(), part),
        });
        let all = rest.chain(parts).map(|(first, last, part)| {
            // smaller types are written in words
            let Range { start, end } = buffer.bytes_of(part);
            Part { first, last, bytes: start / 4 * 4..end.next_multiple_of(4) }
        });
        life.parts = all.collect();
    }
}

/// Notes for each of the `owned` buffers, by their positions there, those that a kernel only reads while it writes this
/// one, or the other way round.
fn add_conflicts(plan: &Plan, owned: &[BufferId], lives: &mut [Life]) {
    let position = |buffer: &BufferId| owned.binary_search(buffer).ok();
    for kernel in &plan.kernels {
        let only_read = kernel.reads.iter().filter(|buffer| !kernel.writes.contains(buffer));
        for read in only_read.filter_map(position) {
            for written in kernel.writes.iter().filter_map(position) {
                lives[read].conflicts.push(written);
                lives[written].conflicts.push(read);
            }
        }
    }
}

/// Decides where the plan's own buffers lie. `mixed`: a slot may have what a kernel only reads beside what it writes.
pub(super) fn place_buffers(plan: &mut Plan, mixed: bool) {
    let mut lives = lives(plan);
    add_parts(plan, &mut lives);
    let owned: Vec<BufferId> = (0..lives.len()).filter(|&buffer| lives[buffer].is_some()).collect();
    let mut lives: Vec<Life> = lives.into_iter().flatten().collect();
    if !mixed {
        add_conflicts(plan, &owned, &mut lives);
    }
    let Placement { slots, places } = memory::place(&lives);
    for (&buffer, (slot, offset)) in owned.iter().zip(places) {
        (plan.buffers[buffer].place, plan.buffers[buffer].offset_bytes) = (Place::Slot(slot), offset);
    }
    plan.live_peak_bytes = memory::live_peak(&lives);
    plan.slots = slots;
}
