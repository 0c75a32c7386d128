//! Data sets, and the way from them to batches.
//!
//! A [`Dataset`] reads samples by their number. A [`Pipeline`] says in which order they come, what is done to each, and how
//! they are put together; started, it is a [`Loader`] whose threads run ahead of the device. [`pipeline`] is the manual, and
//! [`augment`] lists what can be done to pictures at random.
//!
//! **Invariant:** which samples are in a batch, and how they are augmented, is a pure function of the seed, the epoch
//! and the sample's number: never of the number of workers or of their timing.

pub mod augment;
mod batch;
mod cache;
mod dataset;
mod digits;
mod loader;
mod memory;
mod permutation;
pub mod pipeline;
mod random;
mod sample;

pub use augment::Augment;
pub use batch::{Batch, HostTimes, Targets, Upload};
pub use cache::Cache;
pub use dataset::{Dataset, Description, Goal, Normalization, Split};
pub use digits::{DIGITS_TEST_PERCENT, digits, parse_digits};
pub use loader::{Loader, Skipped};
pub use memory::InMemory;
pub use permutation::Permutation;
pub use pipeline::{Format, Labels, Last, On, Pipeline, Received, Resize, State};
pub use random::Random;
pub use sample::{IGNORED, Sample, Target, Values};
