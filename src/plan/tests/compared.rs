//! What is compared with its own maximum is read from memory on both sides.

use super::Trial;
use crate::autodiff;
use crate::graph::Binary;
use crate::plan::{InstrOp, Plan, Tape, ValueId};

/// True if the value depends on arithmetic in its own tape.
fn computed(tape: &Tape, value: ValueId) -> bool {
    match tape.instrs[value].op {
        InstrOp::Binary(Binary::Add | Binary::Sub | Binary::Mul, ..) => tape.instrs[value].dtype.is_float(),
        InstrOp::Select(_, a, b) => computed(tape, a) || computed(tape, b),
        InstrOp::Cast(a) => computed(tape, a),
        _ => false,
    }
}

/// Checks that no computed value is compared with one that was reduced or loaded.
fn assert_read_back(plan: &Plan) {
    for tape in plan.kernels.iter().flat_map(|kernel| kernel.body.tapes()) {
        let known = |value: ValueId| matches!(tape.instrs[value].op, InstrOp::Reduced(_) | InstrOp::Load { .. });
        for instr in &tape.instrs {
            if let InstrOp::Binary(Binary::Eq, a, b) = instr.op {
                assert!(!(computed(tape, a) && known(b) || computed(tape, b) && known(a)), "{plan}");
            }
        }
    }
}

#[test]
fn argmax_of_a_computed_value() {
    let mut trial = Trial::new();
    let (x, a, b) = (trial.input([6, 5]), trial.input([5]), trial.input([6, 5]));
    let y = &x * &a + &b;
    let plan = trial.check_all(&[y.argmax(1)]);
    assert_read_back(&plan);
    assert!(plan.why_stored("add").iter().any(|line| line.contains("compared with its own maximum")), "{plan}");
    // also where the value is wanted for itself, and after more work over the same rows
    assert_read_back(&trial.check_all(&[y.argmax(1), y.clone(), (&y * 2.0).softmax(1)]));
    assert_read_back(&trial.check_all(&[y.to_dtype(crate::DType::F16).argmax(0)]));
}

#[test]
fn argmax_of_what_lies_in_memory_is_one_kernel() {
    let mut trial = Trial::new();
    let x = trial.input([6, 5]);
    let plan = trial.check_all(&[x.argmax(1), x.relu().argmin(1)]);
    assert_eq!(plan.kernels.len(), 1, "{plan}");
    let w = trial.input([5, 4]);
    let plan = trial.check_all(&[(x.matmul(&w) + 1.0).argmax(1)]);
    assert_eq!(plan.kernels.len(), 2, "{plan}");
}

#[test]
fn places_of_cumulative_extrema() {
    let mut trial = Trial::new();
    for length in [40, 5003] {
        let x = &trial.input([length]) * 0.3 + 0.1;
        for x in [x.to_dtype(crate::DType::F16), x] {
            let plan = trial.check(&[x.cummax(0).1, x.cummin(0).1], &super::GPU);
            assert_read_back(&plan);
            assert!(plan.stored.iter().any(|(_, why)| why.contains("compared with its own maximum")), "{plan}");
        }
    }
}

#[test]
fn gradients_of_maxima() {
    let mut trial = Trial::new();
    let (x, a) = (trial.input([2, 3, 6, 5]), trial.input([3, 1, 1]));
    let y = (&x * &a + 0.5).relu().max_pool2d(3, 2, 1);
    let z = (&x * &a - 0.5).max_dim(2);
    let plan = trial.check_all(&autodiff::grad(&((&y * &y).sum() + (&z * &z).sum()), &[&x, &a]));
    assert_read_back(&plan);
}
