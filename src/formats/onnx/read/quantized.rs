//! Quantised values: integers with a scale and a zero point. Sums of products of them are exact, all else is f32.

use crate::dtype::DType;
use crate::error::Result;
use crate::tensor::Tensor;

use super::super::proto::ElementType;
use super::call::{Call, Outputs, fail, one};
use super::checks::shape_along;
use super::contract::product;
use super::conv::{check_bias, convolve, groups};
use super::table::{Operator, op};
use super::value::Value;

pub(super) const OPERATORS: &[Operator] = &[
    op("ConvInteger", 10, conv_integer),
    op("DequantizeLinear", 10, dequantize),
    op("DynamicQuantizeLinear", 11, quantize_dynamically),
    op("MatMulInteger", 10, matmul_integer),
    op("QLinearConv", 10, quantized_conv),
    op("QLinearMatMul", 10, quantized_matmul),
    op("QuantizeLinear", 10, quantize),
];

/// A scale or zero point so that it broadcasts to `x`: one number, one for each element of an axis, or one for each
/// block along it.
fn spread(call: &Call<'_>, values: Tensor, x: &Tensor) -> Result<Tensor> {
    if values.numel() == 1 {
        return Ok(values.reshape([0_usize; 0]));
    }
    let axis = call.axis_attribute(1, x.shape())?;
    let size = x.shape()[axis];
    if *values.shape() == [size].into() {
        return Ok(values.reshape(shape_along(x.rank(), axis, size)));
    }
    let block = call.int("block_size", 0)?;
    let wrong = || fail(format!("scales {} for axis {axis} of {} in blocks of {block}", values.shape(), x.shape()));
    let Some(block) = usize::try_from(block).ok().filter(|&block| block > 0 && block <= size) else { return wrong() };
    let fits = values.rank() == x.rank()
        && (0..x.rank())
            .all(|own| values.shape()[own] == if own == axis { size.div_ceil(block) } else { x.shape()[own] });
    if !fits {
        return wrong();
    }
    Ok(values.repeat_interleave(block, axis.cast_signed()).narrow(axis.cast_signed(), 0, size))
}

pub(super) fn as_f32(x: &Tensor) -> Tensor {
    x.to_dtype(DType::F32)
}

pub(super) fn as_i32(x: &Tensor) -> Tensor {
    x.to_dtype(DType::I32)
}

/// The type that a node's attribute tells.
fn told_type(call: &Call<'_>) -> Result<Option<ElementType>> {
    let told = call.int_or_none("output_dtype")?.filter(|&number| number != 0);
    told.map(|number| ElementType::of(i32::try_from(number).unwrap_or(0))).transpose()
}

/// The type that a node quantises to.
fn target(call: &Call<'_>, zero_point: usize) -> Result<ElementType> {
    if let Some(element) = told_type(call)? {
        return Ok(element);
    }
    let of_zero = call.input_type(zero_point);
    match call.given(zero_point) {
        None => Ok(ElementType::Uint8),
        Some(value) => Ok(of_zero.or(call.output_type(0)).unwrap_or(match value.dtype() {
            DType::U8 => ElementType::Uint8,
            DType::U32 => ElementType::Uint16,
            _ => ElementType::Int8,
        })),
    }
}

/// Numbers in steps of the scale, rounded to even and limited to the range of a type.
pub(super) fn quantized(scaled: &Tensor, zero: Option<&Tensor>, element: ElementType) -> Result<Tensor> {
    let Some((low, high)) = element.range() else {
        return fail(format!("values are not quantised to {} here", element.name()));
    };
    let rounded = scaled.round();
    let moved = match zero {
        Some(zero) => rounded + zero,
        None => rounded,
    };
    Ok(moved.clamp(low as f64, high as f64).to_dtype(element.dtype()?))
}

fn quantize(call: &Call<'_>) -> Outputs {
    let x = as_f32(&call.number(0)?);
    let scale = spread(call, as_f32(&call.float(1)?), &x)?;
    let zero = match call.optional_tensor(2)? {
        Some(zero) => Some(spread(call, as_f32(&zero), &x)?),
        None => None,
    };
    call.broadcast(&[x.shape(), scale.shape()])?;
    one(quantized(&(&x / scale), zero.as_ref(), target(call, 2)?)?)
}

/// Integers less their zero point, as integers, or as floats that are whole numbers.
pub(super) struct Centred {
    pub(super) values: Tensor,
    /// How far from 0 they are at most, if that is known.
    pub(super) reach: Option<i64>,
}

impl Centred {
    /// Input `number`, whose zero point is one number, or one for each element of the axis `along`.
    pub(super) fn of(call: &Call<'_>, number: usize, zero: usize, along: Option<usize>) -> Result<Self> {
        let reach = reach(call, number, zero);
        if call.node.centred == Some(number) {
            return Ok(Self { values: call.tensor(number)?, reach });
        }
        let x = call.index(number)?;
        let Some(point) = call.given(zero) else { return Ok(Self { values: x, reach }) };
        let point = as_i32(&call.on_device(point)?);
        let point = match (point.numel(), along) {
            (1, _) => point.reshape([0_usize; 0]),
            (count, Some(axis)) if point.rank() == 1 && x.shape().get(axis) == Some(&count) => {
                point.reshape(shape_along(x.rank(), axis, count))
            }
            _ => point,
        };
        if call.broadcast(&[x.shape(), point.shape()])? != *x.shape() {
            return fail(format!("a zero point of shape {} for {}", point.shape(), x.shape()));
        }
        Ok(Self { values: x - point, reach })
    }

