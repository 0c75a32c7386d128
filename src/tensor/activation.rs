//! Activation functions.

use super::Tensor;

impl Tensor {
    /// `max(x, 0)`
    #[track_caller]
    #[must_use]
    pub fn relu(&self) -> Self {
        self.maximum(0).with_gradient(&[self], |y, _, g| vec![Some(y.gt(0).where_(g, 0))])
    }

    /// `x` where positive, else `slope · x`.
    #[track_caller]
    #[must_use]
    pub fn leaky_relu(&self, slope: f64) -> Self {
        self.gt(0.0).where_(self, self * slope)
    }

    /// `x · Φ(x)` with the normal distribution function, through the error function.
    #[track_caller]
    #[must_use]
    pub fn gelu(&self) -> Self {
        self * (0.5 * (1.0 + (self * std::f64::consts::FRAC_1_SQRT_2).erf()))
    }

    /// The approximation of [`Tensor::gelu`] through tanh: `0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³)))`.
    #[track_caller]
    #[must_use]
    pub fn gelu_tanh(&self) -> Self {
        let inner =
            (self + self.pow(3) * 0.044_715) * (std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2);
        self * (0.5 * (1.0 + inner.tanh()))
    }

    /// `x · sigmoid(x)`
    #[track_caller]
    #[must_use]
    pub fn silu(&self) -> Self {
        self * self.sigmoid()
    }

    /// `ln(1 + e^x)`, without overflow.
    #[track_caller]
    #[must_use]
    pub fn softplus(&self) -> Self {
        let x = self.floats();
        let value = x.maximum(0.0) + (-x.abs()).exp().log1p();
        value.with_gradient(&[&x], |_, inputs, g| vec![Some(g * inputs[0].sigmoid())])
    }

    /// `ln(sigmoid(x))`, without underflow.
    #[track_caller]
    #[must_use]
    pub fn log_sigmoid(&self) -> Self {
        -(-self).softplus()
    }
}
