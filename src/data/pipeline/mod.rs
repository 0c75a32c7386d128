//! From a data set to batches.
//!
//! A [`Pipeline`] is a description: methods add to it and nothing is read. [`Pipeline::start`] starts its threads and
//! gives a [`Loader`], an iterator of batches.
//!
//! ```
//! use std::sync::Arc;
//!
//! use brasa::data::{Cache, Last, On, Pipeline, digits};
//!
//! let data = digits()?;
//! let pipeline = Pipeline::new(Arc::new(data.train))
//!     .shuffle()
//!     .filter(|sample| sample.shape == [1, 8, 8])
//!     .cache(Cache::Memory)
//!     .map(|sample, random| {
//!         let brighter = random.below(4) as u8;
//!         sample.input.as_bytes_mut().iter_mut().for_each(|pixel| *pixel = pixel.saturating_add(brighter));
//!         Ok(())
//!     })
//!     .augment("crop=1,rotate=10".parse()?, On::Host)
//!     .batch(64, Last::Drop)
//!     .seed(7)
//!     .epochs(3);
//!
//! let mut batches = pipeline.start()?;
//! let first = batches.next().expect("a batch")?;
//! assert_eq!(first.shape, [64, 1, 8, 8]);
//!
//! // a checkpoint holds the state; another run goes on with exactly the next batch
//! let state = serde_json::to_string(&first.state).unwrap();
//! let mut resumed = pipeline.resume(&serde_json::from_str(&state).unwrap())?;
//! let (next, again) = (batches.next().expect("a batch")?, resumed.next().expect("a batch")?);
//! assert_eq!(next.inputs, again.inputs);
//! # Ok::<(), brasa::Error>(())
//! ```
//!
//! # What happens when
//!
//! **Order** is work on numbers. [`skip`](Pipeline::skip), [`take`](Pipeline::take), [`shard`](Pipeline::shard),
//! [`interleave`](Pipeline::interleave), [`shuffle`](Pipeline::shuffle), [`shuffle_buffer`](Pipeline::shuffle_buffer)
//! and [`weighted`](Pipeline::weighted) say, in the order in which they are called, which samples are due. No sample is
//! read for that, so a shuffle of a million pictures is as quick to start as one of ten, and it needs no list.
//!
//! **Samples** are work for threads. Each worker takes the numbers of a batch's worth of samples, reads them from the
//! data set, and carries out [`map`](Pipeline::map), [`filter`](Pipeline::filter), [`resize`](Pipeline::resize) and
//! [`cache`](Pipeline::cache) in the order in which they were called, whatever was called in between. The
//! [augmentation](Pipeline::augment) comes last.
//!
//! **Batches** are filled with what is left: a sample that was filtered out, or skipped because it is broken, leaves no
//! hole. No batch has samples of two epochs. What happens to the samples at the end of one that do not fill a batch is
//! for [`batch`](Pipeline::batch) to say.
//!
//! # What is random
//!
//! Each epoch's order is a function of the seed and the epoch; what is random in an operation on a sample is a function
//! of the seed, the epoch, the sample's number and the operation's place. Neither the number of workers nor their
//! timing changes a bit. What comes before a cache is the same in every epoch.
//!
//! # What is broken
//!
//! A sample that cannot be read, whose label is out of range, or for which a `map` returns an error, is skipped,
//! counted and [named](Loader::skipped); with [`strict`](Pipeline::strict) it is the error that ends the batches.
//! Everything else that goes wrong ends them, too: a cache that cannot be written, an operation that panics, pictures
//! of different sizes in one batch, an epoch without a batch.

mod format;
mod operation;
mod order;
mod resize;
mod state;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use super::cache::Store;
use super::{Augment, Cache, Dataset, Description, Goal, Loader, Random, Sample};
use crate::error::{Error, Result};
use operation::Operation;

pub use format::{Format, Labels, Received};
pub(crate) use operation::{Failure, Recipe, Scratch};
pub(crate) use order::{Item, Order};
pub use resize::Resize;
pub use state::State;
pub(crate) use state::{Dispenser, Ticket};

