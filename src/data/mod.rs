//! Data sets and batches: parsing apart from I/O, a shuffle that needs no list, and workers that run ahead of the device.
//!
//! **Invariant:** which samples are in a batch, and how they are augmented, is a pure function of the seed, the epoch
//! and the sample's number: never of the number of workers or of their timing.

mod augment;
mod batch;
mod dataset;
#[cfg(feature = "download")]
mod download;
mod files;
mod loader;
mod memory;
mod permutation;
mod sample;
mod sets;

pub use augment::Augment;
pub use batch::{Batch, HostTimes, Targets, Upload};
pub use dataset::{Dataset, Description, Goal, Normalization, Split};
pub use loader::{Loader, LoaderOptions, Order};
pub use memory::InMemory;
pub use permutation::Permutation;
pub use sample::{IGNORED, Sample, Target, Values};
pub use sets::{
    Cifar, ClassFolders, DIGITS_TEST_PERCENT, DatasetName, Masked, OpenOptions, PUBLISHED, Progress, Published,
    PublishedFile, Shapes, ShapesOptions, Table, digits, fetch, open, open_csv, open_folder, open_pairs, parse_cifar,
    parse_csv, parse_digits, parse_idx,
};
#[cfg(feature = "cli")]
pub(crate) use sets::{FORMS, missing};
