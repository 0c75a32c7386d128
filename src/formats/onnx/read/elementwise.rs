//! Arithmetic, comparisons, logic and functions of real numbers, element by element.

use crate::dtype::DType;
use crate::error::Result;
use crate::ops::elementwise as scalar;
use crate::tensor::Tensor;

use super::super::proto::ElementType;
use super::call::{Call, Outputs, fail, one};
use super::checks::as_number;
use super::host::{self, Arithmetic};
use super::table::{Operator, op};
use super::value::{HostData, HostTensor, Value};

pub(super) const OPERATORS: &[Operator] = &[
    op("Abs", 6, |call| unary(call, i128::abs, f32::abs, Tensor::abs)),
    op("Acos", 7, |call| function(call, Tensor::acos)),
    op("Acosh", 9, |call| function(call, Tensor::acosh)),
    op("Add", 7, |call| arithmetic(call, Arithmetic { ints: |a, b| Some(a + b), floats: |a, b| a + b }, |a, b| a + b)),
    op("And", 7, |call| logic(call, |a, b| a && b, |a, b| a.logical_and(b))),
    op("Asin", 7, |call| function(call, Tensor::asin)),
    op("Asinh", 9, |call| function(call, Tensor::asinh)),
    op("Atan", 7, |call| function(call, Tensor::atan)),
    op("Atanh", 9, |call| function(call, Tensor::atanh)),
    op("BitShift", 11, shift),
    op("BitwiseAnd", 18, |call| match low_word(call)? {
        Some(tensor) => one(tensor),
        None => bits(call, |a, b| a & b, |a, b| a.bitwise_and(b)),
    }),
    op("BitwiseNot", 18, |call| {
        let x = call.tensor(0)?;
        if x.dtype().is_float() {
            return fail(format!("is not defined for {}", x.dtype()));
        }
        one(wrapped(call, x.bitwise_not())?)
    }),
    op("BitwiseOr", 18, |call| bits(call, |a, b| a | b, |a, b| a.bitwise_or(b))),
    op("BitwiseXor", 18, |call| bits(call, |a, b| a ^ b, |a, b| a.bitwise_xor(b))),
    op("Cast", 6, cast),
    op("CastLike", 15, cast_like),
    op("Ceil", 6, |call| unary_float(call, f32::ceil, Tensor::ceil)),
    op("Cos", 7, |call| function(call, Tensor::cos)),
    op("Cosh", 9, |call| function(call, Tensor::cosh)),
    op("Div", 7, |call| {
        arithmetic(call, Arithmetic { ints: i128::checked_div, floats: |a, b| a / b }, |a, b| {
            if a.dtype().is_float() { a / b } else { a.div_trunc(b) }
        })
    }),
    op("Equal", 7, |call| compare(call, i64::eq, f32::eq, |a, b| a.eq(b))),
    op("Erf", 9, |call| function(call, Tensor::erf)),
    op("Exp", 6, |call| unary_float(call, f32::exp, Tensor::exp)),
    op("Floor", 6, |call| unary_float(call, f32::floor, Tensor::floor)),
    op("Greater", 7, |call| compare(call, i64::gt, f32::gt, |a, b| a.gt(b))),
    op("GreaterOrEqual", 12, |call| compare(call, i64::ge, f32::ge, |a, b| a.ge(b))),
    op("Identity", 1, |call| one(call.value(0)?.clone())),
    op("IsInf", 10, is_infinite),
    op("IsNaN", 9, |call| one(call.float(0)?.isnan())),
    op("Less", 7, |call| compare(call, i64::lt, f32::lt, |a, b| a.lt(b))),
    op("LessOrEqual", 12, |call| compare(call, i64::le, f32::le, |a, b| a.le(b))),
    op("Log", 6, |call| unary_float(call, f32::ln, Tensor::log)),
    op("Max", 8, |call| fold(call, Arithmetic { ints: |a, b| Some(a.max(b)), floats: larger }, |a, b| a.maximum(b))),
    op("Mean", 8, mean),
    op("Min", 8, |call| fold(call, Arithmetic { ints: |a, b| Some(a.min(b)), floats: smaller }, |a, b| a.minimum(b))),
    op("Mod", 10, modulo),
    op("Mul", 7, |call| arithmetic(call, Arithmetic { ints: |a, b| Some(a * b), floats: |a, b| a * b }, |a, b| a * b)),
    op("Neg", 6, |call| unary(call, |x| -x, |x| -x, |x| -x)),
    op("Not", 1, not),
    op("Or", 7, |call| logic(call, |a, b| a || b, |a, b| a.logical_or(b))),
    op("Pow", 7, power),
    op("Reciprocal", 6, |call| unary_float(call, f32::recip, Tensor::reciprocal)),
    op("Round", 11, |call| unary_float(call, f32::round_ties_even, Tensor::round)),
    op("Sign", 9, |call| unary(call, i128::signum, |x| if x == 0.0 { 0.0 } else { x.signum() }, Tensor::sign)),
    op("Sin", 7, |call| function(call, Tensor::sin)),
    op("Sinh", 9, |call| function(call, Tensor::sinh)),
    op("Sqrt", 6, |call| unary_float(call, f32::sqrt, Tensor::sqrt)),
    op("Sub", 7, |call| arithmetic(call, Arithmetic { ints: |a, b| Some(a - b), floats: |a, b| a - b }, |a, b| a - b)),
    op("Sum", 8, |call| {
        let add = Arithmetic { ints: |a, b| Some(a + b), floats: |a, b| a + b };
        fold(call, add, |a, b| a + b)
    }),
    op("Tan", 7, |call| function(call, Tensor::tan)),
    op("Tanh", 6, |call| function(call, Tensor::tanh)),
    op("Where", 9, choose),
    op("Xor", 7, |call| logic(call, |a, b| a != b, Tensor::logical_xor)),
];

