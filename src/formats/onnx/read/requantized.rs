//! ONNX Runtime's operators on quantised values, as its static quantisation writes them where a file has no pairs of
//! `DequantizeLinear` and `QuantizeLinear`: what the plain operator does with the numbers that integers stand for.

use crate::error::Result;
use crate::tensor::Tensor;

use super::activation::from_axis_on;
use super::call::{Call, Outputs, fail, one};
use super::checks::axis;
use super::movement::joined_shape;
use super::pool;
use super::quantized::{Centred, as_f32, as_i32, dynamically, integer_product, quantized, scale, scaled};
use super::table::{Operator, microsoft};

pub(super) const OPERATORS: &[Operator] = &[
    microsoft("DynamicQuantizeMatMul", dynamic_matmul),
    microsoft("MatMulIntegerToFloat", |call| {
        let sums = integer_product(call, &Centred::rows(call, 0, 4)?, &Centred::weights(call)?)?;
        let rank = sums.rank();
        let a = scale(call, 2, rank, rank.saturating_sub(2))?;
        let (a, b) = call.pair(a, scale(call, 3, rank, rank.saturating_sub(1))?)?;
        biased(call, scaled(call, &sums, a * b)?, 6)
    }),
    microsoft("QGemm", gemm),
    microsoft("QLinearAdd", |call| joined(call, |a, b| a + b)),
    microsoft("QLinearAveragePool", |call| pooled(call, pool::average)),
    microsoft("QLinearConcat", concat),
    microsoft("QLinearGlobalAveragePool", |call| pooled(call, |_, x| pool::global_average(x))),
    microsoft("QLinearLeakyRelu", |call| {
        let alpha = call.number_attribute("alpha", 0.01)?;
        told(call, &meant(call, 0)?.leaky_relu(alpha), [3, 4])
    }),
    microsoft("QLinearMul", |call| joined(call, |a, b| a * b)),
    microsoft("QLinearSigmoid", |call| told(call, &meant(call, 0)?.sigmoid(), [3, 4])),
    microsoft("QLinearSoftmax", softmax),
];

/// The only number of an input.
fn number(call: &Call<'_>, number: usize) -> Result<Tensor> {
    let value = as_f32(&call.tensor(number)?);
    if value.numel() != 1 {
        return fail(format!("input {number} is of shape {}, not one number", value.shape()));
    }
    Ok(value.reshape([0_usize; 0]))
}

/// What the integers of input `first` stand for, by the scale and the zero point behind it.
fn meant(call: &Call<'_>, first: usize) -> Result<Tensor> {
    Ok(as_f32(&Centred::of(call, first, first + 2, None)?.values) * number(call, first + 1)?)
}

/// Integers that stand for `x`, by the scale and the zero point in these inputs; of the zero point's type, or else the
/// result's.
fn told(call: &Call<'_>, x: &Tensor, [scale, zero]: [usize; 2]) -> Outputs {
    let step = number(call, scale)?;
    let Some(element) = call.input_type(zero).or(call.output_type(0)).or(call.element()) else {
        return fail("the type of its integers is not known");
    };
    let zero = if call.given(zero).is_some() { Some(number(call, zero)?) } else { None };
    one(quantized(&(x / step), zero.as_ref(), element)?)
}

fn joined(call: &Call<'_>, f: fn(Tensor, Tensor) -> Tensor) -> Outputs {
    let (a, b) = call.pair(meant(call, 0)?, meant(call, 3)?)?;
    told(call, &f(a, b), [6, 7])
}

/// What a pooling makes of the first input, whose channels may come last.
fn pooled(call: &Call<'_>, pool: fn(&Call<'_>, &Tensor) -> Result<Tensor>) -> Outputs {
    let x = meant(call, 0)?;
    let channels_last = call.flag("channels_last")? && x.rank() > 2;
    let x = if channels_last { x.movedim(-1, 1) } else { x };
    let y = pool(call, &x)?;
    told(call, &if channels_last { y.movedim(1, -1) } else { y }, [3, 4])
}

/// Along one axis; of operators before version 13 along all from that axis on.
fn softmax(call: &Call<'_>) -> Outputs {
    let x = meant(call, 0)?;
    let axis = axis(call.int("axis", -1)?, x.rank(), x.shape())?;
    let whole = if call.int("opset", 13)? >= 13 {
        x.softmax(axis.cast_signed())
    } else {
        from_axis_on(&x, axis, |x| x.softmax(1))
    };
    told(call, &whole, [3, 4])
}

/// The result's scale and zero point come first, and then each value with its own.
fn concat(call: &Call<'_>) -> Outputs {
    let count = call.inputs.len().saturating_sub(2);
    if count == 0 || !count.is_multiple_of(3) {
        return fail(format!("has {} inputs, not values with a scale and a zero point each", call.inputs.len()));
    }
    let values = (2..call.inputs.len()).step_by(3).map(|first| meant(call, first)).collect::<Result<Vec<_>>>()?;
    let (axis, _) = joined_shape(call, &values.iter().map(Tensor::shape).collect::<Vec<_>>())?;
    let whole = Tensor::cat(&values.iter().collect::<Vec<_>>(), axis.cast_signed());
    call.value(1)?;
    told(call, &whole, [0, 1])
}

/// With the bias in input `bias`, if there is one.
fn biased(call: &Call<'_>, product: Tensor, bias: usize) -> Outputs {
    let Some(bias) = call.optional_float(bias)? else { return one(product) };
    let (product, bias) = call.pair(product, as_f32(&bias))?;
    one(product + bias)
}

fn dynamic_matmul(call: &Call<'_>) -> Outputs {
    let [x, step, zero] = dynamically(&as_f32(&call.float(0)?))?;
    let bytes = Centred { values: as_i32(&x) - as_i32(&zero), reach: Some(i64::from(u8::MAX)) };
    let sums = integer_product(call, &bytes, &Centred::weights(call)?)?;
    let rank = sums.rank();
    let factor = step * scale(call, 2, rank, rank.saturating_sub(1))?;
    biased(call, scaled(call, &sums, factor)?, 4)
}

fn gemm(call: &Call<'_>) -> Outputs {
    let [mut a, mut b] = [Centred::of(call, 0, 2, None)?, Centred::weights(call)?];
    if a.values.rank() != 2 || b.values.rank() != 2 {
        return fail(format!("{} x {}, not two matrices", a.values.shape(), b.values.shape()));
    }
    for (matrix, name) in [(&mut a, "transA"), (&mut b, "transB")] {
        if call.flag(name)? {
            matrix.values = matrix.values.t();
        }
    }
    let mut sums = integer_product(call, &a, &b)?;
    if call.given(6).is_some() {
        let (whole, bias) = call.pair(sums.clone(), call.index(6)?)?;
        if call.broadcast(&[whole.shape(), bias.shape()])? != *sums.shape() {
            return fail(format!("C {} does not broadcast to {}", bias.shape(), sums.shape()));
        }
        sums = whole + bias;
    }
    let (of_a, of_b) = call.pair(scale(call, 1, 2, 1)?, scale(call, 4, 2, 1)?)?;
    let product = scaled(call, &sums, of_a * of_b * call.number_attribute("alpha", 1.0)?)?;
    if call.given(7).is_some() { told(call, &product, [7, 8]) } else { one(product) }
}
