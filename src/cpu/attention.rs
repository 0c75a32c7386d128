//! Attention: 32 queries (or keys, in their gradient) of one head at a time, whose scores stay in the first-level
//! cache.
//!
//! Scores are kept with these as columns. Then a softmax is work on whole vectors, row by row, and in every product one
//! operand is rows of 32 words and the other is read word by word as it lies: nothing is packed but the block itself.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use crate::graph::{Attention, AttentionPart};
use crate::plan::{Routine, Span};

use super::execute::Env;
use super::math;
use super::micro::{THIN, ThinBlock};
use super::view::Run;
use super::words::Words;

/// Keys (or queries) whose scores are computed together, and so the most terms of a sum that are added one after the
/// other.
const CHUNK: usize = 128;

type Line = [f32; THIN];

/// Working memory of a block.
#[derive(Default)]
pub(super) struct Work {
    /// The block's rows and those of what belongs to them, turned over.
    rows: [Words; 2],
    /// Scores, later weights, and their gradients: `[CHUNK][THIN]`.
    scores: [Words; 2],
    /// What the block results in, turned over.
    results: [Words; 2],
    /// Of each query of a chunk.
    deltas: Words,
}

/// Runs a part for all heads.
pub(super) fn run(env: &Env<'_>, routine: &Routine, of: &Attention) {
    let by_keys = of.part == AttentionPart::KeysAndValues;
    let count = if by_keys { of.keys } else { of.queries };
    let blocks = count.div_ceil(THIN);
    env.threads.for_each_piece(of.heads * blocks, |piece, scratch| {
        let (head, start) = (piece / blocks, piece % blocks * THIN);
        let block = Block { env, routine, of, head, own: start..count.min(start + THIN) };
        let work = &mut scratch.attention;
        match of.part {
            AttentionPart::Forward => block.forward(work),
            AttentionPart::Queries => block.by_queries(work),
            AttentionPart::KeysAndValues => block.by_keys(work),
        }
    });
}

/// Queries or keys `own` of one head.
struct Block<'a> {
    env: &'a Env<'a>,
    routine: &'a Routine,
    of: &'a Attention,
    head: usize,
    own: Range<usize>,
}

