//! Positions grouped by an index from data: sorted once, then counted, picked and reduced group by group.
//!
//! Sums run through each group from its first position to its last, cut into parts at fixed positions, so they have the
//! same bits on every device and in every run.

use crate::dtype::DType;
use crate::graph::{Op, ReduceOp, Runs, Search, Segments};
use crate::shape::Shape;

use super::Tensor;

/// Elements that one invocation adds up; longer segments are cut into parts.
const LONGEST: usize = 1024;

impl Tensor {
    /// Keys (u32, rows of `length`) and their places, sorted: one vector, see [`Op::Sort`].
    #[track_caller]
    pub(super) fn sorted_pairs(&self, length: usize) -> Self {
        Self::apply(Op::Sort(Runs { length, run: length }), &[self], [2 * self.numel()].into(), DType::U32)
    }

    /// For each query (u32) how many elements of an ascending row of `self` come before it, see [`Op::Search`].
    #[track_caller]
    pub(super) fn search(&self, length: usize, queries: &Self, per_row: usize, right: bool) -> Self {
        let op = Op::Search(Search { length, queries: per_row, right });
        Self::apply(op, &[self, queries], queries.shape().clone(), DType::U32)
    }

    /// Elements of a vector at places that are known to lie in it.
    #[track_caller]
    pub(super) fn at(&self, places: &Self) -> Self {
        Self::apply(Op::Gather { axis: 0 }, &[self, places], places.shape().clone(), self.dtype())
    }

    /// 0, 1, 2, … as u32.
    #[track_caller]
    fn count_up(count: usize, like: &Self) -> Self {
        Self::iota([count], 0, like.device()).to_dtype(DType::U32)
    }
}

/// The positions of an index, grouped by its values.
pub(crate) struct Groups {
    /// Number of positions, not 0.
    count: usize,
    /// Positions of a row; no group has more.
    length: usize,
    /// Number of groups: those of all rows.
    size: usize,
    /// See [`Op::Sort`]; none where positions are in order already.
    pairs: Option<Tensor>,
    /// Where each group starts among the sorted positions, and where the last one ends: `[size + 1]`.
    starts: Tensor,
}

impl Groups {
    /// Groups the positions of an `index` of any shape, all of whose elements are known to be below `size`.
    #[track_caller]
    pub(crate) fn new(index: &Tensor, size: usize) -> Self {
        let count = index.numel();
        let pairs = index.to_dtype(DType::U32).sorted_pairs(count);
        let starts = pairs.search(count, &Tensor::count_up(size + 1, index), size + 1, false);
        Self { count, length: count, size, pairs: Some(pairs), starts }
    }

    /// Groups the positions of each row of an `index` `[rows, n]` with elements, all of which are known to be below
    /// `size`; of each row there are `size` groups. Rows that are known to ascend need not be sorted.
    #[track_caller]
    pub(super) fn in_rows(index: &Tensor, size: usize, ascending: bool) -> Self {
        let (count, rows, length) = (index.numel(), index.size(0), index.size(1));
        let index = index.to_dtype(DType::U32);
        let pairs = (!ascending).then(|| index.sorted_pairs(length));
        let number = |axis| Tensor::iota([rows, size], axis, index.device()).to_dtype(DType::U32);
        let in_row = pairs.as_ref().unwrap_or(&index).search(length, &number(1), size, false);
        let starts = (in_row + number(0) * length).reshape([rows * size]).pad(&[(0, 1)], count);
        Self { count, length, size: rows * size, pairs, starts }
    }

    #[track_caller]
    fn bounds(&self) -> (Tensor, Tensor) {
        (self.starts.narrow(0, 0, self.size), self.starts.narrow(0, 1, self.size))
    }

    /// Positions in each group: `[size]`, u32.
    #[track_caller]
    pub(crate) fn counts(&self) -> Tensor {
        let (starts, ends) = self.bounds();
        ends - starts
    }

    /// Whether each group has a position, and its last one (else any): `[size]` both. Of an index that is one row.
    #[track_caller]
    pub(crate) fn last(&self) -> (Tensor, Tensor) {
        let (starts, ends) = self.bounds();
        let place = ends.maximum(1) - 1;
        let last = match &self.pairs {
            Some(pairs) => pairs.at(&(place + self.count)),
            None => place,
        };
        (starts.lt(&ends), last)
    }

    /// Rows of `width` elements reduced over each group, under `shape`; row number `p` of `values` belongs to position
    /// `p`.
    #[track_caller]
    pub(crate) fn reduce(&self, op: ReduceOp, values: &Tensor, width: usize, shape: impl Into<Shape>) -> Tensor {
        if values.dtype() == DType::F16 {
            return self.reduce(op, &values.to_dtype(DType::F32), width, shape).to_dtype(DType::F16);
        }
        let of = Segments { op, width, longest: self.length, keys: self.length };
        reduce(of, (values, self.count), self.pairs.as_ref(), &self.starts, shape.into())
    }
}

/// What [`Op::Segments`] yields of values for `positions` positions, with the segments between `starts`.
#[track_caller]
fn reduce(
    of: Segments,
    (values, positions): (&Tensor, usize),
    pairs: Option<&Tensor>,
    starts: &Tensor,
    shape: Shape,
) -> Tensor {
    let once = |starts: &Tensor, longest: usize, shape: Shape| {
        let inputs: Vec<&Tensor> = [values, starts].into_iter().chain(pairs).collect();
        Tensor::apply(Op::Segments(Segments { longest, ..of }), &inputs, shape, values.dtype())
    };
    if of.longest <= LONGEST {
        return once(starts, of.longest, shape);
    }
    // Segments are cut at the multiples of LONGEST. Segment s has at most `starts[s + 1] / LONGEST -
    // starts[s] / LONGEST + 1` parts; with so many for each, its first part has number `starts[s] / LONGEST + s`.
    let segments = starts.numel() - 1;
    let first_parts = starts.div_trunc(LONGEST) + Tensor::count_up(segments + 1, values);
    let parts = positions / LONGEST + segments;
    let part = Tensor::count_up(parts + 1, values);
    let segment = first_parts.search(segments, &part, parts + 1, true) - 1;
    let (start, end) = (starts.at(&segment), starts.at(&(&segment + 1)));
    let cut = ((part - &segment) * LONGEST).clamp(start, end);
    let partial = once(&cut, LONGEST, [parts, of.width].into());
    let longest = of.longest.div_ceil(LONGEST) + 1;
    reduce(Segments { longest, keys: parts, ..of }, (&partial, parts), None, &first_parts, shape)
}
