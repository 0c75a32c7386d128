//! Arithmetic on the host: what shapes are computed with.

use crate::dtype::DType;
use crate::error::Result;
use crate::graph::reference::{coordinates, ravel};
use crate::shape::Shape;

use super::super::proto::ElementType;
use super::call::{Call, fail};
use super::value::{HOST_ELEMENTS, HostData, HostTensor};

/// An operator of two numbers; `None` of integers where it has no result. Of those of up to 64 bits it is exact.
#[derive(Clone, Copy)]
pub(super) struct Arithmetic {
    pub(super) ints: fn(i128, i128) -> Option<i128>,
    pub(super) floats: fn(f32, f32) -> f32,
}

/// An integer in the range of its type: narrow ones lose their high bits, those of 64 bits stop at the limits, as
/// computed sizes should.
fn fitted(value: i128, range: Option<(i64, i64)>) -> i64 {
    let (low, high) = range.unwrap_or((i64::MIN, i64::MAX));
    if (low, high) == (i64::MIN, i64::MAX) {
        return value.clamp(low.into(), high.into()) as i64;
    }
    let (low, high) = (i128::from(low), i128::from(high));
    (value.wrapping_sub(low).rem_euclid(high - low + 1) + low) as i64
}

/// The range of the type of input 0 and of the result.
fn range(call: &Call<'_>) -> Option<(i64, i64)> {
    call.element().and_then(ElementType::range)
}

/// The numbers of the elements that `shape`, broadcast to `whole`, has at each place.
pub(super) fn spread(shape: &Shape, whole: &Shape) -> Vec<usize> {
    let new = whole.rank() - shape.rank();
    let place = |point: Vec<usize>| {
        let own: Vec<usize> =
            shape.iter().zip(&point[new..]).map(|(&size, &at)| if size == 1 { 0 } else { at }).collect();
        ravel(&own, shape)
    };
    coordinates(whole).map(place).collect()
}

/// The elements of both inputs broadcast to each other, if both are on the host and few.
pub(super) fn pair(call: &Call<'_>) -> Result<Option<(Shape, HostData, HostData)>> {
    let Some([a, b]) = call.hosts().and_then(|hosts| <[&HostTensor; 2]>::try_from(hosts).ok()) else {
        return Ok(None);
    };
    let shape = call.broadcast(&[&a.shape, &b.shape])?;
    if shape.numel() > HOST_ELEMENTS {
        return Ok(None);
    }
    let [left, right] = [a, b].map(|host| host.data.pick(&spread(&host.shape, &shape)));
    Ok(Some((shape, left, right)))
}

/// The operator's result, if both inputs are on the host.
pub(super) fn arithmetic(call: &Call<'_>, of: Arithmetic) -> Result<Option<HostTensor>> {
    let Some((shape, a, b)) = pair(call)? else { return Ok(None) };
    let dtype = call.value(0)?.dtype();
    let data = match (a, b) {
        (HostData::Ints(a), HostData::Ints(b)) => {
            let range = range(call);
            let value = |(&a, &b): (&i64, &i64)| Some(fitted((of.ints)(a.into(), b.into())?, range));
            match a.iter().zip(&b).map(value).collect() {
                Some(values) => HostData::Ints(values),
                None => return fail("divides by zero"),
            }
        }
        (HostData::Floats(a), HostData::Floats(b)) => {
            HostData::Floats(a.iter().zip(&b).map(|(&a, &b)| (of.floats)(a, b)).collect())
        }
        (HostData::Bools(_), HostData::Bools(_)) => return fail("is not defined for bool"),
        _ => return fail(format!("{dtype} and {} do not mix", call.value(1)?.dtype())),
    };
    Ok(Some(HostTensor::new(shape, data, dtype)))
}

/// The result of a comparison, if both inputs are on the host.
pub(super) fn comparison(
    call: &Call<'_>,
    ints: fn(&i64, &i64) -> bool,
    floats: fn(&f32, &f32) -> bool,
) -> Result<Option<HostTensor>> {
    let Some((shape, a, b)) = pair(call)? else { return Ok(None) };
    let numbers = |values: Vec<bool>| values.into_iter().map(i64::from).collect::<Vec<_>>();
    let values = match (a, b) {
        (HostData::Ints(a), HostData::Ints(b)) => a.iter().zip(&b).map(|(a, b)| ints(a, b)).collect(),
        (HostData::Floats(a), HostData::Floats(b)) => a.iter().zip(&b).map(|(a, b)| floats(a, b)).collect(),
        (HostData::Bools(a), HostData::Bools(b)) => {
            numbers(a).iter().zip(&numbers(b)).map(|(a, b)| ints(a, b)).collect()
        }
        _ => return fail(format!("{} and {} do not mix", call.value(0)?.dtype(), call.value(1)?.dtype())),
    };
    Ok(Some(HostTensor::bools(shape, values)))
}

/// The result of an operator of one number, if the input is on the host.
pub(super) fn unary(call: &Call<'_>, ints: fn(i128) -> i128, floats: fn(f32) -> f32) -> Option<HostTensor> {
    let hosts = call.hosts()?;
    let host = *hosts.first()?;
    let data = match &host.data {
        HostData::Ints(values) => {
            let range = range(call);
            HostData::Ints(values.iter().map(|&value| fitted(ints(value.into()), range)).collect())
        }
        HostData::Floats(values) => HostData::Floats(values.iter().map(|&value| floats(value)).collect()),
        HostData::Bools(_) => return None,
    };
    Some(HostTensor::new(host.shape.clone(), data, host.dtype))
}

/// The elements in another type.
pub(super) fn cast(host: &HostTensor, dtype: DType, range: Option<(i64, i64)>) -> HostTensor {
    let data = if dtype.is_float() {
        HostData::Floats(host.to_f64().into_iter().map(|value| value as f32).collect())
    } else if dtype == DType::Bool {
        HostData::Bools(host.to_f64().into_iter().map(|value| value != 0.0).collect())
    } else {
        let (low, high) = range.unwrap_or((i64::MIN, i64::MAX));
        let ints = match &host.data {
            // saturates
            HostData::Floats(values) => values.iter().map(|&value| (value as i64).clamp(low, high)).collect(),
            _ => {
                let values = host.to_i64().unwrap_or_default();
                values.into_iter().map(|value| fitted(value.into(), range)).collect()
            }
        };
        HostData::Ints(ints)
    };
    HostTensor::new(host.shape.clone(), data, dtype)
}