fn larger(a: f32, b: f32) -> f32 {
    scalar::max(a.into(), b.into()) as f32
}

fn smaller(a: f32, b: f32) -> f32 {
    scalar::min(a.into(), b.into()) as f32
}

/// A function of a float.
pub(super) fn function(call: &Call<'_>, f: fn(&Tensor) -> Tensor) -> Outputs {
    one(f(&call.float(0)?))
}

/// A function of any number.
fn unary(call: &Call<'_>, ints: fn(i128) -> i128, floats: fn(f32) -> f32, f: fn(&Tensor) -> Tensor) -> Outputs {
    match host::unary(call, ints, floats) {
        Some(host) => one(host),
        None => one(wrapped(call, f(&call.number(0)?))?),
    }
}

/// A function of a float that shapes are computed with.
fn unary_float(call: &Call<'_>, floats: fn(f32) -> f32, f: fn(&Tensor) -> Tensor) -> Outputs {
    match host::unary(call, |value| value, floats) {
        Some(host) if matches!(host.data, HostData::Floats(_)) => one(host),
        _ => function(call, f),
    }
}

/// Two inputs as numbers of one type that broadcast to each other.
fn numbers(call: &Call<'_>, a: usize, b: usize) -> Result<(Tensor, Tensor)> {
    call.pair(call.number(a)?, call.number(b)?)
}

fn arithmetic(call: &Call<'_>, of: Arithmetic, f: fn(&Tensor, &Tensor) -> Tensor) -> Outputs {
    if let Some(host) = host::arithmetic(call, of)? {
        return one(host);
    }
    let (a, b) = numbers(call, 0, 1)?;
    one(wrapped(call, f(&a, &b))?)
}

/// What is computed of integers that are wider here than in the file, in the width of the file.
pub(super) fn wrapped(call: &Call<'_>, result: Tensor) -> Result<Value> {
    use ElementType::{Int8, Int16, Uint8, Uint16};
    match call.element() {
        Some(element @ (Int8 | Int16 | Uint8 | Uint16)) if !result.dtype().is_float() => {
            Ok(cast_to(&result.into(), element.dtype()?, Some(element)))
        }
        _ => Ok(result.into()),
    }
}

