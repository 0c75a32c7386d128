//! How often values of each size occur, as TensorBoard draws it.

use std::sync::LazyLock;

use super::proto::HistogramProto;

/// Smallest bucket limit, growth from one to the next, and largest limit: TensorFlow's, on either side of zero
/// (`tensorflow/core/lib/histogram/histogram.cc`).
const SMALLEST: f64 = 1e-12;
const GROWTH: f64 = 1.1;
const LARGEST: f64 = 1e20;
/// Bits of a number below those that a first guess of its bucket is made from: sign, exponent and four bits of the
/// fraction.
const BELOW_GUESS: u32 = 48;

/// What is looked up for each value, of which there may be millions.
static LIMITS: LazyLock<Limits> = LazyLock::new(Limits::new);

/// Values counted in buckets that grow by a tenth from one to the next, on either side of zero.
///
/// ```
/// use brasa::formats::tensorboard::Histogram;
///
/// let histogram = Histogram::of(&[-1.0, 0.0, 0.5, 0.5, f32::NAN]);
/// assert_eq!((histogram.count(), histogram.not_finite()), (4, 1));
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Histogram {
    min: f64,
    max: f64,
    count: u64,
    not_finite: u64,
    sum: f64,
    sum_squares: f64,
    /// The place of each bucket that is not empty, in order, and the number of values in it: 0 for zero itself, `n` for
    /// positive values up to the `n`th limit, `-n` for negative ones.
    buckets: Vec<(i32, u64)>,
}

/// Where buckets end.
struct Limits {
    /// Up to the first beyond [`LARGEST`].
    values: Vec<f64>,
    /// By the leading bits of a number, from [`SMALLEST`]'s on: how many limits are no larger than the least such
    /// number.
    guesses: Vec<usize>,
}

impl Limits {
    fn new() -> Self {
        let mut values: Vec<f64> = (0..).map(limit).take_while(|&limit| limit <= LARGEST).collect();
        values.push(limit(values.len() as i32));
        let least = |key: u64| f64::from_bits(key << BELOW_GUESS);
        let guesses = (SMALLEST.to_bits() >> BELOW_GUESS..=LARGEST.to_bits() >> BELOW_GUESS)
            .map(|key| values.partition_point(|&limit| limit <= least(key)))
            .collect();
        Self { values, guesses }
    }

    /// How many of them are no larger than `size`, which lies between [`SMALLEST`] and [`LARGEST`].
    fn up_to(&self, size: f64) -> usize {
        let key = (size.to_bits() >> BELOW_GUESS) - (SMALLEST.to_bits() >> BELOW_GUESS);
        let guess = self.guesses[key as usize];
        guess + self.values[guess..].iter().take_while(|&&limit| limit <= size).count()
    }

    fn place(&self, value: f64) -> i32 {
        let size = value.abs();
        if size < SMALLEST {
            return 0;
        }
        let number = self.up_to(size.min(LARGEST)) as i32;
        if value > 0.0 { number } else { -number }
    }
}

impl Histogram {
    /// Of these values. Those that are not finite are counted apart.
    pub fn of(values: &[f32]) -> Self {
        let mut histogram = Self {
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            count: 0,
            not_finite: 0,
            sum: 0.0,
            sum_squares: 0.0,
            buckets: Vec::new(),
        };
        let limits = &*LIMITS;
        let zero = limits.values.len() as i32;
        let mut counts = vec![0; 2 * limits.values.len() + 1];
        for value in values.iter().copied().map(f64::from) {
            if !value.is_finite() {
                histogram.not_finite += 1;
                continue;
            }
            histogram.min = histogram.min.min(value);
            histogram.max = histogram.max.max(value);
            histogram.count += 1;
            histogram.sum += value;
            histogram.sum_squares += value * value;
            counts[(zero + limits.place(value)) as usize] += 1;
        }
        let places = (-zero..).zip(counts);
        histogram.buckets = places.filter(|&(_, count)| count > 0).collect();
        histogram
    }

    /// How many values are finite.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many are not.
    pub fn not_finite(&self) -> u64 {
        self.not_finite
    }

    pub(super) fn message(&self) -> HistogramProto {
        let (mut bucket_limit, mut bucket): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
        for &(place, count) in &self.buckets {
            // where the values before this bucket end, so that a gap is not drawn as a part of it
            let before = lower(place);
            if bucket_limit.last().is_none_or(|&last| last < before) {
                bucket_limit.push(before);
                bucket.push(0.0);
            }
            bucket_limit.push(upper(place));
            bucket.push(count as f64);
        }
        let Self { min, max, count, sum, sum_squares, .. } = *self;
        let (min, max) = if count == 0 { (0.0, 0.0) } else { (min, max) };
        HistogramProto { min, max, num: count as f64, sum, sum_squares, bucket_limit, bucket }
    }
}

fn limit(number: i32) -> f64 {
    SMALLEST * GROWTH.powi(number)
}

fn upper(place: i32) -> f64 {
    if place >= 0 { limit(place) } else { -limit(-place - 1) }
}

fn lower(place: i32) -> f64 {
    match place {
        0 => -SMALLEST,
        1.. => limit(place - 1),
        _ => -limit(-place),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket() {
        let values = [0.0, 1e-13, -1e-13, 1e-12, 1.0, -1.0, 0.3, -7.25e4, 3e19, -1e-6];
        for value in values {
            let place = LIMITS.place(value);
            let (below, above) = (lower(place), upper(place));
            assert!(below <= value && value <= above, "{below} {value} {above}");
        }
        let message = Histogram::of(&values.map(|value| value as f32)).message();
        assert_eq!(message.bucket.iter().sum::<f64>(), 10.0);
        assert!(message.bucket_limit.is_sorted_by(|a, b| a < b), "{:?}", message.bucket_limit);
        assert_eq!((message.min, message.num), (-72500.0, 10.0));
    }

    #[test]
    fn places_are_those_of_a_search_through_all_limits() {
        let by_search = |value: f64| LIMITS.values.partition_point(|&limit| limit <= value) as i32;
        let sizes = (0..20_000).map(|number| 1e-12 * 1.0037_f64.powi(number)).take_while(|&size| size <= LARGEST);
        for size in sizes.chain(LIMITS.values.iter().copied().filter(|&limit| limit <= LARGEST)).chain([LARGEST]) {
            assert_eq!(LIMITS.place(size), by_search(size), "{size}");
            assert_eq!(LIMITS.place(-size), -by_search(size), "{size}");
        }
        assert_eq!(LIMITS.place(f64::from(f32::MAX)), by_search(LARGEST));
    }

    #[test]
    fn nothing_is_an_empty_histogram() {
        let message = Histogram::of(&[f32::NAN]).message();
        assert_eq!((message.num, message.min, message.bucket.len()), (0.0, 0.0, 0));
    }
}
