//! The last steps in time: what the loader's threads, the upload, the device and the host did, one beside the other.
//!
//! All times are counted from the beginning of the run, on the host's monotonic clock.
//!
//! * A **loader** thread makes a batch's worth of samples at once. When it began, and for how long it loaded, augmented
//!   and collected them, was measured; as each sample goes through all three, their parts are put one behind the other.
//! * The **CPU** executor reads the clock between kernels.
//! * A **GPU**'s passes have its own timestamps, so that lengths and distances are its own; how its clock stands to the
//!   host's is concluded from when the host heard of their end (see `gpu/timestamps.rs`). Without timestamps a pass
//!   ends when the host heard of it. Of short programs only some replays are timed: the others leave gaps.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use crate::data::Work;
use crate::stage::Stage;
use crate::timing::spans::WorkSpan;
use crate::train::record::{Lane, Span, Timeline};

/// Steps, and batches of an evaluation, that are shown.
const SHOWN: usize = 40;
/// Most spans that are kept of a lane, and shown of all lanes together.
const MOST: usize = 2000;

/// What batches are for. Each has a loader with threads of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Train,
    Test,
}

/// What works beside the others, in the order in which they are shown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Loader(Part, usize),
    Batches(Part),
    Upload,
    Device,
    Host,
}

/// Keeps the last spans of every lane.
pub(super) struct Recorder {
    zero: Instant,
    device: String,
    lanes: BTreeMap<Place, VecDeque<Span>>,
    /// When the last steps and batches were handed to the device.
    begun: VecDeque<Instant>,
}

impl Recorder {
    /// One whose zero is now, for work on the device of this name.
    pub(super) fn new(device: String) -> Self {
        Self { zero: Instant::now(), device, lanes: BTreeMap::new(), begun: VecDeque::new() }
    }

    /// A step, or a batch of an evaluation, is handed to the device.
    pub(super) fn begin(&mut self) {
        if self.begun.len() == SHOWN {
            self.begun.pop_front();
        }
        self.begun.push_back(Instant::now());
    }

    /// What the threads of a loader did for a batch of step `number`.
    pub(super) fn add_loading(&mut self, work: &[Work], part: Part, number: u64) {
        for &Work { worker, stage, start, end } in work {
            let place = worker.map_or(Place::Batches(part), |worker| Place::Loader(part, worker));
            self.add(place, WorkSpan { stage, start, end, number });
        }
    }

    /// What the device did, and the uploads to it.
    pub(super) fn add_device(&mut self, spans: impl IntoIterator<Item = WorkSpan>) {
        for span in spans {
            let place = if span.stage == Stage::Upload { Place::Upload } else { Place::Device };
            self.add(place, span);
        }
    }

    /// What the host did beside training from `start` to now.
    pub(super) fn add_log(&mut self, start: Instant, number: u64) {
        self.add(Place::Host, WorkSpan { stage: Stage::Log, start, end: Instant::now(), number });
    }

    fn add(&mut self, place: Place, span: WorkSpan) {
        let lane = self.lanes.entry(place).or_default();
        if lane.len() == MOST {
            lane.pop_front();
        }
        let WorkSpan { stage, start, end, number: step } = span;
        let [start_ms, end_ms] = [start, end].map(|at| milliseconds(self.zero, at));
        lane.push_back(Span { stage, start_ms, end_ms, step });
    }

    /// What was done since the last steps began, or the last of it.
    pub(super) fn last_steps(&self) -> Timeline {
        let mut first = self.begun.front().map_or(0.0, |&at| milliseconds(self.zero, at));
        let mut ends: Vec<f64> =
            self.lanes.values().flatten().map(|span| span.end_ms).filter(|&end| end > first).collect();
        if ends.len() > MOST {
            ends.sort_by(|a, b| b.total_cmp(a));
            first = ends[MOST];
        }
        let lane = |(&place, spans): (&Place, &VecDeque<Span>)| {
            let mut spans: Vec<Span> = spans.iter().filter(|span| span.end_ms > first).copied().collect();
            // a device tells of several programs, each for itself
            spans.sort_by(|a, b| a.start_ms.total_cmp(&b.start_ms));
            Lane { name: self.name(place), spans }
        };
        Timeline { lanes: self.lanes.iter().map(lane).collect() }
    }

    fn name(&self, place: Place) -> String {
        match place {
            Place::Loader(Part::Train, number) => format!("loader {}", number + 1),
            Place::Loader(Part::Test, number) => format!("evaluation loader {}", number + 1),
            Place::Batches(Part::Train) => "batches".into(),
            Place::Batches(Part::Test) => "evaluation batches".into(),
            Place::Upload => "upload".into(),
            Place::Device => self.device.clone(),
            Place::Host => "host".into(),
        }
    }
}

/// To the microsecond, which is what the files have.
fn milliseconds(zero: Instant, at: Instant) -> f64 {
    (at.saturating_duration_since(zero).as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_last_steps_are_shown_and_no_more_than_fit() {
        let mut recorder = Recorder::new("cpu".into());
        let zero = recorder.zero;
        let at = |ms: u64| zero + Duration::from_millis(ms);
        let span = |number: u64| {
            let (start, end) = (at(10 * number), at(10 * number + 4));
            WorkSpan { stage: Stage::Forward, start, end, number }
        };
        let spans: Vec<_> = (0..100).map(span).collect();
        let begun = (60..100).map(|number| at(10 * number)).collect();
        let work = Work { worker: Some(1), stage: Stage::Load, start: at(601), end: at(603) };
        recorder.add_device(spans.iter().copied());
        recorder.add_loading(&[work], Part::Train, 60);
        recorder.begun = begun;
        let shown = recorder.last_steps();
        let names: Vec<_> = shown.lanes.iter().map(|lane| lane.name.as_str()).collect();
        assert_eq!(names, ["loader 2", "cpu"]);
        assert_eq!(shown.lanes[1].spans.len(), 40);
        assert_eq!(shown.lanes[1].spans[0], Span { stage: Stage::Forward, start_ms: 600.0, end_ms: 604.0, step: 60 });
        for number in 0..MOST as u64 {
            let start = at(1000) + Duration::from_micros(10 * number);
            let end = start + Duration::from_micros(10);
            recorder.add_device([WorkSpan { stage: Stage::Upload, start, end, number }]);
        }
        let counts: Vec<_> = recorder.last_steps().lanes.iter().map(|lane| lane.spans.len()).collect();
        assert_eq!(counts, [0, MOST, 0], "the last of all");
    }
}
