//! Operands that are windows of something smaller, as those of a convolution are: neighbouring windows overlap.
//!
//! Where an axis of the operand's own and a summed one only ever appear as one sum, `unit + ratio · other`, the operand
//! is evaluated once for each value of that sum, into a *grid*, and not once for each pair of the two. A row of the
//! product and a summed point are then distances into the grid, which the micro-kernel adds; nothing is copied for each
//! window.
//!
//! Of the operand's own and the summed axes one group are the *places* of the windows (in a convolution image, line and
//! column) and the other the *taps* (channel and position in the window). Places are own in the convolution itself and
//! summed in the gradient of its weights. Blocks are ranges of places: some leading points (images) as a whole, or
//! lines of one.

mod axes;
mod blocks;

use std::ops::Range;

use pulp::Arch;

use crate::dtype::DType;
use crate::plan::{InstrOp, Tape, ValueId};

use super::border::Bordered;
use super::execute::{Env, Inputs, STRIP};
use super::lanes::Lanes;
use super::pack::Groups;
use super::program::{Program, expressions};
use super::registers::Registers;
use super::winograd::{Places, Winograd};
use super::words::Words;
use axes::{MAX_PARTED, Roles};
use blocks::{Blocks, Pictures};

/// An operand that is evaluated into grids.
#[derive(Debug)]
pub(super) struct Windows {
    program: Program,
    /// The same as lines of a buffer, if it is no more than that.
    bordered: Option<Bordered>,
    pictures: Pictures,
    blocks: Blocks,
    /// Points of a line of the grid, and the parts that it is kept in.
    line: (usize, usize),
    /// Distances of a block's places and taps, in order.
    place_at: Vec<u32>,
    tap_at: Vec<u32>,
}

/// Part of the product: distances of the operand's own and of the summed points.
pub(super) struct Distances<'a> {
    pub(super) own: &'a [u32],
    pub(super) summed: &'a [u32],
}

impl Windows {
    /// `operand` as windows, to be multiplied with `others` points of the other one; `None` if it has none that
    /// overlap, too large ones, or such that are better copied.
    pub(super) fn new(
        axes: &[usize],
        groups: &Groups<'_>,
        (tape, value): (&Tape, ValueId),
        others: usize,
        dtypes: &[DType],
    ) -> Option<Self> {
        let checks = tape.instrs.iter().any(|instr| matches!(instr.op, InstrOp::CheckIndex { .. }));
        if checks || !tape.instrs[value].dtype.is_float() || axes.contains(&0) {
            return None;
        }
        let roles = Roles::new(axes, groups, &expressions(tape, &[]))?;
        let pictures = Pictures::new(&roles);
        if pictures.are_better_packed(others) {
            return None;
        }
        let (reduced, coords) = roles.in_grid();
        let mut moved = tape.clone();
        moved.map_indices(&mut |ix| ix.substitute(&coords, &reduced));
        let fixed = [groups.batch, &roles.lead, &roles.channel].concat();
        let walked = roles.walked();
        let program = Program::new(&reduced, (&fixed, &walked), &moved, &[], &[value], dtypes);
        let bordered = Bordered::new(&reduced, (&fixed, &walked), (&moved, value), dtypes);

        let batches: usize = groups.batch.iter().map(|&axis| axes[axis]).product();
        let blocks = Blocks::new(&pictures, batches, others)?;
        let line = (roles.extents[roles.extents.len() - 1], roles.parts());
        let (place_at, tap_at) = (Vec::new(), Vec::new());
        let mut found = Self { program, bordered, pictures, blocks, line, place_at, tap_at };
        let repeated = |at: &[i64], count: usize, stride: usize, base: i64| {
            let each = (0..count).flat_map(|number| at.iter().map(move |&at| (number * stride) as i64 + at + base));
            each.map(|at| u32::try_from(at).ok()).collect::<Option<Vec<u32>>>()
        };
        let mut block = roles.sizes(&roles.window);
        block[0] = blocks.lines;
        let (places, taps) =
            (roles.distances(&roles.window, &block), roles.distances(&roles.tap, &roles.sizes(&roles.tap)));
        found.place_at = repeated(&places, blocks.lead, found.lead_words(), 0)?;
        found.tap_at = repeated(&taps, blocks.channels, found.channel_words(), roles.base())?;
        Some(found)
    }

    /// True if the places are summed.
    pub(super) fn places_are_summed(&self) -> bool {
        self.pictures.places_are_summed
    }

    /// Places after which a block begins in any case: those of an image, if blocks are parts of it.
    pub(super) fn segment(&self) -> usize {
        self.pictures.lines * self.pictures.line * if self.blocks.lead == 1 { 1 } else { self.pictures.lead }
    }

    /// What transforms blocks of 3x3 windows, if that is worth it.
    pub(super) fn winograd(&self, arch: Arch, filters: usize) -> Option<Winograd> {
        let Pictures { line, channels, taps, pitch, .. } = self.pictures;
        let places = Places { lead: self.blocks.lead, lines: self.blocks.lines, columns: line };
        let distances = self.tap_at.get(..taps).filter(|_| self.blocks.transforms)?;
        Winograd::new(arch, places, (channels, distances, pitch), filters)
    }