/// Any number of inputs, joined from the first on.
fn fold(call: &Call<'_>, of: Arithmetic, f: fn(&Tensor, &Tensor) -> Tensor) -> Outputs {
    if call.inputs.len() == 2 {
        return arithmetic(call, of, f);
    }
    let count = call.values()?.len();
    let mut joined = call.number(0)?;
    for number in 1..count {
        let (a, b) = call.pair(joined, call.number(number)?)?;
        joined = f(&a, &b);
    }
    one(wrapped(call, joined)?)
}

fn mean(call: &Call<'_>) -> Outputs {
    let count = call.values()?.len();
    let mut sum = call.float(0)?;
    for number in 1..count {
        let (a, b) = call.pair(sum, call.float(number)?)?;
        sum = a + b;
    }
    one(sum / count as f64)
}

fn compare(
    call: &Call<'_>,
    ints: fn(&i64, &i64) -> bool,
    floats: fn(&f32, &f32) -> bool,
    f: fn(&Tensor, &Tensor) -> Tensor,
) -> Outputs {
    if let Some(host) = host::comparison(call, ints, floats)? {
        return one(host);
    }
    let (a, b) = call.pair(call.tensor(0)?, call.tensor(1)?)?;
    one(f(&a, &b))
}

fn logic(call: &Call<'_>, bools: fn(bool, bool) -> bool, f: fn(&Tensor, &Tensor) -> Tensor) -> Outputs {
    if let Some((shape, HostData::Bools(a), HostData::Bools(b))) = host::pair(call)? {
        return one(HostTensor::bools(shape, a.into_iter().zip(b).map(|(a, b)| bools(a, b)).collect()));
    }
    let (a, b) = call.pair(call.bool(0)?, call.bool(1)?)?;
    one(f(&a, &b))
}

fn not(call: &Call<'_>) -> Outputs {
    if let Value::Host(HostTensor { shape, data: HostData::Bools(values), .. }) = call.value(0)? {
        return one(HostTensor::bools(shape.clone(), values.iter().map(|value| !value).collect()));
    }
    one(call.bool(0)?.logical_not())
}

/// The other input, if one is a mask of the low 32 bits of integers of 64: a device has no others.
fn low_word(call: &Call<'_>) -> Result<Option<Tensor>> {
    for (mask, other) in [(0, 1), (1, 0)] {
        if let (Value::Host(mask), Value::Tensor(x)) = (call.value(mask)?, call.value(other)?)
            && mask.data == HostData::Ints(vec![u32::MAX.into()])
            && mask.shape.rank() <= x.rank()
            && x.dtype() == DType::I32
        {
            return Ok(Some(x.clone()));
        }
    }
    Ok(None)
}

fn bits(call: &Call<'_>, ints: fn(i64, i64) -> i64, f: fn(&Tensor, &Tensor) -> Tensor) -> Outputs {
    if let Some((shape, HostData::Ints(a), HostData::Ints(b))) = host::pair(call)? {
        let data = HostData::Ints(a.into_iter().zip(b).map(|(a, b)| ints(a, b)).collect());
        return one(HostTensor { shape, data, dtype: call.value(0)?.dtype() });
    }
    let (a, b) = call.pair(call.tensor(0)?, call.tensor(1)?)?;
    if a.dtype().is_float() {
        return fail(format!("is not defined for {}", a.dtype()));
    }
    one(f(&a, &b))
}

fn shift(call: &Call<'_>) -> Outputs {
    let left = match call.text("direction", "")?.as_str() {
        "LEFT" => true,
        "RIGHT" => false,
        other => return fail(format!("direction `{other}` is neither LEFT nor RIGHT")),
    };
    let (a, b) = numbers(call, 0, 1)?;
    if a.dtype().is_float() {
        return fail(format!("is not defined for {}", a.dtype()));
    }
    // a device shifts by the number of bits modulo 32; beyond, nothing but the sign is left
    let inside = b.lt(32).logical_and(&b.ge(0));
    let (shifted, beyond) = match (left, a.dtype()) {
        (true, _) => (a.bitwise_left_shift(&b), a.zeros_like()),
        (false, DType::I32) => (a.bitwise_right_shift(&b), a.bitwise_right_shift(31)),
        (false, _) => (a.bitwise_right_shift(&b), a.zeros_like()),
    };
    let shape = call.broadcast(&[a.shape(), b.shape()])?;
    one(wrapped(call, inside.where_(shifted, beyond.expand(shape)))?)
}

