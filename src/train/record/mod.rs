//! What a run writes into its folder while it goes on, for whoever looks at it: the window, of this process or another
//! one, and programs of one's own. Each file is one of these types as JSON; reading them is for
//! [`crate::runs`].

mod line;
mod plan;
mod predictions;
mod status;

use std::io::ErrorKind;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::data::{Description, Goal, Normalization};
use crate::error::{Error, Result};
use crate::units::some;

use super::{MemoryNeed, Start};

pub(super) use line::number;
pub use line::{Kind, Line};
pub use plan::{KernelRecord, PlanRecord};
pub use predictions::{Predictions, Sample, Sheet};
pub use status::{Lane, RunState, Span, Status, Timeline};

/// What a run keeps locked for as long as it goes on.
pub(crate) const LOCK: &str = ".lock";
/// What the run is: [`RunRecord`], written when it begins and when it goes on.
pub const RUN: &str = "run.json";
/// Its numbers, step by step: a [`Line`] each.
pub const METRICS: &str = "metrics.jsonl";
/// How it is right now: [`Status`], written anew about once a second.
pub const STATUS: &str = "status.json";
/// Its training step as kernels: [`PlanRecord`].
pub const PLAN: &str = "plan.json";
/// What the model says about some held-out samples: [`Predictions`], written anew after each evaluation.
pub const PREDICTIONS: &str = "predictions.json";
/// What was taken for what in the last evaluation: [`Confusion`](super::Confusion).
pub const CONFUSION: &str = "confusion.json";
/// By how much numbers were missed in it: [`Residuals`](super::Residuals).
pub const RESIDUALS: &str = "residuals.json";

/// What a run is, as it is written when it begins.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunRecord {
    /// Model, data and device.
    #[serde(flatten)]
    pub start: Start,
    /// What it takes of the device's memory.
    pub memory: MemoryNeed,
    /// Names of the classes, if the data has them, or of the numbers that are predicted.
    pub classes: Vec<String>,
    /// What the model is given.
    pub input: InputRecord,
    /// When the run began for the first time: milliseconds since 1970. Runs from before this was written have none.
    #[serde(default)]
    pub begun_unix_ms: Option<u64>,
}

impl RunRecord {
    /// An error if data ask for something else than the run has learned: each would be taken for another. `whose` has
    /// learned it, and `then` is what is to be done.
    pub(in crate::train) fn check_asked(&self, of: &Description, whose: &str, then: &str) -> Result<()> {
        let name = &of.name;
        let kind = |regresses| if regresses { "numbers" } else { "classes" };
        let (own, learned) = (of.goal == Goal::Regress, self.input.regresses);
        let (own, learned) = if own != learned {
            (kind(own).to_owned(), kind(learned).to_owned())
        } else if of.classes != self.classes {
            (format!("the {} {}", kind(own), some(&of.classes)), some(&self.classes))
        } else {
            return Ok(());
        };
        Err(Error::Config(format!("`{name}` has {own}, but the {whose} has learned {learned}: {then} these")))
    }

    /// That of the run in this folder; `None` if there is none, or none that can be read, which is nothing to compare with.
    pub(crate) fn of(run: &Path) -> Result<Option<Self>> {
        let path = run.join(RUN);
        match std::fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io(path, error)),
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
        }
    }
}

/// What a model is given, and asked.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct InputRecord {
    /// Shape of a sample: `[channels, height, width]`, or `[features]`.
    pub shape: Vec<usize>,
    /// What of a picture's bytes becomes 0, for each channel or for all of them; of a table's columns, for each.
    pub mean: Vec<f32>,
    /// How many steps of a byte, or of a column's unit, become 1.
    pub std: Vec<f32>,
    /// True if classes of pixels are asked for, not of pictures.
    pub segments: bool,
    /// Names of a table's columns with features, in the order in which the model is given them. Runs from before these
    /// were written, and of tables without names, have none.
    #[serde(default)]
    pub columns: Vec<String>,
    /// True if numbers are asked for, not classes.
    #[serde(default)]
    pub regresses: bool,
    /// What these numbers were standardised by.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub scales: Option<Normalization>,
    /// How many samples of each class it learns from, or pixels, where the data tell or weights of classes needed them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub counts: Option<Vec<u64>>,
}
