//! Which WGSL operator, builtin or library function each elementwise operation is.

use crate::dtype::DType;
use crate::graph::{Binary, Unary};
use crate::ops::elementwise;

/// The components of a vector.
pub(super) const LANES: [&str; 4] = ["x", "y", "z", "w"];

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

fn is_operator(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_alphabetic())
}

fn called(name: &str, width: usize) -> String {
    if width == 4 && super::library::has_function(name) { format!("{name}_4") } else { name.into() }
}

/// The expression for `op` on `a`, or `None` where the operation does not exist for that type.
pub(crate) fn unary(op: Unary, dtype: DType, width: usize, a: &str) -> Option<String> {
    let name = elementwise::unary(op).wgsl[Register::of(dtype) as usize];
    match name {
        "" => None,
        name if is_operator(name) => Some(format!("{name}({a})")),
        name => Some(format!("{}({a})", called(name, width))),
    }
}

/// The expression for `op` on `a` and `b` of type `dtype`, or `None` where the operation does not exist for that type.
pub(crate) fn binary(op: Binary, dtype: DType, width: usize, a: &str, b: &str) -> Option<String> {
    let name = elementwise::binary(op).wgsl[Register::of(dtype) as usize];
    match name {
        "" => None,
        name if is_operator(name) => Some(format!("({a} {name} {b})")),
        name => Some(format!("{}({a}, {b})", called(name, width))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::elementwise::{BINARY, UNARY};

    /// Builtins that rows may name; everything else must be in the library.
    const BUILTINS: &[&str] =
        &["abs", "sign", "exp", "log", "inverseSqrt", "sin", "cos", "floor", "ceil", "round", "max", "min"];

    #[test]
    fn every_row_names_a_function_that_exists() {
        let unary = UNARY.iter().flat_map(|row| row.wgsl);
        for name in unary.chain(BINARY.iter().flat_map(|row| row.wgsl)) {
            assert!(
                name.is_empty()
                    || is_operator(name)
                    || BUILTINS.contains(&name)
                    || super::super::library::has_function(name),
                "{name} is neither a builtin nor in shaders/lib"
            );
        }
    }
}
