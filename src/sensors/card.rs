//! Which of the system's graphics cards an adapter is.

use std::fs;
use std::path::{Path, PathBuf};

use crate::device::{DeviceInfo, DeviceKind};

use super::nvidia::Nvidia;

/// A graphics card that tells of itself.
pub(crate) enum Card {
    /// Through NVIDIA's management library.
    Nvidia(Nvidia),
    /// Through a folder of files that a Linux driver keeps up to date.
    Folder(PathBuf),
}

impl Card {
    /// The card that an adapter is, or why it is not known.
    pub(crate) fn of(info: &DeviceInfo) -> Result<Self, String> {
        match info.kind {
            DeviceKind::Cpu | DeviceKind::Software => Err("this is no graphics card".into()),
            _ if info.name.contains("NVIDIA") => Nvidia::of(info).map(Self::Nvidia),
            _ if !cfg!(target_os = "linux") => {
                Err(format!("brasa does not read the counters of {}'s graphics drivers yet", super::system()))
            }
            _ => Self::folder_of(info.pci_bus.as_deref(), Path::new("/sys/class/drm")).map(Self::Folder),
        }
    }

    /// The folder of the card at this address of the PCI bus; without one, that of the only card.
    fn folder_of(pci_bus: Option<&str>, root: &Path) -> Result<PathBuf, String> {
        let entries = fs::read_dir(root).map_err(|_| format!("this system has no {}", root.display()))?;
        // beside the cards lie their outputs (card0-HDMI-A-1), whose devices are the cards' own folders
        let is_card = |entry: &fs::DirEntry| {
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix("card"));
            number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let entries = entries.flatten().filter(is_card);
        let mut cards: Vec<PathBuf> =
            entries.filter_map(|card| card.path().join("device").canonicalize().ok()).collect();
        cards.sort();
        cards.dedup();
        if let Some(bus) = pci_bus {
            let same = |card: &PathBuf| card.file_name().is_some_and(|name| name.eq_ignore_ascii_case(bus));
            return cards.into_iter().find(same).ok_or_else(|| format!("{} has no card {bus}", root.display()));
        }
        match <[PathBuf; 1]>::try_from(cards) {
            Ok([card]) => Ok(card),
            Err(cards) => Err(format!("there are {} graphics cards, and which one this is, is not known", cards.len())),
        }
    }

    /// Bytes of its memory that nobody uses, if it has its own.
    #[cfg(feature = "ui")]
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        match self {
            Self::Nvidia(card) => card.free_bytes(),
            Self::Folder(card) => {
                let [all, used] = ["total", "used"].map(|what| number(&card.join(format!("mem_info_vram_{what}"))));
                all?.checked_sub(used?)
            }
        }
    }

    /// Its clock in MHz now, and what holds it down, if something does.
    pub(crate) fn clock(&self) -> Option<(f64, Option<&'static str>)> {
        match self {
            Self::Nvidia(card) => card.clock(),
            Self::Folder(card) => Some((sensor(card, "freq1_input")? as f64 * 1e-6, None)),
        }
    }
}

/// A file of a card's sensors, if it has it and it is a number.
pub(super) fn sensor_file(card: &Path, name: &str) -> Option<PathBuf> {
    let sensors = fs::read_dir(card.join("hwmon")).ok()?;
    sensors.flatten().map(|sensor| sensor.path().join(name)).find(|file| number(file).is_some())
}

fn sensor(card: &Path, name: &str) -> Option<u64> {
    number(&sensor_file(card, name)?)
}

pub(super) fn text(file: &Path) -> Option<String> {
    fs::read_to_string(file).ok()
}

pub(super) fn number(file: &Path) -> Option<u64> {
    text(file)?.trim().parse().ok()
}

#[cfg(test)]
pub(super) fn write(path: &Path, contents: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("writable");
    fs::write(path, contents).expect("writable");
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_card_is_known_by_its_address_and_of_two_none_is_guessed() {
        let root = tempfile::tempdir().expect("a folder");
        let drm = root.path().join("drm");
        let add = |card: &str, bus: &str| {
            let device = root.path().join("pci").join(bus);
            write(&device.join("hwmon/hwmon3/freq1_input"), "1500000000\n");
            fs::create_dir_all(drm.join(card)).expect("writable");
            symlink(device, drm.join(card).join("device")).expect("a link");
        };
        assert!(Card::folder_of(None, &drm).is_err_and(|why| why.contains("has no")));
        add("card0", "0000:03:00.0");
        fs::create_dir_all(drm.join("card0-HDMI-A-1")).expect("writable");
        symlink(drm.join("card0"), drm.join("card0-HDMI-A-1/device")).expect("a link");
        let only = Card::folder_of(None, &drm).expect("one card");
        assert_eq!(Card::Folder(only.clone()).clock(), Some((1500.0, None)));
        add("card1", "0000:0a:00.0");
        assert!(Card::folder_of(None, &drm).is_err_and(|why| why.starts_with("there are 2 ")));
        assert_eq!(Card::folder_of(Some("0000:03:00.0"), &drm), Ok(only));
        let second = Card::folder_of(Some("0000:0A:00.0"), &drm).expect("the other card");
        assert!(second.ends_with("0000:0a:00.0"));
        assert!(Card::folder_of(Some("0000:0b:00.0"), &drm).is_err_and(|why| why.contains("no card 0000:0b:00.0")));
    }
}
