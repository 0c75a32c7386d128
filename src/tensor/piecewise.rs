//! Activation functions made of straight pieces. At a kink the gradient is the one that PyTorch takes, which is said
//! there.

use super::Tensor;

impl Tensor {
    /// `x` where positive, else `slope · x`.
    ///
    /// ```
    /// # use brasa::{Device, Tensor};
    /// let x = Tensor::from_vec(vec![-4.0_f32, 0.5, 8.0], &Device::cpu())?;
    /// assert_eq!(x.leaky_relu(0.25).to_vec::<f32>()?, [-1.0, 0.5, 8.0]);
    /// assert_eq!(x.relu6().to_vec::<f32>()?, [0.0, 0.5, 6.0]);
    /// # Ok::<(), brasa::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn leaky_relu(&self, slope: f64) -> Self {
        self.gt(0.0).where_(self, self * slope)
    }

    /// `x` where positive, else `weight · x`: one weight, or one for each channel (axis 1), `[channels]`.
    #[track_caller]
    #[must_use]
    pub fn prelu(&self, weight: &Self) -> Self {
        let channels = if self.rank() < 2 { 1 } else { self.shape()[1] };
        assert!(
            weight.rank() <= 1 && (weight.numel() == 1 || weight.numel() == channels),
            "prelu: {} with weights {}, neither one nor [channels]",
            self.shape(),
            weight.shape()
        );
        let mut shape = vec![1; self.rank()];
        if weight.numel() != 1 {
            shape[1] = weight.numel();
        }
        let is_positive = self.gt(0.0);
        // a weight's gradient is no product with an infinite element that it does not meet
        is_positive.where_(self, is_positive.where_(0.0, self) * weight.reshape(shape))
    }

    /// `x` limited to `low..high`; the gradient at the limits is 0.
    #[track_caller]
    #[must_use]
    pub fn hardtanh(&self, low: f64, high: f64) -> Self {
        let x = self.floats();
        let value = x.maximum(low).minimum(high);
        value.with_gradient(&[&x], move |_, inputs, g| {
            let outside = inputs[0].le(low).logical_or(&inputs[0].ge(high));
            vec![Some(outside.where_(0.0, g))]
        })
    }

    /// `min(max(x, 0), 6)`; the gradient at 0 and 6 is 0.
    #[track_caller]
    #[must_use]
    pub fn relu6(&self) -> Self {
        self.hardtanh(0.0, 6.0)
    }

    /// `min(max(x / 6 + 1/2, 0), 1)`; the gradient at ±3 is 0.
    #[track_caller]
    #[must_use]
    pub fn hardsigmoid(&self) -> Self {
        (self.floats() + 3.0).clamp(0.0, 6.0) * (1.0 / 6.0)
    }

    /// `x · hardsigmoid(x)`; the gradient at ±3 is that of the piece outside.
    #[track_caller]
    #[must_use]
    pub fn hardswish(&self) -> Self {
        let x = self.floats();
        let value = &x * (&x + 3.0).relu6() * (1.0 / 6.0);
        value.with_gradient(&[&x], |_, inputs, g| {
            let x = &inputs[0];
            let middle = x.lt(3.0).where_(g * (x * (1.0 / 3.0) + 0.5), g);
            vec![Some(x.le(-3.0).where_(0.0, middle))]
        })
    }

    /// `x` moved towards 0 by `width`, 0 where it is nearer than that; the gradient there is 0.
    #[track_caller]
    #[must_use]
    pub fn softshrink(&self, width: f64) -> Self {
        let x = self.floats();
        let near = x.abs().le(width);
        near.where_(0.0, x.lt(0.0).where_(&x + width, &x - width))
    }

    /// 0 where `|x| <= width`, else `x`; the gradient at the jumps is 0.
    #[track_caller]
    #[must_use]
    pub fn hardshrink(&self, width: f64) -> Self {
        self.ge(-width).logical_and(&self.le(width)).where_(0.0, self.floats())
    }

    /// `x` where greater than `limit`, else `value`.
    #[track_caller]
    #[must_use]
    pub fn threshold(&self, limit: f64, value: f64) -> Self {
        self.le(limit).where_(value, self.floats())
    }
}