impl Block<'_> {
    fn arch(&self) -> Arch {
        self.env.arch
    }

    fn run(&self, span: &Span, first: usize, len: usize) -> Run {
        self.env.views[span.buffer].run((span.offset + first) as i64, len)
    }

    /// The head's rows of an input; of what the forward part yields, the outputs.
    fn input(&self, number: usize) -> Run {
        let &Attention { queries, keys, features, outputs, .. } = self.of;
        let len = match number {
            0 => queries * features,
            1 => keys * features,
            2 => keys * outputs,
            _ => queries * outputs,
        };
        self.run(&self.routine.inputs[number], self.head * len, len)
    }

    /// For each query of the head the logarithm of the sum of its exponentials.
    fn logs(&self) -> Run {
        let [.., outputs] = self.of.elements();
        let queries = self.of.queries;
        self.run(&self.routine.inputs[3], outputs + self.head * queries, queries)
    }

    fn scale(&self) -> f32 {
        self.of.scale.to_f64() as f32
    }

    /// The first query that sees key `key`.
    fn first_query(&self, key: usize) -> usize {
        if self.of.causal { key.saturating_sub(self.of.keys - self.of.queries) } else { 0 }
    }

    fn forward(&self, work: &mut Work) {
        let &Attention { features, outputs, .. } = self.of;
        let (queries, keys, values) = (self.input(0), self.input(1), self.input(2));
        let Work { rows: [query, _], scores: [scores, _], results: [sums, _], .. } = work;
        let query = turned(query, rows_of(&queries, &self.own, features), features, self.scale());
        let sums = cleared(sums, outputs);
        let (mut top, mut total) = ([f32::NEG_INFINITY; THIN], [0.0; THIN]);
        for chunk in chunks(0..self.of.seen(self.own.end - 1)) {
            let scores = lines(scores, chunk.len());
            let (of_keys, of_values) = (rows_of(&keys, &chunk, features), rows_of(&values, &chunk, outputs));
            self.product((of_keys, features, 1), query, scores, false);
            self.hide_keys(&chunk, scores);
            let mut factor = [0.0; THIN];
            self.arch().dispatch(Weights { scores, top: &mut top, total: &mut total, factor: &mut factor, sums });
            self.product((of_values, 1, outputs), scores, sums, true);
        }
        let factors = total.map(|total| 1.0 / total);
        self.write(0, self.of.queries, sums, outputs, &factors);
        let mut logs = [0.0; THIN];
        logs.iter_mut().zip(top.iter().zip(&total)).for_each(|(log, (top, total))| *log = top + math::log(*total));
        let [.., outputs] = self.of.elements();
        let first = outputs + self.head * self.of.queries + self.own.start;
        self.env.views[self.routine.output.buffer].write_run::<u32>(
            (self.routine.output.offset + first) as i64,
            &bytemuck::cast_slice(&logs)[..self.own.len()],
        );
    }

    fn by_queries(&self, work: &mut Work) {
        let &Attention { features, outputs, .. } = self.of;
        let (queries, keys, values) = (self.input(0), self.input(1), self.input(2));
        let (results, slopes) = (self.input(3), self.input(4));
        let Work { rows: [query, slope], scores: [scores, score_slopes], results: [sums, _], .. } = work;
        let query = turned(query, rows_of(&queries, &self.own, features), features, self.scale());
        let slope = turned(slope, rows_of(&slopes, &self.own, outputs), outputs, 1.0);
        let sums = cleared(sums, features);
        let (mut logs, mut deltas) = ([0.0; THIN], [0.0; THIN]);
        logs[..self.own.len()].copy_from_slice(&floats(&self.logs())[self.own.clone()]);
        let own = [&results, &slopes].map(|run| rows_of(run, &self.own, outputs));
        self.arch().dispatch(Deltas { rows: own, width: outputs, deltas: &mut deltas[..self.own.len()] });
        for chunk in chunks(0..self.of.seen(self.own.end - 1)) {
            let (scores, score_slopes) = (lines(scores, chunk.len()), lines(score_slopes, chunk.len()));
            let (of_keys, of_values) = (rows_of(&keys, &chunk, features), rows_of(&values, &chunk, outputs));
            self.product((of_keys, features, 1), query, scores, false);
            self.product((of_values, outputs, 1), slope, score_slopes, false);
            self.hide_keys(&chunk, scores);
            self.arch().dispatch(Slopes { scores, slopes: score_slopes, by: By::Columns(&logs, &deltas) });
            self.product((of_keys, 1, features), score_slopes, sums, true);
        }
        self.write(0, self.of.queries, sums, features, &[self.scale(); THIN]);
    }

    fn by_keys(&self, work: &mut Work) {
        let &Attention { features, outputs, queries: count, keys: all, .. } = self.of;
        let (queries, keys, values) = (self.input(0), self.input(1), self.input(2));
        let (results, slopes, logs) = (self.input(3), self.input(4), self.logs());
        let Work { rows: [key, value], scores: [scores, score_slopes], results: [key_sums, value_sums], deltas } = work;
        let key = turned(key, rows_of(&keys, &self.own, features), features, self.scale());
        let value = turned(value, rows_of(&values, &self.own, outputs), outputs, 1.0);
        let (key_sums, value_sums) = (cleared(key_sums, features), cleared(value_sums, outputs));
        for chunk in chunks(self.first_query(self.own.start)..count) {
            let (scores, score_slopes) = (lines(scores, chunk.len()), lines(score_slopes, chunk.len()));
            let (of_queries, of_slopes) = (rows_of(&queries, &chunk, features), rows_of(&slopes, &chunk, outputs));
            deltas.reserve(chunk.len());
            let deltas: &mut [f32] = &mut bytemuck::cast_slice_mut(deltas)[..chunk.len()];
            self.arch().dispatch(Deltas {
                rows: [rows_of(&results, &chunk, outputs), of_slopes],
                width: outputs,
                deltas,
            });
            self.product((of_queries, features, 1), key, scores, false);
            self.product((of_slopes, outputs, 1), value, score_slopes, false);
            self.hide_from_queries(&chunk, scores);
            let by = By::Rows(&floats(&logs)[chunk.clone()], deltas);
            self.arch().dispatch(Slopes { scores, slopes: score_slopes, by });
            self.product((of_slopes, 1, outputs), scores, value_sums, true);
            self.product((of_queries, 1, features), score_slopes, key_sums, true);
        }
        self.write(0, all, key_sums, features, &[self.scale(); THIN]);
        let [_, of_keys, ..] = self.of.elements();
        self.write(of_keys, all, value_sums, outputs, &[1.0; THIN]);
    }

    /// `sums (+)= lhs · rhs`, where element (i, k) of lhs is number `i · row + k · step`.
    fn product(&self, (lhs, row, step): (&[f32], usize, usize), rhs: &[Line], sums: &mut [Line], adds: bool) {
        self.arch().dispatch(ThinBlock { lhs, row, step, rhs, sums, adds });
    }

    /// Minus infinity where a key of `keys` (rows) comes behind what a query of the block (columns) sees.
    fn hide_keys(&self, keys: &Range<usize>, scores: &mut [Line]) {
        if keys.end <= self.of.seen(self.own.start) {
            return;
        }
        for (key, line) in keys.clone().zip(scores) {
            let hidden = self.first_query(key).saturating_sub(self.own.start).min(THIN);
            line[..hidden].fill(f32::NEG_INFINITY);
        }
    }

    /// The same where rows are queries and columns the block's keys.
    fn hide_from_queries(&self, queries: &Range<usize>, scores: &mut [Line]) {
        if self.own.end <= self.of.seen(queries.start) {
            return;
        }
        for (query, line) in queries.clone().zip(scores) {
            let seen = self.of.seen(query).saturating_sub(self.own.start).min(THIN);
            line[seen..].fill(f32::NEG_INFINITY);
        }
    }

    /// Writes the block's rows, of `width` elements each, of the `count` that a head has; `first` elements come before
    /// the first head's. `turned` has them as columns, which are multiplied by `factors`.
    fn write(&self, first: usize, count: usize, turned: &[Line], width: usize, factors: &Line) {
        let output = &self.routine.output;
        let start = output.offset + first + (self.head * count + self.own.start) * width;
        let mut run = self.env.views[output.buffer].run_mut(start as i64, self.own.len() * width);
        let rows: &mut [f32] = bytemuck::cast_slice_mut(run.words_mut());
        for (column, (row, factor)) in rows.chunks_exact_mut(width).zip(factors).enumerate() {
            for (element, line) in row.iter_mut().zip(turned) {
                *element = line[column] * factor;
            }
        }
    }
}

