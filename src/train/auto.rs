//! `--device auto`: the device on which the steps of this very run are the fastest.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::device::{Device, DeviceInfo, DeviceKind};
use crate::error::{Error, Result};
use crate::files::{cache_folder, create_folder, write_whole};
use crate::gpu::circumstances;
use crate::units::{bytes, pays_off, thousands};

use super::devices::OpenDevices;
use super::forecast::forecast_of;
use super::trainer::Open;
use super::{Config, Control, MemoryNeed};

/// What settings say for it.
pub(super) const AUTO: &str = "auto";
/// Measurements that are kept; the oldest go first.
const KEPT: usize = 200;

/// A device, and how it was chosen.
pub(super) struct Choice {
    /// To be given to [`Device::named`].
    pub(super) device: String,
    /// For people.
    why: String,
    /// What the others may cost, or it.
    cost: String,
    /// Milliseconds of a step on it, if that was measured.
    step_ms: Option<f64>,
}

/// How much there is to do in a run.
pub(super) struct Volume {
    pub(super) epochs: usize,
    pub(super) samples: usize,
    /// Of a sample.
    pub(super) bytes: usize,
    pub(super) steps: usize,
}

impl Choice {
    /// Why, and what the run will take there.
    pub(super) fn in_words(&self, memory: &MemoryNeed, volume: &Volume) -> String {
        let Some(step_ms) = self.step_ms else { return self.why.clone() };
        let &Volume { epochs, samples, bytes: each, steps } = volume;
        let (model, seconds) = (bytes(memory.training.model_bytes), step_ms * steps as f64 * 1e-3);
        let data = bytes((samples * each) as u64);
        let (words, digits) = (
            if epochs == 1 { "one epoch".to_owned() } else { format!("{epochs} epochs") },
            usize::from(seconds < 10.0),
        );
        format!(
            "{}. The model has {model}; {words} of {} samples ({data}) are {} steps, some {seconds:.digits$} s. {}",
            self.why,
            thousands(samples),
            thousands(steps),
            self.cost
        )
        .trim_end()
        .to_owned()
    }
}

/// What was measured on a device, or why it was not.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Tried {
    selector: String,
    name: String,
    /// Milliseconds.
    step: std::result::Result<Option<f64>, String>,
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
/// If no device can do them; the CPU's error is told. [`Error::Stopped`] if `control` says stop before all are tried.
pub(super) fn choose(config: &Config, open: &Open<'_>, control: &Control, opened: OpenDevices) -> Result<Choice> {
    let devices = worth_trying(&Device::list());
    if let [only] = &devices[..] {
        let why = format!("--device auto: {}, as there is no GPU", only.selector);
        return Ok(Choice { device: only.selector.clone(), why, cost: String::new(), step_ms: None });
    }
    let (path, key) = (path(), key(config, &devices));
    let mut memory = path.as_deref().map(load).unwrap_or_default();
    if let Some((_, tried)) = memory.measured.iter().find(|(known, _)| *known == key) {
        return Ok(decide(tried, "measured by an earlier run"));
    }
    let tried =
        devices.iter().map(|info| attempt(config, open, info, (control, opened))).collect::<Result<Vec<_>>>()?;
    let choice = decide(&tried, "measured now");
    // what kept a device from it may be gone the next time
    if tried.iter().all(|tried| matches!(tried.step, Ok(Some(_)))) {
        memory.measured.push((key, tried));
        let surplus = memory.measured.len().saturating_sub(KEPT);
        memory.measured.drain(..surplus);
        if let Some(path) = path {
            save(&memory, &path);
        }
    }
    Ok(choice)
}

/// Each device once: beside a GPU none that computes on the processor, and no GPU through a second interface, where a
/// step may take minutes to compile (DX12 without a compiler of its own), or a second driver.
pub(super) fn worth_trying(devices: &[DeviceInfo]) -> Vec<DeviceInfo> {
    let has_gpu = devices.iter().any(|info| info.kind.is_taken_unasked());
    // two cards of one name come through one interface
    let interface = |name: &str| devices.iter().find(|info| info.name == name).map(|info| &info.backend);
    let is_first = |info: &&DeviceInfo| interface(&info.name) == Some(&info.backend);
    // two drivers give one card two names; DX12 gives two equal cards one place
    let same_card = |info: &DeviceInfo, other: &DeviceInfo| {
        other.backend == "Vulkan" && other.pci_bus.is_some() && other.pci_bus == info.pci_bus
    };
    let is_real = |info: &&DeviceInfo| !(has_gpu && info.kind == DeviceKind::Software);
    let numbered = devices.iter().enumerate();
    let is_new = |(number, info): &(usize, &DeviceInfo)| !devices[..*number].iter().any(|other| same_card(info, other));
    numbered.filter(is_new).map(|(_, info)| info).filter(is_first).filter(is_real).cloned().collect()
}

/// A few steps on one device. Only the CPU's failure is one: what the settings and the data have wrong, is wrong there,
/// too.
fn attempt(
    config: &Config,
    open: &Open<'_>,
    info: &DeviceInfo,
    (control, opened): (&Control, OpenDevices),
) -> Result<Tried> {
    let on_device = Config { device: Some(info.selector.clone()), ..config.clone() };
    let step = match forecast_of(on_device, open, control, opened) {
        // of what was cut off there is no time
        _ if control.stopping() => return Err(Error::stopped()),
        Err(error) if info.selector == "cpu" => return Err(error),
        other => other.map(|forecast| forecast.step_ms).map_err(|error| error.to_string()),
    };
    Ok(Tried { selector: info.selector.clone(), name: info.name.clone(), step })
}

