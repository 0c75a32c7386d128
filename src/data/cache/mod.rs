//! Samples that are kept, so that they are read and worked on only once, but for those that two workers need at one
//! moment.

mod disk;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::OnceLock;

use super::{Sample, Target, Values};
use crate::error::Result;
use disk::Disk;

/// Where [`Pipeline::cache`](super::Pipeline::cache) keeps samples.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cache {
    /// In memory: for data that fits.
    Memory,
    /// In one file, which later runs use again. It is bound to the [data set](super::Dataset::identity), its size, and
    /// the operations before it, with the seed if there is a `map`; what that does is not known, so remove the file
    /// when one is changed.
    Disk(PathBuf),
}

/// The samples that a pipeline has kept.
pub(super) enum Store {
    Memory(Box<[OnceLock<Sample>]>),
    Disk(Disk),
}

impl Store {
    pub(super) fn new(cache: Cache, samples: usize) -> Self {
        match cache {
            Cache::Memory => Self::Memory((0..samples).map(|_| OnceLock::new()).collect()),
            Cache::Disk(path) => Self::Disk(Disk::new(path)),
        }
    }

    /// Opens it, for this many samples of a data set after operations in words.
    pub(super) fn prepare(&self, name: &str, samples: usize, before: &str) -> Result<()> {
        match self {
            Self::Memory(_) => Ok(()),
            Self::Disk(disk) => disk
                .open(&format!("{samples} samples of {name}, {}", [before, "as read"][usize::from(before.is_empty())])),
        }
    }

    pub(super) const fn is_in_memory(&self) -> bool {
        matches!(self, Self::Memory(_))
    }

    /// Puts the sample of this number in `sample`, if it is there.
    pub(super) fn get(&self, index: usize, sample: &mut Sample) -> Result<bool> {
        match self {
            Self::Memory(samples) => Ok(samples[index].get().map(|kept| copy(kept, sample)).is_some()),
            Self::Disk(disk) => disk.get(index as u64, sample),
        }
    }

    /// Keeps a sample. If two threads come at once, it does not matter whose is kept: they are equal.
    pub(super) fn put(&self, index: usize, sample: &Sample) -> Result<()> {
        match self {
            Self::Memory(samples) => {
                let _ = samples[index].set(sample.clone());
                Ok(())
            }
            Self::Disk(disk) => disk.put(index as u64, sample),
        }
    }
}

/// `from` in the memory of `to`.
fn copy(from: &Sample, to: &mut Sample) {
    to.shape.clone_from(&from.shape);
    match (&from.input, &mut to.input) {
        (Values::U8(from), Values::U8(to)) => to.clone_from(from),
        (Values::F32(from), Values::F32(to)) => to.clone_from(from),
        (from, to) => *to = from.clone(),
    }
    match (&from.target, &mut to.target) {
        (Target::Mask(from), Target::Mask(to)) => to.clone_from(from),
        (Target::Numbers(from), Target::Numbers(to)) => to.clone_from(from),
        (from, to) => *to = from.clone(),
    }
}
