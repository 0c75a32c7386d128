//! Tensors and numbers as operands, and the operators.

use crate::device::Device;
use crate::dtype::{DType, Scalar};
use crate::graph::{Binary, Op, Unary, refuse};
use crate::ops::{elementwise, ok};
use crate::shape::Shape;

use super::Tensor;

/// A tensor, or a number that takes the type and shape of the tensor it meets.
#[derive(Clone, Debug)]
pub enum Operand {
    /// A tensor.
    Tensor(Tensor),
    /// A float.
    Float(f64),
    /// An integer.
    Int(i64),
    /// A truth value.
    Bool(bool),
}

macro_rules! operand_from {
    ($($rust:ty => $variant:ident),*) => {$(
        impl From<$rust> for Operand {
            fn from(value: $rust) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}
operand_from!(Tensor => Tensor, f32 => Float, f64 => Float, i32 => Int, i64 => Int, u32 => Int, bool => Bool);

impl From<usize> for Operand {
    /// A size, such as a number of elements; none is larger than an `i64` holds.
    fn from(value: usize) -> Self {
        Self::Int(value.min(isize::MAX.cast_unsigned()) as i64)
    }
}

impl From<&Tensor> for Operand {
    fn from(value: &Tensor) -> Self {
        Self::Tensor(value.clone())
    }
}

impl Operand {
    /// The type the pair (tensor of type `dtype`, this) is computed in.
    fn promoted(&self, dtype: DType) -> DType {
        match self {
            Self::Float(_) if !dtype.is_float() => DType::F32,
            Self::Int(_) if dtype == DType::Bool => DType::I32,
            _ => dtype,
        }
    }

    /// A number as an element of this type, of which it must be one; of a tensor `None`.
    #[track_caller]
    pub(crate) fn element(&self, dtype: DType) -> Option<Scalar> {
        let (value, fits) = match *self {
            Self::Tensor(_) => return None,
            Self::Float(value) => (value, dtype.holds_number(value)),
            Self::Int(value) => (value as f64, dtype.holds(value)),
            Self::Bool(value) => (f64::from(u8::from(value)), true),
        };
        assert!(fits, "{value} is not representable as {dtype}, the tensor's type; cast the tensor with `to_dtype`");
        Some(Scalar::new(dtype, value))
    }

    /// As a tensor; a number gets this shape and type.
    #[track_caller]
    pub(crate) fn into_tensor(self, shape: &Shape, dtype: DType, device: &Device) -> Tensor {
        match (self.element(dtype), self) {
            (_, Self::Tensor(tensor)) => tensor,
            (element, _) => Tensor::constant(shape.clone(), element.expect("a number"), device),
        }
    }

    /// With the shape, the type and the device of `tensor`.
    #[track_caller]
    pub(crate) fn like(self, tensor: &Tensor) -> Tensor {
        let (shape, dtype) = (tensor.shape(), tensor.dtype());
        self.into_tensor(shape, dtype, tensor.device()).to_dtype(dtype).expand(shape)
    }
}

impl Tensor {
    /// One input, element by element.
    #[track_caller]
    pub(crate) fn unary(&self, op: Unary) -> Self {
        let row = elementwise::unary(op);
        if matches!(op, Unary::Floor | Unary::Ceil | Unary::Round) && !self.dtype().is_float() {
            return self.clone();
        }
        if row.domain == elementwise::Domain::Float && !self.dtype().is_float() {
            return self.to_dtype(DType::F32).unary(op);
        }
        let dtype = ok(row.output_dtype(self.dtype()));
        Self::apply(Op::Unary(op), &[self], self.shape().clone(), dtype)
    }

    /// Two inputs, broadcast to each other.
    #[track_caller]
    pub(crate) fn binary(op: Binary, a: impl Into<Operand>, b: impl Into<Operand>) -> Self {
        let (a, b) = (a.into(), b.into());
        let row = elementwise::binary(op);
        let (a, b) = Self::pair(a, b);
        let (a, b) = match row.domain {
            elementwise::Domain::Float => (a.floats(), b.floats()),
            _ => (a, b),
        };
        let dtype = ok(row.output_dtype(a.dtype(), b.dtype()));
        let shape = ok(row.output_shape(a.shape(), b.shape()));
        Self::apply(Op::Binary(op), &[&a.expand(&shape), &b.expand(&shape)], shape, dtype)
    }

    /// Both as tensors: a number takes the other's shape and type, or both are promoted.
    #[track_caller]
    pub(super) fn pair(a: Operand, b: Operand) -> (Self, Self) {
        match (a, b) {
            // where products are f16, what meets them may be f32: a residual, an embedding
            (Operand::Tensor(a), Operand::Tensor(b)) if a.dtype() != b.dtype() => {
                (a.full_precision(), b.full_precision())
            }
            (Operand::Tensor(a), Operand::Tensor(b)) => (a, b),
            (Operand::Tensor(a), number) => {
                let dtype = number.promoted(a.dtype());
                let b = number.into_tensor(a.shape(), dtype, a.device());
                (a.to_dtype(dtype), b)
            }
            (number, Operand::Tensor(b)) => {
                let (b, a) = Self::pair(Operand::Tensor(b), number);
                (a, b)
            }
            _ => unreachable!("one operand is a tensor"),
        }
    }

    /// Both as floats of one shape.
    #[track_caller]
    pub(crate) fn float_pair(name: &str, a: impl Into<Operand>, b: impl Into<Operand>) -> (Self, Self) {
        let (a, b) = Self::pair(a.into(), b.into());
        let (a, b) = (a.floats(), b.floats());
        let shape = ok(elementwise::broadcast(name, a.shape(), b.shape()));
        (a.expand(&shape), b.expand(&shape))
    }

    /// Itself, or as f32 if it is not a float.
    #[track_caller]
    pub(crate) fn floats(&self) -> Self {
        if self.dtype().is_float() { self.clone() } else { self.to_dtype(DType::F32) }
    }

    /// As f32 if it is f16, in which numbers of elements, their squares and their sums soon do not fit.
    #[track_caller]
    pub(super) fn countable(&self) -> Self {
        if self.dtype() == DType::F16 { self.to_dtype(DType::F32) } else { self.clone() }
    }

    /// `self ? a : b`, element by element, broadcast; `self` is bool. A number meets a tensor as in a sum: a float
    /// makes f32 of integers and bools, an integer i32 of bools.
    #[track_caller]
    #[must_use]
    pub fn where_(&self, a: impl Into<Operand>, b: impl Into<Operand>) -> Self {
        self.chosen(["where_", "condition"], a, b)
    }

    /// [`Tensor::where_`] as a part of the method `name`, which calls `self` `what`.
    #[track_caller]
    pub(super) fn chosen(&self, [name, what]: [&str; 2], a: impl Into<Operand>, b: impl Into<Operand>) -> Self {
        if self.dtype() != DType::Bool {
            refuse(format_args!("{name}: the {what} is {}, not bool", self.dtype()));
        }
        let (a, b) = match (a.into(), b.into()) {
            (a @ Operand::Tensor(_), b) | (a, b @ Operand::Tensor(_)) => Self::pair(a, b),
            (a, b) => {
                let dtype = match (&a, &b) {
                    (Operand::Float(_), _) | (_, Operand::Float(_)) => DType::F32,
                    (Operand::Int(_), _) | (_, Operand::Int(_)) => DType::I32,
                    _ => DType::Bool,
                };
                let a = a.into_tensor(self.shape(), dtype, self.device());
                (a, b.into_tensor(self.shape(), dtype, self.device()))
            }
        };
        let dtype = a.dtype();
        if dtype != b.dtype() {
            refuse(format_args!("{name}: {dtype} and {} do not mix; cast one with to_dtype", b.dtype()));
        }
        let shape = ok(elementwise::broadcast(name, a.shape(), b.shape()));
        let shape = ok(elementwise::broadcast(name, self.shape(), &shape));
        Self::apply(Op::Select, &[&self.expand(&shape), &a.expand(&shape), &b.expand(&shape)], shape, dtype)
    }
}

#[track_caller]
fn sum(a: Operand, b: Operand) -> Tensor {
    Tensor::binary(Binary::Add, a, b)
}

#[track_caller]
fn difference(a: Operand, b: Operand) -> Tensor {
    Tensor::binary(Binary::Sub, a, b)
}

#[track_caller]
fn product(a: Operand, b: Operand) -> Tensor {
    Tensor::binary(Binary::Mul, a, b)
}

/// `a / b` as real numbers.
#[track_caller]
fn quotient(a: Operand, b: Operand) -> Tensor {
    let floats = |operand: Operand| match operand {
        Operand::Tensor(tensor) => Operand::Tensor(tensor.floats()),
        number => number,
    };
    Tensor::binary(Binary::Div, floats(a), floats(b))
}

/// `a % b` as [`Tensor::remainder`] has it.
#[track_caller]
fn rest(a: Operand, b: Operand) -> Tensor {
    let (a, b) = Tensor::pair(a, b);
    a.remainder(b)
}

#[track_caller]
fn both(a: Operand, b: Operand) -> Tensor {
    Tensor::binary(Binary::And, a, b)
}

#[track_caller]
fn either(a: Operand, b: Operand) -> Tensor {
    Tensor::binary(Binary::Or, a, b)
}

#[track_caller]
fn one_of_them(a: Operand, b: Operand) -> Tensor {
    Tensor::binary(Binary::Xor, a, b)
}

// One implementation for everything on the right, and one float type on the left, so that the type of `1.0 - &x` is
// known before the literal's is.
macro_rules! operators {
    ($($(#[$doc:meta])* $trait:ident :: $method:ident, $assign_trait:ident :: $assign:ident = $compute:ident,
        $($left:ty)|*;)*) => {$(
        $(#[$doc])*
        impl<T: Into<Operand>> std::ops::$trait<T> for Tensor {
            type Output = Self;
            #[track_caller]
            fn $method(self, other: T) -> Self {
                $compute(self.into(), other.into())
            }
        }
        $(#[$doc])*
        impl<T: Into<Operand>> std::ops::$trait<T> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: T) -> Tensor {
                $compute(self.into(), other.into())
            }
        }
        /// The variable holds another tensor then: others that hold the old one keep it.
        impl<T: Into<Operand>> std::ops::$assign_trait<T> for Tensor {
            #[track_caller]
            fn $assign(&mut self, other: T) {
                *self = $compute((&*self).into(), other.into());
            }
        }
        $(
            operators!(@left $trait $method $compute; $left, Tensor);
            operators!(@left $trait $method $compute; $left, &Tensor);
        )*
    )*};
    (@left $trait:ident $method:ident $compute:ident; $left:ty, $right:ty) => {
        impl std::ops::$trait<$right> for $left {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: $right) -> Tensor {
                $compute(self.into(), other.into())
            }
        }
    };
}
operators! {
    /// Element by element, broadcast.
    Add::add, AddAssign::add_assign = sum, f64 | i32;
    /// Element by element, broadcast.
    Sub::sub, SubAssign::sub_assign = difference, f64 | i32;
    /// Element by element, broadcast; [`Tensor::matmul`] is the product of matrices.
    Mul::mul, MulAssign::mul_assign = product, f64 | i32;
    /// Element by element, broadcast: the quotient of real numbers, so that integers give f32.
    Div::div, DivAssign::div_assign = quotient, f64 | i32;
    /// As [`Tensor::remainder`], with the sign of the divisor: as in Python and PyTorch, and unlike `%` of Rust's numbers,
    /// which is [`Tensor::fmod`].
    Rem::rem, RemAssign::rem_assign = rest, f64 | i32;
    /// As [`Tensor::bitwise_and`]: of integers bit by bit, of bools the logical and.
    BitAnd::bitand, BitAndAssign::bitand_assign = both, i32 | bool;
    /// As [`Tensor::bitwise_or`]: of integers bit by bit, of bools the logical or.
    BitOr::bitor, BitOrAssign::bitor_assign = either, i32 | bool;
    /// As [`Tensor::bitwise_xor`]: of integers bit by bit, of bools true where exactly one is.
    BitXor::bitxor, BitXorAssign::bitxor_assign = one_of_them, i32 | bool;
}

impl std::ops::Neg for &Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        self.unary(Unary::Neg)
    }
}

impl std::ops::Neg for Tensor {
    type Output = Self;
    #[track_caller]
    fn neg(self) -> Self {
        self.unary(Unary::Neg)
    }
}

/// As [`Tensor::bitwise_not`]: of integers all bits inverted, of bools the logical not.
impl std::ops::Not for &Tensor {
    type Output = Tensor;
    #[track_caller]
    fn not(self) -> Tensor {
        self.bitwise_not()
    }
}

/// As [`Tensor::bitwise_not`]: of integers all bits inverted, of bools the logical not.
impl std::ops::Not for Tensor {
    type Output = Self;
    #[track_caller]
    fn not(self) -> Self {
        self.bitwise_not()
    }
}
