//! Attention, and positions as rotations.

use crate::dtype::DType;
use crate::error::Result;
use crate::tensor::{Mask, Tensor};

use super::call::{Call, Outputs, fail, one};
use super::checks::alike;
use super::contract::product;
use super::table::{Operator, microsoft, op};

pub(super) const OPERATORS: &[Operator] = &[
    op("Attention", 23, attention),
    op("RotaryEmbedding", 23, |call| rotary(call, [1, 2, 3])),
    microsoft("RotaryEmbedding", |call| rotary(call, [2, 3, 1])),
];

/// `[batch, length, heads · features]` or `[batch, heads, length, features]` as the latter.
fn heads(call: &Call<'_>, number: usize, name: &str) -> Result<Tensor> {
    let x = call.float(number)?;
    match *x.shape().dims() {
        [_, _, _, _] => Ok(x),
        [batch, length, features] => {
            let heads = call.int(name, 0)?;
            match usize::try_from(heads).ok().filter(|&heads| heads > 0 && features.is_multiple_of(heads)) {
                Some(heads) => Ok(x.reshape([batch, length, heads, features / heads]).transpose(1, 2)),
                None => fail(format!("{} in {heads} heads", x.shape())),
            }
        }
        _ => fail(format!("input {number} is {}, not of 3 or 4 axes", x.shape())),
    }
}

/// Keys or values that came before, and these.
fn with_past(call: &Call<'_>, x: Tensor, number: usize) -> Result<Tensor> {
    let Some(past) = call.optional_float(number)? else { return Ok(x) };
    let (past, x) = alike(past, x)?;
    let fits = past.rank() == 4 && past.shape()[..2] == x.shape()[..2] && past.shape()[3] == x.shape()[3];
    if !fits {
        return fail(format!("past {} before {}", past.shape(), x.shape()));
    }
    let length = past.shape()[2].saturating_add(x.shape()[2]);
    call.shape(&[&x.shape()[..2], &[length, x.shape()[3]]].concat())?;
    Ok(Tensor::cat(&[&past, &x], 2))
}

fn attention(call: &Call<'_>) -> Outputs {
    let is_flat = call.value(0)?.shape().rank() == 3;
    let query = heads(call, 0, "q_num_heads")?;
    let key = with_past(call, heads(call, 1, "kv_num_heads")?, 4)?;
    let value = with_past(call, heads(call, 2, "kv_num_heads")?, 5)?;
    let (query, key) = alike(query, key)?;
    let (key, value) = alike(key, value)?;
    let ([batch, groups, keys, features], [count, queries]) =
        ([0, 1, 2, 3].map(|axis| key.shape()[axis]), [1, 2].map(|axis| query.shape()[axis]));
    let fits = query.shape()[0] == batch
        && query.shape()[3] == features
        && value.shape()[..3] == key.shape()[..3]
        && groups > 0
        && count.is_multiple_of(groups)
        && keys > 0
        && queries > 0
        && features > 0;
    if !fits {
        return fail(format!("queries {}, keys {}, values {}", query.shape(), key.shape(), value.shape()));
    }
    call.shape(&[batch, count, queries, keys])?;
    call.shape(&[batch, count, keys, features.max(value.shape()[3])])?;
    let scale = call.number_attribute("scale", 1.0 / (features as f64).sqrt())?;
    let (causal, softcap) = (call.flag("is_causal")?, call.number_attribute("softcap", 0.0)?);
    let is_plain = softcap == 0.0
        && call.given(3).is_none()
        && call.given(6).is_none()
        && !call.wants(3)
        && (!causal || queries == keys)
        && window(call)? == (None, None);
    let (output, scores) = if is_plain {
        let mask = if causal { Mask::Causal } else { Mask::None };
        (query.grouped_query_attention(&key, &value, mask, Some(scale)), None)
    } else {
        let (output, scores) = composed(call, [&query, &key, &value], scale, softcap)?;
        (output, Some(scores))
    };
    let output = if is_flat {
        let width = count * output.shape()[3];
        output.transpose(1, 2).reshape([batch, queries, width])
    } else {
        output
    };
    let mut outputs = vec![output.into(), key.into(), value.into()];
    outputs.extend(scores.map(Into::into));
    Ok(outputs)
}

