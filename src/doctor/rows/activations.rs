//! Activation functions.

use super::{Row, row, unary};

pub(super) fn rows() -> Vec<Row> {
    vec![
        unary("relu", -2.0, 2.0, |x| x[0].relu()),
        unary("leaky_relu", -2.0, 2.0, |x| x[0].leaky_relu(0.1)),
        row("prelu", |x| x[0].prelu(&x[1])).on([&[2, 3, 2], &[3]]).on([&[4], &[1]]),
        unary("relu6", -2.0, 8.0, |x| x[0].relu6()),
        unary("hardtanh", -2.0, 2.0, |x| x[0].hardtanh(-1.0, 1.5)),
        unary("hardsigmoid", -5.0, 5.0, |x| x[0].hardsigmoid()),
        unary("hardswish", -5.0, 5.0, |x| x[0].hardswish()),
        unary("softshrink", -2.0, 2.0, |x| x[0].softshrink(0.5)),
        unary("hardshrink", -2.0, 2.0, |x| x[0].hardshrink(0.5)),
        unary("threshold", -2.0, 2.0, |x| x[0].threshold(0.5, 7.0)),
        unary("gelu", -3.0, 3.0, |x| x[0].gelu()),
        unary("gelu_tanh", -3.0, 3.0, |x| x[0].gelu_tanh()),
        unary("silu", -3.0, 3.0, |x| x[0].silu()),
        unary("softplus", -3.0, 3.0, |x| x[0].softplus()),
        unary("softplus_with", -3.0, 3.0, |x| x[0].softplus_with(2.0, 1.5)),
        unary("log_sigmoid", -3.0, 3.0, |x| x[0].log_sigmoid()),
        unary("elu", -3.0, 3.0, |x| x[0].elu(1.5)),
        unary("selu", -3.0, 3.0, |x| x[0].selu()),
        unary("celu", -3.0, 3.0, |x| x[0].celu(1.5)),
        unary("mish", -3.0, 3.0, |x| x[0].mish()),
        unary("softsign", -3.0, 3.0, |x| x[0].softsign()),
        unary("tanhshrink", -3.0, 3.0, |x| x[0].tanhshrink()),
        row("glu", |x| x[0].glu(1)).on([&[2, 6, 3]]),
    ]
}
