//! How likely a target is under a distribution.

use super::{Reduction, Tensor};

impl Tensor {
    /// The divergence from `self` (logarithms of probabilities) to `target` (probabilities, or with `log_target` their
    /// logarithms), element by element: `t · (ln t − x)`, 0 where `t` is.
    ///
    /// As in PyTorch the mean is over elements; the divergence of distributions is the sum over the batch's size (its
    /// `batchmean`).
    #[track_caller]
    #[must_use]
    pub fn kl_div(&self, target: &Self, log_target: bool, reduction: Reduction) -> Self {
        let [x, target] = &self.alike("kl_div", target);
        let losses = if log_target {
            target.exp() * (target - x)
        } else {
            let empty = target.eq(0.0);
            empty.where_(0.0, target * empty.where_(1.0, target).log()) - target * x
        };
        reduction.apply(&losses)
    }

    /// The negative logarithm of the Poisson probability of `target` at the rate `e^x` (`log_input`) or `x`: `e^x − t ·
    /// x`, or `x − t · ln(x + epsilon)` (PyTorch's default: 1e-8); with `full` plus Stirling's approximation of `ln
    /// t!`, `t ln t − t + 0.5 ln(2 π t)`, where `t > 1`.
    #[track_caller]
    #[must_use]
    pub fn poisson_nll_loss(
        &self,
        target: &Self,
        log_input: bool,
        full: bool,
        epsilon: f64,
        reduction: Reduction,
    ) -> Self {
        let [x, target] = &self.alike("poisson_nll_loss", target);
        let mut losses = if log_input { x.exp() - target * x } else { x - target * (x + epsilon).log() };
        if full {
            let large = target.gt(1.0);
            let t = large.where_(target, 1.0);
            let stirling = &t * t.log() - &t + (&t * std::f64::consts::TAU).log() * 0.5;
            losses += large.where_(stirling, 0.0);
        }
        reduction.apply(&losses)
    }

    /// The negative logarithm of the normal density of `target` around `self` with variances `variance`: `0.5 · (ln v +
    /// (x − t)² / v)`, with `full` plus `0.5 ln(2 π)`. Variances below `epsilon` (PyTorch's default: 1e-6) count as
    /// that much, with their own gradient. `variance` is a single number, or has the shape of `self`, where axes of 1
    /// broadcast, or all its axes but the last one.
    ///
    /// # Panics
    /// If the shapes do not fit.
    #[track_caller]
    #[must_use]
    pub fn gaussian_nll_loss(
        &self,
        target: &Self,
        variance: &Self,
        full: bool,
        epsilon: f64,
        reduction: Reduction,
    ) -> Self {
        let [x, target] = &self.alike("gaussian_nll_loss", target);
        let (own, given) = (x.shape().dims(), variance.shape().dims());
        let of_rows = own.split_last().is_some_and(|(_, rows)| rows == given);
        let broadcasts =
            given.len() == own.len() && given.iter().zip(own).all(|(&size, own)| size == 1 || size == *own);
        assert!(
            of_rows || broadcasts || given.is_empty(),
            "gaussian_nll_loss: variances {} for {}",
            variance.shape(),
            x.shape()
        );
        let variance = variance.full_precision();
        let variance = if of_rows { &variance.unsqueeze(-1) } else { &variance };
        let v = variance.maximum(epsilon).with_gradient(&[variance], |_, _, g| vec![Some(g.clone())]);
        let mut losses = (v.log() + (x - target).square() / v) * 0.5;
        if full {
            losses += 0.5 * std::f64::consts::TAU.ln();
        }
        reduction.apply(&losses)
    }
}
