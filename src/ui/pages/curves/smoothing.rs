//! Which curves are smoothed: those that jump from step to step. A moving average of what is steady is only late.

use crate::runs::{Series, XAxis};

/// Curves of fewer points are drawn as they are.
const FEWEST: usize = 3;
/// First parts of names: means over an epoch, and what was measured once in a while.
const STEADY: [&str; 5] = ["epoch", "test", "validation", "stages", "dead"];
/// An epoch more or less, of numbers that were rounded.
const ROUNDING: f64 = 1.01;

/// Weight of the past in the moving average of a curve of training; `None` if it is drawn as it is.
pub(super) fn weight(chosen: f64, tag: &str, series: &[&Series]) -> Option<f64> {
    let jumps = |series: &&Series| series.len() >= FEWEST && !is_by_pass(series);
    (chosen > 0.0 && !is_steady(tag) && series.iter().any(jumps)).then_some(chosen)
}

/// Whether a name is that of a setting, a size or a mean.
fn is_steady(tag: &str) -> bool {
    let tag = tag.to_lowercase();
    let (first, last) = (tag.split('/').next().unwrap_or_default(), tag.rsplit('/').next().unwrap_or_default());
    // of other programs: `epoch_loss`, `lr-SGD`
    STEADY.contains(&first)
        || first.starts_with("epoch_")
        || matches!(last, "epoch" | "memory_bytes" | "loss_scale")
        || last.contains("learning_rate")
        || last.split(['-', '_']).next() == Some("lr")
}

/// Whether there is a point for each epoch, at most.
fn is_by_pass(series: &Series) -> bool {
    let passes = series.bounds(XAxis::Epoch).map(|[first, last]| last - first);
    passes.is_some_and(|passes| (series.len() - 1) as f64 <= ROUNDING * passes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::Point;

    fn series(points: u32, epoch: impl Fn(u32) -> f32) -> Series {
        let mut series = Series::new();
        for step in 0..points {
            series.push(Point { step: step.into(), epoch: epoch(step), seconds: 0.0, value: 1.0 });
        }
        series
    }

    #[test]
    fn what_is_steady_is_not_smoothed() {
        let noise = series(50, |step| step as f32 / 10.0);
        let weight = |tag| weight(0.6, tag, &[&noise]);
        for tag in ["loss/train", "loss", "gradient_norm", "samples_per_second", "Loss/G", "testing", "lrp"] {
            assert_eq!(weight(tag), Some(0.6), "{tag}");
        }
        let steady = ["learning_rate", "epoch/loss", "epoch/loss_scale", "loss_scale", "memory_bytes", "test/top5"];
        let others = ["stages/load_busy_ms", "dead/conv1", "epoch_accuracy", "lr-SGD", "train/learning_rate", "epoch"];
        for tag in steady.into_iter().chain(others) {
            assert_eq!(weight(tag), None, "{tag}");
        }
    }

    #[test]
    fn short_curves_and_those_by_pass_are_not_smoothed() {
        let weight = |series: &Series| weight(0.6, "loss", &[series]);
        assert_eq!(weight(&series(2, |_| f32::NAN)), None);
        assert_eq!(weight(&series(3, |_| f32::NAN)), Some(0.6), "passes are not known");
        assert_eq!(weight(&series(9, |pass| pass as f32)), None);
        assert_eq!(weight(&series(9, |step| step as f32 / 2.0)), Some(0.6));
        assert_eq!(super::weight(0.0, "loss", &[&series(9, |_| f32::NAN)]), None, "nobody wants it");
    }
}
