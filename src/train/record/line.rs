//! Lines of `metrics.jsonl`.

use serde::{Deserialize, Deserializer, Serialize};

use crate::train::{HeldOut, MeanScores, MicroScores, Score};

/// What a line is about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// One training step.
    Train,
    /// The mean over one epoch.
    Epoch,
    /// The validation part.
    Validation,
    /// The test part.
    Test,
}

impl From<HeldOut> for Kind {
    fn from(part: HeldOut) -> Self {
        match part {
            HeldOut::Validation => Self::Validation,
            HeldOut::Test => Self::Test,
        }
    }
}

/// A line of `metrics.jsonl`. What a kind has nothing to say of is left out.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Line {
    /// What it is about.
    pub kind: Kind,
    /// Steps done, this one included.
    pub step: u64,
    /// The epoch, from 1.
    pub epoch: usize,
    /// Mean loss; not a number of a step that was skipped, which JSON has as `null`.
    #[serde(deserialize_with = "number")]
    pub loss: f64,
    /// How good the answers were; not a number of an epoch whose steps were all skipped.
    #[serde(flatten)]
    pub score: Score,
    /// The learning rate.
    pub lr: f64,
    /// Seconds of training and evaluation so far.
    pub elapsed_s: f64,
    /// Training samples a second, in this epoch so far.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub samples_per_second: Option<f64>,
    /// Euclidean norm of all gradients together, before clipping.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gradient_norm: Option<f64>,
    /// Bytes in use on the device.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub memory_bytes: Option<u64>,
    /// Part of the targets whose class is among the five likeliest.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub top5: Option<f64>,
    /// `e` to the mean loss.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub perplexity: Option<f64>,
    /// Means over classes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mean: Option<MeanScores>,
    /// Steps so far that changed nothing, because something in them was not finite.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub skipped_steps: Option<u32>,
    /// What losses are multiplied by, in mixed precision.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub loss_scale: Option<f64>,
    /// Energy that the device used in the epoch, in joules.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub joules: Option<f64>,
    /// Scores in which each target counts the same.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub micro: Option<MicroScores>,
    /// Root of the mean squared error of numbers, in their own units.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rmse: Option<f64>,
    /// Mean absolute error of numbers, in their own units.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mae: Option<f64>,
}

/// The same of a number of less precision.
pub(in crate::train) fn number_f32<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f32, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f32::NAN))
}

/// What is not a number, which JSON has as `null`, is none when it is read, too.
pub(in crate::train) fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}
