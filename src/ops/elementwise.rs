//! Elementwise ops: one row per op with its name, types, f64 reference and gradient rule.
//!
//! A new one is a variant in `graph/op.rs`, a row here, a function in `shaders/lib/scalar.wgsl` (unless WGSL has it)
//! and a method in `tensor/math.rs`. The CPU backend computes one of a single input by its f64 reference until
//! `cpu/elementwise.rs` has something faster; one of two inputs has its function there.

use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::graph::{Binary, Node, NodeRef, Unary};
use crate::shape::Shape;
use crate::tensor::Tensor;

use super::{shape_error, wrap};

/// The element types an op is defined for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Domain {
    /// f32, f16; methods cast other types to f32 first, as PyTorch does.
    Float,
    /// f32, f16, i32, u32.
    Number,
    /// Numbers and bool.
    NumberOrBool,
    /// i32, u32.
    Integer,
    /// i32, u32, u8, bool.
    Bits,
    /// bool.
    Bool,
    /// Every type.
    Any,
}

impl Domain {
    /// True if the op is defined for `dtype`.
    pub const fn contains(self, dtype: DType) -> bool {
        match self {
            Self::Float => dtype.is_float(),
            Self::Number => !matches!(dtype, DType::U8 | DType::Bool),
            Self::NumberOrBool => !matches!(dtype, DType::U8),
            Self::Integer => matches!(dtype, DType::I32 | DType::U32),
            Self::Bits => !dtype.is_float(),
            Self::Bool => matches!(dtype, DType::Bool),
            Self::Any => true,
        }
    }
}

