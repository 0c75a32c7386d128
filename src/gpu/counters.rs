//! How many objects were made on a device.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::device::Counters;

/// Running totals.
#[derive(Debug, Default)]
pub(super) struct Cells {
    buffers: AtomicU64,
    pipelines: AtomicU64,
    bind_groups: AtomicU64,
    submissions: AtomicU64,
}

/// What is counted.
#[derive(Clone, Copy)]
pub(super) enum Made {
    Buffer,
    Pipeline,
    BindGroup,
    Submission,
}

impl Cells {
    /// Counts one more.
    pub(super) fn count(&self, made: Made) {
        let cell = match made {
            Made::Buffer => &self.buffers,
            Made::Pipeline => &self.pipelines,
            Made::BindGroup => &self.bind_groups,
            Made::Submission => &self.submissions,
        };
        cell.fetch_add(1, Ordering::Relaxed);
    }

    /// The totals now.
    pub(super) fn get(&self) -> Counters {
        Counters {
            buffers: self.buffers.load(Ordering::Relaxed),
            pipelines: self.pipelines.load(Ordering::Relaxed),
            bind_groups: self.bind_groups.load(Ordering::Relaxed),
            submissions: self.submissions.load(Ordering::Relaxed),
        }
    }
}