    /// The first operand of a product, of whose rows each may have a zero point.
    pub(super) fn rows(call: &Call<'_>, number: usize, zero: usize) -> Result<Self> {
        let along = call.value(number)?.shape().rank().checked_sub(2);
        Self::of(call, number, zero, along)
    }

    /// The weights of the node, each of whose filters or columns may have a zero point.
    pub(super) fn weights(call: &Call<'_>) -> Result<Self> {
        let name = call.node.operator.name;
        let Some((number, zero)) = weights_of(name) else { return fail("has no weights") };
        let along = match name {
            "ConvInteger" | "QLinearConv" => Some(0),
            "QGemm" => Some(usize::from(!call.flag("transB")?)),
            _ => call.value(number)?.shape().rank().checked_sub(1),
        };
        Self::of(call, number, zero, along)
    }
}

/// The inputs with the weights of an operator that multiplies integers, and their zero point.
pub(super) fn weights_of(operator: &str) -> Option<(usize, usize)> {
    match operator {
        "ConvInteger" | "DynamicQuantizeMatMul" | "MatMulInteger" => Some((1, 3)),
        "MatMulIntegerToFloat" => Some((1, 5)),
        "QGemm" | "QLinearConv" | "QLinearMatMul" => Some((3, 5)),
        _ => None,
    }
}

/// How far the values of an input are from their zero point at most, if that is known.
fn reach(call: &Call<'_>, number: usize, zero: usize) -> Option<i64> {
    let bytes = (call.given(number)?.dtype() == DType::U8).then_some(ElementType::Uint8);
    let (low, high) = call.input_type(number).or(bytes)?.range()?;
    let points = match call.given(zero) {
        None => vec![0],
        Some(Value::Host(points)) => points.to_i64()?,
        Some(Value::Tensor(_)) => vec![low, high],
    };
    points.iter().map(|&point| (high - point).max(point - low)).max()
}

fn dequantize(call: &Call<'_>) -> Outputs {
    one(dequantized(call)?)
}

/// What a node makes of integers.
pub(super) fn dequantized(call: &Call<'_>) -> Result<Tensor> {
    let x = call.value(0)?;
    if x.dtype().is_float() {
        return fail(format!("{}{} is not quantised", x.dtype(), x.shape()));
    }
    let x = as_f32(&call.on_device(x)?);
    let dtype = match told_type(call)? {
        Some(element) => element.dtype()?,
        None => call.value(1)?.dtype(),
    };
    if !dtype.is_float() {
        return fail(format!("its output_dtype is {dtype}, not a float"));
    }
    let scale = spread(call, as_f32(&call.float(1)?), &x)?;
    let moved = match call.optional_tensor(2)? {
        Some(zero) => &x - spread(call, as_f32(&zero), &x)?,
        None => x,
    };
    Ok((moved * scale).to_dtype(dtype))
}

fn quantize_dynamically(call: &Call<'_>) -> Outputs {
    Ok(dynamically(&as_f32(&call.float(0)?))?.map(Value::from).into())
}

/// Bytes that stand for `x`, with their scale and zero point, which follow from its range.
pub(super) fn dynamically(x: &Tensor) -> Result<[Tensor; 3]> {
    if x.numel() == 0 {
        return fail(format!("{} has no elements", x.shape()));
    }
    let low = x.min().minimum(0.0);
    let scale = (x.max().maximum(0.0) - &low) / 255.0;
    // of nothing but zeros
    let divisor = scale.eq(0.0).where_(1.0, &scale);
    let zero = (-low / &divisor).clamp(0.0, 255.0).round();
    let value = quantized(&(x / divisor), Some(&zero), ElementType::Uint8)?;
    Ok([value, scale, zero.to_dtype(DType::U8)])
}

/// Whole numbers up to here are exact in f32.
const EXACT: i64 = 1 << 24;

/// How many products of the values of two operands f32 adds up exactly.
fn exact_terms(a: &Centred, b: &Centred) -> usize {
    let product = a.reach.zip(b.reach).and_then(|(a, b)| a.checked_mul(b));
    product.map_or(0, |product| (EXACT / product.max(1)) as usize)
}

/// The whole number that parts of `terms` summed points add up to, of `count`.
fn sum_of_parts(count: usize, terms: usize, part: impl Fn(usize, usize) -> Result<Tensor>) -> Result<Tensor> {
    let mut sum: Option<Tensor> = None;
    for start in (0..count).step_by(terms) {
        let part = part(start, terms.min(count - start))?;
        let part = as_i32(&part);
        sum = Some(if let Some(sum) = sum { sum + part } else { part });
    }
    Ok(sum.expect("there is something to be summed"))
}

