//! Losses. Each has a reduction: the mean, the sum, or one value per element.

use super::Tensor;

/// What becomes of the losses of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Reduction {
    /// Their mean, of shape `[]`.
    #[default]
    Mean,
    /// Their sum, of shape `[]`.
    Sum,
    /// They stay apart.
    None,
}

impl Reduction {
    #[track_caller]
    fn apply(self, losses: &Tensor) -> Tensor {
        match self {
            Self::Mean => losses.mean(),
            Self::Sum => losses.sum(),
            Self::None => losses.clone(),
        }
    }
}

impl Tensor {
    /// `-ln softmax(self)[label]`, averaged: logits `[batch, classes, ...]` (or `[classes]`) and labels `[batch, ...]` as
    /// i32 or u32. A label outside `0..classes` becomes an error of the device.
    #[track_caller]
    #[must_use]
    pub fn cross_entropy(&self, labels: &Self) -> Self {
        self.cross_entropy_with(labels, 0.0, Reduction::Mean)
    }

    /// As [`Tensor::cross_entropy`], with `smoothing` of the target's weight spread evenly over all classes.
    #[track_caller]
    #[must_use]
    pub fn cross_entropy_with(&self, labels: &Self, smoothing: f64, reduction: Reduction) -> Self {
        let axis = self.class_axis("cross_entropy", labels);
        let classes = self.size(axis);
        let labels = labels.checked_index("cross_entropy", classes);
        let logits = self.floats();
        let picked = labels.is_class(&logits, axis).where_(&logits, 0.0).sum_dim(axis);
        let mut losses = logits.logsumexp(axis) - picked * (1.0 - smoothing);
        if smoothing > 0.0 {
            losses = losses - logits.mean_dim(axis) * smoothing;
        }
        let losses = losses.with_gradient(&[&logits, &labels], move |_, inputs, g| {
            let [logits, labels] = inputs else { unreachable!("given two inputs") };
            let spread = smoothing / classes as f64;
            let target = labels.is_class(logits, axis).where_(logits.full_like(1.0 - smoothing + spread), spread);
            vec![Some((logits.softmax(axis) - target) * g.unsqueeze(axis)), None]
        });
        reduction.apply(&losses)
    }

    /// True where the coordinate of `logits` along `axis` is this label.
    #[track_caller]
    fn is_class(&self, logits: &Self, axis: isize) -> Self {
        let position = Self::iota(logits.shape(), axis.cast_unsigned(), logits.device()).to_dtype(self.dtype());
        position.eq(self.unsqueeze(axis))
    }

    /// `-Σ target · ln softmax(self)`, averaged over the rest: logits and targets (probabilities) `[batch, classes, ...]`.
    #[track_caller]
    #[must_use]
    pub fn cross_entropy_soft(&self, targets: &Self, reduction: Reduction) -> Self {
        assert!(
            self.shape() == targets.shape() && self.rank() > 0,
            "cross_entropy_soft: {} with targets {}",
            self.shape(),
            targets.shape()
        );
        let axis = isize::from(self.rank() > 1);
        reduction.apply(&-(targets * self.log_softmax(axis)).sum_dim(axis))
    }

    /// `-self[label]`, averaged, for logarithms of probabilities `[batch, classes, ...]`.
    #[track_caller]
    #[must_use]
    pub fn nll_loss(&self, labels: &Self, reduction: Reduction) -> Self {
        let axis = self.class_axis("nll_loss", labels);
        let labels = labels.unsqueeze(axis);
        reduction.apply(&-self.gather(axis, &labels).squeeze(axis))
    }

    /// The squared distance to `target`.
    #[track_caller]
    #[must_use]
    pub fn mse_loss(&self, target: &Self, reduction: Reduction) -> Self {
        self.assert_same_shape("mse_loss", target);
        reduction.apply(&(self - target).square())
    }

    /// The absolute distance to `target`.
    #[track_caller]
    #[must_use]
    pub fn l1_loss(&self, target: &Self, reduction: Reduction) -> Self {
        self.assert_same_shape("l1_loss", target);
        reduction.apply(&(self - target).abs())
    }

    /// The cross-entropy of `sigmoid(self)` and the probabilities `target`, without overflow.
    #[track_caller]
    #[must_use]
    pub fn binary_cross_entropy_with_logits(&self, target: &Self, reduction: Reduction) -> Self {
        self.assert_same_shape("binary_cross_entropy_with_logits", target);
        reduction.apply(&(self.softplus() - self * target))
    }

    #[track_caller]
    fn assert_same_shape(&self, name: &str, target: &Self) {
        // Broadcasting [n, 1] against [n] would silently compare all pairs.
        assert!(self.shape() == target.shape(), "{name}: {} with target {}", self.shape(), target.shape());
    }

    /// The class axis of logits, whose other axes are those of the labels.
    #[track_caller]
    fn class_axis(&self, name: &str, labels: &Self) -> isize {
        let axis = usize::from(self.rank() > 1);
        let fits = self.rank() > 0 && {
            let mut rest = self.shape().to_vec();
            rest.remove(axis);
            rest == labels.shape().dims()
        };
        assert!(fits, "{name}: {} with labels {}", self.shape(), labels.shape());
        axis.cast_signed()
    }
}
