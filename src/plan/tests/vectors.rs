//! Products of large matrices and vectors.

use crate::autodiff::grad;
use crate::ops::conv::ConvOptions;
use crate::plan::{Body, PlanOptions};

use super::{GPU, Trial};

#[test]
fn a_matrix_times_a_vector_is_a_reduction() {
    let options = PlanOptions { reduced_matrix: 64 * 64, ..GPU };
    let mut trial = Trial::new();
    let (x, w, b) = (trial.input([1, 70]), trial.input([65, 70]), trial.input([65]));
    let y = (x.matmul(&w.t()) + &b).relu();
    let outputs = [
        vec![y.clone()],
        grad(&(&y * &y).sum(), &[&x]),
        vec![w.matmul(&x.t())],
        vec![trial.input([3, 1, 64]).matmul(&trial.input([3, 64, 66]))],
        vec![trial.input([3, 66, 64]).matmul(&trial.input([3, 64, 1]))],
    ];
    for outputs in &outputs {
        let plan = trial.check(outputs, &options);
        assert!(!plan.kernels.iter().any(|kernel| matches!(kernel.body, Body::Contract(_))), "{plan}");
    }
    let plan = trial.check(&outputs[0], &options);
    assert_eq!(plan.kernels.len(), 1, "bias and relu ride on it\n{plan}");
    // two rows, a small matrix, windows
    let others = [
        trial.input([2, 70]).matmul(&w.t()),
        trial.input([1, 63]).matmul(&trial.input([63, 70])),
        trial.input([1, 8, 10, 10]).conv2d(&trial.input([1, 8, 3, 3]), None, &ConvOptions::default()),
    ];
    for other in others {
        let plan = trial.check(&[other], &options);
        assert!(plan.kernels.iter().any(|kernel| matches!(kernel.body, Body::Contract(_))), "{plan}");
    }
}
