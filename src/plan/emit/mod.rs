//! From a group of nodes to one kernel's code.
//!
//! Everything is pulled from the outputs: a node is emitted at coordinates (index expressions over the kernel's axes);
//! movement ops only change the coordinates, stored nodes become loads, everything else becomes an instruction.

mod contract;
mod coords;
mod home;
mod in_place;
mod loops;
mod runs;
mod writer;

use crate::graph::{Op, Program};
use crate::matmul_precision::MatmulPrecision;

use super::kernel::Body;
use super::routine;

pub(super) use home::Home;
pub(super) use runs::Runs;

/// Why some nodes cannot be one kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Refusal {
    /// A value computed in the kernel would be needed at another point than where it is.
    OtherPoint,
    /// The iteration spaces differ.
    OtherSpace,
    /// An output would have to be updated in place, but is read at other points.
    InPlace,
    /// A value that is compared with its own maximum would be computed again instead of read.
    Compared,
    /// The code would be too long.
    TooLong,
}

/// What the emitter needs to know of the plan so far.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub program: &'a Program,
    /// For each node, its place in memory if it has one.
    pub homes: &'a [Option<Home>],
    /// For each node, whether it must be read from memory (`compared.rs`).
    pub compared: &'a [bool],
    /// Of contractions of f32.
    pub precision: MatmulPrecision,
}

/// The kernel that computes `members` (stored nodes, in topological order) and writes those in `stores`.
pub(super) fn build(context: Context<'_>, members: &[usize], stores: &[usize]) -> Result<Body, Refusal> {
    let program = context.program;
    if let Some(&routine) = members.iter().find(|&&node| routine::is_routine(&program.nodes[node].op)) {
        if members.len() > 1 {
            return Err(Refusal::OtherSpace);
        }
        return routine::build(context, routine).map(Body::Routine).ok_or(Refusal::InPlace);
    }
    let contract = members.iter().copied().find(|&node| matches!(program.nodes[node].op, Op::Contract(_)));
    let reduces: Vec<usize> =
        members.iter().copied().filter(|&node| matches!(program.nodes[node].op, Op::Reduce { .. })).collect();
    let body = match contract {
        Some(_) if !reduces.is_empty() => return Err(Refusal::OtherSpace),
        Some(contract) => contract::build_contract(context, contract, members, stores)?,
        None if reduces.is_empty() => loops::build_map(context, members, stores)?,
        None => loops::build_rows(context, &reduces, members, stores)?,
    };
    if in_place::updates_in_place_safely(&body) { Ok(body) } else { Err(Refusal::InPlace) }
}
