//! What a run tells whoever listens.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::runtime::Forecast;
use crate::units::bytes;

use super::scores::{HeldOut, Score, Tally, TestMetrics};
use super::{Environment, StageReport};

/// Something that happened in a run. As JSON: an object whose `event` is the variant in snake case.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Everything is open and checked; training begins.
    Started(Box<Start>),
    /// What the run takes of the device's memory.
    Memory(MemoryNeed),
    /// A training step, of those that are reported: one in `log-every`, or one a second where that is more.
    Step(StepMetrics),
    /// An epoch is complete.
    Epoch(EpochMetrics),
    /// The held-out samples were judged.
    Evaluated {
        /// In this epoch, from 1.
        epoch: usize,
        /// Training steps done.
        step: usize,
        /// True if it was asked for within the epoch; else the epoch was complete.
        mid_epoch: bool,
        /// How well.
        #[serde(flatten)]
        test: TestMetrics,
        /// What it counted; the run's `confusion.json` or `residuals.json` has it.
        #[serde(skip)]
        tally: Arc<Tally>,
    },
    /// The run waits for its user.
    Paused,
    /// The run goes on.
    Resumed,
    /// Something that should be known, and is no reason to end the run.
    Notice {
        /// What.
        message: String,
    },
    /// A file was written.
    Saved {
        /// Where.
        path: PathBuf,
    },
    /// What was learned, or a line of `metrics.jsonl`, could not be saved; earlier files are as they were. The run goes
    /// on, and saves again later. If there is no room when it ends, it ends with that error, and can go on from its
    /// last checkpoint.
    SaveFailed {
        /// What went wrong, with the file.
        message: String,
    },
    /// The run is over.
    Finished(Box<Summary>),
}

/// What a run starts with.
#[derive(Clone, Debug, Serialize, Deserialize)]
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
    /// Samples that it is judged by meanwhile, if those are not the test samples.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub validation_samples: Option<usize>,
    /// Samples held out to test with.
    pub test_samples: usize,
    /// Epochs in all.
    pub epochs: usize,
    /// Steps done before, if the run goes on from a checkpoint.
    pub steps_done: usize,
    /// Steps in each.
    pub steps_per_epoch: usize,
    /// Steps in all, which are not those of so many epochs if their size was another one before. Runs from before this
    /// was written have 0.
    #[serde(default)]
    pub steps: usize,
    /// Samples in a step.
    pub batch_size: usize,
    /// What, beside the settings, the same bits depend on.
    #[serde(flatten)]
    pub environment: Environment,
}

impl Start {
    /// Samples that the run is judged by after each epoch.
    pub fn judged_samples(&self) -> usize {
        self.validation_samples.unwrap_or(self.test_samples)
    }

    /// Which part of the data they are.
    pub fn judged_by(&self) -> HeldOut {
        if self.validation_samples.is_some() { HeldOut::Validation } else { HeldOut::Test }
    }
}

/// Memory of the device that a run takes, told before its first step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryNeed {
    /// Of the training step, for all sizes of batches.
    pub training: Forecast,
    /// Of the evaluation. The model in it is the same.
    pub inference: Forecast,
    /// What of this was still to be taken when it was told.
    pub needed_bytes: u64,
    /// What nobody used then; `None` if the system does not tell.
    pub free_bytes: Option<u64>,
}

impl MemoryNeed {
    /// False if it is known that there is not enough.
    pub fn fits(&self) -> bool {
        self.free_bytes.is_none_or(|free| self.needed_bytes <= free)
    }
}

impl fmt::Display for MemoryNeed {
    /// One line for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Forecast { model_bytes, state_bytes, constant_bytes, activation_bytes, input_output_bytes } = self.training;
        write!(
            f,
            "memory: {} to train (model {}, optimizer and metrics {}, activations {}, inputs and outputs {}), {} to evaluate; ",
            bytes(self.training.total_bytes()),
            bytes(model_bytes),
            bytes(state_bytes + constant_bytes),
            bytes(activation_bytes),
            bytes(input_output_bytes),
            bytes(self.inference.total_bytes()),
        )?;
        match self.free_bytes {
            None => write!(f, "how much is free is unknown"),
            Some(free) if self.fits() => write!(f, "{} free", bytes(free)),
            Some(free) => write!(f, "only {} free: use a smaller batch or model", bytes(free)),
        }
    }
}

/// What is known of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EpochMetrics {
    /// Its number, from 1.
    pub epoch: usize,
    /// Mean loss over it.
    pub loss: f64,
    /// How good the answers were while learning.
    #[serde(flatten)]
    pub score: Score,
    /// Training samples a second, in this epoch, without what was evaluated or saved meanwhile.
    pub samples_per_second: f64,
    /// Steps so far that changed nothing, because something in them was not finite; where a step's batch is several
    /// parts, parts.
    pub skipped_steps: u32,
    /// What losses are multiplied by now, in mixed precision.
    pub loss_scale: Option<f32>,
    /// Energy that the device used in this epoch, in joules, as [`Summary::energy`] tells it; without the evaluation
    /// after it and what was evaluated or saved meanwhile. `None` where it is not known, and of an epoch begun by
    /// another process.
    pub joules: Option<f64>,
}

/// One reported training step.
#[derive(Clone, Debug, Serialize)]
pub struct StepMetrics {
    /// Number of the step, from 1.
    pub step: usize,
    /// Number of the epoch, from 1.
    pub epoch: usize,
    /// The step's loss.
    pub loss: f32,
    /// The learning rate it was done with.
    pub learning_rate: f64,
    /// How good the answers were.
    #[serde(flatten)]
    pub score: Score,
    /// Training samples a second, in this epoch so far.
    pub samples_per_second: f64,
    /// Euclidean norm of all gradients together, before anything limited it.
    pub gradient_norm: f32,
    /// Seconds of training and evaluation so far.
    pub elapsed_s: f64,
    /// Seconds to go, estimated.
    pub left_s: f64,
}

/// How a run ended.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// False if it was stopped by its user.
    pub completed: bool,
    /// Why it ended before its last epoch, if a callback ended it.
    pub stopped: Option<String>,
    /// Steps done.
    pub steps: usize,
    /// Those of them that were done before the run was resumed; the stages are without them.
    pub steps_before: usize,
    /// How well the held-out samples were answered at last; `None` if the run was stopped before any evaluation.
    pub test: Option<TestMetrics>,
    /// The step behind which that was, if it was asked for within an epoch; `None` if the epoch was complete.
    pub test_mid_epoch: Option<usize>,
    /// The best evaluation.
    pub best: Option<TestMetrics>,
    /// Training samples that could not be read, in each epoch.
    pub skipped_samples: usize,
    /// Held-out samples that could not be read.
    pub skipped_tests: usize,
    /// Steps that changed nothing, because something in them was not finite; where a step's batch is several parts,
    /// parts.
    pub skipped_steps: u32,
    /// Seconds of training and evaluation.
    pub seconds: f64,
    /// Those of them before the run was resumed.
    pub seconds_before: f64,
    /// Energy that the device used in these seconds, in joules, idle or not and for whatever else it worked on. `None`
    /// where it is not told, now or to a process that did part of the run.
    pub joules: Option<f64>,
    /// What tells the energy, or `not available here: ` and why.
    pub energy: String,
    /// The ten stages, in order.
    pub stages: Vec<StageReport>,
    /// Where the run was saved.
    pub folder: PathBuf,
}
