//! Joules that a device has used.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::device::{DeviceInfo, DeviceKind};

use super::Card;
use super::card::{number, sensor_file, text};
use super::nvidia::Nvidia;

/// More than any processor takes: a counter that would say so was reset.
const MAX_WATTS: f64 = 2_000.0;

/// What tells the energy that a device has used.
pub(crate) enum Meter {
    /// Linux's counters of whole processors, in microjoules: file, and the value at which it starts again, if that is
    /// told.
    Rapl(Vec<(PathBuf, Option<u64>)>),
    /// A graphics driver's counter, in microjoules.
    Counter(PathBuf),
    /// A graphics driver's power of a moment, in microwatts.
    Power(PathBuf),
    /// NVIDIA's library, whose counter is in millijoules.
    Nvidia(Nvidia),
}

/// What a meter showed.
pub(crate) struct Reading {
    values: Vec<u64>,
    at: Instant,
}

impl Meter {
    /// That of a device, or why it has none.
    pub(crate) fn of(info: &DeviceInfo) -> Result<Self, String> {
        if matches!(info.kind, DeviceKind::Cpu | DeviceKind::Software) {
            return if cfg!(target_os = "linux") {
                Self::of_processor(Path::new("/sys/class/powercap"))
            } else {
                Err(format!("brasa does not read the counters of {}'s processors yet", super::system()))
            };
        }
        match Card::of(info)? {
            Card::Nvidia(card) => match card.millijoules() {
                Some(_) => Ok(Self::Nvidia(card)),
                None => Err("NVIDIA's management library does not report it for this one".into()),
            },
            Card::Folder(card) => Self::of_card(&card),
        }
    }

    fn of_processor(root: &Path) -> Result<Self, String> {
        let entries = fs::read_dir(root).map_err(|_| format!("this system has no {}", root.display()))?;
        let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        folders.sort();
        let (mut zones, mut names) = (Vec::new(), Vec::new());
        for zone in folders {
            // those of cores and memory lie in it, and are counted by it; laptops have the same one twice
            // (intel-rapl-mmio)
            let Some(name) = text(&zone.join("name")).filter(|name| name.starts_with("package")) else { continue };
            if names.contains(&name) {
                continue;
            }
            names.push(name);
            let file = zone.join("energy_uj");
            if number(&file).is_none() {
                return Err(format!("{} may not be read without administrator rights", file.display()));
            }
            zones.push((file, number(&zone.join("max_energy_range_uj"))));
        }
        if zones.is_empty() {
            Err(format!("no processor reports it in {}", root.display()))
        } else {
            Ok(Self::Rapl(zones))
        }
    }

    fn of_card(card: &Path) -> Result<Self, String> {
        let power = || ["power1_average", "power1_input"].iter().find_map(|name| sensor_file(card, name));
        sensor_file(card, "energy1_input")
            .map(Self::Counter)
            .or_else(|| power().map(Self::Power))
            .ok_or_else(|| format!("{} has neither energy nor power", card.display()))
    }

    /// What tells, for people.
    pub(crate) fn source(&self) -> &'static str {
        match self {
            Self::Rapl(_) => "RAPL, of whole processors",
            Self::Counter(_) => "the driver's counter",
            Self::Power(_) => "the driver's power, at both ends of a second",
            Self::Nvidia(_) => "NVML, of the whole card",
        }
    }

    /// Whether it is up to date within milliseconds; the others' drivers look at their sensors ten times a second or
    /// less.
    pub(crate) const fn is_prompt(&self) -> bool {
        matches!(self, Self::Rapl(_))
    }

    /// What it shows now, if it still does.
    pub(crate) fn read(&self) -> Option<Reading> {
        let values = match self {
            Self::Rapl(zones) => zones.iter().map(|(file, _)| number(file)).collect::<Option<_>>()?,
            Self::Counter(file) | Self::Power(file) => vec![number(file)?],
            Self::Nvidia(card) => vec![card.millijoules()?],
        };
        Some(Reading { values, at: Instant::now() })
    }

    /// Joules between two readings.
    pub(crate) fn joules(&self, before: &Reading, after: &Reading) -> f64 {
        let most = MAX_WATTS * 1e6 * (after.at - before.at).as_secs_f64();
        let grown = |range: Option<u64>, number: usize| {
            let (before, after) = (before.values[number], after.values[number]);
            // it started again: at its end, or from a reset (a machine that slept), of which only what came after is
            // known
            let rest = || range.map_or(0, |range| range.saturating_sub(before));
            let from_its_end = || Some(rest().saturating_add(after)).filter(|&grown| grown as f64 <= most);
            after.checked_sub(before).or_else(from_its_end).unwrap_or(after)
        };
        match self {
            Self::Rapl(zones) => {
                zones.iter().enumerate().map(|(number, (_, range))| grown(*range, number) as f64).sum::<f64>() * 1e-6
            }
            Self::Counter(_) => grown(None, 0) as f64 * 1e-6,
            Self::Power(_) => {
                let watts = (before.values[0] as f64 + after.values[0] as f64) / 2.0 * 1e-6;
                watts * (after.at - before.at).as_secs_f64()
            }
            Self::Nvidia(_) => grown(None, 0) as f64 * 1e-3,
        }
    }
}