/// What an op is in WGSL for inputs of float (f16 is computed in f32), i32, u32 (and u8) and bool. A sign is an
/// operator, a name is a builtin or a function of `shaders/lib/`; empty where the op does not exist.
pub type Wgsl = [&'static str; 4];

/// `(gradient of y, x, y)` to the gradient of `x`.
type UnaryGradient = fn(&Tensor, &Tensor, &Tensor) -> Tensor;

/// What there is to know about a [`Unary`].
#[derive(Debug)]
pub struct UnaryRow {
    /// The op.
    pub op: Unary,
    /// Its method's name.
    pub name: &'static str,
    /// Element types of its input; the output has the same type, except for predicates, which yield bool.
    pub domain: Domain,
    /// What it is in WGSL: see [`Wgsl`].
    pub wgsl: Wgsl,
    /// Cost of computing one element again, in units of a cheap instruction.
    pub cost: u32,
    /// Its value in f64.
    pub reference: fn(f64) -> f64,
    gradient: Option<UnaryGradient>,
}

const fn unary_row(
    op: Unary,
    name: &'static str,
    domain: Domain,
    wgsl: Wgsl,
    reference: fn(f64) -> f64,
    gradient: Option<UnaryGradient>,
) -> UnaryRow {
    UnaryRow { op, name, domain, wgsl, cost: 1, reference, gradient }
}

/// One row for each [`Unary`], in its order.
pub static UNARY: [UnaryRow; 21] = [
    unary_row(Unary::Neg, "neg", Domain::Number, ["-", "-", "negate_uint", ""], |x| -x, Some(|g, _, _| -g)),
    unary_row(
        Unary::Abs,
        "abs",
        Domain::Number,
        ["abs", "abs", "identity_uint", ""],
        f64::abs,
        Some(|g, x, _| g * x.sign()),
    ),
    unary_row(Unary::Sign, "sign", Domain::Number, ["sign_float", "sign", "sign_uint", ""], sign, None),
    unary_row(Unary::Exp, "exp", Domain::Float, ["exp", "", "", ""], f64::exp, Some(|g, _, y| g * y)).costing(8),
    unary_row(
        Unary::Expm1,
        "expm1",
        Domain::Float,
        ["exp_minus_1", "", "", ""],
        f64::exp_m1,
        Some(|g, _, y| g * (y + 1.0)),
    )
    .costing(8),
    unary_row(Unary::Log, "log", Domain::Float, ["logarithm", "", "", ""], f64::ln, Some(|g, x, _| g / x)).costing(8),
    unary_row(
        Unary::Log1p,
        "log1p",
        Domain::Float,
        ["log_plus_1", "", "", ""],
        f64::ln_1p,
        Some(|g, x, _| g / (x + 1.0)),
    )
    .costing(8),
    unary_row(Unary::Sqrt, "sqrt", Domain::Float, ["square_root", "", "", ""], f64::sqrt, Some(|g, _, y| g * 0.5 / y))
        .costing(3),
    unary_row(
        Unary::Rsqrt,
        "rsqrt",
        Domain::Float,
        ["inverseSqrt", "", "", ""],
        |x| x.sqrt().recip(),
        Some(|g, _, y| g * (y * y * y) * -0.5),
    )
    .costing(3),
    unary_row(
        Unary::Recip,
        "reciprocal",
        Domain::Float,
        ["reciprocal", "", "", ""],
        f64::recip,
        Some(|g, _, y| -(g * (y * y))),
    )
    .costing(3),
    unary_row(Unary::Sin, "sin", Domain::Float, ["sine", "", "", ""], f64::sin, Some(|g, x, _| g * x.cos())).costing(8),
    unary_row(Unary::Cos, "cos", Domain::Float, ["cosine", "", "", ""], f64::cos, Some(|g, x, _| -(g * x.sin())))
        .costing(8),
    unary_row(
        Unary::Tanh,
        "tanh",
        Domain::Float,
        ["tanh_stable", "", "", ""],
        f64::tanh,
        Some(|g, _, y| g * (1.0 - y * y)),
    )
    .costing(8),
    unary_row(
        Unary::Erf,
        "erf",
        Domain::Float,
        ["erf", "", "", ""],
        erf,
        Some(|g, x, _| g * (-(x * x)).exp() * std::f64::consts::FRAC_2_SQRT_PI),
    )
    .costing(12),
    unary_row(
        Unary::Sigmoid,
        "sigmoid",
        Domain::Float,
        ["sigmoid", "", "", ""],
        |x| ((-x).exp() + 1.0).recip(),
        Some(|g, _, y| g * (y * (1.0 - y))),
    )
    .costing(8),
    unary_row(Unary::Floor, "floor", Domain::Float, ["floor", "", "", ""], f64::floor, None),
    unary_row(Unary::Ceil, "ceil", Domain::Float, ["ceil", "", "", ""], f64::ceil, None),
    unary_row(Unary::Round, "round", Domain::Float, ["round", "", "", ""], f64::round_ties_even, None),
    unary_row(Unary::Not, "logical_not", Domain::Bool, ["", "", "", "!"], |x| f64::from(x == 0.0), None),
    unary_row(
        Unary::IsFinite,
        "isfinite",
        Domain::Float,
        ["is_finite", "", "", ""],
        |x| f64::from(x.is_finite()),
        None,
    ),
    unary_row(Unary::IsNan, "isnan", Domain::Float, ["is_nan", "", "", ""], |x| f64::from(x.is_nan()), None),
];

/// `(gradient of y, a, b, y)` to the gradients of `a` and `b`.
type BinaryGradient = fn(&Tensor, &Tensor, &Tensor, &Tensor) -> (Tensor, Tensor);

/// What there is to know about a [`Binary`].
#[derive(Debug)]
pub struct BinaryRow {
    /// The op.
    pub op: Binary,
    /// Its method's name.
    pub name: &'static str,
    /// Element types of its inputs; the output has the same type, comparisons yield bool.
    pub domain: Domain,
    /// What it is in WGSL: see [`Wgsl`].
    pub wgsl: Wgsl,
    /// Cost of computing one element again, in units of a cheap instruction.
    pub cost: u32,
    float: fn(f64, f64) -> f64,
    integer: fn(i64, i64) -> i64,
    gradient: Option<BinaryGradient>,
}

const fn binary_row(
    op: Binary,
    name: &'static str,
    domain: Domain,
    wgsl: Wgsl,
    float: fn(f64, f64) -> f64,
    integer: fn(i64, i64) -> i64,
    gradient: Option<BinaryGradient>,
) -> BinaryRow {
    BinaryRow { op, name, domain, wgsl, cost: 1, float, integer, gradient }
}

/// One row for each [`Binary`], in its order.
pub static BINARY: [BinaryRow; 18] = [
    binary_row(
        Binary::Add,
        "add",
        Domain::NumberOrBool,
        ["+", "+", "+", "|"],
        |a, b| a + b,
        |a, b| a + b,
        Some(|g, _, _, _| (g.clone(), g.clone())),
    ),
    binary_row(
        Binary::Sub,
        "sub",
        Domain::Number,
        ["-", "-", "-", ""],
        |a, b| a - b,
        |a, b| a - b,
        Some(|g, _, _, _| (g.clone(), -g)),
    ),
    binary_row(
        Binary::Mul,
        "mul",
        Domain::NumberOrBool,
        ["*", "*", "*", "&"],
        |a, b| a * b,
        i64::wrapping_mul,
        Some(|g, a, b, _| (g * b, g * a)),
    ),
    binary_row(
        Binary::Div,
        "div",
        Domain::Number,
        ["/", "divide_int", "divide_uint", ""],
        |a, b| a / b,
        |a, b| a.checked_div(b).unwrap_or(0),
        Some(|g, _, b, y| {
            let over = g / b;
            (over.clone(), -(over * y))
        }),
    )
    .costing(3),
    // a = b · whole + y with a constant whole number
    binary_row(
        Binary::Rem,
        "fmod",
        Domain::Number,
        ["remainder_float", "remainder_int", "remainder_uint", ""],
        |a, b| a % b,
        |a, b| a.checked_rem(b).unwrap_or(0),
        Some(|g, a, b, y| (g.clone(), -(g * ((a - y) / b).round()))),
    ),
    binary_row(Binary::Pow, "pow", Domain::Float, ["power", "", "", ""], f64::powf, no_integers, Some(pow_gradient))
        .costing(16),
    binary_row(
        Binary::Atan2,
        "atan2",
        Domain::Float,
        ["arc_tangent", "", "", ""],
        f64::atan2,
        no_integers,
        Some(|g, a, b, _| {
            let square = a * a + b * b;
            // the origin has no angle
            let over = square.eq(0.0).where_(0.0, g / square);
            (&over * b, -(over * a))
        }),
    )
    .costing(16),
    binary_row(
        Binary::Max,
        "maximum",
        Domain::Any,
        ["maximum", "max", "max", "|"],
        max,
        i64::max,
        Some(|g, a, b, _| extremum_gradient(g, &b.lt(a), &a.lt(b), &a.eq(b))),
    ),
    binary_row(
        Binary::Min,
        "minimum",
        Domain::Any,
        ["minimum", "min", "min", "&"],
        min,
        i64::min,
        Some(|g, a, b, _| extremum_gradient(g, &a.lt(b), &b.lt(a), &a.eq(b))),
    ),
    binary_row(Binary::And, "bitwise_and", Domain::Bits, ["", "&", "&", "&"], no_floats, |a, b| a & b, None),
    binary_row(Binary::Or, "bitwise_or", Domain::Bits, ["", "|", "|", "|"], no_floats, |a, b| a | b, None),
    binary_row(Binary::Xor, "bitwise_xor", Domain::Bits, ["", "^", "^", "!="], no_floats, |a, b| a ^ b, None),
    binary_row(
        Binary::Shl,
        "shl",
        Domain::Integer,
        ["", "shift_left_int", "shift_left_uint", ""],
        no_floats,
        |a, b| a << (b & 31),
        None,
    ),
    binary_row(
        Binary::Shr,
        "shr",
        Domain::Integer,
        ["", "shift_right_int", "shift_right_uint", ""],
        no_floats,
        |a, b| a >> (b & 31),
        None,
    ),
    binary_row(
        Binary::Eq,
        "eq",
        Domain::Any,
        ["==", "==", "==", "=="],
        |a, b| f64::from(a == b),
        |a, b| i64::from(a == b),
        None,
    ),
    binary_row(
        Binary::Ne,
        "ne",
        Domain::Any,
        ["not_equal", "!=", "!=", "!="],
        |a, b| f64::from(a != b),
        |a, b| i64::from(a != b),
        None,
    ),
    binary_row(
        Binary::Lt,
        "lt",
        Domain::Any,
        ["<", "<", "<", "less_bool"],
        |a, b| f64::from(a < b),
        |a, b| i64::from(a < b),
        None,
    ),
    binary_row(
        Binary::Le,
        "le",
        Domain::Any,
        ["<=", "<=", "<=", "less_equal_bool"],
        |a, b| f64::from(a <= b),
        |a, b| i64::from(a <= b),
        None,
    ),
];

/// The row of a unary op.
pub fn unary(op: Unary) -> &'static UnaryRow {
    &UNARY[op as usize]
}

