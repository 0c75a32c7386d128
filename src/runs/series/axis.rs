//! Horizontal axes.

use std::ops::{Range, RangeInclusive};

use super::Series;

/// What the horizontal axis counts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum XAxis {
    /// Training steps.
    #[default]
    Step,
    /// Passes over the training data, with fractions.
    Epoch,
    /// Seconds since the run began.
    Time,
}

impl XAxis {
    pub(super) const ALL: [Self; 3] = [Self::Step, Self::Epoch, Self::Time];

    /// What it counts.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Epoch => "epoch",
            Self::Time => "seconds",
        }
    }

    /// This axis, drawn by its logarithm.
    pub fn log(self) -> Axis {
        Axis { of: self, log: true }
    }
}

/// How the horizontal axis is drawn: what is told apart, in a picture so many points wide, depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Axis {
    /// What it counts.
    pub of: XAxis,
    /// Whether it is drawn by its logarithm. Places are given and returned as they are; those that are not positive
    /// have no logarithm and are left out.
    pub log: bool,
}

impl From<XAxis> for Axis {
    fn from(of: XAxis) -> Self {
        Self { of, log: false }
    }
}

impl Axis {
    /// Where on the picture a place is, but for a factor.
    pub(super) fn scaled(self, x: f64) -> f64 {
        if self.log { x.max(f64::MIN_POSITIVE).ln() } else { x }
    }
}

/// A part of a series that is to be drawn.
pub(super) struct Part {
    pub(super) axis: Axis,
    /// Where it lies in the series.
    pub(super) indices: Range<usize>,
    /// Whether the places are in order; if not, some of the part may lie outside of the range.
    pub(super) sorted: bool,
    pub(super) range: RangeInclusive<f64>,
    /// How far points of one bucket may lie apart: on the picture, or, if they are not in order, in the series.
    pub(super) width: f64,
}

impl Part {
    /// Where a point is: on the picture, or, if points are not in order, in the series. Nowhere (NaN) is a neighbour of
    /// the range, which is a bucket of its own.
    pub(super) fn place(&self, series: &Series, index: usize) -> f64 {
        if !self.sorted {
            return index as f64;
        }
        let x = series.x(self.axis.of, index);
        if self.range.contains(&x) { self.axis.scaled(x) } else { f64::NAN }
    }

    /// The place of a point, if it belongs into the picture.
    pub(super) fn shown(&self, series: &Series, index: usize) -> Option<f64> {
        let x = series.x(self.axis.of, index);
        let drawn = self.sorted || self.range.contains(&x) && (!self.axis.log || x > 0.0);
        drawn.then_some(x)
    }
}
