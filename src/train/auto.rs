//! `--device auto`: the device on which the steps of this very run are the fastest.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::device::{Device, DeviceInfo};
use crate::error::Result;
use crate::files::{cache_folder, create_folder, write_whole};
use crate::units::bytes;

use super::forecast::forecast_of;
use super::trainer::Open;
use super::{Config, Control, RunForecast};

/// What settings say for it.
pub(super) const AUTO: &str = "auto";
/// Measurements that are kept; the oldest go first.
const KEPT: usize = 200;

/// A device, and how it was chosen.
pub(super) struct Choice {
    /// To be given to [`Device::named`].
    pub(super) device: String,
    /// For people.
    pub(super) why: String,
}

/// What was measured on a device, or why it was not.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Tried {
    selector: String,
    name: String,
    forecast: std::result::Result<RunForecast, String>,
}

/// The file of measurements: what a later run with the same settings on the same devices need not measure again.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Memory {
    measured: Vec<(String, Vec<Tried>)>,
}

/// Does a few steps of the run on each device of the machine, unless they were done before, and takes the fastest.
///
/// # Errors
/// If no device can do them; the CPU's error is told.
pub(super) fn choose(config: &Config, open: &Open<'_>) -> Result<Choice> {
    let devices = Device::list();
    if let [only] = &devices[..] {
        let why = format!("--device auto: {}, as there is no GPU", only.selector);
        return Ok(Choice { device: only.selector.clone(), why });
    }
    let (path, key) = (path(), key(config, &devices));
    let mut memory = path.as_deref().map(load).unwrap_or_default();
    if let Some((_, tried)) = memory.measured.iter().find(|(known, _)| *known == key) {
        return Ok(decide(tried, "measured by an earlier run"));
    }
    let tried = devices.iter().map(|info| attempt(config, open, info)).collect::<Result<Vec<_>>>()?;
    let choice = decide(&tried, "measured now");
    memory.measured.push((key, tried));
    let surplus = memory.measured.len().saturating_sub(KEPT);
    memory.measured.drain(..surplus);
    if let Some(path) = path {
        save(&memory, &path);
    }
    Ok(choice)
}

/// A few steps on one device. Only the CPU's failure is one: what the settings and the data have wrong, is wrong there, too.
fn attempt(config: &Config, open: &Open<'_>, info: &DeviceInfo) -> Result<Tried> {
    let on_device = Config { device: Some(info.selector.clone()), ..config.clone() };
    let forecast = forecast_of(on_device, open, &Control::default());
    let forecast = match forecast {
        Err(error) if info.selector == "cpu" => return Err(error),
        other => other.map_err(|error| error.to_string()),
    };
    Ok(Tried { selector: info.selector.clone(), name: info.name.clone(), forecast })
}

fn decide(tried: &[Tried], when: &str) -> Choice {
    let step = |tried: &Tried| tried.forecast.as_ref().ok().and_then(|forecast| forecast.step_ms);
    let fastest =
        tried.iter().min_by(|a, b| step(a).unwrap_or(f64::INFINITY).total_cmp(&step(b).unwrap_or(f64::INFINITY)));
    let (Some(fastest), Some(least)) = (fastest, fastest.and_then(step)) else {
        return Choice { device: "cpu".into(), why: "--device auto: cpu, as nothing could be measured".into() };
    };
    let mut why = format!("--device auto: {} ({}), where a step takes {least:.3} ms", fastest.selector, fastest.name);
    for other in tried.iter().filter(|other| other.selector != fastest.selector) {
        why += &match (&other.forecast, step(other)) {
            (_, Some(ms)) => format!("; {} takes {ms:.3} ms, {:.1} times as long", other.selector, ms / least),
            (Err(error), None) => format!("; {} cannot: {error}", other.selector),
            (Ok(_), None) => format!("; {} was not measured", other.selector),
        };
    }
    if let Ok(forecast) = &fastest.forecast {
        let (model, seconds) = (forecast.memory.training.model_bytes, least * forecast.steps as f64 * 1e-3);
        why += &format!(". The model has {}, the run {} steps, some {seconds:.0} s", bytes(model), forecast.steps);
    }
    why += &format!(" ({when})");
    Choice { device: fastest.selector.clone(), why }
}

/// What the times depend on: this program, the machine's devices with their drivers, and the settings, but for those that
/// change no step.
fn key(config: &Config, devices: &[DeviceInfo]) -> String {
    let settings =
        Config { device: None, out: PathBuf::new(), name: None, epochs: 1, seed: 0, lr: None, ..config.clone() };
    let devices: Vec<[&str; 3]> = devices.iter().map(|info| [&*info.selector, &*info.name, &*info.driver]).collect();
    serde_json::to_string(&(env!("CARGO_PKG_VERSION"), crate::BUILD, devices, settings)).expect("plain data")
}

fn path() -> Option<PathBuf> {
    cache_folder().map(|folder| folder.join("devices.json"))
}

/// Nothing if there is none or it is damaged.
fn load(path: &Path) -> Memory {
    std::fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

/// Whole or not at all; that it cannot be kept costs the next run a moment, and this one nothing.
fn save(memory: &Memory, path: &Path) {
    let text = serde_json::to_vec(memory).expect("plain data");
    let folder = path.parent().map_or(Ok(()), create_folder);
    if let Err(error) = folder.and_then(|()| write_whole(path, &text)) {
        tracing::warn!("what was measured for --device auto cannot be kept: {error}");
    }
}
