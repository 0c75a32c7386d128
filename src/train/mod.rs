//! Training: settings, the loop, and what it reports. Knows no front end: a listener gets [`Event`]s, a [`Control`]
//! steers.

mod clock;
mod config;
mod control;
mod environment;
mod event;
mod folder;
mod learner;
mod metrics;
mod optimizer;
mod rates;
mod trainer;

pub use clock::StageReport;
pub use config::{Config, ModelName, OptimizerName, Precision};
pub use control::Control;
pub use environment::Environment;
pub use event::{Event, MemoryNeed, Start, StepMetrics, Summary, TestMetrics};
pub use trainer::Trainer;
