//! Reductions over axes, and places of extremes.

use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::shape::Shape;
use crate::tensor::Tensor;

use super::call::{Call, Outputs, fail, one};
use super::checks::{as_number, axes};
use super::elementwise::as_float;
use super::table::{Operator, op};
use super::value::{HostData, HostTensor, Value};

pub(super) const OPERATORS: &[Operator] = &[
    op("ArgMax", 1, |call| place(call, Tensor::argmax_keepdim)),
    op("ArgMin", 1, |call| place(call, Tensor::argmin_keepdim)),
    op("CumProd", 26, |call| cumulative(call, Tensor::cumprod, 1.0)),
    op("CumSum", 11, |call| cumulative(call, Tensor::cumsum, 0.0)),
    op("ReduceL1", 1, |call| reduce(call, 18, |x, axes| as_number(x).map(|x| x.abs().sum_keepdim(axes)))),
    op("ReduceL2", 1, |call| reduce(call, 18, |x, axes| real(x, axes, |x, axes| x.square().sum_keepdim(axes).sqrt()))),
    op("ReduceLogSum", 1, |call| reduce(call, 18, |x, axes| real(x, axes, |x, axes| x.sum_keepdim(axes).log()))),
    op("ReduceLogSumExp", 1, |call| reduce(call, 18, |x, axes| real(x, axes, |x, axes| x.logsumexp_keepdim(axes)))),
    op("ReduceMax", 1, |call| reduce(call, 18, |x, axes| extreme(x, axes, true))),
    op("ReduceMean", 1, |call| reduce(call, 18, mean)),
    op("ReduceMin", 1, |call| reduce(call, 18, |x, axes| extreme(x, axes, false))),
    op("ReduceProd", 1, |call| match host_product(call)? {
        Some(host) => one(host),
        None => reduce(call, 18, |x, axes| as_number(x).map(|x| x.prod_keepdim(axes))),
    }),
    op("ReduceSum", 1, |call| reduce(call, 13, |x, axes| as_number(x).map(|x| x.sum_keepdim(axes)))),
    op("ReduceSumSquare", 1, |call| reduce(call, 18, |x, axes| as_number(x).map(|x| x.square().sum_keepdim(axes)))),
    op("TopK", 1, top),
];

/// The axes that are reduced, ascending, and whether they stay.
fn reduced(call: &Call<'_>, shape: &Shape, since: i64) -> Result<(Vec<usize>, bool)> {
    let keep = call.int("keepdims", 1)? != 0;
    let all = match call.list_or_input("axes", since, 1)? {
        Some(numbers) if !numbers.is_empty() => axes(&numbers, shape.rank(), shape)?,
        _ if call.flag("noop_with_empty_axes")? => Vec::new(),
        _ => (0..shape.rank()).collect(),
    };
    Ok((all, keep))
}

/// Reduces over the axes, which are an input since version `since`.
fn reduce(call: &Call<'_>, since: i64, f: fn(Tensor, &[usize]) -> Result<Tensor>) -> Outputs {
    let x = call.tensor(0)?;
    let (axes, keep) = reduced(call, x.shape(), since)?;
    let shape = x.shape().clone();
    let value = f(x, &axes)?;
    one(if keep { value } else { value.reshape(crate::ops::reduce::squeezed_shape(&shape, &axes)) })
}

/// A reduction of floats; integers give integers.
fn real(x: Tensor, axes: &[usize], f: fn(&Tensor, &[usize]) -> Tensor) -> Result<Tensor> {
    let (x, dtype) = as_float(x)?;
    Ok(f(&x, axes).to_dtype(dtype))
}

/// So many integers have remainders whose sum is one of 32 bits.
const EXACT: usize = 46_340;

