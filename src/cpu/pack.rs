//! Operands of a contraction, copied through their index maps and prologues into panels for the micro-kernel.
//!
//! Packing *is* the index map: a convolution's windows never exist as a whole.

use std::ops::{Deref, Range};

use crate::dtype::DType;
use crate::plan::{Tape, ValueId};

use super::execute::{Env, Inputs, STRIP};
use super::gemm::Matrix;
use super::prepack::Ready;
use super::program::Program;
use super::registers::Registers;
use super::scratch::Scratch;
use super::taps::Taps;
use super::view::{Run, View};
use super::words::Words;

/// Packed operands and sums of a block.
#[derive(Default)]
pub(super) struct Panels {
    pub(super) lhs: Words,
    pub(super) rhs: Words,
    pub(super) sums: Words,
    pub(super) lines: Words,
    pub(super) winograd: super::winograd::Work,
}

/// One operand: a matrix for each batch, indexed by k and by its own group (m or n).
#[derive(Debug)]
pub(super) struct Operand {
    program: Program,
    /// True if strips run along k, else along the group.
    along_k: bool,
    /// True if a strip may span several lines, which are then walked whole.
    flat: bool,
    /// Points of k and of the group.
    sizes: (usize, usize),
    /// The same as a matrix whose lines lie next to each other, if it is no more than that.
    plain: Option<Matrix>,
    /// The same as filters whose taps are summed.
    taps: Option<Taps>,
}

/// Axis numbers of the batch, of the operand's own group and of k.
pub(super) struct Groups<'a> {
    pub(super) batch: &'a [usize],
    pub(super) own: &'a [usize],
    pub(super) summed: &'a [usize],
}

/// Packed panels, where they lie.
pub(super) enum PackedPanels<'a> {
    Ready(Run),
    Here(&'a [u32]),
}

impl Deref for PackedPanels<'_> {
    type Target = [u32];
    fn deref(&self) -> &[u32] {
        match self {
            Self::Ready(run) => run.words(),
            Self::Here(words) => words,
        }
    }
}

/// Panels that a thread packs at a time, if all are.
const TOGETHER: usize = 8;
/// Nanoseconds per element that turning lines into columns takes.
const ACROSS: f64 = 0.3;

impl Operand {
    pub(super) fn new(axes: &[usize], groups: &Groups<'_>, operand: (&Tape, ValueId), dtypes: &[DType]) -> Self {
        let (along_k, along_own) =
            (Self::along(true, axes, groups, operand, dtypes), Self::along(false, axes, groups, operand, dtypes));
        let is_line = along_k.sizes.1 == 1;
        if is_line || along_k.program.read_cost() + ACROSS < along_own.program.read_cost() {
            along_k
        } else {
            along_own
        }
    }

    fn along(along_k: bool, axes: &[usize], groups: &Groups<'_>, operand: (&Tape, ValueId), dtypes: &[DType]) -> Self {
        let (tape, value) = operand;
        let size = |group: &[usize]| group.iter().map(|&axis| axes[axis]).product::<usize>();
        let sizes = (size(groups.summed), size(groups.own));
        let (lines, line) = if along_k { (groups.own, groups.summed) } else { (groups.summed, groups.own) };
        let flat = size(line) <= STRIP / 2;
        let walked = if flat { [lines, line].concat() } else { line.to_vec() };
        let fixed = if flat { groups.batch.to_vec() } else { [groups.batch, lines].concat() };
        let program = Program::new(axes, (&fixed, &walked), tape, &[], &[value], dtypes);
        let plain = Matrix::new(axes, groups, operand, dtypes).filter(|matrix| matrix.lies_along(along_k));
        let taps = Taps::new(axes, groups, operand, dtypes);
        Self { program, along_k, flat, sizes, plain, taps }
    }

    /// The points of its own group (or of k, if `summed`) after which its strips repeat themselves.
    pub(super) fn unit(&self, summed: bool) -> Option<usize> {
        if self.flat || self.along_k != summed { None } else { self.program.space.unit() }
    }

    /// Registers needed.
    pub(super) fn slots(&self) -> usize {
        self.program.slots
    }

    /// True if its lines are its own points, along k.
    pub(super) fn is_along_sums(&self) -> bool {
        self.along_k
    }

