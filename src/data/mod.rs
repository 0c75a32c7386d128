//! Data sets, and the way from them to batches.
//!
//! A [`Dataset`] reads samples by their number. A [`Pipeline`] says in which order they come, what is done to each, and
//! how they are put together; started, it is a [`Loader`] whose threads run ahead of the device. [`pipeline`] is the
//! manual, and [`augment`] lists what can be done to pictures at random.
//!
//! **Invariant:** which samples are in a batch, and how they are augmented, is a pure function of the seed, the epoch
//! and the sample's number: never of the number of workers or of their timing.

pub mod augment;
mod batch;
mod cache;
mod dataset;
#[cfg(feature = "download")]
mod download;
mod files;
mod loader;
mod memory;
mod permutation;
pub mod pipeline;
mod random;
mod sample;
mod sets;
mod subset;

pub use augment::Augment;
pub use batch::{Batch, HostTimes, Targets, Upload, Work};
pub use cache::Cache;
pub use dataset::{Dataset, Description, Goal, Normalization, Split};
#[cfg(feature = "cli")]
pub(crate) use files::is_picture_name;
#[cfg(all(test, feature = "cli"))]
pub(crate) use files::read_mask;
pub(crate) use files::{MAX_PICTURE_BYTES, decode_picture, read_file};
pub use loader::{Loader, Skipped};
pub use memory::InMemory;
pub use permutation::Permutation;
pub use pipeline::{Format, Labels, Last, On, Pipeline, Received, Resize, State};
pub use random::Random;
pub use sample::{IGNORED, Sample, Target, Values};
#[cfg(feature = "ui")]
pub(crate) use sets::known_forms;
pub use sets::{
    Cifar, ClassFolders, Columns, DIGITS_TEST_PERCENT, DatasetName, Masked, OpenOptions, PUBLISHED, Progress,
    Published, PublishedFile, Shapes, ShapesOptions, Table, TableTarget, digits, fetch, open, open_csv, open_folder,
    open_pairs, parse_cifar, parse_csv, parse_digits, parse_idx,
};
#[cfg(feature = "cli")]
pub(crate) use sets::{FORMS, feature, find, has_names, missing, separator};
pub(crate) use sets::{UNNAMED, absolute};
pub use subset::Subset;
