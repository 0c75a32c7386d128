//! What, beside the settings, decides the bits that a run gives.

use serde::{Deserialize, Serialize};

use crate::device::Device;

use super::{Precision, devices};

/// Written to the run's folder as `environment.toml`: two runs with the same settings and the same of this give the
/// same numbers, bit for bit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Environment {
    /// The version of brasa.
    pub version: String,
    /// How it was compiled: `release` or `debug`.
    pub build: String,
    /// Processor and system it was compiled for.
    pub target: String,
    /// The device's name, or the names of those that learn together.
    pub adapter: String,
    /// The programming interface it is reached through.
    pub backend: String,
    /// The driver and its version; of the CPU, the vector instructions in use.
    pub driver: String,
    /// Optional features of the adapter that kernels use.
    #[serde(default)]
    pub features: Vec<String>,
    /// What numbers are computed in.
    pub precision: Precision,
}

impl Environment {
    /// That of a run on `devices`, of which the first one evaluates.
    ///
    /// # Panics
    /// If there are none.
    pub fn new(devices: &[Device], precision: Precision) -> Self {
        let info = devices[0].info();
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            build: crate::BUILD.to_owned(),
            target: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
            adapter: devices::names(devices),
            backend: info.backend.clone(),
            driver: info.driver.clone(),
            features: [info.f16.then(|| "f16".to_owned()), info.cooperative.clone()].into_iter().flatten().collect(),
            precision,
        }
    }

    /// As the text of a TOML file.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a flat struct of strings is valid TOML")
    }
}
