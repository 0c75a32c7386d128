//! Sorting, merging, searching, and which other routines there are.

use super::attention;
use super::custom;
use super::execute::Env;
use super::grouped;
use super::scan;
use crate::graph::{Runs, Search};
use crate::plan::{Routine, RoutineKind, Span};

/// Runs shorter than this are sorted by comparing.
const SHORT_RUN: usize = 1 << 10;
/// Bits of a digit of the radix sort.
const DIGIT: u32 = 11;
/// Words that a search reads at a time: a line of the cache.
const LINE: usize = 16;
/// Elements of a piece of a routine, about.
pub(super) const PIECE: usize = 1 << 14;

/// A [`Routine`] ready to run.
#[derive(Debug)]
pub(super) struct CompiledRoutine {
    routine: Routine,
    /// Rough time on one core.
    pub(super) nanoseconds: f64,
}

impl CompiledRoutine {
    pub(super) fn new(routine: &Routine) -> Self {
        let of_input = routine.inputs[0].elements as f64;
        let nanoseconds = of_input
            * match routine.kind {
                RoutineKind::Custom(_) => 10.0,
                RoutineKind::Sort(Runs { run, .. }) => f64::from(run.max(2).ilog2()).min(12.0),
                RoutineKind::Merge(_) => 3.0,
                RoutineKind::Search(_) | RoutineKind::Scan(_) => 0.5,
                RoutineKind::Segments(..) => 1.0,
                RoutineKind::Attention(ref of) => 0.02 * of.flops() as f64 / of_input.max(1.0),
            }
            + 2.0 * routine.output.elements as f64;
        Self { routine: routine.clone(), nanoseconds }
    }

    /// Whether an application's code is called, which may do what it likes in parallel.
    pub(super) fn is_host_code(&self) -> bool {
        matches!(self.routine.kind, RoutineKind::Custom(_))
    }

    pub(super) fn run(&self, env: &Env<'_>) {
        let Routine { kind, inputs, output } = &self.routine;
        match *kind {
            RoutineKind::Attention(ref of) => attention::run(env, &self.routine, of),
            RoutineKind::Scan(ref of) => scan::run(env, &self.routine, of),
            RoutineKind::Custom(ref kernel) => custom::run(env, kernel, inputs, output),
            RoutineKind::Sort(Runs { length, run }) => {
                for_each_run(env, (inputs[0].elements, length, run), |sorter, start, count| {
                    sorter.keys.resize(count, 0);
                    env.views[inputs[0].buffer].read_run::<u32>(at(&inputs[0], start), &mut sorter.keys);
                    let place = start % length;
                    sorter.pairs.clear();
                    sorter.pairs.extend(sorter.keys.iter().zip(place..).map(|(&key, place)| pair(key, place as u32)));
                    sorter.sort();
                    sorter.write(env, output, start);
                });
            }
            RoutineKind::Merge(Runs { length, run }) => {
                for_each_run(env, (inputs[0].elements / 2, length, 2 * run), |sorter, start, count| {
                    sorter.read(env, &inputs[0], start, count);
                    let middle = run.min(count);
                    sorter.merge(middle);
                    sorter.write(env, output, start);
                });
            }
            RoutineKind::Search(search) => self.search(env, search),
            RoutineKind::Segments(segments, dtype) => grouped::run(env, &self.routine, segments, dtype),
        }
    }
}

impl CompiledRoutine {
    /// Queries mostly ascend: each starts where the one before it ended, and what lies there is read for several.
    fn search(&self, env: &Env<'_>, Search { length, queries, right }: Search) {
        let Routine { inputs, output, .. } = &self.routine;
        let table = &env.views[inputs[0].buffer];
        env.threads.for_each_piece(output.elements.div_ceil(PIECE), |piece, scratch| {
            let first = piece * PIECE;
            let words = &mut scratch.sorter.keys;
            words.resize(PIECE.min(output.elements - first), 0);
            env.views[inputs[1].buffer].read_run::<u32>(at(&inputs[1], first), words);
            let mut found = 0;
            let mut read = [0; LINE];
            let mut read_from = usize::MAX;
            for (number, word) in (first..).zip(words.iter_mut()) {
                let row = number / queries * length;
                let mut before = |place: usize| {
                    let line = (row + place) / LINE * LINE;
                    if line != read_from {
                        read_from = line;
                        let count = LINE.min(inputs[0].elements - line);
                        table.read_run::<u32>(at(&inputs[0], line), &mut read[..count]);
                    }
                    let element = read[row + place - line];
                    element < *word || right && element == *word
                };
                found = partition_point(length, found, &mut before);
                *word = found as u32;
            }
            env.views[output.buffer].write_run::<u32>(at(output, first), words);
        });
    }
}

