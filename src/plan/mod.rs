//! From a graph to a plan: simplify, fuse, order, place in memory. A plan is printable data that names no GPU type.

pub mod index;
#[cfg(test)]
pub(crate) mod interpret;
mod kernel;

pub use index::{Atom, Cond, Ix};
pub use kernel::*;
