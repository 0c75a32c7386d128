//! What a run tells whoever listens.

use std::path::PathBuf;

use serde::Serialize;

use super::StageReport;

/// Something that happened in a run. As JSON: an object whose `event` is the variant in snake case.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Everything is open and checked; training begins.
    Started(Start),
    /// A training step, of those that are reported (`log-every`).
    Step(StepMetrics),
    /// A pass over the training data is complete.
    Epoch {
        /// Its number, from 1.
        epoch: usize,
        /// Mean loss over it.
        loss: f32,
        /// Part of the training samples that were classified correctly while learning.
        accuracy: f32,
        /// Training samples a second, in this pass.
        samples_per_second: f64,
    },
    /// The held-out samples were classified.
    Evaluated {
        /// After this pass, from 1.
        epoch: usize,
        /// How well.
        #[serde(flatten)]
        test: TestMetrics,
    },
    /// A file was written.
    Saved {
        /// Where.
        path: PathBuf,
    },
    /// The run is over.
    Finished(Summary),
}

/// What a run starts with.
#[derive(Clone, Debug, Serialize)]
pub struct Start {
    /// The run's name.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// The device's name.
    pub device: String,
    /// The data set's name.
    pub dataset: String,
    /// The model's name.
    pub model: String,
    /// Trainable numbers in it.
    pub parameters: usize,
    /// Samples to learn from.
    pub train_samples: usize,
    /// Samples held out.
    pub test_samples: usize,
    /// Passes to come.
    pub epochs: usize,
    /// Steps in each.
    pub steps_per_epoch: usize,
    /// Samples in a step.
    pub batch_size: usize,
}

/// How well the held-out samples were classified.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TestMetrics {
    /// Mean loss.
    pub loss: f32,
    /// Part that was classified correctly.
    pub accuracy: f32,
    /// How many were.
    pub correct: usize,
    /// Out of so many.
    pub samples: usize,
}

/// One reported training step.
#[derive(Clone, Debug, Serialize)]
pub struct StepMetrics {
    /// Number of the step, from 1.
    pub step: usize,
    /// Number of the pass over the data, from 1.
    pub epoch: usize,
    /// The step's loss.
    pub loss: f32,
    /// Part of the step's samples that were classified correctly.
    pub accuracy: f32,
    /// Training samples a second, in this pass so far.
    pub samples_per_second: f64,
    /// Seconds since training began.
    pub elapsed_s: f64,
    /// Seconds to go, estimated.
    pub left_s: f64,
}

/// How a run ended.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// False if it was stopped early.
    pub completed: bool,
    /// Steps done.
    pub steps: usize,
    /// How well the held-out samples were classified at last; `None` if the run was stopped before any evaluation.
    pub test: Option<TestMetrics>,
    /// Seconds of training and evaluation.
    pub seconds: f64,
    /// The ten stages, in order.
    pub stages: Vec<StageReport>,
    /// Where the run was saved.
    pub folder: PathBuf,
}