/// The mean, of integers with its fraction cut off; of more than 46,340 of them as f32 has it.
fn mean(x: Tensor, axes: &[usize]) -> Result<Tensor> {
    let count: usize = axes.iter().map(|&axis| x.shape()[axis]).product();
    let x = as_number(x)?;
    if x.dtype().is_float() || count == 0 || count > EXACT {
        return real(x, axes, |x, axes| x.mean_keepdim(axes));
    }
    // the sum may be one of more than 32 bits
    let count = count as i64;
    let wholes = x.floor_divide(count);
    let rests = (&x - &wholes * count).sum_keepdim(axes);
    let mean = wholes.sum_keepdim(axes) + rests.floor_divide(count);
    let is_cut = mean.lt(0).logical_and(&rests.remainder(count).gt(0));
    Ok(is_cut.where_(&mean + 1, &mean))
}

fn extreme(x: Tensor, axes: &[usize], largest: bool) -> Result<Tensor> {
    let dtype = x.dtype();
    let x = if dtype == DType::Bool { x.to_dtype(DType::I32) } else { as_number(x)? };
    if axes.iter().any(|&axis| x.shape()[axis] == 0) {
        let shape = crate::ops::reduce::keepdim_shape(x.shape(), axes);
        let worst = match (dtype, largest) {
            (DType::Bool, true) => 0.0,
            (_, true) => f64::NEG_INFINITY,
            (_, false) => f64::INFINITY,
        };
        return Ok(Tensor::constant(shape, Scalar::new(dtype, worst), x.device()));
    }
    let value = if largest { x.max_keepdim(axes) } else { x.min_keepdim(axes) };
    Ok(if dtype == DType::Bool { value.to_dtype(DType::Bool) } else { value })
}

/// The product of sizes that are computed on the host.
fn host_product(call: &Call<'_>) -> Result<Option<HostTensor>> {
    let Value::Host(HostTensor { shape, data: HostData::Ints(values), dtype }) = call.value(0)? else {
        return Ok(None);
    };
    let (axes, keep) = reduced(call, shape, 18)?;
    if axes.len() != shape.rank() {
        return Ok(None);
    }
    let product = values.iter().fold(1_i64, |product, &value| product.saturating_mul(value));
    let shape = if keep { vec![1; shape.rank()] } else { Vec::new() };
    Ok(Some(HostTensor { shape: shape.into(), data: HostData::Ints(vec![product]), dtype: *dtype }))
}

fn place(call: &Call<'_>, f: fn(&Tensor, isize) -> Tensor) -> Outputs {
    let x = call.number(0)?;
    let axis = call.axis_attribute(0, x.shape())?;
    let size = x.shape()[axis];
    if size == 0 {
        return fail(format!("axis {axis} of {} has no elements", x.shape()));
    }
    let number = axis.cast_signed();
    let place =
        if call.flag("select_last_index")? { size as i32 - 1 - f(&x.flip(number), number) } else { f(&x, number) };
    one(if call.int("keepdims", 1)? != 0 { place } else { place.squeeze(number) })
}

fn cumulative(call: &Call<'_>, f: fn(&Tensor, isize) -> Tensor, nothing: f64) -> Outputs {
    let x = call.number(0)?;
    let axis = super::checks::axis(call.scalar_int(1)?, x.rank(), x.shape())?.cast_signed();
    let reverse = call.flag("reverse")?;
    let x = if reverse { x.flip(axis) } else { x };
    let sum = if call.flag("exclusive")? && x.size(axis) > 0 {
        let mut widths = vec![(0, 0); x.rank()];
        widths[axis.cast_unsigned()] = (1, -1);
        f(&x.pad(&widths, nothing), axis)
    } else {
        f(&x, axis)
    };
    one(if reverse { sum.flip(axis) } else { sum })
}

fn top(call: &Call<'_>) -> Outputs {
    let x = call.number(0)?;
    let axis = call.axis_attribute(-1, x.shape())?;
    let count = if call.opset() < 10 {
        let Some(count) = call.int_or_none("k")? else { return fail("has no k") };
        count
    } else {
        call.scalar_int(1)?
    };
    let size = x.shape()[axis];
    let Some(count) = usize::try_from(count).ok().filter(|&count| count <= size) else {
        return fail(format!("the {count} largest of the {size} elements along axis {axis} of {}", x.shape()));
    };
    let (values, places) = x.topk(count, axis.cast_signed(), call.int("largest", 1)? != 0);
    Ok(vec![values.into(), places.into()])
}
