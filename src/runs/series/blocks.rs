//! Summaries of blocks of points, so that nothing that is drawn looks at all of them: of every `LEAF` points, of every
//! two such blocks, and so on. Blocks lie at multiples of their size, so what is drawn does not jump while points are
//! added or the picture is moved.

use super::Series;

/// Points in the smallest block.
const LEAF: usize = 16;

/// What is known of some consecutive points.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    /// Where the least and the greatest finite value are.
    pub(super) low: u32,
    pub(super) high: u32,
    /// How many values are finite.
    pub(super) count: u32,
    /// Their mean.
    pub(super) mean: f64,
}

/// The mean of two values with these weights, whose sum is 1; between the two, however it is rounded.
pub(super) fn mean([a, b]: [f64; 2], [of_a, of_b]: [f64; 2]) -> f64 {
    (a * of_a + b * of_b).max(a.min(b)).min(a.max(b))
}

/// Consecutive points: `first` to `last`.
pub(super) struct Block {
    pub(super) first: usize,
    pub(super) last: usize,
    pub(super) node: Node,
}

impl Series {
    /// Brings the summaries up to date with one more point.
    pub(super) fn summarize(&mut self) {
        if !self.len().is_multiple_of(LEAF) {
            return;
        }
        let mut node = self.leaf(self.len() - LEAF);
        for level in 0.. {
            if level == self.levels.len() {
                self.levels.push(Vec::new());
            }
            self.levels[level].push(node);
            let [.., left, right] = self.levels[level][..] else { return };
            if !self.levels[level].len().is_multiple_of(2) {
                return;
            }
            node = self.joined(left, right);
        }
    }

    /// The block of the points from `start` on.
    fn leaf(&self, start: usize) -> Node {
        let (mut low, mut high) = ((f64::INFINITY, start), (f64::NEG_INFINITY, start));
        let points = || (start..).zip(&self.values[start..start + LEAF]).filter(|(_, value)| value.is_finite());
        let count = points().count();
        let (part, mut mean) = (1.0 / count as f64, 0.0);
        for (index, &value) in points() {
            low = if value < low.0 { (value, index) } else { low };
            high = if value > high.0 { (value, index) } else { high };
            // weighted before they are added, so that the largest numbers do not overflow
            mean += value * part;
        }
        // of a constant, that one and nothing that rounding makes of it
        let mean = mean.max(low.0).min(high.0);
        Node { low: low.1 as u32, high: high.1 as u32, count: count as u32, mean }
    }

    /// A point.
    fn single(&self, index: usize) -> Node {
        let (value, place) = (self.values[index], index as u32);
        Node { low: place, high: place, count: value.is_finite().into(), mean: value }
    }

    /// Two neighbours in one.
    fn joined(&self, a: Node, b: Node) -> Node {
        if a.count == 0 || b.count == 0 {
            return if a.count == 0 { b } else { a };
        }
        let value = |place: u32| self.values[place as usize];
        let count = a.count + b.count;
        let part = f64::from(b.count) / f64::from(count);
        Node {
            low: if value(b.low) < value(a.low) { b.low } else { a.low },
            high: if value(b.high) > value(a.high) { b.high } else { a.high },
            count,
            mean: mean([a.mean, b.mean], [1.0 - part, part]),
        }
    }

    /// These points as blocks, each as large as may be: as `fits` says of the index that it would begin at, and then of
    /// the one that it would end at. A point may always be one.
    pub(super) fn blocks<'a, F: Fn(usize) -> bool>(
        &'a self,
        indices: std::ops::Range<usize>,
        fits: impl Fn(usize) -> F + 'a,
    ) -> impl Iterator<Item = Block> + 'a {
        let mut first = indices.start;
        // levels that are tried: the next one is seldom more than one above the last
        let mut levels = self.levels.len();
        std::iter::from_fn(move || {
            let block = (first < indices.end).then(|| self.block(first, indices.end, levels, &fits))?;
            levels = (block.last - first + 1).div_ceil(LEAF).ilog2() as usize + 2;
            first = block.last + 1;
            Some(block)
        })
    }

    /// The largest block below this level that begins at `first`, ends before `end` and fits: at least a point.
    fn block<F: Fn(usize) -> bool>(&self, first: usize, end: usize, level: usize, fits: impl Fn(usize) -> F) -> Block {
        if first.is_multiple_of(LEAF) {
            let (place, fits) = (first / LEAF, fits(first));
            let levels = level.min(self.levels.len()).min(place.trailing_zeros() as usize + 1);
            for level in (0..levels).rev() {
                let last = first + (LEAF << level) - 1;
                if last < end
                    && let Some(&node) = self.levels[level].get(place >> level)
                    && fits(last)
                {
                    return Block { first, last, node };
                }
            }
        }
        Block { first, last: first, node: self.single(first) }
    }
}