/// `range` in pieces of [`CHUNK`].
fn chunks(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range.step_by(CHUNK).map(move |start| start..end.min(start + CHUNK))
}

fn floats(run: &Run) -> &[f32] {
    bytemuck::cast_slice(run.words())
}

fn rows_of<'a>(run: &'a Run, rows: &Range<usize>, width: usize) -> &'a [f32] {
    &floats(run)[rows.start * width..rows.end * width]
}

fn lines(words: &mut Words, count: usize) -> &mut [Line] {
    words.reserve(count * THIN);
    &mut bytemuck::cast_slice_mut::<u32, Line>(&mut words[..count * THIN])[..]
}

fn cleared(words: &mut Words, count: usize) -> &mut [Line] {
    let lines = lines(words, count);
    lines.fill([0.0; THIN]);
    lines
}

/// At most [`THIN`] rows of `width` elements as columns, times `factor`; columns that are missing are 0.
fn turned<'a>(words: &'a mut Words, rows: &[f32], width: usize, factor: f32) -> &'a [Line] {
    let lines = if rows.len() < THIN * width { cleared(words, width) } else { lines(words, width) };
    for (column, row) in rows.chunks_exact(width).enumerate() {
        for (line, element) in lines.iter_mut().zip(row) {
            line[column] = element * factor;
        }
    }
    lines
}

