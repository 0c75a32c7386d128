//! Integers, truth values, bits, comparisons and casts.

use brasa::{DType, Tensor};

use super::{Row, one};

/// Two integer values of one type.
macro_rules! integers {
    ($($name:literal: |$a:ident, $b:ident| $body:expr),* $(,)?) => {
        [$(one!($name, |d| {
            let $a = &d.integer();
            let $b = &d.partner($a);
            $body
        })),*]
    };
}

/// Two values of one type, whatever it is.
macro_rules! compared {
    ($($name:literal: $method:ident),* $(,)?) => {
        [$(one!($name, |d| {
            let a = d.any();
            let b = d.partner(&a);
            a.$method(&b)
        })),*]
    };
}

/// Two truth values.
macro_rules! logical {
    ($($name:literal: |$a:ident, $b:ident| $body:expr),* $(,)?) => {
        [$(one!($name, |d| {
            let $a = &d.value(|value| value.dtype() == DType::Bool);
            let $b = &d.partner($a);
            $body
        })),*]
    };
}

pub(super) fn rows() -> Vec<Row> {
    let integers = integers![
        "integer_add": |a, b| a + b,
        "integer_sub": |a, b| a - b,
        "integer_mul": |a, b| a * b,
        "integer_div": |a, b| a / (b.maximum(1)),
        "integer_div_trunc": |a, b| a.div_trunc(b),
        "integer_floor_divide": |a, b| a.floor_divide(b),
        "integer_fmod": |a, b| a.fmod(b),
        "integer_remainder": |a, b| a.remainder(b),
        "integer_maximum": |a, b| a.maximum(b),
        "integer_minimum": |a, b| a.minimum(b),
        "bitwise_and": |a, b| a.bitwise_and(b),
        "bitwise_or": |a, b| a.bitwise_or(b),
        "bitwise_xor": |a, b| a.bitwise_xor(b),
        "bitwise_left_shift": |a, b| a.bitwise_and(7).bitwise_left_shift(b.bitwise_and(3)),
        "bitwise_right_shift": |a, b| a.bitwise_right_shift(b.bitwise_and(3)),
        "integer_clamp": |a, b| a.clamp(1, 5) + b.clamp_min(2),
        "integer_promoted": |a, b| a * 0.25 + b.to_dtype(DType::F32),
    ];
    let compared = compared!["eq": eq, "ne": ne, "lt": lt, "le": le, "gt": gt, "ge": ge];
    let logical = logical![
        "logical_and": |a, b| a.logical_and(b),
        "logical_or": |a, b| a.logical_or(b),
        "logical_xor": |a, b| a.logical_xor(b),
        "logical_not": |a, b| a.logical_not().bitwise_and(b),
        "truth_promoted": |a, b| a + 1 - b.to_dtype(DType::I32),
    ];
    integers.into_iter().chain(compared).chain(logical).chain(others()).collect()
}

fn others() -> Vec<Row> {
    vec![
        one!("integer_neg", |d| -&d.integer()),
        one!("integer_abs", |d| d.value(|value| value.dtype() == DType::I32).abs()),
        one!("integer_sign", |d| d.value(|value| value.dtype() == DType::I32).sign()),
        one!("bitwise_not", |d| d.value(|value| !value.dtype().is_float()).bitwise_not()),
        one!("integer_where", |d| {
            let a = d.integer();
            let b = d.partner(&a);
            a.lt(&b).where_(&a, &b)
        }),
        one!("cast", |d| {
            let value = d.any();
            let types = [DType::F32, DType::I32, DType::U32, DType::U8, DType::Bool, DType::F16];
            let count = if d.has_half() { 6 } else { 5 };
            let dtype = d.of(&types[..count]);
            // beyond an integer's range it saturates; below 0, u32 and u8 do too
            if value.dtype().is_float() { (value * 2.0).to_dtype(dtype) } else { value.to_dtype(dtype) }
        }),
        one!("cast_there_and_back", |d| {
            let value = d.float();
            let dtype = d.of(&[DType::I32, DType::U8, DType::U32, DType::Bool]);
            (&value * 3.3).to_dtype(dtype).to_dtype(DType::F32) * 0.25 + &value
        }),
        one!("half", |d| {
            let value = d.float();
            if d.has_half() { value.to_dtype(DType::F16) } else { value * 0.5 }
        }),
        one!("isfinite", |d| d.real().log().isfinite()),
        one!("isnan", |d| d.real().log().isnan()),
        one!("isinf", |d| d.real().relu().log().isinf()),
        one!("isposinf", |d| d.real().relu().square().reciprocal().isposinf()),
        one!("isneginf", |d| d.real().relu().log().isneginf()),
        one!("signbit", |d| {
            // the sign of a zero is not promised through sums
            let x = d.real();
            x.eq(0.0).where_(1.0, x).signbit()
        }),
        one!("isclose", |d| {
            let a = d.float();
            let b = d.partner(&a);
            let (relative, equal_nan) = (d.of(&[0.1, 0.5]), d.flag());
            a.isclose(&b, relative, 0.1, equal_nan)
        }),
        one!("bytes", |d| {
            let bytes = d.value(|value| value.dtype() == DType::U8);
            bytes.to_dtype(DType::F32) / 255.0
        }),
        one!("created", |d| {
            let value = d.ranked(1, 3);
            let (size, device) = (value.size(-1), value.device());
            let vectors = [
                Tensor::arange(size, device).to_dtype(DType::F32) * 0.1,
                Tensor::arange_step(0.5, 0.5 + 0.25 * size as f64, 0.25, device).narrow(0, 0, size),
                Tensor::linspace(-1.0, 1.0, size, device),
                Tensor::logspace(-1.0, 0.5, size, 2.0, device),
                Tensor::eye(size, device).sum_dim(0),
                Tensor::full([size], 0.3_f32, device),
                Tensor::zeros([size], device) + Tensor::ones_of([size], DType::F32, device),
                Tensor::zeros_of([1], DType::F32, device) + Tensor::ones([size], device),
                Tensor::scalar(0.7_f32, device),
            ];
            let number = d.number(vectors.len());
            &value * &vectors[number]
        }),
    ]
}
