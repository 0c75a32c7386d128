//! Multi-head attention.

use crate::dtype::DType;
use crate::error::Result;
use crate::runtime::Var;
use crate::tensor::{Mask, Tensor};

use super::linear::Linear;
use super::module::Scope;
use super::{Dropout, Init, Initial, Module};

/// Which positions a position may look at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attention {
    /// All of them.
    Full,
    /// Itself and those before it.
    Causal,
}

/// What queries may not see, beyond [`Attention`]; as PyTorch's arguments of the same names.
#[derive(Clone, Copy, Default)]
pub struct AttentionMasks<'a> {
    /// Bool, `[batch, keys]`: true for keys that are padding.
    pub key_padding: Option<&'a Tensor>,
    /// `[queries, keys]`, or anything that broadcasts to `[batch, heads, queries, keys]`: bool, true for what is hidden, or
    /// floats, which are added to the scores.
    pub attn: Option<&'a Tensor>,
}

impl AttentionMasks<'_> {
    /// What is added to the scores, `None` for nothing: minus infinity where hidden.
    #[track_caller]
    fn bias(&self) -> Option<Tensor> {
        let hidden = |mask: &Tensor| mask.where_(f64::NEG_INFINITY, Tensor::zeros(mask.shape(), mask.device()));
        let padding = self.key_padding.map(|mask| {
            assert!(
                mask.dtype() == DType::Bool && mask.rank() == 2,
                "attention: the key padding mask is {} {}, not bool [batch, keys]",
                mask.dtype(),
                mask.shape()
            );
            hidden(mask).unsqueeze(1).unsqueeze(1)
        });
        let scores = self.attn.map(|mask| if mask.dtype() == DType::Bool { hidden(mask) } else { mask.clone() });
        match (padding, scores) {
            (Some(padding), Some(scores)) => Some(padding + scores),
            (padding, scores) => padding.or(scores),
        }
    }
}

/// Multi-head attention (Vaswani et al., arXiv 1706.03762) over `[batch, sequence, width]`, PyTorch's `MultiheadAttention`
/// with `batch_first=True`; keys and first weights are PyTorch's.
///
/// As a [`Module`] it is self-attention.
pub struct MultiheadAttention {
    /// `[3 · width, width]`: queries, keys, values.
    pub in_proj_weight: Var,
    /// `[3 · width]`
    pub in_proj_bias: Var,
    /// From the joined heads back to the width.
    pub out_proj: Linear,
    heads: usize,
    attention: Attention,
    dropout: Dropout,
    scope: Scope,
}

impl MultiheadAttention {
    /// Attention with `heads` heads of `width / heads` values each.
    #[track_caller]
    pub fn new(width: usize, heads: usize, attention: Attention, init: &Init) -> Result<Self> {
        let divides = heads > 0 && width.is_multiple_of(heads);
        assert!(divides, "attention: a width of {width} does not divide into {heads} heads");
        let initial = Initial::xavier_uniform(width, 3 * width);
        Ok(Self {
            in_proj_weight: init.parameter("in_proj_weight", [3 * width, width], initial)?,
            in_proj_bias: init.parameter("in_proj_bias", 3 * width, Initial::Constant(0.0))?,
            out_proj: Linear::with_bias(width, width, Initial::Constant(0.0), &init.at("out_proj"))?,
            heads,
            attention,
            dropout: Dropout::new(0.0),
            scope: Scope::new(init.path()),
        })
    }

    /// With this probability of dropping a weight of the attention (0 unless set).
    #[must_use]
    pub fn dropout(mut self, probability: f64) -> Self {
        self.dropout = Dropout::new(probability);
        self
    }

    /// What each query reads from `value` where `key` answers it: `[batch, queries, width]`, `[batch, keys, width]` twice →
    /// `[batch, queries, width]`. A query from which all keys are hidden gives NaN, as in PyTorch.
    #[track_caller]
    pub fn attend(&self, query: &Tensor, key: &Tensor, value: &Tensor, masks: AttentionMasks<'_>) -> Tensor {
        let mixed = self.scope.run(|| {
            let [query, key, value] = self.project(query, key, value);
            let bias = masks.bias();
            if let (Attention::Full, false) = (self.attention, self.drops()) {
                let mask = bias.as_ref().map_or(Mask::None, Mask::Added);
                return joined(&query.scaled_dot_product_attention(&key, &value, mask));
            }
            if let (None, false) = (&bias, self.drops()) {
                return joined(&query.scaled_dot_product_attention(&key, &value, Mask::Causal));
            }
            joined(&self.dropout.forward(&self.weights(&query, &key, bias)).matmul(&value))
        });
        self.out_proj.forward(&mixed)
    }

    /// [`MultiheadAttention::attend`], and what each query gives each key: `[batch, queries, keys]`, the mean over all heads,
    /// or `[batch, heads, queries, keys]` if not `averaged`.
    #[track_caller]
    pub fn attend_with_weights(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        masks: AttentionMasks<'_>,
        averaged: bool,
    ) -> (Tensor, Tensor) {
        let (mixed, weights) = self.scope.run(|| {
            let [query, key, value] = self.project(query, key, value);
            let weights = self.dropout.forward(&self.weights(&query, &key, masks.bias()));
            let mixed = joined(&weights.matmul(&value));
            (mixed, if averaged { weights.mean_dim(1) } else { weights })
        });
        (self.out_proj.forward(&mixed), weights)
    }

