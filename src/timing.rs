//! Measured times: how long each stage and each kernel took, and how that is known.

pub(crate) mod spans;

use crate::plan::Kernel;
use crate::stage::Stage;

/// Where a time comes from, most trustworthy first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeSource {
    /// The device's own clock, read at the boundaries of the work.
    Timestamp,
    /// The moment at which the host learnt that the device had finished.
    Fence,
    /// The host's clock around the work.
    WallClock,
}

impl TimeSource {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Timestamp, Self::Fence, Self::WallClock];

    /// The lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Timestamp => "timestamp",
            Self::Fence => "fence",
            Self::WallClock => "wall clock",
        }
    }
}

/// Time spent in one stage.
///
/// Where only some of the replays were timed, because timing them would have cost more than they take, it is an
/// estimate: the mean of those that were, times the number of all.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StageTime {
    /// Sum over all samples.
    pub milliseconds: f64,
    /// How many replays it stands for, timed or not.
    pub samples: u32,
    /// How it is known; the least trustworthy of the sources.
    pub source: TimeSource,
}

/// Time spent in each stage.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct StageTimes {
    times: [Option<StageTime>; Stage::ALL.len()],
}

impl StageTimes {
    /// Counts one more sample for `stage`.
    pub fn add(&mut self, stage: Stage, milliseconds: f64, source: TimeSource) {
        self.merge_one(stage, StageTime { milliseconds, samples: 1, source });
    }

    /// The time of `stage`, if it was measured.
    pub fn get(&self, stage: Stage) -> Option<StageTime> {
        self.times[stage as usize]
    }

    /// The stages that were measured, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Stage, StageTime)> + '_ {
        Stage::ALL.into_iter().filter_map(|stage| Some((stage, self.get(stage)?)))
    }

    /// Adds all of `other`'s samples.
    pub fn merge(&mut self, other: &Self) {
        for (stage, time) in other.iter() {
            self.merge_one(stage, time);
        }
    }

    /// What `replays` replays of one program took, if this is what `timed` of them did.
    pub(crate) fn of_replays(mut self, replays: u32, timed: u32) -> Self {
        for time in self.times.iter_mut().flatten() {
            time.milliseconds *= f64::from(replays) / f64::from(timed);
            time.samples = replays;
        }
        self
    }

    /// Sum over all stages and samples.
    pub fn total_milliseconds(&self) -> f64 {
        self.iter().map(|(_, time)| time.milliseconds).sum()
    }

    fn merge_one(&mut self, stage: Stage, new: StageTime) {
        let time = self.times[stage as usize].get_or_insert(StageTime { milliseconds: 0.0, samples: 0, ..new });
        time.milliseconds += new.milliseconds;
        time.samples += new.samples;
        time.source = time.source.max(new.source);
    }
}

/// What one kernel was measured to do.
#[derive(Clone, PartialEq, Debug)]
pub struct KernelTime {
    /// The kernel's label.
    pub label: String,
    /// Its stage.
    pub stage: Stage,
    /// Mean time of one launch.
    pub milliseconds: f64,
    /// How many replays it was measured in.
    pub samples: u32,
    /// Arithmetic operations per second, in thousands of millions.
    pub gflops_per_second: f64,
    /// Bytes read and written once each per second, in thousands of millions.
    pub gigabytes_per_second: f64,
    /// How it is known.
    pub source: TimeSource,
}

impl KernelTime {
    /// `kernel`, which took `milliseconds` on average over `samples` replays.
    pub(crate) fn new(kernel: &Kernel, milliseconds: f64, samples: u32, source: TimeSource) -> Self {
        Self {
            label: kernel.label.clone(),
            stage: kernel.stage,
            milliseconds,
            samples,
            gflops_per_second: kernel.flops as f64 / milliseconds * 1e-6,
            gigabytes_per_second: kernel.bytes as f64 / milliseconds * 1e-6,
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replays_that_were_not_timed_take_as_long_as_those_that_were() {
        let mut times = StageTimes::default();
        for _ in 0..2 {
            // two passes of one stage in each replay
            times.add(Stage::Forward, 2.0, TimeSource::Timestamp);
            times.add(Stage::Forward, 1.0, TimeSource::Timestamp);
            times.add(Stage::Update, 0.5, TimeSource::Timestamp);
        }
        let all = times.clone().of_replays(32, 2);
        let of = |times: &StageTimes, stage| times.get(stage).map(|time| (time.milliseconds, time.samples));
        assert_eq!(of(&all, Stage::Forward), Some((96.0, 32)));
        assert_eq!(of(&all, Stage::Update), Some((16.0, 32)));
        assert_eq!(of(&all, Stage::Loss), None);
        assert_eq!(of(&times.of_replays(2, 2), Stage::Forward), Some((6.0, 2)));
    }

    #[test]
    fn samples_add_up_and_keep_the_weakest_source() {
        let mut times = StageTimes::default();
        times.add(Stage::Forward, 2.0, TimeSource::Timestamp);
        times.add(Stage::Forward, 3.0, TimeSource::Fence);
        times.add(Stage::Loss, 1.0, TimeSource::Timestamp);
        let mut all = StageTimes::default();
        all.merge(&times);
        all.merge(&times);
        let forward = all.get(Stage::Forward).expect("measured");
        assert_eq!((forward.milliseconds, forward.samples, forward.source), (10.0, 4, TimeSource::Fence));
        assert_eq!(all.total_milliseconds(), 12.0);
        assert_eq!(all.get(Stage::Load), None);
        assert_eq!(all.iter().map(|(stage, _)| stage).collect::<Vec<_>>(), [Stage::Forward, Stage::Loss]);
    }
}
