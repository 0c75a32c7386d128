//! Every op of the table, with its gradients, in each type it has: the device against the f64 reference.

use std::collections::HashMap;

use crate::autodiff::vjp;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::{NodeRef, reference};
use crate::runtime::realize;
use crate::tensor::Tensor;

use super::rows::{Input, Row};
use super::{Deviation, Problem, Sweep};

/// The seed of the gradients that come from above; inputs have smaller ones.
const ABOVE: u64 = 1000;
/// What a tensor's largest value is taken for at least: below, what cancels is left of larger ones.
const MIN_SCALE: f64 = 1e-3;

impl Sweep {
    /// All cases of `row`.
    pub(super) fn add(&mut self, row: &Row, device: &Device) {
        self.ops += 1;
        for case in &row.cases {
            for case in [Some(case.clone()), in_halves(case)].into_iter().flatten() {
                self.cases += 1;
                match deviations(row, &case, device) {
                    Ok(found) => self.deviations.extend(found),
                    Err(error) => {
                        self.lost |= matches!(error, Error::DeviceLost { .. });
                        let problem = Problem::Failed(error.to_string());
                        self.deviations.push(deviation(row, &case, case.first().map(|input| input.dtype), "", problem));
                    }
                }
                if self.lost {
                    return;
                }
            }
        }
    }
}

/// The same case in f16, if it has f32; what has no arithmetic for it, has it stored so.
fn in_halves(case: &[Input]) -> Option<Vec<Input>> {
    let has_floats = case.iter().any(|input| input.dtype == DType::F32);
    let half = |input: &Input| Input {
        dtype: if input.dtype == DType::F32 { DType::F16 } else { input.dtype },
        ..input.clone()
    };
    has_floats.then(|| case.iter().map(half).collect())
}

fn deviations(row: &Row, case: &[Input], device: &Device) -> Result<Vec<Deviation>> {
    let mut leaves = HashMap::new();
    let mut inputs = Vec::new();
    for (input, seed) in case.iter().zip(1..) {
        let values = input.sample(seed);
        let leaf = input.leaf(&values, device)?;
        leaves.insert(leaf.node().id, values);
        inputs.push(leaf);
    }
    let output = (row.call)(&inputs);
    let mut results = vec![output.clone()];
    let mut parts = vec!["result".to_owned()];
    if output.dtype().is_float() {
        let floats = inputs.iter().enumerate().filter(|(_, input)| input.dtype().is_float());
        let (numbers, wrt): (Vec<usize>, Vec<&Tensor>) = floats.unzip();
        // what comes from above is no function of the output: of a norm's square, say, nothing depends on its input
        let above = Input { shape: output.shape().to_vec(), low: -1.0, high: 1.0, dtype: output.dtype() };
        let values = above.sample(ABOVE);
        let leaf = above.leaf(&values, device)?;
        leaves.insert(leaf.node().id, values);
        results.extend(vjp(&[&output], &[&leaf], &wrt));
        parts.extend(numbers.iter().map(|number| format!("gradient of input {number}")));
    }
    let nodes: Vec<NodeRef> = results.iter().map(|result| result.node().clone()).collect();
    let expected = reference::evaluate(&nodes, &leaves);
    realize(&nodes)?;
    let mut found = Vec::new();
    for ((result, expected), part) in results.iter().zip(&expected).zip(&parts) {
        let got = reference::decode(result.dtype(), &pollster::block_on(result.to_bytes())?);
        if let Some(problem) = difference(&got, expected, result.dtype(), row.tolerance) {
            found.push(deviation(row, case, Some(result.dtype()), part, problem));
        }
    }
    Ok(found)
}

fn deviation(row: &Row, case: &[Input], dtype: Option<DType>, part: &str, problem: Problem) -> Deviation {
    let inputs = case.iter().map(|input| format!("{}{:?}", input.dtype, input.shape)).collect();
    Deviation { op: row.name.into(), inputs, dtype: dtype.map(|dtype| dtype.to_string()), part: part.into(), problem }
}

/// The worst element, if one is further from the reference than `tolerance` roundings of the largest value and its own.
fn difference(got: &[f64], expected: &[f64], dtype: DType, tolerance: f64) -> Option<Problem> {
    let rounding = match dtype {
        DType::F32 => f64::from(f32::EPSILON),
        DType::F16 => f64::from(half::f16::EPSILON),
        _ => 0.0,
    };
    let scale =
        expected.iter().filter(|value| value.is_finite()).fold(MIN_SCALE, |scale, value| scale.max(value.abs()));
    let excess = |index: usize| {
        let (got, expected) = (got[index], expected[index]);
        if dtype.same_or_overflown(got, expected) {
            return None;
        }
        let allowed = tolerance * rounding * (scale + expected.abs());
        let off = (got - expected).abs();
        // what is not a number is further away than any
        if off <= allowed { None } else { Some((if off.is_nan() { f64::INFINITY } else { off - allowed }, allowed)) }
    };
    let worst = (0..expected.len()).filter_map(|index| Some((index, excess(index)?)));
    let (index, (_, allowed)) = worst.max_by(|(_, (a, _)), (_, (b, _))| a.total_cmp(b))?;
    Some(Problem::Differs { index, got: got[index], expected: expected[index], allowed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_element_is_named_and_what_is_no_number_is_wrong() {
        let worst = |got: &[f64], expected: &[f64], dtype| match difference(got, expected, dtype, 16.0) {
            Some(Problem::Differs { index, .. }) => Some(index),
            _ => None,
        };
        assert_eq!(worst(&[1.0, 2.0], &[1.0, 2.0 + 1e-6], DType::F32), None);
        assert_eq!(worst(&[1.1, 2.5], &[1.0, 2.0], DType::F32), Some(1));
        assert_eq!(worst(&[1.001, 2.0], &[1.0, 2.0], DType::F16), None);
        assert_eq!(worst(&[f64::NAN, 2.5], &[1.0, 2.0], DType::F32), Some(0));
        assert_eq!(worst(&[f64::NAN, f64::INFINITY], &[f64::NAN, 1e6], DType::F16), None);
        assert_eq!(worst(&[1.0, f64::NEG_INFINITY], &[1.0, 1e6], DType::F16), Some(1));
        assert_eq!(worst(&[1.0, f64::NAN], &[1.0, f64::INFINITY], DType::F32), Some(1));
        assert_eq!(worst(&[3.0], &[4.0], DType::I32), Some(0));
    }
}