/// What becomes of the samples at the end of an epoch that do not fill a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Last {
    /// They are a smaller batch.
    #[default]
    Keep,
    /// They are a smaller batch, unless it is a single sample, which is left out: a batch norm finds no variance in it,
    /// and its gradient is as noisy as one can be. An epoch that has no other sample keeps it.
    KeepSeveral,
    /// They are left out.
    Drop,
    /// They are a batch that is filled with zeros, which [`Batch::weights`](super::Batch::weights) tell apart.
    Pad,
}

/// Who augments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum On {
    /// The worker threads.
    #[default]
    Host,
    /// The device that trains, as it receives batches: the host only draws the random numbers.
    Device,
}

/// Numbers that a shuffle buffer holds at most: in a checkpoint they are some 50 MB of a header that may have 100.
const MAX_BUFFERED: usize = 1 << 22;

/// How a data set becomes batches; see the [module](self).
#[derive(Clone)]
pub struct Pipeline {
    pub(super) data: Arc<dyn Dataset>,
    pub(super) order: Arc<Order>,
    operations: Vec<Operation>,
    description: Description,
    augment: Augment,
    on: On,
    pub(super) batch: usize,
    pub(super) last: Last,
    pub(super) epochs: Option<usize>,
    pub(super) prefetch: usize,
    pub(super) workers: usize,
    pub(super) seed: u64,
    pub(super) strict: bool,
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline")
            .field("data", &self.data)
            .field("batch", &self.batch)
            .field("last", &self.last)
            .field("epochs", &self.epochs)
            .field("seed", &self.seed)
            .field("workers", &self.workers)
            .field("prefetch", &self.prefetch)
            .finish_non_exhaustive()
    }
}

impl Pipeline {
    /// All samples of `data` as they lie, once, in batches of 32, made by as many workers as there are cores, at most
    /// 8.
    pub fn new(data: Arc<dyn Dataset>) -> Self {
        Self {
            order: Arc::new(Order::all(data.len())),
            operations: Vec::new(),
            description: data.description().clone(),
            data,
            augment: Augment::default(),
            on: On::default(),
            batch: 32,
            last: Last::default(),
            epochs: Some(1),
            prefetch: 4,
            workers: std::thread::available_parallelism().map_or(2, |cores| cores.get().min(8)),
            seed: 0,
            strict: false,
        }
    }

    fn ordered(mut self, change: impl FnOnce(&mut Order)) -> Self {
        change(Arc::make_mut(&mut self.order));
        self
    }

    /// Leaves out the first `count` samples of each epoch.
    #[must_use]
    pub fn skip(self, count: usize) -> Self {
        self.uncounted().ordered(|order| order.skip(count))
    }

    /// Ends each epoch after `count` samples.
    #[must_use]
    pub fn take(self, count: usize) -> Self {
        self.uncounted().ordered(|order| order.take(count))
    }

    /// Every `count`th sample, from number `index` on: one of `count` parts of the data, for one of `count` machines.
    ///
    /// # Panics
    /// If there is no such part.
    #[must_use]
    #[track_caller]
    pub fn shard(self, index: usize, count: usize) -> Self {
        assert!(index < count, "shard: there is no part {index} of {count}");
        self.uncounted().ordered(|order| order.shard(index, count))
    }

    /// In random order, another one in each epoch. All of what comes before is shuffled, in constant memory; where
    /// samples are best read as they lie, such as from an archive, [`Pipeline::shuffle_buffer`] is quicker.
    ///
    /// # Panics
    /// Behind a shuffle buffer.
    #[must_use]
    #[track_caller]
    pub fn shuffle(self) -> Self {
        self.ordered(Order::shuffle)
    }

    /// In an order that is random within reach of a buffer: each sample is drawn from the next `size` that are due. The
    /// buffer holds numbers, not samples. Checkpoints have them, so it is for reading in places that are near each
    /// other; [`shuffle`](Self::shuffle) needs none.
    ///
    /// # Panics
    /// If `size` is 0, or it would hold more than 4,194,304 numbers.
    #[must_use]
    #[track_caller]
    pub fn shuffle_buffer(self, size: usize) -> Self {
        assert!(size > 0, "shuffle_buffer: nothing can be drawn from a buffer of 0");
        let held = size.min(self.samples_per_epoch());
        assert!(
            held <= MAX_BUFFERED,
            "shuffle_buffer: {held} numbers, at most {MAX_BUFFERED} fit in checkpoints; `shuffle` needs no buffer"
        );
        self.ordered(|order| order.shuffle_buffer(size))
    }

