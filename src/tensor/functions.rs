//! Functions of real numbers, composed of the elementwise ops so that they keep their digits near 0 and far out.

use std::f64::consts::{LN_2, LOG2_E, LOG10_E};

use crate::graph::{Binary, at_callers_line, opaque};

use super::{Operand, Tensor};

/// Beyond it, the inverse hyperbolic functions are `ln 2x` in f32: they differ by `1 / 4x²`. In f16 there are larger
/// numbers, too.
const FAR: f64 = 3e4;

/// The logarithm of 2 to base 10 in two parts; the first has few enough bits to be exact times 126.
const LOG10_2: [f64; 2] = [0.301_029_205_322_265_6, 7.903_417_155_730_175e-7];

/// `e^(x²) erfc(x) / t` for `x ≥ 0` and `t = 1 / (1 + x / 2)`, as a polynomial in `2t - 1`: its Chebyshev series,
/// relative error 2e-9.
const ERFC: [f64; 13] = [
    0.510_791_352_761,
    0.343_580_332_970,
    0.139_736_032_662,
    0.018_221_384_245_8,
    -0.010_755_116_152_5,
    -0.003_241_854_895_55,
    0.001_544_047_681_99,
    0.000_427_020_151_128,
    -0.000_328_100_145_888,
    -3.295_153_961_44e-5,
    6.768_780_502_88e-5,
    -1.327_395_393_9e-6,
    -8.508_869_271_34e-6,
];

impl Tensor {
    /// `1 - erf(x)`, which keeps its digits where that would be 0.
    #[track_caller]
    #[must_use]
    pub fn erfc(&self) -> Self {
        let x = self.floats();
        let size = x.abs();
        let t = (&size * 0.5 + 1.0).reciprocal();
        let place = &t * 2.0 - 1.0;
        let (last, rest) = ERFC.split_last().expect("coefficients");
        let highest = &place * 0.0 + *last;
        let polynomial = at_callers_line(|| rest.iter().rev().fold(highest, |sum, &factor| sum * &place + factor));
        let upper = polynomial * t * (-size.square()).exp();
        let value = x.lt(0.0).where_(2.0 - &upper, upper);
        value.with_gradient(&[&x], |_, inputs, g| {
            vec![Some(g * (-inputs[0].square()).exp() * -std::f64::consts::FRAC_2_SQRT_PI)]
        })
    }

