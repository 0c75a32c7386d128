//! Normalisation.

mod batch;
mod group;
mod instance;
mod layer;

pub use batch::{BatchNorm, BatchNorm1d, BatchNorm2d, BatchNorm3d};
pub use group::GroupNorm;
pub use instance::{InstanceNorm, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d, InstanceStatistics};
pub use layer::{LayerNorm, LayerNorm2d, RMSNorm};

/// Added to variances, as in PyTorch.
const EPSILON: f64 = 1e-5;

/// Weight of the newest batch in the running statistics, as in PyTorch.
const MOMENTUM: f64 = 0.1;
