//! Which places and taps make a block, whose grid is evaluated at once.

use super::super::blocking::{ENOUGH_PIECES, even, worthwhile_pieces};
use super::super::execute::{PLANE, STRIP};
use super::super::winograd::{self, Winograd};
use super::axes::Roles;

/// Words of a grid: a quarter of a second-level cache of a megabyte.
const MAX_WORDS: usize = 64 << 10;
/// Places of a line that leaves most of a vector empty.
const SHORT_LINE: usize = 8;
/// Points of the other operand, for each place of a short line, that are worth copying windows whose places are summed.
const MIN_OTHERS: usize = 16;
/// Points of a small window, those of the phases of a 3x3 one at steps of 2, and of the other operand, phases of many
/// channels, that are worth copying these.
const SMALL_WINDOW: usize = 4;
const MANY_ROWS: usize = 384;
/// Most taps of a block of them, if they are several channels'.
const MANY_TAPS: usize = 512;

/// What the windows of an operand lie in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pictures {
    /// True if the places are summed.
    pub(super) places_are_summed: bool,
    /// Leading points, lines of each, places of a line, and those along the last window axis.
    pub(super) lead: usize,
    pub(super) lines: usize,
    pub(super) line: usize,
    pub(super) last: usize,
    /// Steps of the grid's first window axis from line to line, and those of a window.
    pub(super) line_step: usize,
    pub(super) reach: usize,
    /// Words of the grid for a step along the first window axis.
    pub(super) pitch: usize,
    pub(super) channels: usize,
    /// Taps of a channel.
    pub(super) taps: usize,
    /// True if windows are 3x3, from place to place.
    pub(super) are_3x3: bool,
}

impl Pictures {
    pub(super) fn new(roles: &Roles<'_>) -> Self {
        let size = |group: &[usize]| roles.sizes(group).iter().product::<usize>();
        let lines = roles.sizes(&roles.window)[0];
        let steps: Vec<i64> = roles.steps().collect();
        let line_step = steps[0] as usize;
        let is_dense = roles.window.len() == 2 && steps.iter().all(|&step| step == 1);
        Self {
            places_are_summed: roles.places_are_summed,
            lead: size(&roles.lead),
            lines,
            line: size(&roles.window[1..]),
            last: roles.sizes(&roles.window)[roles.window.len() - 1],
            line_step,
            reach: roles.extents[0] - line_step * (lines - 1),
            pitch: roles.stride(0),
            channels: size(&roles.channel),
            taps: size(&roles.tap),
            are_3x3: is_dense && roles.sizes(&roles.tap) == [3, 3],
        }
    }

    /// True if copying each window's points, as any operand is packed, is worth it: where lines are short, so that vectors
    /// along them are mostly borders, and `others`, which use each point, are many; or where windows of few points hardly
    /// overlap.
    pub(super) fn are_better_packed(&self, others: usize) -> bool {
        if self.last > SHORT_LINE {
            return false;
        }
        if self.places_are_summed {
            others >= MIN_OTHERS * self.last
        } else {
            self.taps <= SMALL_WINDOW && self.last > 2 && others >= MANY_ROWS
        }
    }

    /// Words of a channel's grid for so many lines.
    pub(super) fn words(&self, lines: usize) -> usize {
        (self.line_step * (lines - 1) + self.reach) * self.pitch
    }

    fn places(&self) -> usize {
        self.lead * self.lines * self.line
    }
}

/// A block: several leading points as a whole, or lines of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocks {
    pub(super) lead: usize,
    pub(super) lines: usize,
    pub(super) channels: usize,
    /// True if blocks are made for [`Winograd`].
    pub(super) transforms: bool,
}

