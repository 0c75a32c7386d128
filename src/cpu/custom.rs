//! Own kernels: the application's host code, over f64 copies of its values.

use half::f16;

use super::execute::{Env, typed};
use crate::custom::{Invocation, Signature};
use crate::dtype::{DType, Scalar};
use crate::plan::Span;

/// Computes `output` from `inputs`.
pub(super) fn run(env: &Env<'_>, kernel: &Invocation, inputs: &[Span], output: &Span) {
    let read = |(span, signature): (&Span, &Signature)| {
        let mut words = vec![0; span.elements];
        let view = &env.views[span.buffer];
        typed!(view, signature.dtype, read_run(span.offset as i64, &mut words));
        values(signature.dtype, &words)
    };
    let inputs: Vec<Vec<f64>> = inputs.iter().zip(&kernel.call.inputs).map(read).collect();
    let inputs: Vec<&[f64]> = inputs.iter().map(Vec::as_slice).collect();
    let mut values = vec![0.0; output.elements];
    kernel.evaluate(&inputs, &mut values);
    let dtype = kernel.dtype();
    let words = words(dtype, &values);
    typed!(&env.views[output.buffer], dtype, write_run(output.offset as i64, &words));
}

/// In registers f16 is f32.
fn in_registers(dtype: DType) -> DType {
    if dtype == DType::F16 { DType::F32 } else { dtype }
}

fn values(dtype: DType, words: &[u32]) -> Vec<f64> {
    match in_registers(dtype) {
        // what most kernels have, without asking each element for its type
        DType::F32 => words.iter().map(|&word| f64::from(f32::from_bits(word))).collect(),
        dtype => words.iter().map(|&bits| Scalar { dtype, bits }.to_f64()).collect(),
    }
}

fn words(dtype: DType, values: &[f64]) -> Vec<u32> {
    match in_registers(dtype) {
        DType::F32 => values.iter().map(|&value| (value as f32).to_bits()).collect(),
        dtype => values.iter().map(|&value| Scalar::new(dtype, value).bits).collect(),
    }
}
