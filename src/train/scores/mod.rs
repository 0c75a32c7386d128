//! How good a model is: what evaluations count, and all numbers that are computed from it.

mod confusion;
mod held_out;
mod residuals;

use serde::{Deserialize, Serialize};

pub use confusion::{ClassScores, Confusion, MeanScores, MicroScores};
pub use held_out::{ClassificationScores, HeldOut, Scores, TestMetrics};
pub use residuals::{ErrorSums, RegressionScores, Residuals};

use super::record::number;

/// What an evaluation counted: all that is said of a model's answers is computed from it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tally {
    /// Of classes: what was taken for what.
    Confusion(Confusion),
    /// Of numbers: by how much they were missed.
    Residuals(Residuals),
}

impl Tally {
    /// What was taken for what, where there are classes.
    pub fn confusion(&self) -> Option<&Confusion> {
        match self {
            Self::Confusion(confusion) => Some(confusion),
            Self::Residuals(_) => None,
        }
    }

    /// By how much numbers were missed, where there are some.
    pub fn residuals(&self) -> Option<&Residuals> {
        match self {
            Self::Confusion(_) => None,
            Self::Residuals(residuals) => Some(residuals),
        }
    }
}

/// How good answers to training samples were while the model learned.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Score {
    /// Part of the targets (samples, or pixels) that were classified correctly.
    #[serde(deserialize_with = "number")]
    Accuracy(f64),
    /// Of regression, 1 less the mean squared error by the numbers' [scales](crate::data::Description::scales): the part
    /// of the training part's variance that is explained.
    #[serde(deserialize_with = "number")]
    R2(f64),
}

impl Score {
    /// The number, 1 at best.
    pub fn value(self) -> f64 {
        match self {
            Self::Accuracy(value) | Self::R2(value) => value,
        }
    }

    /// `accuracy` or `r2`, as tags and fields have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Accuracy(_) => "accuracy",
            Self::R2(_) => "r2",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_is_one_field_of_what_it_belongs_to() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Line {
            loss: f64,
            #[serde(flatten)]
            score: Score,
        }
        for (text, score) in [("accuracy", Score::Accuracy(0.5)), ("r2", Score::R2(0.5))] {
            let line = Line { loss: 1.0, score };
            let json = serde_json::to_string(&line).expect("plain data");
            assert_eq!(json, format!(r#"{{"loss":1.0,"{text}":0.5}}"#));
            assert_eq!(serde_json::from_str::<Line>(&json).expect("what was written"), line);
            assert_eq!(score.name(), text);
            let read: Line = serde_json::from_str(&format!(r#"{{"{text}":null,"loss":1}}"#)).expect("null is NaN");
            assert!(read.score.value().is_nan());
        }
    }
}
