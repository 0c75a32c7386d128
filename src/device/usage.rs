//! How much memory and how many objects a device holds.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that brasa holds on a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryUse {
    /// Now.
    pub live_bytes: u64,
    /// The most so far.
    pub peak_bytes: u64,
}

/// How many objects were made on a device since it was opened; all zero on the CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Buffers, those for staging and reading included.
    pub buffers: u64,
    /// Compiled kernels.
    pub pipelines: u64,
    /// Bind groups.
    pub bind_groups: u64,
    /// Submissions.
    pub submissions: u64,
}

/// Live and peak bytes, kept by those who allocate and drop.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    live: AtomicU64,
    peak: AtomicU64,
}

impl Ledger {
    pub(super) fn add(&self, bytes: u64) {
        let live = self.live.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(live, Ordering::Relaxed);
    }

    pub(super) fn remove(&self, bytes: u64) {
        self.live.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> MemoryUse {
        MemoryUse { live_bytes: self.live.load(Ordering::Relaxed), peak_bytes: self.peak.load(Ordering::Relaxed) }
    }
}
