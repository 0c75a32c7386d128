//! Elementwise ops.

use crate::DType;

use super::{Row, binary, row, unary};

pub(super) fn rows() -> Vec<Row> {
    let int = |row: Row| row.typed(DType::I32, -9.0, 9.0, [&[3, 5], &[5]]).typed(DType::U32, 0.0, 9.0, [&[4], &[4]]);
    vec![
        unary("neg", -2.0, 2.0, |x| -&x[0]).typed(DType::I32, -9.0, 9.0, [&[5]]),
        unary("abs", -2.0, 2.0, |x| x[0].abs()).typed(DType::I32, -9.0, 9.0, [&[5]]),
        unary("sign", -2.0, 2.0, |x| x[0].sign()),
        unary("exp", -2.0, 2.0, |x| x[0].exp()),
        unary("log", 0.1, 4.0, |x| x[0].log()),
        unary("sqrt", 0.1, 4.0, |x| x[0].sqrt()),
        unary("rsqrt", 0.1, 4.0, |x| x[0].rsqrt()),
        unary("reciprocal", 0.5, 4.0, |x| x[0].reciprocal()),
        unary("sin", -4.0, 4.0, |x| x[0].sin()),
        unary("cos", -4.0, 4.0, |x| x[0].cos()),
        unary("tanh", -3.0, 3.0, |x| x[0].tanh()),
        unary("erf", -3.0, 3.0, |x| x[0].erf()),
        unary("erfc", -3.0, 3.0, |x| x[0].erfc()),
        unary("sigmoid", -5.0, 5.0, |x| x[0].sigmoid()),
        unary("floor", -5.0, 5.0, |x| x[0].floor()),
        unary("ceil", -5.0, 5.0, |x| x[0].ceil()),
        unary("round", -5.0, 5.0, |x| x[0].round()),
        unary("isfinite", -1.0, 1.0, |x| x[0].log().isfinite()),
        unary("isnan", -1.0, 1.0, |x| x[0].log().isnan()),
        // what a compiler takes for 0, or for a number, if it computes as if there were no others
        unary("not_finite", 0.5, 2.0, |x| {
            let infinite = &x[0] / 0.0;
            let again = infinite.clone();
            (&infinite - again)
                .isnan()
                .logical_and(&(&infinite * 0.0).isnan())
                .logical_and(&infinite.isfinite().logical_not())
        }),
        row("logical_not", |x| x[0].logical_not()).typed(DType::Bool, 0.0, 2.0, [&[3, 5]]),
        int(binary("add", -2.0, 2.0, |x| &x[0] + &x[1])),
        int(binary("sub", -2.0, 2.0, |x| &x[0] - &x[1])),
        int(binary("mul", -2.0, 2.0, |x| &x[0] * &x[1])),
        binary("div", 0.5, 4.0, |x| &x[0] / &x[1]),
        int(row("div_trunc", |x| x[0].div_trunc(&x[1]))),
        int(binary("fmod", 0.5, 4.0, |x| x[0].fmod(&x[1]))),
        int(row("remainder", |x| x[0].remainder(&x[1]))),
        binary("pow", 0.5, 3.0, |x| x[0].pow(&x[1])),
        unary("pow_whole", -2.0, 2.0, |x| x[0].pow(3) + x[0].pow(2.0) * x[0].pow(4)),
        int(binary("maximum", -2.0, 2.0, |x| x[0].maximum(&x[1]))),
        int(binary("minimum", -2.0, 2.0, |x| x[0].minimum(&x[1]))),
        int(binary("eq", -2.0, 2.0, |x| x[0].eq(&x[1]))),
        int(binary("ne", -2.0, 2.0, |x| x[0].ne(&x[1]))),
        int(binary("lt", -2.0, 2.0, |x| x[0].lt(&x[1]))),
        int(binary("le", -2.0, 2.0, |x| x[0].le(&x[1]))),
        int(binary("gt", -2.0, 2.0, |x| x[0].gt(&x[1]))),
        int(binary("ge", -2.0, 2.0, |x| x[0].ge(&x[1]))),
        int(row("bitwise_and", |x| x[0].bitwise_and(&x[1]))),
        int(row("bitwise_or", |x| x[0].bitwise_or(&x[1]))),
        int(row("bitwise_xor", |x| x[0].bitwise_xor(&x[1]))),
        int(row("shift", |x| x[0].bitwise_left_shift(&x[1]).bitwise_right_shift(3))),
        row("logical", |x| x[0].logical_and(&x[1]).logical_or(&x[0].logical_not())).typed(
            DType::Bool,
            0.0,
            2.0,
            [&[7], &[7]],
        ),
        binary("where", -2.0, 2.0, |x| x[0].gt(0.0).where_(&x[0] * &x[1], &x[1])),
        unary("where_scalar", -2.0, 2.0, |x| x[0].gt(0.0).where_(&x[0], 3.0)),
        unary("clamp", -2.0, 2.0, |x| x[0].clamp(-1.0, 1.0)),
        unary("cast_integer", -5.0, 5.0, |x| x[0].to_dtype(DType::I32)).typed(DType::U8, 0.0, 255.0, [&[5]]),
        row("cast_float", |x| x[0].to_dtype(DType::F32) / 255.0).typed(DType::U8, 0.0, 255.0, [&[5]]),
        row("promoted", |x| &x[0] * 0.5 + 1).typed(DType::I32, -9.0, 9.0, [&[5]]),
    ]
}
