//! Samples put together.

use std::time::{Duration, Instant};

use super::Values;
use super::pipeline::State;
use crate::dtype::DType;
use crate::shape::Shape;
use crate::stage::Stage;

/// What a model should say about the samples of a batch.
#[derive(Clone, PartialEq, Debug)]
pub enum Targets {
    /// Numbers of classes, `[rows]`.
    Classes(Vec<u32>),
    /// Numbers of each pixel's class, `[rows, height, width]`; [`IGNORED`](super::IGNORED) where it is not known.
    Masks(Vec<u8>),
    /// Numbers in their own units, `[rows, numbers]`.
    Numbers(Vec<f32>),
    /// Two classes for each row, as of pictures that were mixed, all `[rows]`.
    Mixed {
        /// The class of the row's own sample.
        first: Vec<u32>,
        /// The class of the sample that was mixed into it.
        second: Vec<u32>,
        /// How much the first one counts, 0 to 1; the second one counts the rest.
        share: Vec<f32>,
    },
}

impl Targets {
    /// How many there are, padding included: rows, or pixels or numbers of all rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Classes(classes) | Self::Mixed { first: classes, .. } => classes.len(),
            Self::Masks(masks) => masks.len(),
            Self::Numbers(numbers) => numbers.len(),
        }
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Samples put together, in host memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The epoch it belongs to, from 0.
    pub epoch: usize,
    /// Rows that are samples; the rest is padding.
    pub samples: usize,
    /// Shape of the inputs: `[rows, channels, height, width]`, or `[rows, features]`.
    pub shape: Vec<usize>,
    /// The inputs.
    pub inputs: Values,
    /// What should be said about them.
    pub targets: Targets,
    /// 1 for rows that count and 0 for padding, `[rows]`.
    pub weights: Vec<f32>,
    /// What is random in the augmentation of each row, if the device is to carry it out:
    /// `[rows,` [`PARAMETERS`](super::augment::PARAMETERS)`]`.
    pub parameters: Option<Vec<f32>>,
    /// Numbers of the samples in the data set, one for each of `samples`.
    pub indices: Vec<usize>,
    /// True for the last batch of its epoch.
    pub last: bool,
    /// Where the pipeline is behind this batch, for a checkpoint.
    pub state: State,
    /// How long it took to make.
    pub times: HostTimes,
}

/// One input of a [`Step`](crate::runtime::Step), as [`run_bytes`](crate::runtime::Step::run_bytes) takes it.
pub type Upload<'a> = (Shape, DType, &'a [u8]);

impl Batch {
    /// Rows, padding included.
    pub fn rows(&self) -> usize {
        self.weights.len()
    }

    /// Inputs, targets and weights as they are uploaded: the inputs as they are, classes as i32 `[rows]`, masks as u8
    /// `[rows, height, width]` or numbers as f32 `[rows, numbers]`, and the weights as f32 `[rows]`. Behind them, of mixed
    /// targets, the second classes as i32 `[rows]` and the shares as f32 `[rows]`; then the parameters of the augmentation,
    /// if there are any, as f32.
    ///
    /// [`Format::receive`](super::Format::receive) takes them in on the device.
    pub fn uploads(&self) -> Vec<Upload<'_>> {
        let rows = self.rows();
        let of_rows = |dtype, bytes| (Shape::from([rows]), dtype, bytes);
        let targets = match &self.targets {
            Targets::Classes(classes) | Targets::Mixed { first: classes, .. } => {
                of_rows(DType::I32, bytemuck::cast_slice(classes))
            }
            Targets::Masks(masks) => {
                let mut shape = vec![rows];
                shape.extend(&self.shape[self.shape.len().saturating_sub(2)..]);
                (Shape::from(shape), DType::U8, masks.as_slice())
            }
            Targets::Numbers(numbers) => {
                let shape = Shape::from([rows, numbers.len() / rows.max(1)]);
                (shape, DType::F32, bytemuck::cast_slice(numbers))
            }
        };
        let mut uploads = vec![
            (Shape::from(self.shape.as_slice()), self.inputs.dtype(), self.inputs.as_bytes()),
            targets,
            of_rows(DType::F32, bytemuck::cast_slice(&self.weights)),
        ];
        if let Targets::Mixed { second, share, .. } = &self.targets {
            uploads.push(of_rows(DType::I32, bytemuck::cast_slice(second)));
            uploads.push(of_rows(DType::F32, bytemuck::cast_slice(share)));
        }
        if let Some(parameters) = &self.parameters {
            let width = parameters.len() / rows.max(1);
            uploads.push((Shape::from([rows, width]), DType::F32, bytemuck::cast_slice(parameters)));
        }
        uploads
    }
}

/// Time that one batch took on the threads that made it, stage by stage, all threads together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostTimes {
    /// Reading samples.
    pub load: Duration,
    /// Changing them.
    pub augment: Duration,
    /// Putting them together.
    pub batch: Duration,
    /// The pieces of this work in time.
    pub work: Vec<Work>,
}

/// What a thread did for a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Work {
    /// The number of the worker; `None` for the thread that puts batches together.
    pub worker: Option<usize>,
    /// What it did.
    pub stage: Stage,
    /// When it began.
    pub start: Instant,
    /// When it ended.
    pub end: Instant,
}

impl HostTimes {
    pub(super) fn add(&mut self, other: Self) {
        self.load += other.load;
        self.augment += other.augment;
        self.batch += other.batch;
        self.work.extend(other.work);
    }

    /// Notes when `worker` did what was counted, beginning at `start`. Each sample goes through all stages, but their
    /// sums are put one behind the other.
    pub(super) fn note(&mut self, worker: usize, start: Instant) {
        let mut start = start;
        for (stage, took) in [(Stage::Load, self.load), (Stage::Augment, self.augment), (Stage::Batch, self.batch)] {
            if !took.is_zero() {
                self.work.push(Work { worker: Some(worker), stage, start, end: start + took });
                start += took;
            }
        }
    }
}
