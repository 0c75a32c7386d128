//! How well regions overlap.

use super::{Reduction, Tensor};

impl Tensor {
    /// The soft Dice loss of probabilities `[batch, channels, ...]` and targets of the same shape (masks, or one-hot
    /// classes): `1 − (2 Σ p t + epsilon) / (Σ p + Σ t + epsilon)` with sums over what follows the channels (Milletari
    /// et al., arXiv 1606.04797, with sums instead of sums of squares, as MONAI's `DiceLoss`, whose `epsilon` is 1e-5).
    /// The losses are `[batch, channels]`: a channel for each class, or one for yes and no.
    #[track_caller]
    #[must_use]
    pub fn dice_loss(&self, target: &Self, epsilon: f64, reduction: Reduction) -> Self {
        let [x, target] = &self.alike("dice_loss", target);
        assert!(x.rank() >= 2, "dice_loss: {} is not [batch, channels, ...]", x.shape());
        let axes: Vec<usize> = (2..x.rank()).collect();
        let axes = axes.as_slice();
        let both = (x * target).sum_dim(axes) * 2.0 + epsilon;
        reduction.apply(&(1.0 - both / (x.sum_dim(axes) + target.sum_dim(axes) + epsilon)))
    }

    /// The [`Tensor::dice_loss`] of `softmax(self)` for logits `[batch, classes, ...]` and labels `[batch, ...]`.
    #[track_caller]
    #[must_use]
    pub fn dice_loss_classes(&self, labels: &Self, epsilon: f64, reduction: Reduction) -> Self {
        assert!(self.rank() >= 2, "dice_loss_classes: {} is not [batch, classes, ...]", self.shape());
        let last = labels.one_hot(self.size(1)).to_dtype(self.floats().dtype());
        let mut axes: Vec<usize> = (0..last.rank()).collect();
        axes.remove(last.rank() - 1);
        axes.insert(1, last.rank() - 1);
        self.softmax(1).dice_loss(&last.permute(axes), epsilon, reduction)
    }
}
