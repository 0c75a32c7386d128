//! How numbers to predict are spread: their means, and what they differ by from them.

use crate::data::Normalization;

/// Sums over samples of each of their numbers, counted from the first sample's: so that what they differ by is not lost,
/// however far from 0 they are.
#[derive(Clone, Debug, Default)]
pub(super) struct Spread {
    samples: u64,
    origin: Vec<f32>,
    /// For each number the sum, and that of the squares.
    sums: Vec<[f64; 2]>,
}

impl Spread {
    /// Adds the first `samples` of these rows of so many numbers each.
    pub(super) fn add(&mut self, numbers: &[f32], width: usize, samples: usize) {
        for row in numbers.chunks_exact(width.max(1)).take(samples) {
            if self.samples == 0 {
                (self.origin, self.sums) = (row.to_vec(), vec![[0.0; 2]; row.len()]);
            }
            self.samples += 1;
            for ((sum, &number), &origin) in self.sums.iter_mut().zip(row).zip(&self.origin) {
                let number = f64::from(number) - f64::from(origin);
                *sum = [sum[0] + number, sum[1] + number * number];
            }
        }
    }

    /// Samples that were added.
    pub(super) fn samples(&self) -> u64 {
        self.samples
    }

    /// The sum of the squares of what one of the numbers differs by from its mean; 0 if there is no sample.
    pub(super) fn total(&self, place: usize) -> f64 {
        self.sums.get(place).map_or(0.0, |[sum, squares]| (squares - sum * sum / self.count()).max(0.0))
    }

    /// Mean and standard deviation of each of `width` numbers; 0 and 1 if there is no sample, and 1 where one does not
    /// vary.
    pub(super) fn scales(&self, width: usize) -> Normalization {
        let scale = |place: usize| {
            let (Some([sum, _]), Some(&origin)) = (self.sums.get(place), self.origin.get(place)) else {
                return (0.0, 1.0);
            };
            let std = (self.total(place) / self.count()).sqrt() as f32;
            ((sum / self.count() + f64::from(origin)) as f32, if std.is_normal() { std } else { 1.0 })
        };
        let (mean, std) = (0..width).map(scale).unzip();
        Normalization { mean, std }
    }

    fn count(&self) -> f64 {
        self.samples.max(1) as f64
    }
}
