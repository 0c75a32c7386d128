//! How a front end steers a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A handle to a run that is going on, shared between threads.
#[derive(Clone, Debug, Default)]
pub struct Control {
    stop: Arc<AtomicBool>,
}

impl Control {
    /// Asks the run to end after the step it is in, and to save.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// True once the run has been asked to end.
    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
