//! Which variants of a training's kernels are the fastest on its device.

use serde::Serialize;

use crate::device::{DeviceInfo, TuneOptions, TuneProgress, TuneReport};
use crate::error::Result;

use super::auto::{AUTO, choose};
use super::devices::{self, open_first};
use super::learner::Learner;
use super::trainer::{batch_rows, batched, open};
use super::{Config, Control};

/// What tuning found for one of the steps of a training.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TunedStep {
    /// Which one, with the size of its batch.
    pub step: String,
    /// Whether its batch is the last, smaller one of an epoch.
    #[serde(skip)]
    pub is_last: bool,
    /// What was found.
    #[serde(flatten)]
    pub report: TuneReport,
}

/// What tuning found for a training.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Tuning {
    /// Where.
    pub device: DeviceInfo,
    /// Its steps; none on the CPU backend, whose products have no variants.
    pub steps: Vec<TunedStep>,
}

/// Measures the variants of the products and convolutions in the steps that a run with `config` would take, training
/// and evaluation, and remembers the fastest ones for devices that are opened from now on: see
/// [`Step::tune`](crate::runtime::Step::tune). Nothing is trained, and no folder is made.
///
/// ```
/// use brasa::device::TuneOptions;
/// use brasa::train::{Config, tune};
///
/// let config = Config { device: Some("cpu".into()), ..Config::default() };
/// let tuning = tune(config, &TuneOptions::default(), &mut |_| {})?;
/// assert!(tuning.steps.is_empty(), "there is nothing to tune on the CPU backend");
/// # Ok::<(), brasa::Error>(())
/// ```
///
/// # Errors
/// Whatever is wrong with the settings, the data or the device.
pub fn tune(config: Config, options: &TuneOptions, tell: &mut dyn FnMut(TuneProgress)) -> Result<Tuning> {
    // weights of classes are none of the kernels that are tuned, while counting the classes takes time
    let mut config = Config { class_weights: None, ..config.resolve()? };
    if config.device.as_deref() == Some(AUTO) {
        config.device = Some(choose(&config, &open, &Control::default(), devices::open)?.device);
    }
    let device = open_first(config.device.as_deref())?;
    let mut steps = Vec::new();
    if !device.is_cpu() {
        let data = batched(open(&config)?, &config)?;
        let (mut learner, _) =
            Learner::new(&config, [data.train.format(), data.judged_by().format()], std::slice::from_ref(&device))?;
        let rows = batch_rows(&config, &data.train);
        learner.check_rows(&rows)?;
        steps = learner.tune(&rows, data.judged_by().batch_size(), options, tell)?;
    }
    Ok(Tuning { device: device.info().clone(), steps })
}
