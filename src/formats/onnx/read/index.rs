//! Elements chosen by indices, and elements put there.

use std::cmp::Ordering;

use crate::dtype::DType;
use crate::error::Result;
use crate::graph::reference::{coordinates, ravel};
use crate::ops::movement::with_size;
use crate::shape::Shape;
use crate::tensor::{ScatterOp, Tensor};

use super::call::{Call, Outputs, fail, one};
use super::checks::{axis, shape_along};
use super::elementwise::wrapped;
use super::table::{Operator, op};
use super::value::{HOST_ELEMENTS, HostData, HostTensor, Value};

pub(super) const OPERATORS: &[Operator] = &[
    op("Compress", 9, compress),
    op("Gather", 1, gather),
    op("GatherElements", 11, gather_elements),
    op("GatherND", 11, gather_nd),
    op("NonZero", 9, nonzero),
    op("ReverseSequence", 10, reverse_sequence),
    op("Scatter", 9, scatter),
    op("ScatterElements", 11, scatter),
    op("ScatterND", 11, scatter_nd),
    op("Unique", 11, unique),
];

/// The indices of an input with negative ones counted from the end of an axis of this size. Those on the host are
/// checked; on the device, one outside is an error when it is next read.
fn indices(call: &Call<'_>, number: usize, size: usize) -> Result<Tensor> {
    if let Value::Host(host) = call.value(number)? {
        return HostTensor::ints(host.shape.clone(), from_front(host, size)?).to_tensor(call.device());
    }
    let index = call.index(number)?;
    if size == 0 && index.numel() > 0 {
        return fail(format!("indices {} into an axis of size 0", index.shape()));
    }
    Ok(index.lt(0).where_(&index + size as i64, &index))
}

/// The same on the host.
fn from_front(host: &HostTensor, size: usize) -> Result<Vec<i64>> {
    let Some(values) = host.to_i64() else {
        return fail(format!("indices are {}, not integers", host.dtype));
    };
    let place = |value: i64| {
        let place = if value < 0 { value.saturating_add(size as i64) } else { value };
        if (0..size as i64).contains(&place) {
            Ok(place)
        } else {
            fail(format!("index {value} into an axis of {size}"))
        }
    };
    values.into_iter().map(place).collect()
}

fn gather(call: &Call<'_>) -> Outputs {
    let (value, index) = (call.value(0)?, call.value(1)?);
    let shape = value.shape();
    let axis = call.axis_attribute(0, shape)?;
    let size = shape[axis];
    let whole = call.shape(&[&shape[..axis], index.shape(), &shape[axis + 1..]].concat())?;
    let x = match (value, index) {
        (Value::Host(host), Value::Host(index)) if whole.numel() <= HOST_ELEMENTS => {
            let chosen = from_front(index, size)?;
            let place = |point: Vec<usize>| {
                let (before, rest) = point.split_at(axis);
                let (at, after) = rest.split_at(index.shape.rank());
                ravel(&[before, &[chosen[ravel(at, &index.shape)] as usize], after].concat(), shape)
            };
            let data = host.data.pick(&coordinates(&whole).map(place).collect::<Vec<_>>());
            return one(HostTensor { shape: whole, data, dtype: host.dtype });
        }
        (value, _) => call.on_device(value)?,
    };
    // one place is a view
    if let Value::Host(index) = index
        && let [place] = from_front(index, size)?[..]
    {
        return one(x.narrow(axis.cast_signed(), place as usize, 1).reshape(whole));
    }
    one(x.index_select(axis.cast_signed(), &indices(call, 1, size)?))
}

fn gather_elements(call: &Call<'_>) -> Outputs {
    let x = call.tensor(0)?;
    let axis = call.axis_attribute(0, x.shape())?;
    let index = indices(call, 1, x.shape()[axis])?;
    check_beside(x.shape(), index.shape(), axis)?;
    one(x.gather(axis.cast_signed(), &index))
}

