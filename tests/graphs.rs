//! Random graphs on every device, captured and not, against the f64 reference. The planner's own tests run the same
//! graphs through its interpreter; here it is the executors' turn.

mod common;

use std::collections::HashMap;
use std::sync::Arc;

use brasa::autodiff::grad;
use brasa::graph::{NodeRef, reference};
use brasa::nn::{Dropout, Module};
use brasa::runtime::{Step, Var, checkpoint, seed};
use brasa::{DType, Device, Tensor};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use common::{assert_close, devices, fresh_devices, values};

mod api {
    pub(super) use brasa::{DType, Tensor};
}
#[path = "common/graphs.rs"]
mod random;

/// Values of the inputs: multiples of 1/64, exact in f16 too.
fn samples(shape: &[usize], number: u64) -> Vec<f32> {
    let values = values(number, shape.iter().product(), -1.0, 1.0);
    values.into_iter().map(|value| ((value * 64.0).round() / 64.0) as f32).collect()
}

fn inputs(device: &Device) -> Vec<Tensor> {
    let shapes = random::INPUTS.iter().zip(1..);
    let tensor = |(shape, number): (&&[usize], u64)| Tensor::from_slice(&samples(shape, number), *shape, device);
    shapes.map(|pair| tensor(pair).expect("memory")).collect()
}

/// The outputs of a random graph and the gradients of their sum.
fn outputs(choices: &[random::Choice], inputs: &[Tensor], gradients: bool) -> Vec<Tensor> {
    let mut outputs = random::build(choices, inputs);
    let floats: Vec<Tensor> = outputs.iter().filter(|output| output.dtype() == DType::F32).map(Tensor::sum).collect();
    if gradients && let Some(sum) = floats.into_iter().reduce(|a, b| a + b) {
        let wrt: Vec<&Tensor> = inputs.iter().collect();
        outputs.extend(grad(&sum, &wrt));
    }
    outputs
}

fn doubles(tensor: &Tensor) -> Vec<f64> {
    let bytes = pollster::block_on(tensor.to_bytes()).expect("bytes");
    reference::decode(tensor.dtype(), &bytes)
}

/// How far f32 may be from f64 over two dozen ops on values of a few units.
///
/// Sums here have at most 4000 terms (relative 4000^½ · 6e-8), `exp` of values up to some units multiplies absolute errors
/// by a hundred, and f16 rounds at 5e-4, where f32's and f64's value may fall to different sides.
fn tolerance(choices: &[random::Choice]) -> f64 {
    let rounds_to_half = choices.iter().any(|choice| choice[0] % 26 == 24);
    if rounds_to_half { 1e-2 } else { 2e-3 }
}

/// Whether a small change of an input, of the size that rounding may make, leaves all values about where they are:
/// without that (a comparison or a maximum decided by the last bit) devices need not agree.
fn is_steady(nodes: &[NodeRef], inputs: &[Tensor], expected: &[Vec<f64>], allowed: f64) -> bool {
    [1e-6, -1e-6].into_iter().all(|change| {
        let moved = inputs.iter().zip(1..).map(|(input, number)| {
            let direction = values(900 + number, input.numel(), -1.0, 1.0);
            let start = doubles(input);
            (input.node().id, start.iter().zip(direction).map(|(value, d)| value + change * d).collect())
        });
        let moved: HashMap<u64, Vec<f64>> = moved.collect();
        let values = reference::evaluate(nodes, &moved);
        values
            .iter()
            .flatten()
            .zip(expected.iter().flatten())
            .all(|(a, b)| (a - b).abs() <= allowed * (1.0 + b.abs()) / 2.0 || a.is_nan() && b.is_nan() || a == b)
    })
}

