//! What a model says about some held-out samples.

use serde::{Deserialize, Serialize};

/// Some held-out samples and what the model says about them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Predictions {
    /// Training steps that the model had done.
    pub step: u64,
    /// Names of the classes; numbers if the data has none.
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
    /// Its class; `None` of segmentation.
    pub label: Option<u32>,
    /// The likeliest classes with their probabilities, likeliest first, five at most; empty of segmentation.
    pub likeliest: Vec<(u32, f32)>,
    /// Its loss: minus the logarithm of the probability of its class, in segmentation the mean over its pixels.
    pub loss: f32,
    /// Part of its targets that the model gets right.
    pub accuracy: f32,
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
