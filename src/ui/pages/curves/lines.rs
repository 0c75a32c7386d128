//! Points of lines that were worked out in an earlier frame: most frames show what the one before did.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::runs::{Axis, Series};

/// Lines that are kept; beyond that, all are worked out anew.
const MOST: usize = 4096;

/// Lines by run, tag, and whether they are smoothed.
#[derive(Default)]
pub(super) struct Lines {
    known: RefCell<HashMap<(PathBuf, String, bool), Known>>,
}

struct Known {
    view: View,
    points: Rc<[[f64; 2]]>,
}

/// What the points of a line depend on, beside its run and tag.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct View {
    /// The recording's.
    pub(super) version: u64,
    pub(super) axis: Axis,
    pub(super) range: RangeInclusive<f64>,
    pub(super) most: usize,
    /// Weight of the past in the moving average; `None` for the values as they are.
    pub(super) weight: Option<f64>,
}

impl Lines {
    /// The points of this line in this view.
    pub(super) fn points(&self, run: &Path, tag: &str, series: &Series, view: View) -> Rc<[[f64; 2]]> {
        let mut known = self.known.borrow_mut();
        if known.len() > MOST {
            known.clear();
        }
        let key = (run.to_owned(), tag.to_owned(), view.weight.is_some());
        if let Some(known) = known.get(&key).filter(|known| known.view == view) {
            return Rc::clone(&known.points);
        }
        let mut points = Vec::new();
        let range = view.range.clone();
        match view.weight {
            None => series.decimated(view.axis, range, view.most, &mut points),
            Some(weight) => series.smoothed(view.axis, range, weight, view.most, &mut points),
        }
        let points: Rc<[[f64; 2]]> = points.into();
        known.insert(key, Known { view, points: Rc::clone(&points) });
        points
    }

    /// What the smoothed line says nearest to `x`, as it was drawn last.
    pub(super) fn smoothed_at(&self, run: &Path, tag: &str, x: f64) -> Option<f64> {
        let known = self.known.borrow();
        let points = &known.get(&(run.to_owned(), tag.to_owned(), true))?.points;
        let distance = |point: &&[f64; 2]| (point[0] - x).abs();
        let nearest = points.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
        nearest[1].is_finite().then_some(nearest[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::{Point, XAxis};

    #[test]
    fn a_line_is_worked_out_again_when_something_changed() {
        let mut series = Series::new();
        let point = |step| Point { step, epoch: 0.0, seconds: 0.0, value: 1.0 };
        series.push(point(1));
        let lines = Lines::default();
        let all = f64::NEG_INFINITY..=f64::INFINITY;
        let view = View { version: 1, axis: XAxis::Step.into(), range: all, most: 100, weight: None };
        let points = |series: &Series, view: &View| lines.points("run".as_ref(), "loss", series, view.clone());
        let first = points(&series, &view);
        series.push(point(2));
        assert!(Rc::ptr_eq(&first, &points(&series, &view)), "nobody has said that something changed");
        let grown = points(&series, &View { version: 2, ..view.clone() });
        assert_eq!((first.len(), grown.len()), (1, 2));
        let smooth = View { version: 2, weight: Some(0.5), ..view.clone() };
        assert_eq!(lines.smoothed_at("run".as_ref(), "loss", 1.0), None, "it was not drawn");
        assert!(!Rc::ptr_eq(&grown, &points(&series, &smooth)));
        assert_eq!(lines.smoothed_at("run".as_ref(), "loss", 1.4), Some(1.0));
        assert!(Rc::ptr_eq(&grown, &points(&series, &View { version: 2, ..view })), "beside its smoothed one");
    }
}
