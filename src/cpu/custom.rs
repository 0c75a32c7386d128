//! Own kernels: the application's host code, over its f32 values or f64 copies of them.

use half::f16;

use super::execute::{Env, typed};
use super::view::Run;
use crate::custom::{Invocation, Signature};
use crate::dtype::{DType, Scalar};
use crate::plan::Span;

/// Computes `output` from `inputs`.
pub(super) fn run(env: &Env<'_>, kernel: &Invocation, inputs: &[Span], output: &Span) {
    if in_place(env, kernel, inputs, output) {
        return;
    }
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

/// The same where values lie, if they are f32 and the kernel has a form for that.
fn in_place(env: &Env<'_>, kernel: &Invocation, inputs: &[Span], output: &Span) -> bool {
    if !kernel.is_f32() || output.elements == 0 {
        return false;
    }
    let there = inputs.iter().map(|span| {
        let run = || env.views[span.buffer].run(span.offset as i64, span.elements);
        (span.elements > 0).then(run)
    });
    let there: Vec<Option<Run>> = there.collect();
    let inputs: Vec<&[f32]> = there.iter().map(floats).collect();
    let mut value = env.views[output.buffer].run_mut(output.offset as i64, output.elements);
    kernel.evaluate_f32(&inputs, bytemuck::cast_slice_mut(value.words_mut()))
}

/// What lies there.
fn floats(run: &Option<Run>) -> &[f32] {
    run.as_ref().map_or(&[], |run| bytemuck::cast_slice(run.words()))
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
