//! What settings must be, and what follows from others.

use std::path::Path;

use crate::data::{Description, Goal, absolute};
use crate::error::{Error, Result};
use crate::models::Task;
use crate::optim::{Plateau, Schedule};

use super::{ClassWeights, Config, LossName};

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

/// The error that says so.
fn wrong(message: impl Into<String>) -> Result<()> {
    Err(Error::Config(message.into()))
}

impl Config {
    /// Checks every setting and fills in those that follow from others.
    ///
    /// # Errors
    /// [`Error::Config`] if a setting is unknown, out of range or does not fit another one.
    pub fn resolve(mut self) -> Result<Self> {
        self.make_paths_absolute()?;
        self.check_counts()?;
        self.lr.get_or_insert(self.optimizer.learning_rate());
        self.weight_decay.get_or_insert(self.optimizer.weight_decay());
        self.check_numbers()?;
        self.schedule.check()?;
        self.class_weights.as_ref().map_or(Ok(()), ClassWeights::check)?;
        self.check_combinations()?;
        self.check_name()?;
        Ok(self)
    }

    /// So that a run's settings mean the same wherever they are read.
    fn make_paths_absolute(&mut self) -> Result<()> {
        let paths =
            [("out", Some(&self.out)), ("data-dir", self.data_dir.as_ref()), ("weights", self.weights.as_ref())];
        if let Some((name, path)) = paths.into_iter().find(|(_, path)| path.is_some_and(|path| path.to_str().is_none()))
        {
            let path = path.map(|path| path.display().to_string()).unwrap_or_default();
            return wrong(format!("{name} is {path}, whose name is not UTF-8 and cannot be written down"));
        }
        self.dataset = self.dataset.absolute();
        for path in [&mut self.data_dir, &mut self.weights].into_iter().flatten() {
            *path = absolute(path);
        }
        Ok(())
    }

    fn check_counts(&self) -> Result<()> {
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
            ("validation", self.validation.unwrap_or(1), 90),
        ];
        for (name, value, most) in counts {
            if value == 0 {
                return wrong(format!("{name} is 0, but must be at least 1"));
            }
            if value > most {
                return wrong(format!("{name} is {value}, but must be at most {most}"));
            }
        }
        Ok(())
    }

    fn check_numbers(&self) -> Result<()> {
        let (lr, decay) = (self.learning_rate(), self.decay());
        // as kernels have them: what f64 still tells from 0, from 1 or from infinity, f32 may not
        let is_positive = |number: f64| (number as f32).is_finite() && number as f32 > 0.0;
        let is_below_one = |number: f64| (0.0..1.0).contains(&(number as f32));
        let numbers = [("lr", Some(lr)), ("clip-norm", self.clip_norm), ("clip-value", self.clip_value)];
        for (name, number) in numbers.into_iter().filter_map(|(name, number)| Some((name, number?))) {
            if !is_positive(number) {
                return wrong(format!("{name} is {number}, but must be a positive number"));
            }
        }
        for (name, number) in [("momentum", self.momentum), ("ema", self.ema.unwrap_or(0.0))] {
            if !is_below_one(number) {
                return wrong(format!("{name} is {number}, but must lie in 0..1"));
            }
        }
        if !((decay as f32).is_finite() && decay >= 0.0) {
            return wrong(format!("weight-decay is {decay}, but must be a number that is not negative"));
        }
        if !(0.0..=1.0).contains(&self.label_smoothing) {
            return wrong(format!("label-smoothing is {}, but must lie in 0..=1", self.label_smoothing));
        }
        Ok(())
    }

    /// Settings that exclude each other, or need one another.
    fn check_combinations(&self) -> Result<()> {
        if self.clip_norm.is_some() && self.clip_value.is_some() {
            return wrong("clip-norm and clip-value are two ways to limit gradients: give one of them");
        }
        if matches!(self.schedule, Schedule::Plateau(Plateau { maximize: true, .. })) {
            return wrong(
                "schedule: a plateau is one of the held-out loss here, which falls where all is well; leave out mode=max",
            );
        }
        if self.checkpoint_activations && !self.model.entry().has_blocks() {
            let model = self.model;
            return wrong(format!("checkpoint-activations: model `{model}` has no blocks to recompute; omit it"));
        }
        if self.weights.is_none() && !self.skip_weights.is_empty() {
            return wrong("skip-weights: nothing is loaded that could be left out; give weights, too");
        }
        Ok(())
    }

    fn check_name(&self) -> Result<()> {
        let is_plain = |name: &&String| {
            Path::new(name).components().count() == 1
                && !name.contains(['/', '\\'])
                && !matches!(name.as_str(), "." | "..")
        };
        match self.name.as_ref().filter(|name| !is_plain(name)) {
            Some(name) => wrong(format!("name is `{name}`, but must be the name of one folder in --out")),
            None => Ok(()),
        }
    }

    /// Refuses data that the model does not answer, or that augmentation cannot change.
    pub(crate) fn check_fits(&self, data: &Description) -> Result<()> {
        let (model, name) = (self.model, &data.name);
        match (model.entry().task, data.goal) {
            (Task::Segment, Goal::Classify | Goal::Regress) => {
                let other = if data.shape.len() == 3 { "cnn" } else { "mlp" };
                let has = if data.goal == Goal::Regress { "numbers" } else { "one" };
                return wrong(format!(
                    "model `{model}` says a class for each pixel, but `{name}` has {has} for each sample: take a model such as `{other}`, \
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
        match (self.loss, data.goal) {
            (Some(loss @ LossName::CrossEntropy), Goal::Regress) => {
                return wrong(format!("loss: {loss} is of classes, and `{name}` has numbers: take mse, l1 or huber"));
            }
            (Some(loss @ (LossName::Mse | LossName::L1 | LossName::Huber)), Goal::Classify | Goal::Segment) => {
                return wrong(format!("loss: {loss} is of numbers, and `{name}` has classes: omit it"));
            }
            _ => {}
        }
        if data.goal == Goal::Regress && self.label_smoothing > 0.0 {
            return wrong(format!("label-smoothing is of classes, and `{name}` has numbers: omit it"));
        }
        self.class_weights.as_ref().map_or(Ok(()), |weights| weights.check_fits(data))?;
        if data.shape.len() != 3 && !self.augment.is_none() {
            return wrong(format!("augment: the samples of `{name}` are not pictures: omit it"));
        }
        if data.goal != Goal::Classify && self.augment.mixes() {
            let has = if data.goal == Goal::Segment { "masks" } else { "numbers" };
            return wrong(format!("augment: mixup and cutmix need one class for each picture, and `{name}` has {has}"));
        }
        Ok(())
    }
}
