//! Functions of one or two real numbers, and activations.

use super::super::draw::fit;
use super::{Row, binary, one, row, unary};

pub(super) fn rows() -> Vec<Row> {
    [functions(), activations(), pairs(), several()].into_iter().flatten().collect()
}

fn functions() -> Vec<Row> {
    vec![
        unary("neg", -8.0, 8.0, |x| -x),
        unary("abs", -8.0, 8.0, |x| x.abs()),
        unary("sign", -8.0, 8.0, |x| x.sign()),
        unary("exp", -4.0, 2.0, |x| x.exp()),
        unary("expm1", -4.0, 2.0, |x| x.expm1()),
        unary("exp2", -4.0, 3.0, |x| x.exp2()),
        unary("log", 0.1, 8.0, |x| x.log()),
        unary("log1p", -0.5, 8.0, |x| x.log1p()),
        unary("log2", 0.1, 8.0, |x| x.log2()),
        unary("log10", 0.1, 8.0, |x| x.log10()),
        unary("sqrt", 0.1, 8.0, |x| x.sqrt()),
        unary("rsqrt", 0.1, 8.0, |x| x.rsqrt()),
        unary("reciprocal", 0.2, 8.0, |x| x.reciprocal()),
        unary("sin", -8.0, 8.0, |x| x.sin()),
        unary("cos", -8.0, 8.0, |x| x.cos()),
        unary("tan", -1.2, 1.2, |x| x.tan()),
        unary("asin", -0.9, 0.9, |x| x.asin()),
        unary("acos", -0.9, 0.9, |x| x.acos()),
        unary("atan", -8.0, 8.0, |x| x.atan()),
        unary("sinh", -3.0, 3.0, |x| x.sinh()),
        unary("cosh", -3.0, 3.0, |x| x.cosh()),
        unary("tanh", -8.0, 8.0, |x| x.tanh()),
        unary("asinh", -8.0, 8.0, |x| x.asinh()),
        unary("acosh", 1.2, 8.0, |x| x.acosh()),
        unary("atanh", -0.9, 0.9, |x| x.atanh()),
        unary("erf", -4.0, 4.0, |x| x.erf()),
        unary("erfc", -4.0, 4.0, |x| x.erfc()),
        unary("logit", 0.1, 0.9, |x| x.logit()),
        unary("square", -3.0, 3.0, |x| x.square()),
        unary("pow_whole", -2.0, 2.0, |x| x.pow(3)),
        unary("deg2rad", -8.0, 8.0, |x| (x * 10.0).deg2rad()),
        unary("rad2deg", -8.0, 8.0, |x| x.rad2deg() * 0.02),
        unary("floor", -8.0, 8.0, |x| (x * 3.7).floor() * 0.25),
        unary("ceil", -8.0, 8.0, |x| (x * 3.7).ceil() * 0.25),
        unary("round", -8.0, 8.0, |x| (x * 3.7).round() * 0.25),
        unary("trunc", -8.0, 8.0, |x| (x * 3.7).trunc() * 0.25),
        unary("frac", -8.0, 8.0, |x| x.frac()),
        unary("clamp", -8.0, 8.0, |x| x.clamp(-1.1, 0.9)),
        unary("clamp_min", -8.0, 8.0, |x| x.clamp_min(-0.3)),
        unary("clamp_max", -8.0, 8.0, |x| x.clamp_max(0.7)),
        unary("nan_to_num", -8.0, 8.0, |x| x.log().nan_to_num(-0.5, Some(2.0), Some(-2.0))),
        unary("detach", -8.0, 8.0, |x| x.detach() * 0.5 + x),
        unary("full_like", -8.0, 8.0, |x| x.full_like(0.5) + x.zeros_like() - x.ones_like() * x),
    ]
}