/// The product of two matrices: in f32 as far as sums are exact there, which takes a fraction of the time.
pub(super) fn integer_product(call: &Call<'_>, a: &Centred, b: &Centred) -> Result<Tensor> {
    let (terms, [a, b]) = (exact_terms(a, b), [&a.values, &b.values]);
    let count = a.shape().last().copied().unwrap_or(0);
    let fits = a.rank() >= 2 && b.rank() >= 2 && b.shape()[b.rank() - 2] == count;
    if terms == 0 || count == 0 || !fits {
        return product(call, as_i32(a), as_i32(b));
    }
    sum_of_parts(count, terms, |start, len| {
        product(call, as_f32(&a.narrow(-1, start, len)), as_f32(&b.narrow(-2, start, len)))
    })
}

/// The same for a convolution, which adds a bias of integers.
fn integer_convolution(call: &Call<'_>, x: &Centred, weight: &Centred, bias: Option<&Tensor>) -> Result<Tensor> {
    let (terms, [x, weight]) = (exact_terms(x, weight), [&x.values, &weight.values]);
    let (channels, taps) = match weight.shape().dims() {
        [_, channels, taps @ ..] => (*channels, taps.iter().product::<usize>().max(1)),
        _ => (0, 1),
    };
    let (each, groups) = (terms / taps, groups(call)?);
    let is_whole = x.rank() >= 2 && groups.checked_mul(channels) == Some(x.shape()[1]);
    if channels == 0 || each == 0 || !is_whole || (channels > each && groups > 1) {
        return convolve(call, as_i32(x), &as_i32(weight), bias);
    }
    let sum = if channels <= each {
        as_i32(&convolve(call, as_f32(x), &as_f32(weight), None)?)
    } else {
        sum_of_parts(channels, each, |start, len| {
            convolve(call, as_f32(&x.narrow(1, start, len)), &as_f32(&weight.narrow(1, start, len)), None)
        })?
    };
    check_bias(bias, weight.shape()[0])?;
    let Some(bias) = bias else { return Ok(sum) };
    let bias = bias.reshape(shape_along(sum.rank(), 1, bias.numel()));
    Ok(sum + bias)
}

fn matmul_integer(call: &Call<'_>) -> Outputs {
    one(integer_product(call, &Centred::rows(call, 0, 2)?, &Centred::weights(call)?)?)
}

fn conv_integer(call: &Call<'_>) -> Outputs {
    one(integer_convolution(call, &Centred::of(call, 0, 2, None)?, &Centred::weights(call)?, None)?)
}

/// A scale, as one number or along an axis of a result.
pub(super) fn scale(call: &Call<'_>, number: usize, rank: usize, axis: usize) -> Result<Tensor> {
    let values = as_f32(&call.float(number)?);
    match values.numel() {
        1 => Ok(values.reshape([0_usize; 0])),
        count if values.rank() == 1 && axis < rank => Ok(values.reshape(shape_along(rank, axis, count))),
        _ => Ok(values),
    }
}

/// What sums of products of integers stand for, by their scales.
pub(super) fn scaled(call: &Call<'_>, sums: &Tensor, factor: Tensor) -> Result<Tensor> {
    let (sums, factor) = call.pair(as_f32(sums), factor)?;
    Ok(sums * factor)
}

/// Sums of products with their scales, quantised.
fn requantized(call: &Call<'_>, sums: &Tensor, factor: Tensor, [scale, zero]: [usize; 2]) -> Outputs {
    let scaled = scaled(call, sums, factor)?;
    let step = as_f32(&call.float(scale)?);
    let zero_point = as_f32(&call.tensor(zero)?);
    if step.numel() != 1 || zero_point.numel() != 1 {
        return fail("the result has several scales");
    }
    let (step, zero_point) = (step.reshape([0_usize; 0]), zero_point.reshape([0_usize; 0]));
    one(quantized(&(scaled / step), Some(&zero_point), target(call, zero)?)?)
}

fn quantized_matmul(call: &Call<'_>) -> Outputs {
    let sums = integer_product(call, &Centred::rows(call, 0, 2)?, &Centred::weights(call)?)?;
    let rank = sums.rank();
    let a = scale(call, 1, rank, rank.saturating_sub(2))?;
    let (a, b) = call.pair(a, scale(call, 4, rank, rank.saturating_sub(1))?)?;
    requantized(call, &sums, a * b, [6, 7])
}

fn quantized_conv(call: &Call<'_>) -> Outputs {
    let (x, weight) = (Centred::of(call, 0, 2, None)?, Centred::weights(call)?);
    let bias = match call.given(8) {
        Some(Value::Host(_) | Value::Tensor(_)) => Some(call.index(8)?),
        None => None,
    };
    let sums = integer_convolution(call, &x, &weight, bias.as_ref())?;
    let (a, b) = call.pair(scale(call, 1, sums.rank(), 1)?, scale(call, 4, sums.rank(), 1)?)?;
    requantized(call, &sums, a * b, [6, 7])
}
