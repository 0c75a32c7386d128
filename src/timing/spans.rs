//! When pieces of work were done, for pictures of the last steps.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::stage::Stage;

/// Pieces that are kept until somebody takes them.
const MOST: usize = 4096;

/// A piece of work of a device, or an upload to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkSpan {
    pub(crate) stage: Stage,
    pub(crate) start: Instant,
    pub(crate) end: Instant,
    /// The number that was current when it was handed over.
    pub(crate) number: u64,
}

/// The last pieces of work of what was told to note them.
#[derive(Debug, Default)]
pub(crate) struct SpanLog {
    number: AtomicU64,
    spans: Mutex<VecDeque<WorkSpan>>,
}

impl SpanLog {
    /// What is handed over from now on has this number.
    pub(crate) fn begin(&self, number: u64) {
        self.number.store(number, Ordering::Relaxed);
    }

    pub(crate) fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    /// Notes a piece of work, and forgets the oldest if nobody has asked for long.
    pub(crate) fn push(&self, span: WorkSpan) {
        let mut spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        if spans.len() == MOST {
            spans.pop_front();
        }
        spans.push_back(span);
    }

    /// What was noted since the last call.
    pub(crate) fn take(&self) -> VecDeque<WorkSpan> {
        std::mem::take(&mut *self.spans.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
