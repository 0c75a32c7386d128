//! Samples put together.

use std::time::Duration;

use crate::dtype::DType;
use crate::shape::Shape;

use super::Values;

/// What a model should say about the samples of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Targets {
    /// Numbers of classes, `[rows]`.
    Classes(Vec<u32>),
    /// Numbers of each pixel's class, `[rows, height, width]`; [`IGNORED`](super::IGNORED) where it is not known.
    Masks(Vec<u8>),
}

/// Samples put together, in host memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The pass over the data it belongs to, from 0.
    pub epoch: usize,
    /// Rows that are samples; the rest is padding.
    pub samples: usize,
    /// Shape of the inputs: `[rows, channels, height, width]`, or `[rows, features]`.
    pub shape: Vec<usize>,
    /// The inputs.
    pub inputs: Values,
    /// What should be said about them.
    pub targets: Targets,
    /// 1 for rows that count and 0 for padding, `[rows]`.
    pub weights: Vec<f32>,
    /// How long it took to make.
    pub times: HostTimes,
}

/// One input of a [`Step`](crate::runtime::Step), as [`run_bytes`](crate::runtime::Step::run_bytes) takes it.
pub type Upload<'a> = (Shape, DType, &'a [u8]);

impl Batch {
    /// Rows, padding included.
    pub fn rows(&self) -> usize {
        self.weights.len()
    }

    /// Inputs, targets and weights as they are uploaded: the inputs as they are, classes as i32 `[rows]` or masks as u8
    /// `[rows, height, width]`, and the weights as f32 `[rows]`.
    pub fn uploads(&self) -> [Upload<'_>; 3] {
        let rows = self.rows();
        let targets = match &self.targets {
            Targets::Classes(classes) => (Shape::from([rows]), DType::I32, bytemuck::cast_slice(classes)),
            Targets::Masks(masks) => {
                let mut shape = vec![rows];
                shape.extend(&self.shape[self.shape.len().saturating_sub(2)..]);
                (Shape::from(shape), DType::U8, masks.as_slice())
            }
        };
        [
            (Shape::from(self.shape.as_slice()), self.inputs.dtype(), self.inputs.as_bytes()),
            targets,
            (Shape::from([rows]), DType::F32, bytemuck::cast_slice(&self.weights)),
        ]
    }
}

/// Time that one batch took on its worker, stage by stage.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HostTimes {
    /// Reading samples.
    pub load: Duration,
    /// Changing them.
    pub augment: Duration,
    /// Putting them together.
    pub batch: Duration,
}
