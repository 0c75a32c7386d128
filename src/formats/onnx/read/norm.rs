//! Normalisation.

use crate::dtype::DType;
use crate::error::Result;
use crate::tensor::Tensor;

use super::call::{Call, Outputs, fail, one};
use super::table::{Operator, microsoft, op};
use super::value::Value;

pub(super) const OPERATORS: &[Operator] = &[
    op("BatchNormalization", 7, batch_norm),
    op("GroupNormalization", 18, group_norm),
    op("InstanceNormalization", 6, instance_norm),
    op("LRN", 1, local_response_norm),
    op("LayerNormalization", 17, layer_norm),
    // exporters put it there, too
    op("SimplifiedLayerNormalization", 1, rms_norm),
    op("LpNormalization", 1, lp_norm),
    op("MeanVarianceNormalization", 9, mean_variance),
    op("RMSNormalization", 23, rms_norm),
    microsoft("SimplifiedLayerNormalization", rms_norm),
    microsoft("SkipLayerNormalization", |call| skip_norm(call, false)),
    microsoft("SkipSimplifiedLayerNormalization", |call| skip_norm(call, true)),
];

fn epsilon(call: &Call<'_>, default: f64) -> Result<f64> {
    call.number_attribute("epsilon", default)
}

/// Squares of f16 soon overflow, and their epsilons are nothing: norms are computed in f32 (`stash_type`), and what
/// they yield is cast back.
fn wide(call: &Call<'_>) -> Result<(Tensor, DType)> {
    let x = call.float(0)?;
    Ok((x.to_dtype(DType::F32), x.dtype()))
}

/// Inputs of one number for each channel of `[batch, channels, ..]`.
fn per_channel(call: &Call<'_>, x: &Tensor, number: usize) -> Result<Tensor> {
    let values = call.float(number)?;
    if x.rank() < 2 || *values.shape() != [x.shape()[1]].into() {
        return fail(format!("input {number} is {}, not one number for each channel of {}", values.shape(), x.shape()));
    }
    Ok(values.to_dtype(x.dtype()))
}

fn batch_norm(call: &Call<'_>) -> Outputs {
    let (x, dtype) = wide(call)?;
    let [scale, bias, mean, variance] =
        [per_channel(call, &x, 1)?, per_channel(call, &x, 2)?, per_channel(call, &x, 3)?, per_channel(call, &x, 4)?];
    let epsilon = epsilon(call, 1e-5)?;
    if !call.flag("training_mode")? || call.opset() < 14 {
        return one(x.batch_norm_eval(&mean, &variance, Some(&scale), Some(&bias), epsilon).to_dtype(dtype));
    }
    let axes: Vec<usize> = (0..x.rank()).filter(|&axis| axis != 1).collect();
    let of_batch = x.mean_keepdim(axes.as_slice());
    let spread = (&x - &of_batch).square().mean_dim(axes);
    let of_batch = of_batch.reshape(mean.shape());
    let momentum = call.number_attribute("momentum", 0.9)?;
    // statistics have types of their own
    let moved = |running: &Tensor, now: &Tensor, number: usize| -> Result<Value> {
        let moved = running * momentum + now * (1.0 - momentum);
        Ok(moved.to_dtype(call.value(number)?.dtype()).into())
    };
    let value = x.batch_norm_eval(&of_batch, &spread, Some(&scale), Some(&bias), epsilon).to_dtype(dtype);
    Ok(vec![value.into(), moved(&mean, &of_batch, 3)?, moved(&variance, &spread, 4)?])
}

fn instance_norm(call: &Call<'_>) -> Outputs {
    let (x, dtype) = wide(call)?;
    let (scale, bias) = (per_channel(call, &x, 1)?, per_channel(call, &x, 2)?);
    if x.shape()[1] == 0 {
        return one(x.to_dtype(dtype));
    }
    one(x.instance_norm(Some(&scale), Some(&bias), epsilon(call, 1e-5)?).to_dtype(dtype))
}

fn group_norm(call: &Call<'_>) -> Outputs {
    let (x, dtype) = wide(call)?;
    let groups = call.int("num_groups", 0)?;
    let channels = x.shape().get(1).copied().unwrap_or(0);
    let Some(groups) =
        usize::try_from(groups).ok().filter(|&groups| x.rank() >= 2 && groups > 0 && channels.is_multiple_of(groups))
    else {
        return fail(format!("{} in {groups} groups of channels", x.shape()));
    };
    let [scale, bias] = [1, 2].map(|number| call.float(number));
    let (mut scale, mut bias) = (scale?, bias?);
    // before version 21 they are those of the groups
    if call.opset() < 21 && *scale.shape() == [groups].into() && *bias.shape() == [groups].into() {
        let each = channels / groups;
        [scale, bias] = [scale, bias].map(|values| values.repeat_interleave(each, 0));
    }
    for values in [&scale, &bias] {
        if *values.shape() != [channels].into() {
            return fail(format!("weights {} for {channels} channels", values.shape()));
        }
    }
    let (scale, bias) = (scale.to_dtype(x.dtype()), bias.to_dtype(x.dtype()));
    one(x.group_norm(groups, Some(&scale), Some(&bias), epsilon(call, 1e-5)?).to_dtype(dtype))
}

/// `x · scale + bias`, which broadcast to it.
fn affine(call: &Call<'_>, x: Tensor, number: usize) -> Result<Tensor> {
    let mut value = x;
    for (place, is_scale) in [(number, true), (number + 1, false)] {
        let Some(operand) = call.optional_float(place)? else { continue };
        let operand = operand.to_dtype(value.dtype());
        if call.broadcast(&[value.shape(), operand.shape()])? != *value.shape() {
            return fail(format!("input {place} is {}, and does not broadcast to {}", operand.shape(), value.shape()));
        }
        value = if is_scale { value * operand } else { value + operand };
    }
    Ok(value)
}

