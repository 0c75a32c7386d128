//! From a graph to a plan: simplify, fuse, order, place in memory. A plan is printable data that names no GPU type.
//!
//! ```
//! use brasa::runtime::Step;
//! use brasa::{DType, Device};
//!
//! let mut step = Step::new(&Device::cpu(), |inputs| vec![(&inputs[0] * 2.0 + 1.0).relu().sum()])?;
//! let plan = step.prepare(&[([1000].into(), DType::F32)])?.plan;
//! assert_eq!(plan.kernels.len(), 1);
//! println!("{plan}");
//! # Ok::<(), brasa::Error>(())
//! ```

mod axes;
mod build;
mod compared;
mod copies;
mod describe;
mod emit;
mod fuse;
pub mod index;
#[doc(hidden)]
pub mod interpret;
mod kernel;
mod layout;
mod memory;
mod options;
mod order;
mod overwrite;
mod place;
mod reuse;
mod routine;
mod simplify;
mod split;
mod store;
mod text;
mod visit;
mod whole;

pub use build::plan;
pub use index::{Atom, Cond, Ix};
pub(crate) use kernel::shares_of_sum;
pub use kernel::{
    Body, Buffer, BufferId, ContractKernel, Instr, InstrOp, Kernel, Level, LoopKernel, Phase, Place, Plan, Store, Tape,
    ValueId,
};
pub use options::PlanOptions;
pub use routine::{Routine, RoutineKind, Span};
pub(crate) use simplify::fold;

#[cfg(test)]
mod tests;
