//! Chunks, in order, become batches.

use std::mem::take;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Instant;

use super::rows::Rows;
use super::work::{Chunk, Shared};
use super::{Delivery, Skipped};
use crate::data::augment::{self, identity};
use crate::data::pipeline::{On, Order, Recipe, State};
use crate::data::{Batch, HostTimes, Last, Work};
use crate::error::Error;
use crate::stage::Stage;

/// Puts batches together. It runs on a thread of its own, so that whoever takes batches only waits for them.
pub(super) struct Assembler {
    pub(super) shared: Arc<Shared>,
    pub(super) recipe: Arc<Recipe>,
    pub(super) order: Arc<Order>,
    pub(super) rows: usize,
    pub(super) last: Last,
    pub(super) to: SyncSender<Delivery>,
    /// Where the batches that were made end.
    pub(super) state: State,
    /// Samples that are no batch yet.
    pub(super) rest: Rows,
    /// A batch of which it is not known whether it is the last one of its epoch.
    pub(super) held: Option<Batch>,
    /// What took time for the chunks behind the last batch, and for the work on it here.
    pub(super) times: HostTimes,
    /// When the part that is being timed began.
    pub(super) clock: Instant,
    pub(super) skipped: Skipped,
    pub(super) mixer: augment::Mixer,
}

/// Nobody takes batches any more.
struct Gone;

impl Assembler {
    /// Works until all batches are made, something fails, or nobody takes them.
    pub(super) fn run(mut self) {
        let worked = catch_unwind(AssertUnwindSafe(|| {
            while let Some(chunk) = self.shared.take() {
                if self.add(chunk).is_err() {
                    break;
                }
            }
        }));
        if worked.is_err() {
            // a bug here must not look like the end of the data
            let error = Error::Config("the thread that makes batches panicked: please report its message".into());
            let _ = self.send(Err(error));
        }
        self.shared.stop();
    }

    fn add(&mut self, mut chunk: Chunk) -> Result<(), Gone> {
        self.clock = Instant::now();
        self.times.add(take(&mut chunk.times));
        self.skipped.add(take(&mut chunk.broken));
        let whole = chunk.rows.len();
        let mut first = 0;
        while first < whole {
            let count = (self.rows - self.rest.len()).min(whole - first);
            if count == whole && self.rest.is_empty() {
                std::mem::swap(&mut self.rest, &mut chunk.rows);
            } else if let Err(error) = self.rest.append(&chunk.rows, first, count, self.rows) {
                chunk.failure = Some(error);
                break;
            }
            first += count;
            if self.rest.len() == self.rows {
                let samples = self.state.samples() + self.rows;
                let used = u64::from(chunk.places[first - 1]) + 1;
                self.state = chunk.ticket.before.after(samples as u64, used);
                self.make()?;
            }
        }
        self.shared.recycle(chunk.rows);
        if let Some(error) = chunk.failure {
            return self.fail(error);
        }
        if chunk.ticket.ends { self.end_epoch() } else { Ok(()) }
    }

    /// Makes a batch of the samples that are there; it is handed over when it is known whether it is the last one.
    fn make(&mut self) -> Result<(), Gone> {
        let batch = self.batch();
        let before = self.held.replace(batch);
        before.map_or(Ok(()), |before| self.send(Ok(before)))
    }

    fn batch(&mut self) -> Batch {
        let mut rows = take(&mut self.rest);
        let samples = rows.len();
        if self.last == Last::Pad && samples < self.rows {
            rows.pad(self.rows, &identity());
        }
        let count = if self.last == Last::Pad { self.rows } else { samples };
        let (epoch, seed) = (self.state.epoch(), self.recipe.seed);
        let augment = &self.recipe.augment;
        let mixed = augment.mixes().then(|| {
            let first = rows.items[0];
            let key = [seed, epoch as u64, first.sample, first.draw];
            self.mixer.draw(augment, &key, samples, &rows.shape)
        });
        if let Some(mixed) = &mixed {
            rows.targets = mixed.targets(rows.targets);
            match self.recipe.on {
                On::Host => self.mixer.apply(mixed, rows.inputs.as_bytes_mut(), &rows.shape),
                On::Device => mixed.write(&mut rows.parameters),
            }
        }
        let mut shape = vec![count];
        shape.extend(&rows.shape);
        let mut weights = vec![1.0; samples];
        weights.resize(count, 0.0);
        let mut times = take(&mut self.times);
        let (start, end) = (self.clock, Instant::now());
        times.batch += end - start;
        times.work.push(Work { worker: None, stage: Stage::Batch, start, end });
        let on_device = self.recipe.on == On::Device && !augment.is_none();
        Batch {
            epoch,
            samples,
            shape,
            inputs: rows.inputs,
            targets: rows.targets,
            weights,
            parameters: on_device.then_some(rows.parameters),
            indices: rows.items.iter().map(|item| item.sample as usize).collect(),
            last: false,
            state: self.state.clone(),
            times,
        }
    }

    fn end_epoch(&mut self) -> Result<(), Gone> {
        let number = self.state.epoch() as u64;
        let is_resumed = self.state.samples() > 0;
        let is_kept = match self.last {
            Last::Drop => false,
            Last::Keep | Last::Pad => true,
            Last::KeepSeveral => self.rest.len() > 1 || self.held.is_none() && !is_resumed,
        };
        if !is_kept {
            self.shared.recycle(take(&mut self.rest));
        } else if !self.rest.is_empty() {
            self.make()?;
        }
        self.state = State::start(&self.order, self.recipe.seed, number + 1);
        match self.held.take() {
            Some(held) => self.send(Ok(Batch { last: true, state: self.state.clone(), ..held })),
            None if is_resumed => Ok(()),
            None => self.fail(self.nothing(number)),
        }
    }

    /// Why an epoch has no batch.
    fn nothing(&self, epoch: u64) -> Error {
        let (name, items) = (&self.recipe.description.name, self.order.len());
        let broken = match self.skipped.messages.first() {
            Some(first) => format!(", and {} are broken, such as {first}", self.skipped.count),
            None => String::new(),
        };
        Error::Config(format!(
            "{name}: epoch {} has no batch: of {items} samples too few are left for one of {}{broken}",
            epoch + 1,
            self.rows
        ))
    }

    fn send(&mut self, batch: crate::Result<Batch>) -> Result<(), Gone> {
        let sent = self.to.send(Delivery { batch, skipped: take(&mut self.skipped) });
        // what it waited is no work
        self.clock = Instant::now();
        sent.map_err(|_| Gone)
    }

    /// Hands over what is whole, then the error.
    fn fail(&mut self, error: Error) -> Result<(), Gone> {
        if let Some(held) = self.held.take() {
            self.send(Ok(held))?;
        }
        self.send(Err(error))?;
        Err(Gone)
    }
}
