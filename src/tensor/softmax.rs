//! Softmax and its logarithm, with closed-form gradients.

use super::Tensor;

impl Tensor {
    /// `e^x / Σ e^x` along `axis`, without overflow.
    #[track_caller]
    #[must_use]
    pub fn softmax(&self, axis: isize) -> Self {
        let x = self.floats();
        let exp = (&x - x.max_keepdim(axis)).exp();
        let value = &exp / exp.sum_keepdim(axis);
        value.with_gradient(&[&x], move |y, _, g| {
            let weighted = g * y;
            vec![Some(&weighted - y * weighted.sum_keepdim(axis))]
        })
    }

    /// `x - ln Σ e^x` along `axis`, without overflow.
    #[track_caller]
    #[must_use]
    pub fn log_softmax(&self, axis: isize) -> Self {
        let x = self.floats();
        let shifted = &x - x.max_keepdim(axis);
        let value = &shifted - shifted.exp().sum_keepdim(axis).log();
        value.with_gradient(&[&x], move |y, _, g| vec![Some(g - y.exp() * g.sum_keepdim(axis))])
    }
}
