//! How a run is right now.

use serde::{Deserialize, Serialize};

use crate::stage::Stage;
use crate::train::StageReport;

/// What a run is doing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    /// Training or evaluating.
    Running,
    /// Waiting for its user.
    Paused,
    /// Over, all epochs done, or ended by a callback.
    Completed,
    /// Ended by its user; it can go on.
    Stopped,
    /// Ended by an error; it can go on from its last checkpoint.
    Failed,
}

/// How a run is, as of a moment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// What it is doing.
    pub state: RunState,
    /// Why it ended, or what went wrong.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
    /// Things that should be known, newest last.
    #[serde(default)]
    pub notices: Vec<String>,
    /// Training steps done.
    pub step: u64,
    /// Of so many.
    pub steps: u64,
    /// The epoch under way, from 1.
    pub epoch: usize,
    /// Seconds of training and evaluation so far.
    pub elapsed_s: f64,
    /// Seconds to go, estimated.
    pub left_s: f64,
    /// What the schedule's learning rate is multiplied by, by request.
    pub learning_rate_factor: f64,
    /// Bytes in use on the device, and the most there were.
    pub memory_bytes: u64,
    /// The most bytes that were in use at once.
    pub memory_peak_bytes: u64,
    /// The ten stages, in order, since the run was started.
    pub stages: Vec<StageReport>,
    /// The last steps in time.
    pub timeline: Timeline,
    /// When this was written: milliseconds since 1970.
    pub written_unix_ms: u64,
    /// The process that trains.
    pub process: u32,
}

/// The last steps of a run, in time.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Timeline {
    /// What worked beside each other: `loader 1` and so on, the threads that make samples, and `batches`, which puts
    /// them together (`evaluation loader 1` and `evaluation batches` in an evaluation), `upload`, the device by its
    /// selector, and `host`.
    pub lanes: Vec<Lane>,
}

/// Something that does one thing after the other.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Lane {
    /// Its name.
    pub name: String,
    /// What it did, in order.
    pub spans: Vec<Span>,
}

/// A piece of work.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Span {
    /// What for.
    pub stage: Stage,
    /// Milliseconds from the timeline's zero to its beginning.
    pub start_ms: f64,
    /// And to its end.
    pub end_ms: f64,
    /// The training step it belongs to, or the batch, of all evaluations: each counted from 1 in this process.
    pub step: u64,
}
