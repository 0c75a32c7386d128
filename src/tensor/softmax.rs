//! Softmax and its logarithm, with closed-form gradients.

use super::Tensor;

impl Tensor {
    /// `e^x / Σ e^x` along `axis`, without overflow.
    ///
    /// ```
    /// # use brasa::{Device, Tensor};
    /// let x = Tensor::from_vec(vec![0.0_f32, 3.0_f32.ln()], &Device::cpu())?;
    /// let expected = Tensor::from_vec(vec![0.25_f32, 0.75], &Device::cpu())?;
    /// assert!(x.softmax(0).allclose(&expected, 1e-5, 1e-8)?);
    /// # Ok::<(), brasa::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn softmax(&self, axis: isize) -> Self {
        self.softmax_for("softmax", axis)
    }

    #[track_caller]
    fn softmax_for(&self, name: &str, axis: isize) -> Self {
        let x = self.floats().full_precision();
        if x.axis_size(name, axis) == 0 {
            return x;
        }
        let wide = x.countable();
        let exp = (&wide - wide.max_keepdim(axis)).exp();
        let value = &exp / exp.sum_keepdim(axis);
        let value = value.with_gradient(&[&wide], move |y, _, g| {
            let weighted = g * y;
            vec![Some(&weighted - y * weighted.sum_keepdim(axis))]
        });
        value.to_dtype(x.dtype())
    }

    /// The softmax of `-x` along `axis`.
    #[track_caller]
    #[must_use]
    pub fn softmin(&self, axis: isize) -> Self {
        (-self.floats()).softmax_for("softmin", axis)
    }

    /// `x - ln Σ e^x` along `axis`, without overflow.
    #[track_caller]
    #[must_use]
    pub fn log_softmax(&self, axis: isize) -> Self {
        let x = self.floats().full_precision();
        if x.axis_size("log_softmax", axis) == 0 {
            return x;
        }
        let wide = x.countable();
        let shifted = &wide - wide.max_keepdim(axis);
        let value = &shifted - shifted.exp().sum_keepdim(axis).log();
        let value = value.with_gradient(&[&wide], move |y, _, g| vec![Some(g - y.exp() * g.sum_keepdim(axis))]);
        value.to_dtype(x.dtype())
    }
}
