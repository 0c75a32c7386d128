//! What devices can do, measured on them: whether a GPU is worth it, and for what.
//!
//! [`run`] measures the cases of some suites on some devices, one after the other, and gives a [`Report`] that says how
//! it was measured, can be kept, and compared with another ([`compare`]).
//!
//! **Invariant:** every figure was measured in the process that shows it, by kernels that training uses as well, and
//! says how it is known.

mod advice;
mod cases;
mod compare;
mod crossover;
mod crossovers;
mod growth;
mod method;
mod peak;
mod report;
mod run;
mod stages;
#[cfg(feature = "cli")]
mod words;

pub use advice::Advice;
pub use cases::onnx::OnnxModel;
pub use compare::{Change, Comparison, Gap, compare};
pub use crossover::{Crossing, Crossover, Family, crossover};
pub use crossovers::{CrossoverOptions, crossovers};
pub use growth::{Ended, Growth};
#[cfg(feature = "cli")]
pub(crate) use method::at;
pub use method::{Measured, Method};
pub use peak::{Peak, measure_peak};
pub use report::{DeviceReport, Report, Row, StageRow, Suite};
#[cfg(feature = "cli")]
pub(crate) use run::opened;
pub use run::{Options, Progress, Tell, names, run, run_onnx, selectors};
#[cfg(feature = "cli")]
pub(crate) use words::{number, seconds};

pub use crate::sensors::Machine;