fn layer_norm(call: &Call<'_>) -> Outputs {
    let (x, dtype) = wide(call)?;
    let first = call.axis_attribute(-1, x.shape())?;
    let axes: Vec<usize> = (first..x.rank()).collect();
    let epsilon = epsilon(call, 1e-5)?;
    let weights = [call.optional_float(1)?, call.optional_float(2)?];
    let weights = weights.map(|weight| weight.map(|weight| weight.to_dtype(DType::F32)));
    let whole = x.shape()[first..].to_vec();
    let is_plain = weights.iter().flatten().all(|weight| weight.shape().dims() == whole.as_slice());
    let value = if is_plain {
        x.layer_norm(axes.len(), weights[0].as_ref(), weights[1].as_ref(), epsilon)
    } else {
        affine(call, x.layer_norm(axes.len(), None, None, epsilon), 1)?
    };
    let value = value.to_dtype(dtype);
    if !call.wants(1) && !call.wants(2) {
        return one(value);
    }
    let mean = x.mean_keepdim(axes.as_slice());
    let scale = ((&x - &mean).square().mean_keepdim(axes) + epsilon).rsqrt();
    Ok(vec![value.into(), mean.into(), scale.into()])
}

/// `x / √(mean(x²) + epsilon)` from an axis on.
fn root_mean_square(x: &Tensor, first: usize, epsilon: f64) -> Tensor {
    let axes: Vec<usize> = (first..x.rank()).collect();
    x * (x.square().mean_keepdim(axes) + epsilon).rsqrt()
}

fn rms_norm(call: &Call<'_>) -> Outputs {
    let (x, dtype) = wide(call)?;
    let first = call.axis_attribute(-1, x.shape())?;
    one(affine(call, root_mean_square(&x, first, epsilon(call, 1e-5)?), 1)?.to_dtype(dtype))
}

/// The norm of the sum of inputs 0, 1 and 4; weights are inputs 2 and 3.
fn skip_norm(call: &Call<'_>, is_simple: bool) -> Outputs {
    let (x, skip) = call.pair(call.float(0)?, call.float(1)?)?;
    if x.rank() == 0 {
        return fail("a number has no axis");
    }
    let mut sum = x + skip;
    if let Some(bias) = call.optional_float(if is_simple { 3 } else { 4 })? {
        let (of, bias) = call.pair(sum, bias)?;
        sum = of + bias;
    }
    let epsilon = epsilon(call, 1e-12)?;
    let (dtype, sum) = (sum.dtype(), sum.to_dtype(DType::F32));
    let value = if is_simple {
        let Some(scale) = call.optional_float(2)? else { return fail("has no input 2") };
        let (value, scale) = call.pair(root_mean_square(&sum, sum.rank() - 1, epsilon), scale)?;
        value * scale
    } else {
        affine(call, sum.layer_norm(1, None, None, epsilon), 2)?
    };
    let nothing = || Tensor::zeros([0], call.device()).into();
    if call.wants(1) || call.wants(2) {
        return fail("outputs 1 and 2 are not known here");
    }
    Ok(vec![value.to_dtype(dtype).into(), nothing(), nothing(), sum.to_dtype(dtype).into()])
}

fn lp_norm(call: &Call<'_>) -> Outputs {
    let x = call.float(0)?;
    let axis = call.axis_attribute(-1, x.shape())?.cast_signed();
    let length = match call.int("p", 2)? {
        1 => x.abs().sum_keepdim(axis),
        2 => x.square().sum_keepdim(axis).sqrt(),
        other => return fail(format!("p is {other}, neither 1 nor 2")),
    };
    // a vector of zeros stays one
    one(&x / length.eq(0.0).where_(1.0, &length))
}

fn mean_variance(call: &Call<'_>) -> Outputs {
    let (x, dtype) = wide(call)?;
    let numbers = call.list("axes")?.unwrap_or_else(|| vec![0, 2, 3]);
    let axes = super::checks::axes(&numbers, x.rank(), x.shape())?;
    let mean = x.mean_keepdim(axes.as_slice());
    let spread = (&x - &mean).square().mean_keepdim(axes).sqrt();
    one(((x - mean) / (spread + 1e-9)).to_dtype(dtype))
}

/// `x / (bias + alpha / size · Σ x²)^beta` over `size` neighbouring channels.
fn local_response_norm(call: &Call<'_>) -> Outputs {
    let x = call.float(0)?;
    let size = match usize::try_from(call.int("size", 0)?) {
        Ok(size) if x.rank() >= 2 && size > 0 && size <= call.pass.limit => size,
        _ => return fail(format!("{} neighbours among the channels of {}", call.int("size", 0)?, x.shape())),
    };
    call.shape(&[&[x.shape()[0], x.shape()[1].saturating_add(size)], &x.shape()[2..]].concat())?;
    let (alpha, beta) = (call.number_attribute("alpha", 1e-4)?, call.number_attribute("beta", 0.75)?);
    let bias = call.number_attribute("bias", 1.0)?;
    if x.numel() == 0 {
        return one(x);
    }
    // of an even number, one more lies behind
    let (before, after) = ((size - 1) / 2, size / 2);
    let mut widths = vec![(0, 0); x.rank()];
    widths[1] = (before.cast_signed(), after.cast_signed());
    let sums = x.square().pad(&widths, 0.0).unfold(1, size, 1).sum_dim(-1);
    one(&x / (sums * (alpha / size as f64) + bias).pow(beta))
}
