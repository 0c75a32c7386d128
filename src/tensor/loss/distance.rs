//! How far from a target, element by element.

use super::{Reduction, Tensor};

impl Tensor {
    /// The squared distance to `target`.
    #[track_caller]
    #[must_use]
    pub fn mse_loss(&self, target: &Self, reduction: Reduction) -> Self {
        let [x, target] = self.alike("mse_loss", target);
        reduction.apply(&(x - target).square())
    }

    /// The absolute distance to `target`.
    #[track_caller]
    #[must_use]
    pub fn l1_loss(&self, target: &Self, reduction: Reduction) -> Self {
        let [x, target] = self.alike("l1_loss", target);
        reduction.apply(&(x - target).abs())
    }

    /// `0.5 d² / beta` for distances below `beta` (PyTorch's default: 1), else `d − 0.5 beta`; with `beta` 0 the L1
    /// loss.
    ///
    /// # Panics
    ///
    /// If `beta` is negative.
    #[track_caller]
    #[must_use]
    pub fn smooth_l1_loss(&self, target: &Self, beta: f64, reduction: Reduction) -> Self {
        let [x, target] = self.alike("smooth_l1_loss", target);
        assert!(beta >= 0.0, "smooth_l1_loss: beta {beta} is negative");
        if beta == 0.0 {
            return x.l1_loss(&target, reduction);
        }
        let distance = (x - target).abs();
        let is_near = distance.lt(beta);
        // the square of infinity would bring NaN into the gradient, though nobody chooses it
        let near = is_near.where_(&distance, 0.0).square() * (0.5 / beta);
        reduction.apply(&is_near.where_(near, distance - 0.5 * beta))
    }

    /// `0.5 d²` for distances up to `delta` (PyTorch's default: 1), else `delta · (d − 0.5 delta)`.
    ///
    /// # Panics
    ///
    /// If `delta` is not positive.
    #[track_caller]
    #[must_use]
    pub fn huber_loss(&self, target: &Self, delta: f64, reduction: Reduction) -> Self {
        let [x, target] = self.alike("huber_loss", target);
        assert!(delta > 0.0, "huber_loss: delta {delta} is not positive");
        let distance = (x - target).abs();
        let is_near = distance.le(delta);
        let near = is_near.where_(&distance, 0.0).square() * 0.5;
        reduction.apply(&is_near.where_(near, (distance - 0.5 * delta) * delta))
    }
}
