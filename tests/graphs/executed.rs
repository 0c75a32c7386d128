//! The same graphs on every device, captured and not.

use std::sync::{Arc, Mutex};

use brasa::dtype::Scalar;
use brasa::graph::NodeRef;
use brasa::runtime::{Step, Var};
use brasa::{DType, Device, Tensor};

use super::build::build;
use super::case::Case;
use super::common::{devices, doubles};
use super::expected::{Expected, first_difference};
use super::outcome::{Outcome, Run, Sweep, number};
use super::state::State;

/// How far f32 may be from f64 over some dozen ops on values of a few units: sums have at most some hundred terms
/// (relative 400^½ · 6e-8), and gradients multiply errors by what they multiply values by; f16 rounds at 5e-4, where
/// f32's and f64's value may fall to different sides.
fn tolerance(half: bool) -> f64 {
    if half { 2e-2 } else { 2e-3 }
}

/// An input with these values.
pub(crate) fn leaf(dtype: DType, shape: &[usize], values: &[f64], device: &Device) -> Tensor {
    let bytes: Vec<u8> = values
        .iter()
        .flat_map(|&value| Scalar::new(dtype, value).bits.to_le_bytes()[..dtype.size_bytes()].to_vec())
        .collect();
    Tensor::from_bytes(&bytes, shape, dtype, device).expect("memory")
}

/// What a trace of a case should compute.
struct Made {
    expected: Expected,
    drawn: Vec<&'static str>,
    half: bool,
}

/// Builds the graph; what it should compute are its outputs, then what `variables` have in the end.
fn made(case: &Case, inputs: &[Tensor], state: Option<&State>, variables: &[Var]) -> (Vec<Tensor>, Made) {
    let inputs: Vec<(Tensor, Vec<f64>)> = inputs.iter().cloned().zip(case.values()).collect();
    let graph = build(case, &inputs, state);
    let assigned = variables.iter().map(|variable| variable.tensor().node().clone());
    let wanted: Vec<NodeRef> = graph.outputs.iter().map(|output| output.node().clone()).chain(assigned).collect();
    (graph.outputs, Made { expected: Expected::new(wanted, &inputs), drawn: graph.drawn, half: graph.half })
}

/// Compares what was computed in one way with what should be.
fn compared(how: &str, got: &[Tensor], made: &Made, expected: &[Vec<f64>], device: &Device) -> Outcome {
    let allowed = tolerance(made.half);
    for (number, (tensor, expected)) in got.iter().zip(expected).enumerate() {
        let got = doubles(tensor);
        // f32 overflows where f64 does not
        let large = expected.iter().any(|value| value.abs() > f64::from(f32::MAX));
        if let Some(index) = first_difference(&got, expected, allowed).filter(|_| !large) {
            if !made.expected.is_steady(if made.half { 1e-3 } else { 1e-6 }, allowed / 2.0) {
                return Outcome::Unsteady;
            }
            let (got, want) = (got[index], expected[index]);
            let node = tensor.node();
            return Outcome::Wrong(format!(
                "{how}, output {number}, {node:?}, at {index}: {got} instead of {want} on {device:?}"
            ));
        }
    }
    Outcome::Same
}

fn run(case: &Case, device: &Device) -> Run {
    let leaves = case.inputs.iter().zip(case.values());
    let leaves: Vec<Tensor> = leaves.map(|((dtype, shape), values)| leaf(*dtype, shape, &values, device)).collect();
    if case.state.is_none() {
        let (outputs, made) = made(case, &leaves, None, &[]);
        let expected = made.expected.values();
        let outcome = compared("not captured", &outputs, &made, &expected, device);
        if !matches!(outcome, Outcome::Same) {
            return (outcome, made.drawn);
        }
    }
    let state = case.make_state(device).map(Arc::new);
    let variables = state.as_ref().map(|state| state.all.clone()).unwrap_or_default();
    let result = Arc::new(Mutex::new(None));
    let (traced, own_case, own_variables) = (result.clone(), case.clone(), variables.clone());
    let mut step = Step::new(device, move |inputs| {
        let (outputs, made) = made(&own_case, inputs, state.as_deref(), &own_variables);
        // before the step runs: it changes what the reference reads
        let expected = made.expected.values();
        *traced.lock().expect("no panic") = Some((made, expected));
        outputs
    })
    .expect("a step");
    let mut got = step.run(&leaves).expect("a run");
    // a gradient that is not finite: nothing was assigned
    if !step.halted().expect("a flag") {
        got.extend(variables.iter().map(Var::tensor));
    }
    let (made, expected) = result.lock().expect("no panic").take().expect("it was traced");
    let outcome = compared("captured", &got, &made, &expected, device);
    step.run(&leaves).expect("a second run");
    (outcome, made.drawn)
}

/// Runs as many graphs on the CPU backend and on a GPU, where each has new shaders to compile.
fn sweep(first: u64, counts: [u64; 2], most: usize) {
    for (device, count) in devices().into_iter().zip(counts).filter(|(_, count)| *count > 0) {
        let mut sweep = Sweep::default();
        sweep.run(first..first + count, most, |case| run(case, &device));
        sweep.assert_same();
    }
}

#[test]
fn the_cpu_computes_what_the_reference_says() {
    sweep(5000, [150, 0], 1);
}

#[test]
fn gpus_compute_what_the_reference_says() {
    sweep(5000, [0, 25], 1);
}

#[test]
#[ignore = "takes minutes; see the head of main.rs"]
fn many_graphs_on_devices() {
    let count = number("BRASA_GRAPHS", 300);
    sweep(number("BRASA_FIRST_GRAPH", 10_000), [count, count], usize::MAX);
}
