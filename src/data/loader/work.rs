//! The work of the threads: chunks of samples made side by side.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::rows::Rows;
use crate::data::HostTimes;
use crate::data::pipeline::{Dispenser, Failure, Item, On, Recipe, Scratch, Ticket};
use crate::error::{Error, panic_message};

/// What became of the items of a ticket.
pub(super) struct Chunk {
    pub(super) ticket: Ticket,
    /// Those of its items that became samples.
    pub(super) rows: Rows,
    /// The place of each of them among the items.
    pub(super) places: Vec<u32>,
    /// What was wrong with those that are broken.
    pub(super) broken: Vec<Error>,
    /// What keeps the rest from being made.
    pub(super) failure: Option<Error>,
    pub(super) times: HostTimes,
}

/// What the threads share. A lock is taken once for a chunk.
pub(super) struct Shared {
    inner: Mutex<Inner>,
    /// A chunk was finished, or all is over.
    finished: Condvar,
    /// There is room for another chunk, or all is over.
    room: Condvar,
    /// Chunks in the making, or made and not used.
    window: usize,
    /// Samples that a chunk has at most.
    size: usize,
}

struct Inner {
    dispenser: Dispenser,
    /// Chunks that were begun; the first is the next to be used.
    chunks: VecDeque<Option<Chunk>>,
    /// Number of the first of them.
    first: u64,
    /// True if there is nothing more to begin.
    ended: bool,
    stopped: bool,
    /// Memory of rows that were used.
    free: Vec<Rows>,
}

impl Shared {
    pub(super) fn new(dispenser: Dispenser, size: usize, window: usize) -> Self {
        let (chunks, free) = (VecDeque::new(), Vec::new());
        let inner = Mutex::new(Inner { dispenser, chunks, first: 0, ended: false, stopped: false, free });
        Self { inner, finished: Condvar::new(), room: Condvar::new(), window, size }
    }

    /// No thread panics while it holds the lock, except if it is out of memory.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the work of all threads, after what each is at.
    pub(super) fn stop(&self) {
        self.lock().stopped = true;
        self.finished.notify_all();
        self.room.notify_all();
    }

    /// Takes memory back.
    pub(super) fn recycle(&self, mut rows: Rows) {
        if !rows.has_memory() {
            return;
        }
        rows.clear();
        let mut inner = self.lock();
        if inner.free.len() < self.window {
            inner.free.push(rows);
        }
    }

    /// The next chunk in order, once it is finished; `None` when all are used, or all is over.
    pub(super) fn take(&self) -> Option<Chunk> {
        let mut inner = self.lock();
        loop {
            if inner.stopped {
                return None;
            }
            if let Some(chunk) = inner.chunks.front_mut().and_then(Option::take) {
                inner.chunks.pop_front();
                inner.first += 1;
                self.room.notify_one();
                return Some(chunk);
            }
            if inner.ended && inner.chunks.is_empty() {
                return None;
            }
            inner = self.finished.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Begins a chunk when there is room for one; `None` if there is nothing to begin.
    fn begin(&self, items: &mut Vec<Item>) -> Option<(u64, Ticket, Rows)> {
        let mut inner = self.lock();
        loop {
            if inner.stopped || inner.ended {
                return None;
            }
            if inner.chunks.len() < self.window {
                break;
            }
            inner = self.room.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        let Some(ticket) = inner.dispenser.next(self.size, items) else {
            inner.ended = true;
            self.finished.notify_all();
            self.room.notify_all();
            return None;
        };
        inner.chunks.push_back(None);
        let number = inner.first + inner.chunks.len() as u64 - 1;
        Some((number, ticket, inner.free.pop().unwrap_or_default()))
    }

    fn finish(&self, number: u64, chunk: Chunk) {
        let mut inner = self.lock();
        let place = (number - inner.first) as usize;
        inner.chunks[place] = Some(chunk);
        if place == 0 {
            self.finished.notify_one();
        }
    }

    /// Makes chunks until there is nothing more to do.
    pub(super) fn work(&self, worker: usize, recipe: &Recipe, strict: bool) {
        let (mut items, mut scratch) = (Vec::new(), Scratch::default());
        while let Some((number, ticket, rows)) = self.begin(&mut items) {
            let mut chunk = Chunk {
                ticket,
                rows,
                places: Vec::with_capacity(items.len()),
                broken: Vec::new(),
                failure: None,
                times: HostTimes::default(),
            };
            let (mut at, start) = (0, Instant::now());
            let made = catch_unwind(AssertUnwindSafe(|| {
                chunk.fill(recipe, strict, &items, self.size, &mut scratch, &mut at);
            }));
            if let Err(panic) = made {
                let said = panic_message(panic.as_ref()).unwrap_or("no message");
                let message = format!("sample {at}: an operation panicked: {said}");
                chunk.failure = Some(Error::format(&recipe.description.name, message));
                scratch = Scratch::default();
            }
            chunk.times.note(worker, start);
            self.finish(number, chunk);
        }
    }
}

impl Chunk {
    /// Makes the samples of `items`; `at` follows which one it is at.
    fn fill(
        &mut self,
        recipe: &Recipe,
        strict: bool,
        items: &[Item],
        size: usize,
        scratch: &mut Scratch,
        at: &mut u64,
    ) {
        for (place, &item) in items.iter().enumerate() {
            *at = item.sample;
            match recipe.make(item, self.ticket.before.epoch() as u64, scratch, &mut self.times) {
                Ok(true) => {
                    let start = Instant::now();
                    let is_later = recipe.on == On::Device && !recipe.augment.is_none();
                    let parameters = if is_later { &scratch.parameters[..] } else { &[] };
                    if let Err(error) = self.rows.push(&scratch.sample, item, parameters, size) {
                        self.failure = Some(error);
                        return;
                    }
                    self.places.push(place as u32);
                    self.times.batch += start.elapsed();
                }
                Ok(false) => {}
                Err(Failure::Sample(error)) if !strict => self.broken.push(error),
                Err(Failure::Sample(error) | Failure::Stream(error)) => {
                    self.failure = Some(error);
                    return;
                }
            }
        }
    }
}
