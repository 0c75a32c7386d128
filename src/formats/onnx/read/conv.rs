//! Convolutions.

use crate::error::Result;
use crate::ops::conv::{self, Conv, ConvOptions};
use crate::shape::Shape;
use crate::tensor::Tensor;

use super::activation::Activation;
use super::call::{Call, Outputs, fail, one};
use super::checks::alike;
use super::checks::sizes;
use super::table::{Operator, microsoft, op};

pub(super) const OPERATORS: &[Operator] = &[
    op("Col2Im", 18, columns_to_image),
    op("Conv", 1, convolution),
    op("ConvTranspose", 1, transposed),
    microsoft("FusedConv", fused),
];

/// How windows lie on the axes after the second, with different widths at both ends.
pub(super) struct Windows {
    pub(super) kernel: Vec<usize>,
    pub(super) stride: Vec<usize>,
    pub(super) dilation: Vec<usize>,
    /// Elements before and after; negative ones cut off.
    pub(super) padding: Vec<(isize, isize)>,
}

/// Kernels and strides are not larger than this, so that sums of them do not overflow.
const LARGEST: usize = 1 << 30;

impl Windows {
    /// What a node's attributes say of windows of these sizes over a value of this shape. `kernel` is missing where it
    /// is an attribute.
    pub(super) fn of(call: &Call<'_>, shape: &Shape, kernel: Option<&[usize]>) -> Result<Self> {
        if shape.rank() < 3 || shape.rank() > 5 {
            return fail(format!("{shape} is not [batch, channels, one to three axes]"));
        }
        let spatial = shape.rank() - 2;
        let list = |name: &str, count: usize, default: usize| match call.list(name)? {
            None => Ok(vec![default; count]),
            Some(values) => {
                let values = sizes(&values, name)?;
                let fits = values.len() == count && values.iter().all(|&size| size <= LARGEST);
                if fits { Ok(values) } else { fail(format!("{name} {values:?} for {spatial} axes")) }
            }
        };
        let own = call.list("kernel_shape")?.map(|values| sizes(&values, "kernel_shape")).transpose()?;
        let kernel = match (kernel, own) {
            (Some(kernel), Some(own)) if own != kernel => {
                return fail(format!("kernel_shape {own:?} is not that of the weight, {kernel:?}"));
            }
            (Some(kernel), _) => kernel.to_vec(),
            (None, Some(own)) => own,
            (None, None) => return fail("has no kernel_shape"),
        };
        let (stride, dilation) = (list("strides", spatial, 1)?, list("dilations", spatial, 1)?);
        let is_good = |sizes: &[usize]| sizes.iter().all(|size| (1..=LARGEST).contains(size));
        if kernel.len() != spatial || !is_good(&kernel) || !is_good(&stride) || !is_good(&dilation) {
            return fail(format!("kernel {kernel:?}, stride {stride:?}, dilation {dilation:?} over {shape}"));
        }
        // what lies in the file is no pair, but all begins and then all ends
        let pads = match call.list("pads")? {
            None => vec![0; 2 * spatial],
            Some(pads) => pads,
        };
        if pads.len() != 2 * spatial || pads.iter().any(|width| width.unsigned_abs() > LARGEST as u64) {
            return fail(format!("pads {pads:?} for {spatial} axes"));
        }
        let padding = (0..spatial).map(|axis| (pads[axis] as isize, pads[axis + spatial] as isize)).collect();
        Ok(Self { kernel, stride, dilation, padding })
    }

    /// Elements from the first of a window to its last.
    pub(super) fn span(&self, axis: usize) -> usize {
        self.dilation[axis].saturating_mul(self.kernel[axis] - 1).saturating_add(1)
    }

