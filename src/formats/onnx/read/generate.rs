//! Constants, ranges, and what there is to know about a shape.

use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::shape::Shape;
use crate::tensor::Tensor;

use super::super::proto::ElementType;
use super::call::{Call, Outputs, fail, one};
use super::checks::{shape_along, sizes};
use super::graph::Attribute;
use super::table::{Operator, op};
use super::value::{HOST_ELEMENTS, HostData, HostTensor, Value};

pub(super) const OPERATORS: &[Operator] = &[
    op("Constant", 1, constant),
    op("ConstantOfShape", 9, constant_of_shape),
    op("EyeLike", 9, eye_like),
    op("OneHot", 9, one_hot),
    op("Bernoulli", 15, |call| {
        let dtype = type_of(call, call.value(0)?.dtype())?;
        one(call.float(0)?.bernoulli().to_dtype(dtype))
    }),
    op("RandomNormal", 1, |call| normal(call, &told_shape(call)?, DType::F32)),
    op("RandomNormalLike", 1, |call| normal(call, call.value(0)?.shape(), call.value(0)?.dtype())),
    op("RandomUniform", 1, |call| uniform(call, &told_shape(call)?, DType::F32)),
    op("RandomUniformLike", 1, |call| uniform(call, call.value(0)?.shape(), call.value(0)?.dtype())),
    op("Range", 11, range),
    op("Shape", 1, shape),
    op("Size", 1, |call| one(HostTensor::ints([], vec![call.value(0)?.shape().numel() as i64]))),
    op("Trilu", 14, trilu),
];

fn constant(call: &Call<'_>) -> Outputs {
    if let Some(value) = call.constant("value")? {
        return one(value);
    }
    for (name, attribute) in &call.node.attributes {
        match (name.as_str(), attribute) {
            ("value_float", Attribute::Float(value)) => return one(HostTensor::floats([], vec![*value])),
            ("value_int", Attribute::Int(value)) => return one(HostTensor::ints([], vec![*value])),
            ("value_floats", Attribute::Floats(values)) => {
                return one(HostTensor::floats([values.len()], values.clone()));
            }
            ("value_ints", Attribute::Ints(values)) => return one(HostTensor::ints([values.len()], values.clone())),
            _ => {}
        }
    }
    fail("has no value that is known here")
}

fn constant_of_shape(call: &Call<'_>) -> Outputs {
    let shape = call.shape(&sizes(&call.ints(0)?, "the sizes")?)?;
    let value = match call.constant("value")? {
        None => HostTensor::floats([1], vec![0.0]),
        Some(Value::Host(host)) if host.data.len() == 1 => host,
        Some(other) => return fail(format!("its value is of shape {}, not one element", other.shape())),
    };
    if shape.numel() <= HOST_ELEMENTS && !value.dtype.is_float() {
        let places = vec![0; shape.numel()];
        return one(HostTensor { shape, data: value.data.pick(&places), dtype: value.dtype });
    }
    let number = value.to_f64()[0];
    if !value.dtype.is_float() {
        // an integer that does not fit is an error
        value.to_tensor(call.device())?;
    }
    one(Tensor::constant(shape, Scalar::new(value.dtype, number), call.device()))
}

fn eye_like(call: &Call<'_>) -> Outputs {
    let like = call.value(0)?;
    let dtype = type_of(call, like.dtype())?;
    if like.shape().rank() != 2 {
        return fail(format!("{} is not a matrix", like.shape()));
    }
    let shape = like.shape();
    let number = diagonal(call.int("k", 0)?);
    let distance = Tensor::iota(shape, 1, call.device()) - Tensor::iota(shape, 0, call.device());
    one(distance.eq(number).to_dtype(dtype))
}

/// The type that attribute `dtype` asks for, if it is there.
fn type_of(call: &Call<'_>, otherwise: DType) -> Result<DType> {
    match call.int_or_none("dtype")? {
        Some(number) => ElementType::of(i32::try_from(number).unwrap_or(0))?.dtype(),
        None => Ok(otherwise),
    }
}

/// The shape that an attribute tells.
fn told_shape(call: &Call<'_>) -> Result<Shape> {
    match call.list("shape")? {
        Some(shape) => call.shape(&sizes(&shape, "the sizes")?),
        None => fail("has no shape"),
    }
}

/// Normal numbers, which go on in the device's own sequence: an attribute `seed` is another generator's.
fn normal(call: &Call<'_>, shape: &Shape, otherwise: DType) -> Outputs {
    let (mean, scale) = (call.number_attribute("mean", 0.0)?, call.number_attribute("scale", 1.0)?);
    one((Tensor::randn(shape, call.device()) * scale + mean).to_dtype(float_type(call, otherwise)?))
}

