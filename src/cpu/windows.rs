//! Operands that are windows of something smaller, as those of a convolution are: neighbouring windows overlap.
//!
//! Where an axis of the operand's own and a summed one only ever appear as one sum, `unit + ratio · other`, the operand is
//! evaluated once for each value of that sum, into a *grid*, and not once for each pair of the two. A row of the product and a
//! summed point are then distances into the grid, which the micro-kernel adds; nothing is copied for each window.
//!
//! Of the operand's own and the summed axes one group are the *places* of the windows (in a convolution image, line and
//! column) and the other the *taps* (channel and position in the window). Places are own in the convolution itself and summed
//! in the gradient of its weights. Blocks are ranges of places: some leading points (images) as a whole, or lines of one.

use std::ops::Range;

use pulp::Arch;

use crate::dtype::DType;
use crate::plan::{InstrOp, Ix, Tape, ValueId};

use super::blocking::{ENOUGH_PIECES, even, worthwhile_pieces};
use super::border::Bordered;
use super::execute::{Env, Inputs, Registers, STRIP};
use super::lanes::Lanes;
use super::pack::Groups;
use super::program::{Program, expressions};
use super::winograd::{self, Places, Winograd};
use super::words::Words;

/// Words of a grid: a quarter of a second-level cache of a megabyte.
const MOST_WORDS: usize = 64 << 10;
/// How many times an element of the grid has to be used in place of one that is packed.
const LEAST_OVERLAP: usize = 2;
/// Most taps of a block of them, if they are several channels'.
const MANY_TAPS: usize = 512;

/// A pair of axes that only appear as `unit + ratio · other`.
#[derive(Clone, Copy, Debug)]
struct Pair {
    own: usize,
    summed: usize,
    /// True if the operand's own axis is the one counted by one.
    own_is_unit: bool,
    ratio: i64,
}

/// An operand that is evaluated into grids.
#[derive(Debug)]
pub(super) struct Windows {
    program: Program,
    /// The same as lines of a buffer, if it is no more than that.
    bordered: Option<Bordered>,
    /// True if the places are summed.
    pub(super) places_are_summed: bool,
    /// Leading points, lines of each, places of a line.
    lead: usize,
    lines: usize,
    line: usize,
    /// True if blocks are made for [`Winograd`].
    transforms: bool,
    /// Places along the last window axis.
    last: usize,
    /// Steps of the grid's first window axis from line to line, and those of a window.
    line_step: usize,
    reach: usize,
    /// Words of the grid for a step along the first window axis.
    pitch: usize,
    channels: usize,
    /// Taps of a channel.
    taps: usize,
    /// Leading points of a block, and lines of each.
    block_lead: usize,
    block_lines: usize,
    /// Channels of a block.
    block_channels: usize,
    /// Distances of a block's places and taps, in order.
    place_at: Vec<u32>,
    tap_at: Vec<u32>,
}

/// Part of the product: distances of the operand's own and of the summed points.
pub(super) struct Distances<'a> {
    pub(super) own: &'a [u32],
    pub(super) summed: &'a [u32],
}

impl Pair {
    /// The pair of axes `own` and `summed` of `axes`, if all `expressions` see one sum and windows overlap.
    fn new(axes: &[usize], own: usize, summed: usize, expressions: &[&Ix]) -> Option<Self> {
        // The first linear form in which they are tells what the ratio can only be.
        let mut strides = expressions.iter().filter_map(|ix| Some(ix.affine(axes.len())?.0));
        let known = strides.find(|strides| strides[own] != 0 || strides[summed] != 0)?;
        let candidate = |own_is_unit: bool| {
            let (unit, other) = if own_is_unit { (known[own], known[summed]) } else { (known[summed], known[own]) };
            let ratio = if unit == 0 { 0 } else { other / unit };
            (ratio != 0 && other % unit == 0).then_some(Self { own, summed, own_is_unit, ratio })
        };
        let overlap = |pair: &Self| (pair.ratio.unsigned_abs() as usize) < axes[pair.unit()];
        let mut both = [true, false].into_iter().filter_map(candidate);
        both.find(|pair| overlap(pair) && pair.holds(axes, expressions))
    }

    fn unit(&self) -> usize {
        if self.own_is_unit { self.own } else { self.summed }
    }

    fn other(&self) -> usize {
        if self.own_is_unit { self.summed } else { self.own }
    }

    /// True if all expressions depend on the sum alone.
    fn holds(&self, axes: &[usize], expressions: &[&Ix]) -> bool {
        let same: Vec<Ix> = (0..axes.len()).map(Ix::axis).collect();
        let (mut without, mut sum) = (same.clone(), same.clone());
        without[self.other()] = Ix::constant(0);
        sum[self.unit()] = Ix::axis(self.unit()).plus(&Ix::axis(self.other()).times(self.ratio));
        expressions.iter().all(|ix| ix.substitute(&without, axes).substitute(&sum, axes) == ix.substitute(&same, axes))
    }