/// How often a [`Tally`] looks: long before any counter starts again, and often enough for the mean of a power.
const LOOKS: Duration = Duration::from_secs(1);

/// Energy used while something went on, added up from many readings.
pub(crate) struct Tally {
    meter: Meter,
    last: Option<Reading>,
    joules: f64,
}

impl Tally {
    /// One that stands at zero and begins at its first look.
    pub(crate) fn new(meter: Meter) -> Self {
        Self { meter, last: None, joules: 0.0 }
    }

    /// Looks, if the last time was a while ago.
    pub(crate) fn look(&mut self) {
        if self.last.as_ref().is_none_or(|last| last.at.elapsed() >= LOOKS) {
            self.look_now();
        }
    }

    /// What has been used up to now.
    pub(crate) fn joules(&mut self) -> f64 {
        self.look_now();
        self.joules
    }

    /// What is used until the next look is not counted.
    pub(crate) fn hold(&mut self) {
        self.look_now();
        self.last = None;
    }

    /// What tells, for people.
    pub(crate) fn source(&self) -> &'static str {
        match &self.meter {
            Meter::Power(_) => "the driver's power, once a second",
            meter => meter.source(),
        }
    }

    fn look_now(&mut self) {
        // Where nothing was told this time, the next reading tells of both.
        let Some(now) = self.meter.read() else { return };
        if let Some(last) = &self.last {
            self.joules += self.meter.joules(last, &now);
        }
        self.last = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::super::card::write;
    use super::*;

    #[test]
    fn processors_are_added_up_and_counters_start_again() {
        let root = tempfile::tempdir().expect("a folder");
        assert!(Meter::of_processor(&root.path().join("none")).is_err_and(|why| why.contains("has no")));
        assert!(Meter::of_processor(root.path()).is_err_and(|why| why.contains("no processor")));
        let file = |zone: &str, name: &str| root.path().join(zone).join(name);
        for (zone, name, energy) in [
            ("a:0", "package-0", "900"),
            ("a:0:0", "core", "5"),
            ("a:1", "package-1", "10"),
            ("mmio:0", "package-0", "900"),
        ] {
            write(&file(zone, "name"), name);
            write(&file(zone, "energy_uj"), energy);
            write(&file(zone, "max_energy_range_uj"), "1000\n");
        }
        let meter = Meter::of_processor(root.path()).expect("two processors");
        let before = meter.read().expect("readable");
        write(&file("a:0", "energy_uj"), "100");
        write(&file("a:1", "energy_uj"), "40");
        let mut after = meter.read().expect("readable");
        after.at = before.at + Duration::from_secs(1);
        assert!((meter.joules(&before, &after) - 230e-6).abs() < 1e-12);
        after.at = before.at + Duration::from_nanos(50);
        assert!((meter.joules(&before, &after) - 130e-6).abs() < 1e-12, "200 uJ in 50 ns are a reset");
        fs::remove_file(file("a:1", "energy_uj")).expect("removable");
        assert!(meter.read().is_none());
        assert!(Meter::of_processor(root.path()).is_err_and(|why| why.contains("administrator")));
    }

    #[test]
    fn a_tally_counts_from_look_to_look() {
        let card = tempfile::tempdir().expect("a folder");
        let file = card.path().join("hwmon/hwmon3/energy1_input");
        write(&file, "1000000");
        let mut tally = Tally::new(Meter::of_card(card.path()).expect("it has a counter"));
        tally.look();
        write(&file, "3500000");
        assert!((tally.joules() - 2.5).abs() < 1e-9);
        tally.hold();
        write(&file, "9000000");
        tally.look();
        write(&file, "9500000");
        fs::rename(&file, card.path().join("gone")).expect("movable");
        assert!((tally.joules() - 2.5).abs() < 1e-9, "nothing is told");
        fs::rename(card.path().join("gone"), &file).expect("movable");
        assert!((tally.joules() - 3.0).abs() < 1e-9);
        write(&file, "250000");
        assert!((tally.joules() - 3.25).abs() < 1e-9, "it was reset");
    }

    #[test]
    fn a_card_tells_energy_or_power() {
        let card = tempfile::tempdir().expect("a folder");
        let file = |name: &str| card.path().join("hwmon/hwmon3").join(name);
        assert!(Meter::of_card(card.path()).is_err_and(|why| why.contains("neither energy nor power")));
        write(&file("power1_input"), "2000000");
        let meter = Meter::of_card(card.path()).expect("it has power");
        let (before, mut after) = (meter.read().expect("readable"), meter.read().expect("readable"));
        after.at = before.at + Duration::from_secs(3);
        after.values[0] = 4_000_000;
        assert!((meter.joules(&before, &after) - 9.0).abs() < 1e-9);
        write(&file("energy1_input"), "5");
        assert!(matches!(Meter::of_card(card.path()), Ok(Meter::Counter(_))));
    }
}