/// Uniform ones, likewise.
fn uniform(call: &Call<'_>, shape: &Shape, otherwise: DType) -> Outputs {
    let (low, high) = (call.number_attribute("low", 0.0)?, call.number_attribute("high", 1.0)?);
    one((Tensor::rand(shape, call.device()) * (high - low) + low).to_dtype(float_type(call, otherwise)?))
}

fn float_type(call: &Call<'_>, otherwise: DType) -> Result<DType> {
    match type_of(call, otherwise)? {
        dtype if dtype.is_float() => Ok(dtype),
        other => fail(format!("random numbers of type {other} do not exist")),
    }
}

/// The number of a diagonal, of which far ones are alike.
fn diagonal(number: i64) -> i32 {
    number.clamp(-(1 << 30), 1 << 30) as i32
}

fn trilu(call: &Call<'_>) -> Outputs {
    let x = call.tensor(0)?;
    if x.rank() < 2 {
        return fail(format!("{} is not a matrix", x.shape()));
    }
    let number = match call.given(1) {
        None => 0,
        Some(_) => diagonal(call.scalar_int(1)?),
    };
    one(if call.int("upper", 1)? != 0 { x.triu(number) } else { x.tril(number) })
}

fn one_hot(call: &Call<'_>) -> Outputs {
    let index = super::checks::as_number(call.tensor(0)?)?.to_dtype(DType::I32);
    let depth = call.scalar(1)?;
    if !(depth >= 1.0 && depth <= f64::from(i32::MAX)) {
        return fail(format!("{depth} classes"));
    }
    let depth = depth as usize;
    let values = call.tensor(2)?;
    if *values.shape() != [2].into() {
        return fail(format!("the values for off and on are of shape {}, not [2]", values.shape()));
    }
    let rank = index.rank() + 1;
    let axis = super::checks::axis(call.int("axis", -1)?, rank, index.shape())?;
    let mut whole = index.shape().to_vec();
    whole.insert(axis, depth);
    let whole = call.shape(&whole)?;
    let place = Tensor::iota([depth], 0, call.device()).reshape(shape_along(rank, axis, depth));
    // negative ones count from the end; others outside are nowhere
    let index = index.lt(0).where_(&index + depth as i64, &index);
    let on = place.eq(index.unsqueeze(axis.cast_signed())).expand(whole);
    one(on.where_(values.select(0, 1), values.select(0, 0)))
}

fn range(call: &Call<'_>) -> Outputs {
    let [start, end, step] = [call.host(0)?, call.host(1)?, call.host(2)?];
    if [&start, &end, &step].iter().any(|of| of.data.len() != 1 || of.dtype != start.dtype) {
        return fail("start, limit and delta are not three numbers of one type");
    }
    if let (HostData::Ints(from), HostData::Ints(to), HostData::Ints(by)) = (&start.data, &end.data, &step.data) {
        let (from, to, by) = (i128::from(from[0]), i128::from(to[0]), i128::from(by[0]));
        if by == 0 {
            return fail("its step is 0");
        }
        let count = ((to - from + by - by.signum()) / by).max(0);
        let count = counted(call, count as f64)?;
        let last = from + by * (count as i128 - 1).max(0);
        if count <= HOST_ELEMENTS {
            let values = (0..count as i128).map(|number| (from + number * by) as i64).collect();
            return one(HostTensor { shape: [count].into(), data: HostData::Ints(values), dtype: start.dtype });
        }
        if [from, by, last].iter().any(|&value| i32::try_from(value).is_err()) {
            return fail(format!("{from} to {to} by {by} does not fit into i32"));
        }
        let number = Tensor::arange(count, call.device());
        return one((number * by as i64 + from as i64).to_dtype(start.dtype));
    }
    let [from, to, by] = [start.to_f64()[0], end.to_f64()[0], step.to_f64()[0]];
    let count = counted(call, ((to - from) / by).ceil().max(0.0))?;
    one((Tensor::arange(count, call.device()).to_dtype(DType::F32) * by + from).to_dtype(start.dtype))
}

/// A number of elements that there may be.
fn counted(call: &Call<'_>, count: f64) -> Result<usize> {
    if !count.is_finite() {
        return fail("it never ends");
    }
    // saturates
    let count = count as usize;
    call.shape(&[count])?;
    Ok(count)
}

fn shape(call: &Call<'_>) -> Outputs {
    let shape = call.value(0)?.shape();
    let rank = shape.rank() as i64;
    let place = |number: i64| (if number < 0 { number.saturating_add(rank) } else { number }).clamp(0, rank) as usize;
    let (start, end) = (place(call.int("start", 0)?), place(call.int("end", rank)?));
    let chosen = shape.get(start..end).unwrap_or_default();
    one(HostTensor::ints([chosen.len()], chosen.iter().map(|&size| size as i64).collect()))
}
