//! Outputs that overwrite what the program reads: everybody must have read the old value before.

use std::collections::BTreeSet;

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

/// An output's node that cannot be written where it belongs: its own kernel, or that of a part of it, reads the old
/// value at other points, or the orders "readers before writers" and "inputs before their users" contradict each other
/// (two variables that change places).
pub(super) fn unsafe_output(context: Context<'_>) -> Option<usize> {
    let Context { program, homes, .. } = context;
    let pairs = readers_first(program, homes);
    let in_place = pairs.iter().filter(|(reader, writer)| reader == writer).map(|pair| pair.1);
    let mut unsafe_writers = in_place.filter(|&writer| emit::build(context, &[writer], &[writer]).is_err());
    let writer = unsafe_writers.next().or_else(|| {
        let (after, waiting) = in_cycles(program, homes, &pairs);
        // what only comes behind a cycle waits as well, but moving it would not end the wait
        let blocked = |(reader, writer): &&(usize, usize)| {
            reader != writer && waiting.contains(reader) && reaches(&after, &waiting, *writer, *reader)
        };
        pairs.iter().find(blocked).map(|pair| pair.1)
    })?;
    // as a whole: whoever waits for the old value may read all parts of the new one
    program.outputs.iter().map(|output| output.node).find(|&node| producers(program, node).contains(&writer))
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

/// Whether `to` must run later than `from`, by way of these nodes.
fn reaches(after: &Later, through: &FxHashSet<usize>, from: usize, to: usize) -> bool {
    let mut seen = FxHashSet::default();
    let mut stack = vec![from];
    while let Some(number) = stack.pop() {
        if number == to {
            return true;
        }
        let next = after.get(&number).into_iter().flatten();
        stack.extend(next.filter(|&&next| through.contains(&next) && seen.insert(next)));
    }
    false
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
