//! A moving average of a model's weights: what is evaluated and saved can be steadier than what learns.

use std::sync::Arc;

use crate::error::Result;
use crate::nn::Module;
use crate::optim::{ExponentialMovingAverage, Optimizer};

/// A second model whose parameters follow those of the first.
pub(super) struct Average {
    model: Arc<dyn Module>,
    average: Arc<ExponentialMovingAverage>,
    decay: f64,
}

impl Average {
    /// `model`, of the same kind as `of`, becomes its average, and starts as a copy.
    pub(super) fn new(model: Arc<dyn Module>, of: &dyn Module, optimizer: &dyn Optimizer, decay: f64) -> Result<Self> {
        let average = Arc::new(ExponentialMovingAverage::new(model.as_ref(), of, optimizer, decay)?);
        Ok(Self { model, average, decay })
    }

    /// The model with the averaged weights.
    pub(super) fn model(&self) -> &Arc<dyn Module> {
        &self.model
    }

    /// What a traced step calls after the optimizer's update.
    pub(super) fn follower(&self) -> impl Fn() + Send + 'static {
        let average = Arc::clone(&self.average);
        move || average.update()
    }

    /// Before step `number` (from 1): the average of few steps is that of their weights, not of the first ones, as in
    /// TensorFlow's `ExponentialMovingAverage`.
    pub(super) fn set_step(&self, number: u64) {
        let warm = (1.0 + number as f64) / (10.0 + number as f64);
        self.average.set_decay(self.decay.min(warm));
    }

    /// Before the average is used: statistics are those of now.
    pub(super) fn refresh(&self) -> Result<()> {
        self.average.refresh()
    }
}
