//! What was found, and what follows from it.

use std::fmt;

use serde::Serialize;

use crate::bench::Machine;
use crate::device::{Device, DeviceInfo};

/// An op that does not do what it should.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Deviation {
    /// The op, by its row in the table.
    pub op: String,
    /// Types and shapes of its inputs.
    pub inputs: Vec<String>,
    /// The type in which it deviates; `None` if the op has no inputs and failed.
    pub dtype: Option<String>,
    /// `result` or `gradient of input N`; empty if all failed.
    pub part: String,
    /// How.
    pub problem: Problem,
}

/// What is wrong.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Problem {
    /// A value is too far from the reference.
    Differs {
        /// The worst element, in row-major order.
        index: usize,
        /// What the device made of it.
        got: f64,
        /// What f64 arithmetic makes of it.
        expected: f64,
        /// How far it may be away.
        allowed: f64,
    },
    /// It gave an error.
    Failed(String),
}

/// The ops of the table on one device.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Sweep {
    /// How many ops were tried.
    pub ops: usize,
    /// With how many inputs, over all types.
    pub cases: usize,
    /// What was wrong.
    pub deviations: Vec<Deviation>,
    /// The device went away, and the rest was not tried.
    pub lost: bool,
}

/// How a check ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Well, and what was seen.
    Passed(String),
    /// Badly, and what was seen.
    Failed(String),
    /// Not well, but nothing is wrong because of it.
    Degraded(String),
    /// It could not be tried, and why.
    NotAvailable(String),
}

impl Outcome {
    /// One word, and what was seen.
    pub fn in_words(&self) -> (&'static str, &str) {
        match self {
            Self::Passed(text) => ("passed", text),
            Self::Failed(text) => ("FAILED", text),
            Self::Degraded(text) => ("degraded", text),
            Self::NotAvailable(text) => ("not available", text),
        }
    }
}

/// One thing that was tried besides the ops.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Check {
    /// What.
    pub name: String,
    /// How it ended.
    pub outcome: Outcome,
}

/// All that was found on one device.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// brasa's version.
    pub version: String,
    /// Where it ran, and when.
    pub machine: Machine,
    /// On what.
    pub device: DeviceInfo,
    /// Op by op.
    pub sweep: Sweep,
    /// The rest.
    pub checks: Vec<Check>,
}

/// Whether to train there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing is wrong.
    Safe,
    /// Only f16 is wrong.
    SafeWithoutF16,
    /// Something else is wrong.
    NotSafe,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Safe => "safe to train here",
            Self::SafeWithoutF16 => "safe to train here with --precision f32 (the default), not with --precision f16",
            Self::NotSafe => "not safe to train here: use --device cpu, or another driver",
        })
    }
}

impl Report {
    pub(super) fn new(device: &Device) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").into(),
            machine: Machine::look(),
            device: device.info().clone(),
            sweep: Sweep::default(),
            checks: Vec::new(),
        }
    }

    /// What follows from it.
    pub fn verdict(&self) -> Verdict {
        let is_of_halves = |deviation: &Deviation| deviation.inputs.iter().any(|input| input.starts_with("f16"));
        let (halves, others): (Vec<&Deviation>, Vec<_>) =
            self.sweep.deviations.iter().partition(|deviation| is_of_halves(deviation));
        let failed = |check: &&Check| matches!(check.outcome, Outcome::Failed(_));
        let (half_checks, other_checks): (Vec<&Check>, Vec<_>) =
            self.checks.iter().filter(failed).partition(|check| check.name.ends_with("f16"));
        if self.sweep.lost || !others.is_empty() || !other_checks.is_empty() {
            Verdict::NotSafe
        } else if !halves.is_empty() || !half_checks.is_empty() {
            Verdict::SafeWithoutF16
        } else {
            Verdict::Safe
        }
    }

    /// What else may help.
    pub fn advice(&self) -> Option<&'static str> {
        let fails = |name: &str| {
            let is_bad = |outcome: &Outcome| matches!(outcome, Outcome::Failed(_) | Outcome::Degraded(_));
            self.checks.iter().any(|check| check.name.starts_with(name) && is_bad(&check.outcome))
        };
        if self.device.cooperative.is_some() && fails("large products") {
            return Some("its matrix units may be what is wrong: examine it again with BRASA_FEATURES=-cooperative");
        }
        fails("timestamps").then_some("its clock is wrong, and times of stages with it: BRASA_FEATURES=-timestamps")
    }
}
