//! The order of kernels: stages first, then whatever keeps the least memory alive.

use std::collections::BTreeSet;
use std::ops::Range;

use rustc_hash::FxHashMap;

use super::kernel::{Buffer, BufferId, Kernel, Place};

/// A kernel to be ordered.
#[derive(Debug)]
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

/// Moves items that need the result of a later stage to that stage: a graph may be traced out of order.
pub(super) fn raise_stages(items: &mut [Item]) {
    let mut waiting: Vec<usize> = items.iter().map(|item| item.before.len()).collect();
    let after = followers(items);
    let mut ready: Vec<usize> = (0..items.len()).filter(|&number| waiting[number] == 0).collect();
    while let Some(number) = ready.pop() {
        let stage = items[number].stage;
        for &follower in &after[number] {
            items[follower].stage = items[follower].stage.max(stage);
            waiting[follower] -= 1;
            if waiting[follower] == 0 {
                ready.push(follower);
            }
        }
    }
}

/// The items that each must come before.
fn followers(items: &[Item]) -> Vec<Vec<usize>> {
    let mut after = vec![Vec::new(); items.len()];
    for (number, item) in items.iter().enumerate() {
        for &before in &item.before {
            after[before].push(number);
        }
    }
    after
}

/// Which items touch each buffer.
struct Touching {
    readers: Vec<Vec<usize>>,
    writers: Vec<Vec<usize>>,
}

impl Touching {
    fn of(items: &[Item], buffers: usize) -> Self {
        let mut this = Self { readers: vec![Vec::new(); buffers], writers: vec![Vec::new(); buffers] };
        for (number, item) in items.iter().enumerate() {
            item.reads.iter().for_each(|&(buffer, _)| this.readers[buffer].push(number));
            item.writes.iter().for_each(|&(buffer, _)| this.writers[buffer].push(number));
        }
        this
    }
}

/// What comes first: the stage, what it adds to the memory alive, the order of tracing; and the item's number.
type Key = (crate::stage::Stage, i128, usize, usize);

/// Items that depend on nothing any more, by their keys.
struct Ready {
    keys: Vec<Option<Key>>,
    queue: BTreeSet<Key>,
}

impl Ready {
    fn contains(&self, number: usize) -> bool {
        self.keys[number].is_some()
    }

    /// Adds an item, or has it take the place that its new key gives it.
    fn insert(&mut self, key: Key) {
        if let Some(before) = self.keys[key.3].replace(key) {
            self.queue.remove(&before);
        }
        self.queue.insert(key);
    }

    fn take(&mut self) -> Option<usize> {
        let (.., number) = self.queue.pop_first()?;
        self.keys[number] = None;
        Some(number)
    }
}

/// List scheduling from the items that depend on nothing: among the ready ones of the earliest stage, the one that adds
/// least to (or takes most from) the memory alive.
///
/// Memory that several items write, such as the vector of all gradients, counts in equal parts. As a whole it would
/// keep the first of them waiting until nothing else is left, and what they read alive with it.
pub(super) fn order(items: &[Item], buffers: usize) -> Vec<usize> {
    let mut waiting: Vec<usize> = items.iter().map(|item| item.before.len()).collect();
    let after = followers(items);
    let (mut readers, mut writers) = (vec![0usize; buffers], vec![0u64; buffers]);
    for item in items {
        for &(buffer, _) in &item.reads {
            readers[buffer] += 1;
        }
        for &(buffer, _) in &item.writes {
            writers[buffer] += 1;
        }
    }
    let touching = Touching::of(items, buffers);
    let mut alive = vec![false; buffers];
    let mut ready = Ready { keys: vec![None; items.len()], queue: BTreeSet::new() };
    let key = |number: usize, readers: &[usize], alive: &[bool]| {
        let item = &items[number];
        let new = item.writes.iter().filter(|(buffer, _)| !alive[*buffer]);
        let taken: u64 = new.map(|&(buffer, bytes)| bytes / writers[buffer]).sum();
        let freed: u64 = item.reads.iter().filter(|(buffer, _)| readers[*buffer] == 1).map(|read| read.1).sum();
        (item.stage, i128::from(taken) - i128::from(freed), item.position, number)
    };
    for number in (0..items.len()).filter(|&number| waiting[number] == 0) {
        ready.insert(key(number, &readers, &alive));
    }
    let mut result = Vec::with_capacity(items.len());
    while let Some(next) = ready.take() {
        result.push(next);
        // whose keys are others by this
        let mut changed = Vec::new();
        for &(buffer, _) in &items[next].writes {
            if !std::mem::replace(&mut alive[buffer], true) {
                changed.extend(&touching.writers[buffer]);
            }
        }
        for &(buffer, _) in &items[next].reads {
            readers[buffer] -= 1;
            if readers[buffer] == 1 {
                changed.extend(&touching.readers[buffer]);
            }
        }
        changed.retain(|&number| ready.contains(number));
        for number in changed {
            ready.insert(key(number, &readers, &alive));
        }
        for &follower in &after[next] {
            waiting[follower] -= 1;
            if waiting[follower] == 0 {
                ready.insert(key(follower, &readers, &alive));
            }
        }
    }
    assert_eq!(result.len(), items.len(), "the graph of kernels has a cycle");
    result
}

