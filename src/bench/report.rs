//! What a benchmark found.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::files;
use crate::matmul_precision::MatmulPrecision;
use crate::stage::Stage;
use crate::timing::TimeSource;

use super::peak::BEYOND_CACHES;
use super::{Crossover, Growth, Machine, Measured, Method, Peak};

/// A group of cases.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Suite {
    /// Products of matrices, and two loops as notebooks time them
    Matmul,
    /// Elementwise, sums, softmax, norms, transposes, lookups, convolution, attention
    Ops,
    /// The ten stages of a training run
    Stages,
    /// Training steps of whole networks
    Train,
    /// Inference: latency of one sample, throughput of many
    Infer,
    /// To the device and back
    Transfer,
}

impl Suite {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Matmul, Self::Ops, Self::Stages, Self::Train, Self::Infer, Self::Transfer];

    /// The lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Matmul => "matmul",
            Self::Ops => "ops",
            Self::Stages => "stages",
            Self::Train => "train",
            Self::Infer => "infer",
            Self::Transfer => "transfer",
        }
    }
}

/// A benchmark of one machine.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Another one for each report.
    pub id: String,
    /// Of brasa.
    pub version: String,
    /// `release` or `debug`; the latter says nothing about speed.
    pub build: String,
    /// The machine that it was measured on.
    pub machine: Machine,
    /// How it was measured.
    pub method: Method,
    /// What was found on each device.
    pub devices: Vec<DeviceReport>,
    /// Where devices overtake the first one, if that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crossovers: Vec<Crossover>,
    /// The batch with which each device trains the most samples a second, if that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub growths: Vec<Growth>,
    /// What of these two could not be measured, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// What was found on one device.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct DeviceReport {
    /// `cpu`, `gpu:0`, …
    pub selector: String,
    /// The adapter's name.
    pub name: String,
    /// What kind of processor it is, in words.
    pub kind: String,
    /// The programming interface it is reached through.
    pub backend: String,
    /// The driver and its version.
    pub driver: String,
    /// What it was measured to do at most, if that could be measured.
    pub peak: Option<Peak>,
    /// What tells the energy that it uses, or `not available here: ` and why.
    #[serde(default)]
    pub energy: String,
    /// What tells how much of it is at work, or why nothing does.
    #[serde(default)]
    pub utilisation: String,
    /// Its clock in MHz before it was measured, where the driver tells, of a graphics card.
    #[serde(default)]
    pub clock_mhz: Option<f64>,
    /// Its clock in MHz right after it was measured.
    #[serde(default)]
    pub clock_after_mhz: Option<f64>,
    /// What held the clock down right after that, if the driver reports something.
    #[serde(default)]
    pub held_down_by: Option<String>,
    /// The matrix units that products of 16-bit floats use, if there are any.
    #[serde(default)]
    pub units: Option<String>,
    /// Why nothing more was measured on it, if it failed.
    pub failure: Option<String>,
    /// The cases.
    pub rows: Vec<Row>,
    /// The stages of a training run, if they were asked for.
    pub stages: Vec<StageRow>,
}

/// One case on one device.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Its suite.
    pub suite: Suite,
    /// Its name; the same case has the same name on every device and in every version.
    pub name: String,
    /// What one run is.
    pub what: String,
    /// What is multiplied.
    #[serde(default = "single")]
    pub dtype: DType,
    /// How exactly, if it is f32.
    #[serde(default)]
    pub precision: MatmulPrecision,
    /// Arithmetic operations of one run; 0 where they are not counted.
    pub flops: f64,
    /// The least that has to be read and written in one run; 0 where it is not counted.
    pub bytes: f64,
    /// Samples in one run; 0 where there are none.
    pub samples: usize,
    /// What was measured.
    pub measured: Option<Measured>,
    /// Or why nothing was.
    pub left_out: Option<String>,
}

/// What older reports did not tell.
fn single() -> DType {
    DType::F32
}

/// One of the ten stages.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StageRow {
    /// Which.
    pub stage: Stage,
    /// Milliseconds of work in one step.
    pub busy_ms: f64,
    /// Where it was done, as `host + gpu:0`.
    pub place: String,
    /// How it is known; `None` if it did not run.
    pub source: Option<TimeSource>,
}

impl Row {
    /// The share of what the device was measured to do at most, and whether that is its arithmetic (else its memory):
    /// the larger of the two, which is what bounds this case. What may lie in caches has no share of the memory. `None`
    /// for what has neither, and for what goes past the device's kernels, whose peak this is: a transfer may be faster
    /// than any of them, or wait for a bus.
    pub fn share_of(&self, peak: &Peak) -> Option<(f64, bool)> {
        if self.suite == Suite::Transfer {
            return None;
        }
        let seconds = self.measured?.median_s;
        let arithmetic = self.flops * 1e-9 / seconds / peak.gflops_of(self.dtype, self.precision);
        let memory = self.bytes * 1e-9 / seconds / peak.gigabytes;
        let of_memory = (self.bytes >= BEYOND_CACHES && memory <= 1.0).then_some((memory, false));
        let of_arithmetic = (self.flops > 0.0).then_some((arithmetic, true));
        match (of_arithmetic, of_memory) {
            (Some(_), Some(_)) if memory > arithmetic => of_memory,
            (of_arithmetic, of_memory) => of_arithmetic.or(of_memory),
        }
    }
}

