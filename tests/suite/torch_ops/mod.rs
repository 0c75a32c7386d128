//! Every op against what PyTorch computed for the same inputs: values, gradients, and special values of floats.
//!
//! `tests/reference/record_ops.py` recorded it; PyTorch is not needed here.

mod elementwise;
mod fft;
mod layers;
mod linalg;
mod linear;
mod movement;
mod reductions;
mod windows;

use std::collections::BTreeSet;

use brasa::autodiff::grad;
use brasa::graph::reference::decode;
use brasa::{DType, Device, Tensor};
use safetensors::tensor::{Dtype, SafeTensors};

use crate::common::devices;

/// An op: its name in the recording, how it is called, and the allowed error in units of f32's rounding.
struct Row(&'static str, f64, fn(&[Tensor]) -> Vec<Tensor>);

/// A row with one output.
macro_rules! one {
    ($name:expr, |$x:ident| $body:expr) => {
        one!($name, 16.0, |$x| $body)
    };
    ($name:expr, $tolerance:literal, |$x:ident| $body:expr) => {
        $crate::torch_ops::Row($name, $tolerance, |$x| vec![$body])
    };
}
use one;

fn recording() -> Vec<u8> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/reference/ops.safetensors");
    std::fs::read(path).expect("the recording lies beside the test")
}

/// The recorded tensor of this name: its type, shape and bytes.
fn recorded(file: &SafeTensors<'_>, name: &str) -> Option<(DType, Vec<usize>, Vec<u8>)> {
    let view = file.tensor(name).ok()?;
    let dtype = match view.dtype() {
        Dtype::F32 => DType::F32,
        Dtype::I32 => DType::I32,
        Dtype::BOOL => DType::Bool,
        other => panic!("{name} is {other:?}"),
    };
    Some((dtype, view.shape().to_vec(), view.data().to_vec()))
}

/// All recorded tensors `{prefix}0`, `{prefix}1`, …
fn numbered(file: &SafeTensors<'_>, prefix: &str) -> Vec<(DType, Vec<usize>, Vec<u8>)> {
    (0..).map_while(|number| recorded(file, &format!("{prefix}{number}"))).collect()
}

/// The tensor, stored with its axes reversed.
fn turned(tensor: &Tensor) -> Tensor {
    let axes: Vec<usize> = (0..tensor.rank()).rev().collect();
    let stored = tensor.permute(axes.as_slice());
    stored.realize().expect("memory");
    stored.permute(axes.as_slice())
}

/// The sum of all float outputs, weighted as in the recording.
fn weighted(outputs: &[Tensor]) -> Option<Tensor> {
    let weight = |number: usize, count: usize| -> Vec<f32> {
        (0..count).map(|element| ((element * 37 + number * 11) % 13) as f32 / 4.0 - 1.5).collect()
    };
    let floats = outputs.iter().enumerate().filter(|(_, output)| output.dtype().is_float());
    floats
        .map(|(number, output)| {
            let weights = Tensor::from_slice(&weight(number, output.numel()), output.shape(), output.device());
            (output * weights.expect("memory")).sum()
        })
        .reduce(|sum, term| sum + term)
}

/// What differs between a result and what was recorded, if anything does.
fn difference(got: &Tensor, (dtype, shape, bytes): &(DType, Vec<usize>, Vec<u8>), tolerance: f64) -> Option<String> {
    if (got.dtype(), got.shape().dims()) != (*dtype, shape.as_slice()) {
        return Some(format!("is {}{} instead of {dtype}{shape:?}", got.dtype(), got.shape()));
    }
    let values = match pollster::block_on(got.to_bytes()) {
        Ok(bytes) => decode(got.dtype(), &bytes),
        Err(error) => return Some(error.to_string()),
    };
    let expected = decode(*dtype, bytes);
    let finite = expected.iter().filter(|value| value.is_finite());
    // values of very different sizes are held to their own
    let scale = finite.fold(1.0_f64, |scale, value| scale.max(value.abs())).min(16.0);
    let unit = if dtype.is_float() { tolerance * f64::from(f32::EPSILON) } else { 0.0 };
    let wrong = values.iter().zip(&expected).enumerate().filter(|(_, (got, expected))| {
        let same = got == expected || got.is_nan() && expected.is_nan();
        let close = (*got - *expected).abs() <= unit * (scale + expected.abs());
        !same && !close
    });
    let wrong: Vec<String> =
        wrong.take(4).map(|(number, (got, expected))| format!("[{number}] {got} instead of {expected}")).collect();
    (!wrong.is_empty()).then(|| wrong.join(", "))
}

/// Replays one case on a device; what is wrong goes to `failures`.
fn replay(row: &Row, case: usize, file: &SafeTensors<'_>, device: &Device, failures: &mut Vec<String>) -> bool {
    let Row(name, tolerance, call) = row;
    let inputs: Vec<Tensor> = numbered(file, &format!("{name}/{case}/in"))
        .into_iter()
        .map(|(dtype, shape, bytes)| Tensor::from_bytes(&bytes, shape, dtype, device).expect("memory"))
        .collect();
    if inputs.is_empty() {
        return false;
    }
    let mut variants = vec![("plain", inputs.clone())];
    if case == 0 {
        variants.push(("turned", inputs.iter().map(turned).collect()));
    }
    for (stored, inputs) in variants {
        let mut report = |what: String, difference: Option<String>| {
            failures
                .extend(difference.map(|text| format!("{name}/{case} {stored} on {}: {what} {text}", device.name())));
        };
        let outputs = call(&inputs);
        let expected = numbered(file, &format!("{name}/{case}/out"));
        assert_eq!(outputs.len(), expected.len(), "{name}/{case}: number of outputs");
        for (number, (got, expected)) in outputs.iter().zip(&expected).enumerate() {
            report(format!("output {number}"), difference(got, expected, *tolerance));
        }
        let Some(sum) = weighted(&outputs) else { continue };
        for (number, input) in inputs.iter().enumerate() {
            if let Some(expected) = recorded(file, &format!("{name}/{case}/grad{number}")) {
                let gradient = grad(&sum, &[input]).remove(0);
                report(format!("gradient {number}"), difference(&gradient, &expected, *tolerance));
            }
        }
    }
    true
}

fn replay_all(rows: &[Row]) {
    let bytes = recording();
    let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
    let mut failures = Vec::new();
    for device in devices() {
        for row in rows {
            let mut case = 0;
            while replay(row, case, &file, &device, &mut failures) {
                case += 1;
            }
            assert!(case > 0, "{} was not recorded", row.0);
        }
    }
    assert!(failures.is_empty(), "{} differences:\n{}", failures.len(), failures.join("\n"));
}

macro_rules! families {
    ($($family:ident),*) => {
        $(#[test]
        fn $family() {
            replay_all(&self::$family::rows());
        })*

        fn families() -> Vec<Row> {
            [$(self::$family::rows()),*].into_iter().flatten().collect()
        }
    };
}
families!(elementwise, fft, layers, linalg, linear, movement, reductions, windows);

#[test]
fn everything_recorded_is_replayed() {
    let bytes = recording();
    let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
    let recorded: BTreeSet<&str> = file.names().into_iter().filter_map(|name| name.split('/').next()).collect();
    let rows = families();
    let replayed: BTreeSet<&str> = rows.iter().map(|row| row.0).collect();
    assert_eq!(recorded, replayed);
    assert_eq!(rows.len(), replayed.len(), "a row occurs twice");
}
