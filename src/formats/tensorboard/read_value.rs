//! What the values of a summary mean: those of TensorFlow 1 and PyTorch, whose kind is the field they are in, and those
//! of TensorFlow 2 and Keras, which are tensors for a plugin.

use std::collections::HashMap;

use super::proto::{HistogramProto, ReadValue, TensorProto};
use super::read::Recorded;

/// Buckets kept of a histogram: more cannot be told apart where several are drawn behind each other.
const MAX_BUCKETS: usize = 64;
/// Tags whose plugins are remembered.
const MAX_TAGS: usize = 10_000;

/// How many values there are between two limits.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bucket {
    /// The lower limit.
    pub left: f64,
    /// The upper limit.
    pub right: f64,
    /// How many; a part of one where buckets were divided.
    pub count: f64,
}

/// What TensorBoard shows the values of a tag with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Plugin {
    Scalars,
    Histograms,
    Other,
}

/// What a value says, if it is a number or a histogram.
pub(super) fn interpret(value: ReadValue, plugins: &mut HashMap<String, Plugin>) -> Option<Recorded> {
    let ReadValue { tag, simple, histogram, tensor, metadata } = value;
    if let Some(value) = simple {
        return Some(Recorded::Scalar { tag, value: value.into() });
    }
    if let Some(histogram) = histogram {
        return Some(Recorded::Histogram { tag, buckets: old(&histogram) });
    }
    let tensor = tensor?;
    let named = metadata.and_then(|metadata| metadata.plugin_data).map(|data| match data.plugin_name.as_str() {
        "scalars" => Plugin::Scalars,
        "histograms" => Plugin::Histograms,
        _ => Plugin::Other,
    });
    let plugin = match named {
        Some(plugin) => {
            if plugins.len() < MAX_TAGS {
                plugins.insert(tag.clone(), plugin);
            }
            plugin
        }
        None => *plugins.get(&tag)?,
    };
    let numbers = numbers(&tensor)?;
    match plugin {
        Plugin::Scalars => numbers.first().map(|&value| Recorded::Scalar { tag, value }),
        Plugin::Histograms => {
            let rows = numbers.chunks_exact(3).map(|row| Bucket { left: row[0], right: row[1], count: row[2] });
            Some(Recorded::Histogram { tag, buckets: few(rows.collect()) })
        }
        Plugin::Other => None,
    }
}

/// The numbers of a tensor of f32 or f64. One that fills it all may stand for many, but in none of ours.
fn numbers(tensor: &TensorProto) -> Option<Vec<f64>> {
    let content = &tensor.content;
    match tensor.dtype {
        1 if content.is_empty() => Some(tensor.floats.iter().map(|&number| number.into()).collect()),
        1 => Some(content.chunks_exact(4).map(|bytes| bytemuck::pod_read_unaligned::<f32>(bytes).into()).collect()),
        2 if content.is_empty() => Some(tensor.doubles.clone()),
        2 => Some(content.chunks_exact(8).map(bytemuck::pod_read_unaligned).collect()),
        _ => None,
    }
}

/// A histogram as it was before TensorFlow 2: upper limits of buckets, which may be infinite in effect at both ends. As
/// TensorBoard does it (`_migrate_histogram_value`), empty buckets there are dropped, and the first and the last end
/// where the values do.
fn old(histogram: &HistogramProto) -> Vec<Bucket> {
    let counts = &histogram.bucket[..histogram.bucket.len().min(histogram.bucket_limit.len())];
    let full = |count: &f64| *count > 0.0;
    let (Some(first), Some(last)) = (counts.iter().position(full), counts.iter().rposition(full)) else {
        return Vec::new();
    };
    let inner = &histogram.bucket_limit[first..last];
    let lefts = std::iter::once(histogram.min).chain(inner.iter().copied());
    let rights = inner.iter().copied().chain([histogram.max]);
    let buckets = lefts.zip(rights).zip(&counts[first..=last]);
    few(buckets.map(|((left, right), &count)| Bucket { left, right, count }).collect())
}

/// No more than can be shown: others are divided among buckets of one width.
fn few(mut buckets: Vec<Bucket>) -> Vec<Bucket> {
    buckets.retain(|bucket| {
        let Bucket { left, right, count } = *bucket;
        left.is_finite() && right.is_finite() && left <= right && count.is_finite() && count >= 0.0
    });
    buckets.sort_by(|a, b| a.left.total_cmp(&b.left));
    let (Some(first), Some(last)) = (buckets.first(), buckets.last()) else { return buckets };
    let start = first.left;
    let end = buckets.iter().fold(last.right, |end, bucket| end.max(bucket.right));
    let width = end / MAX_BUCKETS as f64 - start / MAX_BUCKETS as f64;
    if buckets.len() <= MAX_BUCKETS || width <= 0.0 {
        buckets.truncate(MAX_BUCKETS);
        return buckets;
    }
    let limit = |place: usize| if place == MAX_BUCKETS { end } else { start + width * place as f64 };
    let mut even: Vec<Bucket> =
        (0..MAX_BUCKETS).map(|place| Bucket { left: limit(place), right: limit(place + 1), count: 0.0 }).collect();
    let place = |x: f64| (((x - start) / width) as usize).min(MAX_BUCKETS - 1);
    for bucket in buckets {
        for even in &mut even[place(bucket.left)..=place(bucket.right)] {
            let shared = bucket.right.min(even.right) - bucket.left.max(even.left);
            let part = shared.max(0.0) / (bucket.right - bucket.left);
            // what has no width lies in one bucket
            even.count += bucket.count * if part.is_nan() { 1.0 } else { part.min(1.0) };
        }
    }
    even
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_buckets_become_few_with_as_much_in_them() {
        let fine = |place: usize| Bucket {
            left: place as f64 / 100.0,
            right: (place + 1) as f64 / 100.0,
            count: (place % 7) as f64,
        };
        let buckets: Vec<_> = (0..1_000).map(fine).collect();
        let total: f64 = buckets.iter().map(|bucket| bucket.count).sum();
        let even = few(buckets);
        assert_eq!((even.len(), even[0].left, even[63].right), (64, 0.0, 10.0));
        assert!((even.iter().map(|bucket| bucket.count).sum::<f64>() - total).abs() < 1e-6);
        assert!(even.windows(2).all(|two| two[0].right == two[1].left));
    }

    #[test]
    fn limits_that_mean_everything_are_those_of_the_values() {
        let histogram = HistogramProto {
            min: -1.0,
            max: 3.0,
            bucket_limit: vec![-1e300, 0.0, 2.0, f64::MAX],
            bucket: vec![0.0, 2.0, 0.0, 5.0],
            ..Default::default()
        };
        let expected = [(-1.0, 0.0, 2.0), (0.0, 2.0, 0.0), (2.0, 3.0, 5.0)];
        let expected = expected.map(|(left, right, count)| Bucket { left, right, count });
        assert_eq!(old(&histogram), expected);
        assert!(old(&HistogramProto::default()).is_empty());
    }
}
