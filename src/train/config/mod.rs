//! The settings of a run: one struct for the file, the flags and the library.

mod check;
mod class_weights;
mod mistakes;
mod names;
#[cfg(feature = "cli")]
mod sections;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::data::{Augment, DatasetName, Goal, On, OpenOptions};
use crate::error::{Error, Result};
use crate::matmul_precision::MatmulPrecision;
use crate::optim::Schedule;

use super::save::SaveEvery;
#[cfg(feature = "cli")]
pub(crate) use check::MAX_IMAGE_SIDE;
#[cfg(feature = "cli")]
use check::count;
pub use class_weights::ClassWeights;
pub use names::{LossName, ModelName, OnNan, OptimizerName, Precision};
#[cfg(feature = "cli")]
pub(crate) use sections::SECTIONS;

/// Everything that decides a training run. Written, resolved, to the run's folder as `config.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::Args))]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// Data to train on: digits, mnist, fashion-mnist, cifar10, cifar100, oxford-pets, shapes, folder:PATH,
    /// pairs:IMAGES,MASKS or csv:FILE (see `brasa data`)
    #[cfg_attr(feature = "cli", arg(long, value_name = "DATASET", default_value_t = Self::default().dataset))]
    pub dataset: DatasetName,
    /// Folder that published data sets are kept in [default: the system's folder for what can be fetched again]
    #[cfg_attr(feature = "cli", arg(long, value_name = "FOLDER", env = "BRASA_DATA_DIR"))]
    pub data_dir: Option<PathBuf>,
    /// Fetch the data set if it is not there
    #[cfg_attr(feature = "cli", arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true",
        require_equals = true, action = clap::ArgAction::Set, default_value_t = Self::default().download))]
    pub download: bool,
    /// Resize pictures to squares of this many pixels; needed if they differ in size
    #[cfg_attr(feature = "cli", arg(long, value_name = "PIXELS", value_parser = count))]
    pub image_size: Option<usize>,
    /// Hold out so many percent of the training part and judge by them while training, which leaves the test part to
    /// `brasa eval`; for data that have no validation part
    #[cfg_attr(feature = "cli", arg(long, value_name = "PERCENT", value_parser = count))]
    pub validation: Option<usize>,
    /// Keep pictures in memory once they are read and decoded, so that each is decoded only once
    #[cfg_attr(feature = "cli", arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true",
        require_equals = true, action = clap::ArgAction::Set, default_value_t = Self::default().cache))]
    pub cache: bool,
    /// End the run at a sample that cannot be read, instead of skipping it
    #[cfg_attr(feature = "cli", arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true",
        require_equals = true, action = clap::ArgAction::Set, default_value_t = Self::default().strict))]
    pub strict: bool,
    /// Network to train; tables have mlp unless another one is named
    #[cfg_attr(feature = "cli", arg(long, value_enum, default_value_t = Self::default().model))]
    pub model: ModelName,
    /// Passes over the training data
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", value_parser = count, default_value_t = Self::default().epochs))]
    pub epochs: usize,
    /// Samples in a training step
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", value_parser = count, default_value_t = Self::default().batch_size))]
    pub batch_size: usize,
    /// What is made small [default: cross-entropy for classes, mse for numbers]
    #[cfg_attr(feature = "cli", arg(long, value_enum))]
    pub loss: Option<LossName>,
    /// Learning rate [default: 0.05 for sgd, 0.002 for adam and adamw, 0.0005 to 1 for the others]
    #[cfg_attr(feature = "cli", arg(long, value_name = "RATE"))]
    pub lr: Option<f64>,
    /// How the learning rate changes, counted in steps: constant, linear, step, multistep, exponential, polynomial,
    /// cosine, cosine-restarts, onecycle, cyclic or plateau, with settings as in cosine:warmup=100 or
    /// multistep:at=300/600,gamma=0.1 (docs/training.md has them all)
    #[cfg_attr(feature = "cli", arg(long, value_name = "SCHEDULE", default_value_t = Self::default().schedule))]
    pub schedule: Schedule,
    /// How gradients change the weights
    #[cfg_attr(feature = "cli", arg(long, value_enum, default_value_t = Self::default().optimizer))]
    pub optimizer: OptimizerName,
    /// Momentum of sgd
    #[cfg_attr(feature = "cli", arg(long, value_name = "X", default_value_t = Self::default().momentum))]
    pub momentum: f64,
    /// Weight decay: decoupled (beside the gradient) for adamw, lion and lamb, coupled (added to the gradient) for the
    /// others [default: 0.01 for adamw and lamb, 0 for the others]
    #[cfg_attr(feature = "cli", arg(long, value_name = "X"))]
    pub weight_decay: Option<f64>,
    /// Largest Euclidean norm of all gradients together; larger ones are scaled down
    #[cfg_attr(feature = "cli", arg(long, value_name = "NORM"))]
    pub clip_norm: Option<f64>,
    /// Largest value of a gradient, in either direction; instead of clip-norm
    #[cfg_attr(feature = "cli", arg(long, value_name = "VALUE", conflicts_with = "clip_norm"))]
    pub clip_value: Option<f64>,
    /// Batches whose gradients are added up before the weights change
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", value_parser = count, default_value_t = Self::default().accumulate))]
    pub accumulate: usize,
    /// Keep a moving average of the weights with this decay, and evaluate and save that (such as 0.999)
    #[cfg_attr(feature = "cli", arg(long, value_name = "DECAY"))]
    pub ema: Option<f64>,
    /// What to do with a step that gives NaN or infinity, and changes nothing
    #[cfg_attr(feature = "cli", arg(long, value_enum, value_name = "WHAT", default_value_t = Self::default().on_nan))]
    pub on_nan: OnNan,
    /// Keep only what goes into each block of the model, and compute the rest again in the backward pass: less memory
    /// for about a third more time
    #[cfg_attr(feature = "cli", arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true",
        require_equals = true, action = clap::ArgAction::Set, default_value_t = Self::default().checkpoint_activations))]
    pub checkpoint_activations: bool,
    /// Start from the weights in this file (safetensors, or of `torch.save`): those whose names and shapes fit
    #[cfg_attr(feature = "cli", arg(long, value_name = "FILE"))]
    pub weights: Option<PathBuf>,
    /// Leave out of these weights what matches, such as `fc.*`, so that a head of the same size begins anew; may be
    /// given several times
    #[cfg_attr(feature = "cli", arg(long, value_name = "PATTERN"))]
    pub skip_weights: Vec<String>,
    /// Leave parameters as they are whose names match, such as `layer1.*`; may be given several times. Their batch
    /// norms' statistics still follow the data
    #[cfg_attr(feature = "cli", arg(long, value_name = "PATTERN"))]
    pub freeze: Vec<String>,
    /// Let batch norms use the statistics that were loaded, and leave them as they are
    #[cfg_attr(feature = "cli", arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true",
        require_equals = true, action = clap::ArgAction::Set, default_value_t = Self::default().freeze_statistics))]
    pub freeze_statistics: bool,
    /// When a checkpoint is written that the run can go on from: after so many steps (500); or after so many seconds
    /// (30s), minutes or hours, and then also after an epoch if the last one is older than 10 seconds. In any case at
    /// the end
    #[cfg_attr(feature = "cli", arg(long, value_name = "WHEN", default_value_t = Self::default().save_every))]
    pub save_every: SaveEvery,
    /// Checkpoints to keep; the weights of the best evaluation are kept beside them
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", value_parser = count, default_value_t = Self::default().keep))]
    pub keep: usize,
    /// Stop when the held-out loss has not become smaller for so many epochs
    #[cfg_attr(feature = "cli", arg(long, value_name = "EPOCHS", value_parser = count))]
    pub patience: Option<usize>,
    /// Part of each label that is spread over all classes, as in PyTorch's cross_entropy
    #[cfg_attr(feature = "cli", arg(long, value_name = "X", default_value_t = Self::default().label_smoothing))]
    pub label_smoothing: f64,
    /// How much each class counts in the loss: balanced (the rarer, the more, so that all count the same together), or a
    /// number for each class, such as 1,2.5 [default: all the same]
    #[cfg_attr(feature = "cli", arg(long, value_name = "WEIGHTS"))]
    pub class_weights: Option<ClassWeights>,
    /// Random changes to training pictures: none, shift (what --augment alone means), cifar, or a list such as
    /// flip,crop=4,rotate=15,color=0.2,erase=0.25,mixup=0.2
    ///
    /// Shift is crop=1, and cifar is crop=4,flip. Known are flip, vertical-flip, alternate-flip, crop, resized-crop,
    /// rotate, translate, scale, shear, perspective, brightness, contrast, saturation, hue, color, blur, noise, erase,
    /// cutout, mixup and cutmix, each with a number of its own or none, and edge=border or edge=reflect or fill=N for
    /// what was outside
    #[cfg_attr(feature = "cli", arg(long, value_name = "CHANGES", num_args = 0..=1, default_missing_value = "shift",
        require_equals = true, default_value_t = Self::default().augment))]
    pub augment: Augment,
    /// Who augments: the loader's threads or the device that trains
    #[cfg_attr(feature = "cli", arg(long, value_enum, value_name = "WHERE", default_value_t = Self::default().augment_on))]
    pub augment_on: On,
    /// What numbers are computed in
    #[cfg_attr(feature = "cli", arg(long, value_enum, default_value_t = Self::default().precision))]
    pub precision: Precision,
    /// How exactly products of 32-bit floats are computed, where a GPU has units for products of 16-bit ones only
    #[cfg_attr(feature = "cli", arg(long, value_enum, default_value_t = Self::default().matmul_precision))]
    pub matmul_precision: MatmulPrecision,
    /// Decides weights, order and augmentation: the same seed gives the same numbers on the same device
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", default_value_t = Self::default().seed))]
    pub seed: u32,
    /// Where to compute: best, auto (tries them all), cpu, gpu, gpu:N or part of a name (see `brasa devices`); several
    /// that learn together, as gpu:0,gpu:1, or gpus for all [default: best]
    #[cfg_attr(feature = "cli", arg(long, value_name = "DEVICE", env = "BRASA_DEVICE"))]
    pub device: Option<String>,
    /// Threads that prepare batches; changes nothing but the speed
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", value_parser = count, default_value_t = Self::default().workers))]
    pub workers: usize,
    /// Folder that runs are saved in
    #[cfg_attr(feature = "cli", arg(long, value_name = "FOLDER", default_value_os_t = Self::default().out))]
    pub out: PathBuf,
    /// The run's folder in it, which must not exist yet [default: DATASET-MODEL-NUMBER]
    #[cfg_attr(feature = "cli", arg(long, value_name = "NAME"))]
    pub name: Option<String>,
    /// Write TensorBoard's event files into the run's folder
    #[cfg_attr(feature = "cli", arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true",
        require_equals = true, action = clap::ArgAction::Set, default_value_t = Self::default().tensorboard))]
    pub tensorboard: bool,
    /// Steps between two reports of the loss; slow ones are reported once a second
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", value_parser = count, default_value_t = Self::default().log_every))]
    pub log_every: usize,
}

