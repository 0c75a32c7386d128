//! What a data set is.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::dtype::DType;
use crate::error::Result;
use crate::shape::Shape;
use crate::tensor::Tensor;

use super::Sample;

/// What is to be learned from a data set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Goal {
    /// One class for each sample.
    Classify,
    /// One class for each pixel.
    Segment,
    /// Numbers for each sample: regression.
    Regress,
}

/// What the model sees of a picture's bytes: `(byte - mean) / std`, for each channel, or for all of them if there is
/// one.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Normalization {
    /// What becomes 0, as a byte.
    pub mean: Vec<f32>,
    /// How many steps of a byte become 1.
    pub std: Vec<f32>,
}

impl Default for Normalization {
    /// 0 to 255 become 0 to 1, in all channels.
    fn default() -> Self {
        Self { mean: vec![0.0], std: vec![255.0] }
    }
}

impl Normalization {
    /// What the model sees of `inputs`, `[rows, channels, height, width]` or any other shape whose second axis has as
    /// many points as there are means, or any if there is one. Floats are left as they are.
    #[track_caller]
    pub fn apply(&self, inputs: &Tensor) -> Tensor {
        if inputs.dtype() == DType::U8 { self.scaled(&inputs.to_dtype(DType::F32)) } else { inputs.clone() }
    }

    /// The same of floats that are levels, or a table's own numbers, too.
    #[track_caller]
    pub(crate) fn scaled(&self, inputs: &Tensor) -> Tensor {
        let (mean, std) = (&self.mean, &self.std);
        let scale = per_channel(std.iter().map(|std| std.recip()), inputs);
        let offset = per_channel(mean.iter().zip(std).map(|(mean, std)| -mean / std), inputs);
        inputs * scale + offset
    }

    /// `(numbers - mean) / std`, along the second axis. Unlike [`scaled`](Self::scaled) it keeps what numbers far from 0
    /// differ by.
    #[track_caller]
    pub(crate) fn standardised(&self, numbers: &Tensor) -> Tensor {
        let mean = per_channel(self.mean.iter().copied(), numbers);
        (numbers - mean) * per_channel(self.std.iter().map(|std| std.recip()), numbers)
    }

    /// What was [standardised](Self::standardised), in its own units.
    #[track_caller]
    pub(crate) fn restored(&self, said: &Tensor) -> Tensor {
        said * per_channel(self.std.iter().copied(), said) + per_channel(self.mean.iter().copied(), said)
    }

    /// Brings rows of numbers that were standardised, one after the other, back to their own units.
    pub(crate) fn restore(&self, rows: &mut [f32]) {
        self.each(rows, |value, mean, std| value * std + mean);
    }

    /// Brings rows of a table, one after the other, to these scales, of which there is one for each column.
    pub(crate) fn standardise(&self, rows: &mut [f32]) {
        self.each(rows, |value, mean, std| (value - mean) / std);
    }

    /// Has each value of these rows be what `f` makes of it and its column's mean and deviation.
    fn each(&self, rows: &mut [f32], f: impl Fn(f64, f64, f64) -> f64) {
        for row in rows.chunks_exact_mut(self.mean.len()) {
            for (value, (&mean, &std)) in row.iter_mut().zip(self.mean.iter().zip(&self.std)) {
                *value = f((*value).into(), mean.into(), std.into()) as f32;
            }
        }
    }
}

/// These numbers along the second axis of something that is broadcast with `like`. They are part of the graph, not
/// memory.
fn per_channel(values: impl Iterator<Item = f32>, like: &Tensor) -> Tensor {
    let ones = vec![1; like.shape().rank()];
    let numbers: Vec<Tensor> = values.map(|value| Tensor::full(ones.clone(), value, like.device())).collect();
    match &numbers[..] {
        [one] => one.clone(),
        several => Tensor::cat(&several.iter().collect::<Vec<_>>(), 1),
    }
}

/// What there is to know of a data set before its first sample is read.
#[derive(Clone, PartialEq, Debug)]
pub struct Description {
    /// Its name, as in `--dataset`.
    pub name: String,
    /// What is to be learned from it.
    pub goal: Goal,
    /// Names of the classes, which are numbered in this order; of regression, of the numbers.
    pub classes: Vec<String>,
    /// Shape of each input, `[channels, height, width]` or `[features]`. Height and width are 0 if pictures differ in
    /// size: something has to [resize](super::Resize) them before they are put in a batch.
    pub shape: Vec<usize>,
    /// What the model sees of bytes; of a table, which has been brought to these scales already, what each column's
    /// were.
    pub normalization: Normalization,
    /// Names of a table's features, in their order; none of pictures, and of a table that does not tell them.
    pub columns: Vec<String>,
    /// Of regression: mean and standard deviation of each number over the training part. Models learn `(number - mean) /
    /// std`, and what they say is told in the numbers' own units. Where it is `None`, the trainer reads the training part
    /// once to measure them; a loop of one's own gets the numbers as they are.
    pub scales: Option<Normalization>,
    /// How many samples of the training part are of each class, or pixels of its masks. Where it is `None`, as after
    /// samples were chosen or changed, the trainer reads the training part once to count them, if it needs them
    /// ([`ClassWeights`](crate::train::ClassWeights)).
    pub counts: Option<Vec<u64>>,
}

