//! Filters as the gradient of what they were applied to reads them: `[.., own, tap]` in memory, summed over taps and what
//! stands in front of `own`. Line by line, each cache line would be fetched for a few words; block by block, all taps of
//! a few neighbouring filters are in the first-level cache while they are turned over.

use std::ops::Range;

use crate::dtype::DType;
use crate::plan::{BufferId, Tape, ValueId};

use super::pack::Groups;
use super::program::{LoneLoad, distance};
use super::view::View;

/// An operand whose own points lie next to each other, each with all its taps.
#[derive(Debug)]
pub(super) struct Taps {
    buffer: BufferId,
    offset: i64,
    /// Size and stride of each batch axis, and of the summed axes in front of the taps.
    batch: Vec<(usize, i64)>,
    blocks: Vec<(usize, i64)>,
    /// Taps of a point, which are summed.
    taps: usize,
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
        let mut blocks = long(groups.summed);
        let mut taps = 1;
        while let Some(&(size, stride)) = blocks.last().filter(|axis| axis.1 == taps as i64) {
            taps *= size;
            debug_assert!(stride > 0);
            blocks.pop();
        }
        let is_own = matches!(*long(groups.own), [(_, stride)] if stride == taps as i64);
        (taps > 1 && is_own).then(|| Self { buffer, offset, batch: long(groups.batch), blocks, taps })
    }

    /// Packs `summed` × `own` of one batch into panels of `width`: `[panel][k][width]`, so many words.
    pub(super) fn pack(
        &self,
        views: &[View],
        (batch, summed, own): (usize, Range<usize>, Range<usize>),
        width: usize,
        panels: &mut [u32],
    ) {
        let (taps, depth) = (self.taps, summed.len());
        let first = self.offset + distance(batch, &self.batch) + (own.start * taps) as i64;
        for block in summed.start / taps..summed.end.div_ceil(taps) {
            let words = views[self.buffer].run(first + distance(block, &self.blocks), own.len() * taps);
            let within = summed.start.max(block * taps)..summed.end.min((block + 1) * taps);
            let parts = words.words().chunks(width * taps).zip(panels.chunks_exact_mut(depth * width));
            for (filters, panel) in parts {
                for k in within.clone() {
                    let row = &mut panel[(k - summed.start) * width..][..filters.len() / taps];
                    let column = filters[k - block * taps..].iter().step_by(taps);
                    row.iter_mut().zip(column).for_each(|(to, &word)| *to = word);
                }
            }
        }
    }
}
