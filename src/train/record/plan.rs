//! A training step as kernels.

use serde::{Deserialize, Serialize};

use crate::dtype::DType;
use crate::matmul_precision::MatmulPrecision;
use crate::stage::Stage;
use crate::timing::TimeSource;

/// The plan of a run's training step.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PlanRecord {
    /// The kernels in the order in which they run.
    pub kernels: Vec<KernelRecord>,
    /// Bytes of memory that the plan takes for itself.
    pub bytes: u64,
}

/// A kernel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KernelRecord {
    /// `family.op[shape]`.
    pub label: String,
    /// The stage it belongs to.
    pub stage: Stage,
    /// Its wave: those of one do not depend on each other.
    pub wave: usize,
    /// The modules whose work it does, by path.
    pub modules: Vec<String>,
    /// Kernels that must have run before, by number, those of this step only.
    pub after: Vec<usize>,
    /// What it writes: element type and shape of each value.
    pub writes: Vec<String>,
    /// Arithmetic operations.
    pub flops: u64,
    /// Of a contraction, the type of what it multiplies, and how exactly it does so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub products: Option<(DType, MatmulPrecision)>,
    /// Bytes read and written once each.
    pub bytes: u64,
    /// Its WGSL text; empty where it cannot be written.
    pub wgsl: String,
    /// Mean time of one launch, once it was measured.
    pub milliseconds: Option<f64>,
    /// How that is known.
    pub source: Option<TimeSource>,
}