impl Blocks {
    /// For windows that are multiplied with `others` points of the other operand, in each of so many `batches`; `None`
    /// if the least block is too large.
    pub(super) fn new(pictures: &Pictures, batches: usize, others: usize) -> Option<Self> {
        let Pictures { places_are_summed, channels, taps, line, .. } = *pictures;
        let mut whole = Self { lead: 1, lines: 1, channels, transforms: false };
        let pays = || Winograd::pays([channels, others, line, pictures.places()]);
        let transformed = (pictures.are_3x3 && !places_are_summed && pays()).then(|| whole.in_tiles(pictures, batches));
        if places_are_summed {
            whole.channels = even(channels, (MANY_TAPS / taps).max(1), 1);
        }
        // what is to be done once for a block takes longer than joining a plane tap by tap
        let is_plane = others == 1 && channels == 1 && !places_are_summed;
        let most_places = if is_plane { PLANE } else { STRIP };
        let mut blocks = transformed.flatten().or_else(|| whole.of_lines(pictures, batches, most_places))?;
        if places_are_summed {
            return (blocks.channels * taps <= STRIP).then_some(blocks);
        }
        blocks.share(pictures, batches, others);
        Some(blocks)
    }

    /// In whole tiles of 2x2 places; `None` if there are none.
    fn in_tiles(self, pictures: &Pictures, batches: usize) -> Option<Self> {
        let most = winograd::most_places(pictures.channels).min(STRIP);
        let is_even = pictures.lines.is_multiple_of(2) && pictures.line.is_multiple_of(2);
        is_even.then(|| Self { transforms: true, ..self }.of_lines(pictures, batches, most)).flatten()
    }

    /// With as many lines as make at most so many places, and, if these are all, images that leave blocks for several
    /// threads.
    fn of_lines(self, pictures: &Pictures, batches: usize, most_places: usize) -> Option<Self> {
        let &Pictures { lead, lines, line, .. } = pictures;
        let words = |lines: usize| self.channels * pictures.words(lines);
        let fits = |lines: usize| lines * line <= most_places && words(lines) <= MAX_WORDS;
        if fits(lines) {
            let most = (most_places / (lines * line)).min(MAX_WORDS / words(lines));
            let shared = lead.div_ceil(ENOUGH_PIECES.div_ceil(batches.max(1)));
            return Some(Self { lead: even(lead, most.min(shared), 1), lines, ..self });
        }
        let units = lines / self.unit();
        let most = (1..=units).take_while(|&count| fits(count * self.unit())).last()?;
        Some(Self { lines: self.parted(pictures, most), ..self })
    }

    /// Divides blocks of few images, so that there are enough for several threads, if it is more to evaluate windows
    /// twice than to pack `others` points of the other operand twice. Images first: a block has several of them, or a
    /// part of one.
    fn share(&mut self, pictures: &Pictures, batches: usize, others: usize) {
        let &Pictures { lead, lines, channels, taps, .. } = pictures;
        let pieces = |blocks: &Self| batches * lead.div_ceil(blocks.lead) * lines.div_ceil(blocks.lines);
        let wanted = worthwhile_pieces(batches * pictures.places() * channels * taps * others);
        if pieces(self) >= wanted || pictures.pitch * pictures.line_step * lines <= others * taps {
            return;
        }
        self.lead = 1;
        let pieces = pieces(self);
        if pieces < wanted {
            self.lines = self.parted(pictures, self.lines / self.unit() / wanted.div_ceil(pieces));
        }
        debug_assert!(self.lead == 1 || self.lines == lines, "whole images, or a part of one");
    }

    /// Lines that are not parted.
    fn unit(&self) -> usize {
        if self.transforms { 2 } else { 1 }
    }

    /// How many lines make a block, at most so many units. The last block of an image may have fewer, unless blocks are
    /// transformed, which is done in units of two lines and as a whole, or are steps of a sum.
    fn parted(&self, pictures: &Pictures, most: usize) -> usize {
        let units = pictures.lines / self.unit();
        let is_whole = self.transforms || pictures.places_are_summed;
        self.unit() * if is_whole { divisor(units, most) } else { even(units, most.max(1), 1) }
    }
}

/// The largest divisor of `number` that is no larger than `most`, at least 1.
fn divisor(number: usize, most: usize) -> usize {
    (1..=number.min(most)).rev().find(|&candidate| number.is_multiple_of(candidate)).unwrap_or(1)
}