fn activations() -> Vec<Row> {
    vec![
        unary("relu", -8.0, 8.0, |x| x.relu()),
        unary("leaky_relu", -8.0, 8.0, |x| x.leaky_relu(0.1)),
        unary("relu6", -8.0, 8.0, |x| x.relu6()),
        unary("hardtanh", -8.0, 8.0, |x| x.hardtanh(-1.0, 1.5)),
        unary("hardsigmoid", -8.0, 8.0, |x| x.hardsigmoid()),
        unary("hardswish", -8.0, 8.0, |x| x.hardswish()),
        unary("softshrink", -8.0, 8.0, |x| x.softshrink(0.4)),
        unary("hardshrink", -8.0, 8.0, |x| x.hardshrink(0.4)),
        unary("threshold", -8.0, 8.0, |x| x.threshold(0.3, 1.5)),
        unary("gelu", -8.0, 8.0, |x| x.gelu()),
        unary("gelu_tanh", -8.0, 8.0, |x| x.gelu_tanh()),
        unary("silu", -8.0, 8.0, |x| x.silu()),
        unary("sigmoid", -8.0, 8.0, |x| x.sigmoid()),
        unary("softplus", -8.0, 8.0, |x| x.softplus()),
        unary("softplus_beta", -8.0, 8.0, |x| x.softplus_with(2.0, 20.0)),
        unary("log_sigmoid", -8.0, 8.0, |x| x.log_sigmoid()),
        unary("elu", -8.0, 8.0, |x| x.elu(1.5)),
        unary("selu", -8.0, 8.0, |x| x.selu()),
        unary("celu", -8.0, 8.0, |x| x.celu(1.5)),
        unary("mish", -8.0, 8.0, |x| x.mish()),
        unary("softsign", -8.0, 8.0, |x| x.softsign()),
        unary("tanhshrink", -8.0, 8.0, |x| x.tanhshrink()),
        one!("prelu", |d| {
            let x = d.ranked(1, 5);
            let channels = if x.rank() > 1 && d.flag() { x.size(1) } else { 1 };
            x.prelu(&d.shaped(&[channels]))
        }),
        one!("glu", |d| {
            let x = d.ranked(1, 5);
            let axis = d.axis(&x);
            let even = x.size(axis) % 2 == 0;
            if even { x.glu(axis) } else { brasa::Tensor::cat(&[&x, &(&x * 0.5)], axis).glu(axis) }
        }),
    ]
}

fn pairs() -> Vec<Row> {
    vec![
        binary("add", -8.0, 8.0, |a, b| a + b),
        binary("sub", -8.0, 8.0, |a, b| a - b),
        binary("mul", -8.0, 8.0, |a, b| a * b),
        binary("div", 0.2, 8.0, |a, b| a / b),
        binary("pow", 0.2, 2.0, |a, b| a.pow(b)),
        binary("atan2", 0.2, 4.0, |a, b| a.atan2(b)),
        binary("maximum", -8.0, 8.0, |a, b| a.maximum(b)),
        binary("minimum", -8.0, 8.0, |a, b| a.minimum(b)),
        binary("fmod", 0.3, 4.0, |a, b| a.fmod(b)),
        binary("remainder", 0.3, 4.0, |a, b| (-a).remainder(b)),
        binary("floor_divide", 0.3, 4.0, |a, b| a.floor_divide(b)),
        binary("div_trunc", 0.3, 4.0, |a, b| (-a).div_trunc(b)),
        binary("logaddexp", -8.0, 8.0, |a, b| a.logaddexp(b)),
        binary("logaddexp2", -8.0, 8.0, |a, b| a.logaddexp2(b)),
        binary("hypot", 0.2, 4.0, |a, b| a.hypot(b)),
        binary("xlogy", 0.2, 4.0, |a, b| a.xlogy(b)),
        binary("copysign", -8.0, 8.0, |a, b| a.copysign(b.eq(0.0).where_(1.0, b))),
        binary("where", -8.0, 8.0, |a, b| a.gt(0.0).where_(a * b, b)),
        binary("clamp_tensors", -8.0, 8.0, |a, b| a.clamp(b - 1.0, b + 0.5)),
    ]
}

fn several() -> Vec<Row> {
    vec![
        one!("lerp", |d| {
            let a = d.float();
            let b = d.partner(&a);
            let both = a.shape().broadcast(b.shape()).expect("a partner broadcasts");
            let (a, b) = (a.expand(both.clone()), b.expand(both));
            if d.flag() { a.lerp(&b, 0.3) } else { a.lerp(&b, a.sigmoid()) }
        }),
        one!("addcmul", |d| {
            let a = d.float();
            let (b, c) = (d.partner(&a), a.tanh());
            a.addcmul(&b, &c, 0.5)
        }),
        one!("addcdiv", |d| {
            let a = d.float();
            let (b, c) = (d.partner(&a), a.square() + 1.0);
            a.addcdiv(&b, &c, 0.5)
        }),
        one!("where_of_truth", |d| {
            let a = d.solid();
            let truth = d.truth(a.shape().dims());
            let other = fit(&d.solid(), a.shape().dims());
            truth.where_(&a, &other)
        }),
        one!("where_number", |d| {
            let a = d.solid();
            d.truth(a.shape().dims()).where_(&a, -0.5)
        }),
        // as many buffers as there are: the sum of everything
        row("sum_of_many", |d| {
            let count = d.between(3, 12);
            let first = d.solid();
            let shape = first.shape().to_vec();
            let sum = (0..count).fold(first, |sum, _| sum * 0.7 + d.shaped(&shape));
            vec![sum]
        }),
    ]
}