    /// Tangent.
    ///
    /// ```
    /// # use brasa::{Device, Tensor};
    /// let x = Tensor::from_vec(vec![0.0_f32, 1.0], &Device::cpu())?;
    /// assert!((x.tan().to_vec::<f32>()?[1] - 1.0_f32.tan()).abs() < 1e-6);
    /// # Ok::<(), brasa::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn tan(&self) -> Self {
        let x = self.floats();
        (x.sin() / x.cos()).with_gradient(&[&x], |y, _, g| vec![Some(g * (y.square() + 1.0))])
    }

    /// Inverse sine in -π/2..π/2; NaN outside of -1..1.
    #[track_caller]
    #[must_use]
    pub fn asin(&self) -> Self {
        let x = self.floats();
        let value = x.atan2(x.opposite_leg());
        value.with_gradient(&[&x], |_, inputs, g| vec![Some(g * (1.0 - inputs[0].square()).rsqrt())])
    }

    /// Inverse cosine in 0..π; NaN outside of -1..1.
    #[track_caller]
    #[must_use]
    pub fn acos(&self) -> Self {
        let x = self.floats();
        let value = x.opposite_leg().atan2(&x);
        value.with_gradient(&[&x], |_, inputs, g| vec![Some(-(g * (1.0 - inputs[0].square()).rsqrt()))])
    }

    /// `√(1 - x²)`, exact near ±1 too.
    #[track_caller]
    fn opposite_leg(&self) -> Self {
        ((1.0 - self) * (self + 1.0)).sqrt()
    }

    /// Inverse tangent in -π/2..π/2.
    #[track_caller]
    #[must_use]
    pub fn atan(&self) -> Self {
        self.floats().atan2(1.0)
    }

    /// Hyperbolic sine.
    #[track_caller]
    #[must_use]
    pub fn sinh(&self) -> Self {
        let x = self.floats();
        let small = x.expm1();
        let small = (&small + &small / (&small + 1.0)) * 0.5;
        let (rising, falling) = (x.half_exponential(0.5), x.half_exponential(-0.5));
        let value = x.abs().lt(1.0).where_(small, rising - falling);
        value.with_gradient(&[&x], |_, inputs, g| vec![Some(g * inputs[0].cosh())])
    }

    /// Hyperbolic cosine.
    #[track_caller]
    #[must_use]
    pub fn cosh(&self) -> Self {
        let x = self.floats();
        let (rising, falling) = (x.half_exponential(0.5), x.half_exponential(-0.5));
        (rising + falling).with_gradient(&[&x], |_, inputs, g| vec![Some(g * inputs[0].sinh())])
    }

    /// `e^(2 rate x) / 2`, which overflows no earlier than it has to. For `e^-x / 2` that is a product, too: NVIDIA's
    /// compiler divides by the square of what is divided by twice.
    #[track_caller]
    fn half_exponential(&self, rate: f64) -> Self {
        let root = (self * rate).exp();
        &root * 0.5 * &root
    }

    /// Inverse hyperbolic sine.
    #[track_caller]
    #[must_use]
    pub fn asinh(&self) -> Self {
        let x = self.floats();
        let size = x.abs();
        let square = size.square();
        let near = (&size + &square / ((&square + 1.0).sqrt() + 1.0)).log1p();
        let value = size.gt(FAR).where_(size.log() + LN_2, near) * x.sign();
        value.with_gradient(&[&x], |_, inputs, g| vec![Some(g * (inputs[0].square() + 1.0).rsqrt())])
    }

    /// Inverse hyperbolic cosine; NaN below 1.
    #[track_caller]
    #[must_use]
    pub fn acosh(&self) -> Self {
        let x = self.floats();
        let above = &x - 1.0;
        let near = (&above + (&above * (&above + 2.0)).sqrt()).log1p();
        let value = x.gt(FAR).where_(x.log() + LN_2, near);
        // far below 1 the root is that of a positive number
        let value = x.lt(1.0).where_(f64::NAN, value);
        value.with_gradient(&[&x], |_, inputs, g| vec![Some(g * (inputs[0].square() - 1.0).rsqrt())])
    }

    /// Inverse hyperbolic tangent; ±infinity at ±1, NaN outside.
    #[track_caller]
    #[must_use]
    pub fn atanh(&self) -> Self {
        let x = self.floats();
        let size = x.abs();
        let value = (&size * 2.0 / (1.0 - &size)).log1p() * 0.5 * x.sign();
        value.with_gradient(&[&x], |_, inputs, g| vec![Some(g / (1.0 - inputs[0].square()))])
    }

    /// `2^x`
    #[track_caller]
    #[must_use]
    pub fn exp2(&self) -> Self {
        let x = self.floats();
        Self::binary(Binary::Pow, 2.0, &x).with_gradient(&[&x], |y, _, g| vec![Some(g * y * LN_2)])
    }

    /// Logarithm to base 2, exact for powers of two (on a GPU, if its driver's `exp2` is).
    #[track_caller]
    #[must_use]
    pub fn log2(&self) -> Self {
        self.logarithm(LOG2_E, |powers, rest| powers + rest)
    }

    /// Logarithm to base 10, exact for powers of ten (on a GPU, if its driver's `exp2` is exact for powers of two).
    #[track_caller]
    #[must_use]
    pub fn log10(&self) -> Self {
        self.logarithm(LOG10_E, |powers, rest| &powers * LOG10_2[0] + (rest + powers * LOG10_2[1]))
    }

    /// `ln x` times `factor`: `join` of the exponent of the nearest power of two and of what this leaves of `x`. A product
    /// of the whole logarithm would be rounded, to below 13 for 8192.
    #[track_caller]
    fn logarithm(&self, factor: f64, join: fn(Self, Self) -> Self) -> Self {
        let x = self.floats();
        let value = opaque(|| {
            let x = x.countable();
            // limited, so that its power is a normal number
            let powers = (x.log() * LOG2_E).round().maximum(-126.0).minimum(126.0);
            let rest = &x * Self::binary(Binary::Pow, 2.0, -&powers);
            join(powers, rest.log() * factor)
        });
        let value = value.to_dtype(x.dtype());
        value.with_gradient(&[&x], move |_, inputs, g| vec![Some(g * factor / &inputs[0])])
    }

    /// `ln(e^a + e^b)`, without overflow.
    #[track_caller]
    #[must_use]
    pub fn logaddexp(&self, other: impl Into<Operand>) -> Self {
        let (a, b) = Self::float_pair("logaddexp", self, other);
        let value = a.maximum(&b) + (-a.difference(&b).abs()).exp().log1p();
        value.with_gradient(&[&a, &b], |_, inputs, g| {
            let share = inputs[0].difference(&inputs[1]);
            vec![Some(g * share.sigmoid()), Some(g * (-share).sigmoid())]
        })
    }

    /// `a - b`; 0 for equal infinities, too.
    #[track_caller]
    fn difference(&self, other: &Self) -> Self {
        self.eq(other).where_(0.0, self - other)
    }

    /// `log2(2^a + 2^b)`, without overflow.
    #[track_caller]
    #[must_use]
    pub fn logaddexp2(&self, other: impl Into<Operand>) -> Self {
        let (a, b) = Self::float_pair("logaddexp2", self, other);
        (a * LN_2).logaddexp(b * LN_2) * LOG2_E
    }

    /// `√(a² + b²)`, without overflow.
    #[track_caller]
    #[must_use]
    pub fn hypot(&self, other: impl Into<Operand>) -> Self {
        let (a, b) = Self::float_pair("hypot", self, other);
        let (low, high) = (a.abs().minimum(b.abs()), a.abs().maximum(b.abs()));
        let ratio = &low / high.eq(0.0).where_(1.0, &high);
        let infinite = a.isinf().logical_or(&b.isinf());
        let value = infinite.where_(f64::INFINITY, &high * (ratio.square() + 1.0).sqrt());
        value.with_gradient(&[&a, &b], |y, inputs, g| vec![Some(g * (&inputs[0] / y)), Some(g * (&inputs[1] / y))])
    }

    /// `x ln y`; 0 where `x` is 0, unless `y` is NaN.
    #[track_caller]
    #[must_use]
    pub fn xlogy(&self, other: impl Into<Operand>) -> Self {
        let (x, y) = Self::float_pair("xlogy", self, other);
        let vanishes = x.eq(0.0).logical_and(&y.isnan().logical_not());
        let value = vanishes.where_(0.0, &x * y.log());
        value.with_gradient(&[&x, &y], |_, inputs, g| {
            let pole = inputs[0].eq(0.0).logical_and(&inputs[1].le(0.0));
            vec![Some(pole.where_(0.0, g.xlogy(&inputs[1]))), Some(g * &inputs[0] / &inputs[1])]
        })
    }

    /// `ln(x / (1 - x))`, the inverse of [`Tensor::sigmoid`].
    #[track_caller]
    #[must_use]
    pub fn logit(&self) -> Self {
        let x = self.floats();
        let value = (&x / (1.0 - &x)).log();
        value.with_gradient(&[&x], |_, inputs, g| {
            let x = &inputs[0];
            let is_inside = x.ge(0.0).logical_and(&x.le(1.0));
            vec![Some(g / is_inside.where_(x * (1.0 - x), f64::NAN))]
        })
    }

    /// Degrees as radians.
    #[track_caller]
    #[must_use]
    pub fn deg2rad(&self) -> Self {
        self * (std::f64::consts::PI / 180.0)
    }

    /// Radians as degrees.
    #[track_caller]
    #[must_use]
    pub fn rad2deg(&self) -> Self {
        self * (180.0 / std::f64::consts::PI)
    }
}
