//! The lazy graph: nodes, and programs cut out of it.

mod node;
mod op;
mod program;
pub mod reference;

pub use node::{
    GradientRule, HostValue, Memory, Node, NodeRef, Source, WeakMemory, in_layer, in_module, in_segment, traced_like,
    without_gradient,
};
pub(crate) use node::{at_callers_line, opaque};
pub use op::{Binary, Contract, Dim, Op, ReduceOp, Unary, View};
pub use program::{External, Output, Program, ProgramNode, Slot, Tracer, op_name};
