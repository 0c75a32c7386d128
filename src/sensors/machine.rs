//! What is known of the machine that is measured.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A machine, when it was measured.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// The operating system and its version.
    pub system: String,
    /// Its processor.
    pub processor: String,
    /// Threads that it runs at a time.
    pub threads: usize,
    /// The clock of its cores in MHz, on average, before anything was measured, where the system tells.
    pub clock_mhz: Option<f64>,
    /// The same right after everything was measured.
    #[serde(default)]
    pub clock_after_mhz: Option<f64>,
    /// Processes that wanted to run in the last minute, on average, where the system tells: more than nothing disturbs.
    pub load: Option<f64>,
    /// When, in milliseconds since 1970.
    pub unix_ms: u64,
}

impl Machine {
    /// This machine, now.
    pub fn look() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let release = read("/etc/os-release");
        let named =
            release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).map(|name| name.trim_matches('"'));
        let kernel = read("/proc/sys/kernel/osrelease");
        let system = match named {
            Some(name) => format!("{name}, {} {}", std::env::consts::OS, kernel.trim()),
            None => std::env::consts::OS.to_owned(),
        };
        let info = read("/proc/cpuinfo");
        let of_core = |key: &str| {
            let line = info.lines().find(|line| line.starts_with(key))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            system,
            processor: of_core("model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            clock_mhz: clock(&info),
            clock_after_mhz: None,
            load: read("/proc/loadavg").split(' ').next().and_then(|text| text.parse().ok()),
            unix_ms: since.as_millis() as u64,
        }
    }

    /// Notes the clock at the end.
    pub(super) fn look_again(&mut self) {
        self.clock_after_mhz = clock(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default());
    }
}

/// The mean clock of the cores of `/proc/cpuinfo`, in MHz.
fn clock(info: &str) -> Option<f64> {
    let lines = info.lines().filter(|line| line.starts_with("cpu MHz"));
    let clocks: Vec<f64> = lines.filter_map(|line| line.split_once(':')?.1.trim().parse().ok()).collect();
    (!clocks.is_empty()).then(|| clocks.iter().sum::<f64>() / clocks.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_of_all_cores_count() {
        let info = "processor\t: 0\ncpu MHz\t\t: 2000.5\nprocessor\t: 1\ncpu MHz\t\t: 3000.5\n";
        assert_eq!(clock(info), Some(2500.5));
        assert_eq!(clock("processor\t: 0\nBogoMIPS\t: 50.00\n"), None);
    }
}
