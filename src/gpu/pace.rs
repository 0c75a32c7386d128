//! How much may wait on a GPU that also draws what somebody is looking at.
//!
//! A compositor's frames queue behind our submissions: what is queued must be short, or windows stutter.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::context::Gpu;

/// Longest submission beside a display: half of a frame at 60 Hz.
pub(super) const DISPLAY_MILLISECONDS: f64 = 8.0;
/// So many submissions may wait then.
const DISPLAY_SUBMISSIONS: usize = 2;

/// The submissions that may still be waiting.
#[derive(Debug, Default)]
pub(super) struct Pace {
    beside_display: AtomicBool,
    waiting: Mutex<VecDeque<wgpu::SubmissionIndex>>,
}

impl Pace {
    /// From now on the GPU draws a window as well, or does not any more.
    pub(super) fn set_beside_display(&self, on: bool) {
        self.beside_display.store(on, Ordering::Relaxed);
    }

    pub(super) fn is_beside_display(&self) -> bool {
        self.beside_display.load(Ordering::Relaxed)
    }

    /// Beside a display: waits until there is room for what was just submitted and one more.
    pub(super) fn submitted(&self, gpu: &Gpu, submission: &wgpu::SubmissionIndex) {
        if !self.is_beside_display() {
            return;
        }
        let oldest = {
            let mut waiting = self.waiting.lock();
            waiting.push_back(submission.clone());
            if waiting.len() < DISPLAY_SUBMISSIONS { None } else { waiting.pop_front() }
        };
        if let Some(oldest) = oldest {
            gpu.poller.wait(Some(oldest));
        }
    }
}
