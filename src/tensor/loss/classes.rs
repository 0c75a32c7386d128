//! One right class of many.

use super::{Reduction, Tensor};
use crate::dtype::DType;

/// What [`Tensor::cross_entropy_with`] can do beyond the plain mean. Defaults are those of PyTorch's
/// `CrossEntropyLoss`, except that no label is ignored unless said so (there: -100).
#[derive(Clone, Debug, Default)]
pub struct CrossEntropy {
    /// Weights of the classes, `[classes]`. The mean is then over the weights of the labels.
    pub weight: Option<Tensor>,
    /// Positions with this label count nothing, neither in sums nor in means.
    pub ignore_index: Option<i32>,
    /// This part of the target's weight is spread evenly over all classes.
    pub label_smoothing: f64,
    /// What becomes of the losses.
    pub reduction: Reduction,
}

/// What [`Tensor::nll_loss_with`] can do beyond the plain mean: see [`CrossEntropy`].
#[derive(Clone, Debug, Default)]
pub struct NLLLoss {
    /// Weights of the classes, `[classes]`. The mean is then over the weights of the labels.
    pub weight: Option<Tensor>,
    /// Positions with this label count nothing, neither in sums nor in means.
    pub ignore_index: Option<i32>,
    /// What becomes of the losses.
    pub reduction: Reduction,
}

/// Labels that were checked, and which of them count.
struct Labels {
    labels: Tensor,
    kept: Option<Tensor>,
}

impl Labels {
    #[track_caller]
    fn new(name: &'static str, labels: &Tensor, classes: usize, ignore_index: Option<i32>) -> Self {
        // as i32: -100 would be 0 among unsigned ones
        let kept = ignore_index.map(|ignored| labels.to_dtype(DType::I32).ne(ignored));
        let inside = kept.as_ref().map_or_else(|| labels.clone(), |kept| kept.where_(labels, 0));
        Self { labels: inside.checked_index(name, classes), kept }
    }

    /// 0 where ignored.
    #[track_caller]
    fn mask(&self, values: &Tensor) -> Tensor {
        self.kept.as_ref().map_or_else(|| values.clone(), |kept| kept.where_(values, 0.0))
    }

    /// What is over what the labels weigh.
    #[track_caller]
    fn reduce(&self, losses: &Tensor, weights: Option<&Tensor>, reduction: Reduction) -> Tensor {
        if reduction != Reduction::Mean || weights.is_none() && self.kept.is_none() {
            return reduction.apply(losses);
        }
        let weights = weights.cloned().unwrap_or_else(|| losses.ones_like());
        losses.sum() / self.mask(&weights).sum()
    }
}

/// Weights of classes in a shape that broadcasts along `axis`.
#[track_caller]
fn along(weight: Option<&Tensor>, like: &Tensor, axis: isize, name: &str) -> Option<Tensor> {
    let weight = weight?;
    let (classes, rank) = (like.size(axis), like.rank());
    assert!(*weight.shape() == [classes].into(), "{name}: weights {} for {classes} classes", weight.shape());
    let mut shape = vec![1; rank];
    shape[axis.cast_unsigned()] = classes;
    Some(weight.reshape(shape))
}

impl Tensor {
    /// `-ln softmax(self)[label]`, averaged: logits `[batch, classes, ...]` (or `[classes]`) and labels `[batch, ...]`
    /// as i32 or u32. A label outside `0..classes` becomes an error of the device.
    #[track_caller]
    #[must_use]
    pub fn cross_entropy(&self, labels: &Self) -> Self {
        self.cross_entropy_with(labels, &CrossEntropy::default())
    }

    /// As [`Tensor::cross_entropy`], with weights of classes, an ignored label, label smoothing, another reduction:
    /// with `t = weight · ((1 − smoothing) · [label] + smoothing / classes)`, the loss of a position is `-Σ t · ln
    /// softmax(self)`. No gradient passes to the weights.
    #[track_caller]
    #[must_use]
    pub fn cross_entropy_with(&self, labels: &Self, options: &CrossEntropy) -> Self {
        let axis = self.class_axis("cross_entropy", labels);
        let classes = self.size(axis);
        let smoothing = options.label_smoothing;
        assert!((0.0..=1.0).contains(&smoothing), "cross_entropy: label_smoothing {smoothing} is not in 0..=1");
        let right = Labels::new("cross_entropy", labels, classes, options.ignore_index);
        let logits = self.floats().full_precision();
        let weight = along(options.weight.as_ref(), &logits, axis, "cross_entropy");
        let weight = weight.map(|weight| weight.detach());

        // everything by distance from the largest logit, so that small losses of large logits keep their digits
        let shifted = &logits - finite(&logits.max_keepdim(axis).detach());
        let log_sum = shifted.exp().sum_dim(axis).log();
        let is_label = right.labels.is_class(&logits, axis);
        let label_weight = weight.as_ref().map(|weight| is_label.pick(&weight.expand(logits.shape().clone()), axis));
        let mut losses = &log_sum - is_label.pick(&shifted, axis);
        if let Some(label_weight) = &label_weight {
            losses *= label_weight;
        }
        if smoothing > 0.0 {
            let all = match &weight {
                Some(weight) => log_sum * weight.sum() - (shifted * weight).sum_dim(axis),
                None => log_sum * classes as f64 - shifted.sum_dim(axis),
            };
            losses = losses * (1.0 - smoothing) + all * (smoothing / classes as f64);
        }
        let mut inputs = vec![&logits, &right.labels];
        inputs.extend(&right.kept);
        let is_masked = right.kept.is_some();
        inputs.extend(&weight);
        let losses = right.mask(&losses).with_gradient(&inputs, move |_, inputs, g| {
            let (logits, labels) = (&inputs[0], &inputs[1]);
            let g = if is_masked { inputs[2].where_(g, 0.0) } else { g.clone() };
            let weight = inputs.get(2 + usize::from(is_masked));
            let gradient = class_gradient(logits, labels, weight, smoothing, axis) * g.unsqueeze(axis);
            let mut gradients = vec![None; inputs.len()];
            gradients[0] = Some(gradient);
            gradients
        });
        right.reduce(&losses, label_weight.as_ref(), options.reduction)
    }

