//! Times without a clock on the device: the host notes when it learns that a submission is done.
//!
//! This takes a submission for each pass, and counts the way of the news as part of the work.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::context::Gpu;
use super::passes::{Measured, Pass};
use super::recorder::Recorder;
use super::waiter::Ticket;
use crate::timing::spans::{SpanLog, WorkSpan};

/// Submissions on their way, oldest first.
#[derive(Debug, Default)]
pub(super) struct Fences {
    waiting: VecDeque<Fence>,
    /// The passes that are done, of a replay that is not.
    begun: Measured,
    last_done: Option<Instant>,
    /// The number of the replay that is submitted now, for the log of spans.
    pub(super) number: u64,
}

/// What a submission ends with.
#[derive(Clone, Copy, Debug)]
pub(super) enum End<'p> {
    /// Work whose end nobody waits for.
    Untimed,
    /// A replay that is not timed; the next one is, and starts when this one is done.
    Before,
    /// A pass of a replay, the only one since the submission before.
    Pass(&'p Pass),
    /// The last pass of a replay.
    Last(&'p Pass),
}

#[derive(Debug)]
struct Fence {
    /// None: of a replay that is not timed.
    pass: Option<Pass>,
    /// It is the last of its replay.
    last: bool,
    submitted: Instant,
    number: u64,
    done: Arc<OnceLock<Instant>>,
}

impl Fences {
    /// Submits what is recorded, and notes when it is done, unless nobody wants to know.
    pub(super) fn submit(&mut self, gpu: &Gpu, recorder: &mut Recorder, end: End<'_>) -> Option<wgpu::SubmissionIndex> {
        let submitted = Instant::now();
        let submission = recorder.submit(gpu)?;
        if !matches!(end, End::Untimed) {
            let done = Arc::new(OnceLock::new());
            let (noted, ticket) = (Arc::clone(&done), Ticket::default());
            let settled = ticket.clone();
            gpu.queue.on_submitted_work_done(move || {
                noted.get_or_init(Instant::now);
                settled.settle(true);
            });
            gpu.waiter.watch(&gpu.poller, submission.clone(), vec![ticket]);
            let pass = if let End::Pass(pass) | End::Last(pass) = end { Some(pass.clone()) } else { None };
            let last = matches!(end, End::Last(_));
            self.waiting.push_back(Fence { pass, last, submitted, number: self.number, done });
        }
        Some(submission)
    }

    /// Replays that are done. A pass takes from its submission, or since the work before was done.
    pub(super) fn collect(&mut self, log: Option<&SpanLog>) -> Vec<Measured> {
        let mut result = Vec::new();
        while let Some(&done) = self.waiting.front().and_then(|fence| fence.done.get()) {
            let Some(fence) = self.waiting.pop_front() else { break };
            let started = self.last_done.map_or(fence.submitted, |last| last.max(fence.submitted));
            let milliseconds = done.saturating_duration_since(started).as_secs_f64() * 1e3;
            self.last_done = Some(done);
            let Some(pass) = fence.pass else { continue };
            if let Some(log) = log {
                let (stage, number) = (pass.stage, fence.number);
                log.push(WorkSpan { stage, start: started.min(done), end: done, number });
            }
            self.begun.push((pass, milliseconds));
            if fence.last {
                result.push(std::mem::take(&mut self.begun));
            }
        }
        result
    }
}