    /// Puts `auto_pad` in place of the padding: as many windows as there are strides within the sizes.
    pub(super) fn pad_automatically(&mut self, call: &Call<'_>, sizes: &[usize]) -> Result<()> {
        let mode = call.text("auto_pad", "NOTSET")?;
        match mode.as_str() {
            "NOTSET" | "" => {}
            "VALID" => self.padding = vec![(0, 0); sizes.len()],
            "SAME_UPPER" | "SAME_LOWER" => {
                for (axis, &size) in sizes.iter().enumerate() {
                    let count = size.div_ceil(self.stride[axis]);
                    let needed = count.saturating_sub(1) * self.stride[axis] + self.span(axis);
                    let total = needed.saturating_sub(size).cast_signed();
                    let (small, large) = (total / 2, total - total / 2);
                    self.padding[axis] = if mode == "SAME_UPPER" { (small, large) } else { (large, small) };
                }
            }
            _ => return fail(format!("auto_pad `{mode}` is not known")),
        }
        Ok(())
    }

    /// The padding, if it is the same at both ends of each axis.
    pub(super) fn symmetric(&self) -> Option<Vec<usize>> {
        let width = |&(before, after): &(isize, isize)| usize::try_from(before).ok().filter(|_| before == after);
        self.padding.iter().map(width).collect()
    }

    /// A shape with the padding, as (before, after) for each axis.
    pub(super) fn widths(&self, call: &Call<'_>, shape: &Shape) -> Result<Vec<(isize, isize)>> {
        let widths = [&[(0, 0), (0, 0)], self.padding.as_slice()].concat();
        let size = |(&size, &(before, after)): (&usize, &(isize, isize))| {
            usize::try_from(size.cast_signed().saturating_add(before).saturating_add(after))
        };
        match shape.iter().zip(&widths).map(size).collect::<Result<Vec<_>, _>>() {
            Ok(whole) => call.shape(&whole).map(|_| widths),
            Err(_) => fail(format!("{shape} padded by {:?}", self.padding)),
        }
    }
}

/// Input, weight and bias of a convolution.
fn operands(call: &Call<'_>) -> Result<(Tensor, Tensor, Option<Tensor>)> {
    let (x, weight) = alike(call.float(0)?, call.float(1)?)?;
    if x.rank() != weight.rank() {
        return fail(format!("{} x {}, both need the same axes", x.shape(), weight.shape()));
    }
    let bias = call.optional_float(2)?.map(|bias| bias.to_dtype(x.dtype()));
    Ok((x, weight, bias))
}

pub(super) fn groups(call: &Call<'_>) -> Result<usize> {
    match usize::try_from(call.int("group", 1)?) {
        Ok(groups) if (1..=LARGEST).contains(&groups) => Ok(groups),
        _ => fail(format!("{} groups", call.int("group", 1)?)),
    }
}

pub(super) fn check_bias(bias: Option<&Tensor>, channels: usize) -> Result<()> {
    match bias {
        Some(bias) if *bias.shape() != [channels].into() => {
            fail(format!("bias {} for {channels} channels", bias.shape()))
        }
        _ => Ok(()),
    }
}

fn whole(call: &Call<'_>, batch: usize, conv: &Conv) -> Result<()> {
    let channels = conv.channels[0].saturating_mul(conv.channels[2]);
    call.shape(&[&[batch, channels], conv.sizes.as_slice()].concat()).map(drop)
}

fn convolution(call: &Call<'_>) -> Outputs {
    let (x, weight, bias) = operands(call)?;
    one(convolve(call, x, &weight, bias.as_ref())?)
}

