//! Variances and standard deviations.

use super::{Axes, Tensor};

impl Tensor {
    /// The variance of all elements, by `n - 1` as PyTorch has it.
    #[track_caller]
    #[must_use]
    pub fn var(&self) -> Self {
        self.var_dim(self.all_axes(), 1)
    }

    /// Variances along these axes: squared distances from the mean over `n - correction`.
    #[track_caller]
    #[must_use]
    pub fn var_dim(&self, axes: impl Axes, correction: usize) -> Self {
        let axes = axes.axes();
        self.var_keepdim(axes.as_slice(), correction).squeeze(axes)
    }

    /// Variances along these axes, which stay with size 1.
    #[track_caller]
    #[must_use]
    pub fn var_keepdim(&self, axes: impl Axes, correction: usize) -> Self {
        self.variances(&axes.axes(), correction).to_dtype(self.dtype())
    }

    /// The same before it is rounded: the root of it may be of this type though it is not itself.
    #[track_caller]
    fn variances(&self, axes: &[isize], correction: usize) -> Self {
        self.assert_float("var");
        // fewer elements than the correction: 0/0, as in PyTorch
        let degrees = self.count("var", axes).saturating_sub(correction);
        let x = self.countable();
        let distance = &x - x.mean_keepdim(axes);
        distance.square().sum_keepdim(axes) / degrees as f64
    }

    /// The standard deviation of all elements, by `n - 1`; the gradient is 0 where it is 0.
    #[track_caller]
    #[must_use]
    pub fn std(&self) -> Self {
        self.std_dim(self.all_axes(), 1)
    }

    /// Standard deviations along these axes, by `n - correction`.
    #[track_caller]
    #[must_use]
    pub fn std_dim(&self, axes: impl Axes, correction: usize) -> Self {
        let axes = axes.axes();
        self.std_keepdim(axes.as_slice(), correction).squeeze(axes)
    }

    /// Standard deviations along these axes, which stay with size 1.
    #[track_caller]
    #[must_use]
    pub fn std_keepdim(&self, axes: impl Axes, correction: usize) -> Self {
        self.variances(&axes.axes(), correction).root().to_dtype(self.dtype())
    }

    /// The square root, whose gradient at 0 is 0: at the bottom of a distance there is no slope.
    #[track_caller]
    pub(super) fn root(&self) -> Self {
        self.sqrt().with_gradient(&[self], |y, _, g| {
            let flat = y.eq(0.0);
            vec![Some(flat.where_(0.0, g * 0.5 / flat.where_(1.0, y)))]
        })
    }
}
