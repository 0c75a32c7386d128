//! How a front end steers a run.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::rates::checked_factor;

/// A handle to a run that is going on, shared between threads. What is asked for happens after the step that is under
/// way, or after the batch of the evaluation behind an epoch. An evaluation that was asked for goes on to its end, unless
/// the run is to stop.
#[derive(Clone, Debug, Default)]
pub struct Control {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    pause: AtomicBool,
    save: AtomicBool,
    /// Requests to save that were carried out.
    saves: AtomicU64,
    evaluate: AtomicBool,
    /// The bits of a factor for the learning rate, and 0, which is none of them, if none was asked for.
    learning_rate_factor: AtomicU64,
    /// Held for a moment by whoever asked, so that a run that is about to wait does not miss it.
    asking: Mutex<()>,
    asked: Condvar,
}

impl Shared {
    /// Wakes a run that waits.
    fn wake(&self) {
        drop(self.asking.lock().unwrap_or_else(PoisonError::into_inner));
        self.asked.notify_all();
    }
}

impl Control {
    /// Asks the run to end, and to save. A paused run ends, too.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.wake();
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
        self.shared.wake();
    }

    /// True while the run has been asked to wait.
    pub fn pausing(&self) -> bool {
        self.shared.pause.load(Ordering::Relaxed)
    }

    /// Asks for a checkpoint.
    pub fn save(&self) {
        self.shared.save.store(true, Ordering::Relaxed);
        self.shared.wake();
    }

    /// How often the run has done what [`save`](Self::save) asks for; a failure is told by an event, and counts.
    pub fn saves(&self) -> u64 {
        self.shared.saves.load(Ordering::Acquire)
    }

    /// Asks for an evaluation, beside those after each epoch; one of these that is under way is what is asked for.
    pub fn evaluate(&self) {
        self.shared.evaluate.store(true, Ordering::Relaxed);
        self.shared.wake();
    }

    /// From the next step on, learning rates are those of the schedule times `factor`.
    ///
    /// # Panics
    /// If `factor` is not a positive number.
    #[track_caller]
    pub fn set_learning_rate_factor(&self, factor: f64) {
        self.shared.learning_rate_factor.store(checked_factor(factor).to_bits(), Ordering::Relaxed);
        self.shared.wake();
    }

    /// True if something is asked of a run.
    pub(super) fn is_heard(&self) -> bool {
        self.pausing() || self.is_asked()
    }

    /// True if it is anything but a pause.
    fn is_asked(&self) -> bool {
        let Shared { save, evaluate, learning_rate_factor, .. } = &*self.shared;
        let once = save.load(Ordering::Relaxed) || evaluate.load(Ordering::Relaxed);
        once || learning_rate_factor.load(Ordering::Relaxed) != 0 || self.stopping()
    }

    /// Waits while a run is to pause and nothing else is asked for, at most so long.
    pub(super) fn wait(&self, most: Duration) {
        let asking = self.shared.asking.lock().unwrap_or_else(PoisonError::into_inner);
        if self.pausing() && !self.is_asked() {
            drop(self.shared.asked.wait_timeout(asking, most));
        }
    }

    /// Whether a checkpoint was asked for since the last call.
    pub(super) fn take_save(&self) -> bool {
        self.shared.save.swap(false, Ordering::Relaxed)
    }

    /// A request to save was carried out.
    pub(super) fn note_save(&self) {
        self.shared.saves.fetch_add(1, Ordering::Release);
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
