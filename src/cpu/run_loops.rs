//! Running loop kernels: each piece takes its outer points through all phases; cut rows meet between phases.

use std::ops::Range;

use super::elementwise::CHUNK;
use super::execute::{Env, Inputs, STRIP, Spread};
use super::loops::{CompiledLoop, CompiledPhase, LoopState, Walk};
use super::scratch::{Scratch, reserve};
use crate::plan::Level;

/// Sums of narrow columns side by side: several of each, so that they fill vectors.
const LANES: usize = 64;
/// Values added up one by one before their sum enters the tree.
const SUM_RUN: usize = 128;

impl CompiledLoop {
    /// Runs the kernel.
    pub(super) fn run(&self, env: &Env<'_>, state: Option<&mut LoopState>) {
        if self.points == 0 {
            return;
        }
        match state {
            None => self.run_whole(env),
            Some(state) => self.run_cut(env, state),
        }
    }

    fn blocks(&self) -> usize {
        self.points.div_ceil(self.block)
    }

    fn block_points(&self, block: usize) -> Range<usize> {
        block * self.block..self.points.min((block + 1) * self.block)
    }

    fn prepare(&self, scratch: &mut Scratch) {
        let count = self.folds.len();
        scratch.registers.reserve(self.slots);
        reserve(&mut scratch.reduced, count, self.block.min(self.points));
        reserve(&mut scratch.partial, count, self.block.min(self.points).max(LANES));
        if scratch.trees.len() < count {
            scratch.trees.resize_with(count, Default::default);
        }
    }

    fn run_whole(&self, env: &Env<'_>) {
        env.threads.for_each_piece(self.blocks(), |block, scratch| {
            self.prepare(scratch);
            let all = self.block_points(block);
            let mut reduced = std::mem::take(&mut scratch.reduced);
            for start in all.clone().step_by(self.together.max(1)) {
                self.through_phases(env, scratch, start..all.end.min(start + self.together), &mut reduced);
            }
            scratch.reduced = reduced;
        });
    }

    fn through_phases(&self, env: &Env<'_>, scratch: &mut Scratch, points: Range<usize>, reduced: &mut [Vec<u32>]) {
        for phase in &self.phases {
            if phase.looks_ahead && phase.level == Level::Inner {
                let next = points.end..self.points.min(points.end + self.together);
                scratch.registers.ahead.clear();
                for sweep in self.phases.iter().filter(|phase| phase.level == Level::Inner && !next.is_empty()) {
                    let walked = (next.start * self.row, next.len() * self.row);
                    sweep.program.look_ahead(env, &mut scratch.registers, walked);
                }
            }
            match phase.level {
                Level::Outer => self.outer(phase, env, scratch, points.clone(), (reduced, 0)),
                Level::Inner => {
                    self.inner(phase, env, scratch, (points.clone(), 0..self.row), (reduced, 0));
                    for fold in phase.folds.clone() {
                        reduced[fold][..points.len()].copy_from_slice(&scratch.partial[fold][..points.len()]);
                    }
                }
            }
        }
    }

    fn run_cut(&self, env: &Env<'_>, state: &mut LoopState) {
        let chunks = self.chunks();
        for phase in &self.phases {
            let reduced = &state.reduced;
            match phase.level {
                Level::Outer => env.threads.for_each_piece(self.blocks(), |block, scratch| {
                    self.prepare(scratch);
                    let points = self.block_points(block);
                    self.outer(phase, env, scratch, points.clone(), (reduced, points.start));
                }),
                Level::Inner => {
                    env.threads.for_each_piece(self.blocks() * chunks, |piece, scratch| {
                        self.prepare(scratch);
                        let points = self.block_points(piece / chunks);
                        let chunk = piece % chunks;
                        let inner = chunk * self.chunk..self.row.min((chunk + 1) * self.chunk);
                        self.inner(phase, env, scratch, (points.clone(), inner), (reduced, points.start));
                        for fold in phase.folds.clone() {
                            let start = (fold * chunks + chunk) * self.points + points.start;
                            state.partial.write_run::<u32>(start as i64, &scratch.partial[fold][..points.len()]);
                        }
                    });
                    self.join_chunks(phase, env, state);
                }
            }
        }
    }

