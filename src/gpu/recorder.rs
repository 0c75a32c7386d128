//! The order of work on a device: uploads, copies and replays are recorded one after the other and submitted together.

use std::collections::VecDeque;

use crate::error::Result;

use super::context::Gpu;
use super::counters::Made;
use super::health::Health;
use super::staging::{Full, Staging};

/// How many submissions may wait on the device before the host does: their command buffers take memory.
const MAX_QUEUED: usize = 32;

/// What is recorded but not yet submitted, and what is submitted but perhaps not yet done.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    encoder: Option<wgpu::CommandEncoder>,
    staging: Staging,
    queued: VecDeque<wgpu::SubmissionIndex>,
    /// Since the status was read last, something was recorded that can raise it.
    pub(super) may_raise: bool,
    /// Submissions that the device's tally has to count, modulo 2³².
    pub(super) tallied: u32,
}

impl Recorder {
    /// Where to record.
    pub(super) fn encoder(&mut self, gpu: &Gpu) -> &mut wgpu::CommandEncoder {
        self.encoder
            .get_or_insert_with(|| gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default()))
    }

    /// Records that `data` goes to `target` from byte `offset` (a multiple of 4) on; its last word is filled with
    /// zeros.
    pub(super) fn upload(&mut self, gpu: &Gpu, mut data: &[u8], target: &wgpu::Buffer, mut offset: u64) -> Result<()> {
        while !data.is_empty() {
            match self.staging.put(gpu, data) {
                Ok(staged) => {
                    let encoder = self.encoder(gpu);
                    encoder.copy_buffer_to_buffer(&staged.buffer, staged.offset, target, offset, staged.bytes);
                    data = &data[staged.taken..];
                    offset += staged.taken as u64;
                }
                Err(Full::Unsubmitted) if self.encoder.is_some() => {
                    self.submit(gpu);
                }
                Err(Full::Unsubmitted) => {
                    // All chunks are done or nearly so; their callbacks have not run yet.
                    gpu.poller.turn();
                    std::thread::yield_now();
                }
                Err(Full::Until(submission)) => gpu.poller.wait(Some(submission)),
                Err(Full::OutOfMemory) => {
                    gpu.poller.health.report("there is no memory left to bring data to it; use a smaller batch".into());
                }
            }
            gpu.check()?;
        }
        Ok(())
    }

    /// Clears what kernels may have raised so far.
    pub(super) fn forget_raised(&mut self, gpu: &Gpu) {
        if std::mem::take(&mut self.may_raise) {
            self.encoder(gpu).clear_buffer(&gpu.status, 0, Some(4));
        }
    }

    /// Submits what is recorded; `None` if nothing is. A device that refuses it is lost: whose work it was is not
    /// known, and whoever reads its results would take what was there before for them.
    pub(super) fn submit(&mut self, gpu: &Gpu) -> Option<wgpu::SubmissionIndex> {
        let mut encoder = self.encoder.take()?;
        if let Some(tally) = gpu.tally.get() {
            tally.record(&mut encoder);
            self.tallied = self.tallied.wrapping_add(1);
        }
        let reports = Health::reports_to_this_thread();
        let commands = encoder.finish();
        self.staging.close();
        gpu.count(Made::Submission);
        // which also runs the callbacks that are due
        let submission = gpu.poller.with_callbacks(|| gpu.queue.submit([commands]))?;
        if Health::reports_to_this_thread() != reports {
            gpu.poller.health.lose_by_report();
        }
        self.staging.recall(&submission);
        self.queued.push_back(submission.clone());
        if self.queued.len() > MAX_QUEUED {
            // several at once: each wait asks the driver, though they are mostly done long ago
            gpu.poller.wait(self.queued.drain(..MAX_QUEUED / 2).next_back());
        }
        Some(submission)
    }
}
