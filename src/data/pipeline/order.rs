//! Which samples come, and in which order: work on their numbers alone.
//!
//! An order is a chain of two parts. In the first, the item at any position can be computed (`Pick`); the second,
//! behind a shuffle buffer, has to be walked through (`Walk`). What a walk has to remember is all the state that there
//! is.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::data::Permutation;
use crate::data::permutation::hash;
use crate::data::random::unit;

/// A sample that is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(from = "(u64, u64)", into = "(u64, u64)")]
pub(crate) struct Item {
    /// Its number in the data set.
    pub sample: u64,
    /// Where it was drawn, if samples are drawn with replacement and may come more than once in an epoch; else 0.
    pub draw: u64,
}

impl From<(u64, u64)> for Item {
    fn from((sample, draw): (u64, u64)) -> Self {
        Self { sample, draw }
    }
}

impl From<Item> for (u64, u64) {
    fn from(item: Item) -> Self {
        (item.sample, item.draw)
    }
}

/// A step of the chain whose items can be found by their position.
#[derive(Clone, Debug)]
enum Pick {
    Skip(u64),
    Take,
    Shard {
        index: u64,
        count: u64,
    },
    Shuffle,
    Interleave {
        streams: u64,
        block: u64,
    },
    /// Running sums of the weights, of each item of what is below.
    Weighted(Arc<[f64]>),
}

/// A step behind a shuffle buffer.
#[derive(Clone, Debug)]
enum Walk {
    Skip(u64),
    Take(u64),
    Shard { index: u64, count: u64 },
    Buffer(usize),
}

/// What a step behind a shuffle buffer remembers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum WalkState {
    /// Items that went by.
    Passed(u64),
    /// The items in a buffer, and how many were drawn from it.
    Buffer { items: Vec<Item>, drawn: u64 },
}

/// A chain of steps over the sample numbers `0..samples`.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    samples: u64,
    /// Each with the number of items that come out of it.
    picks: Vec<(Pick, u64)>,
    walks: Vec<Walk>,
    /// Items in an epoch.
    len: u64,
    /// Depends on every step: a state of another chain is not mistaken for one of this.
    fingerprint: u64,
}

impl Order {
    /// All samples as they lie.
    pub(super) fn all(samples: usize) -> Self {
        let len = samples as u64;
        Self { samples: len, picks: Vec::new(), walks: Vec::new(), len, fingerprint: hash(&[len]) }
    }

