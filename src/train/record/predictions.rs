//! What a model says about some held-out samples.

use serde::{Deserialize, Deserializer, Serialize};

use super::line::number_f32;

/// Some held-out samples and what the model says about them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Predictions {
    /// Training steps that the model had done.
    pub step: u64,
    /// Names of the classes, or of the numbers that are predicted.
    pub classes: Vec<String>,
    /// The samples, in the order of the data set.
    pub samples: Vec<Sample>,
    /// Their pictures, if they are pictures.
    pub pictures: Option<Sheet>,
    /// Their masks, and what the model says, of segmentation: pixels of value `class`, 255 for those that do not count.
    pub masks: Option<[Sheet; 2]>,
}

/// A sample and what the model says about it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// Its number in the data set.
    pub index: usize,
    /// Its class; `None` but of classification.
    pub label: Option<u32>,
    /// The likeliest classes with their probabilities, likeliest first, five at most; empty but of classification.
    #[serde(deserialize_with = "probabilities")]
    pub likeliest: Vec<(u32, f32)>,
    /// Of regression, what its numbers are.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub target: Vec<f32>,
    /// And what the model says they are.
    #[serde(skip_serializing_if = "Vec::is_empty", default, deserialize_with = "numbers")]
    pub predicted: Vec<f32>,
    /// Its loss: minus the logarithm of the probability of its class, in segmentation the mean over its pixels; of
    /// regression the mean over its numbers of what the run makes small.
    #[serde(deserialize_with = "number_f32")]
    pub loss: f32,
    /// Part of its targets that the model gets right; 0 of regression.
    pub accuracy: f32,
}

/// What is not a number, which JSON has as `null`, is none when it is read, too.
fn probabilities<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(u32, f32)>, D::Error> {
    let read = Vec::<(u32, Option<f32>)>::deserialize(deserializer)?;
    Ok(read.into_iter().map(|(class, probability)| (class, probability.unwrap_or(f32::NAN))).collect())
}

/// The same of a list.
fn numbers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f32>, D::Error> {
    let read = Vec::<Option<f32>>::deserialize(deserializer)?;
    Ok(read.into_iter().map(|number| number.unwrap_or(f32::NAN)).collect())
}

/// A PNG file of pictures of one size, in rows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sheet {
    /// The file's name in the run's folder.
    pub file: String,
    /// Pixels of one picture from top to bottom.
    pub height: usize,
    /// And from left to right.
    pub width: usize,
    /// Pictures in a row.
    pub columns: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_can_be_read() {
        let sample = Sample {
            index: 3,
            label: Some(1),
            likeliest: vec![(1, f32::NAN), (0, 0.5)],
            target: vec![2.0],
            predicted: vec![f32::NAN],
            loss: f32::NAN,
            accuracy: 0.0,
        };
        let text = serde_json::to_string(&sample).expect("plain data");
        let read: Sample = serde_json::from_str(&text).expect("what was written");
        assert!(read.predicted[0].is_nan() && read.target == [2.0], "{text}");
        assert!(read.loss.is_nan() && read.likeliest[0].1.is_nan() && read.likeliest[1] == (0, 0.5), "{text}");
    }
}
