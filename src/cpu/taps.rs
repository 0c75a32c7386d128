//! Filters as the gradient of what they were applied to reads them: `[.., own, tap]` in memory, summed over taps and what
//! stands in front of `own`. Line by line, each cache line would be fetched for a few words; block by block, all taps of
//! a few neighbouring filters are in the first-level cache while they are turned over.

use std::ops::Range;

use crate::dtype::DType;
use crate::plan::{BufferId, Tape, ValueId};

use super::pack::Groups;
use super::program::{LoneLoad, distance};
use super::view::View;

/// Words of a piece, at most: as many taps as a few cache lines hold.
const MAX_PIECE: i64 = 64;

/// An operand whose own points are pieces of memory next to each other, in each of which lie the taps that it sees.
#[derive(Debug)]
pub(super) struct Taps {
    buffer: BufferId,
    offset: i64,
    /// Size and stride of each batch axis, and of the summed axes in front of the taps.
    batch: Vec<(usize, i64)>,
    blocks: Vec<(usize, i64)>,
    /// Where in a point's piece the taps are, which are summed.
    taps: Vec<usize>,
    /// Words of a piece.
    piece: usize,
}

impl Taps {
    /// `operand` as such; `None` if it lies otherwise.
    pub(super) fn new(
        axes: &[usize],
        groups: &Groups<'_>,
        operand: (&Tape, ValueId),
        dtypes: &[DType],
    ) -> Option<Self> {
        let load = LoneLoad::new(operand, axes.len(), dtypes).filter(|load| load.valid.is_empty())?;
        let LoneLoad { buffer, strides, offset, .. } = load;
        let long = |group: &[usize]| -> Vec<(usize, i64)> {
            group.iter().filter(|&&axis| axes[axis] > 1).map(|&axis| (axes[axis], strides[axis])).collect()
        };
        let [(_, piece)] = *long(groups.own) else { return None };
        if piece > MAX_PIECE {
            return None;
        }
        let (mut blocks, mut taps) = (long(groups.summed), vec![0]);
        while let Some(&(size, stride)) = blocks.last().filter(|&&(_, stride)| 0 < stride && stride < piece) {
            taps = (0..size as i64).flat_map(|tap| taps.iter().map(move |at| at + stride * tap)).collect();
            blocks.pop();
        }
        let taps: Vec<usize> = taps.into_iter().filter(|&tap| tap < piece).map(|tap| tap as usize).collect();
        let points = |axes: &[(usize, i64)]| axes.iter().map(|axis| axis.0).product::<usize>();
        let are_inside = taps.len() > 1 && points(&blocks) * taps.len() == points(&long(groups.summed));
        are_inside.then(|| Self { buffer, offset, batch: long(groups.batch), blocks, taps, piece: piece as usize })
    }

    /// Packs `summed` × `own` of one batch into panels of `width`: `[panel][k][width]`, so many words.
    pub(super) fn pack(
        &self,
        views: &[View],
        (batch, summed, own): (usize, Range<usize>, Range<usize>),
        width: usize,
        panels: &mut [u32],
    ) {
        let (count, depth, piece) = (self.taps.len(), summed.len(), self.piece);
        let last = self.taps[count - 1];
        let first = self.offset + distance(batch, &self.batch) + (own.start * piece) as i64;
        for block in summed.start / count..summed.end.div_ceil(count) {
            let len = (own.len() - 1) * piece + last + 1;
            let words = views[self.buffer].run(first + distance(block, &self.blocks), len);
            let within = summed.start.max(block * count)..summed.end.min((block + 1) * count);
            let parts = words.words().chunks(width * piece).zip(panels.chunks_exact_mut(depth * width));
            for (pieces, panel) in parts {
                for k in within.clone() {
                    let row = &mut panel[(k - summed.start) * width..][..width];
                    let column = pieces[self.taps[k - block * count]..].iter().step_by(piece);
                    row.iter_mut().zip(column).for_each(|(to, &word)| *to = word);
                }
            }
        }
    }
}