    /// From `streams` places at once: what comes before is cut in as many parts of equal length, such as the archives
    /// it lies in, and `block` samples are taken from each in turn.
    ///
    /// # Panics
    /// If one of them is 0, or behind a shuffle buffer.
    #[must_use]
    #[track_caller]
    pub fn interleave(self, streams: usize, block: usize) -> Self {
        assert!(streams > 0 && block > 0, "interleave: {streams} streams in blocks of {block}");
        self.ordered(|order| order.interleave(streams, block))
    }

    /// As many samples as there are, each drawn with a probability in proportion to its weight, whatever was drawn
    /// before: rare classes can be shown as often as common ones. `weights[i]` is that of sample `i` of the data set. A
    /// sample that comes twice in an epoch is augmented in two ways.
    ///
    /// # Panics
    /// If there is not a weight for each sample, one is negative or not finite, all are 0, or behind a shuffle.
    #[must_use]
    #[track_caller]
    pub fn weighted(self, weights: &[f64]) -> Self {
        self.uncounted().ordered(|order| order.weighted(weights))
    }

    fn operation(mut self, operation: Operation) -> Self {
        self.operations.push(operation);
        self
    }

    /// Which samples there are of each class is no longer what was told.
    fn uncounted(mut self) -> Self {
        self.description.counts = None;
        self
    }

    /// Changes each sample. If it changes the shape, say so with [`Pipeline::described`]. An error makes the sample a
    /// broken one.
    #[must_use]
    pub fn map(self, map: impl Fn(&mut Sample, &mut Random) -> Result<()> + Send + Sync + 'static) -> Self {
        self.uncounted().operation(Operation::Map(Arc::new(map)))
    }

    /// Leaves out the samples that `keep` says no to.
    #[must_use]
    pub fn filter(self, keep: impl Fn(&Sample) -> bool + Send + Sync + 'static) -> Self {
        self.uncounted().operation(Operation::Filter(Arc::new(keep)))
    }

    /// Brings pictures and masks to one size; see [`Resize`].
    ///
    /// # Panics
    /// If a side is 0, or samples are not pictures.
    #[must_use]
    #[track_caller]
    pub fn resize(mut self, height: usize, width: usize) -> Self {
        assert!(height > 0 && width > 0, "resize: no picture is {height}x{width}");
        let shape = &mut self.description.shape;
        assert!(shape.len() == 3, "resize: a sample of {:?} is not a picture", shape);
        shape[1..].copy_from_slice(&[height, width]);
        self.operation(Operation::Resize(Resize { height, width }))
    }

    /// Keeps samples as they are at this place, so that what comes before is done only once. That is also why it is the
    /// same in every epoch: what is to be random comes behind. Clones of the pipeline share what is kept.
    #[must_use]
    pub fn cache(self, cache: Cache) -> Self {
        let store = Store::new(cache, self.data.len());
        self.operation(Operation::Cache(Arc::new(store)))
    }

    /// Changes pictures at random, here or on the device, after everything else. The last call counts.
    #[must_use]
    pub fn augment(mut self, augment: Augment, on: On) -> Self {
        (self.augment, self.on) = (augment, on);
        self
    }

    /// Says what samples are behind a [`Pipeline::map`] that changes their shape or their classes.
    #[must_use]
    pub fn described(mut self, description: Description) -> Self {
        self.description = description;
        self
    }

    /// Batches of `size` samples; of 32, the last one kept, if nothing is said.
    ///
    /// # Panics
    /// If `size` is 0.
    #[must_use]
    #[track_caller]
    pub fn batch(mut self, size: usize, last: Last) -> Self {
        assert!(size > 0, "batch: a batch has at least one sample");
        (self.batch, self.last) = (size, last);
        self
    }

    /// Passes over the data, one after the other; 1 if nothing is said.
    #[must_use]
    pub fn epochs(mut self, count: usize) -> Self {
        self.epochs = Some(count);
        self
    }

    /// Passes over the data without end.
    #[must_use]
    pub fn repeat(mut self) -> Self {
        self.epochs = None;
        self
    }

    /// Batches that may be ready before anybody asks for them; 4 if nothing is said.
    #[must_use]
    pub fn prefetch(mut self, batches: usize) -> Self {
        self.prefetch = batches;
        self
    }

