//! Parts of tensors, and elements around them.

use crate::error::Result;
use crate::graph::reference::{coordinates, ravel};
use crate::ops::movement;
use crate::shape::Shape;
use crate::tensor::{PadMode, Tensor};

use super::call::{Call, Outputs, fail, one};
use super::checks::{axis, sizes};
use super::table::{Operator, op};
use super::value::{HostTensor, Value};

pub(super) const OPERATORS: &[Operator] =
    &[op("CenterCropPad", 18, center_crop_pad), op("Pad", 2, pad), op("Slice", 1, slice), op("Split", 2, split)];

/// `length` elements along an axis.
#[derive(Clone, Copy)]
struct Part {
    start: usize,
    length: usize,
    step: isize,
}

/// Parts along each axis.
fn part(value: &Value, parts: &[(usize, Part)]) -> Result<Value> {
    let host = match value {
        Value::Tensor(tensor) => {
            let mut tensor = tensor.clone();
            for &(axis, Part { start, length, step }) in parts {
                let moved = movement::slice(tensor.shape(), axis.cast_signed(), start, length, step)?;
                tensor = tensor.moved_zero(moved);
            }
            return Ok(tensor.into());
        }
        Value::Host(host) => host,
    };
    let mut shape = host.shape.to_vec();
    parts.iter().for_each(|&(axis, part)| shape[axis] = part.length);
    let shape = Shape::from(shape);
    let place = |mut point: Vec<usize>| {
        for &(axis, Part { start, step, .. }) in parts {
            point[axis] = start.saturating_add_signed(step.saturating_mul(point[axis].cast_signed()));
        }
        ravel(&point, &host.shape)
    };
    let data = host.data.pick(&coordinates(&shape).map(place).collect::<Vec<_>>());
    Ok(HostTensor { shape, data, dtype: host.dtype }.into())
}

fn slice(call: &Call<'_>) -> Outputs {
    let value = call.value(0)?;
    let shape = value.shape();
    let attributes = call.opset() < 10;
    let input = |name: &str, number: usize| if attributes { call.list(name) } else { call.optional_ints(number) };
    let (Some(starts), Some(ends)) = (input("starts", 1)?, input("ends", 2)?) else {
        return fail("has no starts or ends");
    };
    let axes = input("axes", 3)?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = if attributes { None } else { call.optional_ints(4)? }.unwrap_or_else(|| vec![1; starts.len()]);
    if [ends.len(), axes.len(), steps.len()] != [starts.len(); 3] {
        return fail(format!(
            "{} starts, {} ends, {} axes, {} steps",
            starts.len(),
            ends.len(),
            axes.len(),
            steps.len()
        ));
    }
    let mut parts: Vec<(usize, Part)> = Vec::new();
    for (((&start, &end), &number), &step) in starts.iter().zip(&ends).zip(&axes).zip(&steps) {
        let axis = axis(number, shape.rank(), shape)?;
        if step == 0 || parts.iter().any(|part| part.0 == axis) {
            return fail(format!("step {step} along axis {axis}, among axes {axes:?}"));
        }
        let size = shape[axis] as i64;
        let from_front = |at: i64| if at < 0 { at.saturating_add(size) } else { at };
        // forwards from 0 to the end, backwards from the last to before the first
        let (low, high) = if step > 0 { (0, size) } else { (-1, size - 1) };
        let first = from_front(start).clamp(0, high.max(0));
        let end = from_front(end).clamp(low, high);
        let distance = if step > 0 { end - first } else { first - end };
        let length =
            if distance <= 0 || size == 0 { 0 } else { (distance as u64).div_ceil(step.unsigned_abs()) as usize };
        // one step of a single element may be of any length
        let step = if length <= 1 { 1 } else { step as isize };
        parts.push((axis, Part { start: first as usize, length, step }));
    }
    one(part(value, &parts)?)
}

fn split(call: &Call<'_>) -> Outputs {
    let value = call.value(0)?;
    let shape = value.shape();
    let axis = call.axis_attribute(0, shape)?;
    let size = shape[axis];
    let lengths = match call.list_or_input("split", 13, 1)? {
        Some(lengths) => sizes(&lengths, "the pieces")?,
        None => {
            let count = call.int("num_outputs", call.node.outputs.len() as i64)?;
            let Some(count) = usize::try_from(count).ok().filter(|&count| count == call.node.outputs.len()) else {
                return fail(format!("{count} pieces for {} outputs", call.node.outputs.len()));
            };
            let length = size.div_ceil(count.max(1));
            (0..count).map(|number| length.min(size.saturating_sub(number * length))).collect()
        }
    };
    if lengths.len() < call.node.outputs.len() || lengths.iter().sum::<usize>() != size {
        return fail(format!("pieces {lengths:?} along axis {axis} of {shape}"));
    }
    let mut start = 0;
    let piece = |&length: &usize| {
        let from = start;
        start += length;
        part(value, &[(axis, Part { start: from, length, step: 1 })])
    };
    lengths.iter().take(call.node.outputs.len()).map(piece).collect()
}

