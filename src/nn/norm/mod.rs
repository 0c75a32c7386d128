//! Normalisation.

mod batch;
mod layer;
mod sample;

pub use batch::{BatchNorm, BatchNorm1d, BatchNorm2d, BatchNorm3d};
pub use layer::{LayerNorm, LayerNorm2d, RMSNorm};
pub use sample::{GroupNorm, InstanceNorm, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d};

/// Added to variances, as in PyTorch.
const EPSILON: f64 = 1e-5;