/// The row of a binary op.
pub fn binary(op: Binary) -> &'static BinaryRow {
    &BINARY[op as usize]
}

impl UnaryRow {
    /// Of what is not cheap.
    const fn costing(self, cost: u32) -> Self {
        Self { cost, ..self }
    }

    /// The output's type for an input of type `dtype`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape), which names the op, if it is not defined for that type.
    pub fn output_dtype(&self, dtype: DType) -> Result<DType> {
        if !self.domain.contains(dtype) {
            return shape_error(format!("{}: not defined for {dtype}; cast with to_dtype", self.name));
        }
        Ok(if matches!(self.op, Unary::Not | Unary::IsFinite | Unary::IsNan) { DType::Bool } else { dtype })
    }
}

impl BinaryRow {
    /// Of what is not cheap.
    const fn costing(self, cost: u32) -> Self {
        Self { cost, ..self }
    }

    /// The output's type for inputs of these types.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape), which names the op, if it is not defined for them, or they differ.
    pub fn output_dtype(&self, a: DType, b: DType) -> Result<DType> {
        if a != b {
            return shape_error(format!("{}: {a} and {b} do not mix; cast one with to_dtype", self.name));
        }
        if !self.domain.contains(a) {
            return shape_error(format!("{}: not defined for {a}; cast with to_dtype", self.name));
        }
        Ok(if self.op.is_comparison() { DType::Bool } else { a })
    }

