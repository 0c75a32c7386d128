//! Histories of numbers, drawn in time that does not grow with them.

mod axis;
mod band;
mod blocks;
mod decimate;
mod smooth;
#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;

pub use axis::{Axis, XAxis};
pub use band::{BandPoint, band};
use blocks::Node;

/// One entry of a [`Series`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// Training steps done.
    pub step: u64,
    /// Passes over the training data done; NaN where that is not known.
    pub epoch: f32,
    /// Seconds since the run began. A series keeps 24 bits of them.
    pub seconds: f64,
    /// The number.
    pub value: f64,
}

/// A history of numbers: points are only added at its end, in any order of their steps. A point takes 20 bytes (24 from
/// the first step on that is no `u32`), and summaries of blocks of points 3 more.
///
/// ```
/// use brasa::runs::{Point, Series, XAxis};
///
/// let mut series = Series::new();
/// for step in 0..100_000 {
///     let value = if step == 41_234 { 9.0 } else { 1.0 };
///     series.push(Point { step, epoch: f32::NAN, seconds: step as f64 * 0.01, value });
/// }
/// let mut drawn = Vec::new();
/// series.decimated(XAxis::Step, 0.0..=1e5, 400, &mut drawn);
/// assert!(drawn.len() <= 400 && drawn.contains(&[41_234.0, 9.0]));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Series {
    steps: Steps,
    epochs: Vec<f32>,
    seconds: Vec<f32>,
    values: Vec<f64>,
    /// Summaries of blocks, see [`blocks`].
    levels: Vec<Vec<Node>>,
    finite: Option<[f64; 2]>,
    axes: [Extent; 3],
}

/// Steps, in as few bytes as they need so far.
#[derive(Clone, Debug)]
enum Steps {
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

/// What is known of the places on an axis.
#[derive(Clone, Copy, Debug)]
struct Extent {
    /// Least and greatest place.
    bounds: Option<[f64; 2]>,
    /// Whether every point has a place, none before that of an earlier one.
    sorted: bool,
}

impl Default for Steps {
    fn default() -> Self {
        Self::Narrow(Vec::new())
    }
}

impl Default for Extent {
    fn default() -> Self {
        Self { bounds: None, sorted: true }
    }
}

impl Steps {
    fn push(&mut self, step: u64) {
        match (self, u32::try_from(step)) {
            (Self::Narrow(steps), Ok(step)) => steps.push(step),
            (Self::Wide(steps), _) => steps.push(step),
            (this @ Self::Narrow(_), Err(_)) => {
                let mut wide: Vec<u64> = (0..this.len()).map(|index| this.at(index)).collect();
                wide.push(step);
                *this = Self::Wide(wide);
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Narrow(steps) => steps.len(),
            Self::Wide(steps) => steps.len(),
        }
    }

    fn at(&self, index: usize) -> u64 {
        match self {
            Self::Narrow(steps) => steps[index].into(),
            Self::Wide(steps) => steps[index],
        }
    }
}

impl Extent {
    fn add(&mut self, x: f64) {
        if x.is_nan() {
            self.sorted = false;
            return;
        }
        let [low, high] = self.bounds.unwrap_or([x, x]);
        self.sorted &= x >= high;
        self.bounds = Some([low.min(x), high.max(x)]);
    }
}

impl Series {
    /// Without points.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a point.
    pub fn push(&mut self, point: Point) {
        self.steps.push(point.step);
        // a place that is not finite is none
        let finite = |x: f32| if x.is_finite() { x } else { f32::NAN };
        self.epochs.push(finite(point.epoch));
        self.seconds.push(finite(point.seconds as f32));
        self.values.push(point.value);
        if point.value.is_finite() {
            let [low, high] = self.finite.unwrap_or([point.value; 2]);
            self.finite = Some([low.min(point.value), high.max(point.value)]);
        }
        let index = self.len() - 1;
        for axis in XAxis::ALL {
            let x = self.x(axis, index);
            self.axes[axis as usize].add(x);
        }
        self.summarize();
    }

    /// Number of points.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The point that was added last.
    pub fn last(&self) -> Option<Point> {
        Some(self.at(self.len().checked_sub(1)?))
    }

