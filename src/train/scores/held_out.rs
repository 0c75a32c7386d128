//! How well held-out samples were answered.

use serde::{Deserialize, Serialize};

use crate::data::Split;
use crate::train::record::number;

use super::{MeanScores, MicroScores, RegressionScores};

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

/// How well the held-out samples were answered.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestMetrics {
    /// Which they were.
    #[serde(default)]
    pub part: HeldOut,
    /// Mean loss.
    #[serde(deserialize_with = "number")]
    pub loss: f64,
    /// Samples judged.
    pub samples: usize,
    /// How well.
    #[serde(flatten)]
    pub scores: Scores,
}

/// How well samples were answered.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Scores {
    /// By their classes, or those of their pixels.
    Classification(ClassificationScores),
    /// By numbers: means over these.
    Regression(RegressionScores),
}

/// How well targets (samples, or pixels) were classified.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassificationScores {
    /// `e` to the mean loss: of how many equally likely answers the model hesitates. Not a number where an older run
    /// has not told.
    #[serde(deserialize_with = "number", default = "unknown")]
    pub perplexity: f64,
    /// Part of the targets that was classified correctly.
    pub accuracy: f64,
    /// How many targets were.
    pub correct: u64,
    /// Out of so many.
    pub targets: u64,
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
    /// How well samples or pixels were classified; `None` of regression.
    pub fn classification(&self) -> Option<&ClassificationScores> {
        match &self.scores {
            Scores::Classification(scores) => Some(scores),
            Scores::Regression(_) => None,
        }
    }

    /// How well numbers were predicted; `None` of classification and segmentation.
    pub fn regression(&self) -> Option<&RegressionScores> {
        match &self.scores {
            Scores::Classification(_) => None,
            Scores::Regression(scores) => Some(scores),
        }
    }

    /// The number that models are compared by: accuracy of classification, mean intersection over union of
    /// segmentation, R² of regression.
    pub fn score(&self) -> f64 {
        match &self.scores {
            Scores::Classification(scores) if scores.by_iou => scores.mean.iou,
            Scores::Classification(scores) => scores.accuracy,
            Scores::Regression(scores) => scores.r2,
        }
    }

    /// What that is called.
    pub fn score_name(&self) -> &'static str {
        match &self.scores {
            Scores::Classification(scores) if scores.by_iou => "mean IoU",
            Scores::Classification(_) => "accuracy",
            Scores::Regression(_) => "R²",
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_number_is_never_better() {
        let metrics = |accuracy: f64, loss: f64| TestMetrics {
            part: HeldOut::Test,
            loss,
            samples: 10,
            scores: Scores::Classification(ClassificationScores {
                perplexity: loss.exp(),
                accuracy,
                correct: 0,
                targets: 10,
                top5: None,
                mean: MeanScores::default(),
                micro: MicroScores::default(),
                by_iou: false,
            }),
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