impl Description {
    /// Of a data set of this name: what is to be learned, the names of the classes or numbers, and the shape of each
    /// input. Bytes from 0 to 255 become 0 to 1, columns have no names, and numbers no scales.
    ///
    /// ```
    /// use brasa::data::{Description, Goal, Normalization};
    ///
    /// let scales = Some(Normalization { mean: vec![21.5], std: vec![3.0] });
    /// let names = vec!["temperature".to_owned()];
    /// let of = Description { scales, ..Description::new("rooms", Goal::Regress, names, [4]) };
    /// assert_eq!(of.shape, [4]);
    /// ```
    pub fn new(
        name: impl Into<String>,
        goal: Goal,
        classes: impl Into<Vec<String>>,
        shape: impl Into<Vec<usize>>,
    ) -> Self {
        Self {
            name: name.into(),
            goal,
            classes: classes.into(),
            shape: shape.into(),
            normalization: Normalization::default(),
            columns: Vec::new(),
            scales: None,
            counts: None,
        }
    }

    /// Shapes and types of what [`Batch::uploads`](super::Batch::uploads) gives for a batch of `rows` rows.
    pub fn signature(&self, rows: usize) -> [(Shape, DType); 3] {
        let with_rows = |dims: &[usize]| Shape::from([&[rows], dims].concat());
        let inputs = match self.shape.len() {
            3 => DType::U8,
            _ => DType::F32,
        };
        let targets = match (self.goal, &self.shape[..]) {
            (Goal::Segment, [_, sides @ ..]) => (with_rows(sides), DType::U8),
            (Goal::Regress, _) => (with_rows(&[self.classes.len()]), DType::F32),
            _ => (with_rows(&[]), DType::I32),
        };
        [(with_rows(&self.shape), inputs), targets, (with_rows(&[]), DType::F32)]
    }
}

/// Samples that can be read in any order, from any thread.
pub trait Dataset: Send + Sync {
    /// What is in it.
    fn description(&self) -> &Description;

    /// Number of samples.
    fn len(&self) -> usize;

    /// True if there is no sample.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What tells its samples from those of others, for a [cache](super::Cache) on disk: its name, unless others of the
    /// same name and size have other samples.
    fn identity(&self) -> String {
        self.description().name.clone()
    }

    /// Reads sample `index` into `sample`, whatever was in it before.
    ///
    /// # Errors
    /// If it cannot be read. The message names the file, so that it can be mended.
    fn get(&self, index: usize, sample: &mut Sample) -> Result<()>;
}

/// Its name and the number of its samples.
impl fmt::Debug for dyn Dataset + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} samples", self.description().name, self.len())
    }
}

/// A data set's parts.
#[derive(Clone, Debug)]
pub struct Split<D> {
    /// What the model learns from.
    pub train: D,
    /// What it is judged by while it learns: the best weights, the end of the run and learning rates are chosen by this
    /// part, if there is one, and the test part is left alone.
    pub validation: Option<D>,
    /// What it is judged by, never trained on.
    pub test: D,
}

impl<D> Split<D> {
    /// Two parts, of which the second one is also what a model is judged by while it learns.
    pub fn new(train: D, test: D) -> Self {
        Self { train, validation: None, test }
    }

    /// What a model is judged by while it learns: the validation part, or the test part where there is none.
    pub fn judged_by(&self) -> &D {
        self.validation.as_ref().unwrap_or(&self.test)
    }

    /// All parts: to train on, to validate with, to test with.
    pub fn parts(&self) -> impl Iterator<Item = &D> {
        std::iter::once(&self.train).chain(&self.validation).chain([&self.test])
    }

    /// What is made of each part.
    pub fn map<E>(self, mut make: impl FnMut(D) -> E) -> Split<E> {
        Split { train: make(self.train), validation: self.validation.map(&mut make), test: make(self.test) }
    }
}

impl<D> Split<Result<D>> {
    /// The parts, if none of them is an error.
    ///
    /// # Errors
    /// The first one of a part.
    pub fn transpose(self) -> Result<Split<D>> {
        Ok(Split { train: self.train?, validation: self.validation.transpose()?, test: self.test? })
    }
}
