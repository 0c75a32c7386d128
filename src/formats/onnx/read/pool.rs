//! Pooling.

use crate::dtype::DType;
use crate::error::Result;
use crate::ops::pool::PoolOptions;
use crate::shape::Shape;
use crate::tensor::Tensor;

use super::call::{Call, Outputs, fail, one};
use super::checks::{as_number, shape_along};
use super::conv::Windows;
use super::table::{Operator, op};

pub(super) const OPERATORS: &[Operator] = &[
    op("AveragePool", 7, |call| one(average(call, &call.float(0)?)?)),
    op("GlobalAveragePool", 1, |call| one(global_average(&call.float(0)?)?)),
    op("GlobalLpPool", 2, |call| {
        let p = call.int("p", 2)? as f64;
        let x = call.float(0)?;
        let axes = spatial_axes(&x)?;
        one(x.abs().pow(p).sum_keepdim(axes).pow(1.0 / p))
    }),
    op("GlobalMaxPool", 1, |call| {
        let x = call.float(0)?;
        one(x.max_keepdim(spatial_axes(&x)?))
    }),
    op("LpPool", 2, power),
    op("MaxPool", 1, maximum),
];

/// The axes after the second, none of which is empty.
fn spatial_axes(x: &Tensor) -> Result<Vec<usize>> {
    if x.rank() < 2 || x.shape()[2..].contains(&0) {
        return fail(format!("{} is not [batch, channels, ..]", x.shape()));
    }
    Ok((2..x.rank()).collect())
}

/// The mean over all axes after the second, which stay.
pub(super) fn global_average(x: &Tensor) -> Result<Tensor> {
    Ok(x.mean_keepdim(spatial_axes(x)?))
}

/// Windows over a value of this shape, which are padded so that the last one ends inside, and how many there are.
struct Laid {
    windows: Windows,
    counts: Vec<usize>,
    /// What the file says is outside, without what the last window needs beyond it.
    told: Vec<(isize, isize)>,
}

impl Laid {
    fn of(call: &Call<'_>, shape: &Shape) -> Result<Self> {
        let mut windows = Windows::of(call, shape, None)?;
        let sizes = &shape[2..];
        windows.pad_automatically(call, sizes)?;
        let told = windows.padding.clone();
        let rounds_up = call.flag("ceil_mode")?;
        let mut counts = Vec::new();
        for (axis, &size) in sizes.iter().enumerate() {
            let (before, after) = windows.padding[axis];
            let whole = size.cast_signed() + before + after;
            let (stride, span) = (windows.stride[axis].cast_signed(), windows.span(axis).cast_signed());
            let room = whole - span;
            if before < 0 || after < 0 || size == 0 || (room < 0 && !(rounds_up && room + stride > 0)) {
                return fail(format!("windows of {span} do not fit into axis {} of {shape}", axis + 2));
            }
            let mut count = room.max(0) / stride + 1;
            if rounds_up && room > 0 && room % stride != 0 {
                count += 1;
                // the last one begins inside, or in the padding before
                if (count - 1) * stride >= size.cast_signed() + before {
                    count -= 1;
                }
            }
            windows.padding[axis].1 += ((count - 1) * stride + span - whole).max(0);
            counts.push(count.cast_unsigned());
        }
        call.shape(&[&shape[..2], counts.as_slice()].concat())?;
        // what is read, though it is never in memory
        let reads = counts.iter().chain(&windows.kernel).fold(1_usize, |whole, &size| whole.saturating_mul(size));
        if reads > call.pass.limit.saturating_mul(64) {
            return fail(format!("windows {:?} over {shape} are far too many elements", windows.kernel));
        }
        Ok(Self { windows, counts, told })
    }

    fn options(&self, padding: Vec<usize>) -> PoolOptions {
        PoolOptions::new(self.windows.kernel.as_slice())
            .stride(self.windows.stride.as_slice())
            .dilation(self.windows.dilation.as_slice())
            .padding(padding)
    }

    /// The padding, if windows of the library may have it.
    fn plain(&self) -> Option<Vec<usize>> {
        let padding = self.windows.symmetric()?;
        padding.iter().zip(&self.windows.kernel).all(|(&width, &kernel)| width <= kernel / 2).then_some(padding)
    }

    /// The value with its padding, of elements that are `outside`.
    fn padded(&self, call: &Call<'_>, x: &Tensor, outside: f64) -> Result<Tensor> {
        Ok(x.pad(&self.windows.widths(call, x.shape())?, outside))
    }
}

fn maximum(call: &Call<'_>) -> Outputs {
    let x = as_number(call.tensor(0)?)?;
    let laid = Laid::of(call, x.shape())?;
    let smallest = match x.dtype() {
        DType::I32 => f64::from(i32::MIN),
        DType::U32 => 0.0,
        _ => f64::NEG_INFINITY,
    };
    let spatial = x.rank() - 2;
    let (padding, inside) = match laid.plain() {
        Some(padding) => (padding, x.clone()),
        None => (vec![0; spatial], laid.padded(call, &x, smallest)?),
    };
    let options = laid.options(padding);
    options.windows("max pooling", inside.shape(), spatial)?;
    if !call.wants(1) {
        return one(match spatial {
            1 => inside.max_pool1d_with(&options),
            2 => inside.max_pool2d_with(&options),
            _ => inside.max_pool3d_with(&options),
        });
    }
    let (values, places) = match spatial {
        1 => inside.max_pool1d_with_indices(&options),
        2 => inside.max_pool2d_with_indices(&options),
        _ => inside.max_pool3d_with_indices(&options),
    };
    Ok(vec![values.into(), numbers(call, &laid, &x, &inside, &places)?.into()])
}

