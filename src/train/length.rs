//! How many steps a run takes, also if their size changes on the way.

use serde::{Deserialize, Serialize};

use crate::data::Pipeline;

use super::checkpoint::Progress;
use super::config::Config;

/// How long a run is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Length {
    /// Epochs in all.
    pub epochs: usize,
    /// Steps in each, if no sample is broken.
    pub steps_per_epoch: usize,
    /// Steps in all: those of these epochs, unless steps had another size before.
    pub steps: u64,
}

impl Length {
    /// Of a run that begins.
    pub(super) fn new(config: &Config, train: &Pipeline) -> Self {
        let (epochs, steps_per_epoch) = (config.epochs, steps_per_epoch(config, train));
        Self { epochs, steps_per_epoch, steps: (epochs * steps_per_epoch) as u64 }
    }

    /// The same of a run that goes on from `progress`, where epochs may have had another number of steps.
    pub(super) fn behind(self, progress: &Progress, config: &Config, train: &Pipeline) -> Self {
        let Self { epochs, steps_per_epoch, .. } = self;
        let Some(before) = progress.length else { return self };
        let steps = if before.steps_per_epoch == steps_per_epoch {
            // what broken samples have made of it stays
            (before.steps + (epochs * steps_per_epoch) as u64).saturating_sub((before.epochs * steps_per_epoch) as u64)
        } else {
            let (epoch, samples) = (progress.data.epoch(), progress.data.samples());
            let left = train.samples_per_epoch().saturating_sub(samples);
            let in_this = train.batches_of(left).div_ceil(config.accumulate).min(steps_per_epoch);
            let whole = epochs.saturating_sub(epoch + 1) * steps_per_epoch;
            progress.steps + if epoch < epochs { (whole + in_this) as u64 } else { 0 }
        };
        Self { steps, ..self }
    }
}

/// Steps in an epoch, if no sample is broken.
pub(super) fn steps_per_epoch(config: &Config, train: &Pipeline) -> usize {
    train.batches_per_epoch().div_ceil(config.accumulate)
}