    /// Joins the chunks' results in order.
    fn join_chunks(&self, phase: &CompiledPhase, env: &Env<'_>, state: &mut LoopState) {
        let LoopState { reduced, partial, .. } = state;
        let chunks = self.chunks();
        for fold in phase.folds.clone() {
            let results = &mut reduced[fold];
            results.fill(self.folds[fold].identity);
            let mut words = [0; STRIP];
            for chunk in 0..chunks {
                for (part, results) in results.chunks_mut(STRIP).enumerate() {
                    let start = (fold * chunks + chunk) * self.points + part * STRIP;
                    let words = &mut words[..results.len()];
                    partial.read_run::<u32>(start as i64, words);
                    self.folds[fold].columns(env.arch, results, words);
                }
            }
        }
    }

    /// Evaluates a phase at outer points; the results of reductions for `points.start` stand at `reduced.1`.
    fn outer(
        &self,
        phase: &CompiledPhase,
        env: &Env<'_>,
        scratch: &mut Scratch,
        points: Range<usize>,
        (reduced, first): (&[Vec<u32>], usize),
    ) {
        let strip = phase.program.space.strip();
        for point in points.clone().step_by(strip) {
            let len = strip.min(points.end - point);
            if phase.looks_ahead {
                scratch.registers.ahead.clear();
                let next = point + len..self.points.min(point + len + strip);
                if !next.is_empty() {
                    phase.program.look_ahead(env, &mut scratch.registers, (next.start, next.len()));
                }
            }
            let spread = Spread::Columns { first: first + point - points.start, width: len };
            let inputs = Inputs { reduced, spread, ..Inputs::default() };
            phase.program.run(env, &mut scratch.registers, (0, point, len), &inputs);
        }
    }

    /// Sweeps part of the rows of `points`; leaves the results of its reductions in `scratch.partial`.
    fn inner(
        &self,
        phase: &CompiledPhase,
        env: &Env<'_>,
        scratch: &mut Scratch,
        (points, inner): (Range<usize>, Range<usize>),
        reduced: (&[Vec<u32>], usize),
    ) {
        if inner.is_empty() {
            for fold in phase.folds.clone() {
                scratch.partial[fold].fill(self.folds[fold].identity);
            }
        } else if self.walk != Walk::Rows {
            self.columns(phase, env, scratch, (points, inner), reduced);
        } else if self.row <= STRIP {
            self.short_rows(phase, env, scratch, points, reduced);
        } else {
            self.long_rows(phase, env, scratch, (points, inner), reduced);
        }
    }

    /// Several whole rows in each strip.
    fn short_rows(
        &self,
        phase: &CompiledPhase,
        env: &Env<'_>,
        scratch: &mut Scratch,
        points: Range<usize>,
        (reduced, first): (&[Vec<u32>], usize),
    ) {
        let row = self.row;
        let per_strip = STRIP / row;
        for point in points.clone().step_by(per_strip) {
            let at = point - points.start;
            let rows = per_strip.min(points.end - point);
            let spread = Spread::Rows { first: first + at, row, skip: 0 };
            let inputs = Inputs { reduced, spread, ..Inputs::default() };
            phase.program.run(env, &mut scratch.registers, (0, point * row, rows * row), &inputs);
            for (fold, &value) in phase.folds.clone().zip(&phase.program.results) {
                let words = scratch.registers.words(value, rows * row);
                for (result, words) in scratch.partial[fold][at..at + rows].iter_mut().zip(words.chunks_exact(row)) {
                    *result = self.folds[fold].row(env.arch, words);
                }
            }
        }
    }

