//! How much of a device is at work.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::device::{DeviceInfo, DeviceKind};

use super::Card;
use super::card::number;
use super::nvidia::Nvidia;

/// What tells how much of a device is at work.
pub(crate) enum Utilisation {
    /// Processor time of this process, against what all threads could have.
    Threads(usize),
    /// The driver's percentage of the last moment.
    Percent(PathBuf),
    /// NVIDIA's library.
    Nvidia(Nvidia),
}

/// When it was looked at.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    at: Instant,
    processor: Duration,
    /// Where the driver tells of a moment.
    moment: Option<f64>,
}

impl Utilisation {
    /// What tells it of a device, or why nothing does.
    pub(crate) fn of(info: &DeviceInfo) -> Result<Self, String> {
        if matches!(info.kind, DeviceKind::Cpu | DeviceKind::Software) {
            return match processor_time() {
                Some(_) => Ok(Self::Threads(std::thread::available_parallelism().map_or(1, usize::from))),
                None => Err("this system does not report a process's time".into()),
            };
        }
        match Card::of(info)? {
            Card::Nvidia(card) => Ok(Self::Nvidia(card)),
            Card::Folder(card) => {
                let file = card.join("gpu_busy_percent");
                let readable = number(&file).is_some();
                readable.then_some(Self::Percent(file)).ok_or_else(|| format!("{} does not report it", card.display()))
            }
        }
    }

    /// All that may tell.
    pub(crate) const SOURCES: [&'static str; 3] = [
        "processor time of this process, of all threads",
        "the driver's busy percentage",
        "NVML, time in which a kernel ran",
    ];

    /// What tells, for people.
    pub(crate) const fn source(&self) -> &'static str {
        match self {
            Self::Threads(_) => Self::SOURCES[0],
            Self::Percent(_) => Self::SOURCES[1],
            Self::Nvidia(_) => Self::SOURCES[2],
        }
    }

    /// Whether it tells of exactly the time between two looks; drivers tell of the last moment, up to a second.
    pub(crate) const fn is_prompt(&self) -> bool {
        matches!(self, Self::Threads(_))
    }

    /// Looks, to be asked [`between`](Self::between) later.
    pub(crate) fn look(&self) -> Look {
        let moment = match self {
            Self::Threads(_) => None,
            Self::Percent(file) => number(file).map(|percent| percent as f64 / 100.0),
            Self::Nvidia(card) => card.utilisation(),
        };
        Look { at: Instant::now(), processor: processor_time().unwrap_or_default(), moment }
    }

    /// The part that was at work between two looks, 0 to 1; where a driver tells of moments only, that of the second.
    pub(crate) fn between(&self, first: &Look, second: &Look) -> Option<f64> {
        let Self::Threads(threads) = self else { return second.moment };
        let wall = (second.at - first.at).as_secs_f64() * *threads as f64;
        let worked = second.processor.saturating_sub(first.processor).as_secs_f64();
        (wall > 0.0).then(|| (worked / wall).min(1.0))
    }
}

#[cfg(not(target_arch = "wasm32"))]
pub(super) fn processor_time() -> Option<Duration> {
    cpu_time::ProcessTime::try_now().ok().map(|time| time.as_duration())
}

#[cfg(target_arch = "wasm32")]
pub(super) fn processor_time() -> Option<Duration> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_set_against_all_threads() {
        let tells = Utilisation::Threads(4);
        let begin = Instant::now();
        let look = |seconds: u64, worked: u64| Look {
            at: begin + Duration::from_secs(seconds),
            processor: Duration::from_secs(worked),
            moment: None,
        };
        assert_eq!(tells.between(&look(0, 5), &look(10, 25)), Some(0.5));
        assert_eq!(tells.between(&look(3, 5), &look(3, 5)), None, "no time has passed");
        let card = Utilisation::Percent("none".into());
        let moment = |part| Look { moment: Some(part), ..look(1, 0) };
        assert_eq!(card.between(&moment(0.1), &moment(0.9)), Some(0.9));
    }

    #[test]
    fn the_processor_that_this_test_runs_on_is_at_work() {
        let tells = Utilisation::of(&crate::Device::cpu().info().clone()).expect("processes know their time");
        let first = tells.look();
        let mut sum = 0.0_f64;
        while first.at.elapsed() < Duration::from_millis(30) {
            sum = (sum + 1.0).sqrt();
        }
        let part = tells.between(&first, &tells.look()).expect("some time has passed");
        assert!(part > 0.0 && part <= 1.0 && sum > 0.0, "{part}");
    }
}
