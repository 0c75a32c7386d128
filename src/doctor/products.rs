//! Products and convolutions of sizes at which kernels work in large tiles, or by units for small matrices: the ops of
//! the table are too small for that. All values are small whole numbers, so that every result is exact in f16 as well.

use crate::autodiff::grad;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::matmul_precision::MatmulPrecision;
use crate::ops::conv::ConvOptions;
use crate::runtime::Step;
use crate::tensor::Tensor;
use crate::units::thousands;

use super::Outcome;
use super::rows::values;

/// Matrices, rows, columns and values that are summed: too few results for large tiles, and enough.
const PRODUCTS: [[usize; 4]; 2] = [[2, 130, 121, 70], [22, 250, 380, 45]];
/// Pictures, channels in and out, rows and columns; 3x3 values, padded by 1.
const CONVOLUTION: [usize; 4] = [8, 40, 48, 20];

/// What makes a whole number one that two terms of f16 hold and one does not: 2¹² + 1.
const TWO_TERMS: f32 = 4097.0;

pub(super) fn in_f32(device: &Device) -> Result<Outcome> {
    check(device, DType::F32, [1.0; 2])
}

pub(super) fn in_f16(device: &Device) -> Result<Outcome> {
    check(device, DType::F16, [1.0; 2])
}

/// Exact as well, if one operand is in need of both terms.
pub(super) fn at_high_precision(device: &Device) -> Result<Outcome> {
    if !device.splits_products() {
        return Ok(Outcome::NotAvailable("products of f32 are always as they are".into()));
    }
    let both = || [[TWO_TERMS, 1.0], [1.0, TWO_TERMS]].map(|factors| check(device, DType::F32, factors));
    let outcomes = device.at_matmul_precision(MatmulPrecision::High, both);
    let outcomes = match outcomes.into_iter().collect::<Result<Vec<_>>>() {
        Err(error @ Error::DeviceLost { .. }) => return Err(error),
        // nothing else is computed that way
        Err(error) => return Ok(Outcome::Degraded(format!("do without --matmul-precision high: {error}"))),
        Ok(outcomes) => outcomes,
    };
    Ok(match outcomes.into_iter().find(|outcome| !matches!(outcome, Outcome::Passed(_))) {
        Some(wrong) => Outcome::Degraded(format!("do without --matmul-precision high: {}", wrong.in_words().1)),
        None => Outcome::Passed("products, a convolution and its gradients are exact as sums of f16 terms".into()),
    })
}

/// The first operands of all products times one factor, the second ones times the other.
fn check(device: &Device, dtype: DType, factors: [f32; 2]) -> Result<Outcome> {
    let mut results = 0;
    for sizes in PRODUCTS {
        for turned in [[false, false], [true, false], [false, true]] {
            let [count, rows, columns, inner] = sizes;
            let name = format!("{count} products of {rows}x{inner} and {inner}x{columns}, {turned:?} transposed");
            match product(device, dtype, sizes, turned, factors)? {
                Ok(right) => results += right,
                Err(wrong) => return Ok(Outcome::Failed(format!("{name}: {wrong}"))),
            }
        }
    }
    match convolution(device, dtype, factors)? {
        Ok(right) => results += right,
        Err(wrong) => return Ok(Outcome::Failed(format!("a convolution's {wrong}"))),
    }
    let results = thousands(results);
    Ok(Outcome::Passed(format!("{results} results of products, a convolution and its gradients are exact")))
}

/// From -2 to 2.
fn whole(seed: u64, count: usize) -> Vec<f32> {
    values(seed, count, -2.4, 2.4).into_iter().map(|value| value.round() as f32).collect()
}

/// How many are right, which is the expected ones times a factor, or the first that is not.
fn compare(got: &Tensor, expected: &[f32], factor: f32) -> Result<Result<usize, String>> {
    let got: Vec<f32> = got.to_dtype(DType::F32).to_vec()?;
    Ok(match (0..expected.len()).find(|&index| got[index] != expected[index] * factor) {
        None => Ok(expected.len()),
        Some(index) => Err(format!("element {index} is {} instead of {}", got[index], expected[index] * factor)),
    })
}

/// All values times a factor.
fn times(values: &[f32], factor: f32) -> Vec<f32> {
    values.iter().map(|value| value * factor).collect()
}

