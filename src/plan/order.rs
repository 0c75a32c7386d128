//! The order of kernels: stages first, then whatever keeps the least memory alive.

use std::collections::BTreeSet;

use super::kernel::{BufferId, Kernel};

/// A kernel to be ordered.
pub(super) struct Item {
    /// Items that must come before.
    pub before: BTreeSet<usize>,
    /// Plan-owned buffers it reads and writes, with their bytes.
    pub reads: Vec<(BufferId, u64)>,
    pub writes: Vec<(BufferId, u64)>,
    /// Major key.
    pub stage: crate::stage::Stage,
    /// Minor key: the order of tracing.
    pub position: usize,
}

/// List scheduling from the items that depend on nothing: among the ready ones of the earliest stage, the one that adds
/// least to (or takes most from) the memory alive.
///
/// Memory that several items write, such as the vector of all gradients, counts in equal parts. As a whole it would keep the first of
/// them waiting until nothing else is left, and what they read alive with it.
pub(super) fn order(items: &[Item], buffers: usize) -> Vec<usize> {
    let mut waiting: Vec<usize> = items.iter().map(|item| item.before.len()).collect();
    let mut after: Vec<Vec<usize>> = vec![Vec::new(); items.len()];
    let (mut readers, mut writers) = (vec![0usize; buffers], vec![0u64; buffers]);
    for (number, item) in items.iter().enumerate() {
        for &before in &item.before {
            after[before].push(number);
        }
        for &(buffer, _) in &item.reads {
            readers[buffer] += 1;
        }
        for &(buffer, _) in &item.writes {
            writers[buffer] += 1;
        }
    }
    let mut alive = vec![false; buffers];
    let mut ready: BTreeSet<usize> = (0..items.len()).filter(|&number| waiting[number] == 0).collect();
    let mut result = Vec::with_capacity(items.len());
    while let Some(next) = ready.iter().copied().min_by_key(|&number| {
        let item = &items[number];
        let new = item.writes.iter().filter(|(buffer, _)| !alive[*buffer]);
        let taken: u64 = new.map(|&(buffer, bytes)| bytes / writers[buffer]).sum();
        let freed: u64 = item.reads.iter().filter(|(buffer, _)| readers[*buffer] == 1).map(|read| read.1).sum();
        (item.stage, i128::from(taken) - i128::from(freed), item.position)
    }) {
        ready.remove(&next);
        result.push(next);
        for &(buffer, _) in &items[next].writes {
            alive[buffer] = true;
        }
        for &(buffer, _) in &items[next].reads {
            readers[buffer] -= 1;
        }
        for &follower in &after[next] {
            waiting[follower] -= 1;
            if waiting[follower] == 0 {
                ready.insert(follower);
            }
        }
    }
    assert_eq!(result.len(), items.len(), "the graph of kernels has a cycle");
    result
}

/// Ranges of consecutive kernels none of which touches what another one writes. `place` says where a buffer lies.
pub(super) fn waves<P: Ord + Copy>(kernels: &[Kernel], place: impl Fn(BufferId) -> P) -> Vec<std::ops::Range<usize>> {
    let mut waves = Vec::new();
    let mut start = 0;
    let (mut read, mut written): (BTreeSet<P>, BTreeSet<P>) = (BTreeSet::new(), BTreeSet::new());
    for (number, kernel) in kernels.iter().enumerate() {
        let reads = kernel.reads.iter().map(|&buffer| place(buffer));
        let writes: Vec<P> = kernel.writes.iter().map(|&buffer| place(buffer)).collect();
        let conflict = number > start
            && (kernel.stage != kernels[start].stage
                || reads.clone().any(|p| written.contains(&p))
                || writes.iter().any(|p| written.contains(p) || read.contains(p)));
        if conflict {
            waves.push(start..number);
            start = number;
            read.clear();
            written.clear();
        }
        read.extend(reads);
        written.extend(writes);
    }
    if start < kernels.len() {
        waves.push(start..kernels.len());
    }
    waves
}
