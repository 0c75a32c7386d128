//! As many points as can be told apart.

use std::ops::RangeInclusive;

use super::axis::Part;
use super::blocks::Block;
use super::{Axis, Series};

/// Points drawn of a bucket: its first, least, greatest and last.
const DRAWN: usize = 4;
/// Two buckets that follow each other are wider than one may be, so at most twice as many fill the range.
const SLACK: usize = 2;

/// What a part of a series is made of.
pub(super) enum Piece<'a> {
    /// Points that are next to each other in the series.
    Block(&'a Block),
    /// The blocks since the last end cannot be told apart: they are a bucket.
    End,
}

/// What is drawn of the points of a bucket.
#[derive(Default)]
struct Bucket {
    first: Option<usize>,
    last: usize,
    /// Where its least and its greatest finite value are.
    extremes: Option<(usize, usize)>,
}

impl Bucket {
    fn add(&mut self, block: &Block, values: &[f64]) {
        self.first.get_or_insert(block.first);
        self.last = block.last;
        if block.node.count == 0 {
            return;
        }
        let (low, high) = (block.node.low as usize, block.node.high as usize);
        self.extremes = Some(match self.extremes {
            None => (low, high),
            Some((least, greatest)) => (
                if values[low] < values[least] { low } else { least },
                if values[high] > values[greatest] { high } else { greatest },
            ),
        });
    }

    /// The points, in order, none twice.
    fn drawn(self) -> impl Iterator<Item = usize> {
        let first = self.first.unwrap_or(self.last);
        let places = match self.extremes {
            Some((low, high)) => [first, low.min(high), low.max(high), self.last],
            None => [first; DRAWN],
        };
        (0..DRAWN).filter(move |&at| at == 0 || places[at] != places[at - 1]).map(move |at| places[at])
    }
}

impl Series {
    /// Writes at most about `most` points `[x, y]` that look like all whose place is in `range`, and one more on either
    /// side, so that lines go on to the picture's edge. Of points too close to be told apart, the first, the least, the
    /// greatest and the last are kept, so spikes stay. Where a value is not finite, y is NaN: the line has a gap.
    ///
    /// Takes time for `most` points, not for those of the series, but on an axis along which they are not in order.
    pub fn decimated(&self, axis: impl Into<Axis>, range: RangeInclusive<f64>, most: usize, out: &mut Vec<[f64; 2]>) {
        out.clear();
        let Some(part) = self.part(axis.into(), &range, most / (DRAWN * SLACK)) else { return };
        let mut bucket = Bucket::default();
        self.pieces(&part, most, |piece| match piece {
            Piece::Block(block) => bucket.add(block, &self.values),
            Piece::End => {
                for place in std::mem::take(&mut bucket).drawn() {
                    out.extend(part.shown(self, place).map(|x| [x, finite(self.values[place])]));
                }
            }
        });
    }

    /// Tells the blocks of a part, and where buckets end. If there are at most `most` points, each is one.
    pub(super) fn pieces(&self, part: &Part, most: usize, mut each: impl FnMut(Piece<'_>)) {
        let all = part.indices.len() <= most;
        let together = |first| {
            let from = part.place(self, first);
            move |last| !all && part.place(self, last) - from <= part.width
        };
        let mut bucket = together(part.indices.start);
        for block in self.blocks(part.indices.clone(), together) {
            if block.first > part.indices.start && !bucket(block.last) {
                each(Piece::End);
                bucket = together(block.first);
            }
            each(Piece::Block(&block));
        }
        each(Piece::End);
    }
}

/// The value, if a line can be drawn to it.
pub(super) fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { f64::NAN }
}