    /// What has to be added to make the sum never negative.
    fn shift(&self, axes: &[usize]) -> i64 {
        -(self.ratio * (axes[self.other()] as i64 - 1)).min(0)
    }

    /// Values of the sum.
    fn extent(&self, axes: &[usize]) -> usize {
        axes[self.unit()] + self.ratio.unsigned_abs() as usize * (axes[self.other()] - 1)
    }

    /// What a step along `axis`, one of the two, adds.
    fn step(&self, axis: usize) -> i64 {
        if axis == self.unit() { 1 } else { self.ratio }
    }
}

/// The largest divisor of `number` that is no larger than `most`, at least 1.
fn divisor(number: usize, most: usize) -> usize {
    (1..=number.min(most)).rev().find(|&candidate| number.is_multiple_of(candidate)).unwrap_or(1)
}

impl Windows {
    /// `operand` as windows, to be multiplied with `others` points of the other one; `None` if it has none that overlap, or too
    /// large ones.
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
        let expressions = expressions(tape, &[]);
        let long = |group: &[usize]| group.iter().copied().filter(|&axis| axes[axis] > 1).collect::<Vec<usize>>();
        let (own, summed) = (long(groups.own), long(groups.summed));
        let mut pairs: Vec<Pair> = Vec::new();
        for &axis in own.iter().rev() {
            let free = summed.iter().rev().filter(|&&other| pairs.iter().all(|pair| pair.summed != other));
            let found = free.filter_map(|&other| Pair::new(axes, axis, other, &expressions)).next();
            pairs.extend(found);
        }
        let product = |group: &mut dyn Iterator<Item = usize>| group.map(|axis| axes[axis]).product::<usize>();
        let copied = product(&mut pairs.iter().flat_map(|pair| [pair.own, pair.summed]));
        let evaluated: usize = pairs.iter().map(|pair| pair.extent(axes)).product();
        if pairs.is_empty() || copied < LEAST_OVERLAP * evaluated {
            return None;
        }
        let places_are_summed =
            product(&mut pairs.iter().map(|pair| pair.own)) < product(&mut pairs.iter().map(|pair| pair.summed));
        let (places, taps) = if places_are_summed { (&summed, &own) } else { (&own, &summed) };
        // Leading axes without windows, then those with one.
        let pair_of = |axis: usize| pairs.iter().find(|pair| pair.own == axis || pair.summed == axis);
        let [(lead_axes, window_axes), (channel_axes, tap_axes)] = [places, taps].map(|group| {
            let lead = group.iter().take_while(|&&axis| pair_of(axis).is_none()).count();
            group.split_at(lead)
        });
        let windows: Vec<&Pair> = window_axes.iter().filter_map(|&axis| pair_of(axis)).collect();
        let in_order = windows.len() == window_axes.len() && tap_axes.iter().all(|&axis| pair_of(axis).is_some());
        if !in_order || window_axes.iter().zip(&windows).any(|(&axis, pair)| pair.step(axis) < 0) {
            return None;
        }
        let extents: Vec<usize> = windows.iter().map(|pair| pair.extent(axes)).collect();
        let stride_of = |number: usize| extents[number + 1..].iter().product::<usize>();

        let mut reduced = axes.to_vec();
        let mut coords: Vec<Ix> = (0..axes.len()).map(Ix::axis).collect();
        for (pair, &extent) in windows.iter().zip(&extents) {
            (reduced[pair.unit()], reduced[pair.other()]) = (extent, 1);
            coords[pair.unit()] = Ix::axis(pair.unit()).plus(&Ix::constant(-pair.shift(axes)));
            coords[pair.other()] = Ix::constant(0);
        }
        let mut moved = tape.clone();
        moved.map_indices(&mut |ix| ix.substitute(&coords, &reduced));
        let fixed = [groups.batch, lead_axes, channel_axes].concat();
        let walked: Vec<usize> = windows.iter().map(|pair| pair.unit()).collect();
        let program = Program::new(&reduced, (&fixed, &walked), &moved, &[], &[value], dtypes);
        let bordered = Bordered::new(&reduced, (&fixed, &walked), (&moved, value), dtypes);

