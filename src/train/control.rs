//! How a front end steers a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A handle to a run that is going on, shared between threads. What is asked for happens after the step that is under way.
#[derive(Clone, Debug, Default)]
pub struct Control {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    pause: AtomicBool,
    save: AtomicBool,
    evaluate: AtomicBool,
    /// The bits of a factor for the learning rate, and 0, which is none of them, if none was asked for.
    learning_rate_factor: AtomicU64,
}

impl Control {
    /// Asks the run to end, and to save. A paused run ends, too.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    /// True once the run has been asked to end.
    pub fn stopping(&self) -> bool {
        self.shared.stop.load(Ordering::Relaxed)
    }

    /// Asks the run to wait until it is [resumed](Self::resume).
    pub fn pause(&self) {
        self.shared.pause.store(true, Ordering::Relaxed);
    }

    /// Lets a paused run go on.
    pub fn resume(&self) {
        self.shared.pause.store(false, Ordering::Relaxed);
    }

    /// True while the run has been asked to wait.
    pub fn pausing(&self) -> bool {
        self.shared.pause.load(Ordering::Relaxed)
    }

    /// Asks for a checkpoint.
    pub fn save(&self) {
        self.shared.save.store(true, Ordering::Relaxed);
    }

    /// Asks for an evaluation, beside those after each epoch.
    pub fn evaluate(&self) {
        self.shared.evaluate.store(true, Ordering::Relaxed);
    }

    /// From the next step on, learning rates are those of the schedule times `factor`.
    ///
    /// # Panics
    /// If `factor` is not a positive number.
    #[track_caller]
    pub fn set_learning_rate_factor(&self, factor: f64) {
        assert!(factor.is_finite() && factor > 0.0, "a learning rate factor is a positive number, not {factor}");
        self.shared.learning_rate_factor.store(factor.to_bits(), Ordering::Relaxed);
    }

    /// Whether a checkpoint was asked for since the last call.
    pub(super) fn take_save(&self) -> bool {
        self.shared.save.swap(false, Ordering::Relaxed)
    }

    /// Whether an evaluation was asked for since the last call.
    pub(super) fn take_evaluate(&self) -> bool {
        self.shared.evaluate.swap(false, Ordering::Relaxed)
    }

    /// The factor that was asked for since the last call.
    pub(super) fn take_learning_rate_factor(&self) -> Option<f64> {
        let bits = self.shared.learning_rate_factor.swap(0, Ordering::Relaxed);
        (bits != 0).then(|| f64::from_bits(bits))
    }
}
