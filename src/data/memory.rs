//! Samples held in memory.

use crate::error::Result;

use super::{Dataset, Description, Goal, Normalization, Permutation, Sample, Split, Target};

/// Labelled pictures of one shape, held in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct InMemory {
    description: Description,
    pixels: Vec<u8>,
    labels: Vec<u32>,
}

impl InMemory {
    /// Pictures of `shape` `[channels, height, width]`, one after the other in `pixels`, with the number of one of
    /// `classes` each.
    ///
    /// # Panics
    /// If the number of pixels does not fit the number of labels, or a label is not below the number of classes.
    #[track_caller]
    pub fn new(
        name: impl Into<String>,
        classes: Vec<String>,
        shape: [usize; 3],
        normalization: Normalization,
        pixels: Vec<u8>,
        labels: Vec<u32>,
    ) -> Self {
        let size: usize = shape.iter().product();
        assert_eq!(pixels.len(), labels.len() * size, "{} labels need {size} pixels each", labels.len());
        let known = classes.len();
        assert!(labels.iter().all(|&label| (label as usize) < known), "a label is not below {known}");
        let description = Description { normalization, ..Description::new(name, Goal::Classify, classes, shape) };
        Self { description, pixels, labels }
    }

    /// The labels of all samples, in order.
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    fn size(&self) -> usize {
        self.description.shape.iter().product()
    }

    /// The samples with these numbers, in this order.
    fn select(&self, indices: &[usize]) -> Self {
        let size = self.size();
        let pixels = indices.iter().flat_map(|&i| self.pixels[i * size..(i + 1) * size].iter().copied()).collect();
        let labels = indices.iter().map(|&i| self.labels[i]).collect();
        Self { description: self.description.clone(), pixels, labels }
    }

    /// Holds out `test_percent` of each class (rounded), chosen by `key`; both parts keep the order of the file.
    pub fn split_stratified(&self, test_percent: usize, key: u64) -> Split<Self> {
        let parts = stratified(&self.labels, self.description.classes.len(), test_percent, key);
        parts.map(|part| self.select(&part))
    }
}

/// Numbers of the samples to train on and of `percent` of each class (rounded) to test with, chosen by `key`, in order.
pub(super) fn stratified(labels: &[u32], classes: usize, percent: usize, key: u64) -> Split<Vec<usize>> {
    let mut in_test = vec![false; labels.len()];
    let mut members = vec![Vec::new(); classes];
    labels.iter().enumerate().for_each(|(sample, &label)| members[label as usize].push(sample));
    for (class, members) in members.into_iter().enumerate() {
        let held_out = (members.len() * percent + 50) / 100;
        let order = Permutation::new(members.len(), &[key, class as u64]);
        for position in 0..held_out {
            in_test[members[order.get(position)]] = true;
        }
    }
    let (test, train) = (0..labels.len()).partition(|&i| in_test[i]);
    Split::new(train, test)
}

impl Dataset for InMemory {
    fn description(&self) -> &Description {
        &self.description
    }

    fn len(&self) -> usize {
        self.labels.len()
    }

    fn get(&self, index: usize, sample: &mut Sample) -> Result<()> {
        let &[channels, height, width] = &self.description.shape[..] else { unreachable!("these are pictures") };
        let size = self.size();
        sample.set_picture([channels, height, width]).copy_from_slice(&self.pixels[index * size..(index + 1) * size]);
        sample.target = Target::Class(self.labels[index]);
        Ok(())
    }
}
