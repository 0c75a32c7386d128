//! The settings of a run: one struct for the file, the flags and the library.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::data::{DatasetName, OpenOptions};
use crate::error::{Error, Result};
use crate::models::{Entry, MODELS, Task};
use crate::optim::Schedule;

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
    /// Network to train
    #[cfg_attr(feature = "cli", arg(long, value_enum, default_value_t = Self::default().model))]
    pub model: ModelName,
    /// Passes over the training data
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", default_value_t = Self::default().epochs))]
    pub epochs: usize,
    /// Samples in a training step
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", default_value_t = Self::default().batch_size))]
    pub batch_size: usize,
    /// Learning rate [default: 0.05 for sgd, 0.002 for adam and adamw, 0.0005 to 1 for the others]
    #[cfg_attr(feature = "cli", arg(long, value_name = "RATE"))]
    pub lr: Option<f64>,
    /// How the learning rate changes, counted in steps: onecycle, constant, cosine, cosine:warmup=100,
    /// multistep:at=300/600,gamma=0.1, plateau:patience=2 (asked after each epoch), ...
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
    /// Part of each label that is spread over all classes, as in PyTorch's cross_entropy
    #[cfg_attr(feature = "cli", arg(long, value_name = "X", default_value_t = Self::default().label_smoothing))]
    pub label_smoothing: f64,
    /// Move each training picture by up to one pixel at random
    #[cfg_attr(feature = "cli", arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true",
        require_equals = true, action = clap::ArgAction::Set, default_value_t = Self::default().augment))]
    pub augment: bool,
    /// What numbers are computed in
    #[cfg_attr(feature = "cli", arg(long, value_enum, default_value_t = Self::default().precision))]
    pub precision: Precision,
    /// Decides weights, order and augmentation: the same seed gives the same numbers on the same device
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", default_value_t = Self::default().seed))]
    pub seed: u32,
    /// Where to compute: best, cpu, gpu, gpu:N or part of a name (see `brasa devices`) [default: best]
    #[cfg_attr(feature = "cli", arg(long, value_name = "DEVICE", env = "BRASA_DEVICE"))]
    pub device: Option<String>,
    /// Threads that prepare batches; changes nothing but the speed
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", default_value_t = Self::default().workers))]
    pub workers: usize,
    /// Folder that runs are saved in
    #[cfg_attr(feature = "cli", arg(long, value_name = "FOLDER", default_value_os_t = Self::default().out))]
    pub out: PathBuf,
    /// The run's folder in it, which must not exist yet [default: DATASET-MODEL-NUMBER]
    #[cfg_attr(feature = "cli", arg(long, value_name = "NAME"))]
    pub name: Option<String>,
    /// Steps between two reports of the loss
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", default_value_t = Self::default().log_every))]
    pub log_every: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            dataset: DatasetName::Digits,
            data_dir: None,
            download: false,
            model: ModelName::new("cnn").expect("a model of that name"),
            epochs: 15,
            batch_size: 32,
            lr: None,
            // a slow start and a slow end: curves of different devices stay together, and the last epochs do not jump
            schedule: "onecycle".parse().expect("a schedule"),
            optimizer: OptimizerName::Adam,
            momentum: 0.9,
            weight_decay: None,
            clip_norm: None,
            label_smoothing: 0.0,
            augment: false,
            precision: Precision::F32,
            seed: 0,
            device: None,
            workers: 1,
            out: "runs".into(),
            name: None,
            log_every: 10,
        }
    }
}

/// The name of a network that classifies pictures: one of [`MODELS`](crate::models::MODELS).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModelName(&'static Entry);

impl ModelName {
    /// The network called `name`.
    ///
    /// # Errors
    /// If there is none, or it does something else.
    pub fn new(name: &str) -> Result<Self> {
        let known = Self::all();
        known.iter().find(|model| model.0.name == name).copied().ok_or_else(|| {
            let names = known.iter().map(|model| model.0.name).collect::<Vec<_>>().join(", ");
            Error::Config(format!("unknown model `{name}`; known are: {names}"))
        })
    }

    /// All of them.
    pub fn all() -> &'static [Self] {
        static ALL: LazyLock<Vec<ModelName>> =
            LazyLock::new(|| MODELS.iter().filter(|entry| entry.task == Task::Classify).map(ModelName).collect());
        &ALL
    }
}