/// The first of `0..length` where `before` no longer holds: looked for in growing steps from `start` on, or behind it.
fn partition_point(length: usize, start: usize, mut before: impl FnMut(usize) -> bool) -> usize {
    let (mut low, mut high) = (start, length);
    if start > 0 && !before(start - 1) {
        (low, high) = (0, start - 1);
    } else {
        let mut step = 1;
        while low + step <= length {
            if !before(low + step - 1) {
                high = low + step - 1;
                break;
            }
            low += step;
            step *= 2;
        }
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

/// Number in the buffer of element `element` of a span.
pub(super) fn at(span: &Span, element: usize) -> i64 {
    (span.offset + element) as i64
}

/// A key and its place: pairs compare by keys, and equal keys by places.
fn pair(key: u32, place: u32) -> u64 {
    u64::from(key) << 32 | u64::from(place)
}

/// Calls `f(sorter, first element, elements)` for every run of every row.
fn for_each_run(
    env: &Env<'_>,
    (elements, length, run): (usize, usize, usize),
    f: impl Fn(&mut Sorter, usize, usize) + Sync,
) {
    let runs = length.div_ceil(run);
    let rows = elements / length;
    // short rows in one piece: a piece should be worth its scheduling
    let per_piece = (PIECE / run.min(length)).max(1);
    env.threads.for_each_piece((rows * runs).div_ceil(per_piece), |piece, scratch| {
        for number in piece * per_piece..(rows * runs).min((piece + 1) * per_piece) {
            let first = number % runs * run;
            f(&mut scratch.sorter, number / runs * length + first, run.min(length - first));
        }
    });
}

/// Working memory of sorting.
#[derive(Default)]
pub(super) struct Sorter {
    pub(super) keys: Vec<u32>,
    pairs: Vec<u64>,
    other: Vec<u64>,
}

impl Sorter {
    /// Sorts `pairs`, whose places ascend.
    fn sort(&mut self) {
        if self.pairs.len() < SHORT_RUN {
            self.pairs.sort_unstable();
            return;
        }
        // digits that are the same in all keys need no pass
        let first = self.pairs[0];
        let differing = self.pairs.iter().fold(0, |bits, pair| bits | (pair ^ first));
        for shift in (32..64).step_by(DIGIT as usize) {
            if differing >> shift & ((1 << DIGIT) - 1) != 0 {
                self.pass(shift);
            }
        }
    }

    /// Sorts by the digit at `shift`; equal digits stay in order.
    fn pass(&mut self, shift: u32) {
        let digit = |pair: u64| (pair >> shift) as usize & ((1 << DIGIT) - 1);
        let mut next = [0u32; 1 << DIGIT];
        for &pair in &self.pairs {
            next[digit(pair)] += 1;
        }
        let mut sum = 0;
        for slot in &mut next {
            sum += std::mem::replace(slot, sum);
        }
        self.other.resize(self.pairs.len(), 0);
        for &pair in &self.pairs {
            let slot = &mut next[digit(pair)];
            self.other[*slot as usize] = pair;
            *slot += 1;
        }
        std::mem::swap(&mut self.pairs, &mut self.other);
    }

    /// Merges the sorted pairs before `middle` with those from there on. Places differ, so that pairs are never equal.
    fn merge(&mut self, middle: usize) {
        self.other.clear();
        let (left, right) = self.pairs.split_at(middle);
        let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
        while let (Some(&&a), Some(&&b)) = (left.peek(), right.peek()) {
            self.other.push(a.min(b));
            if a < b {
                left.next()
            } else {
                right.next()
            };
        }
        self.other.extend(left);
        self.other.extend(right);
        std::mem::swap(&mut self.pairs, &mut self.other);
    }

    fn read(&mut self, env: &Env<'_>, from: &Span, start: usize, count: usize) {
        let view = &env.views[from.buffer];
        self.keys.resize(count, 0);
        view.read_run::<u32>(at(from, start), &mut self.keys);
        self.pairs.clear();
        self.pairs.extend(self.keys.iter().map(|&key| pair(key, 0)));
        view.read_run::<u32>(at(from, from.elements / 2 + start), &mut self.keys);
        self.pairs.iter_mut().zip(&self.keys).for_each(|(pair, &place)| *pair |= u64::from(place));
    }

    fn write(&mut self, env: &Env<'_>, to: &Span, start: usize) {
        let view = &env.views[to.buffer];
        for (shift, first) in [(32, 0), (0, to.elements / 2)] {
            self.keys.clear();
            self.keys.extend(self.pairs.iter().map(|pair| (pair >> shift) as u32));
            view.write_run::<u32>(at(to, first + start), &self.keys);
        }
    }
}
