//! Functions of real numbers, rounding and limits.

use crate::DType;

use super::{Row, binary, row, unary};

pub(super) fn rows() -> Vec<Row> {
    vec![
        unary("log1p", -0.5, 2.0, |x| x[0].log1p()),
        unary("expm1", -2.0, 2.0, |x| x[0].expm1()),
        unary("tan", -1.2, 1.2, |x| x[0].tan()),
        unary("asin", -0.9, 0.9, |x| x[0].asin()),
        unary("acos", -0.9, 0.9, |x| x[0].acos()),
        unary("atan", -3.0, 3.0, |x| x[0].atan()),
        binary("atan2", 0.5, 3.0, |x| x[0].atan2(&x[1])),
        unary("sinh", -3.0, 3.0, |x| x[0].sinh()),
        unary("cosh", -3.0, 3.0, |x| x[0].cosh()),
        unary("asinh", -3.0, 3.0, |x| x[0].asinh()),
        unary("acosh", 1.5, 4.0, |x| x[0].acosh()),
        unary("atanh", -0.9, 0.9, |x| x[0].atanh()),
        unary("exp2", -3.0, 3.0, |x| x[0].exp2()),
        unary("log2", 0.1, 4.0, |x| x[0].log2()),
        unary("log10", 0.1, 4.0, |x| x[0].log10()),
        binary("logaddexp", -3.0, 3.0, |x| x[0].logaddexp(&x[1])),
        binary("logaddexp2", -3.0, 3.0, |x| x[0].logaddexp2(&x[1])),
        binary("hypot", 0.5, 3.0, |x| x[0].hypot(&x[1])),
        binary("xlogy", 0.5, 3.0, |x| x[0].xlogy(&x[1])),
        unary("logit", 0.1, 0.9, |x| x[0].logit()),
        unary("deg2rad", -90.0, 90.0, |x| x[0].deg2rad().rad2deg()),
        unary("trunc", -5.0, 5.0, |x| x[0].trunc()),
        unary("frac", -5.0, 5.0, |x| x[0].frac()),
        row("floor_divide", |x| x[0].floor_divide(&x[1]))
            .typed(DType::I32, -9.0, 9.0, [&[3, 5], &[5]])
            .typed(DType::U32, 0.0, 9.0, [&[4], &[4]])
            .within(0.5, 4.0, [&[7], &[7]]),
        unary("clamp_min", -2.0, 2.0, |x| x[0].clamp_min(0.5)).typed(DType::I32, -9.0, 9.0, [&[5]]),
        unary("clamp_max", -2.0, 2.0, |x| x[0].clamp_max(0.5)),
        binary("clamp_tensors", -2.0, 2.0, |x| x[0].clamp(&x[1] - 1.0, &x[1] + 1.0)),
        unary("isinf", -1.0, 1.0, |x| x[0].log().reciprocal().isinf()),
        unary("nan_to_num", -1.0, 1.0, |x| x[0].nan_to_num(0.0, None, None)),
        unary("signbit", -2.0, 2.0, |x| x[0].signbit()),
        binary("copysign", -2.0, 2.0, |x| x[0].copysign(&x[1])),
        row("lerp", |x| x[0].lerp(&x[1], &x[2])).on([&[3, 5], &[5], &[3, 1]]),
        row("addcmul", |x| x[0].addcmul(&x[1], &x[2], 0.5).addcdiv(&x[1], &(x[2].square() + 1.0), 2.0)).on([
            &[3, 5],
            &[5],
            &[3, 1],
        ]),
        binary("isclose", -2.0, 2.0, |x| x[0].isclose(&x[1], 0.25, 0.5, false)),
        row("bitwise_not", |x| x[0].bitwise_not())
            .typed(DType::I32, -9.0, 9.0, [&[5]])
            .typed(DType::U32, 0.0, 9.0, [&[5]])
            .typed(DType::U8, 0.0, 255.0, [&[5]])
            .typed(DType::Bool, 0.0, 2.0, [&[5]]),
        row("logical_xor", |x| x[0].logical_xor(&x[1])).typed(DType::Bool, 0.0, 2.0, [&[7], &[7]]),
    ]
}
