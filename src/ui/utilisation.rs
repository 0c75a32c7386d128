//! How busy devices are and what memory they have left, where the system tells without administrator rights; else why not.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nvml_wrapper::Nvml;
use parking_lot::Mutex;

use crate::device::{Device, DeviceInfo, DeviceKind, MemoryUse};

use super::text::Text;

const EVERY: Duration = Duration::from_secs(1);
/// Nobody looks any more.
const FORGOTTEN: Duration = Duration::from_secs(3);
/// Between the first two looks at the times of processors.
const FIRST: Duration = Duration::from_millis(200);
const PROCESSORS: &str = "/proc/stat";
const CARDS: &str = "/sys/class/drm";

/// What is known of a device at a moment.
#[derive(Clone)]
pub(super) struct Usage {
    /// What this process holds on it; `None` if it has not opened it.
    pub(super) ours: Option<MemoryUse>,
    pub(super) free_bytes: Result<u64, Missing>,
    /// Part of the time in which it, or any of the processors, computed.
    pub(super) busy: Result<f32, Missing>,
}

/// Why something is not known.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Missing {
    NoFile(&'static str),
    /// So many cards tell, and nothing says which of them an adapter is.
    Several(usize),
    Nvml(String),
    NoSource,
}

impl Missing {
    pub(super) fn in_words(&self, text: Text) -> String {
        match self {
            Self::NoFile(file) => text.f("this system has no {}", &[file]),
            Self::Several(count) => {
                text.f("{} graphics cards tell it, and which of them this is, is not known", &[count])
            }
            Self::Nvml(error) => text.f("NVIDIA's management library says: {}", &[error]),
            Self::NoSource => text
                .t("graphics interfaces do not tell it, and other sources are read for NVIDIA and, on Linux, AMD only")
                .to_owned(),
        }
    }
}

/// Looks at devices on a thread of its own, as long as somebody wants to know.
#[derive(Default)]
pub(super) struct Watch(Arc<Mutex<Watched>>);

#[derive(Default)]
struct Watched {
    wanted: Option<Instant>,
    running: bool,
    known: BTreeMap<String, Usage>,
}

impl Watch {
    /// What is known by now, by selector; the window is drawn when more is.
    pub(super) fn usages(&self, context: &egui::Context, devices: &[DeviceInfo]) -> BTreeMap<String, Usage> {
        let mut watched = self.0.lock();
        watched.wanted = Some(Instant::now());
        if !watched.running {
            watched.running = true;
            let (shared, context, devices) = (Arc::clone(&self.0), context.clone(), devices.to_vec());
            std::thread::spawn(move || watch(&shared, &context, devices));
        }
        watched.known.clone()
    }
}

fn watch(shared: &Mutex<Watched>, context: &egui::Context, devices: Vec<DeviceInfo>) {
    let mut sources: Vec<_> = devices.into_iter().map(|info| (Source::of(&info), info)).collect();
    std::thread::sleep(FIRST);
    loop {
        let known = sources.iter_mut().map(|(source, info)| (info.selector.clone(), source.usage(info))).collect();
        {
            let mut watched = shared.lock();
            watched.known = known;
            watched.running = watched.wanted.is_some_and(|wanted| wanted.elapsed() < FORGOTTEN);
            if !watched.running {
                return;
            }
        }
        context.request_repaint();
        std::thread::sleep(EVERY);
    }
}

/// What tells about a device.
enum Source {
    /// Linux's file of the processors' times, and what it said last.
    Processors(PathBuf, Option<Times>),
    /// A graphics card's folder, of a driver that tells there.
    Card(PathBuf),
    Nvidia(Box<Nvml>, u32),
    None(Missing),
}

/// Since the machine was started, in whatever unit.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Times {
    busy: u64,
    all: u64,
}

impl Source {
    fn of(info: &DeviceInfo) -> Self {
        let is_amd = ["AMD", "Radeon", "RADV"].iter().any(|word| info.name.contains(word));
        match info.kind {
            DeviceKind::Cpu | DeviceKind::Software => {
                let file = PathBuf::from(PROCESSORS);
                let now = times(&file);
                Self::Processors(file, now)
            }
            _ if info.name.contains("NVIDIA") => {
                nvidia(info).map_or_else(Self::None, |(nvml, number)| Self::Nvidia(nvml, number))
            }
            _ if is_amd && cfg!(target_os = "linux") => card(Path::new(CARDS)).map_or_else(Self::None, Self::Card),
            _ => Self::None(Missing::NoSource),
        }
    }

