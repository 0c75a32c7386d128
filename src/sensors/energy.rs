//! Joules, where the system tells them without administrator rights; else why not, and never a guess.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use nvml_wrapper::Nvml;

use crate::device::{DeviceInfo, DeviceKind};

/// What tells the energy that a device has used.
pub(super) enum Meter {
    /// Linux's counters of whole processors, in microjoules: file, and the value at which it starts again.
    Rapl(Vec<(PathBuf, u64)>),
    /// A graphics driver's counter, in microjoules.
    Counter(PathBuf),
    /// A graphics driver's mean power of a moment, in microwatts.
    Power(PathBuf),
    /// NVIDIA's library, whose counter is in millijoules, and the number of the device in it.
    Nvml(Box<Nvml>, u32),
}

/// What a meter showed.
pub(super) struct Reading {
    values: Vec<u64>,
    at: Instant,
}

impl Meter {
    /// That of a device, or why it has none.
    pub(super) fn of(info: &DeviceInfo) -> Result<Self, String> {
        match info.kind {
            DeviceKind::Cpu | DeviceKind::Software => Self::of_processor(Path::new("/sys/class/powercap")),
            _ if info.name.contains("NVIDIA") => Self::of_nvidia(info),
            _ if cfg!(target_os = "macos") => Err("macOS tells it to administrators only".into()),
            _ => Self::of_card(Path::new("/sys/class/drm")),
        }
    }

    fn of_processor(root: &Path) -> Result<Self, String> {
        let entries = fs::read_dir(root).map_err(|_| format!("this system has no {}", root.display()))?;
        let mut zones = Vec::new();
        for zone in entries.flatten().map(|entry| entry.path()) {
            // those of cores and memory lie in it, and are counted by it
            if !text(&zone.join("name")).is_some_and(|name| name.starts_with("package")) {
                continue;
            }
            let file = zone.join("energy_uj");
            if number(&file).is_none() {
                return Err(format!("{} may not be read without administrator rights", file.display()));
            }
            zones.push((file, number(&zone.join("max_energy_range_uj")).unwrap_or(u64::MAX)));
        }
        if zones.is_empty() {
            Err(format!("no processor tells it in {}", root.display()))
        } else {
            Ok(Self::Rapl(zones))
        }
    }

    /// The only card that tells: which of several an adapter is, is not known.
    fn of_card(root: &Path) -> Result<Self, String> {
        let cards = fs::read_dir(root).map_err(|_| format!("this system has no {}", root.display()))?;
        let sensors =
            cards.flatten().flat_map(|card| fs::read_dir(card.path().join("device/hwmon")).into_iter().flatten());
        let mut found: Vec<PathBuf> =
            sensors.flatten().filter_map(|sensor| sensor.path().canonicalize().ok()).collect();
        found.sort();
        found.dedup();
        let [sensor] = &found[..] else {
            return Err(format!("{} graphics cards have sensors, and which one this is, is not known", found.len()));
        };
        let readable = |name: &str| Some(sensor.join(name)).filter(|file| number(file).is_some());
        readable("energy1_input")
            .map(Self::Counter)
            .or_else(|| readable("power1_average").map(Self::Power))
            .ok_or_else(|| format!("{} has neither energy nor mean power", sensor.display()))
    }

    fn of_nvidia(info: &DeviceInfo) -> Result<Self, String> {
        let nvml = Nvml::init().map_err(|error| format!("NVIDIA's management library: {error}"))?;
        let count = nvml.device_count().map_err(|error| error.to_string())?;
        let is_it = |&number: &u32| {
            let name = nvml.device_by_index(number).and_then(|device| device.name());
            name.is_ok_and(|name| info.name.contains(&name) || name.contains(&info.name))
        };
        let alike: Vec<u32> = (0..count).filter(is_it).collect();
        let [number] = alike[..] else {
            return Err(format!("{} devices of NVIDIA's management library have its name", alike.len()));
        };
        let meter = Self::Nvml(Box::new(nvml), number);
        meter.read().map(|_| meter).ok_or_else(|| "NVIDIA's management library does not tell it of this one".into())
    }

