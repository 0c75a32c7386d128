//! What a run tells whoever listens.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::data::Split;
use crate::runtime::Forecast;
use crate::units::bytes;

use super::record::number;
use super::scores::{Confusion, MeanScores, MicroScores};
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
        /// What was taken for what; the run's `confusion.json` has it.
        #[serde(skip)]
        confusion: Arc<Confusion>,
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
    /// Part of the training targets (samples, or pixels) that were classified correctly while learning.
    pub accuracy: f64,
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

/// A part of the data that a model is judged by.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum HeldOut {
    /// By which something is chosen: the best weights, the end of a run, a learning rate.
    Validation,
    /// The last word, unless there is no validation part.
    #[default]
    Test,
}

impl HeldOut {
    /// What a model is judged by while it learns from these.
    pub fn of<D>(data: &Split<D>) -> Self {
        if data.validation.is_some() { Self::Validation } else { Self::Test }
    }

    /// `validation` or `test`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Validation => "validation",
            Self::Test => "test",
        }
    }
}

/// How well the held-out samples were classified.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestMetrics {
    /// Which they were.
    #[serde(default)]
    pub part: HeldOut,
    /// Mean loss.
    #[serde(deserialize_with = "number")]
    pub loss: f64,
    /// `e` to the mean loss: of how many equally likely answers the model hesitates. Not a number where an older run
    /// has not told.
    #[serde(deserialize_with = "number", default = "unknown")]
    pub perplexity: f64,
    /// Part of the targets (samples, or pixels) that was classified correctly.
    pub accuracy: f64,
    /// How many targets were.
    pub correct: u64,
    /// Out of so many.
    pub targets: u64,
    /// Samples judged.
    pub samples: usize,
    /// Part of the targets whose class is among the five likeliest, if there are more than five classes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub top5: Option<f64>,
    /// Means over classes.
    pub mean: MeanScores,
    /// Each target counting the same: of classes that exclude each other, the accuracy.
    #[serde(default)]
    pub micro: MicroScores,
    /// True if what counts is the mean intersection over union, not the accuracy: segmentation.
    pub by_iou: bool,
}

fn unknown() -> f64 {
    f64::NAN
}

impl TestMetrics {
    /// The number that models are compared by: accuracy of classification, mean intersection over union of
    /// segmentation.
    pub fn score(&self) -> f64 {
        if self.by_iou { self.mean.iou } else { self.accuracy }
    }

    /// Whether its score is higher, or as high and its loss smaller: where all samples are right after a step or two,
    /// what follows is surer of them. What is NaN is worse than everything else.
    pub fn is_better_than(&self, other: &Self) -> bool {
        let or = |value: f64, worst: f64| if value.is_nan() { worst } else { value };
        let score = |of: &Self| or(of.score(), f64::NEG_INFINITY);
        let loss = |of: &Self| or(of.loss, f64::INFINITY);
        score(self).total_cmp(&score(other)).then(loss(other).total_cmp(&loss(self))).is_gt()
    }
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
    /// Part of the step's samples that were classified correctly.
    pub accuracy: f32,
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
    /// How well the held-out samples were classified at last; `None` if the run was stopped before any evaluation.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_number_is_never_better() {
        let metrics = |accuracy: f64, loss: f64| TestMetrics {
            part: HeldOut::Test,
            loss,
            perplexity: loss.exp(),
            accuracy,
            correct: 0,
            targets: 10,
            samples: 10,
            top5: None,
            mean: MeanScores::default(),
            micro: MicroScores::default(),
            by_iou: false,
        };
        for nan in [f64::NAN, -f64::NAN] {
            assert!(metrics(0.5, 9.0).is_better_than(&metrics(0.5, nan)));
            assert!(!metrics(0.5, nan).is_better_than(&metrics(0.5, 9.0)));
            assert!(metrics(0.0, 9.0).is_better_than(&metrics(nan, 0.1)));
            assert!(!metrics(nan, 0.1).is_better_than(&metrics(0.0, 9.0)));
        }
        assert!(metrics(0.6, 9.0).is_better_than(&metrics(0.5, 0.1)));
        assert!(metrics(0.5, 0.1).is_better_than(&metrics(0.5, 0.2)));
    }
}
