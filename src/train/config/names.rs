//! Settings that are one of a few words.

use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::data::On;
use crate::error::Result;
use crate::matmul_precision::MatmulPrecision;
use crate::models::{self, Entry, Task};

/// The name of a network for pictures or rows: one of [`models::all`].
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
            let entries: Vec<&Entry> = known.iter().map(|model| model.0).collect();
            models::unknown(name, &entries)
        })
    }

    /// What it is called.
    pub const fn name(self) -> &'static str {
        self.0.name
    }

    /// What is known of it.
    pub const fn entry(self) -> &'static Entry {
        self.0
    }

    /// All of them.
    pub fn all() -> &'static [Self] {
        static ALL: Mutex<&[ModelName]> = Mutex::new(&[]);
        // first, or an older list than another thread's could take its place
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        let known = models::all().into_iter().filter(|entry| entry.task != Task::Continue).map(Self);
        let known: Vec<Self> = known.collect();
        // a new list only where a program has added to it
        if known.len() != all.len() {
            *all = known.leak();
        }
        *all
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

impl OptimizerName {
    /// The learning rate where none is given.
    pub fn learning_rate(self) -> f64 {
        match self {
            Self::SGD => 0.05,
            Self::Adam | Self::AdamW | Self::NAdam | Self::Adamax => 0.002,
            Self::Lamb => 0.005,
            // its first steps are much smaller than Adam's
            Self::RAdam | Self::RMSprop | Self::Adagrad => 0.01,
            Self::Adadelta => 1.0,
            // a quarter of Adam's, as its authors advise
            Self::Lion => 0.0005,
        }
    }

    /// The weight decay where none is given: the library's, which is PyTorch's, and for lamb its paper's.
    pub fn weight_decay(self) -> f64 {
        match self {
            Self::AdamW | Self::Lamb => 0.01,
            _ => 0.0,
        }
    }
}

/// Losses by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum LossName {
    /// Minus the logarithm of the right class's probability: of classes
    CrossEntropy,
    /// Squared error: of numbers
    Mse,
    /// Absolute error, for which outliers count less: of numbers
    L1,
    /// Squared up to one standard deviation, absolute beyond (Huber 1964): of numbers
    Huber,
}

/// What numbers are computed in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// Strict 32-bit floats, sums included: nothing is rounded to fewer bits unless --matmul-precision has it so
    F32,
    /// Mixed: products of 16-bit floats, added up in 32 bits; weights, normalisation, loss and update in 32 bits; the
    /// loss is scaled so that small gradients survive
    F16,
}

/// What happens when a step gives a number that is not finite. It changes nothing in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum OnNan {
    /// The run ends with the op, module and line where it appeared first
    Stop,
    /// The run goes on with the next batch; such steps are counted
    Skip,
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
display_as_in_files!(OptimizerName, LossName, Precision, MatmulPrecision, OnNan, On);
