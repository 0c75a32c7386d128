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
        words.into_iter().map(|word| value(signature.dtype, word)).collect::<Vec<f64>>()
    };
    let inputs: Vec<Vec<f64>> = inputs.iter().zip(&kernel.call.inputs).map(read).collect();
    let inputs: Vec<&[f64]> = inputs.iter().map(Vec::as_slice).collect();
    let mut values = vec![0.0; output.elements];
    kernel.evaluate(&inputs, &mut values);
    let dtype = kernel.dtype();
    let words: Vec<u32> = values.into_iter().map(|value| word(dtype, value)).collect();
    typed!(&env.views[output.buffer], dtype, write_run(output.offset as i64, &words));
}

/// In registers f16 is f32.
fn in_registers(dtype: DType) -> DType {
    if dtype == DType::F16 { DType::F32 } else { dtype }
}

fn value(dtype: DType, bits: u32) -> f64 {
    Scalar { dtype: in_registers(dtype), bits }.to_f64()
}

fn word(dtype: DType, value: f64) -> u32 {
    Scalar::new(in_registers(dtype), value).bits
}