impl Report {
    pub(super) fn new(method: Method) -> Self {
        let machine = Machine { others_busy: Machine::others_at_work(), ..Machine::look() };
        Self {
            id: format!("{:x}-{:x}", machine.unix_ms, std::process::id()),
            version: env!("CARGO_PKG_VERSION").into(),
            build: crate::BUILD.into(),
            machine,
            method,
            devices: Vec::new(),
            crossovers: Vec::new(),
            growths: Vec::new(),
            left_out: Vec::new(),
        }
    }

    /// As JSON, for [`Report::load`].
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data")
    }

    /// Writes it, whole or not at all.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        files::write_whole(path, self.to_json().as_bytes())
    }

    /// Reads what [`Report::save`] wrote.
    ///
    /// # Errors
    /// If there is no such file, or it is no report.
    pub fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| Error::io(path, error))?;
        serde_json::from_str(&text)
            .map_err(|error| Error::format(path, format!("not a report of `brasa bench --json`: {error}")))
    }

    /// The case of this name on this device.
    pub fn row(&self, device: &str, suite: Suite, name: &str) -> Option<&Row> {
        let device = self.devices.iter().find(|one| one.selector == device)?;
        device.rows.iter().find(|row| row.suite == suite && row.name == name)
    }
}

impl DeviceReport {
    /// True if nothing was measured, and nothing failed.
    pub fn is_empty(&self) -> bool {
        self.failure.is_none() && self.rows.is_empty() && self.stages.is_empty()
    }

    pub(super) fn new(device: &Device) -> Self {
        let info = device.info();
        Self {
            selector: info.selector.clone(),
            name: info.name.clone(),
            kind: info.kind.name().into(),
            backend: info.backend.clone(),
            driver: info.driver.clone(),
            units: info.cooperative.clone(),
            ..Self::default()
        }
    }

    /// A stage, if it ran.
    pub fn stage(&self, stage: Stage) -> Option<&StageRow> {
        self.stages.iter().find(|row| row.stage == stage && row.source.is_some())
    }

    /// One that could not even be opened.
    pub(super) fn failed(selector: &str, failure: String) -> Self {
        Self { selector: selector.into(), failure: Some(failure), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_what_bounds_a_case() {
        let measured = serde_json::json!({
            "first_s": 1.0, "median_s": 0.5, "range_s": [0.5, 0.5], "least_s": 0.5, "runs": 5, "together": 1, "drift": 0.0,
            "in_kernels": null, "source": "wall_clock",
        });
        let with = |suite: &str, flops: f64, bytes: f64, precision: &str| -> Row {
            serde_json::from_value(serde_json::json!({
                "suite": suite, "name": "a case", "what": "", "flops": flops, "bytes": bytes, "precision": precision, "samples": 0,
                "measured": measured, "left_out": null,
            }))
            .expect("a row")
        };
        let row = |suite: &str, flops: f64, precision: &str| with(suite, flops, 4e9, precision);
        let source = TimeSource::WallClock;
        let peak = Peak { gflops: 4.0, half_gflops: Some(30.0), gigabytes: 16.0, source, yardstick_gflops: None };
        assert_eq!(row("ops", 0.0, "highest").share_of(&peak), Some((0.5, false)));
        assert_eq!(row("transfer", 0.0, "highest").share_of(&peak), None);
        assert_eq!(row("matmul", 2e9, "highest").share_of(&peak), Some((1.0, true)));
        assert_eq!(row("matmul", 4e9, "high").share_of(&peak), Some((0.8, true)), "of 30 / 3");
        assert_eq!(with("ops", 0.0, 1e7, "highest").share_of(&peak), None, "it lies in caches");
        assert_eq!(with("ops", 0.0, 9e9, "highest").share_of(&peak), None, "as it does if it is faster than memory");
        assert_eq!(with("matmul", 1e9, 9e9, "highest").share_of(&peak), Some((0.5, true)));
        // what was reached is no more than what can be
        let rows = [row("matmul", 3e9, "highest"), row("matmul", 6e9, "high"), with("ops", 0.0, 9e9, "highest")];
        let raised = peak.or_reached(&rows);
        assert_eq!((raised.gflops, raised.half_gflops, raised.gigabytes), (6.0, Some(36.0), 18.0));
        assert_eq!(rows.map(|row| row.share_of(&raised).map(|(share, _)| share)), [Some(1.0); 3]);
        let cached = [with("ops", 0.0, 1e7, "highest"), row("transfer", 0.0, "highest")];
        assert_eq!(peak.or_reached(&cached), peak);
    }
}