/// Whether indices lie within a value along all other axes.
fn check_beside(shape: &Shape, index: &Shape, axis: usize) -> Result<()> {
    let fits = shape.rank() == index.rank() && (0..shape.rank()).all(|own| own == axis || index[own] <= shape[own]);
    if fits { Ok(()) } else { fail(format!("indices {index} into {shape} along axis {axis}")) }
}

/// Numbers of rows that the last axis of an input names by their coordinates in axes of these sizes.
fn rows(call: &Call<'_>, number: usize, sizes: &[usize]) -> Result<Tensor> {
    let index = call.index(number)?;
    if sizes.contains(&0) && index.numel() > 0 {
        return fail(format!("indices {} into axes {sizes:?}", index.shape()));
    }
    let shape = Shape::from(&index.shape()[..index.rank() - 1]);
    let mut place = Tensor::zeros_of(shape, DType::I32, call.device());
    for (coordinate, &size) in sizes.iter().enumerate() {
        let along = index.select(-1, coordinate);
        let along = along.lt(0).where_(&along + size as i64, &along);
        place = place * size as i64 + along.checked_index("index", size);
    }
    Ok(place)
}

fn gather_nd(call: &Call<'_>) -> Outputs {
    let x = call.tensor(0)?;
    let index = call.value(1)?.shape().clone();
    let batch = call.int("batch_dims", 0)?;
    let wrong = || fail(format!("indices {index} into {} with {batch} axes of batches", x.shape()));
    let Some(batch) = usize::try_from(batch).ok().filter(|&batch| batch < index.rank() && batch <= x.rank()) else {
        return wrong();
    };
    let depth = index[index.rank() - 1];
    if batch + depth > x.rank() || index[..batch] != x.shape()[..batch] {
        return wrong();
    }
    let (batches, rest) = x.shape().split_at(batch);
    let (indexed, rest) = rest.split_at(depth);
    let whole = [&index[..index.rank() - 1], rest].concat();
    let whole = call.shape(&whole)?;
    let mut place = rows(call, 1, indexed)?;
    let count: usize = indexed.iter().product();
    for axis in 0..batch {
        // each batch has rows of its own
        let before = batches[axis + 1..].iter().product::<usize>() * count;
        place = &place + Tensor::iota(place.shape(), axis, call.device()) * before as i64;
    }
    let table = [&[batches.iter().product::<usize>() * count], rest].concat();
    if whole.numel() == 0 {
        return one(Tensor::zeros_of(whole, x.dtype(), call.device()));
    }
    one(x.reshape(table).index_select(0, &place).reshape(whole))
}

/// How a node joins what goes to one place; `None`: the last one stays.
fn reduction(call: &Call<'_>) -> Result<Option<ScatterOp>> {
    Ok(match call.text("reduction", "none")?.as_str() {
        "none" => None,
        "add" => Some(ScatterOp::Sum),
        "mul" => Some(ScatterOp::Prod),
        "max" => Some(ScatterOp::Max),
        "min" => Some(ScatterOp::Min),
        other => return fail(format!("reduction `{other}` is not known")),
    })
}

/// Data and updates in a type that can be put, and the type they have.
fn pair(call: &Call<'_>) -> Result<(Tensor, Tensor, DType)> {
    let x = call.tensor(0)?;
    let updates = call.tensor(2)?;
    let dtype = x.dtype();
    if updates.dtype() != dtype {
        return fail(format!("{} into {dtype}", updates.dtype()));
    }
    let narrow = matches!(dtype, DType::Bool | DType::U8);
    Ok(if narrow { (x.to_dtype(DType::I32), updates.to_dtype(DType::I32), dtype) } else { (x, updates, dtype) })
}

