//! How often values of each size occur, as TensorBoard draws it.

use super::proto::HistogramProto;

/// Smallest bucket limit, growth from one to the next, and largest limit: TensorFlow's, on either side of zero
/// (`tensorflow/core/lib/histogram/histogram.cc`).
const SMALLEST: f64 = 1e-12;
const GROWTH: f64 = 1.1;
const LARGEST: f64 = 1e20;

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
    /// Number of values in each bucket that is not empty, with its place: 0 for zero itself, `n` for positive values up to the
    /// `n`th limit, `-n` for negative ones.
    buckets: std::collections::BTreeMap<i32, u64>,
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
            buckets: std::collections::BTreeMap::new(),
        };
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
            *histogram.buckets.entry(place(value)).or_default() += 1;
        }
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
        for (&place, &count) in &self.buckets {
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

fn place(value: f64) -> i32 {
    let size = value.abs();
    if size < SMALLEST {
        return 0;
    }
    let number = ((size.min(LARGEST) / SMALLEST).ln() / GROWTH.ln()).floor() as i32 + 1;
    if value > 0.0 { number } else { -number }
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
            let (below, above) = (lower(place(value)), upper(place(value)));
            // limits are rounded
            let slack = 1e-9 * value.abs();
            assert!(below - slack <= value && value <= above + slack, "{below} {value} {above}");
        }
        let message = Histogram::of(&values.map(|value| value as f32)).message();
        assert_eq!(message.bucket.iter().sum::<f64>(), 10.0);
        assert!(message.bucket_limit.is_sorted_by(|a, b| a < b), "{:?}", message.bucket_limit);
        assert_eq!((message.min, message.num), (-72500.0, 10.0));
    }

    #[test]
    fn nothing_is_an_empty_histogram() {
        let message = Histogram::of(&[f32::NAN]).message();
        assert_eq!((message.num, message.min, message.bucket.len()), (0.0, 0.0, 0));
    }
}
