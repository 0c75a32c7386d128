//! The model of a run, with weights that it has saved.

use std::path::{Path, PathBuf};

use crate::device::Device;
use crate::error::{Error, Result};
use crate::models::{self, ModelSpec};
use crate::nn::Module;

use super::checkpoint;
use super::devices::open_first;
use super::record::{InputRecord, RUN, RunRecord};
#[cfg(feature = "cli")]
use super::run::{BEST, WEIGHTS};
use super::{Config, Trainer, targets};

/// The model of a run with weights from a file.
pub(super) struct SavedModel {
    /// Settings of the run.
    pub(super) config: Config,
    /// Where it is.
    pub(super) device: Device,
    /// With the weights.
    pub(super) model: Box<dyn Module>,
    /// Names of its classes.
    pub(super) classes: Vec<String>,
    /// What it is given.
    pub(super) input: InputRecord,
}

impl SavedModel {
    /// The model of the run in `folder`, on this device, or that of the run's settings.
    pub(super) fn open(folder: &Path, weights: &Path, device: Option<&str>) -> Result<Self> {
        let config = Trainer::config_of(folder)?;
        let record = folder.join(RUN);
        let text = std::fs::read_to_string(&record).map_err(|error| Error::io(&record, error))?;
        let run: RunRecord = serde_json::from_str(&text).map_err(|error| Error::format(&record, error.to_string()))?;
        let RunRecord { classes, input, .. } = run;
        if let Some(scales) = &input.scales {
            targets::check(scales, classes.len()).map_err(|reason| Error::format(&record, reason))?;
        }
        let device = open_first(device.or(config.device.as_deref()))?;
        device.set_matmul_precision(config.matmul_precision);
        let spec = ModelSpec { input: input.shape.clone(), classes: classes.len(), seed: u64::from(config.seed) };
        let model = models::create(&config.model.to_string(), &spec, &device)?;
        checkpoint::load_weights(model.as_ref(), weights)?;
        Ok(Self { config, device, model, classes, input })
    }
}

/// The first of these files that the run in `folder` has.
fn saved(folder: &Path, names: [&str; 2]) -> Option<PathBuf> {
    names.map(|name| folder.join(name)).into_iter().find(|path| path.exists())
}

/// The same; an error if there is none.
pub(super) fn saved_weights(folder: &Path, names: [&str; 2]) -> Result<PathBuf> {
    if let Some(weights) = saved(folder, names) {
        return Ok(weights);
    }
    Trainer::config_of(folder)?;
    Err(Error::Config(format!("{}: this run has saved no weights yet", folder.display())))
}

/// The weights of a run's best evaluation, or else its last ones.
#[cfg(feature = "cli")]
pub(crate) fn best_weights(folder: &Path) -> Option<PathBuf> {
    saved(folder, [BEST, WEIGHTS])
}
