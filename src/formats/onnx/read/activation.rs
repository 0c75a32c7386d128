//! Activation functions, and softmax.

use crate::dtype::DType;
use crate::error::Result;
use crate::tensor::Tensor;

use super::call::{Call, Outputs, fail, one};
use super::checks::axis;
use super::elementwise::function;
use super::table::{Operator, microsoft, op};
use super::value::Value;

pub(super) const OPERATORS: &[Operator] = &[
    op("Celu", 12, |call| with(call, "alpha", 1.0, |x, alpha| x.celu(alpha))),
    op("Clip", 6, clip),
    op("Dropout", 7, dropout),
    op("Elu", 6, named),
    op("Gelu", 20, |call| match call.text("approximate", "none")?.as_str() {
        "none" => function(call, Tensor::gelu),
        "tanh" => function(call, Tensor::gelu_tanh),
        other => fail(format!("approximate `{other}` is neither none nor tanh")),
    }),
    op("HardSigmoid", 6, named),
    op("HardSwish", 14, |call| function(call, Tensor::hardswish)),
    op("Hardmax", 1, |call| along(call, hardmax)),
    op("LeakyRelu", 6, named),
    op("LogSoftmax", 1, |call| along(call, |x, axis| x.log_softmax(axis.cast_signed()))),
    op("Mish", 18, |call| function(call, Tensor::mish)),
    op("PRelu", 7, prelu),
    op("Relu", 6, |call| {
        let x = call.number(0)?;
        one(if x.dtype().is_float() { x.relu() } else { x.maximum(0) })
    }),
    op("Selu", 6, selu),
    op("Shrink", 9, shrink),
    op("Sigmoid", 6, |call| function(call, Tensor::sigmoid)),
    op("Softmax", 1, |call| along(call, |x, axis| x.softmax(axis.cast_signed()))),
    op("Softplus", 1, |call| function(call, Tensor::softplus)),
    op("Softsign", 1, |call| function(call, Tensor::softsign)),
    op("Swish", 24, |call| with(call, "alpha", 1.0, swish)),
    op("ThresholdedRelu", 10, named),
    microsoft("BiasGelu", |call| {
        let (x, bias) = call.pair(call.float(0)?, call.float(1)?)?;
        one((x + bias).gelu())
    }),
    microsoft("FastGelu", |call| {
        let x = call.float(0)?;
        let Some(bias) = call.optional_float(1)? else { return one(x.gelu_tanh()) };
        let (x, bias) = call.pair(x, bias)?;
        one((x + bias).gelu_tanh())
    }),
    microsoft("Gelu", |call| function(call, Tensor::gelu)),
    microsoft("QuickGelu", |call| with(call, "alpha", 1.702, swish)),
];

/// Of an input and two numbers.
type Function = fn(&Tensor, f64, f64) -> Tensor;

/// A function that an attribute names, of the gates of a layer or behind a convolution, with its numbers.
#[derive(Clone, Copy)]
pub(super) struct Activation {
    function: Function,
    alpha: f64,
    beta: f64,
}

impl Activation {
    /// One that has such a number takes the next of those that the node gives, if there is one.
    pub(super) fn of(name: &str, given: [&mut dyn Iterator<Item = f64>; 2]) -> Result<Self> {
        type Defaults = [Option<f64>; 2];
        let (function, defaults): (Function, Defaults) = match name.to_ascii_lowercase().as_str() {
            "sigmoid" => (|x, _, _| x.sigmoid(), [None, None]),
            "tanh" => (|x, _, _| x.tanh(), [None, None]),
            "relu" => (|x, _, _| x.relu(), [None, None]),
            "affine" => (|x, alpha, beta| x * alpha + beta, [Some(1.0), Some(0.0)]),
            "leakyrelu" => (|x, alpha, _| x.leaky_relu(alpha), [Some(0.01), None]),
            "thresholdedrelu" => (|x, alpha, _| x.gt(alpha).where_(x, x.zeros_like()), [Some(1.0), None]),
            "scaledtanh" => (|x, alpha, beta| (x * beta).tanh() * alpha, [Some(1.0), Some(1.0)]),
            "hardsigmoid" => (|x, alpha, beta| (x * alpha + beta).clamp(0.0, 1.0), [Some(0.2), Some(0.5)]),
            "elu" => (|x, alpha, _| x.elu(alpha), [Some(1.0), None]),
            "softsign" => (|x, _, _| x.softsign(), [None, None]),
            "softplus" => (|x, _, _| x.softplus(), [None, None]),
            _ => return fail(format!("activation `{name}` is not known")),
        };
        let [alphas, betas] = given;
        let next = |default: Option<f64>, given: &mut dyn Iterator<Item = f64>| {
            default.map_or(0.0, |default| given.next().unwrap_or(default))
        };
        Ok(Self { function, alpha: next(defaults[0], alphas), beta: next(defaults[1], betas) })
    }

    pub(super) fn apply(self, x: &Tensor) -> Tensor {
        (self.function)(x, self.alpha, self.beta)
    }
}

