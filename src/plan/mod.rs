//! From a graph to a plan: simplify, fuse, order, place in memory. A plan is printable data that names no GPU type.

pub mod index;
mod kernel;

pub use index::{Atom, Cond, Ix};
pub use kernel::*;
