//! Threads that read, work on and batch samples ahead of the device.

mod assemble;
mod rows;
mod work;

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

use super::augment::Mixer;
use super::pipeline::{Dispenser, Pipeline, State};
use super::{Batch, HostTimes};
use crate::error::{Error, Result};
use assemble::Assembler;
use rows::Rows;
use work::Shared;

/// Messages that are kept of samples that were skipped.
const MESSAGES: usize = 8;

/// Samples that could not be used.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Skipped {
    /// How many there were.
    pub count: usize,
    /// What was wrong with the first few, with the names of their files; each once, though every epoch meets them.
    pub messages: Vec<String>,
}

impl Skipped {
    fn add(&mut self, broken: Vec<Error>) {
        self.count += broken.len();
        broken.iter().for_each(|error| self.note(error.to_string()));
    }

    fn merge(&mut self, other: Self) {
        self.count += other.count;
        other.messages.into_iter().for_each(|message| self.note(message));
    }

    fn note(&mut self, message: String) {
        if self.messages.len() < MESSAGES && !self.messages.contains(&message) {
            self.messages.push(message);
        }
    }
}

/// What comes from the thread that makes batches.
struct Delivery {
    batch: Result<Batch>,
    /// Broken samples that were met since the delivery before.
    skipped: Skipped,
}

/// The batches of a [`Pipeline`], in an order that does not depend on how many threads make them.
///
/// Each worker takes the numbers of a batch's worth of samples, makes them, and puts them where they belong in the
/// order; one more thread makes batches of them. At most `prefetch + 2 · workers + 3` batches are in memory, however
/// long the data is, beside the one that is in use. Dropping a loader ends its threads.
pub struct Loader {
    /// `None` once it is dropped.
    batches: Option<Receiver<Delivery>>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    state: State,
    skipped: Skipped,
}

impl fmt::Debug for Loader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loader").field("state", &self.state).field("skipped", &self.skipped).finish_non_exhaustive()
    }
}

impl Loader {
    /// Starts the threads of a pipeline that was checked.
    pub(super) fn new(pipeline: &Pipeline, state: &State) -> Result<Self> {
        let Pipeline { order, seed, workers, batch, last, .. } = pipeline;
        let recipe = Arc::new(pipeline.recipe()?);
        let dispenser = Dispenser::new(order, *seed, state, pipeline.epochs.map_or(u64::MAX, |epochs| epochs as u64));
        let shared = Arc::new(Shared::new(dispenser, *batch, 2 * workers));
        let (to, batches) = sync_channel(pipeline.prefetch);
        let assembler = Assembler {
            shared: Arc::clone(&shared),
            recipe: Arc::clone(&recipe),
            order: Arc::clone(order),
            rows: *batch,
            last: *last,
            to,
            state: state.clone(),
            rest: Rows::default(),
            held: None,
            times: HostTimes::default(),
            clock: Instant::now(),
            skipped: Skipped::default(),
            mixer: Mixer::default(),
        };
        let mut this = Self {
            batches: Some(batches),
            shared,
            threads: Vec::new(),
            state: state.clone(),
            skipped: Skipped::default(),
        };
        this.spawn("brasa-batches".into(), move || assembler.run())?;
        for number in 0..*workers {
            let (shared, recipe, strict) = (Arc::clone(&this.shared), Arc::clone(&recipe), pipeline.strict);
            this.spawn(format!("brasa-worker-{number}"), move || shared.work(number, &recipe, strict))?;
        }
        Ok(this)
    }

    fn spawn(&mut self, name: String, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = std::thread::Builder::new().name(name.clone()).spawn(work);
        self.threads.push(thread.map_err(|source| Error::io(name, source))?);
        Ok(())
    }

    /// Where the data is behind the last batch that was taken; [`Batch::state`] says it of each.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The samples that were skipped so far because they are broken.
    pub fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    /// Gives the memory of a batch back, so that later ones need none of their own.
    pub fn recycle(&self, batch: Batch) {
        self.shared.recycle(Rows::recycled(batch));
    }
}

impl Iterator for Loader {
    type Item = Result<Batch>;

    /// The next batch; waits for it if it is not ready. `None` after the last one, or after an error.
    fn next(&mut self) -> Option<Result<Batch>> {
        // the sender is gone when all were made, or after an error
        let Delivery { batch, skipped } = self.batches.as_ref()?.recv().ok()?;
        self.skipped.merge(skipped);
        if let Ok(batch) = &batch {
            self.state = batch.state.clone();
        }
        Some(batch)
    }
}

impl Drop for Loader {
    /// Tells the threads to stop and waits for them.
    fn drop(&mut self) {
        self.batches = None;
        self.shared.stop();
        for thread in self.threads.drain(..) {
            // they catch the panics of what they call
            let _ = thread.join();
        }
    }
}
