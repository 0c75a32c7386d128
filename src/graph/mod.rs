//! The lazy graph: nodes, and programs cut out of it.

mod context;
mod memory;
mod node;
mod op;
mod program;
pub mod reference;
mod scopes;

pub(crate) use context::{Entered, at_callers_line, layer, model, opaque, refuse};
pub use context::{in_layer, in_module, in_segment, traced_like};
pub use memory::{HostValue, Memory, WeakMemory};
pub use node::{GradientRule, Node, NodeRef, Source};
pub use op::{
    Attention, AttentionPart, Binary, Contract, Dim, Labels, Op, ReduceOp, Runs, Search, Segments, Unary, View,
};
pub use program::{External, Inputs, Output, Program, ProgramNode, Slot, Tracer, op_name};
pub(crate) use scopes::Scopes;
pub use scopes::without_gradient;
