//! Several series as one, such as runs that differ in their seeds.

use std::ops::RangeInclusive;

use super::{Axis, Series};

/// What several series say of one place.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BandPoint {
    /// The place.
    pub x: f64,
    /// Mean of the series that have something there.
    pub mean: f64,
    /// The least of them.
    pub low: f64,
    /// The greatest.
    pub high: f64,
}

/// Mean, least and greatest of several series, each smoothed with `weight` (0 leaves it as it is), at the places of the
/// longest one, at most about `most`. Between two of its own points a series is taken to be a line; before its first
/// and after its last it does not count.
pub fn band(
    series: &[&Series],
    axis: impl Into<Axis>,
    range: RangeInclusive<f64>,
    weight: f64,
    most: usize,
) -> Vec<BandPoint> {
    let axis = axis.into();
    let curve = |series: &&Series| {
        let mut curve = Vec::new();
        series.smoothed(axis, range.clone(), weight, most, &mut curve);
        curve.retain(|[_, y]| !y.is_nan());
        if !curve.is_sorted_by(|a, b| a[0] <= b[0]) {
            curve.sort_by(|a, b| a[0].total_cmp(&b[0]));
        }
        curve
    };
    let curves: Vec<Vec<[f64; 2]>> = series.iter().map(curve).collect();
    let Some(longest) = curves.iter().max_by_key(|curve| curve.len()) else { return Vec::new() };
    let mut cursors = vec![0; curves.len()];
    let mut places = longest.iter().map(|[x, _]| *x).collect::<Vec<_>>();
    places.dedup();
    let at = |x| {
        let values = curves.iter().zip(&mut cursors).filter_map(|(curve, cursor)| value(curve, cursor, x));
        let (mut sum, mut count, mut low, mut high) = (0.0, 0.0, f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            (sum, count) = (sum + value, count + 1.0);
            (low, high) = (low.min(value), high.max(value));
        }
        BandPoint { x, mean: (sum / count).max(low).min(high), low, high }
    };
    places.into_iter().map(at).collect()
}

/// The value of a curve at `x`, which does not become smaller from call to call.
fn value(curve: &[[f64; 2]], cursor: &mut usize, x: f64) -> Option<f64> {
    while curve.get(*cursor + 1).is_some_and(|next| next[0] <= x) {
        *cursor += 1;
    }
    let [x0, y0] = *curve.get(*cursor).filter(|point| point[0] <= x)?;
    match curve.get(*cursor + 1) {
        _ if x0 == x => Some(y0),
        Some([x1, y1]) => Some(y0 + (y1 - y0) * ((x - x0) / (x1 - x0))),
        None => None,
    }
}