    /// The least finite value.
    pub fn min(&self) -> Option<f64> {
        self.finite.map(|[low, _]| low)
    }

    /// The greatest finite value.
    pub fn max(&self) -> Option<f64> {
        self.finite.map(|[_, high]| high)
    }

    /// The points in the order in which they were added.
    pub fn points(&self) -> impl Iterator<Item = Point> + '_ {
        (0..self.len()).map(|index| self.at(index))
    }

    /// The least and the greatest place on an axis; `None` if none is known.
    pub fn bounds(&self, axis: XAxis) -> Option<[f64; 2]> {
        self.axes[axis as usize].bounds
    }

    /// The point whose place is nearest to `x`; the earlier one of two.
    pub fn nearest(&self, axis: XAxis, x: f64) -> Option<Point> {
        let distance = |index: &usize| (self.x(axis, *index) - x).abs();
        if !self.axes[axis as usize].sorted {
            let known = (0..self.len()).filter(|index| !distance(index).is_nan());
            return known.min_by(|a, b| distance(a).total_cmp(&distance(b))).map(|index| self.at(index));
        }
        let after = self.first_where(axis, |place| place >= x);
        let mut around = (after.saturating_sub(1)..self.len().min(after + 1)).filter(|index| !distance(index).is_nan());
        let first = around.next()?;
        let nearest = around.fold(first, |best, index| if distance(&index) < distance(&best) { index } else { best });
        Some(self.at(nearest))
    }

    /// Adds the points of another series at the end.
    pub(crate) fn append(&mut self, other: Self) {
        if self.is_empty() {
            *self = other;
        } else {
            other.points().for_each(|point| self.push(point));
        }
    }

    /// Drops the points of this step and of later ones.
    pub(crate) fn cut(&mut self, step: u64) {
        if self.axes[XAxis::Step as usize].bounds.is_some_and(|[_, last]| last >= step as f64) {
            let mut kept = Self::new();
            self.points().filter(|point| point.step < step).for_each(|point| kept.push(point));
            *self = kept;
        }
    }

    fn at(&self, index: usize) -> Point {
        Point {
            step: self.steps.at(index),
            epoch: self.epochs[index],
            seconds: self.seconds[index].into(),
            value: self.values[index],
        }
    }

    /// The place of a point.
    fn x(&self, axis: XAxis, index: usize) -> f64 {
        match axis {
            XAxis::Step => match &self.steps {
                Steps::Narrow(steps) => steps[index].into(),
                Steps::Wide(steps) => steps[index] as f64,
            },
            XAxis::Epoch => self.epochs[index].into(),
            XAxis::Time => self.seconds[index].into(),
        }
    }

    /// On a sorted axis, the first index whose place is as asked, which it stays from then on.
    fn first_where(&self, axis: XAxis, is: impl Fn(f64) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if is(self.x(axis, middle)) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// The part of the series that is to be drawn for a range of places, and how fine.
    fn part(&self, axis: Axis, range: &RangeInclusive<f64>, buckets: usize) -> Option<axis::Part> {
        let [least, greatest] = self.bounds(axis.of)?;
        // as a NaN compares
        if range.is_empty() {
            return None;
        }
        let sorted = self.axes[axis.of as usize].sorted;
        let (first, end, extent);
        if sorted {
            let from = if axis.log { self.first_where(axis.of, |x| x > 0.0) } else { 0 };
            // a neighbour on either side, so that lines go on to the edge
            first = self.first_where(axis.of, |x| x >= *range.start()).saturating_sub(1).max(from);
            end = (self.first_where(axis.of, |x| x > *range.end()) + 1).min(self.len());
            let start = if from < self.len() { self.x(axis.of, from) } else { least };
            extent = axis.scaled(range.end().min(greatest)) - axis.scaled(range.start().max(start));
        } else {
            let inside = |index: &usize| range.contains(&self.x(axis.of, *index));
            first = (0..self.len()).find(inside)?;
            end = (0..self.len()).rev().find(inside)? + 1;
            extent = (end - first) as f64;
        }
        let width = extent.max(0.0) / buckets.max(1) as f64;
        (first < end).then(|| axis::Part { axis, indices: first..end, sorted, range: range.clone(), width })
    }
}