    /// Items in an epoch.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    fn picked(&mut self, pick: Pick, len: u64, key: &[u64]) {
        self.picks.push((pick, len));
        self.now(len, key);
    }

    fn walked(&mut self, walk: Walk, len: u64, key: &[u64]) {
        self.walks.push(walk);
        self.now(len, key);
    }

    fn now(&mut self, len: u64, key: &[u64]) {
        self.len = len;
        self.fingerprint = hash(&[&[self.fingerprint, len], key].concat());
    }

    pub(super) fn skip(&mut self, count: usize) {
        let (count, key) = (count as u64, [1, count as u64]);
        let len = self.len.saturating_sub(count);
        if self.walks.is_empty() {
            self.picked(Pick::Skip(count), len, &key);
        } else {
            self.walked(Walk::Skip(count), len, &key);
        }
    }

    pub(super) fn take(&mut self, count: usize) {
        let (count, key) = (count as u64, [2, count as u64]);
        let len = self.len.min(count);
        if self.walks.is_empty() {
            self.picked(Pick::Take, len, &key);
        } else {
            self.walked(Walk::Take(count), len, &key);
        }
    }

    pub(super) fn shard(&mut self, index: usize, count: usize) {
        let (index, count) = (index as u64, count as u64);
        let len = self.len.saturating_sub(index).div_ceil(count);
        let key = [3, index, count];
        if self.walks.is_empty() {
            self.picked(Pick::Shard { index, count }, len, &key);
        } else {
            self.walked(Walk::Shard { index, count }, len, &key);
        }
    }

    #[track_caller]
    pub(super) fn shuffle(&mut self) {
        self.assert_picks("shuffle");
        self.picked(Pick::Shuffle, self.len, &[4]);
    }

    pub(super) fn shuffle_buffer(&mut self, size: usize) {
        self.walked(Walk::Buffer(size), self.len, &[5, size as u64]);
    }

    #[track_caller]
    pub(super) fn interleave(&mut self, streams: usize, block: usize) {
        self.assert_picks("interleave");
        let (streams, block) = (streams as u64, block as u64);
        self.picked(Pick::Interleave { streams, block }, self.len, &[6, streams, block]);
    }

    /// Whether chance decides which item comes when.
    pub(super) fn is_random(&self) -> bool {
        let random = |(pick, _): &(Pick, u64)| matches!(pick, Pick::Shuffle | Pick::Weighted(_));
        self.picks.iter().any(random) || self.walks.iter().any(|walk| matches!(walk, Walk::Buffer(_)))
    }

    #[track_caller]
    pub(super) fn weighted(&mut self, weights: &[f64]) {
        self.assert_picks("weighted");
        assert!(!self.is_random(), "weighted: it draws in random order, so nothing need be random before it");
        assert_eq!(weights.len() as u64, self.samples, "weighted: there is one weight for each sample of the data set");
        assert!(
            weights.iter().all(|weight| weight.is_finite() && *weight >= 0.0),
            "weighted: a weight is negative or not finite"
        );
        let epoch = self.epoch(0, 0);
        let mut sum = 0.0;
        let sums: Arc<[f64]> = (0..self.len)
            .map(|position| {
                sum += weights[self.pick(&epoch, position).sample as usize];
                sum
            })
            .collect();
        assert!(self.len == 0 || (sum > 0.0 && sum.is_finite()), "weighted: the weights add up to {sum}");
        let key = sums.iter().fold(7, |key, sum| hash(&[key, sum.to_bits()]));
        self.picked(Pick::Weighted(sums), self.len, &[key]);
    }

    #[track_caller]
    fn assert_picks(&self, name: &str) {
        assert!(
            self.walks.is_empty(),
            "{name}: behind a shuffle buffer items can only be passed on one by one; put the buffer after it"
        );
    }

    /// The states of the walks at the beginning of an epoch.
    pub(super) fn initial(&self) -> Vec<WalkState> {
        let initial = |walk: &Walk| match walk {
            Walk::Buffer(_) => WalkState::Buffer { items: Vec::new(), drawn: 0 },
            _ => WalkState::Passed(0),
        };
        self.walks.iter().map(initial).collect()
    }

    /// True if these are states that the walks can have.
    pub(super) fn accepts(&self, Mark { passed, position, walks: states, .. }: &Mark) -> bool {
        let fits = |(walk, state): (&Walk, &WalkState)| match (walk, state) {
            (Walk::Buffer(size), WalkState::Buffer { items, drawn }) => {
                items.len() <= *size && *drawn <= self.samples && items.iter().all(|item| item.sample < self.samples)
            }
            (Walk::Buffer(_), _) => false,
            (_, state) => matches!(state, WalkState::Passed(_)),
        };
        *position <= self.picked_len()
            && *passed <= self.len
            && self.walks.len() == states.len()
            && self.walks.iter().zip(states).all(fits)
    }

    /// The epoch of this number under this seed.
    pub(super) fn epoch(&self, seed: u64, number: u64) -> Epoch {
        let permutation = |(place, (pick, len)): (usize, &(Pick, u64))| {
            matches!(pick, Pick::Shuffle).then(|| Permutation::new(*len as usize, &[seed, number, place as u64]))
        };
        Epoch { seed, number, permutations: self.picks.iter().enumerate().map(permutation).collect() }
    }

    /// Items that the picks give in an epoch.
    fn picked_len(&self) -> u64 {
        self.picks.last().map_or(self.samples, |(_, len)| *len)
    }

    /// The item at a position that is below the length.
    fn pick(&self, epoch: &Epoch, position: u64) -> Item {
        let mut item = Item { sample: position, draw: 0 };
        for (place, (pick, len)) in self.picks.iter().enumerate().rev() {
            item.sample = match pick {
                Pick::Skip(count) => item.sample + count,
                Pick::Take => item.sample,
                Pick::Shard { index, count } => item.sample * count + index,
                Pick::Shuffle => {
                    let permutation = epoch.permutations[place].as_ref().expect("each shuffle has one");
                    permutation.get(item.sample as usize) as u64
                }
                Pick::Interleave { streams, block } => interleaved(item.sample, *len, *streams, *block),
                Pick::Weighted(sums) => {
                    item.draw = item.sample;
                    let random = hash(&[epoch.seed, epoch.number, place as u64, item.draw]);
                    let goal = unit(random) * sums.last().expect("there is an item");
                    // the first whose sum is beyond the goal: one of weight 0 never is
                    sums.partition_point(|sum| *sum <= goal) as u64
                }
            };
        }
        item
    }

    /// The next item behind the first `walks` walks; `None` at the end of the epoch.
    fn walk(&self, epoch: &Epoch, walks: usize, position: &mut u64, states: &mut [WalkState]) -> Option<Item> {
        let Some(below) = walks.checked_sub(1) else {
            let item = (*position < self.picked_len()).then(|| self.pick(epoch, *position))?;
            *position += 1;
            return Some(item);
        };
        let (before, rest) = states.split_at_mut(below);
        let mut next = || self.walk(epoch, below, position, before);
        match (&self.walks[below], &mut rest[0]) {
            (Walk::Skip(count), WalkState::Passed(passed)) => {
                while *passed < *count {
                    next()?;
                    *passed += 1;
                }
                next()
            }
            (Walk::Take(count), WalkState::Passed(passed)) => {
                let item = (*passed < *count).then(next)?;
                *passed += 1;
                item
            }
            (Walk::Shard { index, count }, WalkState::Passed(passed)) => loop {
                let item = next()?;
                *passed += 1;
                if (*passed - 1) % count == *index {
                    return Some(item);
                }
            },
            (Walk::Buffer(size), WalkState::Buffer { items, drawn }) => {
                while items.len() < *size {
                    let Some(item) = next() else { break };
                    items.push(item);
                }
                let random = hash(&[epoch.seed, epoch.number, (self.picks.len() + below) as u64, *drawn]);
                let chosen = (!items.is_empty()).then(|| (random % items.len() as u64) as usize)?;
                *drawn += 1;
                Some(items.swap_remove(chosen))
            }
            _ => unreachable!("states are made, and checked, for these walks"),
        }
    }
}