/// Places in padded pictures as numbers of elements of the whole value.
fn numbers(call: &Call<'_>, laid: &Laid, x: &Tensor, inside: &Tensor, places: &Tensor) -> Result<Tensor> {
    let sizes = &x.shape()[2..];
    let padded = &inside.shape()[2..];
    let is_padded = sizes != padded;
    let column_major = call.flag("storage_order")?;
    let mut rest = places.clone();
    let mut coordinates = Vec::new();
    for axis in (0..sizes.len()).rev() {
        let size = padded[axis] as i64;
        let before = if is_padded { laid.told[axis].0 as i64 } else { 0 };
        coordinates.push(rest.fmod(size) - before);
        rest = rest.div_trunc(size);
    }
    // from the last axis on
    let mut along: Vec<(usize, Tensor)> = (0..sizes.len()).rev().zip(coordinates).collect();
    if !column_major {
        along.reverse();
    }
    let picture = sizes.iter().product::<usize>() as i64;
    let shape = places.shape();
    let row = Tensor::iota(shape, 0, call.device()) * x.shape()[1] as i64 + Tensor::iota(shape, 1, call.device());
    let mut number: Option<Tensor> = None;
    for (axis, coordinate) in along {
        number = Some(match number {
            Some(number) => number * sizes[axis] as i64 + coordinate,
            None => coordinate,
        });
    }
    Ok(row * picture + number.unwrap_or_else(|| places.clone()))
}

/// Sums over windows, of a value that is zero outside.
fn sums(call: &Call<'_>, laid: &Laid, x: &Tensor) -> Result<Tensor> {
    let padded = laid.padded(call, x, 0.0)?;
    let spatial = x.rank() - 2;
    if laid.windows.dilation.iter().any(|&dilation| dilation != 1) {
        // a convolution with ones, channel by channel
        let shape = padded.shape();
        let single = [&[shape[0].saturating_mul(shape[1]), 1], &shape[2..]].concat();
        let ones = Tensor::ones_of([&[1, 1], laid.windows.kernel.as_slice()].concat(), x.dtype(), call.device());
        let options = crate::ops::conv::ConvOptions {
            stride: laid.windows.stride.clone(),
            dilation: laid.windows.dilation.clone(),
            ..Default::default()
        };
        let flat = padded.reshape(single);
        let sums = match spatial {
            1 => flat.conv1d(&ones, None, &options),
            2 => flat.conv2d(&ones, None, &options),
            _ => flat.conv3d(&ones, None, &options),
        };
        return Ok(sums.reshape([&shape[..2], laid.counts.as_slice()].concat()));
    }
    let options = laid.options(vec![0; spatial]).divisor(1);
    options.windows("pooling", padded.shape(), spatial)?;
    Ok(match spatial {
        1 => padded.avg_pool1d_with(&options),
        2 => padded.avg_pool2d_with(&options),
        _ => padded.avg_pool3d_with(&options),
    })
}

/// The mean of each window of `x`.
pub(super) fn average(call: &Call<'_>, x: &Tensor) -> Result<Tensor> {
    let laid = Laid::of(call, x.shape())?;
    let counts_padding = call.flag("count_include_pad")?;
    let mut mean = sums(call, &laid, x)?;
    for (axis, &count) in laid.counts.iter().enumerate() {
        let size = x.shape()[2 + axis].cast_signed();
        let (before, after) = laid.told[axis];
        let (low, high) = if counts_padding { (-before, size + after) } else { (0, size) };
        let elements = |window: usize| {
            let first = (window * laid.windows.stride[axis]).cast_signed() - before;
            let step = laid.windows.dilation[axis].cast_signed();
            let inside = (0..laid.windows.kernel[axis].cast_signed())
                .filter(|element| (low..high).contains(&(first + element * step)))
                .count();
            inside.max(1) as f32
        };
        if count.saturating_mul(laid.windows.kernel[axis]) > call.pass.limit {
            return fail(format!("windows {:?} over {}", laid.windows.kernel, x.shape()));
        }
        let elements: Vec<f32> = (0..count).map(elements).collect();
        if elements.iter().all(|&number| number == elements[0]) {
            mean *= 1.0 / f64::from(elements[0]);
            continue;
        }
        let divisor = Tensor::from_slice(&elements, shape_along(x.rank(), 2 + axis, count), call.device())?;
        let divisor = divisor.to_dtype(x.dtype());
        mean /= divisor;
    }
    Ok(mean)
}

fn power(call: &Call<'_>) -> Outputs {
    let x = call.float(0)?;
    let laid = Laid::of(call, x.shape())?;
    let p = call.int("p", 2)? as f64;
    one(sums(call, &laid, &x.abs().pow(p))?.pow(1.0 / p))
}
