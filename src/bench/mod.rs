//! What a device can do, measured on it.
//!
//! **Invariant:** every figure was measured in the process that shows it, by kernels that training uses as well.

mod peak;

pub use peak::{Peak, measure_peak};
