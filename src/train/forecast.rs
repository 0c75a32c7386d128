//! What a run would take, told without starting it.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::data::Batch;
use crate::error::Result;

use super::devices::{OpenDevices, open_own};
use super::trainer::{Open, Prepared, open};
use super::{Config, Control, MemoryNeed};

/// Steps that are done before time is taken, each waited for: the first ones are slower.
const WARM: usize = 3;
/// Steps of a block, whose time is taken as a whole: a run does not wait for its steps either, and a GPU does one while
/// the next one is being prepared.
const BLOCK: usize = 10;
const BLOCKS: usize = 3;
/// Blocks of slow steps are shorter.
const LONG_S: f64 = 2.0;

/// What a run would take.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunForecast {
    /// Of the device's memory.
    pub memory: MemoryNeed,
    /// Milliseconds of one step with its batch, in a row of steps that are not waited for: the median of a few rows.
    /// `None` if it was stopped before any was known.
    pub step_ms: Option<f64>,
    /// Steps in all.
    pub steps: usize,
    /// Seconds of all these steps, without evaluations.
    pub seconds: Option<f64>,
}

/// Makes everything that a run with `config` needs, does a few steps, and drops it all: no folder is made. `control`
/// can stop it between two steps.
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
/// As [`Trainer::new`](super::Trainer::new): whatever is wrong with the settings, the data or the device; and if there
/// is not enough memory.
pub fn forecast(config: Config, control: &Control) -> Result<RunForecast> {
    forecast_of(config, &open, control, open_own)
}

/// The same with data as `open` opens them.
pub(super) fn forecast_of(
    config: Config,
    open: &Open<'_>,
    control: &Control,
    devices: OpenDevices,
) -> Result<RunForecast> {
    // which change no time, while counting the classes takes some
    let config = Config { class_weights: None, ..config };
    let prepared = Prepared::on(config, open, &Control::default(), devices)?;
    let Prepared { config, data, mut learner, memory, length, .. } = prepared;
    let steps = length.steps as usize;
    let mut batches = data.train.start()?;
    let mut left = steps;
    // milliseconds of each of so many steps, for which is waited at the end; `None` if there are none left
    let mut row = |count: usize| -> Result<Option<f64>> {
        let (start, mut done) = (Instant::now(), 0);
        while done < count.min(left) && !control.stopping() {
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
            done += 1;
            // what it learned is of no interest, nor is that it may be no number
            if learner.metrics_are_due() {
                learner.read_metrics(false)?;
            }
            learner.take_spent().into_iter().for_each(|batch| batches.recycle(batch));
        }
        learner.read_metrics(true)?;
        learner.take_spent().into_iter().for_each(|batch| batches.recycle(batch));
        left -= done;
        Ok((done > 0).then(|| start.elapsed().as_secs_f64() * 1e3 / done as f64))
    };
    let mut step_ms = None;
    for _ in 0..WARM {
        step_ms = row(1)?.or(step_ms);
    }
    let block = step_ms.map_or(1, |step| ((LONG_S * 1e3 / step) as usize).clamp(1, BLOCK));
    let (mut milliseconds, begun) = (Vec::new(), Instant::now());
    while milliseconds.len() < BLOCKS && (milliseconds.is_empty() || begun.elapsed().as_secs_f64() < LONG_S) {
        let Some(step) = row(block)? else { break };
        milliseconds.push(step);
    }
    milliseconds.sort_by(f64::total_cmp);
    // of a run that is over by then, its last warm step is what is known
    let step_ms = milliseconds.get(milliseconds.len() / 2).copied().or(step_ms);
    Ok(RunForecast { memory, step_ms, steps, seconds: step_ms.map(|step| step * steps as f64 / 1e3) })
}