/// The activation that the operator itself is called by, with its numbers in attributes.
fn named(call: &Call<'_>) -> Outputs {
    let [alpha, beta] = [call.number_or_none("alpha")?, call.number_or_none("beta")?];
    let activation = Activation::of(call.node.operator.name, [&mut alpha.into_iter(), &mut beta.into_iter()])?;
    one(activation.apply(&call.float(0)?))
}

fn swish(x: &Tensor, alpha: f64) -> Tensor {
    x * (x * alpha).sigmoid()
}

/// A function of a float and an attribute.
fn with(call: &Call<'_>, name: &str, default: f64, f: fn(&Tensor, f64) -> Tensor) -> Outputs {
    one(f(&call.float(0)?, call.number_attribute(name, default)?))
}

/// Along one axis; before version 13 along all from that axis on.
fn along(call: &Call<'_>, f: fn(&Tensor, usize) -> Tensor) -> Outputs {
    let x = call.float(0)?;
    if call.opset() >= 13 {
        let axis = call.axis_attribute(-1, x.shape())?;
        return one(f(&x, axis));
    }
    let first = match call.int("axis", 1)? {
        number if number == x.rank() as i64 => x.rank(),
        number => axis(number, x.rank(), x.shape())?,
    };
    one(from_axis_on(&x, first, |x| f(x, 1)))
}

/// Of rows that consist of all axes from `first` on.
pub(super) fn from_axis_on(x: &Tensor, first: usize, f: impl FnOnce(&Tensor) -> Tensor) -> Tensor {
    let (rows, columns) = x.shape().split_at(first);
    let flat = x.reshape([rows.iter().product(), columns.iter().product::<usize>()]);
    f(&flat).reshape(x.shape())
}

/// One at the first of the largest elements, zero elsewhere.
fn hardmax(x: &Tensor, axis: usize) -> Tensor {
    if x.numel() == 0 {
        return x.clone();
    }
    let axis = axis.cast_signed();
    let place = Tensor::iota(x.shape(), axis.cast_unsigned(), x.device());
    place.eq(x.argmax_keepdim(axis)).to_dtype(x.dtype())
}

/// A limit of one number.
fn limit(call: &Call<'_>, name: &str, number: usize) -> Result<Option<Value>> {
    if call.opset() < 11 {
        return Ok(call
            .number_or_none(name)?
            .map(|value| super::value::HostTensor::floats([], vec![value as f32]).into()));
    }
    let Some(value) = call.given(number) else { return Ok(None) };
    if value.shape().numel() != 1 {
        return fail(format!("{name} is of shape {}, not one number", value.shape()));
    }
    Ok(Some(value.clone()))
}

fn clip(call: &Call<'_>) -> Outputs {
    let mut x = call.number(0)?;
    for (name, number) in [("min", 1), ("max", 2)] {
        let is_min = number == 1;
        match limit(call, name, number)? {
            None => {}
            Some(Value::Host(host)) => {
                let value = host.to_f64()[0];
                x = match (x.dtype(), is_min) {
                    (DType::F32 | DType::F16, true) => x.clamp_min(value),
                    (DType::F32 | DType::F16, false) => x.clamp_max(value),
                    (dtype, is_min) => {
                        // a limit beyond the type is no limit
                        let (low, high) = if dtype == DType::U32 {
                            (0.0, f64::from(u32::MAX))
                        } else {
                            (f64::from(i32::MIN), f64::from(i32::MAX))
                        };
                        let value = value.clamp(low, high) as i64;
                        if is_min { x.maximum(value) } else { x.minimum(value) }
                    }
                };
            }
            Some(Value::Tensor(tensor)) => {
                let (of, limit) = call.pair(x, super::checks::as_number(tensor)?.reshape([0_usize; 0]))?;
                x = if is_min { of.clamp_min(limit) } else { of.clamp_max(limit) };
            }
        }
    }
    one(x)
}

/// All elements are kept.
fn dropout(call: &Call<'_>) -> Outputs {
    let x = call.value(0)?.clone();
    let mask = Tensor::ones_of(x.shape(), DType::Bool, call.device());
    Ok(vec![x, mask.into()])
}

fn prelu(call: &Call<'_>) -> Outputs {
    let (x, slope) = call.pair(call.number(0)?, call.number(1)?)?;
    if call.broadcast(&[x.shape(), slope.shape()])? != *x.shape() {
        return fail(format!("slopes {} do not broadcast to {}", slope.shape(), x.shape()));
    }
    one(x.lt(0).where_(&x * slope, &x))
}

fn selu(call: &Call<'_>) -> Outputs {
    let alpha = call.number_attribute("alpha", 1.673_263_192_176_818_8)?;
    let gamma = call.number_attribute("gamma", 1.050_701_022_148_132_3)?;
    one(call.float(0)?.elu(alpha) * gamma)
}

fn shrink(call: &Call<'_>) -> Outputs {
    let (bias, width) = (call.number_attribute("bias", 0.0)?, call.number_attribute("lambd", 0.5)?);
    let x = call.float(0)?;
    let above = x.gt(width).where_(&x - bias, x.zeros_like());
    one(x.lt(-width).where_(&x + bias, above))
}
