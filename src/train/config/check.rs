//! What settings must be, and what follows from others.

use std::path::Path;

use crate::data::{Description, Goal, absolute};
use crate::error::{Error, Result};
use crate::models::Task;
use crate::optim::{Plateau, Schedule};

use super::{Config, OptimizerName};

/// A number of something, of which there is at least one.
#[cfg(feature = "cli")]
pub(super) fn count(text: &str) -> Result<usize, String> {
    text.parse().map_err(|error: std::num::ParseIntError| match error.kind() {
        std::num::IntErrorKind::PosOverflow => "it is too large".to_owned(),
        _ => "it must be a whole number, and at least 1".to_owned(),
    })
}

/// Pixels of a picture's side at most.
pub(crate) const MAX_IMAGE_SIDE: usize = 1 << 14;

impl Config {
    /// Checks every setting and fills in those that follow from others.
    ///
    /// # Errors
    /// [`Error::Config`] if a setting is unknown, out of range or does not fit another one.
    pub fn resolve(mut self) -> Result<Self> {
        let paths =
            [("out", Some(&self.out)), ("data-dir", self.data_dir.as_ref()), ("weights", self.weights.as_ref())];
        if let Some((name, path)) = paths.into_iter().find(|(_, path)| path.is_some_and(|path| path.to_str().is_none()))
        {
            let path = path.map(|path| path.display().to_string()).unwrap_or_default();
            return Err(Error::Config(format!("{name} is {path}, whose name is not UTF-8 and cannot be written down")));
        }
        self.dataset = self.dataset.absolute();
        for path in [&mut self.data_dir, &mut self.weights].into_iter().flatten() {
            *path = absolute(path);
        }
        // the upper limits are beyond all use, and keep products of settings within their types
        let counts = [
            ("epochs", self.epochs, 1_000_000),
            ("batch-size", self.batch_size, 1 << 20),
            ("workers", self.workers, 1024),
            ("log-every", self.log_every, 1_000_000),
            ("accumulate", self.accumulate, 1 << 16),
            ("keep", self.keep, 1_000_000),
            ("image-size", self.image_size.unwrap_or(1), MAX_IMAGE_SIDE),
            ("patience", self.patience.unwrap_or(1), 1_000_000),
        ];
        for (name, value, most) in counts {
            if value == 0 {
                return Err(Error::Config(format!("{name} is 0, but must be at least 1")));
            }
            if value > most {
                return Err(Error::Config(format!("{name} is {value}, but must be at most {most}")));
            }
        }
        let lr = *self.lr.get_or_insert(match self.optimizer {
            OptimizerName::SGD => 0.05,
            OptimizerName::Adam | OptimizerName::AdamW | OptimizerName::NAdam | OptimizerName::Adamax => 0.002,
            OptimizerName::Lamb => 0.005,
            // its first steps are much smaller than Adam's
            OptimizerName::RAdam | OptimizerName::RMSprop | OptimizerName::Adagrad => 0.01,
            OptimizerName::Adadelta => 1.0,
            // a quarter of Adam's, as its authors advise
            OptimizerName::Lion => 0.0005,
        });
        // as kernels have them: what f64 still tells from 0, from 1 or from infinity, f32 may not
        let is_positive = |number: f64| (number as f32).is_finite() && number as f32 > 0.0;
        if !is_positive(lr) {
            return Err(Error::Config(format!("lr is {lr}, but must be a positive number")));
        }
        if !(0.0..1.0).contains(&(self.momentum as f32)) {
            return Err(Error::Config(format!("momentum is {}, but must lie in 0..1", self.momentum)));
        }
        // the library's defaults: PyTorch's, and for lamb its paper's
        let decay = *self.weight_decay.get_or_insert(match self.optimizer {
            OptimizerName::AdamW | OptimizerName::Lamb => 0.01,
            _ => 0.0,
        });
        if !((decay as f32).is_finite() && decay >= 0.0) {
            return Err(Error::Config(format!("weight-decay is {decay}, but must be a number that is not negative")));
        }
        if let Some(norm) = self.clip_norm.filter(|&norm| !is_positive(norm)) {
            return Err(Error::Config(format!("clip-norm is {norm}, but must be a positive number")));
        }
        if let Some(value) = self.clip_value.filter(|&value| !is_positive(value)) {
            return Err(Error::Config(format!("clip-value is {value}, but must be a positive number")));
        }
        if self.clip_norm.is_some() && self.clip_value.is_some() {
            return Err(Error::Config(
                "clip-norm and clip-value are two ways to limit gradients: give one of them".into(),
            ));
        }
        if let Some(decay) = self.ema.filter(|&decay| !(0.0..1.0).contains(&(decay as f32))) {
            return Err(Error::Config(format!("ema is {decay}, but must lie in 0..1")));
        }
        if !(0.0..=1.0).contains(&self.label_smoothing) {
            let smoothing = self.label_smoothing;
            return Err(Error::Config(format!("label-smoothing is {smoothing}, but must lie in 0..=1")));
        }
        self.schedule.check()?;
        if matches!(self.schedule, Schedule::Plateau(Plateau { maximize: true, .. })) {
            return Err(Error::Config(
                "schedule: a plateau is one of the held-out loss here, which falls where all is well; leave out mode=max"
                    .into(),
            ));
        }
        if self.checkpoint_activations && !self.model.entry().has_blocks() {
            let model = self.model;
            let what = format!("checkpoint-activations: model `{model}` has no blocks to recompute; omit it");
            return Err(Error::Config(what));
        }
        if self.weights.is_none() && !self.skip_weights.is_empty() {
            return Err(Error::Config(
                "skip-weights: nothing is loaded that could be left out; give weights, too".into(),
            ));
        }
        if let Some(name) = &self.name {
            let is_plain = Path::new(name).components().count() == 1
                && !name.contains(['/', '\\'])
                && !matches!(name.as_str(), "." | "..");
            if !is_plain {
                return Err(Error::Config(format!("name is `{name}`, but must be the name of one folder in --out")));
            }
        }
        Ok(self)
    }

    /// Refuses data that the model does not answer, or that augmentation cannot change.
    pub(crate) fn check_fits(&self, data: &Description) -> Result<()> {
        let (model, name) = (self.model, &data.name);
        let wrong = |what: String| Err(Error::Config(what));
        match (model.entry().task, data.goal) {
            (Task::Segment, Goal::Classify) => {
                let other = if data.shape.len() == 3 { "cnn" } else { "mlp" };
                return wrong(format!(
                    "model `{model}` says a class for each pixel, but `{name}` has one for each sample: take a model such as `{other}`, \
                     or data with masks such as `shapes`"
                ));
            }
            (Task::Classify, Goal::Segment) => {
                return wrong(format!(
                    "model `{model}` says one class for a picture, but `{name}` has one for each pixel: take --model unet"
                ));
            }
            _ => {}
        }
        if data.shape.len() != 3 && !self.augment.is_none() {
            return wrong(format!("augment: the samples of `{name}` are not pictures: omit it"));
        }
        if data.goal == Goal::Segment && self.augment.mixes() {
            return wrong(format!("augment: mixup and cutmix need one class for each picture, and `{name}` has masks"));
        }
        Ok(())
    }
}
