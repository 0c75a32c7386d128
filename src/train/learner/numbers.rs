//! Regression: the loss of numbers that a model predicts, and what is counted of them.

use crate::data::Normalization;
use crate::tensor::{Reduction, Tensor};

use super::super::config::LossName;
use super::super::scores::{ErrorSums, Residuals};
use super::super::spread::Spread;

/// Sums that the device adds up for each number.
pub(super) const SUMS: usize = 3;

/// The loss of what a model says of numbers, both f32 `[rows, numbers]`.
#[track_caller]
pub(super) fn loss(name: LossName, said: &Tensor, numbers: &Tensor, reduction: Reduction) -> Tensor {
    match name {
        LossName::L1 => said.l1_loss(numbers, reduction),
        LossName::Huber => said.huber_loss(numbers, 1.0, reduction),
        LossName::Mse | LossName::CrossEntropy => said.mse_loss(numbers, reduction),
    }
}

/// Sums over the rows that count by `weights`, f32 `[`[`SUMS`]`, numbers]`: of errors, their absolute values and their
/// squares.
pub(super) fn sums(said: &Tensor, numbers: &Tensor, weights: &Tensor) -> Tensor {
    let counts = weights.ne(0.0).unsqueeze(1).expand(numbers.shape().clone());
    let error = said - numbers;
    let sums = [&error, &error.abs(), &error.square()].map(|values| counts.where_(values, 0.0).sum_dim(0));
    Tensor::stack(&sums.iter().collect::<Vec<_>>(), 0)
}

/// What such sums over standardised numbers say of the numbers in their own units, whose own spread is `truth`.
pub(super) fn residuals(sums: &[f64], truth: &Spread, scales: Option<&Normalization>) -> Residuals {
    let numbers = sums.len() / SUMS;
    let number = |place: usize| {
        let [error, absolute, squared] = std::array::from_fn(|row| sums[row * numbers + place]);
        let unit = scales.map_or(1.0, |scales| f64::from(scales.std[place]));
        ErrorSums {
            error: error * unit,
            absolute: absolute * unit,
            squared: squared * unit * unit,
            total: truth.total(place),
        }
    };
    Residuals::new(truth.samples(), (0..numbers).map(number).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::tests::fresh_devices;

    /// Sums on each device against those in f64, of rows of which some are padding.
    #[test]
    fn sums_are_those_of_the_rows_that_count() {
        let (rows, width, in_use) = (37, 3, 31);
        let value = |at: usize, key: usize| ((at * key) % 97) as f32 / 20.0 - 2.0;
        let said: Vec<f32> = (0..rows * width).map(|at| value(at, 31)).collect();
        let numbers: Vec<f32> = (0..rows * width).map(|at| value(at, 17)).collect();
        let weights: Vec<f32> = (0..rows).map(|row| if row < in_use { 1.0 } else { 0.0 }).collect();
        let scales = Normalization { mean: vec![5.0, 0.0, -1.0], std: vec![10.0, 1.0, 0.5] };
        for device in fresh_devices() {
            let tensor = |values: &[f32], shape: &[usize]| Tensor::from_slice(values, shape, &device).expect("memory");
            let sums =
                sums(&tensor(&said, &[rows, width]), &tensor(&numbers, &[rows, width]), &tensor(&weights, &[rows]));
            let sums: Vec<f64> = sums.to_vec::<f32>().expect("values").into_iter().map(f64::from).collect();
            // in their own units, far from 0
            let own: Vec<f32> = numbers.iter().zip(0..).map(|(x, at)| x * scales.std[at % width] + 1e4).collect();
            let mut truth = Spread::default();
            truth.add(&own[..20 * width], width, 20);
            truth.add(&own[20 * width..], width, in_use - 20);
            let found = residuals(&sums, &truth, Some(&scales));
            assert_eq!((found.samples(), found.numbers()), (in_use as u64, width), "{device:?}");
            for place in 0..width {
                let unit = f64::from(scales.std[place]);
                let of = |values: &[f32], row: usize| f64::from(values[row * width + place]) * unit;
                let each = |f: &dyn Fn(usize) -> f64| (0..in_use).map(f).sum::<f64>() / in_use as f64;
                let error = |row| of(&said, row) - of(&numbers, row);
                let mean = each(&|row| of(&numbers, row));
                let squared = each(&|row| error(row).powi(2));
                let variance = each(&|row| (of(&numbers, row) - mean).powi(2));
                let scores = found.number(place);
                for (found, expected) in [
                    (scores.r2, 1.0 - squared / variance),
                    (scores.rmse, squared.sqrt()),
                    (scores.mae, each(&|row| error(row).abs())),
                    (found.mean_error(place), each(&error)),
                ] {
                    // numbers near 10,000 are rounded to a thousandth
                    assert!((found - expected).abs() < 1e-3 * unit.max(1.0), "{device:?}: {found} and {expected}");
                }
            }
        }
    }

    #[test]
    fn numbers_far_from_0_vary_and_those_that_are_all_the_same_do_not() {
        let total = |numbers: &[f32]| {
            let mut truth = Spread::default();
            truth.add(numbers, 1, numbers.len());
            residuals(&[0.0, 0.0, 1.0], &truth, None).number(0)
        };
        let years = total(&[2000.0, 2001.0, 1999.0, 2000.0]);
        assert!((years.r2 - 0.5).abs() < 1e-12 && (years.rmse - 0.5).abs() < 1e-12, "{years:?}");
        assert_eq!(total(&[1.7; 3]).r2, 0.0);
        assert_eq!(residuals(&[0.0; 3], &Spread::default(), None).samples(), 0);
    }
}
