//! Which WGSL operator, builtin or library function each elementwise operation is.

use crate::dtype::DType;
use crate::graph::{Binary, ReduceOp, Unary};

/// How a value is held in registers: f16 as f32, u8 as u32.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Register {
    Float,
    Int,
    Uint,
    Bool,
}

impl Register {
    pub(crate) fn of(dtype: DType) -> Self {
        match dtype {
            DType::F32 | DType::F16 => Self::Float,
            DType::I32 => Self::Int,
            DType::U32 | DType::U8 => Self::Uint,
            DType::Bool => Self::Bool,
        }
    }

    /// The WGSL type.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Float => "f32",
            Self::Int => "i32",
            Self::Uint => "u32",
            Self::Bool => "bool",
        }
    }

    /// The WGSL type of `width` (1 or 4) values.
    pub(crate) fn wide(self, width: usize) -> String {
        if width == 1 { self.name().into() } else { format!("vec4<{}>", self.name()) }
    }

    /// The value that loads outside yield.
    pub(crate) fn zero(self) -> &'static str {
        match self {
            Self::Float => "0.0f",
            Self::Int => "0i",
            Self::Uint => "0u",
            Self::Bool => "false",
        }
    }
}

/// One row for each unary operation: for float, i32, u32 and bool. A sign is a prefix operator; a name is a builtin or a
/// library function; empty: the operation does not exist there.
pub(crate) const UNARY: &[(Unary, [&str; 4])] = &[
    (Unary::Neg, ["-", "-", "negate_uint", ""]),
    (Unary::Abs, ["abs", "abs", "identity_uint", ""]),
    (Unary::Sign, ["sign_float", "sign", "sign_uint", ""]),
    (Unary::Exp, ["exp", "", "", ""]),
    (Unary::Expm1, ["exp_minus_1", "", "", ""]),
    (Unary::Log, ["logarithm", "", "", ""]),
    (Unary::Log1p, ["log_plus_1", "", "", ""]),
    (Unary::Sqrt, ["square_root", "", "", ""]),
    (Unary::Rsqrt, ["inverseSqrt", "", "", ""]),
    (Unary::Recip, ["reciprocal", "", "", ""]),
    (Unary::Sin, ["sine", "", "", ""]),
    (Unary::Cos, ["cosine", "", "", ""]),
    (Unary::Tanh, ["tanh_stable", "", "", ""]),
    (Unary::Erf, ["erf", "", "", ""]),
    (Unary::Sigmoid, ["sigmoid", "", "", ""]),
    (Unary::Floor, ["floor", "", "", ""]),
    (Unary::Ceil, ["ceil", "", "", ""]),
    (Unary::Round, ["round", "", "", ""]),
    (Unary::Not, ["", "", "", "!"]),
    (Unary::IsFinite, ["is_finite", "", "", ""]),
    (Unary::IsNan, ["is_nan", "", "", ""]),
];

/// One row for each binary operation: for inputs of float, i32, u32 and bool. A sign is an infix operator.
pub(crate) const BINARY: &[(Binary, [&str; 4])] = &[
    (Binary::Add, ["+", "+", "+", "|"]),
    (Binary::Sub, ["-", "-", "-", ""]),
    (Binary::Mul, ["*", "*", "*", "&"]),
    (Binary::Div, ["/", "divide_int", "divide_uint", ""]),
    (Binary::Rem, ["remainder_float", "remainder_int", "remainder_uint", ""]),
    (Binary::Pow, ["power", "", "", ""]),
    (Binary::Atan2, ["arc_tangent", "", "", ""]),
    (Binary::Max, ["maximum", "max", "max", "|"]),
    (Binary::Min, ["minimum", "min", "min", "&"]),
    (Binary::And, ["", "&", "&", "&"]),
    (Binary::Or, ["", "|", "|", "|"]),
    (Binary::Xor, ["", "^", "^", "!="]),
    (Binary::Shl, ["", "shift_left_int", "shift_left_uint", ""]),
    (Binary::Shr, ["", "shift_right_int", "shift_right_uint", ""]),
    (Binary::Eq, ["==", "==", "==", "=="]),
    (Binary::Ne, ["!=", "!=", "!=", "!="]),
    (Binary::Lt, ["<", "<", "<", "less_bool"]),
    (Binary::Le, ["<=", "<=", "<=", "less_equal_bool"]),
];

/// The binary operation that a reduction repeats.
pub(crate) fn combine(op: ReduceOp) -> Binary {
    match op {
        ReduceOp::Sum => Binary::Add,
        ReduceOp::Prod => Binary::Mul,
        ReduceOp::Max => Binary::Max,
        ReduceOp::Min => Binary::Min,
    }
}

fn is_operator(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_alphabetic())
}

fn called(name: &str, width: usize) -> String {
    if width == 4 && super::library::has_function(name) { format!("{name}_4") } else { name.into() }
}

/// The expression for `op` on `a`, or `None` where the operation does not exist for that type.
pub(crate) fn unary(op: Unary, dtype: DType, width: usize, a: &str) -> Option<String> {
    let name = UNARY.iter().find(|row| row.0 == op)?.1[Register::of(dtype) as usize];
    match name {
        "" => None,
        name if is_operator(name) => Some(format!("{name}({a})")),
        name => Some(format!("{}({a})", called(name, width))),
    }
}

/// The expression for `op` on `a` and `b` of type `dtype`, or `None` where the operation does not exist for that type.
pub(crate) fn binary(op: Binary, dtype: DType, width: usize, a: &str, b: &str) -> Option<String> {
    let name = BINARY.iter().find(|row| row.0 == op)?.1[Register::of(dtype) as usize];
    let text = match name {
        "" => return None,
        name if is_operator(name) => format!("({a} {name} {b})"),
        name => format!("{}({a}, {b})", called(name, width)),
    };
    // Bytes are computed in 32 bits; what can leave 0..256 wraps.
    let wraps = matches!(op, Binary::Add | Binary::Sub | Binary::Mul | Binary::Shl);
    Some(match (dtype, wraps, width) {
        (DType::U8, true, 1) => format!("({text} & 255u)"),
        (DType::U8, true, _) => format!("({text} & vec4u(255u))"),
        _ => text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builtins that rows may name; everything else must be in the library.
    const BUILTINS: &[&str] =
        &["abs", "sign", "exp", "log", "inverseSqrt", "sin", "cos", "floor", "ceil", "round", "max", "min"];

    #[test]
    fn every_row_names_a_function_that_exists() {
        let unary = UNARY.iter().flat_map(|row| row.1);
        for name in unary.chain(BINARY.iter().flat_map(|row| row.1)) {
            assert!(
                name.is_empty()
                    || is_operator(name)
                    || BUILTINS.contains(&name)
                    || super::super::library::has_function(name),
                "{name} is neither a builtin nor in shaders/lib"
            );
        }
    }

    #[test]
    fn no_operation_has_two_rows() {
        for (i, row) in UNARY.iter().enumerate() {
            assert!(!UNARY[..i].iter().any(|other| other.0 == row.0), "{:?}", row.0);
        }
        for (i, row) in BINARY.iter().enumerate() {
            assert!(!BINARY[..i].iter().any(|other| other.0 == row.0), "{:?}", row.0);
        }
    }
}
