//! What tests make go wrong on purpose.

use crate::dtype::{DType, Scalar};
use crate::graph::Binary;
use crate::plan::{Body, Instr, InstrOp, Plan, Store, Tape};

/// Something that goes wrong on purpose, for tests of what happens then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The next allocation finds no memory.
    OutOfMemory,
    /// The device has only so many bytes, those in use and those kept for reuse included.
    MemoryLimit(u64),
    /// The next kernel to be compiled (but for routines) writes one element wrong: too large by one, or negated if it
    /// is a truth value.
    WrongKernel,
    /// The device goes away for good.
    Lost,
}

/// `plan` with the fault of [`Fault::WrongKernel`]; `None` if it has only routines.
pub(super) fn with_wrong_kernel(plan: &Plan) -> Option<Plan> {
    let mut plan = plan.clone();
    plan.kernels.iter_mut().any(|kernel| spoil(&mut kernel.body)).then_some(plan)
}

fn spoil(body: &mut Body) -> bool {
    match body {
        Body::Loop(kernel) => {
            let rank = kernel.axes.len();
            let storing = kernel.phases.iter_mut().find(|phase| !phase.stores.is_empty());
            storing.map(|phase| spoil_store(&mut phase.tape, &mut phase.stores[0], rank)).is_some()
        }
        Body::Contract(kernel) => {
            let rank = kernel.axes.len();
            kernel.stores.first_mut().map(|store| spoil_store(&mut kernel.epilogue, store, rank)).is_some()
        }
        Body::Routine(_) => false,
    }
}

/// Changes what is stored at the origin of the axes.
fn spoil_store(tape: &mut Tape, store: &mut Store, rank: usize) {
    let right = store.value;
    let dtype = tape.instrs[right].dtype;
    let mut push = |op, dtype| {
        tape.instrs.push(Instr { op, dtype });
        tape.instrs.len() - 1
    };
    let first = Scalar::new(DType::I32, store.index.eval(&vec![0; rank]) as f64);
    let here = push(InstrOp::Coord(store.index.clone()), DType::I32);
    let first = push(InstrOp::Const(first), DType::I32);
    let is_first = push(InstrOp::Binary(Binary::Eq, here, first), DType::Bool);
    let one = push(InstrOp::Const(Scalar::new(dtype, 1.0)), dtype);
    let op = if dtype == DType::Bool { Binary::Xor } else { Binary::Add };
    let wrong = push(InstrOp::Binary(op, right, one), dtype);
    store.value = push(InstrOp::Select(is_first, wrong, right), dtype);
}