/// Ranges of consecutive kernels none of which touches memory, or another part of a buffer, that another one writes:
/// whoever reads a buffer depends on the last one that wrote it.
pub(super) fn waves(kernels: &[Kernel], buffers: &[Buffer]) -> Vec<Range<usize>> {
    let mut waves = Vec::new();
    let mut start = 0;
    let (mut read, mut written) = (Touched::default(), Touched::default());
    for (number, kernel) in kernels.iter().enumerate() {
        let reads = kernel.reads.iter().map(|&buffer| (buffer, buffers[buffer].range()));
        let reads: Vec<Bytes> = reads.collect();
        let parts = |&buffer: &BufferId| {
            let parts = kernel.body.written(buffer).into_iter();
            parts.map(move |part| (buffer, buffers[buffer].bytes_of(part)))
        };
        let writes: Vec<Bytes> = kernel.writes.iter().flat_map(parts).collect();
        let place = |bytes: &Bytes| buffers[bytes.0].place;
        let conflict = number > start
            && (kernel.stage != kernels[start].stage
                || reads.iter().chain(&writes).any(|bytes| written.meets(place(bytes), bytes))
                || writes.iter().any(|bytes| read.meets(place(bytes), bytes)));
        if conflict {
            waves.push(start..number);
            start = number;
            read.0.clear();
            written.0.clear();
        }
        reads.into_iter().for_each(|bytes| read.add(place(&bytes), bytes));
        writes.into_iter().for_each(|bytes| written.add(place(&bytes), bytes));
    }
    if start < kernels.len() {
        waves.push(start..kernels.len());
    }
    waves
}

/// A buffer, and some bytes of what it lies in.
type Bytes = (BufferId, Range<u64>);

/// What some kernels touch.
#[derive(Default)]
struct Touched(FxHashMap<Place, Vec<Bytes>>);

impl Touched {
    fn meets(&self, place: Place, (buffer, bytes): &Bytes) -> bool {
        let mut here = self.0.get(&place).into_iter().flatten();
        here.any(|(other, part)| other == buffer || part.start < bytes.end && bytes.start < part.end)
    }

