//! Smooth activation functions, and ReLU; the others are in `piecewise`.

use super::Tensor;

impl Tensor {
    /// `max(x, 0)`; the gradient at 0 is 0.
    ///
    /// ```
    /// # use brasa::{Device, Tensor};
    /// let x = Tensor::from_vec(vec![-1.0_f32, 0.0, 2.0], &Device::cpu())?;
    /// assert_eq!(x.relu().to_vec::<f32>()?, [0.0, 0.0, 2.0]);
    /// # Ok::<(), brasa::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn relu(&self) -> Self {
        self.maximum(0).with_gradient(&[self], |y, _, g| vec![Some(y.le(0).where_(0, g))])
    }

    /// `x · Φ(x)` with the normal distribution function, through the error function.
    #[track_caller]
    #[must_use]
    pub fn gelu(&self) -> Self {
        use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};
        let x = self.floats();
        let value = &x * (0.5 * (1.0 + (&x * FRAC_1_SQRT_2).erf()));
        value.with_gradient(&[&x], |_, inputs, g| {
            let x = &inputs[0];
            // Φ(x) written as 1 - Φ(-x), another value than the one before: it is computed again instead of kept
            let below = 0.5 * (1.0 - (x * -FRAC_1_SQRT_2).erf());
            let density = (-0.5 * (x * x)).exp() * (0.5 * FRAC_1_SQRT_2 * FRAC_2_SQRT_PI);
            vec![Some(g * (below + x * density))]
        })
    }

    /// The approximation of [`Tensor::gelu`] through tanh: `0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³)))`.
    #[track_caller]
    #[must_use]
    pub fn gelu_tanh(&self) -> Self {
        let x = self.floats();
        let inner = (&x + x.pow(3) * 0.044_715) * (std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2);
        x * (0.5 * (1.0 + inner.tanh()))
    }

    /// `x · sigmoid(x)`
    #[track_caller]
    #[must_use]
    pub fn silu(&self) -> Self {
        let x = self.floats();
        &x * x.sigmoid()
    }

    /// `ln(1 + e^x)`, without overflow.
    #[track_caller]
    #[must_use]
    pub fn softplus(&self) -> Self {
        let x = self.floats();
        let value = x.maximum(0.0) + (-x.abs()).exp().log1p();
        value.with_gradient(&[&x], |_, inputs, g| vec![Some(g * inputs[0].sigmoid())])
    }

    /// `ln(1 + e^(beta x)) / beta`, without overflow, and `x` where `beta x` is above the threshold: PyTorch's, of
    /// which 1 and 20 are the defaults. Beyond 20 it rounds to `x` anyway.
    #[track_caller]
    #[must_use]
    pub fn softplus_with(&self, beta: f64, threshold: f64) -> Self {
        let x = self.floats();
        let scaled = &x * beta;
        scaled.gt(threshold).where_(&x, scaled.softplus() / beta)
    }

    /// `ln(sigmoid(x))`, without underflow.
    #[track_caller]
    #[must_use]
    #[doc(alias = "logsigmoid")]
    pub fn log_sigmoid(&self) -> Self {
        -(-self.floats()).softplus()
    }

    /// `x` where positive, else `alpha (e^x - 1)`.
    #[track_caller]
    #[must_use]
    pub fn elu(&self, alpha: f64) -> Self {
        self.exponential_below(1.0, alpha)
    }

    /// `scale · elu(x, alpha)` with the constants of self-normalising networks (Klambauer et al. 2017).
    #[track_caller]
    #[must_use]
    pub fn selu(&self) -> Self {
        self.elu(1.673_263_242_354_377_2) * 1.050_700_987_355_480_5
    }

    /// `x` where positive, else `alpha (e^(x / alpha) - 1)`.
    #[track_caller]
    #[must_use]
    pub fn celu(&self, alpha: f64) -> Self {
        self.exponential_below(1.0 / alpha, alpha)
    }

    /// `x` where positive, else `height (e^(rate x) - 1)`.
    #[track_caller]
    fn exponential_below(&self, rate: f64, height: f64) -> Self {
        let x = self.floats();
        let negative = x.le(0.0);
        // the exponential of a positive number might overflow, and infinity times its gradient of zero is NaN
        let below = (negative.where_(&x, 0.0) * rate).expm1() * height;
        negative.where_(below, &x)
    }

    /// `x · tanh(softplus(x))`
    #[track_caller]
    #[must_use]
    pub fn mish(&self) -> Self {
        let x = self.floats();
        &x * x.softplus().tanh()
    }

    /// `x / (1 + |x|)`
    #[track_caller]
    #[must_use]
    pub fn softsign(&self) -> Self {
        let x = self.floats();
        &x / (x.abs() + 1.0)
    }

    /// `x - tanh(x)`
    #[track_caller]
    #[must_use]
    pub fn tanhshrink(&self) -> Self {
        let x = self.floats();
        &x - x.tanh()
    }

    /// The first half along `axis` times the sigmoid of the second one.
    #[track_caller]
    #[must_use]
    pub fn glu(&self, axis: isize) -> Self {
        let size = self.axis_size("glu", axis);
        assert!(size.is_multiple_of(2), "glu: axis {axis} of {} has no two halves", self.shape());
        let x = self.floats();
        x.narrow(axis, 0, size / 2) * x.narrow(axis, size / 2, size / 2).sigmoid()
    }
}
