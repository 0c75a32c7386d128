//! Which device to use: listing, names, and the best one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::error::{Error, Result};
use crate::gpu::{self, Adapter, Adapters, Identity};

use super::info::cpu_info;
use super::{Device, DeviceInfo};

/// Names the device that [`Device::best`] returns.
const DEVICE_VARIABLE: &str = "BRASA_DEVICE";

/// Opened GPUs. Held while one is opened, so that two threads do not open it twice.
static OPENED: Mutex<BTreeMap<Identity, Device>> = Mutex::new(BTreeMap::new());

impl Device {
    /// The device that `BRASA_DEVICE` names; without it a discrete GPU, else an integrated or virtual one, else the
    /// CPU.
    ///
    /// A GPU that cannot be opened is passed over with a warning, and software GPUs are never the best.
    ///
    /// # Errors
    /// As [`Device::named`] if `BRASA_DEVICE` names one; without it never.
    pub fn best() -> Result<Self> {
        match std::env::var(DEVICE_VARIABLE) {
            Ok(name) if !name.trim().is_empty() => Self::named(&name),
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
    ///
    /// # Errors
    /// [`Error::NoAdapter`] if there is no GPU, [`Error::UnknownDevice`] if there are fewer, and
    /// [`Error::DeviceOpen`] if the driver refuses.
    pub fn gpu(n: usize) -> Result<Self> {
        match find(|adapters| adapters.get(n).cloned()) {
            Ok(adapter) => Self::opened(&adapter),
            Err(adapters) if adapters.is_empty() => Err(Error::NoAdapter),
            Err(adapters) => Err(unknown(&format!("gpu:{n}"), &adapters)),
        }
    }

    /// The device with this name, whatever `BRASA_DEVICE` says: `cpu`; `gpu` or `gpu:1`; `best` for a discrete GPU,
    /// else an integrated or virtual one, else the CPU; or a part of an adapter's name. `auto`, which has a training
    /// try all devices, is `best` here.
    ///
    /// # Errors
    /// [`Error::UnknownDevice`], which lists all names, if no device has that one; [`Error::NoAdapter`] if a GPU is
    /// named by its number and there is none, and [`Error::DeviceOpen`] if the driver refuses.
    pub fn named(name: &str) -> Result<Self> {
        let wanted = name.trim().to_lowercase();
        match wanted.as_str() {
            "cpu" => return Ok(Self::cpu()),
            "best" | "auto" => return Ok(Self::automatic()),
            "gpu" => return Self::gpu(0),
            _ => {}
        }
        if let Some(number) = wanted.strip_prefix("gpu:").and_then(|number| number.parse().ok()) {
            return Self::gpu(number);
        }
        let matches = |adapter: &&Arc<Adapter>| adapter.info.name.to_lowercase().contains(&wanted);
        match find(|adapters| adapters.iter().find(matches).cloned()) {
            Ok(adapter) if !wanted.is_empty() => Self::opened(&adapter),
            Ok(_) => Err(unknown(name, &gpu::adapters())),
            Err(adapters) => Err(unknown(name, &adapters)),
        }
    }

    /// All devices that there are now: the GPUs, best kind first, and the CPU.
    ///
    /// ```
    /// for device in brasa::Device::list() {
    ///     println!("{:<6} {} ({}, driver {})", device.selector, device.name, device.backend, device.driver);
    /// }
    /// ```
    pub fn list() -> Vec<DeviceInfo> {
        gpu::look_again().iter().map(|adapter| adapter.info.clone()).chain([cpu_info()]).collect()
    }

    /// The device with this selector, if this process has opened it.
    #[cfg(feature = "ui")]
    pub(crate) fn if_opened(selector: &str) -> Option<Self> {
        if selector == "cpu" {
            return Some(Self::cpu());
        }
        let opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        opened.values().find(|device| device.info().selector == selector).cloned()
    }

    /// Keeps what the opened GPUs have compiled for the next process: at the end of one no device is dropped.
    #[cfg(feature = "cli")]
    pub(crate) fn keep_compiled() {
        let opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        for device in opened.values() {
            if let super::Backend::Gpu { gpu, .. } = device.backend() {
                gpu.keep_compiled();
            }
        }
    }

    /// Another device on the same hardware, which shares nothing with this one: for work that must not be held up by
    /// others, and for a new start after a loss.
    ///
    /// # Errors
    /// [`Error::UnknownDevice`] if the adapter is gone, and [`Error::DeviceOpen`] if the driver refuses.
    pub fn reopen(&self) -> Result<Self> {
        let Some(identity) = self.identity() else { return Ok(Self::new_cpu(self.info().clone())) };
        if self.is_lost() {
            gpu::look_again();
        }
        let same = |adapter: &&Arc<Adapter>| adapter.identity == *identity;
        match find(|adapters| adapters.iter().find(same).cloned()) {
            Ok(adapter) => Self::new_gpu(&adapter),
            Err(adapters) => Err(unknown(&self.info().name, &adapters)),
        }
    }

    fn automatic() -> Self {
        for adapter in gpu::adapters().iter() {
            if !adapter.info.kind.is_taken_unasked() {
                continue;
            }
            match Self::opened(adapter) {
                Ok(device) => return device,
                Err(error) => tracing::warn!("{error}"),
            }
        }
        Self::cpu()
    }

    fn opened(adapter: &Adapter) -> Result<Self> {
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        let device = match opened.get(&adapter.identity) {
            Some(device) if !device.is_lost() => return Ok(device.clone()),
            // the driver may have been started anew since it was listed
            Some(lost) => lost.reopen()?,
            None => Self::new_gpu(adapter)?,
        };
        opened.insert(adapter.identity.clone(), device.clone());
        Ok(device)
    }
}

/// The adapter that `choose` chooses, among those that are known or else among those that there are now.
fn find(choose: impl Fn(&Adapters) -> Option<Arc<Adapter>>) -> Result<Arc<Adapter>, Adapters> {
    choose(&gpu::adapters()).map_or_else(
        || {
            let now = gpu::look_again();
            choose(&now).ok_or(now)
        },
        Ok,
    )
}

fn unknown(name: &str, adapters: &Adapters) -> Error {
    let gpus = adapters.iter().map(|adapter| format!("{} ({})", adapter.info.selector, adapter.info.name));
    let first = (!adapters.is_empty()).then(|| "gpu".to_owned());
    let known: Vec<String> = first.into_iter().chain(gpus).chain(["cpu, best".into()]).collect();
    Error::UnknownDevice { name: name.into(), known: known.join(", ") }
}