    /// True where the coordinate of `logits` along `axis` is this label.
    #[track_caller]
    fn is_class(&self, logits: &Self, axis: isize) -> Self {
        let position = Self::iota(logits.shape(), axis.cast_unsigned(), logits.device()).to_dtype(self.dtype());
        position.eq(self.unsqueeze(axis))
    }

    /// `-Σ target · ln softmax(self)`, averaged over the rest: logits and targets (probabilities) `[batch, classes,
    /// ...]`.
    #[track_caller]
    #[must_use]
    pub fn cross_entropy_soft(&self, targets: &Self, reduction: Reduction) -> Self {
        self.cross_entropy_soft_with(targets, &CrossEntropy { reduction, ..CrossEntropy::default() })
    }

    /// As [`Tensor::cross_entropy_soft`], with weights of classes and label smoothing: `-Σ weight · ((1 − smoothing) ·
    /// target + smoothing / classes) · ln softmax(self)`. The mean is over positions, not weights, as in PyTorch.
    ///
    /// # Panics
    ///
    /// If there is a label to be ignored: there are no labels.
    #[track_caller]
    #[must_use]
    pub fn cross_entropy_soft_with(&self, targets: &Self, options: &CrossEntropy) -> Self {
        assert!(
            self.shape() == targets.shape() && self.rank() > 0,
            "cross_entropy_soft: {} with targets {}",
            self.shape(),
            targets.shape()
        );
        assert!(options.ignore_index.is_none(), "cross_entropy_soft: there is no label to ignore");
        let axis = isize::from(self.rank() > 1);
        let smoothing = options.label_smoothing;
        let mut targets = targets.clone();
        if smoothing > 0.0 {
            targets = targets * (1.0 - smoothing) + smoothing / self.size(axis) as f64;
        }
        if let Some(weight) = along(options.weight.as_ref(), self, axis, "cross_entropy_soft") {
            targets *= weight;
        }
        options.reduction.apply(&-(targets * self.log_softmax(axis)).sum_dim(axis))
    }

    /// `-self[label]`, averaged, for logarithms of probabilities `[batch, classes, ...]`.
    #[track_caller]
    #[must_use]
    pub fn nll_loss(&self, labels: &Self, reduction: Reduction) -> Self {
        self.nll_loss_with(labels, &NLLLoss { reduction, ..NLLLoss::default() })
    }

    /// As [`Tensor::nll_loss`], with weights of classes and an ignored label: `-weight[label] · self[label]`.
    #[track_caller]
    #[must_use]
    pub fn nll_loss_with(&self, labels: &Self, options: &NLLLoss) -> Self {
        let axis = self.class_axis("nll_loss", labels);
        let right = Labels::new("nll_loss", labels, self.size(axis), options.ignore_index);
        let values = self.full_precision();
        let is_label = right.labels.is_class(&values, axis);
        let weight = along(options.weight.as_ref(), &values, axis, "nll_loss");
        let weight = weight.map(|weight| is_label.pick(&weight.expand(values.shape().clone()), axis));
        let mut losses = -is_label.pick(&values, axis);
        if let Some(weight) = &weight {
            losses *= weight;
        }
        right.reduce(&right.mask(&losses), weight.as_ref(), options.reduction)
    }

    /// The sum over `axis` of those `values` where `self` holds: one of them.
    #[track_caller]
    fn pick(&self, values: &Self, axis: isize) -> Self {
        self.where_(values, 0.0).sum_dim(axis)
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

/// 0 where infinite: the distance from it would be no number.
#[track_caller]
fn finite(largest: &Tensor) -> Tensor {
    largest.isfinite().where_(largest, 0.0)
}

/// The gradient of a position's loss by the logits: `softmax · Σ t − t` with the weights `t` of its target.
#[track_caller]
fn class_gradient(logits: &Tensor, labels: &Tensor, weight: Option<&Tensor>, smoothing: f64, axis: isize) -> Tensor {
    let (is_label, spread) = (labels.is_class(logits, axis), smoothing / logits.size(axis) as f64);
    let probabilities = logits.softmax(axis);
    let Some(weight) = weight else {
        return probabilities - is_label.where_(logits.full_like(1.0 - smoothing + spread), spread);
    };
    let weight = weight.expand(logits.shape().clone());
    let target = is_label.where_(&weight * (1.0 - smoothing), 0.0) + weight * spread;
    probabilities * target.sum_keepdim(axis) - target
}
