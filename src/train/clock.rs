//! Where the time of a run goes, stage by stage.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::stage::Stage;
use crate::timing::{StageTimes, TimeSource};

/// One stage's times in a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StageReport {
    /// The stage.
    pub stage: Stage,
    /// Milliseconds of work, on whatever thread or device it ran; an estimate where not every step was timed (see
    /// [`StageTime`](crate::timing::StageTime)).
    pub busy_ms: f64,
    /// Milliseconds that training waited for it; work that ran ahead of its use is not in it.
    pub exposed_ms: f64,
    /// Part of all exposed time.
    pub share: f64,
    /// Where it ran, several places as `host + gpu:0`; empty if it never did.
    pub device: String,
    /// How it was measured; `None` if it never ran.
    pub source: Option<TimeSource>,
}

#[derive(Clone, Default)]
struct Entry {
    busy: Duration,
    exposed: Duration,
    device: String,
    source: Option<TimeSource>,
}

/// Adds up busy and exposed time per stage.
#[derive(Clone, Default)]
pub(super) struct StageClock {
    entries: [Entry; Stage::ALL.len()],
}

impl StageClock {
    /// Adds work that took `busy` on `device`, of which training waited `exposed`.
    pub(super) fn add(&mut self, stage: Stage, busy: Duration, exposed: Duration, device: &str, source: TimeSource) {
        let entry = &mut self.entries[stage as usize];
        entry.busy += busy;
        entry.exposed += exposed;
        // The least direct source stands for a sum of several.
        entry.source = Some(entry.source.map_or(source, |known| known.max(source)));
        if entry.device.is_empty() {
            device.clone_into(&mut entry.device);
        } else if !entry.device.split(" + ").any(|known| known == device) {
            entry.device += " + ";
            entry.device += device;
        }
    }

    /// Adds pieces of work of which training waited `waited` in all; each is charged for it in proportion to its
    /// length.
    pub(super) fn add_waited(
        &mut self,
        pieces: &[(Stage, Duration)],
        waited: Duration,
        device: &str,
        source: TimeSource,
    ) {
        let total: f64 = pieces.iter().map(|(_, busy)| busy.as_secs_f64()).sum();
        for &(stage, busy) in pieces {
            let part = if total > 0.0 { busy.as_secs_f64() / total } else { 0.0 };
            self.add(stage, busy, waited.mul_f64(part), device, source);
        }
    }

    /// Adds what `device` did, for which the host waited `waited` in all.
    pub(super) fn add_device(&mut self, times: &StageTimes, waited: Duration, device: &str) {
        let total = times.total_milliseconds();
        for (stage, time) in times.iter() {
            let part = if total > 0.0 { time.milliseconds / total } else { 0.0 };
            let busy = Duration::from_secs_f64(time.milliseconds / 1e3);
            self.add(stage, busy, waited.mul_f64(part), device, time.source);
        }
    }

    /// The ten stages in order.
    pub(super) fn report(&self) -> Vec<StageReport> {
        let total: f64 = self.entries.iter().map(|entry| entry.exposed.as_secs_f64()).sum();
        let row = |stage: Stage| {
            let entry = &self.entries[stage as usize];
            let exposed = entry.exposed.as_secs_f64();
            StageReport {
                stage,
                busy_ms: entry.busy.as_secs_f64() * 1e3,
                exposed_ms: exposed * 1e3,
                share: if total > 0.0 { exposed / total } else { 0.0 },
                device: entry.device.clone(),
                source: entry.source,
            }
        };
        Stage::ALL.map(row).to_vec()
    }
}

/// The device of stages that run on the host, whatever the training device is.
pub(super) const HOST: &str = "host";

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn waiting_is_charged_in_proportion() {
        let mut clock = StageClock::default();
        clock.add_waited(&[(Stage::Load, 3 * MS), (Stage::Batch, MS)], 2 * MS, HOST, TimeSource::WallClock);
        clock.add(Stage::Forward, 2 * MS, 2 * MS, "gpu", TimeSource::Timestamp);
        let report = clock.report();
        let of = |stage: Stage| &report[stage as usize];
        assert_eq!(report.iter().map(|row| row.stage).collect::<Vec<_>>(), Stage::ALL);
        assert!((of(Stage::Load).busy_ms - 3.0).abs() < 1e-9 && (of(Stage::Load).exposed_ms - 1.5).abs() < 1e-9);
        assert!((of(Stage::Batch).exposed_ms - 0.5).abs() < 1e-9);
        assert!((of(Stage::Forward).share - 0.5).abs() < 1e-9);
        assert_eq!((of(Stage::Augment).source, of(Stage::Augment).busy_ms), (None, 0.0));
        assert!((report.iter().map(|row| row.share).sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_stage_may_run_in_two_places() {
        let mut clock = StageClock::default();
        for device in [HOST, "gpu:0", HOST, "gpu:0"] {
            clock.add(Stage::Log, MS, MS, device, TimeSource::WallClock);
        }
        assert_eq!(clock.report()[Stage::Log as usize].device, "host + gpu:0");
    }

    #[test]
    fn the_least_direct_source_stands_for_the_sum() {
        let mut clock = StageClock::default();
        clock.add(Stage::Forward, MS, MS, "gpu", TimeSource::Timestamp);
        clock.add(Stage::Forward, MS, MS, "gpu", TimeSource::Fence);
        assert_eq!(clock.report()[Stage::Forward as usize].source, Some(TimeSource::Fence));
    }
}
