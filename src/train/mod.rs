//! Training: settings, the loop, and what it reports. Knows no front end: a listener gets [`Event`]s, a [`Control`]
//! steers.

mod clock;
mod config;
mod control;
mod event;
mod folder;

pub use clock::{HOST, Source, StageClock, StageReport};
pub use config::{Config, DatasetName, ModelName, OptimizerName};
pub use control::Control;
pub use event::{Event, StepMetrics, Summary};
pub use folder::{RunFolder, write_whole};
