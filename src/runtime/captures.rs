//! The signatures that a step is captured or planned for: found by their key, and bounded in number.

use std::sync::Arc;
use std::time::Instant;

use crate::device::Device;
use crate::error::Result;
use crate::graph::Program;
use crate::stage::Stage;
use crate::timing::spans::{SpanLog, WorkSpan};
use crate::timing::{KernelTime, StageTimes, TimeSource};

use super::capture::{Captured, Planned};
use super::signature::{self, Key};

/// Signatures that a step stays captured for, unless it is told another number. Each has memory of its own for its
/// inputs, outputs and intermediate results: enough for the sizes of a few batches, in training and out of it.
const SIGNATURES: usize = 8;

/// What a step is captured and planned for, and what was measured of its runs.
pub(super) struct Captures {
    /// In the order in which they were captured, which is the one that whoever asks for their times sees.
    captured: Vec<(Key, Captured)>,
    /// Planned and not captured yet, the oldest first.
    planned: Vec<(Key, Planned)>,
    /// Most signatures that stay captured, and that stay planned.
    limit: usize,
    /// Grows with each use.
    clock: u64,
    /// Signatures that were forgotten for others.
    forgotten: usize,
    /// Kernels are timed one by one.
    profiled: bool,
    /// What the host took to hand over inputs given as bytes, and what signatures took that were forgotten.
    times: StageTimes,
    /// Where it is noted when work was done.
    log: Option<Arc<SpanLog>>,
}

impl Default for Captures {
    fn default() -> Self {
        Self {
            captured: Vec::new(),
            planned: Vec::new(),
            limit: SIGNATURES,
            clock: 0,
            forgotten: 0,
            profiled: false,
            times: StageTimes::default(),
            log: None,
        }
    }
}

impl Captures {
    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Whether nothing was captured or planned.
    pub(super) fn is_empty(&self) -> bool {
        self.captured.is_empty() && self.planned.is_empty()
    }

    /// Whether `key` is captured and nothing that it reads has moved since.
    pub(super) fn is_current(&self, key: &Key) -> Result<bool> {
        self.get(key).map_or(Ok(false), |captured| Ok(!captured.is_stale()?))
    }

    /// What is captured for `key`, which is used now.
    ///
    /// # Panics
    /// If it is not captured.
    pub(super) fn used(&mut self, key: &Key) -> &mut Captured {
        self.clock += 1;
        let found = self.captured.iter_mut().find(|(known, _)| known == key);
        let (_, captured) = found.expect("captured before it is used");
        captured.used = self.clock;
        captured
    }

    /// Gives what was planned for `key` memory, in the place of what was used longest ago if there is too much.
    pub(super) fn capture(&mut self, key: &Key, planned: Planned, device: &Device) -> Result<()> {
        let because = self.why_not_reused(key, &planned.traced.program);
        crate::debug::plan_made(&planned.traced.program, &planned.plan, because.as_deref());
        // first, so that their memory can be used
        self.forget(key);
        while self.captured.len() >= self.limit {
            let oldest = self.captured.iter().min_by_key(|(_, captured)| captured.used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { break };
            self.forget(&oldest);
            self.forgotten += 1;
            // once, when those in use seem to come again and again
            if self.forgotten == 2 * self.limit {
                tracing::warn!(
                    "a step forgets the sizes of inputs that it is captured for, and is captured anew for each: it has met \
                     more than {} of them. Step::with_signature_limit keeps more; inputs padded to a few sizes need none",
                    self.limit
                );
            }
        }
        match planned.bind(device, because) {
            Ok(mut captured) => {
                if self.profiled {
                    captured.bound.profile_kernels(true);
                }
                if let Some(log) = &self.log {
                    captured.bound.note_spans(log);
                }
                self.captured.push((key.clone(), captured));
                Ok(())
            }
            Err(error) => {
                self.keep_planned(key.clone(), planned);
                Err(error)
            }
        }
    }

    /// The plan that was kept for `key`, if it is up to date.
    pub(super) fn take_planned(&mut self, key: &Key) -> Result<Option<Planned>> {
        let place = self.planned.iter().position(|(known, _)| known == key);
        match place.map(|place| self.planned.remove(place).1) {
            Some(planned) if !planned.is_stale()? => Ok(Some(planned)),
            _ => Ok(None),
        }
    }

    /// Keeps a plan for later, in the place of the oldest one if there are too many.
    pub(super) fn keep_planned(&mut self, key: Key, planned: Planned) {
        if self.planned.len() >= self.limit {
            self.planned.remove(0);
        }
        self.planned.push((key, planned));
    }

    /// Milliseconds per stage since the last call.
    pub(super) fn stage_times(&mut self) -> StageTimes {
        let mut times = std::mem::take(&mut self.times);
        for (_, captured) in &mut self.captured {
            times.merge(&captured.bound.stage_times());
        }
        times
    }

    /// Inputs given as bytes were handed over from `start` to `end`.
    pub(super) fn note_upload(&mut self, start: Instant, end: Instant) {
        self.times.add(Stage::Upload, (end - start).as_secs_f64() * 1e3, TimeSource::WallClock);
        if let Some(log) = &self.log {
            log.push(WorkSpan { stage: Stage::Upload, start, end, number: log.number() });
        }
    }

    /// Notes in `log` when inputs were handed over and when each stage ran, from now on.
    pub(super) fn note_spans(&mut self, log: &Arc<SpanLog>) {
        self.log = Some(Arc::clone(log));
        for (_, captured) in &mut self.captured {
            captured.bound.note_spans(log);
        }
    }

    /// Times every kernel by itself from now on (or not).
    pub(super) fn profile_kernels(&mut self, on: bool) {
        self.profiled = on;
        for (_, captured) in &mut self.captured {
            captured.bound.profile_kernels(on);
        }
    }

    /// What each kernel took, in the order of signatures and of their plans.
    pub(super) fn kernel_times(&mut self) -> Vec<KernelTime> {
        self.captured.iter_mut().flat_map(|(_, captured)| captured.bound.kernel_times()).collect()
    }

    /// What each kernel for `key` took.
    pub(super) fn kernel_times_for(&mut self, key: &Key) -> Vec<KernelTime> {
        let found = self.captured.iter_mut().find(|(known, _)| known == key);
        found.map(|(_, captured)| captured.bound.kernel_times()).unwrap_or_default()
    }

    fn get(&self, key: &Key) -> Option<&Captured> {
        self.captured.iter().find(|(known, _)| known == key).map(|(_, captured)| captured)
    }

    /// What keeps a plan of the step from being used for `key`, whose program is `program`.
    fn why_not_reused(&self, key: &Key, program: &Program) -> Option<String> {
        match self.get(key) {
            Some(stale) => Some(program.difference(&stale.program).unwrap_or_else(|| stale.moved())),
            None => signature::change(key, self.captured.iter().map(|(known, _)| known)),
        }
    }

    /// Drops what was captured for `key`, but for its times.
    fn forget(&mut self, key: &Key) {
        if let Some(place) = self.captured.iter().position(|(known, _)| known == key) {
            let (_, mut captured) = self.captured.remove(place);
            self.times.merge(&captured.bound.stage_times());
        }
    }
}