    /// Lines `own` along `summed`, one every `stride` words, if it [`is_along_sums`](Self::is_along_sums).
    pub(super) fn lines(
        &self,
        env: &Env<'_>,
        registers: &mut Registers,
        (batch, summed, own): (usize, Range<usize>, Range<usize>),
        (lines, stride): (&mut Words, usize),
    ) {
        lines.reserve(own.len() * stride);
        if let Some(matrix) = &self.plain {
            for (number, line) in own.clone().zip(lines.chunks_exact_mut(stride)) {
                let words = matrix.line(env.views, (batch, number, summed.start), summed.len());
                line[..summed.len()].copy_from_slice(words.words());
            }
            return;
        }
        self.each_line(env, registers, batch, (own.clone(), summed.clone()), |line, first, words| {
            let at = (line - own.start) * stride + first - summed.start;
            lines[at..at + words.len()].copy_from_slice(words);
        });
    }

    /// Calls `f(line, first, words)` for pieces of the lines of a matrix; `lines` and `within` are numbers of lines and
    /// of points in each.
    fn each_line(
        &self,
        env: &Env<'_>,
        registers: &mut Registers,
        batch: usize,
        (lines, within): (Range<usize>, Range<usize>),
        mut f: impl FnMut(usize, usize, &[u32]),
    ) {
        let result = self.program.results[0];
        let (all_lines, line) = if self.along_k { (self.sizes.1, self.sizes.0) } else { self.sizes };
        if self.flat && within.len() == line {
            for first in lines.clone().step_by(STRIP / line) {
                let count = (STRIP / line).min(lines.end - first);
                self.program.run(env, registers, (batch, first * line, count * line), &Inputs::default());
                for (i, words) in registers.words(result, count * line).chunks_exact(line).enumerate() {
                    f(first + i, 0, words);
                }
            }
            return;
        }
        for number in lines {
            for first in within.clone().step_by(STRIP) {
                let len = STRIP.min(within.end - first);
                let at = if self.flat {
                    (batch, number * line + first, len)
                } else {
                    (batch * all_lines + number, first, len)
                };
                self.program.run(env, registers, at, &Inputs::default());
                f(number, first, registers.words(result, len));
            }
        }
    }