fn pad(call: &Call<'_>) -> Outputs {
    let x = call.tensor(0)?;
    let widths = match call.opset() {
        ..11 => call.list("pads")?,
        _ => Some(call.ints(1)?),
    };
    let Some(widths) = widths else { return fail("has no widths") };
    let axes: Vec<usize> = match call.optional_ints(3)? {
        Some(numbers) => numbers.iter().map(|&number| axis(number, x.rank(), x.shape())).collect::<Result<_>>()?,
        None => (0..x.rank()).collect(),
    };
    if widths.len() != 2 * axes.len() {
        return fail(format!("{} widths for {} axes of {}", widths.len(), axes.len(), x.shape()));
    }
    let mut all = vec![(0_isize, 0_isize); x.rank()];
    let limit = i64::from(i32::MAX);
    for (number, &axis) in axes.iter().enumerate() {
        let [before, after] = [widths[number], widths[number + axes.len()]];
        if before.unsigned_abs().max(after.unsigned_abs()) > limit.unsigned_abs() {
            return fail(format!("widths {widths:?}"));
        }
        all[axis] = (before as isize, after as isize);
    }
    let mode = call.text("mode", "constant")?;
    padded(call, x, &all, &mode)
}

/// With elements around it, as `mode` says; negative widths cut off.
fn padded(call: &Call<'_>, x: Tensor, widths: &[(isize, isize)], mode: &str) -> Outputs {
    let mut whole = Vec::with_capacity(widths.len());
    for (&size, &(before, after)) in x.shape().iter().zip(widths) {
        match usize::try_from(size.cast_signed() + before + after) {
            Ok(size) => whole.push(size),
            Err(_) => return fail(format!("{} by {widths:?}", x.shape())),
        }
    }
    call.shape(&whole)?;
    let mode = match mode {
        "constant" => {
            let value = match call.opset() {
                ..11 => call.number_attribute("value", 0.0)?,
                _ => call.given(2).map_or(Ok(0.0), |_| call.scalar(2))?,
            };
            if !x.dtype().holds_number(value) {
                return fail(format!("{value} is not representable as {}", x.dtype()));
            }
            return one(x.pad(widths, value));
        }
        "reflect" => PadMode::Reflect,
        "edge" => PadMode::Replicate,
        "wrap" => PadMode::Circular,
        other => return fail(format!("mode `{other}` is not known here")),
    };
    let cut: Vec<(isize, isize)> = widths.iter().map(|&(before, after)| (before.min(0), after.min(0))).collect();
    movement::pad(x.shape(), &cut)?;
    let mut x = x.pad(&cut, 0);
    let rest: Vec<(usize, usize)> =
        widths.iter().map(|&(before, after)| (before.max(0).cast_unsigned(), after.max(0).cast_unsigned())).collect();
    let most = |size: usize| match mode {
        PadMode::Reflect => size.saturating_sub(1),
        PadMode::Replicate if size > 0 => usize::MAX,
        PadMode::Replicate => 0,
        PadMode::Circular => size,
    };
    let fits = |(&(before, after), &size): (&(usize, usize), &usize)| before.max(after) <= most(size);
    if rest.iter().zip(x.shape().iter()).all(fits) {
        return one(x.pad_mode(&rest, mode));
    }
    // an axis that is far wider than what it is filled with repeats that
    for (axis, (before, after)) in rest.into_iter().enumerate().filter(|(_, width)| *width != (0, 0)) {
        let size = x.shape()[axis];
        if most(size) == 0 {
            return fail(format!("{mode:?} by {widths:?} is too much for {}", call.value(0)?.shape()));
        }
        let places: Vec<i32> = (0..before + size + after).map(|to| source(to, before, size, mode)).collect();
        let places = Tensor::from_slice(&places, [places.len()], call.device())?;
        x = x.index_select(axis.cast_signed(), &places);
    }
    one(x)
}

/// Which element is at place `to` of an axis of `size` that has `before` more in front.
fn source(to: usize, before: usize, size: usize, mode: PadMode) -> i32 {
    let (place, size) = (to as i64 - before as i64, size as i64);
    let source = match mode {
        PadMode::Replicate => place.clamp(0, size - 1),
        PadMode::Circular => place.rem_euclid(size),
        PadMode::Reflect => {
            let last = size - 1;
            last - (place.rem_euclid(2 * last) - last).abs()
        }
    };
    source as i32
}

fn center_crop_pad(call: &Call<'_>) -> Outputs {
    let x = call.tensor(0)?;
    let wanted = sizes(&call.ints(1)?, "the sizes")?;
    let axes: Vec<usize> = match call.list("axes")? {
        Some(numbers) => numbers.iter().map(|&number| axis(number, x.rank(), x.shape())).collect::<Result<_>>()?,
        None => (0..x.rank()).collect(),
    };
    if axes.len() != wanted.len() {
        return fail(format!("{} sizes for {} axes", wanted.len(), axes.len()));
    }
    let mut whole = x.shape().to_vec();
    let mut widths = vec![(0, 0); x.rank()];
    for (&axis, &size) in axes.iter().zip(&wanted) {
        let more = size.cast_signed() - x.shape()[axis].cast_signed();
        // of an odd number the larger half comes behind; cut off, it comes behind as well
        let before = if more >= 0 { more / 2 } else { -((-more) / 2) };
        widths[axis] = (before, more - before);
        whole[axis] = size;
    }
    call.shape(&whole)?;
    one(x.pad(&widths, 0))
}
