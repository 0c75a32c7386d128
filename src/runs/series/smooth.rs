//! Smoothed as TensorBoard does.

use std::ops::RangeInclusive;

use super::blocks::{Node, mean};
use super::decimate::{Piece, finite};
use super::{Axis, Series};

/// Buckets that follow each other are wider than one may be, two by two.
const SLACK: usize = 2;
/// Before the range, blocks are summarized whose distance from it is so many times their size: what happened in them
/// has lost nearly all of its weight, or varies little across them.
const FAR: usize = 16;
/// The weight is less than one, or the first value would stay for ever.
const MAX_WEIGHT: f64 = 1.0 - 1e-6;

/// An exponential moving average whose first values count as if there had been others before (`numAccum` in
/// TensorBoard's `classicSmoothing`): `weight` of what was, the rest of what comes, divided by the weights so far. It
/// is divided each time, and kept between what was and what comes, so that a constant stays what it is to the last bit.
struct Average {
    weight: f64,
    value: f64,
    weights: f64,
    /// What stays after so many values, as it was computed last: blocks come in few sizes.
    stays: (u32, f64),
}

impl Average {
    fn new(weight: f64) -> Self {
        let weight = if weight.is_nan() { 0.0 } else { weight.clamp(0.0, MAX_WEIGHT) };
        Self { weight, value: 0.0, weights: 0.0, stays: (1, weight) }
    }

    /// Takes in some values, each as if it were their mean. Values that are not finite count nowhere.
    fn add(&mut self, node: &Node) {
        if node.count == 0 {
            return;
        }
        if self.stays.0 != node.count {
            self.stays = (node.count, self.weight.powf(node.count.into()));
        }
        let (_, stays) = self.stays;
        let before = self.weights * stays;
        self.weights = before + (1.0 - stays);
        self.value = mean([self.value, node.mean], [before / self.weights, (1.0 - stays) / self.weights]);
    }
}

impl Series {
    /// An exponential moving average of the values, as TensorBoard's slider with this `weight` (0 to below 1) draws it,
    /// at most about `most` points `[x, y]` of it: all that are in `range`, and one more on either side. It begins at
    /// the first point of the series, wherever the range does. Points too close to be told apart are averaged first;
    /// where there are none, the values are TensorBoard's.
    ///
    /// Takes time for `most` points, as [`decimated`](Self::decimated) does.
    pub fn smoothed(
        &self,
        axis: impl Into<Axis>,
        range: RangeInclusive<f64>,
        weight: f64,
        most: usize,
        out: &mut Vec<[f64; 2]>,
    ) {
        out.clear();
        let Some(part) = self.part(axis.into(), &range, most / SLACK) else { return };
        let start = part.indices.start;
        let mut average = Average::new(weight);
        let far = |first| move |last| (last + 1 - first) * FAR <= start - last;
        for block in self.blocks(0..start, far) {
            average.add(&block.node);
        }
        let (mut last, mut any) = (0, false);
        self.pieces(&part, most, |piece| match piece {
            Piece::Block(block) => {
                average.add(&block.node);
                last = block.last;
                any |= block.node.count > 0;
            }
            Piece::End => {
                let value = if std::mem::take(&mut any) { finite(average.value) } else { f64::NAN };
                out.extend(part.shown(self, last).map(|x| [x, value]));
            }
        });
    }
}
