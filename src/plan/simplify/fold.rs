//! Constants computed ahead: only what every device computes exactly, so that a folded constant is no other than a
//! computed one.

use crate::dtype::{DType, Scalar};
use crate::graph::{Binary, Unary};

pub(super) fn unary(op: Unary, value: Scalar) -> Option<Scalar> {
    let x = value.to_f64();
    let result = match op {
        Unary::Neg if value.dtype.is_float() => -x,
        Unary::Abs if value.dtype.is_float() => x.abs(),
        Unary::Not => f64::from(u8::from(x == 0.0)),
        _ => return None,
    };
    Some(Scalar::new(value.dtype, result))
}

pub(crate) fn binary(op: Binary, a: Scalar, b: Scalar, dtype: DType) -> Option<Scalar> {
    if a.dtype != dtype || b.dtype != dtype {
        return None;
    }
    let bits = match dtype {
        DType::F32 => {
            let (x, y) = (f32::from_bits(a.bits), f32::from_bits(b.bits));
            let result = match op {
                Binary::Add => x + y,
                Binary::Sub => x - y,
                Binary::Mul => x * y,
                Binary::Div => x / y,
                _ => return None,
            };
            result.to_bits()
        }
        DType::I32 | DType::U32 => match op {
            Binary::Add => a.bits.wrapping_add(b.bits),
            Binary::Sub => a.bits.wrapping_sub(b.bits),
            Binary::Mul => a.bits.wrapping_mul(b.bits),
            _ => return None,
        },
        _ => return None,
    };
    Some(Scalar { dtype, bits })
}
