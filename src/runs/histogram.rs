//! What is said of a distribution as a whole.

use super::RecordedHistogram;

impl RecordedHistogram {
    /// How many values there were.
    pub fn count(&self) -> f64 {
        self.buckets.iter().map(|bucket| bucket.count).sum()
    }

    /// The value below which this part (0 to 1) of all values lies, if they lie evenly within each bucket; NaN if there
    /// are none.
    pub fn quantile(&self, part: f64) -> f64 {
        let mut below = part.clamp(0.0, 1.0) * self.count();
        let filled = || self.buckets.iter().filter(|bucket| bucket.count > 0.0);
        for bucket in filled() {
            if below <= bucket.count {
                return bucket.left + (bucket.right - bucket.left) * below / bucket.count;
            }
            below -= bucket.count;
        }
        filled().next_back().map_or(f64::NAN, |last| last.right)
    }

    /// The root of the mean square of the values, each in the middle of its bucket; 0 if there are none.
    pub fn root_mean_square(&self) -> f64 {
        let middle = |left: f64, right: f64| 0.5 * (left + right);
        let squares: f64 =
            self.buckets.iter().map(|bucket| bucket.count * middle(bucket.left, bucket.right).powi(2)).sum();
        (squares / self.count().max(f64::MIN_POSITIVE)).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::tensorboard::Bucket;

    fn histogram(buckets: &[(f64, f64, f64)]) -> RecordedHistogram {
        let bucket = |&(left, right, count): &(f64, f64, f64)| Bucket { left, right, count };
        RecordedHistogram { step: 0, seconds: 0.0, buckets: buckets.iter().map(bucket).collect() }
    }

    #[test]
    fn quantiles_lie_evenly_in_their_buckets() {
        let of = histogram(&[(0.0, 1.0, 2.0), (1.0, 3.0, 0.0), (3.0, 5.0, 2.0)]);
        assert_eq!([0.0, 0.25, 0.5, 0.75, 1.0].map(|part| of.quantile(part)), [0.0, 0.5, 1.0, 4.0, 5.0]);
        assert!(histogram(&[]).quantile(0.5).is_nan());
    }

    #[test]
    fn the_mean_square_is_of_the_middles() {
        assert_eq!(histogram(&[(-2.0, 0.0, 1.0), (6.0, 8.0, 1.0)]).root_mean_square(), 5.0);
        assert_eq!(histogram(&[]).root_mean_square(), 0.0);
    }
}