fn scatter(call: &Call<'_>) -> Outputs {
    let (x, updates, dtype) = pair(call)?;
    let axis = call.axis_attribute(0, x.shape())?;
    let index = indices(call, 1, x.shape()[axis])?;
    check_beside(x.shape(), index.shape(), axis)?;
    if updates.shape() != index.shape() {
        return fail(format!("updates {} at indices {}", updates.shape(), index.shape()));
    }
    let axis = axis.cast_signed();
    let value = match reduction(call)? {
        _ if updates.numel() == 0 => x,
        None => x.scatter(axis, &index, &updates),
        Some(ScatterOp::Sum) => x.scatter_add(axis, &index, &updates),
        Some(op) => x.scatter_reduce(axis, &index, &updates, op, true),
    };
    joined(call, value.to_dtype(dtype))
}

/// What elements were put into; sums and products of narrow integers wrap.
fn joined(call: &Call<'_>, value: Tensor) -> Outputs {
    match reduction(call)? {
        Some(ScatterOp::Sum | ScatterOp::Prod) => one(wrapped(call, value)?),
        _ => one(value),
    }
}

fn scatter_nd(call: &Call<'_>) -> Outputs {
    let (x, updates, dtype) = pair(call)?;
    let index = call.value(1)?.shape().clone();
    let depth = index.last().copied().unwrap_or(usize::MAX);
    let wrong = || fail(format!("updates {} at indices {index} into {}", updates.shape(), x.shape()));
    if depth > x.rank() {
        return wrong();
    }
    let (indexed, rest) = x.shape().split_at(depth);
    let points = &index[..index.rank() - 1];
    if updates.shape().dims() != [points, rest].concat().as_slice() {
        return wrong();
    }
    if updates.numel() == 0 {
        return one(call.tensor(0)?);
    }
    let place = rows(call, 1, indexed)?;
    let (count, length) = (place.numel(), rest.iter().product::<usize>());
    let table = x.reshape([indexed.iter().product(), length]);
    let (place, updates) = (place.reshape([count]), updates.reshape([count, length]));
    let spread = || place.reshape([count, 1]).expand([count, length]);
    let value = match reduction(call)? {
        None => table.index_copy(0, &place, &updates),
        Some(ScatterOp::Sum) => table.index_add(0, &place, &updates),
        Some(op) => table.scatter_reduce(0, &spread(), &updates, op, true),
    };
    joined(call, value.reshape(x.shape()).to_dtype(dtype))
}

/// Coordinates of what is not zero, which are read.
fn nonzero(call: &Call<'_>) -> Outputs {
    let host = call.read(0)?;
    let shape = host.shape.dims();
    let is_there = |&(_, value): &(usize, f64)| value != 0.0;
    let found: Vec<usize> = host.to_f64().into_iter().enumerate().filter(is_there).map(|(number, _)| number).collect();
    let mut values = Vec::with_capacity(shape.len() * found.len());
    for (axis, &size) in shape.iter().enumerate() {
        let inner: usize = shape[axis + 1..].iter().product();
        values.extend(found.iter().map(|number| (number / inner % size) as i64));
    }
    one(HostTensor::ints([shape.len(), found.len()], values))
}

/// A number in whose place floats are in order; -0 is 0.
fn ordered(value: f64) -> i64 {
    let bits = (value + 0.0).to_bits().cast_signed();
    // as `f64::total_cmp`
    bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
}

