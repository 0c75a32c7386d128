//! What a run tells whoever listens.

use std::path::PathBuf;

use serde::Serialize;

use super::StageReport;

/// Something that happened in a run. As JSON: an object whose `event` is the variant in snake case.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Everything is open and checked; training begins.
    Started {
        /// The run's name.
        name: String,
        /// Its folder.
        folder: PathBuf,
        /// The device's name.
        device: String,
        /// The data set's name.
        dataset: String,
        /// The model's name.
        model: String,
        /// Trainable numbers in it.
        parameters: usize,
        /// Samples to learn from.
        train_samples: usize,
        /// Samples held out.
        test_samples: usize,
        /// Passes to come.
        epochs: usize,
        /// Steps in each.
        steps_per_epoch: usize,
        /// Samples in a step.
        batch_size: usize,
    },
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
        /// Mean loss.
        loss: f32,
        /// Part that was classified correctly.
        accuracy: f32,
        /// How many were.
        correct: usize,
        /// Out of so many.
        samples: usize,
    },
    /// A file was written.
    Saved {
        /// Where.
        path: PathBuf,
    },
    /// The run is over.
    Finished(Summary),
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
    /// Part of the held-out samples that were classified correctly at the end; `None` if it was stopped before any
    /// evaluation.
    pub test_accuracy: Option<f32>,
    /// Held-out samples.
    pub test_samples: usize,
    /// Seconds of training and evaluation.
    pub seconds: f64,
    /// The ten stages, in order.
    pub stages: Vec<StageReport>,
    /// Where the run was saved.
    pub folder: PathBuf,
}