/// The convolution that a node's attributes describe.
pub(super) fn convolve(call: &Call<'_>, x: Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    if x.rank() < 3 || weight.rank() != x.rank() {
        return fail(format!("{} x {}, both need three to five axes", x.shape(), weight.shape()));
    }
    let mut windows = Windows::of(call, x.shape(), Some(&weight.shape()[2..]))?;
    windows.pad_automatically(call, &x.shape()[2..])?;
    let (padding, x) = match windows.symmetric() {
        Some(padding) => (padding, x),
        None => (vec![0; windows.kernel.len()], x.pad(&windows.widths(call, x.shape())?, 0)),
    };
    let Windows { stride, dilation, .. } = windows;
    let options = ConvOptions { stride, padding, dilation, groups: groups(call)?, ..ConvOptions::default() };
    let spatial = x.rank() - 2;
    let conv = conv::conv("convolution", x.shape(), weight.shape(), spatial, &options)?;
    check_bias(bias, weight.shape()[0])?;
    whole(call, x.shape()[0], &conv)?;
    Ok(match spatial {
        1 => x.conv1d(weight, bias, &options),
        2 => x.conv2d(weight, bias, &options),
        _ => x.conv3d(weight, bias, &options),
    })
}

/// A convolution, what is added to it, and an activation: what ONNX Runtime makes of three nodes.
fn fused(call: &Call<'_>) -> Outputs {
    let (x, weight, bias) = operands(call)?;
    let mut value = convolve(call, x, &weight, bias.as_ref())?;
    if let Some(more) = call.optional_float(3)? {
        let (a, b) = call.pair(value, more)?;
        value = a + b;
    }
    let numbers = call.floats("activation_params")?.unwrap_or_default();
    let number = |place: usize| numbers.get(place).map(|&number| f64::from(number));
    one(match &call.text("activation", "")?[..] {
        "" => value,
        "Clip" => value.clamp(number(0).unwrap_or(f64::NEG_INFINITY), number(1).unwrap_or(f64::INFINITY)),
        name => Activation::of(name, [&mut number(0).into_iter(), &mut number(1).into_iter()])?.apply(&value),
    })
}

fn transposed(call: &Call<'_>) -> Outputs {
    let (x, weight, bias) = operands(call)?;
    if x.rank() < 3 {
        return fail(format!("{} has no spatial axes", x.shape()));
    }
    let mut windows = Windows::of(call, x.shape(), Some(&weight.shape()[2..]))?;
    let spatial = x.rank() - 2;
    let more = match call.list("output_padding")? {
        None => vec![0; spatial],
        Some(values) => sizes(&values, "output_padding")?,
    };
    if more.len() != spatial || more.iter().any(|&size| size > LARGEST) {
        return fail(format!("output_padding {more:?} for {spatial} axes"));
    }
    let full = |axis: usize| {
        let begins = x.shape()[2 + axis].saturating_sub(1).saturating_mul(windows.stride[axis]);
        begins.saturating_add(windows.span(axis)).saturating_add(more[axis])
    };
    let full: Vec<usize> = (0..spatial).map(full).collect();
    if full.iter().any(|&size| size > LARGEST) {
        return fail(format!("{} x {} becomes {full:?}", x.shape(), weight.shape()));
    }
    let mode = call.text("auto_pad", "NOTSET")?;
    let asked = call.list("output_shape")?.map(|sizes_| sizes(&sizes_, "output_shape")).transpose()?;
    let wanted = match (asked, mode.as_str()) {
        // some files name the batch and the channels as well
        (Some(asked), _) if asked.len() == spatial || asked.len() == spatial + 2 => {
            Some(asked[asked.len() - spatial..].to_vec())
        }
        (Some(asked), _) => return fail(format!("output_shape {asked:?} for {spatial} axes")),
        (None, "SAME_UPPER" | "SAME_LOWER") => {
            Some((0..spatial).map(|axis| x.shape()[2 + axis].saturating_mul(windows.stride[axis])).collect())
        }
        (None, _) => None,
    };
    for (axis, &size) in wanted.iter().flatten().enumerate() {
        let total = full[axis].cast_signed() - size.min(LARGEST).cast_signed();
        // where more is asked for than there is, it comes behind
        let small = total.div_euclid(2);
        let large = total - small;
        windows.padding[axis] = if mode == "SAME_UPPER" { (small, large) } else { (large, small) };
    }
    if mode == "VALID" && wanted.is_none() {
        windows.padding = vec![(0, 0); spatial];
    }
    let symmetric = windows.symmetric();
    let cut: Vec<(isize, isize)> = match symmetric {
        Some(_) => Vec::new(),
        None => windows.padding.iter().map(|&(before, after)| (-before, -after)).collect(),
    };
    let padding = symmetric.unwrap_or_else(|| vec![0; spatial]);
    let Windows { stride, dilation, .. } = windows;
    let (groups, output_padding) = (groups(call)?, more);
    let options = ConvOptions { stride, padding, dilation, groups, output_padding, same: false };
    let conv = conv::conv_transpose("transposed convolution", x.shape(), weight.shape(), spatial, &options)?;
    check_bias(bias.as_ref(), weight.shape()[1].saturating_mul(options.groups))?;
    whole(call, x.shape()[0], &conv)?;
    let bias = bias.as_ref();
    let value = match spatial {
        1 => x.conv_transpose1d(&weight, bias, &options),
        2 => x.conv_transpose2d(&weight, bias, &options),
        _ => x.conv_transpose3d(&weight, bias, &options),
    };
    if cut.is_empty() {
        return one(value);
    }
    // where more is asked for than there is, there is nothing but the bias
    if cut.iter().any(|&(before, after)| before > 0 || after > 0) && bias.is_some() {
        return fail(format!("a padding of {cut:?} with a bias is not known here"));
    }
    let widths = Windows { kernel: Vec::new(), stride: Vec::new(), dilation: Vec::new(), padding: cut };
    let widths = widths.widths(call, value.shape())?;
    one(value.pad(&widths, 0))
}