    fn add(&mut self, place: Place, bytes: Bytes) {
        self.0.entry(place).or_default().push(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::{DType, Scalar};
    use crate::plan::{Body, Instr, InstrOp, Ix, Level, LoopKernel, Phase, Store, Tape};
    use crate::stage::Stage;
    use proptest::prelude::*;
    use proptest::sample::Index;

    /// Writes all 64 elements of buffers.
    fn kernel(reads: &[BufferId], writes: &[BufferId]) -> Kernel {
        let tape = Tape { instrs: vec![Instr { op: InstrOp::Const(Scalar::new(DType::F32, 0.0)), dtype: DType::F32 }] };
        let stores = writes.iter().map(|&buffer| Store { buffer, index: Ix::axis(0), value: 0 });
        let phase = Phase { level: Level::Outer, tape, reductions: Vec::new(), stores: stores.collect() };
        Kernel {
            label: "map.test".into(),
            stage: Stage::Forward,
            body: Body::Loop(LoopKernel { axes: vec![64], outer: 1, phases: vec![phase] }),
            nodes: Vec::new(),
            values: Vec::new(),
            modules: Vec::new(),
            reads: reads.to_vec(),
            writes: writes.to_vec(),
            flops: 0,
            bytes: 0,
        }
    }

    #[test]
    fn waves_end_where_kernels_touch_the_same_bytes() {
        // 256 bytes each; the third one lies in the second half of the first and the first half of the second
        let place =
            |place, offset_bytes| Buffer { dtype: DType::F32, elements: 64, place, offset_bytes, label: String::new() };
        let buffers = [
            place(Place::Slot(0), 0),
            place(Place::Slot(0), 256),
            place(Place::Slot(0), 128),
            place(Place::External(0), 0),
        ];
        let ends = |kernels: &[Kernel]| waves(kernels, &buffers).iter().map(|wave| wave.end).collect::<Vec<_>>();
        let [first, second, middle] = [0, 1, 2].map(|buffer| kernel(&[3], &[buffer]));
        assert_eq!(ends(&[first.clone(), second.clone()]), [2]);
        assert_eq!(ends(&[first.clone(), middle.clone()]), [1, 2]);
        assert_eq!(ends(&[second.clone(), first.clone(), middle.clone()]), [2, 3]);
        let reader = kernel(&[2], &[]);
        assert_eq!(ends(&[first, reader.clone()]), [1, 2]);
        assert_eq!(ends(&[reader.clone(), kernel(&[0], &[3])]), [2]);
        assert_eq!(ends(&[reader, second]), [1, 2]);
    }

    /// The order by its definition: each time, of all that are ready, the least.
    fn naive(items: &[Item], buffers: usize) -> Vec<usize> {
        let writers =
            |buffer| items.iter().flat_map(|item| &item.writes).filter(|write| write.0 == buffer).count() as u64;
        let writers: Vec<u64> = (0..buffers).map(writers).collect();
        let (mut done, mut result, mut alive) = (vec![false; items.len()], Vec::new(), vec![false; buffers]);
        while result.len() < items.len() {
            let readers = |buffer| {
                let left = items.iter().zip(&done).filter(|(_, done)| !**done);
                left.flat_map(|(item, _)| &item.reads).filter(|read| read.0 == buffer).count()
            };
            let ready =
                (0..items.len()).filter(|&number| !done[number] && items[number].before.iter().all(|&n| done[n]));
            let next = ready.min_by_key(|&number| {
                let Item { reads, writes, stage, position, .. } = &items[number];
                let new =
                    writes.iter().filter(|write| !alive[write.0]).map(|write| write.1 / writers[write.0]).sum::<u64>();
                let freed = reads.iter().filter(|read| readers(read.0) == 1).map(|read| read.1).sum::<u64>();
                (*stage, i128::from(new) - i128::from(freed), *position)
            });
            let next = next.expect("no cycle");
            done[next] = true;
            items[next].writes.iter().for_each(|write| alive[write.0] = true);
            result.push(next);
        }
        result
    }

    fn items() -> impl Strategy<Value = Vec<Item>> {
        const BUFFERS: usize = 12;
        let touched = || prop::collection::btree_map(0..BUFFERS, (1u64..5).prop_map(|n| n * 256), 0..4);
        let one = (touched(), touched(), 0usize..3, 0usize..20, prop::collection::vec(any::<Index>(), 0..3));
        prop::collection::vec(one, 1..40).prop_map(|all| {
            let items = all.into_iter().enumerate().map(|(number, (reads, writes, stage, position, before))| Item {
                before: before.into_iter().filter(|_| number > 0).map(|index| index.index(number)).collect(),
                reads: reads.into_iter().collect(),
                writes: writes.into_iter().collect(),
                stage: [Stage::Forward, Stage::Backward, Stage::Update][stage],
                position,
            });
            items.collect()
        })
    }

    proptest! {
        #[test]
        fn what_adds_least_to_the_memory_comes_first(items in items()) {
            prop_assert_eq!(order(&items, 12), naive(&items, 12));
        }
    }
}
