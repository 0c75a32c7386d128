//! How good answers are that are numbers, from sums over errors.

use serde::{Deserialize, Serialize};

use crate::train::record::number;

/// Sums over the errors of the numbers that a model has predicted, in their own units.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Residuals {
    samples: u64,
    numbers: Vec<ErrorSums>,
}

/// Sums over the samples for one of the numbers that are predicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ErrorSums {
    /// Of the errors, what was said minus what is.
    #[serde(deserialize_with = "number")]
    pub error: f64,
    /// Of their absolute values.
    #[serde(deserialize_with = "number")]
    pub absolute: f64,
    /// Of their squares.
    #[serde(deserialize_with = "number")]
    pub squared: f64,
    /// Of the squares of what the numbers themselves differ by from their mean: the total sum of squares.
    #[serde(deserialize_with = "number")]
    pub total: f64,
}

/// How well numbers were predicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RegressionScores {
    /// Coefficient of determination: 1 less the squared errors' sum over that of the squared differences from the mean.
    /// 1 is perfect, 0 as good as always saying the mean; of numbers that are all the same it is 1 or 0, as scikit-learn
    /// has it.
    #[serde(deserialize_with = "number")]
    pub r2: f64,
    /// Root of the mean squared error.
    #[serde(deserialize_with = "number")]
    pub rmse: f64,
    /// Mean absolute error.
    #[serde(deserialize_with = "number")]
    pub mae: f64,
}

impl Residuals {
    /// Of so many samples, for each of the numbers that are predicted.
    pub fn new(samples: u64, numbers: Vec<ErrorSums>) -> Self {
        Self { samples, numbers }
    }

    /// Samples that were predicted.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// How many numbers are predicted of each.
    pub fn numbers(&self) -> usize {
        self.numbers.len()
    }

    /// How well one of them was predicted.
    pub fn number(&self, number: usize) -> RegressionScores {
        let (samples, sums) = (self.samples.max(1) as f64, &self.numbers[number]);
        let r2 = if sums.total != 0.0 || sums.squared.is_nan() {
            1.0 - sums.squared / sums.total
        } else if sums.squared == 0.0 {
            1.0
        } else {
            0.0
        };
        RegressionScores { r2, rmse: (sums.squared / samples).sqrt(), mae: sums.absolute / samples }
    }

    /// The mean error of one of them: above 0 where too much is said.
    pub fn mean_error(&self, number: usize) -> f64 {
        self.numbers[number].error / self.samples.max(1) as f64
    }

    /// Means of the scores of all of them. Errors of numbers of different units have no mean that says much.
    pub fn means(&self) -> RegressionScores {
        let scores: Vec<_> = (0..self.numbers.len()).map(|number| self.number(number)).collect();
        let mean = |of: fn(&RegressionScores) -> f64| scores.iter().map(of).sum::<f64>() / scores.len().max(1) as f64;
        RegressionScores { r2: mean(|of| of.r2), rmse: mean(|of| of.rmse), mae: mean(|of| of.mae) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Truth 1 2 3 4 against answers 1.5 2 2 5, and 7 7 7 7 against itself. Values from scikit-learn's definitions.
    #[test]
    fn errors_of_numbers_follow_their_definitions() {
        let sums = ErrorSums { error: 0.5, absolute: 2.5, squared: 2.25, total: 5.0 };
        let residuals = Residuals::new(4, vec![sums, ErrorSums::default()]);
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} and {b}");
        let [first, second] = [0, 1].map(|number| residuals.number(number));
        close(first.r2, 1.0 - 2.25 / 5.0);
        close(first.rmse, 0.75);
        close(first.mae, 0.625);
        close(residuals.mean_error(0), 0.125);
        assert_eq!((second.r2, second.rmse), (1.0, 0.0));
        close(residuals.means().r2, (0.55 + 1.0) / 2.0);
        let missed = Residuals::new(4, vec![ErrorSums { squared: 1.0, ..ErrorSums::default() }]);
        assert_eq!(missed.number(0).r2, 0.0, "nothing to explain");
        let nan = Residuals::new(1, vec![ErrorSums { squared: f64::NAN, ..ErrorSums::default() }]);
        assert!(nan.number(0).r2.is_nan() && nan.means().r2.is_nan());
        let text = serde_json::to_string(&nan).expect("plain data");
        let read: Residuals = serde_json::from_str(&text).expect("null is NaN");
        assert!(read.number(0).rmse.is_nan(), "{text}");
        assert_eq!(Residuals::new(0, Vec::new()).means(), RegressionScores::default());
    }
}