fn check(choices: &[random::Choice], device: &Device, gradients: bool) -> Result<(), TestCaseError> {
    let leaves = inputs(device);
    let plain = outputs(choices, &leaves, gradients);
    let nodes: Vec<NodeRef> = plain.iter().map(|output| output.node().clone()).collect();
    let expected = reference::evaluate(&nodes, &HashMap::new());
    let allowed = tolerance(choices);
    if !is_steady(&nodes, &leaves, &expected, allowed) {
        return Err(TestCaseError::reject("decided by rounding"));
    }
    let choices = choices.to_vec();
    let mut step = Step::new(device, move |inputs| outputs(&choices, inputs, gradients)).expect("a step");
    let captured = step.run(&leaves).expect("a run");
    step.run(&leaves).expect("a second run");
    brasa::runtime::realize(&nodes).expect("values");
    for (how, got) in [("captured", captured), ("not captured", plain)] {
        for (number, (got, expected)) in got.iter().zip(&expected).enumerate() {
            let got = doubles(got);
            prop_assert_eq!(got.len(), expected.len());
            for (index, (a, b)) in got.iter().zip(expected).enumerate() {
                let same = a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= allowed * (1.0 + b.abs());
                // f32 overflows where f64 does not
                let same = same || !a.is_finite() && b.abs() > f64::from(f32::MAX);
                prop_assert!(same, "{how}, output {number} at {index}: {a} instead of {b} on {device:?}");
            }
        }
    }
    Ok(())
}

fn sweep(gradients: bool, cases: u32, length: usize) {
    for device in devices() {
        let config = ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 400, ..Default::default() };
        let mut runner = TestRunner::new(config);
        let strategy = prop::collection::vec(any::<random::Choice>(), 1..length);
        if let Err(error) = runner.run(&strategy, |choices| check(&choices, &device, gradients)) {
            panic!("{error}");
        }
    }
}

#[test]
fn random_graphs_agree_with_the_reference() {
    sweep(false, 60, 20);
}

#[test]
fn gradients_of_random_graphs_agree_with_the_reference() {
    sweep(true, 40, 10);
}

/// Two layers with dropout between; `checkpointed`: nothing in them is kept for the backward pass.
fn gradients_with_dropout(device: &Device, checkpointed: bool) -> (Vec<f64>, Vec<Vec<f64>>) {
    seed(device, 42).expect("a seed");
    let weights: Vec<Var> = (0..4)
        .map(|number| {
            let value = Tensor::from_slice(&samples(&[16, 16], 50 + number), [16, 16], device).expect("memory");
            Var::parameter(&format!("w{number}"), &value).expect("memory")
        })
        .collect();
    let weights = Arc::new(weights);
    let mut step = Step::new(device, move |inputs| {
        let mut value = inputs[0].clone();
        for part in 0..2 {
            let own = weights.clone();
            let block = move |inputs: &[Tensor]| {
                let [first, second] = [own[2 * part].tensor(), own[2 * part + 1].tensor()];
                let hidden = Dropout::new(0.5).forward(&inputs[0].matmul(&first).tanh());
                Dropout::new(0.25).forward(&hidden.matmul(&second).tanh())
            };
            value = if checkpointed { checkpoint(&[&value], block) } else { block(&[value]) };
        }
        // a draw after those of the blocks: it must not repeat theirs
        let noise = Tensor::rand(value.shape(), value.device());
        let loss = (value * &noise).square().sum();
        let parameters: Vec<Tensor> = weights.iter().map(Var::tensor).collect();
        let mut outputs = vec![loss.clone(), noise];
        outputs.extend(grad(&loss, &parameters.iter().collect::<Vec<_>>()));
        outputs
    })
    .expect("a step");
    let input = Tensor::from_slice(&samples(&[8, 16], 60), [8, 16], device).expect("memory");
    step.run(std::slice::from_ref(&input)).expect("a run");
    let outputs = step.run(&[input]).expect("a second run, with other draws");
    let mut values: Vec<Vec<f64>> = outputs.iter().map(doubles).collect();
    (values.remove(0), values)
}

#[test]
fn checkpointing_gives_the_same_gradients_with_dropout_inside() {
    for device in fresh_devices() {
        let (loss, plain) = gradients_with_dropout(&device, false);
        let (same_loss, checkpointed) = gradients_with_dropout(&device, true);
        assert_close("loss", &same_loss, &loss, 1e-6, 0.0);
        assert_eq!(plain[0], checkpointed[0], "the draw after the blocks");
        for (number, (got, expected)) in checkpointed.iter().zip(&plain).enumerate().skip(1) {
            assert!(expected.iter().any(|value| value.abs() > 0.1), "there is a gradient");
            // kernels are cut elsewhere, so sums of 8 to 16 terms run in another order
            assert_close(&format!("gradient {number} on {device:?}"), got, expected, 1e-5, 1e-5);
        }
    }
}
