//! The ten stages of training, in the order data passes through them.

use std::cell::Cell;
use std::fmt;

/// Where in a training step a piece of work belongs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Read and decode samples (disk, CPU).
    Load,
    /// Transform samples.
    Augment,
    /// Put samples together into one tensor.
    Batch,
    /// Copy a batch to the device.
    Upload,
    /// Run the model.
    Forward,
    /// Compare with the targets.
    Loss,
    /// Gradients.
    Backward,
    /// The optimizer's step.
    Update,
    /// Validation: forward only.
    Evaluate,
    /// Metrics, files, progress.
    Log,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Self; 10] = [
        Self::Load,
        Self::Augment,
        Self::Batch,
        Self::Upload,
        Self::Forward,
        Self::Loss,
        Self::Backward,
        Self::Update,
        Self::Evaluate,
        Self::Log,
    ];

    /// The lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Augment => "augment",
            Self::Batch => "batch",
            Self::Upload => "upload",
            Self::Forward => "forward",
            Self::Loss => "loss",
            Self::Backward => "backward",
            Self::Update => "update",
            Self::Evaluate => "evaluate",
            Self::Log => "log",
        }
    }

    /// The stage that nodes traced on this thread belong to now; `Forward` unless a scope says otherwise.
    pub fn current() -> Self {
        CURRENT.get()
    }

    /// Runs `f` with this as the current stage.
    pub fn scope<T>(self, f: impl FnOnce() -> T) -> T {
        struct Restore(Stage);
        impl Drop for Restore {
            fn drop(&mut self) {
                CURRENT.set(self.0);
            }
        }
        let _restore = Restore(CURRENT.replace(self));
        f()
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

thread_local! {
    static CURRENT: Cell<Stage> = const { Cell::new(Stage::Forward) };
}