    fn usage(&mut self, info: &DeviceInfo) -> Usage {
        let ours = Device::if_opened(&info.selector).map(|device| device.memory());
        let (busy, free_bytes) = match self {
            Self::Processors(file, before) => {
                let now = times(file);
                let grown = before.zip(now).map(|(before, now)| part(before, now));
                *before = now;
                // whatever computes on the processor has its memory
                let free = Device::cpu().free_memory().ok_or(Missing::NoFile("/proc/meminfo"));
                (grown.ok_or(Missing::NoFile(PROCESSORS)), free)
            }
            Self::Card(folder) => {
                let value = |name: &'static str| number(&folder.join(name)).ok_or(Missing::NoFile(name));
                let free =
                    value("mem_info_vram_total").and_then(|all| Ok(all.saturating_sub(value("mem_info_vram_used")?)));
                (value("gpu_busy_percent").map(|percent| percent as f32 / 100.0), free)
            }
            Self::Nvidia(nvml, number) => {
                let said = |error: nvml_wrapper::error::NvmlError| Missing::Nvml(error.to_string());
                let card = || nvml.device_by_index(*number);
                let busy = card().and_then(|card| card.utilization_rates());
                let memory = card().and_then(|card| card.memory_info());
                (
                    busy.map(|rates| rates.gpu as f32 / 100.0).map_err(said),
                    memory.map(|memory| memory.free).map_err(said),
                )
            }
            Self::None(why) => (Err(why.clone()), Err(why.clone())),
        };
        Usage { ours, free_bytes, busy }
    }
}

fn nvidia(info: &DeviceInfo) -> Result<(Box<Nvml>, u32), Missing> {
    let said = |error: nvml_wrapper::error::NvmlError| Missing::Nvml(error.to_string());
    let nvml = Nvml::init().map_err(said)?;
    let is_it = |number: &u32| {
        let name = nvml.device_by_index(*number).and_then(|device| device.name());
        name.is_ok_and(|name| info.name.contains(&name) || name.contains(&info.name))
    };
    let alike: Vec<u32> = (0..nvml.device_count().map_err(said)?).filter(is_it).collect();
    let [number] = alike[..] else { return Err(Missing::Several(alike.len())) };
    Ok((Box::new(nvml), number))
}

/// The only card that tells how busy it is.
fn card(root: &Path) -> Result<PathBuf, Missing> {
    let cards = fs::read_dir(root).map_err(|_| Missing::NoFile(CARDS))?;
    let folders = cards.flatten().filter_map(|card| card.path().join("device").canonicalize().ok());
    let mut found: Vec<PathBuf> = folders.filter(|folder| number(&folder.join("gpu_busy_percent")).is_some()).collect();
    // a card is there once for each of its connectors as well
    found.sort();
    found.dedup();
    match &mut found[..] {
        [] => Err(Missing::NoFile("gpu_busy_percent")),
        [only] => Ok(std::mem::take(only)),
        several => Err(Missing::Several(several.len())),
    }
}

/// The times of all processors together.
fn times(file: &Path) -> Option<Times> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    // user, nice, system, idle, waiting for disks, interrupts of two kinds, stolen; those of guests are in the first two
    let parts: Vec<u64> = line.split_whitespace().take(8).map(|part| part.parse().unwrap_or(0)).collect();
    let all = parts.iter().sum();
    Some(Times { busy: all - parts.get(3)? - parts.get(4)?, all })
}

fn part(before: Times, now: Times) -> f32 {
    let all = now.all.saturating_sub(before.all).max(1);
    (now.busy.saturating_sub(before.busy) as f32 / all as f32).min(1.0)
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_busy_for_a_part_of_the_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("stat");
        fs::write(&file, "cpu  100 10 30 50 10 0 0 0 7 0\ncpu0 1 1 1 1 1\n").expect("writable");
        let before = times(&file).expect("times");
        assert_eq!(before, Times { busy: 140, all: 200 });
        assert!((part(before, Times { busy: 165, all: 300 }) - 0.25).abs() < 1e-6);
        assert_eq!(part(before, before), 0.0);
        assert_eq!(times(Path::new("/nowhere")), None);
    }

    #[test]
    fn one_card_tells_and_of_two_none_is_guessed() {
        let root = tempfile::tempdir().expect("a folder");
        assert_eq!(card(root.path()), Err(Missing::NoFile("gpu_busy_percent")));
        for (count, name) in ["card0", "card1"].iter().enumerate() {
            let folder = root.path().join(name).join("device");
            fs::create_dir_all(&folder).expect("writable");
            fs::write(folder.join("gpu_busy_percent"), "37\n").expect("writable");
            assert_eq!(card(root.path()).is_ok(), count == 0);
        }
        assert_eq!(card(root.path()), Err(Missing::Several(2)));
    }
}