        let size = |group: &[usize]| group.iter().map(|&axis| axes[axis]).product::<usize>();
        let line_step = windows[0].step(window_axes[0]) as usize;
        let mut found = Self {
            program,
            bordered,
            places_are_summed,
            lead: size(lead_axes),
            lines: axes[window_axes[0]],
            line: size(&window_axes[1..]),
            transforms: false,
            last: axes[window_axes[window_axes.len() - 1]],
            line_step,
            reach: extents[0] - line_step * (axes[window_axes[0]] - 1),
            pitch: stride_of(0),
            channels: size(channel_axes),
            taps: size(tap_axes),
            block_lead: 1,
            block_lines: 1,
            block_channels: size(channel_axes),
            place_at: Vec::new(),
            tap_at: Vec::new(),
        };
        let sizes = |group: &[usize]| group.iter().map(|&axis| axes[axis]).collect::<Vec<usize>>();
        let in_steps = window_axes.iter().zip(&windows).any(|(&axis, pair)| pair.step(axis) != 1);
        let is_3x3 = sizes(tap_axes) == [3, 3] && window_axes.len() == 2 && !in_steps && !places_are_summed;
        let all_places = found.lead * found.lines * found.line;
        let pays = is_3x3 && Winograd::pays([found.channels, others, found.line, all_places]);
        found.transforms = pays && found.cut_in_tiles();
        if !found.transforms {
            found.cut()?;
        }
        if !places_are_summed {
            found.share_lines(size(groups.batch), others);
        }
        // Distances of all points of some axes, in order, from that of the first.
        let walk = |axes_walked: &[usize], sizes: &[usize]| {
            let mut at = vec![0_i64];
            for (&axis, &size) in axes_walked.iter().zip(sizes) {
                let number = windows.iter().position(|pair| pair.own == axis || pair.summed == axis);
                let number = number.expect("it is one of a pair");
                let step = windows[number].step(axis) * stride_of(number) as i64;
                at = at.iter().flat_map(|&at| (0..size as i64).map(move |coord| at + step * coord)).collect();
            }
            at
        };
        let repeated = |at: &[i64], count: usize, stride: usize, base: i64| {
            let blocks = (0..count).flat_map(|block| at.iter().map(move |&at| (block * stride) as i64 + at + base));
            blocks.map(|at| u32::try_from(at).ok()).collect::<Option<Vec<u32>>>()
        };
        let mut window_sizes = sizes(window_axes);
        window_sizes[0] = found.block_lines;
        found.place_at = repeated(&walk(window_axes, &window_sizes), found.block_lead, found.lead_words(), 0)?;
        let base: i64 = windows.iter().enumerate().map(|(n, pair)| pair.shift(axes) * stride_of(n) as i64).sum();
        found.tap_at = repeated(&walk(tap_axes, &sizes(tap_axes)), found.block_channels, found.channel_words(), base)?;
        Some(found)
    }

    /// Chooses the blocks; `None` if the least is too large.
    fn cut(&mut self) -> Option<()> {
        if self.places_are_summed {
            self.block_channels = even(self.channels, (MANY_TAPS / self.taps).max(1), 1);
        }
        self.cut_lines(STRIP, 1)?;
        (self.block_channels * self.taps <= STRIP || !self.places_are_summed).then_some(())
    }

    /// Chooses blocks of whole tiles of 2x2 places; false if there are none.
    fn cut_in_tiles(&mut self) -> bool {
        let most = winograd::most_places(self.channels).min(STRIP);
        self.lines.is_multiple_of(2) && self.line.is_multiple_of(2) && self.cut_lines(most, 2).is_some()
    }

    /// Chooses blocks of at most so many places, and lines in whole `unit`s.
    fn cut_lines(&mut self, most_places: usize, unit: usize) -> Option<()> {
        let words = |lines: usize| self.block_channels * (self.line_step * (lines - 1) + self.reach) * self.pitch;
        let fits = |lines: usize| lines * self.line <= most_places && words(lines) <= MOST_WORDS;
        if fits(self.lines) {
            self.block_lines = self.lines;
            let most = (most_places / (self.lines * self.line)).min(MOST_WORDS / words(self.lines));
            self.block_lead = even(self.lead, most.min(self.lead.div_ceil(ENOUGH_PIECES)), 1);
        } else {
            let units = self.lines / unit;
            let most = (1..=units).take_while(|&count| fits(count * unit)).last()?;
            self.block_lines = self.parted(units, most, unit) * unit;
        }
        Some(())
    }

    /// Divides blocks of few images, so that there are enough for several threads, if it is more to evaluate windows twice than
    /// to pack `others` points of the other operand twice. Images first: a block has several of them, or a part of one.
    fn share_lines(&mut self, batches: usize, others: usize) {
        let pieces = |lead: usize| batches * self.lead.div_ceil(lead) * self.lines.div_ceil(self.block_lines);
        let places = self.lead * self.lines * self.line;
        let wanted = worthwhile_pieces(batches * places * self.channels * self.taps * others);
        if pieces(self.block_lead) >= wanted || self.pitch * self.line_step * self.lines <= others * self.taps {
            return;
        }
        self.block_lead = 1;
        let pieces = pieces(1);
        if pieces < wanted {
            let unit = if self.transforms { 2 } else { 1 };
            let most = self.block_lines / unit / wanted.div_ceil(pieces);
            self.block_lines = self.parted(self.lines / unit, most, unit) * unit;
        }
        debug_assert!(self.block_lead == 1 || self.block_lines == self.lines, "whole images, or a part of one");
    }

    /// How many of so many units of lines make a block, at most `most`. The last block of an image may have fewer, unless blocks
    /// are transformed, which is done in units of two lines and as a whole, or are steps of a sum.
    fn parted(&self, units: usize, most: usize, unit: usize) -> usize {
        if unit > 1 || self.places_are_summed { divisor(units, most) } else { even(units, most.max(1), 1) }
    }

    /// Places after which a block begins in any case: those of an image, if blocks are parts of it.
    pub(super) fn segment(&self) -> usize {
        self.lines * self.line * if self.block_lead == 1 { 1 } else { self.lead }
    }

    /// What transforms blocks of 3x3 windows, if that is worth it.
    pub(super) fn winograd(&self, arch: Arch, filters: usize) -> Option<Winograd> {
        let places = Places { lead: self.block_lead, lines: self.block_lines, columns: self.line };
        let distances = self.tap_at.get(..self.taps).filter(|_| self.transforms)?;
        Winograd::new(arch, places, (self.channels, distances, self.pitch), filters)
    }

    /// Places of a block; the last one may have fewer.
    pub(super) fn block_places(&self) -> usize {
        self.block_lead * self.block_lines * self.line
    }

    /// Taps of a block; the last one may have fewer.
    pub(super) fn block_taps(&self) -> usize {
        self.block_channels * self.taps
    }

    /// How many of the operand's own points lie next to each other in the grid.
    pub(super) fn run(&self) -> usize {
        let at = if self.places_are_summed { &self.tap_at } else { &self.place_at };
        at.windows(2).take_while(|pair| pair[1] == pair[0] + 1).count() + 1
    }

    /// The places as lanes of vectors, if they are neighbours.
    pub(super) fn lanes(&self, arch: Arch) -> Option<Lanes> {
        let line = if self.line == 1 { self.block_lines } else { self.last };
        Lanes::new(arch, &self.place_at, line, self.places_are_summed)
    }

    /// Registers needed.
    pub(super) fn slots(&self) -> usize {
        self.program.slots
    }

    fn channel_words(&self) -> usize {
        (self.line_step * (self.block_lines - 1) + self.reach) * self.pitch
    }

    fn lead_words(&self) -> usize {
        self.block_channels * self.channel_words()
    }

    /// Evaluates the grid of a block: its places, whole blocks of them, and its taps. Behind it are `margin` words of no meaning.
    pub(super) fn fill(
        &self,
        env: &Env<'_>,
        registers: &mut Registers,
        (batch, places, taps): (usize, Range<usize>, Range<usize>),
        grid: &mut Words,
        margin: usize,
    ) {
        grid.reserve(self.block_lead * self.lead_words() + margin);
        let of_lead = self.lines * self.line;
        let first_line = places.start % of_lead / self.line;
        let channels = taps.start / self.taps..taps.end.div_ceil(self.taps);
        let start = first_line * self.line_step * self.pitch;
        let leads = places.start / of_lead..places.end.div_ceil(of_lead);
        // the last block of an image may have fewer lines
        let lines = (places.len() / self.line).min(self.block_lines);
        let words = (self.line_step * (lines - 1) + self.reach) * self.pitch;
        for (lead, grid) in leads.zip(grid.chunks_exact_mut(self.lead_words())) {
            let image = (batch * self.lead + lead) * self.channels;
            for (channel, target) in channels.clone().zip(grid.chunks_exact_mut(self.channel_words())) {
                let target = &mut target[..words];
                if let Some(bordered) = &self.bordered {
                    bordered.fill(env.views, (image + channel, start), target);
                    continue;
                }
                for (number, target) in target.chunks_mut(STRIP).enumerate() {
                    let at = (image + channel, start + number * STRIP, target.len());
                    self.program.run(env, registers, at, &Inputs::default());
                    target.copy_from_slice(registers.words(self.program.results[0], target.len()));
                }
            }
        }
    }

    /// The distances of `own` and `summed` points, which lie in one block.
    pub(super) fn distances(&self, own: &Range<usize>, summed: &Range<usize>) -> Distances<'_> {
        let (places, taps) = if self.places_are_summed { (summed, own) } else { (own, summed) };
        let place = places.start % self.segment() % self.block_places();
        let tap = taps.start % self.block_taps();
        let (places, taps) = (&self.place_at[place..place + places.len()], &self.tap_at[tap..tap + taps.len()]);
        let (own, summed) = if self.places_are_summed { (taps, places) } else { (places, taps) };
        Distances { own, summed }
    }
}
