//! Which device to use: listing, names, and the best one.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::error::{Error, Result};
use crate::gpu::{self, Adapter};

use super::info::cpu_info;
use super::{Device, DeviceInfo, DeviceKind};

/// Names the device that [`Device::best`] returns.
const DEVICE_VARIABLE: &str = "BRASA_DEVICE";

/// Opened GPUs by number. Held while one is opened, so that two threads do not open it twice.
static OPENED: Mutex<BTreeMap<usize, Device>> = Mutex::new(BTreeMap::new());

fn opened_devices() -> MutexGuard<'static, BTreeMap<usize, Device>> {
    OPENED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn healthy(opened: &BTreeMap<usize, Device>, number: usize) -> Option<Device> {
    opened.get(&number).filter(|device| !device.is_lost()).cloned()
}

impl Device {
    /// The device that `BRASA_DEVICE` names; without it a discrete GPU, else an integrated one, else the CPU.
    ///
    /// A GPU that cannot be opened is passed over with a warning, and software GPUs are never the best.
    pub fn best() -> Result<Self> {
        match std::env::var(DEVICE_VARIABLE) {
            // `BRASA_DEVICE=best` would lead back here.
            Ok(name) if !matches!(name.trim().to_lowercase().as_str(), "" | "best") => Self::named(&name),
            _ => Ok(Self::automatic()),
        }
    }

    /// The native CPU backend, one for the process.
    pub fn cpu() -> Self {
        static CPU: OnceLock<Device> = OnceLock::new();
        CPU.get_or_init(|| Self::new_cpu(cpu_info())).clone()
    }

    /// GPU number `n` in the order of [`Device::list`], software ones included. Asking twice gives the same device,
    /// unless it was lost in between.
    pub fn gpu(n: usize) -> Result<Self> {
        let adapters = gpu::adapters();
        if adapters.is_empty() {
            return Err(Error::NoAdapter);
        }
        let adapter = adapters.get(n).ok_or_else(|| unknown(&format!("gpu:{n}"), adapters))?;
        Self::opened(n, adapter)
    }

    /// The device with this name: `cpu`; `gpu` or `gpu:1`; `best` for [`Device::best`]; `auto` for the same without
    /// `BRASA_DEVICE`; or a part of an adapter's name.
    pub fn named(name: &str) -> Result<Self> {
        let wanted = name.trim().to_lowercase();
        match wanted.as_str() {
            "cpu" => return Ok(Self::cpu()),
            "best" => return Self::best(),
            "auto" => return Ok(Self::automatic()),
            "gpu" => return Self::gpu(0),
            _ => {}
        }
        if let Some(number) = wanted.strip_prefix("gpu:").and_then(|number| number.parse().ok()) {
            return Self::gpu(number);
        }
        let adapters = gpu::adapters();
        let matches = |adapter: &Adapter| adapter.info.name.to_lowercase().contains(&wanted);
        match adapters.iter().position(matches) {
            Some(number) if !wanted.is_empty() => Self::opened(number, &adapters[number]),
            _ => Err(unknown(name, adapters)),
        }
    }

    /// All devices: the GPUs, best kind first, and the CPU.
    pub fn list() -> Vec<DeviceInfo> {
        let gpus = gpu::adapters().iter().map(|adapter| adapter.info.clone());
        gpus.chain([cpu_info()]).collect()
    }

    /// Another device on the same hardware, which shares nothing with this one: for work that must not be held up by
    /// others, and for a new start after a loss.
    pub fn reopen(&self) -> Result<Self> {
        let info = self.info();
        if info.kind == DeviceKind::Cpu {
            return Ok(Self::new_cpu(info.clone()));
        }
        let adapters = gpu::adapters();
        let same = |adapter: &&Adapter| adapter.info.selector == info.selector;
        let adapter = adapters.iter().find(same).ok_or_else(|| unknown(&info.name, adapters))?;
        Self::new_gpu(adapter)
    }

    fn automatic() -> Self {
        for (number, adapter) in gpu::adapters().iter().enumerate() {
            if !matches!(adapter.info.kind, DeviceKind::Discrete | DeviceKind::Integrated | DeviceKind::Virtual) {
                continue;
            }
            match Self::opened(number, adapter) {
                Ok(device) => return device,
                Err(error) => tracing::warn!("{error}"),
            }
        }
        Self::cpu()
    }

    fn opened(number: usize, adapter: &Adapter) -> Result<Self> {
        let mut opened = opened_devices();
        if let Some(device) = healthy(&opened, number) {
            return Ok(device);
        }
        let device = Self::new_gpu(adapter)?;
        opened.insert(number, device.clone());
        Ok(device)
    }
}

fn unknown(name: &str, adapters: &[Adapter]) -> Error {
    let gpus = adapters.iter().map(|adapter| format!("{} ({})", adapter.info.selector, adapter.info.name));
    let known: Vec<String> = gpus.chain(["cpu, best, auto".into()]).collect();
    Error::UnknownDevice { name: name.into(), known: known.join(", ") }
}