/// How many keys before and after its own position a query sees, where that is limited.
fn window(call: &Call<'_>) -> Result<(Option<i64>, Option<i64>)> {
    let limit = |name: &str| -> Result<Option<i64>> {
        let limit = call.int(name, -1)?;
        Ok((limit >= 0).then_some(limit.min(1 << 30)))
    };
    Ok((limit("left_window_size")?, limit("right_window_size")?))
}

/// The same in steps, and the scores that the node asks for.
fn composed(call: &Call<'_>, [query, key, value]: [&Tensor; 3], scale: f64, softcap: f64) -> Result<(Tensor, Tensor)> {
    let [count, queries, groups, keys] = [query.shape()[1], query.shape()[2], key.shape()[1], key.shape()[2]];
    let [key, value] = [key, value].map(|x| x.repeat_interleave(count / groups, 1));
    let raw = product(call, query * scale, key.transpose(-2, -1))?;
    let capped = if softcap > 0.0 { (&raw / softcap).tanh() * softcap } else { raw.clone() };
    let mut bias: Option<Tensor> = None;
    let mut hide = |more: Tensor| -> Result<()> {
        bias = Some(match bias.take() {
            None => more,
            Some(bias) => {
                let (bias, more) = call.pair(bias, more)?;
                bias + more
            }
        });
        Ok(())
    };
    let hidden = |allowed: &Tensor| {
        allowed.where_(Tensor::zeros([], call.device()), Tensor::full([], f32::NEG_INFINITY, call.device()))
    };
    if let Some(mask) = call.optional_tensor(3)? {
        let mask = match mask.dtype() {
            DType::Bool => hidden(&mask),
            dtype if dtype.is_float() => mask.to_dtype(DType::F32),
            other => return fail(format!("its mask is {other}")),
        };
        // a number is one for all keys
        let mask = if mask.rank() == 0 { mask.reshape([1]) } else { mask };
        // keys that the mask does not know are hidden
        let (last, known) = (mask.rank() - 1, mask.shape()[mask.rank() - 1]);
        if known < keys && known != 1 {
            call.shape(&[&mask.shape()[..last], &[keys]].concat())?;
            let mut widths = vec![(0, 0); mask.rank()];
            widths[last] = (0, (keys - known).cast_signed());
            hide(mask.pad(&widths, f64::NEG_INFINITY))?;
        } else {
            hide(mask)?;
        }
    }
    // how many keys are there of each sample
    let lengths = call.given(6).map(|_| call.index(6)).transpose()?;
    if let Some(lengths) = &lengths
        && *lengths.shape() != [query.shape()[0]].into()
    {
        return fail(format!("numbers of keys are of shape {}", lengths.shape()));
    }
    let place = |axis: usize| Tensor::iota([queries, keys], axis, call.device());
    let lengths = lengths.map(|lengths| lengths.reshape([query.shape()[0], 1, 1, 1]));
    let past = call.given(4).map_or(0, |past| past.shape()[2]) as i64;
    // the key at each query's own position
    let own = match &lengths {
        Some(lengths) if call.given(4).is_none() => lengths - queries as i64 + place(0),
        _ => place(0) + past,
    };
    if call.flag("is_causal")? {
        hide(hidden(&place(1).le(&own)))?;
    }
    let (before, after) = window(call)?;
    if let Some(before) = before {
        hide(hidden(&(&own - place(1)).le(before)))?;
    }
    if let Some(after) = after {
        hide(hidden(&(place(1) - &own).le(after)))?;
    }
    if let Some(lengths) = &lengths {
        hide(hidden(&place(1).lt(lengths)))?;
    }
    let (biased, none) = match bias {
        None => (capped.clone(), None),
        Some(bias) => {
            if call.broadcast(&[capped.shape(), bias.shape()])? != *capped.shape() {
                return fail(format!("a mask of shape {} for scores {}", bias.shape(), capped.shape()));
            }
            let none = bias.max_keepdim(-1).eq(f64::NEG_INFINITY);
            ((&capped + bias.to_dtype(capped.dtype())), Some(none))
        }
    };
    let weights = biased.softmax(-1).to_dtype(value.dtype());
    // of a query that sees nothing
    let weights = match none {
        Some(none) => none.where_(weights.zeros_like(), &weights),
        None => weights,
    };
    let output = product(call, weights.clone(), value)?;
    let scores = match call.int("qk_matmul_output_mode", 0)? {
        0 => raw,
        1 => capped,
        2 => biased,
        3 => weights,
        other => return fail(format!("qk_matmul_output_mode {other} is not known")),
    };
    Ok((output, scores))
}