fn product(
    device: &Device,
    dtype: DType,
    [count, rows, columns, inner]: [usize; 4],
    turned: [bool; 2],
    factors: [f32; 2],
) -> Result<Result<usize, String>> {
    let [left, right] = [whole(1, count * rows * inner), whole(2, count * inner * columns)];
    let mut expected = vec![0.0; count * rows * columns];
    for (number, results) in expected.chunks_mut(columns).enumerate() {
        let matrix = number / rows;
        for k in 0..inner {
            let value = left[number * inner + k];
            let line = &right[(matrix * inner + k) * columns..][..columns];
            results.iter_mut().zip(line).for_each(|(sum, other)| *sum += value * other);
        }
    }
    let tensors = [(left, [count, rows, inner]), (right, [count, inner, columns])];
    let tensors = tensors.into_iter().zip(factors).zip(turned).map(|(((values, shape), factor), turned)| {
        let tensor = Tensor::from_slice(&times(&values, factor), shape, device)?.to_dtype(dtype);
        // an input lies in memory in the order of its shape
        Ok(if turned { tensor.transpose(1, 2) } else { tensor })
    });
    let tensors = tensors.collect::<Result<Vec<Tensor>>>()?;
    let mut step = Step::new(device, move |inputs| {
        let [left, right] = [0, 1].map(|side| match turned[side] {
            true => inputs[side].transpose(1, 2),
            false => inputs[side].clone(),
        });
        vec![left.matmul(&right)]
    })?;
    compare(&step.run(&tensors)?[0], &expected, factors[0] * factors[1])
}

fn convolution(device: &Device, dtype: DType, [by_pictures, by_weight]: [f32; 2]) -> Result<Result<usize, String>> {
    let [count, channels, kernels, side] = CONVOLUTION;
    let pictures = whole(3, count * channels * side * side);
    let weight = whole(4, kernels * channels * 9);
    let slopes = whole(5, count * kernels * side * side);
    let [mut result, mut to_pictures, mut to_weight] = [&slopes, &pictures, &weight].map(|like| vec![0.0; like.len()]);
    for (plane, (results, slopes)) in result.chunks_mut(side * side).zip(slopes.chunks(side * side)).enumerate() {
        let (picture, kernel) = (plane / kernels, plane % kernels);
        for channel in 0..channels {
            let pixels = (picture * channels + channel) * side * side;
            for tap in 0..9 {
                let at = (kernel * channels + channel) * 9 + tap;
                // the window of a result begins one row and one column before it
                for (y, row) in (tap / 3..side + tap / 3).zip(0..side).filter(|(y, _)| (1..=side).contains(y)) {
                    for (x, column) in (tap % 3..side + tap % 3).zip(0..side).filter(|(x, _)| (1..=side).contains(x)) {
                        let (pixel, here) = (pixels + (y - 1) * side + x - 1, row * side + column);
                        results[here] += weight[at] * pictures[pixel];
                        to_weight[at] += slopes[here] * pictures[pixel];
                        to_pictures[pixel] += slopes[here] * weight[at];
                    }
                }
            }
        }
    }
    let tensor = |values: &[f32], shape: [usize; 4]| Tensor::from_slice(values, shape, device);
    let inputs = [
        tensor(&times(&pictures, by_pictures), [count, channels, side, side])?.to_dtype(dtype),
        tensor(&times(&weight, by_weight), [kernels, channels, 3, 3])?.to_dtype(dtype),
        tensor(&slopes, [count, kernels, side, side])?,
    ];
    let mut step = Step::new(device, |inputs| {
        let result = inputs[0].conv2d(&inputs[1], None, &ConvOptions::default().padding(1));
        let loss = (result.to_dtype(DType::F32) * &inputs[2]).sum();
        let mut all = grad(&loss, &[&inputs[0], &inputs[1]]);
        all.insert(0, result);
        all
    })?;
    let got = step.run(&inputs)?;
    let mut right = 0;
    let all = [
        ("result", result, by_pictures * by_weight),
        ("gradient of pictures", to_pictures, by_weight),
        ("gradient of weights", to_weight, by_pictures),
    ];
    for ((name, expected, factor), got) in all.iter().zip(&got) {
        match compare(got, expected, *factor)? {
            Ok(count) => right += count,
            Err(wrong) => return Ok(Err(format!("{name}: {wrong}"))),
        }
    }
    Ok(Ok(right))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::tests::fresh_devices;

    #[test]
    fn large_products_are_exact() {
        for device in fresh_devices() {
            for check in [in_f32, in_f16] {
                let outcome = check(&device).expect("it runs");
                assert!(matches!(outcome, Outcome::Passed(_)), "{device:?}: {outcome:?}");
            }
            let outcome = at_high_precision(&device).expect("it runs");
            let as_it_should = match outcome {
                Outcome::Passed(_) => device.splits_products(),
                Outcome::NotAvailable(_) => !device.splits_products(),
                _ => false,
            };
            assert!(as_it_should, "{device:?}: {outcome:?}");
        }
    }
}
