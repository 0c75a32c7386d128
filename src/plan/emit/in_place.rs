//! Kernels that update memory they also read.

use crate::plan::kernel::{Body, BufferId, InstrOp, Level, Store, Tape};

/// True if every buffer that is both read and written is read only at the point that is about to be written.
pub(super) fn updates_in_place_safely(body: &Body) -> bool {
    let (tapes, stores): (Vec<&Tape>, Vec<&Store>) = match body {
        Body::Loop(kernel) => (
            kernel.phases.iter().map(|phase| &phase.tape).collect(),
            kernel.phases.iter().flat_map(|p| &p.stores).collect(),
        ),
        Body::Contract(kernel) => {
            (vec![&kernel.lhs.0, &kernel.rhs.0, &kernel.epilogue], kernel.stores.iter().collect())
        }
        Body::Routine(_) => return true, // it is only built where it overwrites nothing it reads
    };
    let in_place_allowed = |tape: &Tape, store: &Store| match body {
        Body::Loop(kernel) => kernel.phases.iter().any(|phase| {
            std::ptr::eq(&phase.tape, tape) && phase.level == Level::Outer && phase.stores.contains(store)
        }),
        Body::Contract(kernel) => std::ptr::eq(&kernel.epilogue, tape),
        Body::Routine(_) => false,
    };
    let mut written: Vec<BufferId> = stores.iter().map(|store| store.buffer).collect();
    written.sort_unstable();
    written.dedup();
    let single = |buffer: BufferId| stores.iter().filter(|store| store.buffer == buffer).count() == 1;
    tapes.iter().all(|tape| {
        tape.instrs.iter().all(|instr| match &instr.op {
            InstrOp::Load { buffer, index, valid } if written.contains(buffer) => {
                let store = stores.iter().find(|store| store.buffer == *buffer).expect("it is written");
                single(*buffer) && valid.is_empty() && *index == store.index && in_place_allowed(tape, store)
            }
            InstrOp::Gather { buffer, .. } => !written.contains(buffer),
            _ => true,
        })
    })
}