/// Pairs of features turned by angles that grow with the position; the inputs' numbers are those of cosines, sines and
/// positions.
fn rotary(call: &Call<'_>, [cosines, sines, positions]: [usize; 3]) -> Outputs {
    let x = call.float(0)?;
    let is_flat = x.rank() == 3;
    let turned = match *x.shape().dims() {
        [_, _, _, _] => x.transpose(1, 2),
        [batch, length, features] => {
            let table = call.value(cosines)?.shape().last().copied().unwrap_or(0).saturating_mul(2).max(1);
            // without a number of heads, all features of a head are turned
            let heads = match call.int("num_heads", 0)? {
                0 => features / table,
                heads => usize::try_from(heads).unwrap_or(0),
            };
            if heads == 0 || !features.is_multiple_of(heads) {
                return fail(format!("{} in {heads} heads", x.shape()));
            }
            x.reshape([batch, length, heads, features / heads])
        }
        _ => return fail(format!("{} is not of 3 or 4 axes", x.shape())),
    };
    let [batch, length, features] = [0, 1, 3].map(|axis| turned.shape()[axis]);
    let width = match call.int("rotary_embedding_dim", 0)? {
        0 => features,
        width => usize::try_from(width).unwrap_or(usize::MAX),
    };
    if width > features || !width.is_multiple_of(2) || width == 0 {
        return fail(format!("{width} of {features} features"));
    }
    let half = width / 2;
    let table = |number: usize| -> Result<Tensor> {
        let table = call.float(number)?.to_dtype(x.dtype());
        let table = match call.given(positions) {
            Some(place) if table.rank() == 2 => {
                let place = match (place.shape().numel(), place.shape().dims()) {
                    // of the first one, in ONNX Runtime
                    (1, _) => call.index(positions)?.reshape([1, 1]) + Tensor::iota([1, length], 1, call.device()),
                    (_, [_, _]) => call.index(positions)?,
                    _ => return fail(format!("positions {}", place.shape())),
                };
                if table.shape()[0] == 0 {
                    return fail(format!("a table of shape {}", table.shape()));
                }
                table.index_select(0, &place)
            }
            _ => table,
        };
        let fits = table.rank() == 3
            && call.broadcast(&[table.shape(), &[batch, length, half].into()])? == [batch, length, half].into();
        if !fits {
            return fail(format!("a table of shape {} for {}", table.shape(), turned.shape()));
        }
        Ok(table.unsqueeze(2))
    };
    let (cosine, sine) = (table(cosines)?, table(sines)?);
    let part = turned.narrow(-1, 0, width);
    let interleaved = call.flag("interleaved")?;
    let (first, second) = if interleaved {
        (part.slice_step(-1, .., 2), part.slice_step(-1, 1.., 2))
    } else {
        (part.narrow(-1, 0, half), part.narrow(-1, half, half))
    };
    let real = &cosine * &first - &sine * &second;
    let imaginary = sine * first + cosine * second;
    let part = if interleaved {
        Tensor::stack(&[&real, &imaginary], -1).reshape(part.shape())
    } else {
        Tensor::cat(&[&real, &imaginary], -1)
    };
    let whole = Tensor::cat(&[&part, &turned.narrow(-1, width, features - width)], -1);
    one(if is_flat { whole.reshape(x.shape()) } else { whole.transpose(1, 2) })
}