    /// Self-attention of one new position, `[batch, 1, width]`, which is number `position` (i32, `[]`), to those before it in
    /// `cache`; its key and value are added there.
    #[track_caller]
    pub fn attend_next(&self, input: &Tensor, position: &Tensor, cache: &KeyValueCache) -> Tensor {
        let mixed = self.scope.run(|| {
            let [query, key, value] = self.project(input, input, input);
            let places = Tensor::iota(cache.keys.shape(), 2, input.device());
            let here = places.eq(position);
            let keys = here.where_(key, cache.keys.tensor());
            let values = here.where_(value, cache.values.tensor());
            cache.keys.assign(&keys);
            cache.values.assign(&values);
            let seen = Tensor::arange(keys.size(2), input.device()).le(position);
            joined(&query.scaled_dot_product_attention(&keys, &values, Mask::Allowed(&seen)))
        });
        self.out_proj.forward(&mixed)
    }

    /// Room for the keys and values of `sequence` positions.
    pub fn cache(&self, batch: usize, sequence: usize, init: &Init) -> Result<KeyValueCache> {
        let width = self.out_proj.weight.shape()[0];
        let shape = [batch, self.heads, sequence, width / self.heads];
        let make = |name| init.buffer(name, shape, Initial::Constant(0.0));
        Ok(KeyValueCache { keys: make("keys")?, values: make("values")? })
    }

    fn drops(&self) -> bool {
        self.dropout.is_active()
    }

    /// Queries, keys and values, `[batch, heads, sequence, width / heads]`.
    #[track_caller]
    fn project(&self, query: &Tensor, key: &Tensor, value: &Tensor) -> [Tensor; 3] {
        let width = self.out_proj.weight.shape()[0];
        for input in [query, key, value] {
            let fits = input.rank() == 3 && input.size(2) == width;
            assert!(fits, "attention: input {} is not [batch, sequence, {width}]", input.shape());
        }
        let (weight, bias) = (self.in_proj_weight.tensor(), self.in_proj_bias.tensor());
        // parts `first` to `first + count` of the projection of one input, by one product
        let parts = |input: &Tensor, first: usize, count: usize| -> Vec<Tensor> {
            let (weight, bias) =
                (weight.narrow(0, first * width, count * width), bias.narrow(0, first * width, count * width));
            let split = input
                .linear(&weight, Some(&bias))
                .reshape([input.size(0), input.size(1), count, self.heads, width / self.heads])
                .permute([2, 0, 3, 1, 4]);
            (0..count).map(|part| split.select(0, part)).collect()
        };
        let same = |a: &Tensor, b: &Tensor| a.node().id == b.node().id;
        let all = match (same(query, key), same(key, value)) {
            (true, true) => parts(query, 0, 3),
            (false, true) => [parts(query, 0, 1), parts(key, 1, 2)].concat(),
            _ => [parts(query, 0, 1), parts(key, 1, 1), parts(value, 2, 1)].concat(),
        };
        all.try_into().unwrap_or_else(|_| unreachable!("three parts"))
    }

    /// `softmax(q kᵀ / √features + bias)`, `[batch, heads, queries, keys]`.
    #[track_caller]
    fn weights(&self, query: &Tensor, key: &Tensor, bias: Option<Tensor>) -> Tensor {
        let scores = (query * (1.0 / (query.size(-1) as f64).sqrt())).matmul(&key.transpose(-2, -1));
        let scores = match bias {
            Some(bias) => scores + bias,
            None => scores,
        };
        let scores = match self.attention {
            Attention::Full => scores,
            Attention::Causal => {
                let (queries, keys) = (scores.size(-2), scores.size(-1));
                let device = scores.device();
                let row = Tensor::iota([queries, keys], 0, device) + (keys as i64 - queries as i64);
                Tensor::iota([queries, keys], 1, device).le(row).where_(scores, f64::NEG_INFINITY)
            }
        };
        scores.softmax(-1)
    }
}

/// `[batch, heads, sequence, features]` → `[batch, sequence, heads · features]`.
#[track_caller]
fn joined(heads: &Tensor) -> Tensor {
    heads.permute([0, 2, 1, 3]).flatten(2, 3)
}

impl Module for MultiheadAttention {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        self.attend(input, input, input, AttentionMasks::default())
    }

    fn visit(&self, visitor: &mut dyn FnMut(&Var)) {
        visitor(&self.in_proj_weight);
        visitor(&self.in_proj_bias);
        self.out_proj.visit(visitor);
    }
}

/// The keys and values of the positions so far, for [`MultiheadAttention::attend_next`].
pub struct KeyValueCache {
    /// `[batch, heads, sequence, width / heads]`
    pub keys: Var,
    /// `[batch, heads, sequence, width / heads]`
    pub values: Var,
}
