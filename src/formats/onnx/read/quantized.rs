//! Quantised values: integers with a scale and a zero point. Products of them are computed in i32, all else in f32.

use crate::dtype::DType;
use crate::error::Result;
use crate::tensor::Tensor;

use super::super::proto::ElementType;
use super::call::{Call, Outputs, fail, one};
use super::contract::product;
use super::conv::convolve;
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
        let mut along = vec![1; x.rank()];
        along[axis] = size;
        return Ok(values.reshape(along));
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

/// The type that a node quantises to.
fn target(call: &Call<'_>, zero_point: usize) -> Result<ElementType> {
    if let Some(number) = call.int_or_none("output_dtype")?.filter(|&number| number != 0) {
        return ElementType::of(i32::try_from(number).unwrap_or(0));
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

/// An input less its zero point, in i32.
pub(super) fn centred(call: &Call<'_>, number: usize, zero: usize, along: Option<usize>) -> Result<Tensor> {
    let x = call.index(number)?;
    let Some(point) = call.given(zero) else { return Ok(x) };
    let point = call.on_device(point)?.to_dtype(DType::I32);
    let point = match (point.numel(), along) {
        (1, _) => point.reshape([0_usize; 0]),
        (count, Some(axis)) if point.rank() == 1 && x.shape().get(axis) == Some(&count) => {
            let mut shape = vec![1; x.rank()];
            shape[axis] = count;
            point.reshape(shape)
        }
        _ => point,
    };
    if call.broadcast(&[x.shape(), point.shape()])? != *x.shape() {
        return fail(format!("a zero point of shape {} for {}", point.shape(), x.shape()));
    }
    Ok(x - point)
}

fn dequantize(call: &Call<'_>) -> Outputs {
    let x = call.value(0)?;
    if x.dtype().is_float() {
        return fail(format!("{}{} is not quantised", x.dtype(), x.shape()));
    }
    let x = as_f32(&call.on_device(x)?);
    let of_scale = call.value(1)?.dtype();
    let scale = spread(call, as_f32(&call.float(1)?), &x)?;
    let moved = match call.optional_tensor(2)? {
        Some(zero) => &x - spread(call, as_f32(&zero), &x)?,
        None => x,
    };
    one((moved * scale).to_dtype(of_scale))
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
    let scale = (x.max().maximum(0.0) - &low) * (1.0 / 255.0);
    // of nothing but zeros
    let divisor = scale.eq(0.0).where_(1.0, &scale);
    let zero = (-low / &divisor).clamp(0.0, 255.0).round();
    let value = quantized(&(x / divisor), Some(&zero), ElementType::Uint8)?;
    Ok([value, scale, zero.to_dtype(DType::U8)])
}

/// The axis of the rows of a first operand, and of the columns of a second.
pub(super) fn matrix_axes(call: &Call<'_>, a: usize, b: usize) -> Result<[Option<usize>; 2]> {
    let rank = |number: usize| call.value(number).map(|value| value.shape().rank());
    Ok([rank(a)?.checked_sub(2), rank(b)?.checked_sub(1)])
}

fn matmul_integer(call: &Call<'_>) -> Outputs {
    let [rows, columns] = matrix_axes(call, 0, 1)?;
    one(product(call, centred(call, 0, 2, rows)?, centred(call, 1, 3, columns)?)?)
}

fn conv_integer(call: &Call<'_>) -> Outputs {
    one(convolve(call, centred(call, 0, 2, None)?, &centred(call, 1, 3, Some(0))?, None)?)
}

/// A scale, as one number or along an axis of a result.
pub(super) fn scale(call: &Call<'_>, number: usize, rank: usize, axis: usize) -> Result<Tensor> {
    let values = as_f32(&call.float(number)?);
    match values.numel() {
        1 => Ok(values.reshape([0_usize; 0])),
        count if values.rank() == 1 && axis < rank => {
            let mut shape = vec![1; rank];
            shape[axis] = count;
            Ok(values.reshape(shape))
        }
        _ => Ok(values),
    }
}

/// Sums of products with their scales, quantised.
fn requantized(call: &Call<'_>, sums: &Tensor, factor: Tensor, [scale, zero]: [usize; 2]) -> Outputs {
    let (sums, factor) = call.pair(as_f32(sums), factor)?;
    let scaled = sums * factor;
    let step = as_f32(&call.float(scale)?);
    let zero_point = as_f32(&call.tensor(zero)?);
    if step.numel() != 1 || zero_point.numel() != 1 {
        return fail("the result has several scales");
    }
    let (step, zero_point) = (step.reshape([0_usize; 0]), zero_point.reshape([0_usize; 0]));
    one(quantized(&(scaled / step), Some(&zero_point), target(call, zero)?)?)
}

fn quantized_matmul(call: &Call<'_>) -> Outputs {
    let [rows, columns] = matrix_axes(call, 0, 3)?;
    let sums = product(call, centred(call, 0, 2, rows)?, centred(call, 3, 5, columns)?)?;
    let rank = sums.rank();
    let a = scale(call, 1, rank, rank.saturating_sub(2))?;
    let (a, b) = call.pair(a, scale(call, 4, rank, rank.saturating_sub(1))?)?;
    requantized(call, &sums, a * b, [6, 7])
}

fn quantized_conv(call: &Call<'_>) -> Outputs {
    let x = centred(call, 0, 2, None)?;
    let weight = centred(call, 3, 5, Some(0))?;
    let bias = match call.given(8) {
        Some(Value::Host(_) | Value::Tensor(_)) => Some(call.index(8)?),
        None => None,
    };
    let sums = convolve(call, x, &weight, bias.as_ref())?;
    let (a, b) = call.pair(scale(call, 1, sums.rank(), 1)?, scale(call, 4, sums.rank(), 1)?)?;
    requantized(call, &sums, a * b, [6, 7])
}