    /// Places of a block; the last one may have fewer.
    pub(super) fn block_places(&self) -> usize {
        self.blocks.lead * self.blocks.lines * self.pictures.line
    }

    /// Taps of all channels.
    pub(super) fn depth(&self) -> usize {
        self.pictures.channels * self.pictures.taps
    }

    /// Distances of a block's taps.
    pub(super) fn taps(&self) -> &[u32] {
        &self.tap_at
    }

    /// Taps of a block; the last one may have fewer.
    pub(super) fn block_taps(&self) -> usize {
        self.blocks.channels * self.pictures.taps
    }

    /// How many of the operand's own points lie next to each other in the grid.
    pub(super) fn run(&self) -> usize {
        let at = if self.places_are_summed() { &self.tap_at } else { &self.place_at };
        at.windows(2).take_while(|pair| pair[1] == pair[0] + 1).count() + 1
    }

    /// The places as lanes of vectors, if they are neighbours.
    pub(super) fn lanes(&self, arch: Arch) -> Option<Lanes> {
        let line = if self.pictures.line == 1 { self.blocks.lines } else { self.pictures.last };
        Lanes::new(arch, &self.place_at, line, self.places_are_summed())
    }

    /// Registers needed.
    pub(super) fn slots(&self) -> usize {
        self.program.slots
    }

    fn channel_words(&self) -> usize {
        self.pictures.words(self.blocks.lines)
    }

    fn lead_words(&self) -> usize {
        self.blocks.channels * self.channel_words()
    }

    /// Evaluates the grid of a block: its places, whole blocks of them, and its taps. Behind it are `margin` words of
    /// no meaning. If `is_like` it, `grid` is that of the same places and taps of another batch so far.
    pub(super) fn fill(
        &self,
        env: &Env<'_>,
        registers: &mut Registers,
        (batch, places, taps): (usize, Range<usize>, Range<usize>),
        (grid, margin): (&mut Words, usize),
        is_like: bool,
    ) {
        grid.reserve(self.blocks.lead * self.lead_words() + margin);
        let pictures = &self.pictures;
        let of_lead = pictures.lines * pictures.line;
        let first_line = places.start % of_lead / pictures.line;
        let channels = taps.start / pictures.taps..taps.end.div_ceil(pictures.taps);
        let start = first_line * pictures.line_step * pictures.pitch;
        let leads = places.start / of_lead..places.end.div_ceil(of_lead);
        // the last block of an image may have fewer lines
        let words = pictures.words((places.len() / pictures.line).min(self.blocks.lines));
        for (lead, grid) in leads.zip(grid.chunks_exact_mut(self.lead_words())) {
            let image = (batch * pictures.lead + lead) * pictures.channels;
            for (channel, target) in channels.clone().zip(grid.chunks_exact_mut(self.channel_words())) {
                let target = &mut target[..words];
                let from = (image + channel, start);
                let parts = self.line.1;
                match &self.bordered {
                    Some(bordered) if parts == 2 => {
                        bordered.fill_in_pairs((env.arch, env.views), from, target, is_like);
                    }
                    // the parts of a line have their borders elsewhere than the line
                    Some(bordered) => bordered.fill((env.arch, env.views), from, target, is_like && parts == 1),
                    None => {
                        for (number, target) in target.chunks_mut(STRIP).enumerate() {
                            let at = (image + channel, start + number * STRIP, target.len());
                            self.program.run(env, registers, at, &Inputs::default());
                            target.copy_from_slice(registers.words(self.program.results[0], target.len()));
                        }
                    }
                }
                if parts > 2 || (parts == 2 && self.bordered.is_none()) {
                    part(target, self.line);
                }
            }
        }
    }

    /// The distances of `own` and `summed` points, which lie in one block.
    pub(super) fn distances(&self, own: &Range<usize>, summed: &Range<usize>) -> Distances<'_> {
        let (places, taps) = if self.places_are_summed() { (summed, own) } else { (own, summed) };
        let place = places.start % self.segment() % self.block_places();
        let tap = taps.start % self.block_taps();
        let (places, taps) = (&self.place_at[place..place + places.len()], &self.tap_at[tap..tap + taps.len()]);
        let (own, summed) = if self.places_are_summed() { (taps, places) } else { (places, taps) };
        Distances { own, summed }
    }
}

/// Reorders lines of so many points: first number 0, `parts`, 2 `parts`, ..., then 1, `parts` + 1, ...
fn part(lines: &mut [u32], (len, parts): (usize, usize)) {
    let mut copy = [0; MAX_PARTED];
    let copy = &mut copy[..len];
    for line in lines.chunks_exact_mut(len) {
        copy.copy_from_slice(line);
        let mut to = line.iter_mut();
        for first in 0..parts {
            copy.iter().skip(first).step_by(parts).zip(&mut to).for_each(|(&word, to)| *to = word);
        }
    }
}
