//! Attention as one op: the scores of queries and keys are never in memory as a whole, neither forward nor backward
//! (FlashAttention, Dao et al. 2022, arXiv 2205.14135).
//!
//! What its kernels lack, such as masks made of data, is composed of other ops (`tensor/attention.rs`), and so is the
//! gradient of its gradient.

use std::ops::RangeInclusive;

use crate::dtype::DType;
use crate::graph::{Attention, AttentionPart, NodeRef, Op};
use crate::tensor::Tensor;

/// Elements of a row of queries, keys or values: workgroups that have 32 KiB have memory for tiles of so many.
pub(crate) const FEATURES: RangeInclusive<usize> = 1..=64;
/// Queries of a head: few of them would leave most of a GPU idle; loops may not be longer than drivers run them.
pub(crate) const QUERIES: RangeInclusive<usize> = 16..=32_768;
/// Keys of a head.
pub(crate) const KEYS: RangeInclusive<usize> = 1..=32_768;

impl Attention {
    /// Numbers of elements of the queries, the keys, the values and the outputs.
    pub(crate) fn elements(&self) -> [usize; 4] {
        let &Self { heads, queries, keys, features, outputs, .. } = self;
        [queries * features, keys * features, keys * outputs, queries * outputs].map(|elements| heads * elements)
    }

    /// Elements that a part writes.
    pub(crate) fn written(&self) -> usize {
        let [queries, keys, values, outputs] = self.elements();
        match self.part {
            AttentionPart::Forward => outputs + self.heads * self.queries,
            AttentionPart::Queries => queries,
            AttentionPart::KeysAndValues => keys + values,
        }
    }

    /// How many keys, from the first on, query `query` sees.
    pub(crate) fn seen(&self, query: usize) -> usize {
        if self.causal { query + 1 + self.keys - self.queries } else { self.keys }
    }

    /// Pairs of a query and a key that it sees.
    fn pairs(&self) -> u64 {
        let of_head =
            if self.causal { self.queries * (self.seen(0) + self.keys) / 2 } else { self.queries * self.keys };
        (self.heads * of_head) as u64
    }

    /// Multiplications and additions of a part.
    pub(crate) fn flops(&self) -> u64 {
        let (features, outputs) = (self.features as u64, self.outputs as u64);
        let of_pair = match self.part {
            AttentionPart::Forward => features + outputs,
            AttentionPart::Queries => 2 * features + outputs,
            AttentionPart::KeysAndValues => 2 * features + 2 * outputs,
        };
        2 * of_pair * self.pairs()
    }

    fn with(&self, part: AttentionPart) -> Op {
        Op::Attention(Self { part, ..self.clone() })
    }
}

/// `scores` with minus infinity for keys behind a query, the last query at the last key.
#[track_caller]
pub(crate) fn hide_later(scores: &Tensor) -> Tensor {
    let (queries, keys) = (scores.size(-2), scores.size(-1));
    let row = Tensor::iota([queries, keys], 0, scores.device());
    let column = Tensor::iota([queries, keys], 1, scores.device());
    let last = keys as i64 - queries as i64;
    column.le(row + last).where_(scores, f64::NEG_INFINITY)
}

/// Gradients of all parts.
pub(crate) fn gradient(attention: &Attention, node: &NodeRef, gradient: &Tensor) -> Vec<Option<Tensor>> {
    let inputs: Vec<Tensor> = node.inputs.iter().cloned().map(Tensor::from_node).collect();
    let [query, key, value] = [0, 1, 2].map(|number| &inputs[number]);
    if attention.part != AttentionPart::Forward {
        return second_gradient(attention, &inputs, gradient);
    }
    let saved = Tensor::from_node(node.clone());
    let [.., outputs] = attention.elements();
    // nobody but these gradients reads what follows the outputs
    let gradient = gradient.narrow(0, 0, outputs);
    let part = |part: AttentionPart, shape: crate::Shape| {
        Tensor::apply(attention.with(part), &[query, key, value, &saved, &gradient], shape, DType::F32)
    };
    let by_query = part(AttentionPart::Queries, query.shape().clone());
    let numbers = [key, value].map(Tensor::numel);
    let by_both = part(AttentionPart::KeysAndValues, [numbers[0] + numbers[1]].into());
    let by_key = by_both.narrow(0, 0, numbers[0]).reshape(key.shape());
    let by_value = by_both.narrow(0, numbers[0], numbers[1]).reshape(value.shape());
    vec![Some(by_query), Some(by_key), Some(by_value)]
}

