//! Norms of vectors, and vectors scaled to norm 1.

use super::{Axes, Tensor};

impl Tensor {
    /// The norm of all elements: `(Σ |x|^p)^(1/p)`; infinity: the largest `|x|`; -infinity: the smallest; 0: the number
    /// of elements that are not zero. The Euclidean (Frobenius) norm is that of 2.
    ///
    /// ```
    /// # use brasa::{Device, Tensor};
    /// let x = Tensor::from_vec(vec![3.0_f32, -4.0], &Device::cpu())?;
    /// assert_eq!(x.norm(2.0).item::<f32>()?, 5.0);
    /// assert_eq!(x.norm(f64::INFINITY).item::<f32>()?, 4.0);
    /// # Ok::<(), brasa::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn norm(&self, p: f64) -> Self {
        self.norm_dim(p, self.all_axes())
    }

    /// Norms along these axes, as [`Tensor::norm`].
    #[track_caller]
    #[must_use]
    #[doc(alias = "vector_norm")]
    pub fn norm_dim(&self, p: f64, axes: impl Axes) -> Self {
        let axes = axes.axes();
        self.norm_keepdim(p, axes.as_slice()).squeeze(axes)
    }

    /// Norms along these axes, which stay with size 1. Where a norm is 0, so is its gradient; largest elements share
    /// it.
    #[track_caller]
    #[must_use]
    pub fn norm_keepdim(&self, p: f64, axes: impl Axes) -> Self {
        let axes = axes.axes();
        let x = self.floats();
        if p.is_infinite() {
            return if p > 0.0 { x.abs().max_keepdim(axes) } else { x.abs().min_keepdim(axes) };
        }
        x.countable().root_of_sum(p, &axes).to_dtype(x.dtype())
    }

    /// The norm of floats for a finite `p`.
    #[track_caller]
    fn root_of_sum(&self, p: f64, axes: &[isize]) -> Self {
        if p == 0.0 {
            return self.ne(0.0).to_dtype(self.dtype()).sum_keepdim(axes);
        }
        if p == 1.0 {
            return self.abs().sum_keepdim(axes);
        }
        if p == 2.0 {
            return self.square().sum_keepdim(axes).root();
        }
        let value = self.abs().pow(p).sum_keepdim(axes).pow(1.0 / p);
        value.with_gradient(&[self], move |y, inputs, g| {
            let x = &inputs[0];
            let flat = x.eq(0.0).logical_or(&y.eq(0.0));
            // |x|^(p - 1) / y^(p - 1), which neither overflows nor has a pole
            let ratio = flat.where_(1.0, x.abs() / y).pow(p - 1.0);
            vec![Some(flat.where_(0.0, g * x.sign() * ratio))]
        })
    }

    /// `x / max(norm, epsilon)` along `axis`.
    #[track_caller]
    #[must_use]
    pub fn normalize(&self, p: f64, axis: isize, epsilon: f64) -> Self {
        let x = self.floats();
        let wide = x.countable();
        (&wide / wide.norm_keepdim(p, axis).clamp_min(epsilon)).to_dtype(x.dtype())
    }
}