impl std::fmt::Display for ModelName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.name)
    }
}

impl Serialize for ModelName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name)
    }
}

impl<'de> Deserialize<'de> for ModelName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::new(&name).map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "cli")]
impl clap::ValueEnum for ModelName {
    fn value_variants<'a>() -> &'a [Self] {
        Self::all()
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.0.name).help(self.0.about))
    }
}

/// Optimizers by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum), value(rename_all = "lower"))]
#[serde(rename_all = "lowercase")]
pub enum OptimizerName {
    /// Gradient descent with momentum
    SGD,
    /// Adam (Kingma and Ba 2015)
    Adam,
    /// Adam with decoupled weight decay (Loshchilov and Hutter 2019)
    AdamW,
    /// Adam with Nesterov's momentum (Dozat 2016)
    NAdam,
    /// Adam that starts without its second moment (Liu et al. 2020)
    RAdam,
    /// Adam by the largest gradient (Kingma and Ba 2015)
    Adamax,
    /// Gradients over their root mean square (Hinton 2012)
    RMSprop,
    /// Gradients over the root of the sum of all squares (Duchi et al. 2011)
    Adagrad,
    /// Adagrad over a window, without units (Zeiler 2012)
    Adadelta,
    /// Signs of a momentum (Chen et al. 2023)
    Lion,
    /// Adam scaled by layer, for large batches (You et al. 2020)
    Lamb,
}

/// What numbers are computed in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// Strict 32-bit floats, sums included: nothing is rounded to fewer bits
    F32,
}

/// Gives the name that flags and files use.
macro_rules! display_as_in_files {
    ($($name:ident),*) => {$(
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                // Serialising a variant without fields writes its name through the formatter.
                self.serialize(f)
            }
        }
    )*};
}
display_as_in_files!(OptimizerName, Precision);

impl Config {
    /// Reads a configuration file; what it does not mention keeps its default.
    pub fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| Error::io(path, error))?;
        Self::parse(path, &text)
    }

    /// Reads the text of a configuration file. `path` is for messages.
    pub fn parse(path: &Path, text: &str) -> Result<Self> {
        toml::from_str(text).map_err(|error| Error::format(path, error.to_string().trim_end().to_owned()))
    }

    /// The text of a configuration file with all settings.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a flat struct of numbers and strings is valid TOML")
    }

    /// Checks every setting and fills in those that follow from others.
    pub fn resolve(mut self) -> Result<Self> {
        // the upper limits are beyond all use, and keep products of settings within their types
        let counts = [
            ("epochs", self.epochs, 1_000_000),
            ("batch-size", self.batch_size, 1 << 20),
            ("workers", self.workers, 1024),
            ("log-every", self.log_every, 1_000_000),
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
        if !(lr.is_finite() && lr > 0.0) {
            return Err(Error::Config(format!("lr is {lr}, but must be a positive number")));
        }
        if !(0.0..1.0).contains(&self.momentum) {
            return Err(Error::Config(format!("momentum is {}, but must lie in 0..1", self.momentum)));
        }
        // the library's defaults: PyTorch's, and for lamb its paper's
        let decay = *self.weight_decay.get_or_insert(match self.optimizer {
            OptimizerName::AdamW | OptimizerName::Lamb => 0.01,
            _ => 0.0,
        });
        if !(decay.is_finite() && decay >= 0.0) {
            return Err(Error::Config(format!("weight-decay is {decay}, but must not be negative")));
        }
        if let Some(norm) = self.clip_norm.filter(|norm| !(norm.is_finite() && *norm > 0.0)) {
            return Err(Error::Config(format!("clip-norm is {norm}, but must be a positive number")));
        }
        if !(0.0..=1.0).contains(&self.label_smoothing) {
            let smoothing = self.label_smoothing;
            return Err(Error::Config(format!("label-smoothing is {smoothing}, but must lie in 0..=1")));
        }
        self.schedule.check()?;
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

    /// How the data set is opened.
    pub fn open_options(&self) -> OpenOptions {
        OpenOptions { data_dir: self.data_dir.clone(), download: self.download, any_size: false }
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
            (Config { label_smoothing: 1.5, ..base() }, "label-smoothing"),
            (Config { schedule: Schedule::Step { size: 0, gamma: 0.1 }, ..base() }, "schedule"),
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
