//! Outputs that overwrite what the program reads: everybody must have read the old value before.

use std::collections::BTreeSet;
use std::collections::hash_map::Entry;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::graph::{Op, Program, Slot};

use super::emit::{self, Context, Home};
use super::fuse::producers;

/// Pairs (reader, writer) of stored nodes: the writer is an output that overwrites a leaf which the reader reads.
pub(super) fn readers_first(program: &Program, homes: &[Option<Home>]) -> Vec<(usize, usize)> {
    let mut writers: FxHashMap<usize, Vec<(usize, std::ops::Range<usize>)>> = FxHashMap::default();
    for output in &program.outputs {
        for producer in producers(program, output.node) {
            let start = homes[producer].as_ref().map_or(output.offset, |home| home.offset);
            let end = start + program.nodes[producer].shape.numel();
            writers.entry(output.external).or_default().push((producer, start..end));
        }
    }
    let mut pairs = Vec::new();
    for number in kernels(program, homes) {
        for read in memory_inputs(program, homes, number) {
            let leaf = &program.nodes[read];
            let Slot::External { external, offset } = leaf.slot else { continue };
            let range = offset..offset + leaf.shape.numel();
            for (writer, written) in writers.get(&external).into_iter().flatten() {
                if written.start < range.end && range.start < written.end {
                    pairs.push((number, *writer));
                }
            }
        }
    }
    pairs
}

/// The outputs' nodes that cannot be written where they belong: their own kernels, or those of parts of them, read the
/// old value at other points. If there are none, those that end contradictions between the orders "readers before
/// writers" and "inputs before their users" (two variables that change places), as far as one node ends each.
pub(super) fn unsafe_outputs(context: Context<'_>) -> BTreeSet<usize> {
    let Context { program, homes, .. } = context;
    let pairs = readers_first(program, homes);
    let mut writers: BTreeSet<usize> =
        pairs.iter().filter(|(reader, writer)| reader == writer).map(|pair| pair.1).collect();
    writers.retain(|&writer| emit::build(context, &[writer], &[writer]).is_err());
    if writers.is_empty() {
        let (after, waiting) = in_cycles(program, homes, &pairs);
        // what only comes behind a cycle waits as well, but moving it would not end the wait
        let cycles = cycles(&after, &waiting);
        let mut ended = FxHashSet::default();
        for (reader, writer) in pairs.iter().filter(|(reader, writer)| reader != writer) {
            if let (Some(cycle), Some(other)) = (cycles.get(reader), cycles.get(writer))
                && cycle == other
                && ended.insert(*cycle)
            {
                writers.insert(*writer);
            }
        }
    }
    if writers.is_empty() {
        return writers;
    }
    // as a whole: whoever waits for the old value may read all parts of the new one
    let is_meant = |&node: &usize| producers(program, node).iter().any(|producer| writers.contains(producer));
    program.outputs.iter().map(|output| output.node).filter(is_meant).collect()
}

/// For each node, nodes that must run after it.
type Later = FxHashMap<usize, Vec<usize>>;

/// Stored nodes that are computed by a kernel.
fn kernels<'a>(program: &'a Program, homes: &'a [Option<Home>]) -> impl Iterator<Item = usize> + 'a {
    let computed =
        |number: &usize| homes[*number].is_some() && !matches!(program.nodes[*number].op, Op::Leaf | Op::Pack { .. });
    (0..program.nodes.len()).filter(computed)
}

/// For each stored node those that must run later, if every reader runs before the writer of what it reads, and the
/// nodes that can then never run.
fn in_cycles(program: &Program, homes: &[Option<Home>], pairs: &[(usize, usize)]) -> (Later, FxHashSet<usize>) {
    let mut after = Later::default();
    let mut before: FxHashMap<usize, usize> = kernels(program, homes).map(|number| (number, 0)).collect();
    let mut edge = |first: usize, second: usize| {
        after.entry(first).or_default().push(second);
        *before.get_mut(&second).expect("a stored node") += 1;
    };
    for number in kernels(program, homes) {
        for read in memory_inputs(program, homes, number) {
            for producer in producers(program, read) {
                if !matches!(program.nodes[producer].op, Op::Leaf) {
                    edge(producer, number);
                }
            }
        }
    }
    for &(reader, writer) in pairs.iter().filter(|(reader, writer)| reader != writer) {
        edge(reader, writer);
    }
    let mut ready: Vec<usize> = before.iter().filter(|(_, count)| **count == 0).map(|(&number, _)| number).collect();
    let mut waiting: FxHashSet<usize> = before.keys().copied().collect();
    while let Some(number) = ready.pop() {
        waiting.remove(&number);
        for &next in after.get(&number).into_iter().flatten() {
            let count = before.get_mut(&next).expect("a stored node");
            *count -= 1;
            if *count == 0 {
                ready.push(next);
            }
        }
    }
    (after, waiting)
}

/// For each of `nodes` a number that it shares with those which must run both before and after it: their strongly
/// connected components, by Kosaraju's two walks.
fn cycles(after: &Later, nodes: &FxHashSet<usize>) -> FxHashMap<usize, usize> {
    let next = |number: usize| {
        let later = after.get(&number).into_iter().flatten().copied();
        later.filter(move |next| nodes.contains(next))
    };
    let mut before = Later::default();
    for &number in nodes {
        for later in next(number) {
            before.entry(later).or_default().push(number);
        }
    }
    // in the order in which the first walk is done with them
    let mut done = Vec::with_capacity(nodes.len());
    let mut seen = FxHashSet::default();
    for &start in nodes {
        let mut stack = vec![(start, false)];
        while let Some((number, followed)) = stack.pop() {
            if followed {
                done.push(number);
            } else if seen.insert(number) {
                stack.push((number, true));
                stack.extend(next(number).map(|later| (later, false)));
            }
        }
    }
    let mut cycles = FxHashMap::default();
    for &last in done.iter().rev() {
        let mut stack = vec![last];
        while let Some(number) = stack.pop() {
            if let Entry::Vacant(place) = cycles.entry(number) {
                place.insert(last);
                stack.extend(before.get(&number).into_iter().flatten());
            }
        }
    }
    cycles
}

/// The nodes in memory whose values computing `node` needs, read or waited for.
fn memory_inputs(program: &Program, homes: &[Option<Home>], node: usize) -> BTreeSet<usize> {
    let mut reads = BTreeSet::new();
    let mut seen = FxHashSet::default();
    let mut stack = vec![node];
    while let Some(number) = stack.pop() {
        for &input in &program.nodes[number].inputs {
            if homes[input].is_some() {
                reads.insert(input);
            } else if seen.insert(input) {
                stack.push(input);
            }
        }
    }
    reads
}