fn is_infinite(call: &Call<'_>) -> Outputs {
    let x = call.float(0)?;
    let both = (call.int("detect_positive", 1)? != 0, call.int("detect_negative", 1)? != 0);
    one(match both {
        (true, true) => x.isinf(),
        (true, false) => x.isposinf(),
        (false, true) => x.isneginf(),
        (false, false) => Tensor::zeros_of(x.shape(), DType::Bool, call.device()),
    })
}

fn modulo(call: &Call<'_>) -> Outputs {
    let with_sign_of_first = call.flag("fmod")?;
    let rest = |a: i64, b: i64| {
        let rest = a.checked_rem(b)?;
        Some(if !with_sign_of_first && rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
    };
    if let Some((shape, HostData::Ints(a), HostData::Ints(b))) = host::pair(call)? {
        return match a.into_iter().zip(b).map(|(a, b)| rest(a, b)).collect() {
            Some(values) => one(HostTensor { shape, data: HostData::Ints(values), dtype: call.value(0)?.dtype() }),
            None => fail("divides by zero"),
        };
    }
    let (a, b) = numbers(call, 0, 1)?;
    one(if with_sign_of_first { a.fmod(&b) } else { a.remainder(&b) })
}

/// In the type of the base. A power of whole numbers is made of products: floats have but 24 bits of it.
fn power(call: &Call<'_>) -> Outputs {
    let same = call.value(0)?.dtype() == call.value(1)?.dtype();
    if same && !call.value(0)?.dtype().is_float() {
        let whole = |a: i128, b: i128| u32::try_from(b).ok().and_then(|b| a.checked_pow(b));
        let floats = |a: f32, b: f32| a.powf(b);
        if let Ok(Some(host)) = host::arithmetic(call, Arithmetic { ints: whole, floats }) {
            return one(host);
        }
    }
    let base = call.number(0)?;
    let is_whole = !base.dtype().is_float();
    if let Value::Host(exponent) = call.value(1)?
        && let [exponent] = exponent.to_f64()[..]
        && (!is_whole || exponent.fract() == 0.0 && (0.0..=f64::from(i32::MAX)).contains(&exponent))
    {
        let shape = call.broadcast(&[base.shape(), call.value(1)?.shape()])?;
        let base = base.expand(shape);
        return one(if is_whole { whole_power(&base, exponent as u32) } else { base.pow(exponent) });
    }
    let float = |tensor: Tensor| if tensor.dtype().is_float() { tensor } else { tensor.to_dtype(DType::F32) };
    let (of, exponent) = call.pair(float(base.clone()), float(call.number(1)?))?;
    let power = of.pow(&exponent);
    if is_whole && !call.value(1)?.dtype().is_float() {
        let shape = call.broadcast(&[base.shape(), exponent.shape()])?;
        let (base, exponent) = (base.expand(shape.clone()), call.index(1)?.expand(shape));
        // of a negative exponent nothing is left but powers of 1
        let fractions = power.round().to_dtype(base.dtype());
        return one(exponent.lt(0).where_(fractions, whole_powers(&base, &exponent)));
    }
    // of another power the fraction is cut off
    one(power.to_dtype(base.dtype()))
}

/// A power of integers by squares, which wraps as products do.
fn whole_power(base: &Tensor, exponent: u32) -> Tensor {
    let (mut power, mut square, mut bits) = (base.ones_like(), base.clone(), exponent);
    while bits > 0 {
        if bits & 1 == 1 {
            power = &power * &square;
        }
        bits >>= 1;
        if bits > 0 {
            square = &square * &square;
        }
    }
    power
}

/// The same with an exponent for each element, which is not negative.
fn whole_powers(base: &Tensor, exponent: &Tensor) -> Tensor {
    let (mut power, mut square) = (base.ones_like(), base.clone());
    for bit in 0..31 {
        let is_set = exponent.bitwise_and(1_i64 << bit).ne(0);
        power = is_set.where_(&power * &square, &power);
        square = &square * &square;
    }
    power
}

fn choose(call: &Call<'_>) -> Outputs {
    if let Some([condition, a, b]) = call.hosts().and_then(|hosts| <[&HostTensor; 3]>::try_from(hosts).ok()) {
        let shape = call.broadcast(&[&condition.shape, &a.shape, &b.shape])?;
        if let HostData::Bools(values) = &condition.data
            && shape.numel() <= super::value::HOST_ELEMENTS
            && std::mem::discriminant(&a.data) == std::mem::discriminant(&b.data)
        {
            let [of_condition, of_a, of_b] = [condition, a, b].map(|host| host::spread(&host.shape, &shape));
            let takes = of_condition.iter().map(|&at| values[at]);
            let data = match (a.data.pick(&of_a), b.data.pick(&of_b)) {
                (HostData::Ints(a), HostData::Ints(b)) => HostData::Ints(either(takes, a, b)),
                (HostData::Floats(a), HostData::Floats(b)) => HostData::Floats(either(takes, a, b)),
                (HostData::Bools(a), HostData::Bools(b)) => HostData::Bools(either(takes, a, b)),
                (a, _) => a,
            };
            return one(HostTensor::new(shape, data, a.dtype));
        }
    }
    let condition = call.bool(0)?;
    let (a, b) = call.pair(call.tensor(1)?, call.tensor(2)?)?;
    call.broadcast(&[condition.shape(), a.shape(), b.shape()])?;
    one(condition.where_(a, b))
}

fn either<T>(takes: impl Iterator<Item = bool>, a: Vec<T>, b: Vec<T>) -> Vec<T> {
    takes.zip(a.into_iter().zip(b)).map(|(first, (a, b))| if first { a } else { b }).collect()
}

fn cast(call: &Call<'_>) -> Outputs {
    let Some(to) = call.int_or_none("to")? else { return fail("has no attribute `to`") };
    let element = ElementType::of(i32::try_from(to).unwrap_or(0))?;
    one(cast_to(call.value(0)?, element.dtype()?, Some(element)))
}

fn cast_like(call: &Call<'_>) -> Outputs {
    let element = call.input_type(1);
    // what was computed of bytes may be wider here
    let dtype = element.map_or(Ok(call.value(1)?.dtype()), ElementType::dtype)?;
    one(cast_to(call.value(0)?, dtype, element))
}

/// In another type. Types that are wider here than in the file wrap around, or saturate from floats, as narrow ones do.
fn cast_to(value: &Value, dtype: DType, element: Option<ElementType>) -> Value {
    let range = element.and_then(ElementType::range);
    let tensor = match value {
        Value::Host(host) => return host::cast(host, dtype, range).into(),
        Value::Tensor(tensor) => tensor,
    };
    match (element, range) {
        (Some(ElementType::Int8 | ElementType::Int16 | ElementType::Uint16), Some((low, high)))
            if tensor.dtype().is_float() =>
        {
            tensor.clamp(low as f64, high as f64).to_dtype(dtype).into()
        }
        (Some(ElementType::Int8 | ElementType::Int16), Some((low, high))) => {
            let wide = tensor.to_dtype(DType::I32);
            ((wide - low).bitwise_and(high - low) + low).into()
        }
        (Some(ElementType::Uint16), Some((_, high))) => tensor.to_dtype(DType::U32).bitwise_and(high).into(),
        _ => tensor.to_dtype(dtype).into(),
    }
}

/// A tensor of any numbers as floats, and what it was.
pub(super) fn as_float(tensor: Tensor) -> Result<(Tensor, DType)> {
    let tensor = as_number(tensor)?;
    let dtype = tensor.dtype();
    Ok(if dtype.is_float() { (tensor, dtype) } else { (tensor.to_dtype(DType::F32), dtype) })
}
