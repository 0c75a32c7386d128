//! Rounding, division with a remainder, limits, and tests for special values.

use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::graph::{Binary, Op};
use crate::ops::{elementwise, ok};

use super::{Operand, Tensor};

impl Tensor {
    /// The whole part: rounded towards zero.
    ///
    /// ```
    /// # use brasa::{Device, Tensor};
    /// let x = Tensor::from_vec(vec![-1.5_f32, 2.5], &Device::cpu())?;
    /// assert_eq!(x.trunc().to_vec::<f32>()?, [-1.0, 2.0]);
    /// assert_eq!(x.frac().to_vec::<f32>()?, [-0.5, 0.5]);
    /// assert_eq!(x.clamp(-1, 1).to_vec::<f32>()?, [-1.0, 1.0]);
    /// # Ok::<(), brasa::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn trunc(&self) -> Self {
        if self.dtype().is_float() { self.lt(0).where_(self.ceil(), self.floor()) } else { self.clone() }
    }

    /// `x - trunc(x)`
    #[track_caller]
    #[must_use]
    pub fn frac(&self) -> Self {
        self - self.trunc()
    }

    /// The quotient rounded towards zero; integers stay integers, and by zero they give zero.
    #[track_caller]
    #[must_use]
    pub fn div_trunc(&self, other: impl Into<Operand>) -> Self {
        Self::binary(Binary::Div, self, other).trunc()
    }

    /// The quotient rounded down, as Python's `//`; integers stay integers, and by zero they give zero. No gradient
    /// passes.
    #[track_caller]
    #[must_use]
    pub fn floor_divide(&self, other: impl Into<Operand>) -> Self {
        let (a, b) = (self.detach(), other.into());
        let rest = a.fmod(b.clone());
        let b = b.into_tensor(rest.shape(), rest.dtype(), rest.device());
        let differs = rest.lt(0).bitwise_xor(b.lt(0)).bitwise_and(rest.ne(0));
        if !rest.dtype().is_float() {
            return a.to_dtype(rest.dtype()).div_trunc(&b) - differs.to_dtype(rest.dtype());
        }
        // a - rest is a multiple of b but for its rounding
        let quotient = (a.to_dtype(rest.dtype()) - &rest) / &b - differs.to_dtype(rest.dtype());
        b.eq(0).where_(a.to_dtype(rest.dtype()) / &b, quotient.round()).detach()
    }

    /// The remainder of division, with the sign of `other`, as Python's `%`.
    #[track_caller]
    #[must_use]
    pub fn remainder(&self, other: impl Into<Operand>) -> Self {
        let other = other.into();
        let rest = self.fmod(other.clone());
        let other = other.into_tensor(rest.shape(), rest.dtype(), rest.device());
        let differs = rest.lt(0).bitwise_xor(other.lt(0)).bitwise_and(rest.ne(0));
        differs.where_(&rest + &other, &rest)
    }

    /// Values below `low` become `low`, those above `high` become `high`, and NaN stays. At a limit that is a number
    /// the gradient is 0; with a limit that is a tensor `x` shares it. Where the limits are crossed, `high` wins.
    #[track_caller]
    #[must_use]
    pub fn clamp(&self, low: impl Into<Operand>, high: impl Into<Operand>) -> Self {
        self.limited(Some(low.into()), Some(high.into()))
    }

    /// Values below `low` become `low`.
    #[track_caller]
    #[must_use]
    pub fn clamp_min(&self, low: impl Into<Operand>) -> Self {
        self.limited(Some(low.into()), None)
    }

    /// Values above `high` become `high`.
    #[track_caller]
    #[must_use]
    pub fn clamp_max(&self, high: impl Into<Operand>) -> Self {
        self.limited(None, Some(high.into()))
    }

    #[track_caller]
    fn limited(&self, low: Option<Operand>, high: Option<Operand>) -> Self {
        let bounded = [low.is_some(), high.is_some()];
        let tensors = [&low, &high].into_iter().any(|limit| matches!(limit, Some(Operand::Tensor(_))));
        let raised = match &low {
            Some(low) => self.maximum(low.clone()),
            None => self.clone(),
        };
        let value = match &high {
            Some(high) => raised.minimum(high.clone()),
            None => raised,
        };
        if !value.dtype().is_float() {
            return value;
        }
        // a missing limit is out of reach
        let low = low.unwrap_or(Operand::Float(f64::NEG_INFINITY)).like(&value);
        let high = high.unwrap_or(Operand::Float(f64::INFINITY)).like(&value);
        let x = self.to_dtype(value.dtype()).expand(value.shape());
        value.with_gradient(&[&x, &low, &high], move |_, inputs, g| {
            let [x, low, high] = [&inputs[0], &inputs[1], &inputs[2]];
            if !tensors {
                let inside = match bounded {
                    [true, true] => x.gt(low).logical_and(&x.lt(high)),
                    [true, false] => x.gt(low),
                    _ => x.lt(high),
                };
                return vec![Some(inside.where_(g, 0.0)), None, None];
            }
            let crossed = high.lt(low);
            // one that is missing is met by an infinite x alone
            let met = |limit: &Self, is_there: bool| {
                if is_there {
                    x.eq(limit)
                } else {
                    Self::constant(x.shape(), Scalar::new(DType::Bool, 0.0), x.device())
                }
            };
            let (at_low, at_high) = (met(low, bounded[0]), met(high, bounded[1]));
            let (below, above) = (x.lt(low), x.gt(high));
            let half = g * 0.5;
            let outside = below.logical_or(&above).logical_or(&crossed);
            let inside = at_low.logical_xor(&at_high).where_(&half, g);
            let of_low = below.where_(g, at_low.logical_and(&at_high.logical_not()).where_(&half, 0.0));
            let of_high = above.where_(g, at_high.logical_and(&at_low.logical_not()).where_(&half, 0.0));
            vec![Some(outside.where_(0.0, inside)), Some(crossed.where_(0.0, of_low)), Some(crossed.where_(g, of_high))]
        })
    }

    /// True where infinite.
    #[track_caller]
    #[must_use]
    pub fn isinf(&self) -> Self {
        self.isfinite().logical_or(&self.isnan()).logical_not()
    }

    /// True where +infinity.
    #[track_caller]
    #[must_use]
    pub fn isposinf(&self) -> Self {
        self.isinf().logical_and(&self.gt(0))
    }

    /// True where -infinity.
    #[track_caller]
    #[must_use]
    pub fn isneginf(&self) -> Self {
        self.isinf().logical_and(&self.lt(0))
    }

    /// NaN becomes `nan`, infinities become `infinity` and `-infinity`; `None`: the type's largest finite number.
    #[track_caller]
    #[must_use]
    pub fn nan_to_num(&self, nan: f64, infinity: Option<f64>, negative_infinity: Option<f64>) -> Self {
        let largest = if self.dtype() == DType::F16 { half::f16::MAX.to_f64() } else { f64::from(f32::MAX) };
        if !self.dtype().is_float() {
            return self.clone();
        }
        let (high, low) = (infinity.unwrap_or(largest), negative_infinity.unwrap_or(-largest));
        let limit = self.gt(0).where_(self.full_like(high), self.full_like(low));
        self.isfinite().where_(self, self.isnan().where_(self.full_like(nan), limit))
    }

    /// True where the sign bit is set: negative numbers, -0 and some NaNs.
    #[track_caller]
    #[must_use]
    pub fn signbit(&self) -> Self {
        if !self.dtype().is_float() {
            return self.lt(0);
        }
        let float = self.to_dtype(DType::F32);
        Self::apply(Op::Bitcast, &[&float], float.shape().clone(), DType::I32).lt(0)
    }

    /// The size of `self` with the sign of `other`, which gets no gradient.
    #[track_caller]
    #[must_use]
    pub fn copysign(&self, other: impl Into<Operand>) -> Self {
        let (a, b) = Self::float_pair("copysign", self, other);
        let size = a.abs();
        let value = b.signbit().where_(-&size, size);
        value.with_gradient(&[&a], |y, inputs, g| {
            let ratio = inputs[0].sign() * y.sign();
            vec![Some(g * ratio)]
        })
    }

    /// `self + weight · (end - self)`, exact at both ends.
    #[track_caller]
    #[must_use]
    pub fn lerp(&self, end: &Self, weight: impl Into<Operand>) -> Self {
        let distance = end - self;
        let weight = match weight.into() {
            Operand::Int(weight) if distance.dtype().is_float() => Operand::Float(weight as f64),
            weight => weight,
        };
        match weight {
            Operand::Tensor(weight) => {
                let near = weight.abs().lt(0.5);
                near.where_(self + &distance * &weight, end - distance * (1.0 - &weight))
            }
            Operand::Float(weight) if weight.abs() >= 0.5 => end - distance * (1.0 - weight),
            weight => self + distance * weight,
        }
    }

    /// `x + value · a · b`
    #[track_caller]
    #[must_use]
    pub fn addcmul(&self, a: &Self, b: &Self, value: f64) -> Self {
        self + a * b * value
    }

    /// `x + value · a / b`
    #[track_caller]
    #[must_use]
    pub fn addcdiv(&self, a: &Self, b: &Self, value: f64) -> Self {
        self + a / b * value
    }

    /// True where `|a - b| <= absolute + relative · |b|`, equal infinities included; NaN equals NaN if `equal_nan`.
    ///
    /// PyTorch's defaults are `relative` 1e-5 and `absolute` 1e-8.
    #[track_caller]
    #[must_use]
    pub fn isclose(&self, other: &Self, relative: f64, absolute: f64, equal_nan: bool) -> Self {
        ok(elementwise::broadcast("isclose", self.shape(), other.shape()));
        let (a, b) = (self.floats(), other.floats());
        let is_whole = self.dtype() == other.dtype() && matches!(self.dtype(), DType::I32 | DType::U32);
        let distance = if is_whole {
            // exact, whatever the sign: large ones are rounded among floats
            (self.maximum(other) - self.minimum(other)).to_dtype(DType::U32).floats()
        } else {
            (&a - &b).abs()
        };
        let near = distance.le(b.abs() * relative + absolute).logical_and(&distance.isfinite());
        let equal = self.eq(other).logical_or(&near);
        if equal_nan { equal.logical_or(&a.isnan().logical_and(&b.isnan())) } else { equal }
    }

    /// True if [`Tensor::isclose`] holds for all elements; computes and waits.
    ///
    /// # Errors
    ///
    /// If the device fails, or in a captured step.
    #[track_caller]
    pub fn allclose(&self, other: &Self, relative: f64, absolute: f64) -> Result<bool> {
        self.isclose(other, relative, absolute, false).all().item()
    }
}
