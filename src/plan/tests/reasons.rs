//! A plan says why values are stored and kernels apart.

use super::{GPU, Trial};
use crate::dtype::DType;
use crate::plan::{Plan, PlanOptions};

fn assert_says(lines: &[String], what: &str, plan: &Plan) {
    assert!(lines.iter().any(|line| line.contains(what)), "no {what:?} in {lines:#?}\n{}", plan.explanation());
}

#[test]
fn reasons_to_store_a_value() {
    let mut trial = Trial::new();
    let (x, w) = (trial.input([8, 6]), trial.input([6, 8]));
    let index = trial.values([3], DType::I32, vec![3.0, 0.0, 6.0]);
    let (dear, table) = (x.sin().exp().tanh(), x.cos() * 2.0);
    let outputs = [dear.sum_dim(0), dear.t().sum_dim(0), table.index_select(0, &index), x.exp().log().matmul(&w)];
    let plan = trial.check(&outputs, &GPU);
    assert_says(&plan.why_stored("tanh"), "used 2 times and too expensive to compute again (cost 28)", &plan);
    assert_says(&plan.why_stored("mul"), "a gather reads it", &plan);
    assert_says(&plan.why_stored("log"), "a contraction loads it again and again (cost 20 from 1 values)", &plan);
    assert_says(&plan.why_stored("contract"), "a kernel starts or ends with its op", &plan);
    let many: Vec<_> = (0..12).map(|_| trial.input([8, 6])).collect();
    let sum = many.iter().fold(x.clone(), |sum, input| sum + input);
    let plan = trial.check(&[sum], &GPU);
    assert_says(&plan.why_stored("add"), "would read 6 values", &plan);
    let plan = trial.check(&[x.exp()], &PlanOptions { fuse: false, ..PlanOptions::CPU });
    assert_says(&plan.why_stored("exp"), "it is an output", &plan);
}

#[test]
fn reasons_for_two_kernels() {
    let mut trial = Trial::new();
    let (x, w) = (trial.input([8, 6]), trial.input([6, 8]));
    let product = x.matmul(&w);
    let outputs = [product.matmul(&x).sum_dim(1), product.softmax(1).matmul(&x)];
    let plan = trial.check(&outputs, &GPU);
    assert_says(&plan.explain("contract", "contract"), "a kernel has one contraction", &plan);
    assert_says(&plan.explain("contract", "reduce_sum"), "a reduction needs all results", &plan);
}

#[test]
fn refusals_of_small_kernels_are_kept() {
    let mut trial = Trial::new();
    let inputs: Vec<_> = (0..6).map(|_| trial.input([4, 3])).collect();
    let outputs: Vec<_> = inputs.iter().map(|input| input.exp()).collect();
    // two buffers each: two of them fit into one kernel of five
    let plan = trial.check(&outputs, &PlanOptions::gpu(5));
    assert_eq!(plan.kernels.len(), 3, "{plan}");
    assert_says(&plan.explain("exp", "exp"), "one kernel may not name so many buffers", &plan);
}
