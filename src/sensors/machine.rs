//! What is known of the machine.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

use super::utilisation::processor_time;

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
    /// The part of all threads that other programs kept busy in the moment before anything was measured, 0 to 1, where
    /// the system tells and somebody looked.
    #[serde(default)]
    pub others_busy: Option<f64>,
    /// When, in milliseconds since 1970.
    pub unix_ms: u64,
}

impl Machine {
    /// This machine, now.
    pub fn look() -> Self {
        let named = System::long_os_version().ok().or_else(|| System::name().ok());
        let kernel = System::kernel_version().unwrap_or_default();
        let system = named.unwrap_or_else(|| std::env::consts::OS.to_owned());
        let looked =
            System::new_with_specifics(RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing().with_frequency()));
        let brand = looked.as_ref().ok().and_then(|system| Some(system.cpus().first()?.brand().trim().to_owned()));
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            system: format!("{system}, {} {kernel}", std::env::consts::OS).trim_end().to_owned(),
            processor: brand.filter(|name| !name.is_empty()).unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            clock_mhz: looked.ok().and_then(|system| clock(&system)),
            clock_after_mhz: None,
            // Windows has none, and says 0
            load: System::load_average().ok().map(|load| load.one).filter(|_| !cfg!(windows)),
            others_busy: None,
            unix_ms: since.as_millis() as u64,
        }
    }

    /// The part of all threads that other programs keep busy now; looks for a fifth of a second. The load of the last
    /// minute would count the compiler that has just made this program.
    pub(crate) fn others_at_work() -> Option<f64> {
        let kind = RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing().with_usage());
        let mut system = System::new_with_specifics(kind).ok()?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let (begun, own) = (Instant::now(), processor_time().unwrap_or_default());
        std::thread::sleep(sysinfo::MINIMUM_CPU_UPDATE_INTERVAL);
        system.refresh_cpu_usage();
        let own = processor_time().unwrap_or_default().saturating_sub(own).as_secs_f64();
        let of_this = own / begun.elapsed().as_secs_f64() / threads;
        let all = f64::from(system.global_cpu_usage()) / 100.0;
        Some((all - of_this).clamp(0.0, 1.0)).filter(|part| part.is_finite())
    }

    /// Notes the clock at the end.
    pub(crate) fn look_again(&mut self) {
        let kind = RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing().with_frequency());
        self.clock_after_mhz = System::new_with_specifics(kind).ok().and_then(|system| clock(&system));
    }
}

/// The mean clock of all cores in MHz.
fn clock(system: &System) -> Option<f64> {
    let clocks = system.cpus().iter().map(|core| core.frequency() as f64).filter(|clock| *clock > 0.0);
    let (count, sum) = clocks.fold((0, 0.0), |(count, sum), clock| (count + 1, sum + clock));
    (count > 0).then(|| sum / f64::from(count))
}

/// Bytes of the machine's memory, where the system tells.
pub(crate) fn host_memory_bytes() -> Option<u64> {
    memory(System::total_memory)
}

/// Bytes that can be had without others being swapped out, where the system tells.
pub(crate) fn host_free_bytes() -> Option<u64> {
    memory(System::available_memory)
}

fn memory(of: impl Fn(&System) -> u64) -> Option<u64> {
    let kind = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    System::new_with_specifics(kind).ok().map(|system| of(&system)).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_a_name_and_memory() {
        let machine = Machine::look();
        assert!(machine.system.contains(std::env::consts::OS) && !machine.processor.is_empty(), "{machine:?}");
        assert!(Machine::others_at_work().is_none_or(|part| (0.0..=1.0).contains(&part)));
        let (all, free) = (host_memory_bytes().expect("memory"), host_free_bytes().expect("memory"));
        assert!(free > 0 && free <= all, "{free} of {all}");
    }
}