/// A softmax down the columns that goes on: what was summed shrinks by `factor` where a larger score comes.
struct Weights<'a> {
    scores: &'a mut [Line],
    top: &'a mut Line,
    total: &'a mut Line,
    factor: &'a mut Line,
    sums: &'a mut [Line],
}

impl WithSimd for Weights<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let Self { scores, top, total, factor, sums } = self;
        let before = *top;
        for line in &*scores {
            for (top, &score) in top.iter_mut().zip(line) {
                *top = if score > *top { score } else { *top };
            }
        }
        // where all scores so far are -infinity, their distance from the largest would be no number
        let mut shift = *top;
        for top in &mut shift {
            *top = if *top == f32::NEG_INFINITY { 0.0 } else { *top };
        }
        for ((factor, before), shift) in factor.iter_mut().zip(before).zip(&shift) {
            *factor = math::exp(before - shift);
        }
        let mut sum = [0.0; THIN];
        for line in scores {
            for ((score, shift), sum) in line.iter_mut().zip(&shift).zip(&mut sum) {
                *score = math::exp(*score - shift);
                *sum += *score;
            }
        }
        for ((total, sum), factor) in total.iter_mut().zip(sum).zip(&*factor) {
            *total = *total * factor + sum;
        }
        for line in sums {
            for (sum, factor) in line.iter_mut().zip(&*factor) {
                *sum *= factor;
            }
        }
    }
}

/// Where queries and their numbers stand: logarithms of sums of exponentials, and deltas.
enum By<'a> {
    Columns(&'a Line, &'a Line),
    Rows(&'a [f32], &'a [f32]),
}

/// Scores become weights, `slopes` (of weights) those of scores.
struct Slopes<'a> {
    scores: &'a mut [Line],
    slopes: &'a mut [Line],
    by: By<'a>,
}

impl WithSimd for Slopes<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let Self { scores, slopes, by } = self;
        let pairs = scores.iter_mut().zip(slopes);
        match by {
            By::Columns(logs, deltas) => {
                for (scores, slopes) in pairs {
                    for (((score, slope), log), delta) in scores.iter_mut().zip(slopes).zip(logs).zip(deltas) {
                        *score = math::exp(*score - log);
                        *slope = *score * (*slope - delta);
                    }
                }
            }
            By::Rows(logs, deltas) => {
                for (((scores, slopes), log), delta) in pairs.zip(logs).zip(deltas) {
                    for (score, slope) in scores.iter_mut().zip(slopes) {
                        *score = math::exp(*score - log);
                        *slope = *score * (*slope - delta);
                    }
                }
            }
        }
    }
}

/// Products of rows, one number for each.
struct Deltas<'a> {
    rows: [&'a [f32]; 2],
    width: usize,
    deltas: &'a mut [f32],
}

impl WithSimd for Deltas<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let [a, b] = self.rows.map(|rows| rows.chunks_exact(self.width));
        for ((delta, a), b) in self.deltas.iter_mut().zip(a).zip(b) {
            // sums side by side, so that they are vectors
            let mut sums = [0.0_f32; 16];
            for (a, b) in a.chunks(16).zip(b.chunks(16)) {
                for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
                    *sum = a.mul_add(*b, *sum);
                }
            }
            *delta = sums.iter().sum();
        }
    }
}