    /// Several strips for each row.
    fn long_rows(
        &self,
        phase: &CompiledPhase,
        env: &Env<'_>,
        scratch: &mut Scratch,
        (points, inner): (Range<usize>, Range<usize>),
        (reduced, first): (&[Vec<u32>], usize),
    ) {
        let Scratch { registers, partial, trees, .. } = scratch;
        for point in points.clone() {
            let at = point - points.start;
            for fold in phase.folds.clone() {
                trees[fold].clear();
            }
            // A plain sum is bound by memory, which is read fastest without many stops.
            let lying = phase.program.lying(env, registers, (0, point * self.row + inner.start, inner.len()));
            for words in lying.iter().flat_map(|run| run.words().chunks(SUM_RUN * CHUNK)) {
                for fold in phase.folds.clone() {
                    let mut sum = [self.folds[fold].row(env.arch, words)];
                    trees[fold].push(&self.folds[fold], env.arch, &mut sum);
                }
            }
            let strips = if lying.is_some() { inner.end..inner.end } else { inner.clone() };
            for start in strips.step_by(STRIP) {
                let len = STRIP.min(inner.end - start);
                let spread = Spread::Rows { first: first + at, row: self.row, skip: start };
                let inputs = Inputs { reduced, spread, ..Inputs::default() };
                phase.program.run(env, registers, (0, point * self.row + start, len), &inputs);
                for (fold, &value) in phase.folds.clone().zip(&phase.program.results) {
                    let mut sum = [self.folds[fold].row(env.arch, registers.words(value, len))];
                    trees[fold].push(&self.folds[fold], env.arch, &mut sum);
                }
            }
            for fold in phase.folds.clone() {
                trees[fold].finish(&self.folds[fold], env.arch, &mut partial[fold][at..=at]);
            }
        }
    }

    /// Strips across rows.
    fn columns(
        &self,
        phase: &CompiledPhase,
        env: &Env<'_>,
        scratch: &mut Scratch,
        (points, inner): (Range<usize>, Range<usize>),
        (reduced, first): (&[Vec<u32>], usize),
    ) {
        let Scratch { registers, partial, trees, .. } = scratch;
        let width = points.len();
        let is_flat = self.walk == Walk::FlatColumns;
        let per_strip = if is_flat { STRIP / width } else { 1 };
        let groups = if is_flat { (LANES / width).max(1) } else { 1 };
        let lanes = groups * width;
        for fold in phase.folds.clone() {
            trees[fold].clear();
            partial[fold][..lanes].fill(self.folds[fold].identity);
        }
        let mut summed = 0;
        for start in inner.clone().step_by(per_strip) {
            let count = per_strip.min(inner.end - start);
            let at = match self.walk {
                Walk::FlatColumns => (0, start * width, count * width),
                _ => (start, points.start, width),
            };
            let inputs = Inputs { reduced, spread: Spread::Columns { first, width }, ..Inputs::default() };
            phase.program.run(env, registers, at, &inputs);
            summed += count.div_ceil(groups);
            let full = summed >= SUM_RUN || start + count == inner.end;
            for (fold, &value) in phase.folds.clone().zip(&phase.program.results) {
                let sums = &mut partial[fold][..lanes];
                for words in registers.words(value, at.2).chunks(lanes) {
                    self.folds[fold].columns(env.arch, &mut sums[..words.len()], words);
                }
                if full {
                    trees[fold].push(&self.folds[fold], env.arch, sums);
                    sums.fill(self.folds[fold].identity);
                }
            }
            if full {
                summed = 0;
            }
        }
        for fold in phase.folds.clone() {
            trees[fold].finish(&self.folds[fold], env.arch, &mut partial[fold][..lanes]);
            let (sums, others) = partial[fold][..lanes].split_at_mut(width);
            others.chunks_exact(width).for_each(|other| self.folds[fold].columns(env.arch, sums, other));
        }
    }
}
