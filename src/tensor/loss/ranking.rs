//! What should be larger, closer or on the right side, by a margin.

use super::{Reduction, Tensor};

/// How [`Tensor::triplet_margin_loss`] measures; defaults are PyTorch's.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TripletMargin {
    /// By how much farther the negative should be.
    pub margin: f64,
    /// Which norm of the difference.
    pub p: f64,
    /// Added to each difference.
    pub epsilon: f64,
    /// Counts the distance from positive to negative, too, if that is smaller (Balntas et al. 2016).
    pub swap: bool,
    /// What becomes of the losses.
    pub reduction: Reduction,
}

impl Default for TripletMargin {
    fn default() -> Self {
        Self { margin: 1.0, p: 2.0, epsilon: 1e-6, swap: false, reduction: Reduction::Mean }
    }
}

impl Tensor {
    /// `x` where the target is 1, `max(0, margin − x)` where it is -1 (PyTorch's default margin: 1).
    #[track_caller]
    #[must_use]
    pub fn hinge_embedding_loss(&self, target: &Self, margin: f64, reduction: Reduction) -> Self {
        self.assert_same_shape("hinge_embedding_loss", target);
        let (alike, other) = (target.eq(1.0), target.eq(-1.0));
        reduction.apply(&(alike.where_(self, 0.0) + other.where_((margin - self).hinge(), 0.0)))
    }

    /// `max(0, -y · (self − other) + margin)`: `self` should be larger where `y` is 1, smaller where it is -1
    /// (PyTorch's default margin: 0).
    #[track_caller]
    #[must_use]
    pub fn margin_ranking_loss(&self, other: &Self, target: &Self, margin: f64, reduction: Reduction) -> Self {
        let [x, other] = &self.alike("margin_ranking_loss", other);
        let [_, target] = &x.alike("margin_ranking_loss", target);
        reduction.apply(&((other - x) * target + margin).hinge())
    }

    /// The multi-class hinge loss of scores `[batch, classes]` (or `[classes]`) and labels `[batch]`: `Σ max(0, margin
    /// − x[label] + x[j])^p / classes` over the other classes j. PyTorch's defaults are 1 for both; `weight`
    /// (`[classes]`) multiplies by that of the label.
    ///
    /// # Panics
    ///
    /// If `p` is neither 1 nor 2.
    #[track_caller]
    #[must_use]
    pub fn multi_margin_loss(
        &self,
        labels: &Self,
        p: u32,
        margin: f64,
        weight: Option<&Self>,
        reduction: Reduction,
    ) -> Self {
        assert!(p == 1 || p == 2, "multi_margin_loss: p is {p}, not 1 or 2");
        let fits = self.rank() > 0 && labels.shape().dims() == &self.shape()[..self.rank() - 1];
        assert!(fits && self.rank() <= 2, "multi_margin_loss: {} with labels {}", self.shape(), labels.shape());
        let classes = self.size(-1);
        let is_label = labels.checked_index("multi_margin_loss", classes).one_hot_unchecked(classes);
        let right = is_label.where_(self, 0.0).sum_keepdim(-1);
        let short = (self - right + margin).hinge();
        let mut terms = is_label.where_(0.0, if p == 2 { short.square() } else { short });
        if let Some(weight) = weight {
            assert!(*weight.shape() == [classes].into(), "multi_margin_loss: weights {}", weight.shape());
            let weight = weight.expand(self.shape().clone());
            terms *= is_label.where_(weight, 0.0).sum_keepdim(-1);
        }
        reduction.apply(&(terms.sum_dim(-1) / classes as f64))
    }

    /// `1 − cos` of the angle between rows `[batch, features]` (or of vectors) where the target is 1,
    /// `max(0, cos − margin)` where it is -1 (PyTorch's default margin: 0). Squared lengths get 1e-12 added.
    #[track_caller]
    #[must_use]
    pub fn cosine_embedding_loss(&self, other: &Self, target: &Self, margin: f64, reduction: Reduction) -> Self {
        let [x, other] = &self.alike("cosine_embedding_loss", other);
        let fits = x.rank() > 0 && target.shape().dims() == &x.shape()[..x.rank() - 1];
        assert!(fits, "cosine_embedding_loss: {} with target {}", x.shape(), target.shape());
        // 1e-12 is 0 in f16
        let (dtype, x, other) = (x.dtype(), x.countable(), other.countable());
        let (own, others) = (x.square().sum_dim(-1) + 1e-12, other.square().sum_dim(-1) + 1e-12);
        let cosine = (x * other).sum_dim(-1) / (own * others).sqrt();
        let (alike, apart) = (target.eq(1.0), target.eq(-1.0));
        let losses = alike.where_(1.0 - &cosine, 0.0) + apart.where_((cosine - margin).hinge(), 0.0);
        reduction.apply(&losses.to_dtype(dtype))
    }

    /// The norm of the difference along the last axis.
    #[track_caller]
    fn distance(&self, other: &Self, options: &TripletMargin) -> Self {
        (self - other + options.epsilon).norm_dim(options.p, -1)
    }

    /// `max(0, ‖self − positive‖ − ‖self − negative‖ + margin)` over the last axis.
    #[track_caller]
    #[must_use]
    pub fn triplet_margin_loss(&self, positive: &Self, negative: &Self, options: &TripletMargin) -> Self {
        let [x, positive] = &self.alike("triplet_margin_loss", positive);
        let [_, negative] = &x.alike("triplet_margin_loss", negative);
        let mut far = x.distance(negative, options);
        if options.swap {
            far = far.minimum(positive.distance(negative, options));
        }
        options.reduction.apply(&(x.distance(positive, options) - far + options.margin).hinge())
    }
}
