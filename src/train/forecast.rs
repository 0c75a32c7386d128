//! What a run would take, told without starting it.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::data::Batch;
use crate::error::Result;

use super::trainer::{Open, Prepared, open, steps_per_epoch};
use super::{Config, Control, MemoryNeed};

/// Steps that are done before time is taken: the first ones are slower.
const WARM: usize = 3;
/// Steps whose time is taken, unless they take long.
const TIMED: usize = 20;
const LONG_S: f64 = 2.0;

/// What a run would take.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunForecast {
    /// Of the device's memory.
    pub memory: MemoryNeed,
    /// Milliseconds of one step with its batch: the median of a few. `None` if it was stopped before any was known.
    pub step_ms: Option<f64>,
    /// Steps in all.
    pub steps: usize,
    /// Seconds of all these steps, without evaluations.
    pub seconds: Option<f64>,
}

/// Makes everything that a run with `config` needs, does a few steps, and drops it all: no folder is made. `control` can stop it
/// between two steps.
///
/// ```
/// use brasa::train::{Config, Control, forecast};
///
/// let config = Config { device: Some("cpu".into()), ..Config::default() };
/// let forecast = forecast(config, &Control::default())?;
/// assert!(forecast.memory.training.model_bytes > 0 && forecast.seconds > Some(0.0));
/// # Ok::<(), brasa::Error>(())
/// ```
///
/// # Errors
/// As [`Trainer::new`](super::Trainer::new): whatever is wrong with the settings, the data or the device; and if there is not
/// enough memory.
pub fn forecast(config: Config, control: &Control) -> Result<RunForecast> {
    forecast_of(config, &open, control)
}

/// The same with data as `open` opens them.
pub(super) fn forecast_of(config: Config, open: &Open<'_>, control: &Control) -> Result<RunForecast> {
    let Prepared { config, data, mut learner, memory, .. } = Prepared::new(config, open)?;
    let steps = config.epochs * steps_per_epoch(&config, &data.train);
    let mut batches = data.train.start()?;
    let mut milliseconds = Vec::new();
    let begun = Instant::now();
    for number in 0..steps.min(WARM + TIMED) {
        let known = number > WARM && begun.elapsed().as_secs_f64() > LONG_S;
        if known || control.stopping() {
            break;
        }
        let start = Instant::now();
        let mut parts: Vec<Batch> = Vec::new();
        while parts.len() < config.accumulate && !parts.last().is_some_and(|batch| batch.last) {
            let Some(batch) = batches.next().transpose()? else { break };
            parts.push(batch);
        }
        if parts.is_empty() {
            // samples that cannot be read make fewer batches than were counted
            break;
        }
        learner.train(parts, config.learning_rate())?;
        // waits for the step, which a run does not, so that this is no less than it will take; what it learned is of no
        // interest, nor is that it may be no number
        learner.read_metrics(true)?;
        learner.take_spent().into_iter().for_each(|batch| batches.recycle(batch));
        if number >= WARM.min(steps - 1) {
            milliseconds.push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    milliseconds.sort_by(f64::total_cmp);
    let step_ms = milliseconds.get(milliseconds.len() / 2).copied();
    Ok(RunForecast { memory, step_ms, steps, seconds: step_ms.map(|step| step * steps as f64 / 1e3) })
}
