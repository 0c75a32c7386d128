//! Data sets and batches: parsing apart from I/O, a shuffle that needs no list, and workers that run ahead of the device.
//!
//! **Invariant:** which samples are in a batch, and how they are augmented, is a pure function of the seed, the epoch
//! and the sample's number: never of the number of workers or of their timing.

mod augment;
mod digits;
mod loader;
mod permutation;

pub use augment::Augment;
pub use digits::{DIGITS_TEST_PERCENT, digits, parse_digits};
pub use loader::{Batch, HostTimes, Loader, LoaderOptions, Order};
pub use permutation::Permutation;

use crate::error::Result;

/// A set of labelled pictures, all of one shape.
///
/// Pixels stay bytes up to the device, where they become `pixel * scale + offset`: a fourth of the traffic of floats.
pub trait Dataset: Send + Sync {
    /// Its name, as in `--dataset`.
    fn name(&self) -> &str;

    /// Number of samples.
    fn len(&self) -> usize;

    /// True if there is no sample.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of classes; labels lie below it.
    fn classes(&self) -> usize;

    /// Shape of one sample, `[channels, height, width]`.
    fn sample_shape(&self) -> [usize; 3];

    /// `(scale, offset)` that turn a byte into the number that the model sees.
    fn normalization(&self) -> (f32, f32);

    /// Writes the pixels of sample `index`, `[channels, height, width]`, and returns its label.
    fn get(&self, index: usize, pixels: &mut [u8]) -> Result<u32>;
}

/// A data set's two parts.
pub struct Split<D> {
    /// What the model learns from.
    pub train: D,
    /// What it is judged by, never trained on.
    pub test: D,
}

/// Samples held in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct InMemory {
    name: String,
    classes: usize,
    shape: [usize; 3],
    normalization: (f32, f32),
    pixels: Vec<u8>,
    labels: Vec<u32>,
}

impl InMemory {
    /// Samples of `shape` `[channels, height, width]`, one after the other in `pixels`, with a label below `classes` each.
    ///
    /// # Panics
    /// If the number of pixels does not fit the number of labels, or a label is not below `classes`.
    #[track_caller]
    pub fn new(
        name: impl Into<String>,
        classes: usize,
        shape: [usize; 3],
        normalization: (f32, f32),
        pixels: Vec<u8>,
        labels: Vec<u32>,
    ) -> Self {
        let size: usize = shape.iter().product();
        assert_eq!(pixels.len(), labels.len() * size, "{} labels need {size} pixels each", labels.len());
        assert!(labels.iter().all(|&label| (label as usize) < classes), "a label is not below {classes}");
        Self { name: name.into(), classes, shape, normalization, pixels, labels }
    }

    /// The labels of all samples, in order.
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// The samples with these numbers, in this order.
    fn select(&self, indices: &[usize]) -> Self {
        let size: usize = self.shape.iter().product();
        let pixels = indices.iter().flat_map(|&i| self.pixels[i * size..(i + 1) * size].iter().copied()).collect();
        let labels = indices.iter().map(|&i| self.labels[i]).collect();
        Self { name: self.name.clone(), pixels, labels, ..*self }
    }

    /// Holds out `test_percent` of each class (rounded), chosen by `key`; both parts keep the order of the file.
    pub fn split_stratified(&self, test_percent: usize, key: u64) -> Split<Self> {
        let mut in_test = vec![false; self.labels.len()];
        for class in 0..self.classes {
            let members: Vec<usize> = (0..self.labels.len()).filter(|&i| self.labels[i] as usize == class).collect();
            let held_out = (members.len() * test_percent + 50) / 100;
            let order = Permutation::new(members.len(), &[key, class as u64]);
            for position in 0..held_out {
                in_test[members[order.get(position)]] = true;
            }
        }
        let (test, train): (Vec<usize>, Vec<usize>) = (0..self.labels.len()).partition(|&i| in_test[i]);
        Split { train: self.select(&train), test: self.select(&test) }
    }
}

impl Dataset for InMemory {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> usize {
        self.labels.len()
    }

    fn classes(&self) -> usize {
        self.classes
    }

    fn sample_shape(&self) -> [usize; 3] {
        self.shape
    }

    fn normalization(&self) -> (f32, f32) {
        self.normalization
    }

    fn get(&self, index: usize, pixels: &mut [u8]) -> Result<u32> {
        let size = pixels.len();
        pixels.copy_from_slice(&self.pixels[index * size..(index + 1) * size]);
        Ok(self.labels[index])
    }
}
