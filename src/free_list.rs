//! Blocks of memory that wait to be used again.

use std::collections::BTreeMap;

/// Most blocks that wait; what is below some of them costs less to ask for than to look for.
const MAX_BLOCKS: usize = 1024;
/// Smallest size class.
const SMALLEST_CLASS: u64 = 256;

/// The size of the blocks that `bytes` bytes outside of a plan are given: eight classes for each power of two, so that
/// no more than an eighth is wasted and tensors of similar sizes take each other's places.
pub(crate) fn size_class(bytes: u64) -> u64 {
    if bytes > 1 << 60 {
        return bytes; // nobody has so much
    }
    let bytes = bytes.max(SMALLEST_CLASS);
    bytes.next_multiple_of(bytes.next_power_of_two() / 16)
}

/// Blocks kept for reuse, up to a number of bytes: beyond it those that waited longest go.
#[derive(Debug)]
pub(crate) struct FreeList<T> {
    /// By capacity, then by when they came.
    blocks: BTreeMap<(u64, u64), T>,
    bytes: u64,
    limit_bytes: u64,
    clock: u64,
}

impl<T> FreeList<T> {
    /// A list that keeps at most `limit_bytes` bytes.
    pub(crate) fn new(limit_bytes: u64) -> Self {
        Self { blocks: BTreeMap::new(), bytes: 0, limit_bytes, clock: 0 }
    }

    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The smallest block of at least `capacity` bytes, unless more than an eighth of it would be wasted; with its
    /// size.
    pub(crate) fn take(&mut self, capacity: u64) -> Option<(u64, T)> {
        let most = capacity.saturating_add(capacity / 7);
        let key = *self.blocks.range((capacity, 0)..=(most, u64::MAX)).next()?.0;
        let block = self.blocks.remove(&key)?;
        self.bytes -= key.0;
        Some((key.0, block))
    }

    /// Keeps a block. What has to go instead is returned, to be dropped outside of a lock.
    #[must_use]
    pub(crate) fn keep(&mut self, capacity: u64, block: T) -> Vec<T> {
        if capacity > self.limit_bytes {
            return vec![block];
        }
        self.clock += 1;
        self.blocks.insert((capacity, self.clock), block);
        self.bytes += capacity;
        let mut gone = Vec::new();
        while self.bytes > self.limit_bytes || self.blocks.len() > MAX_BLOCKS {
            let Some(&oldest) = self.blocks.keys().min_by_key(|(_, age)| age) else { break };
            self.bytes -= oldest.0;
            gone.extend(self.blocks.remove(&oldest));
        }
        gone
    }

    /// All blocks.
    #[must_use]
    pub(crate) fn drain(&mut self) -> Vec<T> {
        self.bytes = 0;
        std::mem::take(&mut self.blocks).into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_waste_an_eighth_at_most_and_are_their_own_classes() {
        for bytes in (1..5000).chain([1 << 20, (1 << 20) + 1, 196_000_000, (1 << 40) - 1, u64::MAX]) {
            let class = size_class(bytes);
            assert!(class >= bytes && (class - bytes <= bytes / 8 || class == SMALLEST_CLASS), "{bytes} in {class}");
            assert_eq!(size_class(class), class);
            assert!(class.is_multiple_of(16) || class == u64::MAX, "{bytes} in {class}");
        }
    }

    #[test]
    fn the_best_fitting_block_is_taken_and_none_much_too_large() {
        let mut list = FreeList::new(10_000);
        for capacity in [1000, 700, 1100] {
            assert!(list.keep(capacity, capacity).is_empty());
        }
        assert_eq!(list.bytes(), 2800);
        assert_eq!(list.take(990), Some((1000, 1000)));
        assert_eq!(list.take(990), Some((1100, 1100)));
        assert_eq!(list.take(500), None);
        assert_eq!((list.bytes(), list.drain(), list.bytes()), (700, vec![700], 0));
    }

    #[test]
    fn the_list_is_bounded_and_the_oldest_blocks_go_first() {
        let mut list = FreeList::new(1000);
        assert!(list.keep(400, 'a').is_empty());
        assert!(list.keep(500, 'b').is_empty());
        assert_eq!(list.keep(300, 'c'), ['a']);
        assert_eq!(list.bytes(), 800);
        assert_eq!(list.keep(5000, 'd'), ['d'], "one that is larger than the bound itself displaces nothing");
        assert_eq!(list.drain(), ['c', 'b'], "smallest first");
        for number in 0..MAX_BLOCKS + 5 {
            let gone = list.keep(0, 'e');
            assert_eq!(gone.len(), usize::from(number >= MAX_BLOCKS));
        }
    }
}
