//! With which batch is a device at its best?

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use crate::device::Device;
use crate::error::{Error, Result};
use crate::train::ModelName;

use super::{Family, Method};

/// From one batch to the next.
const STRIDE: usize = 4;
/// Larger ones are not tried.
const LARGEST: usize = 16_384;
/// A rate that a batch sixteen times as large raises by less than this part rises no more.
const RISE: f64 = 0.05;

/// What a device trains in a second, batch by batch.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Growth {
    /// The device by selector.
    pub device: String,
    /// The network.
    pub model: ModelName,
    /// Samples in a batch, and seconds of a step, in the order of batches.
    pub points: Vec<(usize, f64)>,
    /// Why no larger batch was tried.
    pub ended: Ended,
}

/// Why a search for the best batch ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// Larger batches are no faster.
    Level,
    /// A step of the next one would take longer than so many seconds.
    Slow(f64),
    /// Larger ones are never tried.
    Largest,
    /// The next one could not be measured, because of this: there may not be enough memory.
    Failed(String),
}

impl Growth {
    /// The batch with which the device trains most samples a second, and how many.
    pub fn best(&self) -> (usize, f64) {
        best(&self.points)
    }

    /// The largest batch that was tried.
    pub fn largest(&self) -> usize {
        self.points.last().map_or(0, |(batch, _)| *batch)
    }
}

/// Goes on from `known` batches with larger ones until they are no faster, take too long for `method`, or fail. `tell`
/// hears of each before it is measured.
pub(super) fn growth(
    model: ModelName,
    device: &Device,
    known: Vec<(usize, f64)>,
    method: &Method,
    tell: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> Result<Growth> {
    let mut time = |batch: usize| {
        if tell(batch).is_break() {
            return Err(Error::stopped());
        }
        Family::Training(model).seconds(batch, device, method)
    };
    let points = if known.is_empty() { vec![(1, time(1)?)] } else { known };
    let (points, ended) = grow(points, method.longest_s, &mut time);
    Ok(Growth { device: device.info().selector.clone(), model, points, ended })
}

fn grow(
    mut points: Vec<(usize, f64)>,
    longest_s: f64,
    time: &mut dyn FnMut(usize) -> Result<f64>,
) -> (Vec<(usize, f64)>, Ended) {
    points.sort_by_key(|(batch, _)| *batch);
    loop {
        let (last, seconds) = points[points.len() - 1];
        let (_, best) = best(&points);
        let as_good = points.iter().find(|point| rate(point) * (1.0 + RISE) >= best).map_or(last, |(batch, _)| *batch);
        if last >= as_good.saturating_mul(STRIDE * STRIDE) {
            return (points, Ended::Level);
        }
        let next = last * STRIDE;
        if next > LARGEST {
            return (points, Ended::Largest);
        }
        // a step of a batch so much larger takes so much longer, but for what each step costs
        if seconds * STRIDE as f64 > longest_s {
            return (points, Ended::Slow(longest_s));
        }
        match time(next) {
            Ok(seconds) => points.push((next, seconds)),
            Err(error) => return (points, Ended::Failed(error.to_string())),
        }
    }
}

fn rate((batch, seconds): &(usize, f64)) -> f64 {
    *batch as f64 / seconds
}

fn best(points: &[(usize, f64)]) -> (usize, f64) {
    let rates = points.iter().map(|point| (point.0, rate(point)));
    rates.max_by(|(_, a), (_, b)| a.total_cmp(b)).unwrap_or((0, 0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn batches_grow_until_they_are_no_faster() {
        // a millisecond for each step, and a microsecond for each sample
        let mut time = |batch: usize| Ok(1e-3 + batch as f64 * 1e-6);
        let small = vec![(1, 1.001e-3), (4, 1.004e-3)];
        let (points, ended) = grow(small, 1e9, &mut time);
        assert_eq!(ended, Ended::Largest);
        let rate = best(&points).1;
        assert!(rate > 0.9e6, "{rate}: two sizes at which it is faster say nothing of the best one");
        let mut flat = |batch: usize| Ok(batch.max(64) as f64 * 1e-6);
        let (points, ended) = grow(vec![(1, 64e-6)], 1e9, &mut flat);
        assert_eq!((points.last().map(|point| point.0), ended), (Some(1024), Ended::Level));
    }

    #[test]
    fn what_ends_it_is_told() {
        let mut time = |batch: usize| if batch < 64 { Ok(1.0) } else { Err(Error::Config("no memory".into())) };
        let (points, ended) = grow(vec![(1, 1.0)], 1e9, &mut time);
        assert_eq!((points.len(), ended), (3, Ended::Failed(Error::Config("no memory".into()).to_string())));
        assert_eq!(grow(vec![(1, 1.0)], 3.0, &mut time), (vec![(1, 1.0)], Ended::Slow(3.0)));
    }
}
