//! From a graph to a plan: simplify, fuse, order, place in memory. A plan is printable data that names no GPU type.

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
pub use kernel::{
    Body, Buffer, BufferId, ContractKernel, Instr, InstrOp, Kernel, Level, LoopKernel, Phase, Place, Plan, Store, Tape,
    ValueId,
};
pub use options::PlanOptions;
pub use routine::{Routine, RoutineKind, Span};

#[cfg(test)]
mod tests;