    /// Panels of `width`, as [`pack`](Self::pack) makes them: those that are ready, or new ones.
    pub(super) fn panels<'a>(
        &self,
        env: &Env<'_>,
        registers: &mut Registers,
        (batch, summed, own): (usize, Range<usize>, Range<usize>),
        width: usize,
        (panels, lines): (&'a mut Words, &mut Words),
        ready: Option<Ready>,
    ) -> PackedPanels<'a> {
        let len = own.len().next_multiple_of(width) * summed.len();
        if let Some(Ready { words, batches }) = ready {
            let batch = if batches == 1 { 0 } else { batch };
            let (all_summed, all_own) = (self.sizes.0, self.sizes.1.next_multiple_of(width));
            let start = (batch * all_summed + summed.start) * all_own + own.start * summed.len();
            return PackedPanels::Ready(words.run(start as i64, len));
        }
        self.pack(env, registers, (batch, summed, own), width, (panels, lines));
        PackedPanels::Here(&panels[..len])
    }

    /// Packs all of it, so many batches: `[batch][step][panel][k][width]`, steps of `depth` summed points.
    pub(super) fn pack_all(&self, env: &Env<'_>, batches: usize, (width, depth): (usize, usize), target: View) {
        let (summed, own) = self.sizes;
        let (steps, parts) = (summed.div_ceil(depth), own.div_ceil(width * TOGETHER));
        let padded = own.next_multiple_of(width);
        env.threads.for_each_piece(batches * steps * parts, |number, scratch| {
            let Scratch { registers, panels: Panels { rhs: panels, lines, .. }, .. } = scratch;
            registers.reserve(self.slots());
            let (batch, step, part) = (number / parts / steps, number / parts % steps, number % parts);
            let points = part * width * TOGETHER..own.min((part + 1) * width * TOGETHER);
            let range = step * depth..summed.min((step + 1) * depth);
            let len = points.len().next_multiple_of(width) * range.len();
            let start = (batch * summed + range.start) * padded + points.start * range.len();
            self.pack(env, registers, (batch, range, points), width, (panels, lines));
            target.write_run::<u32>(start as i64, &panels[..len]);
        });
    }

    /// Packs `summed` × `own` into panels of `width`: `[panel][k][width]`, the last panel filled with zeros.
    pub(super) fn pack(
        &self,
        env: &Env<'_>,
        registers: &mut Registers,
        (batch, summed, own): (usize, Range<usize>, Range<usize>),
        width: usize,
        (panels, lines): (&mut Words, &mut Words),
    ) {
        let depth = summed.len();
        let len = own.len().div_ceil(width) * depth * width;
        panels.reserve(len);
        let panels = &mut panels[..len];
        if !own.len().is_multiple_of(width) {
            panels[len - depth * width..].fill(0);
        }
        if let Some(taps) = &self.taps {
            return taps.pack(env.views, (batch, summed, own), width, panels);
        }
        if !self.along_k {
            let mut place = |k: usize, first: usize, mut words: &[u32]| {
                let row = (k - summed.start) * width;
                let mut at = first - own.start;
                while !words.is_empty() {
                    let inside = at % width;
                    let (now, later) = words.split_at((width - inside).min(words.len()));
                    let start = at / width * depth * width + row + inside;
                    copy(now, &mut panels[start..start + now.len()]);
                    at += now.len();
                    words = later;
                }
            };
            match &self.plain {
                Some(matrix) => {
                    let line = |k| matrix.line(env.views, (batch, own.start, k), own.len());
                    summed.clone().for_each(|k| place(k, own.start, line(k).words()));
                }
                None => self.each_line(env, registers, batch, (summed.clone(), own.clone()), place),
            }
            return;
        }
        if let Some(matrix) = &self.plain {
            for (panel, start) in panels.chunks_exact_mut(depth * width).zip(own.clone().step_by(width)) {
                let end = own.end.min(start + width);
                if width == 1 {
                    panel.copy_from_slice(matrix.line(env.views, (batch, start, summed.start), depth).words());
                    continue;
                }
                for (number, first) in (start..end).step_by(4).enumerate() {
                    let line = |line: usize| matrix.line(env.views, (batch, line, summed.start), depth);
                    let lines: [Run; 4] = std::array::from_fn(|i| line((first + i).min(end - 1)));
                    let lines = lines.each_ref().map(Run::words);
                    across(&lines[..4.min(end - first)], &mut panel[4 * number..], width);
                }
            }
            return;
        }
        // A panel's lines next to each other, then across. The gap keeps them out of each other's cache sets.
        let stride = depth.next_multiple_of(16) + 16;
        for (panel, start) in panels.chunks_exact_mut(depth * width).zip(own.clone().step_by(width)) {
            let end = own.end.min(start + width);
            self.lines(env, registers, (batch, summed.clone(), start..end), (lines, stride));
            for (number, four) in lines[..(end - start) * stride].chunks(4 * stride).enumerate() {
                let of_four: [&[u32]; 4] =
                    std::array::from_fn(|i| four.chunks_exact(stride).nth(i).unwrap_or_default());
                across(&of_four[..four.len() / stride], &mut panel[4 * number..], width);
            }
        }
    }
}

/// `target = source`, of one length. One known beforehand spares a call.
#[inline(always)]
fn copy(source: &[u32], target: &mut [u32]) {
    macro_rules! known {
        ($($len:literal)*) => {
            $(if let (Ok(source), Ok(target)) = (<&[u32; $len]>::try_from(source), <&mut [u32; $len]>::try_from(&mut *target)) {
                *target = *source;
                return;
            })*
        };
    }
    known!(32 16 8 4);
    target.copy_from_slice(source);
}

/// `panel[k][i] = lines[i][k]` for up to four lines; k runs as far as `panel` has rows.
fn across(lines: &[&[u32]], panel: &mut [u32], width: usize) {
    let rows = panel.chunks_mut(width);
    if let &[a, b, c, d] = lines {
        for ((row, (&a, &b)), (&c, &d)) in rows.zip(a.iter().zip(b)).zip(c.iter().zip(d)) {
            row[..4].copy_from_slice(&[a, b, c, d]);
        }
    } else {
        for (k, row) in rows.enumerate() {
            for (word, line) in row.iter_mut().zip(lines) {
                *word = line[k];
            }
        }
    }
}