    /// What tells, for people.
    pub(super) fn source(&self) -> &'static str {
        match self {
            Self::Rapl(_) => "RAPL, of whole processors",
            Self::Counter(_) => "the driver's counter",
            Self::Power(_) => "the driver's mean power, at both ends of each round",
            Self::Nvml(..) => "NVML, of the whole card",
        }
    }

    /// What it shows now, if it still does.
    pub(super) fn read(&self) -> Option<Reading> {
        let values = match self {
            Self::Rapl(zones) => zones.iter().map(|(file, _)| number(file)).collect::<Option<_>>()?,
            Self::Counter(file) | Self::Power(file) => vec![number(file)?],
            Self::Nvml(nvml, device) => vec![nvml.device_by_index(*device).ok()?.total_energy_consumption().ok()?],
        };
        Some(Reading { values, at: Instant::now() })
    }

    /// Joules between two readings.
    pub(super) fn joules(&self, before: &Reading, after: &Reading) -> f64 {
        let grown = |range: u64, number: usize| {
            let (before, after) = (before.values[number], after.values[number]);
            // the counter starts again at its end
            if after >= before { after - before } else { range.saturating_sub(before).saturating_add(after) }
        };
        match self {
            Self::Rapl(zones) => {
                zones.iter().enumerate().map(|(number, (_, range))| grown(*range, number) as f64).sum::<f64>() * 1e-6
            }
            Self::Counter(_) => grown(u64::MAX, 0) as f64 * 1e-6,
            Self::Power(_) => {
                let watts = (before.values[0] + after.values[0]) as f64 / 2.0 * 1e-6;
                watts * (after.at - before.at).as_secs_f64()
            }
            Self::Nvml(..) => grown(u64::MAX, 0) as f64 * 1e-3,
        }
    }
}

fn text(file: &Path) -> Option<String> {
    fs::read_to_string(file).ok()
}

fn number(file: &Path) -> Option<u64> {
    text(file)?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, contents: &str) {
        fs::create_dir_all(path.parent().expect("a folder")).expect("writable");
        fs::write(path, contents).expect("writable");
    }

    #[test]
    fn processors_are_added_up_and_counters_start_again() {
        let root = tempfile::tempdir().expect("a folder");
        assert!(Meter::of_processor(&root.path().join("none")).is_err_and(|why| why.contains("has no")));
        assert!(Meter::of_processor(root.path()).is_err_and(|why| why.contains("no processor")));
        let file = |zone: &str, name: &str| root.path().join(zone).join(name);
        for (zone, name, energy) in [("a:0", "package-0", "900"), ("a:0:0", "core", "5"), ("a:1", "package-1", "10")] {
            write(&file(zone, "name"), name);
            write(&file(zone, "energy_uj"), energy);
            write(&file(zone, "max_energy_range_uj"), "1000\n");
        }
        let meter = Meter::of_processor(root.path()).expect("two processors");
        let before = meter.read().expect("readable");
        write(&file("a:0", "energy_uj"), "100");
        write(&file("a:1", "energy_uj"), "40");
        let after = meter.read().expect("readable");
        assert!((meter.joules(&before, &after) - 230e-6).abs() < 1e-12);
        fs::remove_file(file("a:1", "energy_uj")).expect("removable");
        assert!(meter.read().is_none());
        assert!(Meter::of_processor(root.path()).is_err_and(|why| why.contains("administrator")));
    }

    #[test]
    fn one_card_tells_energy_or_power_and_of_two_none_is_guessed() {
        let root = tempfile::tempdir().expect("a folder");
        let sensor = |card: &str, name: &str| root.path().join(card).join("device/hwmon/hwmon3").join(name);
        assert!(Meter::of_card(root.path()).is_err());
        write(&sensor("card0", "power1_average"), "2000000");
        let meter = Meter::of_card(root.path()).expect("it has power");
        let (before, mut after) = (meter.read().expect("readable"), meter.read().expect("readable"));
        after.at = before.at + std::time::Duration::from_secs(3);
        after.values[0] = 4_000_000;
        assert!((meter.joules(&before, &after) - 9.0).abs() < 1e-9);
        write(&sensor("card0", "energy1_input"), "5");
        assert!(matches!(Meter::of_card(root.path()), Ok(Meter::Counter(_))));
        write(&sensor("card1", "energy1_input"), "5");
        assert!(Meter::of_card(root.path()).is_err_and(|why| why.starts_with("2 graphics cards")));
    }
}