fn decide(tried: &[Tried], when: &str) -> Choice {
    let measured = tried.iter().filter_map(|tried| Some((tried, tried.step.clone().ok()??)));
    let Some((fastest, least)) = measured.min_by(|(_, a), (_, b)| a.total_cmp(b)) else {
        let why = "--device auto: cpu, as nothing could be measured".into();
        return Choice { device: "cpu".into(), why, cost: String::new(), step_ms: None };
    };
    let mut why = format!("--device auto: {} ({}), where a step takes {least:.3} ms", fastest.selector, fastest.name);
    for other in tried.iter().filter(|other| other.selector != fastest.selector) {
        why += &match &other.step {
            Ok(Some(ms)) => format!("; {} takes {ms:.3} ms, {:.1} times as long", other.selector, ms / least),
            Ok(None) => format!("; {} was not measured", other.selector),
            Err(error) => format!("; {} cannot: {error}", other.selector),
        };
    }
    why += &format!(" ({when})");
    Choice { device: fastest.selector.clone(), why, cost: costs(tried), step_ms: Some(least) }
}

/// What an hour of each GPU may cost, against the CPU, if both were measured.
fn costs(tried: &[Tried]) -> String {
    let step_ms = |tried: &Tried| tried.step.clone().ok().flatten();
    let Some(cpu) = tried.iter().find(|tried| tried.selector == "cpu").and_then(step_ms) else { return String::new() };
    let others = tried.iter().filter(|tried| tried.selector != "cpu");
    let said = others.filter_map(|other| Some(pays_off(&other.selector, "cpu", cpu / step_ms(other)?)));
    said.collect::<Vec<_>>().join("; ")
}

/// What the times depend on: this program, the machine's devices with their drivers and how kernels are made for them,
/// and the settings, but for those that change no step.
fn key(config: &Config, devices: &[DeviceInfo]) -> String {
    let Config { save_every, keep, log_every, tensorboard, schedule, .. } = Config::default();
    let settings = Config {
        device: None,
        out: PathBuf::new(),
        name: None,
        epochs: 1,
        seed: 0,
        lr: None,
        patience: None,
        save_every,
        keep,
        log_every,
        tensorboard,
        schedule,
        ..config.clone()
    };
    let devices: Vec<[&str; 3]> = devices.iter().map(|info| [&*info.selector, &*info.name, &*info.driver]).collect();
    let program = (env!("CARGO_PKG_VERSION"), crate::BUILD, circumstances());
    serde_json::to_string(&(program, devices, settings)).expect("plain data")
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::devices;

    fn tried(selector: &str, step: std::result::Result<Option<f64>, &str>) -> Tried {
        Tried { selector: selector.into(), name: "test".into(), step: step.map_err(Into::into) }
    }

    #[test]
    fn the_fastest_is_chosen_and_the_others_are_told() {
        let all = [tried("cpu", Ok(Some(6.0))), tried("gpu:0", Ok(Some(2.0))), tried("gpu:1", Err("it is gone"))];
        let Choice { device, why, cost, step_ms } = decide(&all, "measured now");
        assert_eq!((&*device, step_ms), ("gpu:0", Some(2.0)));
        assert!(why.contains("cpu takes 6.000 ms, 3.0 times as long; gpu:1 cannot: it is gone"), "{why}");
        assert!(cost.starts_with("gpu:0 pays off if an hour of it costs less than 3.0 x an hour of cpu"), "{cost}");
        let Choice { device, step_ms, .. } = decide(&[tried("cpu", Ok(None)), tried("gpu:0", Err("no"))], "");
        assert_eq!((&*device, step_ms), ("cpu", None));
    }

    #[test]
    fn a_trial_that_is_stopped_is_no_measurement() {
        let control = Control::default();
        control.stop();
        let config = Config::default().resolve().expect("good settings");
        let tried = attempt(&config, &super::super::trainer::open, Device::cpu().info(), (&control, devices::open));
        assert!(matches!(tried, Err(Error::Stopped { .. })), "{tried:?}");
    }

    #[test]
    fn each_gpu_is_tried_once_and_no_processor_in_its_place() {
        let device = |name: &str, kind, backend: &str| DeviceInfo {
            name: name.into(),
            kind,
            backend: backend.into(),
            ..Device::cpu().info().clone()
        };
        let tried = |devices: &[DeviceInfo]| {
            let tried = worth_trying(devices);
            tried.iter().map(|info| format!("{} {}", info.name, info.backend)).collect::<Vec<_>>()
        };
        let cpu = Device::cpu().info().clone();
        let (first, again) = (device("a", DeviceKind::Discrete, "Vulkan"), device("a", DeviceKind::Discrete, "Dx12"));
        let warp = device("warp", DeviceKind::Software, "Dx12");
        let all = [cpu.clone(), first.clone(), first.clone(), again, warp.clone()];
        assert_eq!(tried(&all)[1..], ["a Vulkan", "a Vulkan"]);
        assert_eq!(tried(&[cpu.clone(), warp])[1..], ["warp Dx12"]);
        let at = |bus: &str, device: DeviceInfo| DeviceInfo { pci_bus: Some(bus.into()), ..device };
        let other = device("a (another driver)", DeviceKind::Discrete, "Vulkan");
        let two = [at("01", first.clone()), at("01", other.clone()), at("02", first), at("02", other), cpu];
        assert_eq!(tried(&two)[..2], ["a Vulkan", "a Vulkan"]);
        assert_eq!(tried(&two).len(), 3);
    }

    #[test]
    fn what_changes_no_step_needs_no_other_measurement() {
        let config = Config::default();
        let longer = Config { epochs: 99, keep: 7, log_every: 3, patience: Some(2), seed: 5, ..config.clone() };
        assert_eq!(key(&config, &[]), key(&longer, &[]));
        assert_ne!(key(&config, &[]), key(&Config { batch_size: 33, ..config.clone() }, &[]));
    }
}