/// One for each thread of the machine but the one that trains, up to eight: results do not depend on it.
fn default_workers() -> usize {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    threads.saturating_sub(1).clamp(1, 8)
}

impl Default for Config {
    fn default() -> Self {
        Self {
            dataset: DatasetName::Digits,
            data_dir: None,
            download: false,
            image_size: None,
            validation: None,
            cache: false,
            strict: false,
            model: ModelName::new("cnn").expect("a model of that name"),
            epochs: 15,
            batch_size: 32,
            loss: None,
            lr: None,
            // a slow start and a slow end: curves of different devices stay together, and the last epochs do not jump
            schedule: "onecycle".parse().expect("a schedule"),
            optimizer: OptimizerName::Adam,
            momentum: 0.9,
            weight_decay: None,
            clip_norm: None,
            clip_value: None,
            accumulate: 1,
            ema: None,
            on_nan: OnNan::Stop,
            checkpoint_activations: false,
            weights: None,
            skip_weights: Vec::new(),
            freeze: Vec::new(),
            freeze_statistics: false,
            save_every: SaveEvery::default(),
            keep: 2,
            patience: None,
            label_smoothing: 0.0,
            class_weights: None,
            augment: Augment::default(),
            augment_on: On::Host,
            precision: Precision::F32,
            matmul_precision: MatmulPrecision::Highest,
            seed: 0,
            device: None,
            workers: default_workers(),
            out: "runs".into(),
            name: None,
            tensorboard: true,
            log_every: 10,
        }
    }
}

