//! Elementwise ops, one method per row of [`crate::ops::elementwise`].

use crate::dtype::DType;
use crate::graph::{Binary, Op, Unary};

use super::{Operand, Tensor};

macro_rules! unary_methods {
    ($($(#[$doc:meta])* $name:ident => $op:ident;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            #[track_caller]
            #[must_use]
            pub fn $name(&self) -> Self {
                self.unary(Unary::$op)
            }
        )*}
    };
}

unary_methods! {
    /// `|x|`
    abs => Abs;
    /// -1, 0 or 1; NaN stays (PyTorch has 0).
    sign => Sign;
    /// `e^x`
    exp => Exp;
    /// `e^x - 1`, exact for small `x` too.
    expm1 => Expm1;
    /// Natural logarithm.
    log => Log;
    /// `ln(1 + x)`, exact for small `x` too.
    log1p => Log1p;
    /// Square root.
    sqrt => Sqrt;
    /// `1 / sqrt(x)`
    rsqrt => Rsqrt;
    /// `1 / x`
    reciprocal => Recip;
    /// Sine.
    sin => Sin;
    /// Cosine.
    cos => Cos;
    /// Hyperbolic tangent.
    tanh => Tanh;
    /// Error function.
    erf => Erf;
    /// `1 / (1 + e^-x)`
    sigmoid => Sigmoid;
    /// The largest integer that is not greater.
    floor => Floor;
    /// The smallest integer that is not less.
    ceil => Ceil;
    /// Nearest integer, ties to even.
    round => Round;
    /// True where a bool is false.
    logical_not => Not;
    /// True where neither NaN nor infinite.
    isfinite => IsFinite;
    /// True where NaN.
    isnan => IsNan;
}

macro_rules! binary_methods {
    ($($(#[$doc:meta])* $name:ident => $op:ident;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            #[track_caller]
            #[must_use]
            pub fn $name(&self, other: impl Into<Operand>) -> Self {
                Self::binary(Binary::$op, self, other)
            }
        )*}
    };
}

binary_methods! {
    /// The larger one; NaN if either is.
    maximum => Max;
    /// The smaller one; NaN if either is.
    minimum => Min;
    /// The remainder of division, with the sign of `self`.
    fmod => Rem;
    /// The angle in -π..π of the point with height `self` and width `other`.
    atan2 => Atan2;
    /// Bitwise and; logical for bool.
    bitwise_and => And;
    /// Bitwise or; logical for bool.
    bitwise_or => Or;
    /// Bitwise exclusive or; logical for bool.
    bitwise_xor => Xor;
    /// Integers shifted left by `other & 31` bits.
    bitwise_left_shift => Shl;
    /// Integers shifted right by `other & 31` bits, arithmetically for i32.
    bitwise_right_shift => Shr;
    /// True where equal.
    eq => Eq;
    /// True where not equal.
    ne => Ne;
    /// True where `self < other`.
    lt => Lt;
    /// True where `self <= other`.
    le => Le;
}

impl Tensor {
    /// True where `self > other`.
    #[track_caller]
    #[must_use]
    pub fn gt(&self, other: impl Into<Operand>) -> Self {
        Self::binary(Binary::Lt, other, self)
    }

    /// True where `self >= other`.
    #[track_caller]
    #[must_use]
    pub fn ge(&self, other: impl Into<Operand>) -> Self {
        Self::binary(Binary::Le, other, self)
    }

    /// True where exactly one is; numbers count as true unless zero.
    #[track_caller]
    #[must_use]
    pub fn logical_xor(&self, other: &Self) -> Self {
        Self::binary(Binary::Xor, self.to_dtype(DType::Bool), other.to_dtype(DType::Bool))
    }

    /// All bits inverted; of bool, the logical not.
    #[track_caller]
    #[must_use]
    pub fn bitwise_not(&self) -> Self {
        match self.dtype() {
            DType::Bool => self.logical_not(),
            DType::U8 => self.bitwise_xor(255),
            DType::U32 => self.bitwise_xor(i64::from(u32::MAX)),
            _ => self.bitwise_xor(-1),
        }
    }

    /// True where both are; numbers count as true unless zero.
    #[track_caller]
    #[must_use]
    pub fn logical_and(&self, other: &Self) -> Self {
        Self::binary(Binary::And, self.to_dtype(DType::Bool), other.to_dtype(DType::Bool))
    }

    /// True where either is; numbers count as true unless zero.
    #[track_caller]
    #[must_use]
    pub fn logical_or(&self, other: &Self) -> Self {
        Self::binary(Binary::Or, self.to_dtype(DType::Bool), other.to_dtype(DType::Bool))
    }

    /// `self^exponent`. A small whole number is a product; of integers each from 0 on is one, so that they stay integers,
    /// which wrap. With a tensor as exponent, integers become f32.
    #[track_caller]
    #[must_use]
    pub fn pow(&self, exponent: impl Into<Operand>) -> Self {
        let exponent = exponent.into();
        let whole = match exponent {
            Operand::Int(n) => Some(n),
            Operand::Float(x) if x.fract() == 0.0 && x.abs() <= 4.0 && self.dtype().is_float() => Some(x as i64),
            _ => None,
        };
        match (whole, &exponent) {
            (Some(0), _) => self.ones_like(),
            (Some(1), _) => self.clone(),
            (Some(2), _) => self * self,
            (Some(3), _) => self * self * self,
            (Some(4), _) => self.square().square(),
            (Some(-1), _) => self.reciprocal(),
            (_, Operand::Float(0.5)) => self.sqrt(),
            (_, Operand::Float(-0.5)) => self.rsqrt(),
            (Some(n), Operand::Int(_)) if n > 0 && matches!(self.dtype(), DType::I32 | DType::U32) => {
                self.times_itself(n)
            }
            _ => Self::binary(Binary::Pow, self, exponent),
        }
    }

    /// `count` of `self`, of which there is at least one, multiplied: squares for the digits of `count`.
    #[track_caller]
    fn times_itself(&self, count: i64) -> Self {
        if count == 1 {
            return self.clone();
        }
        let even = self.square().times_itself(count / 2);
        if count % 2 == 0 { even } else { even * self }
    }

    /// `x²`
    #[track_caller]
    #[must_use]
    pub fn square(&self) -> Self {
        self * self
    }

    /// The same values in another type: floats truncate to integers and saturate, integers wrap, bool is `!= 0`.
    #[track_caller]
    #[must_use]
    pub fn to_dtype(&self, dtype: DType) -> Self {
        if dtype == self.dtype() { self.clone() } else { Self::apply(Op::Cast, &[self], self.shape().clone(), dtype) }
    }
}