/// Columns added where they came from: `[batch, channels · block, positions]` to pictures of one axis or two.
fn columns_to_image(call: &Call<'_>) -> Outputs {
    let x = call.float(0)?;
    let image = sizes(&call.ints(1)?, "the picture's sizes")?;
    let block = sizes(&call.ints(2)?, "the block's sizes")?;
    let (&[batch, rows, positions], spatial @ 1..=2) = (x.shape().dims(), image.len()) else {
        return fail(format!("columns {} to a picture of {} axes are not known here", x.shape(), image.len()));
    };
    let area = block.iter().try_fold(1_usize, |area, &size| area.checked_mul(size)).unwrap_or(0);
    if block.len() != spatial || area == 0 || !rows.is_multiple_of(area) {
        return fail(format!("columns {} with blocks {block:?} and pictures {image:?}", x.shape()));
    }
    let shape = call.shape(&[&[batch, rows / area], image.as_slice()].concat())?;
    let windows = Windows::of(call, &shape, Some(&block))?;
    let whole: Vec<usize> = shape
        .iter()
        .zip(windows.widths(call, &shape)?)
        .map(|(&size, (before, after))| size.strict_add_signed(before + after))
        .collect();
    let count = |axis: usize| {
        let room = whole[2 + axis].checked_sub(windows.span(axis))?;
        Some(room / windows.stride[axis] + 1)
    };
    let counts: Option<Vec<usize>> = (0..spatial).map(count).collect();
    if counts.is_none_or(|counts| counts.iter().product::<usize>() != positions) {
        return fail(format!("{positions} positions with blocks {block:?} and pictures {image:?}"));
    }
    // one axis is a row
    let two = |sizes: &[usize]| if let [only] = *sizes { [1, only] } else { [sizes[0], sizes[1]] };
    let options = ConvOptions {
        stride: two(&windows.stride).to_vec(),
        dilation: two(&windows.dilation).to_vec(),
        ..ConvOptions::default()
    };
    let put = x.col2im(two(&whole[2..]), two(&block), &options).reshape(whole);
    let cut: Vec<(isize, isize)> = windows.padding.iter().map(|&(before, after)| (-before, -after)).collect();
    one(put.pad(&[&[(0, 0), (0, 0)], cut.as_slice()].concat(), 0))
}