impl Config {
    /// Reads a configuration file; what it does not mention keeps its default.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be read, else as [`Config::parse`].
    pub fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| Error::io(path, error))?;
        Self::parse(path, &text)
    }

    /// Reads the text of a configuration file. `path` is for messages.
    ///
    /// # Errors
    /// [`Error::Format`] if the text is not TOML, has a setting that there is not, or a value of another type. Whether
    /// values are in range is seen by [`Config::resolve`].
    pub fn parse(path: &Path, text: &str) -> Result<Self> {
        toml::from_str(text).map_err(|error| Error::format(path, mistakes::in_words(&error)))
    }

    /// The same with the network that is taken where nobody named one: of rows of a table it is no convolutional one.
    #[cfg(feature = "cli")]
    pub(crate) fn with_model_for_data(self) -> Self {
        match self.dataset {
            DatasetName::Csv { .. } => Self { model: ModelName::new("mlp").expect("a model of that name"), ..self },
            _ => self,
        }
    }

    /// The text of a configuration file with all settings.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a flat struct of numbers and strings is valid TOML")
    }

    /// How the data set is opened.
    pub fn open_options(&self) -> OpenOptions {
        let any_size = self.image_size.is_some();
        OpenOptions { data_dir: self.data_dir.clone(), download: self.download, any_size, columns: None }
    }

    /// The loss of data with this goal.
    pub(crate) fn loss_of(&self, goal: Goal) -> LossName {
        self.loss.unwrap_or(if goal == Goal::Regress { LossName::Mse } else { LossName::CrossEntropy })
    }

    /// The learning rate that schedules start from.
    ///
    /// # Panics
    /// If the configuration was not [resolved](Self::resolve).
    pub fn learning_rate(&self) -> f64 {
        self.lr.expect("a resolved configuration has a learning rate")
    }

    /// The optimizer's weight decay.
    ///
    /// # Panics
    /// If the configuration was not [resolved](Self::resolve).
    pub fn decay(&self) -> f64 {
        self.weight_decay.expect("a resolved configuration has a weight decay")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optim::{AdamOptions, LambOptions, LionOptions, WeightDecay};

    fn parse(text: &str) -> Result<Config> {
        Config::parse(Path::new("run.toml"), text)
    }

    #[test]
    fn a_file_round_trips() {
        let config = Config { lr: Some(0.1), name: Some("first".into()), ..Config::default() };
        assert_eq!(parse(&config.to_toml()).expect("own output"), config);
        assert_eq!(parse("").expect("an empty file"), Config::default());
        assert_eq!(parse("batch-size = 7\noptimizer = 'sgd'").expect("two settings").batch_size, 7);
    }

    #[test]
    fn mistakes_in_a_file_are_named_with_what_is_known() {
        let message = |text| parse(text).expect_err("should be refused").to_string();
        let unknown = message("epochs = 3\nbatchsize = 4");
        assert!(
            unknown.contains("run.toml") && unknown.contains("line 2") && unknown.contains("batch-size"),
            "{unknown}"
        );
        assert!(message("model = 'vgg'").contains("resnet20"));
        assert!(message("model = 'gpt'").contains("resnet20"), "it does not classify pictures");
        assert!(message("epochs = 'three'").contains("line 1"));
        assert!(message("epochs = ").contains("line 1"));
    }

    #[cfg(unix)]
    #[test]
    fn names_that_cannot_be_written_down_are_refused() {
        let name = || PathBuf::from(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"ru\xffns"));
        for config in [
            Config { out: name(), ..Config::default() },
            Config { weights: Some(name()), ..Config::default() },
            Config { data_dir: Some(name()), ..Config::default() },
        ] {
            let message = config.resolve().expect_err("not UTF-8").to_string();
            assert!(message.contains("UTF-8"), "{message}");
        }
    }

    #[test]
    fn values_out_of_range_are_refused() {
        let base = Config::default;
        let wrong = [
            (Config { epochs: 0, ..base() }, "epochs"),
            (Config { epochs: usize::MAX, ..base() }, "epochs"),
            (Config { batch_size: usize::MAX, ..base() }, "batch-size"),
            (Config { batch_size: 0, ..base() }, "batch-size"),
            (Config { workers: 0, ..base() }, "workers"),
            (Config { log_every: 0, ..base() }, "log-every"),
            (Config { lr: Some(-1.0), ..base() }, "lr"),
            (Config { lr: Some(f64::NAN), ..base() }, "lr"),
            (Config { momentum: 1.0, ..base() }, "momentum"),
            (Config { weight_decay: Some(-0.1), ..base() }, "weight-decay"),
            (Config { clip_norm: Some(0.0), ..base() }, "clip-norm"),
            // f64 tells them from 0, from infinity and from 1, and f32 does not
            (Config { clip_norm: Some(1e-46), ..base() }, "clip-norm"),
            (Config { clip_value: Some(1e-46), ..base() }, "clip-value"),
            (Config { clip_value: Some(1e39), ..base() }, "clip-value"),
            (Config { ema: Some(1.0 - 1e-9), ..base() }, "ema"),
            (Config { lr: Some(1e-46), ..base() }, "lr"),
            (Config { clip_norm: Some(1.0), clip_value: Some(1.0), ..base() }, "clip-norm and clip-value"),
            (Config { label_smoothing: 1.5, ..base() }, "label-smoothing"),
            (Config { schedule: Schedule::Step { size: 0, gamma: 0.1 }, ..base() }, "schedule"),
            (Config { schedule: "plateau:mode=max".parse().expect("one"), ..base() }, "schedule"),
            (Config { checkpoint_activations: true, ..base() }, "checkpoint-activations"),
            (Config { skip_weights: vec!["fc.*".into()], ..base() }, "skip-weights"),
            (Config { name: Some("../x".into()), ..base() }, "name"),
            (Config { name: Some("..".into()), ..base() }, "name"),
            (Config { name: Some(String::new()), ..base() }, "name"),
        ];
        for (config, field) in wrong {
            let message = config.resolve().expect_err(field).to_string();
            assert!(message.starts_with(field), "{message}");
        }
        let resolved = Config { optimizer: OptimizerName::SGD, ..base() }.resolve().expect("defaults are good");
        assert_eq!((resolved.lr, resolved.weight_decay), (Some(0.05), Some(0.0)));
    }

    #[test]
    fn weight_decay_is_the_optimizers_own_unless_given() {
        let resolved = |optimizer, weight_decay| {
            let config = Config { optimizer, weight_decay, ..Config::default() };
            config.resolve().expect("good settings").decay() as f32
        };
        let of = |decay| match decay {
            WeightDecay::None => 0.0,
            WeightDecay::Coupled(factor) | WeightDecay::Decoupled(factor) => factor,
        };
        assert_eq!(resolved(OptimizerName::AdamW, None), of(AdamOptions::adamw().weight_decay));
        assert_eq!(resolved(OptimizerName::Adam, None), of(AdamOptions::default().weight_decay));
        assert_eq!(resolved(OptimizerName::Lamb, None), of(LambOptions::default().weight_decay));
        assert_eq!(resolved(OptimizerName::Lion, None), of(LionOptions::default().weight_decay));
        assert_eq!(resolved(OptimizerName::AdamW, Some(0.0)), 0.0, "none is a choice");
    }

    #[test]
    fn names_print_as_in_files() {
        assert_eq!(ModelName::new("resnet20").expect("a model").to_string(), "resnet20");
        assert_eq!(OptimizerName::AdamW.to_string(), "adamw");
    }
}