    /// Threads that make samples; changes nothing but the speed.
    ///
    /// # Panics
    /// If `count` is 0.
    #[must_use]
    #[track_caller]
    pub fn workers(mut self, count: usize) -> Self {
        assert!(count > 0, "workers: somebody has to make the samples");
        self.workers = count;
        self
    }

    /// Decides everything that is random; 0 if nothing is said.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        if seed != self.seed {
            self.forget_what_is_random();
        }
        self.seed = seed;
        self
    }

    /// Clones share what they keep in memory; what is random in it is another thing with another seed.
    fn forget_what_is_random(&mut self) {
        let samples = self.data.len();
        let mut is_random = false;
        for operation in &mut self.operations {
            match operation {
                Operation::Map(_) => is_random = true,
                Operation::Cache(store) if is_random && store.is_in_memory() => {
                    *store = Arc::new(Store::new(Cache::Memory, samples));
                }
                _ => {}
            }
        }
    }

    /// Whether a broken sample ends the batches with an error; if nothing is said, it is skipped.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// What the samples are behind all operations.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// What a batch uploads, and how the device takes it in.
    pub fn format(&self) -> Format {
        Format { description: self.description.clone(), augment: self.augment.clone(), on: self.on }
    }

    /// Samples in an epoch, if none is filtered out or broken.
    pub fn samples_per_epoch(&self) -> usize {
        self.order.len() as usize
    }

    /// Samples in a batch, at most; 32 if nothing was said.
    pub fn batch_size(&self) -> usize {
        self.batch
    }

    /// Batches in an epoch, if no sample is filtered out or broken; else there may be fewer.
    /// [`Batch::last`](super::Batch::last) says which one is the last.
    pub fn batches_per_epoch(&self) -> usize {
        self.batches_of(self.samples_per_epoch())
    }

    /// Batches of as many samples as are left in an epoch.
    pub(crate) fn batches_of(&self, samples: usize) -> usize {
        let (whole, rest) = (samples / self.batch, samples % self.batch);
        let is_kept = match self.last {
            Last::Drop => false,
            Last::Keep | Last::Pad => rest > 0,
            Last::KeepSeveral => rest > 1 || rest == 1 && whole == 0,
        };
        whole + usize::from(is_kept)
    }

    /// Starts the workers at the beginning.
    ///
    /// # Errors
    /// If a cache cannot be opened, or the augmentation does not suit the samples.
    pub fn start(&self) -> Result<Loader> {
        self.resume(&self.beginning())
    }

    /// The state before the first batch.
    pub fn beginning(&self) -> State {
        self.beginning_of(0)
    }

    /// The state before the first batch of an epoch.
    pub(crate) fn beginning_of(&self, epoch: usize) -> State {
        State::start(&self.order, self.seed, epoch as u64)
    }

    /// Whether the order is random already.
    pub(crate) fn is_shuffled(&self) -> bool {
        self.order.is_random()
    }

    /// Starts the workers behind the batch that `state` comes from. Operations, sizes of batches and epochs may differ
    /// from those of the run before; the data set's size, the order and the seed may not.
    ///
    /// # Errors
    /// As [`Pipeline::start`], and [`Error::Resume`] if the state is one of another pipeline.
    pub fn resume(&self, state: &State) -> Result<Loader> {
        state.check(&self.order, self.seed)?;
        Loader::new(self, state)
    }

    /// # Errors
    /// Those of [`Pipeline::resume`], before anything is started.
    pub(crate) fn accepts(&self, state: &State) -> Result<()> {
        state.check(&self.order, self.seed)?;
        self.recipe().map(drop)
    }

    /// All that the workers have to know.
    pub(super) fn recipe(&self) -> Result<Recipe> {
        let wrong = |what: &str| Err(Error::Config(format!("{}: {what}", self.description.name)));
        if !self.augment.is_none() && self.description.shape.len() != 3 {
            return wrong("only pictures can be augmented");
        }
        if self.augment.mixes() && self.description.goal != Goal::Classify {
            return wrong("mixup and cutmix mix classes of whole pictures; leave them out for masks and numbers");
        }
        let recipe = Recipe {
            data: Arc::clone(&self.data),
            operations: self.operations.clone(),
            augment: self.augment.clone(),
            on: self.on,
            seed: self.seed,
            description: self.description.clone(),
        };
        recipe.prepare()?;
        Ok(recipe)
    }
}