    /// The output's shape: that to which both broadcast.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) if they do not broadcast.
    pub fn output_shape(&self, a: &Shape, b: &Shape) -> Result<Shape> {
        broadcast(self.name, a, b)
    }
}

/// The shape both broadcast to.
///
/// # Errors
/// [`Error::Shape`](crate::Error::Shape), which names the op, if they do not.
pub fn broadcast(name: &str, a: &Shape, b: &Shape) -> Result<Shape> {
    match a.broadcast(b) {
        Some(shape) => Ok(shape),
        None => shape_error(format!("{name}: {a} and {b} do not broadcast")),
    }
}

pub(super) fn unary_gradient(op: Unary, node: &NodeRef, g: &Tensor) -> Option<Tensor> {
    let x = Tensor::from_node(node.inputs[0].clone());
    unary(op).gradient.map(|rule| rule(g, &x, &Tensor::from_node(node.clone())))
}

pub(super) fn binary_gradient(op: Binary, node: &NodeRef, g: &Tensor) -> Vec<Option<Tensor>> {
    let Some(rule) = binary(op).gradient else { return vec![None, None] };
    let (a, b) = (Tensor::from_node(node.inputs[0].clone()), Tensor::from_node(node.inputs[1].clone()));
    let (a, b) = rule(g, &a, &b, &Tensor::from_node(node.clone()));
    vec![Some(a), Some(b)]
}

pub(super) fn select_gradient(node: &NodeRef, g: &Tensor) -> Vec<Option<Tensor>> {
    let condition = Tensor::from_node(node.inputs[0].clone());
    vec![None, Some(condition.where_(g, 0.0)), Some(condition.where_(0.0, g))]
}

pub(super) fn cast_gradient(node: &NodeRef, g: &Tensor) -> Tensor {
    g.to_dtype(node.inputs[0].dtype)
}

/// `b · a^(b-1)` and `y · ln a`; zero where the other factor's pole does not count.
fn pow_gradient(g: &Tensor, a: &Tensor, b: &Tensor, y: &Tensor) -> (Tensor, Tensor) {
    let base = b.eq(0.0).where_(0.0, g * b * a.pow(b - 1.0));
    let exponent = a.eq(0.0).logical_and(&b.ge(0.0)).where_(0.0, g * y * a.log());
    (base, exponent)
}

/// The loser gets nothing; equals share the gradient. Where one is NaN there is no loser.
fn extremum_gradient(g: &Tensor, a_wins: &Tensor, b_wins: &Tensor, tie: &Tensor) -> (Tensor, Tensor) {
    let half = g * 0.5;
    let a = tie.where_(&half, b_wins.where_(0.0, g));
    let b = tie.where_(half, a_wins.where_(0.0, g));
    (a, b)
}

pub(super) fn unary_reference(op: Unary, node: &Node, inputs: &[&[f64]]) -> Vec<f64> {
    let f = unary(op).reference;
    let round = |value: f64| if node.dtype.is_float() { value } else { wrap(node.dtype, value as i64) };
    inputs[0].iter().map(|&x| round(f(x))).collect()
}

pub(super) fn binary_reference(op: Binary, node: &Node, inputs: &[&[f64]]) -> Vec<f64> {
    let row = binary(op);
    let floats = node.inputs[0].dtype.is_float();
    let pairs = inputs[0].iter().zip(inputs[1]);
    pairs
        .map(|(&a, &b)| if floats { (row.float)(a, b) } else { wrap(node.dtype, (row.integer)(a as i64, b as i64)) })
        .collect()
}