/// What differs among the elements, or among the parts along an axis: one of each, where each was first, which of these
/// every one is, and how many there are of each.
fn unique(call: &Call<'_>) -> Outputs {
    let host = call.read(0)?;
    let along = match call.int_or_none("axis")? {
        Some(number) => Some(axis(number, host.shape.rank(), &host.shape)?),
        None => None,
    };
    let values = host.to_i64().unwrap_or_else(|| host.to_f64().into_iter().map(ordered).collect());
    let (size, inner) = match along {
        Some(axis) => (host.shape[axis], host.shape[axis + 1..].iter().product::<usize>()),
        None => (values.len(), 1),
    };
    let part = |number: usize| {
        let numbers = 0..values.len() / size.max(1);
        let values = &values;
        numbers.map(move |other| values[(other / inner * size + number) * inner + other % inner])
    };
    let compare = |a: usize, b: usize| part(a).zip(part(b)).map(|(a, b)| a.cmp(&b)).find(|order| order.is_ne());
    let mut order: Vec<usize> = (0..size).collect();
    order.sort_by(|&a, &b| compare(a, b).unwrap_or(Ordering::Equal));
    // equal ones are in order, so that the first of each comes first
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for number in order {
        match groups.last_mut() {
            Some(group) if compare(group[0], number).is_none() => group.push(number),
            _ => groups.push(vec![number]),
        }
    }
    if call.int("sorted", 1)? == 0 {
        groups.sort_by_key(|group| group[0]);
    }
    let mut which = vec![0; size];
    for (group, members) in groups.iter().enumerate() {
        members.iter().for_each(|&member| which[member] = group as i64);
    }
    let count = groups.len();
    let (shape, places) = match along {
        None => (Shape::from([count]), groups.iter().map(|group| group[0]).collect()),
        Some(axis) => {
            let shape = with_size(&host.shape, axis, count);
            let place = |mut point: Vec<usize>| {
                point[axis] = groups[point[axis]][0];
                ravel(&point, &host.shape)
            };
            let places: Vec<usize> = coordinates(&shape).map(place).collect();
            (shape, places)
        }
    };
    let ints = |values: Vec<i64>| Value::Host(HostTensor::ints([values.len()], values));
    let first = groups.iter().map(|group| group[0] as i64).collect();
    let counts = groups.iter().map(|group| group.len() as i64).collect();
    let found = HostTensor { shape, data: host.data.pick(&places), dtype: host.dtype };
    Ok(vec![found.into(), ints(first), ints(which), ints(counts)])
}

fn compress(call: &Call<'_>) -> Outputs {
    let x = call.tensor(0)?;
    let condition = call.read(1)?;
    let HostData::Bools(keep) = &condition.data else {
        return fail(format!("its condition is {}, not bool", condition.dtype));
    };
    let (x, axis) = match call.int_or_none("axis")? {
        Some(number) => {
            let axis = axis(number, x.rank(), x.shape())?;
            (x, axis)
        }
        None => (x.reshape([x.numel()]), 0),
    };
    let size = x.shape()[axis];
    if keep.len() > size {
        return fail(format!("{} conditions for axis {axis} of {}", keep.len(), x.shape()));
    }
    let places: Vec<i64> = (0..keep.len()).filter(|&place| keep[place]).map(|place| place as i64).collect();
    if places.is_empty() {
        return one(Tensor::zeros_of(with_size(x.shape(), axis, 0), x.dtype(), call.device()));
    }
    let places = HostTensor::ints([places.len()], places).to_tensor(call.device())?;
    one(x.index_select(axis.cast_signed(), &places))
}

fn reverse_sequence(call: &Call<'_>) -> Outputs {
    let x = call.tensor(0)?;
    let [batch, time] = [call.int("batch_axis", 1)?, call.int("time_axis", 0)?];
    let [batch, time] = [axis(batch, x.rank(), x.shape())?, axis(time, x.rank(), x.shape())?];
    let lengths = call.index(1)?;
    let sizes = x.shape();
    if batch == time || *lengths.shape() != [sizes[batch]].into() {
        return fail(format!("lengths {} of {sizes} along axes {batch} and {time}", lengths.shape()));
    }
    if x.numel() == 0 {
        return one(x);
    }
    let lengths = lengths.reshape(shape_along(x.rank(), batch, sizes[batch])).expand(sizes);
    let place = Tensor::iota(sizes, time, call.device());
    let inside = place.lt(&lengths);
    one(x.gather(time.cast_signed(), &inside.where_(lengths - 1 - &place, &place)))
}