/// Gradients of the gradient's parts, by (queries, keys, values, nothing, the outputs' gradient), from ops that have
/// all of theirs.
fn second_gradient(attention: &Attention, inputs: &[Tensor], gradient: &Tensor) -> Vec<Option<Tensor>> {
    let [query, key, value, _, slope] = inputs else { unreachable!("a gradient of attention has five inputs") };
    let scale = attention.scale.to_f64();
    let &Attention { heads, queries, keys, features, outputs, causal, .. } = attention;
    let [q, k, v, g] = [
        query.reshape([heads, queries, features]),
        key.reshape([heads, keys, features]),
        value.reshape([heads, keys, outputs]),
        slope.reshape([heads, queries, outputs]),
    ];
    let scores = (&q * scale).matmul(&k.transpose(-2, -1));
    let weights = if causal { hide_later(&scores) } else { scores }.softmax(-1);
    let slopes = g.matmul(&v.transpose(-2, -1));
    let of_scores = &weights * (&slopes - (&weights * &slopes).sum_keepdim(-1));
    let value_of = match attention.part {
        AttentionPart::Queries => (of_scores.matmul(&k) * scale).reshape(query.shape()),
        _ => {
            let by_key = of_scores.transpose(-2, -1).matmul(&q) * scale;
            let by_value = weights.transpose(-2, -1).matmul(&g);
            Tensor::cat(&[&by_key.flatten(0, -1), &by_value.flatten(0, -1)], 0)
        }
    };
    let wrt = [query, key, value, slope];
    let mut gradients = crate::autodiff::pull_back(&value_of, gradient, &wrt).into_iter().map(Some);
    // what the forward part yields is a function of the first three
    let first: Vec<Option<Tensor>> = gradients.by_ref().take(3).collect();
    first.into_iter().chain([None]).chain(gradients).collect()
}

/// Each part, as its formula says it.
pub(crate) fn reference(attention: &Attention, inputs: &[&[f64]]) -> Vec<f64> {
    let &Attention { heads, queries, keys, features, outputs, part, .. } = attention;
    let scale = attention.scale.to_f64();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let add = |sum: &mut [f64], factor: f64, row: &[f64]| sum.iter_mut().zip(row).for_each(|(s, x)| *s += factor * x);
    let row = |input: usize, number: usize, width: usize| &inputs[input][number * width..][..width];
    let mut written = vec![0.0; attention.written()];
    let [query_elements, key_elements, _, output_elements] = attention.elements();
    debug_assert_eq!(inputs[0].len(), query_elements, "queries");
    for query in 0..heads * queries {
        let first_key = query / queries * keys;
        let seen = first_key..first_key + attention.seen(query % queries);
        let q = row(0, query, features);
        let scores: Vec<f64> = seen.clone().map(|key| scale * dot(q, row(1, key, features))).collect();
        let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = scores.iter().map(|score| (score - top).exp()).sum();
        let weights: Vec<f64> = scores.iter().map(|score| (score - top).exp() / sum).collect();
        if part == AttentionPart::Forward {
            let (out, logs) = written.split_at_mut(output_elements);
            for (key, &weight) in seen.zip(&weights) {
                add(&mut out[query * outputs..][..outputs], weight, row(2, key, outputs));
            }
            logs[query] = top + sum.ln();
            continue;
        }
        let g = row(4, query, outputs);
        let slopes: Vec<f64> = seen.clone().map(|key| dot(g, row(2, key, outputs))).collect();
        let mean = dot(&weights, &slopes);
        for ((key, &weight), &slope) in seen.zip(&weights).zip(&slopes) {
            let of_score = scale * weight * (slope - mean);
            if part == AttentionPart::Queries {
                add(&mut written[query * features..][..features], of_score, row(1, key, features));
            } else {
                let (by_key, by_value) = written.split_at_mut(key_elements);
                add(&mut by_key[key * features..][..features], of_score, q);
                add(&mut by_value[key * outputs..][..outputs], weight, g);
            }
        }
    }
    written
}