/// What is drawn once for a pass over an order.
#[derive(Debug)]
pub(super) struct Epoch {
    seed: u64,
    number: u64,
    /// Of the shuffles among the picks.
    permutations: Vec<Option<Permutation>>,
}

/// `len` items lie in as many parts as there are streams, the first ones an item longer if they do not come out even.
/// What comes at `position` if the parts take turns, each with `block` items or what it has left?
fn interleaved(position: u64, len: u64, streams: u64, block: u64) -> u64 {
    let (short, longer) = (len / streams, len % streams);
    let start = |part: u64| part * short + part.min(longer);
    // in these rounds every part has a whole block
    let rounds = short / block;
    let in_rounds = rounds * block * streams;
    if position < in_rounds {
        let (round, within) = (position / (block * streams), position % (block * streams));
        return start(within / block) + round * block + within % block;
    }
    // of the last round the parts have `left` or `left + 1` items each
    let (left, within) = (short - rounds * block, position - in_rounds);
    let (part, offset) = match longer * (left + 1) {
        long if within < long => (within / (left + 1), within % (left + 1)),
        long => (longer + (within - long) / left, (within - long) % left),
    };
    start(part) + rounds * block + offset
}

/// Goes through an order, epoch by epoch.
#[derive(Debug)]
pub(crate) struct Cursor {
    order: Arc<Order>,
    seed: u64,
    epoch: Epoch,
    /// Items that came out in this epoch.
    passed: u64,
    /// Items taken from the picks.
    position: u64,
    walks: Vec<WalkState>,
}

impl Cursor {
    /// At the beginning of an epoch.
    pub(super) fn new(order: Arc<Order>, seed: u64, epoch: u64) -> Self {
        let (epoch, walks) = (order.epoch(seed, epoch), order.initial());
        Self { order, seed, epoch, passed: 0, position: 0, walks }
    }

    /// Where a mark says.
    pub(super) fn at(order: Arc<Order>, seed: u64, mark: &Mark) -> Self {
        let epoch = order.epoch(seed, mark.epoch);
        let Mark { passed, position, ref walks, .. } = *mark;
        Self { order, seed, epoch, passed, position, walks: walks.clone() }
    }

    /// Items left in this epoch.
    pub(super) fn left(&self) -> u64 {
        self.order.len() - self.passed
    }

    pub(super) fn next_epoch(&mut self) {
        *self = Self::new(Arc::clone(&self.order), self.seed, self.epoch.number + 1);
    }

    /// The next item of this epoch.
    pub(super) fn next(&mut self) -> Option<Item> {
        let item = self.order.walk(&self.epoch, self.walks.len(), &mut self.position, &mut self.walks)?;
        self.passed += 1;
        Some(item)
    }

    /// Where it is.
    pub(super) fn mark(&self) -> Mark {
        let Self { passed, position, ref walks, .. } = *self;
        Mark { epoch: self.epoch.number, passed, position, walks: walks.clone() }
    }

    /// Items that a mark of this place would hold.
    pub(super) fn buffered(&self) -> usize {
        let items = |state: &WalkState| match state {
            WalkState::Buffer { items, .. } => items.len(),
            WalkState::Passed(_) => 0,
        };
        self.walks.iter().map(items).sum()
    }
}

/// A place in an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    pub(super) epoch: u64,
    /// Items of the epoch that came out before it.
    pub(super) passed: u64,
    pub(super) position: u64,
    pub(super) walks: Vec<WalkState>,
}
