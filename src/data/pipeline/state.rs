//! Where a pipeline is, so that another run can go on from there.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::order::{Cursor, Item, Mark, Order};
use crate::data::permutation::hash;
use crate::error::{Error, Result};

/// Where a [`Pipeline`](super::Pipeline) is: behind a batch, or at the beginning. A small value for a checkpoint,
/// whatever is in the making at that moment; it holds the numbers in a shuffle buffer, and otherwise a few words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Plain", into = "Plain")]
pub struct State {
    pipeline: u64,
    samples: u64,
    mark: Arc<Mark>,
    since: u64,
}

/// As it is written.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Plain {
    /// Depends on the data set's size, the seed, and what decides the order.
    pipeline: u64,
    /// Samples that came out of the batches of this epoch so far.
    samples: u64,
    /// Items that were used since the mark.
    since: u64,
    mark: Mark,
}

impl From<Plain> for State {
    fn from(Plain { pipeline, samples, since, mark }: Plain) -> Self {
        Self { pipeline, samples, mark: Arc::new(mark), since }
    }
}

impl From<State> for Plain {
    fn from(State { pipeline, samples, mark, since }: State) -> Self {
        Self { pipeline, samples, since, mark: Mark::clone(&mark) }
    }
}

impl State {
    /// The epoch, from 0, that the next batch belongs to.
    pub fn epoch(&self) -> usize {
        self.mark.epoch as usize
    }

    /// Samples of that epoch that are behind it.
    pub fn samples(&self) -> usize {
        self.samples as usize
    }

    /// The beginning of an epoch.
    pub(crate) fn start(order: &Order, seed: u64, epoch: u64) -> Self {
        let mark = Mark { epoch, passed: 0, position: 0, walks: order.initial() };
        Self { pipeline: identity(order, seed), samples: 0, mark: Arc::new(mark), since: 0 }
    }

    /// As many samples and items further on.
    pub(crate) fn after(&self, samples: u64, items: u64) -> Self {
        Self { samples, since: self.since + items, ..self.clone() }
    }

    /// # Errors
    /// If it belongs to another pipeline, or was changed.
    pub(crate) fn check(&self, order: &Order, seed: u64) -> Result<()> {
        let wrong = |reason: &str| Err(Error::Resume(reason.into()));
        if self.pipeline != identity(order, seed) {
            return wrong("the data set has another size, or the pipeline another order or seed");
        }
        let most = order.len();
        if !order.accepts(&self.mark) || self.since > most - self.mark.passed || self.samples > most {
            return wrong("it is not a place that this pipeline can be at");
        }
        Ok(())
    }
}

/// What a state and a pipeline have to agree in. Below 2⁶³, as file formats know no larger numbers.
fn identity(order: &Order, seed: u64) -> u64 {
    hash(&[order.fingerprint(), seed]) >> 1
}

/// Hands out the items of an order in chunks, each with the state before it.
#[derive(Debug)]
pub(crate) struct Dispenser {
    cursor: Cursor,
    /// The state at the cursor; of a long shuffle buffer a mark is made only now and then, and the items since are
    /// counted.
    state: State,
    /// The epoch that it stops before.
    end: u64,
}

/// A piece of an epoch.
#[derive(Debug)]
pub(crate) struct Ticket {
    /// The state before it; the samples in it are not counted here.
    pub before: State,
    /// Whether the epoch ends with it.
    pub ends: bool,
}

impl Dispenser {
    /// From `state` to the end of the last epoch.
    pub(crate) fn new(order: &Arc<Order>, seed: u64, state: &State, end: u64) -> Self {
        let mut cursor = Cursor::at(Arc::clone(order), seed, &state.mark);
        for _ in 0..state.since {
            cursor.next();
        }
        let mut this = Self { cursor, state: state.clone(), end };
        this.mark();
        this
    }

    /// The next at most `count` items of an epoch, put in `items`; `None` when all epochs are over.
    pub(crate) fn next(&mut self, count: usize, items: &mut Vec<Item>) -> Option<Ticket> {
        items.clear();
        if self.state.mark.epoch >= self.end {
            return None;
        }
        let before = self.state.clone();
        // a state from elsewhere may count items that are not there
        let mut is_over = false;
        while items.len() < count && !is_over {
            match self.cursor.next() {
                Some(item) => items.push(item),
                None => is_over = true,
            }
        }
        let ends = is_over || self.cursor.left() == 0;
        if ends {
            self.cursor.next_epoch();
        }
        self.state.since += items.len() as u64;
        self.mark();
        Some(Ticket { before, ends })
    }

    /// Makes a mark if it is worth its memory: a copy of a buffer for as many items as it holds.
    fn mark(&mut self) {
        if self.state.since >= self.cursor.buffered() as u64 {
            self.state = State { mark: Arc::new(self.cursor.mark()), since: 0, ..self.state.clone() };
        }
    }
}