pub(super) fn select_reference(inputs: &[&[f64]]) -> Vec<f64> {
    let values = inputs[1].iter().zip(inputs[2]);
    inputs[0].iter().zip(values).map(|(&condition, (&a, &b))| if condition != 0.0 { a } else { b }).collect()
}

pub(super) fn cast_reference(node: &Node, inputs: &[&[f64]]) -> Vec<f64> {
    let from_float = node.inputs[0].dtype.is_float();
    let cast = |&x: &f64| {
        if from_float || node.dtype.is_float() {
            Scalar::new(node.dtype, x).to_f64()
        } else {
            wrap(node.dtype, x as i64)
        }
    };
    inputs[0].iter().map(cast).collect()
}

/// One value of a [`Unary`] on `dtype`.
pub(crate) fn unary_value(op: Unary, dtype: DType, x: f64) -> f64 {
    let y = (unary(op).reference)(x);
    if dtype.is_float() { y } else { wrap(dtype, y as i64) }
}

/// One value of a [`Binary`] whose inputs have type `dtype`.
pub(crate) fn binary_value(op: Binary, dtype: DType, a: f64, b: f64) -> f64 {
    let row = binary(op);
    if dtype.is_float() {
        return (row.float)(a, b);
    }
    let result = (row.integer)(a as i64, b as i64);
    wrap(if op.is_comparison() { DType::Bool } else { dtype }, result)
}

/// One value cast from `from` to `to`.
pub(crate) fn cast_value(from: DType, to: DType, x: f64) -> f64 {
    if from.is_float() || to.is_float() { Scalar::new(to, x).to_f64() } else { wrap(to, x as i64) }
}

pub(super) fn bitcast_reference(node: &Node, inputs: &[&[f64]]) -> Vec<f64> {
    let from = node.inputs[0].dtype;
    inputs[0].iter().map(|&x| Scalar { dtype: node.dtype, bits: Scalar::new(from, x).bits }.to_f64()).collect()
}

fn sign(x: f64) -> f64 {
    if x > 0.0 {
        1.0
    } else if x < 0.0 {
        -1.0
    } else {
        x
    }
}

/// The larger one; NaN if either is.
pub(crate) fn max(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

/// The smaller one; NaN if either is.
pub(crate) fn min(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.min(b) }
}

fn no_floats(_: f64, _: f64) -> f64 {
    unreachable!("bitwise ops are not defined for floats")
}

fn no_integers(_: i64, _: i64) -> i64 {
    unreachable!("defined for floats only")
}

/// Error function to about 1e-16: a series of positive terms near 0, a continued fraction far out.
fn erf(x: f64) -> f64 {
    let square = x * x;
    if x.abs() < 3.0 {
        let (mut term, mut sum) = (x, x);
        for n in 1..100 {
            term *= 2.0 * square / f64::from(2 * n + 1);
            sum += term;
        }
        std::f64::consts::FRAC_2_SQRT_PI * (-square).exp() * sum
    } else if x.is_nan() {
        x
    } else {
        // erfc(z) = e^(-z²)/√π · 1/(z + (1/2)/(z + 1/(z + (3/2)/(z + …))))
        let z = x.abs();
        let fraction = (1..60).rev().fold(z, |tail, n| z + f64::from(n) / 2.0 / tail);
        let complement = if z > 30.0 { 0.0 } else { (-square).exp() / (fraction * std::f64::consts::PI.sqrt()) };
        (1.0 - complement).copysign(x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_the_order_of_their_ops() {
        assert!(UNARY.iter().enumerate().all(|(number, row)| row.op as usize == number));
        assert!(BINARY.iter().enumerate().all(|(number, row)| row.op as usize == number));
    }

    #[test]
    #[expect(clippy::excessive_precision, reason = "as tabulated")]
    fn erf_agrees_with_tables() {
        for (x, expected) in [
            (0.1, 0.112_462_916_018_284_892_20),
            (1.0, 0.842_700_792_949_714_869_34),
            (2.9, 0.999_958_902_121_900_541_16),
            (3.1, 0.999_988_351_342_631_550_6),
        ] {
            assert!((erf(x) - expected).abs() < 1e-14, "erf({x}) = {}", erf(x));
            assert!((erf(-x) + expected).abs() < 1e-14);
        }
    }
}
