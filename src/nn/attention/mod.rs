//! Multi-head attention.

mod masks;
mod projection;

use crate::dtype::DType;
use crate::error::Result;
use crate::graph::refuse;
use crate::ops::elementwise::broadcast;
use crate::ops::ok;
use crate::runtime::Var;
use crate::tensor::{Mask, Tensor};
use crate::variables;

use super::linear::Linear;
use super::module::Scope;
use super::{Dropout, Init, Initial, Module};

pub use masks::{Attention, AttentionMasks};
use masks::{causal, only};
pub use projection::InProjection;

/// Options of [`MultiheadAttention`]: PyTorch's arguments, and which positions it may attend to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AttentionOptions {
    /// Values per position of queries and outputs: `embed_dim`.
    pub width: usize,
    /// Heads, of `width / heads` values each: `num_heads`.
    pub heads: usize,
    /// What a position may look at.
    pub attention: Attention,
    /// Values per position of keys, if not the width: `kdim`.
    pub key_width: Option<usize>,
    /// Values per position of values, if not the width: `vdim`.
    pub value_width: Option<usize>,
    /// Whether projections have biases.
    pub bias: bool,
    /// A learned key and value behind those of the input: `add_bias_kv`.
    pub bias_key_value: bool,
    /// A key and value of zeros behind all others: `add_zero_attn`.
    pub zero_key_value: bool,
    /// Probability of dropping a weight of the attention.
    pub dropout: f64,
}

impl AttentionOptions {
    /// PyTorch's defaults.
    pub fn new(width: usize, heads: usize) -> Self {
        Self {
            width,
            heads,
            attention: Attention::Full,
            key_width: None,
            value_width: None,
            bias: true,
            bias_key_value: false,
            zero_key_value: false,
            dropout: 0.0,
        }
    }

    /// Keys and values that are appended to those of the input.
    fn appended(&self) -> usize {
        usize::from(self.bias_key_value) + usize::from(self.zero_key_value)
    }
}

/// Multi-head attention (Vaswani et al., arXiv 1706.03762) over `[batch, sequence, width]`, PyTorch's
/// `MultiheadAttention` with `batch_first=True`; keys and first weights are PyTorch's.
///
/// As a [`Module`] it is self-attention.
///
/// ```
/// use brasa::nn::{Attention, Init, Module, MultiheadAttention};
/// use brasa::{Device, Tensor};
///
/// let device = Device::cpu();
/// let attention = MultiheadAttention::new(32, 4, Attention::Full, &Init::new(&device, 0))?;
/// let words = Tensor::randn([2, 9, 32], &device);
/// assert_eq!(attention.forward(&words).shape().dims(), [2, 9, 32]);
/// # Ok::<(), brasa::Error>(())
/// ```
#[derive(Debug)]
pub struct MultiheadAttention {
    /// Of queries, keys and values.
    pub in_projection: InProjection,
    /// `[1, 1, width]`: the key and the value that `bias_key_value` appends.
    pub bias_key_value: Option<[Var; 2]>,
    /// From the joined heads back to the width.
    pub out_proj: Linear,
    options: AttentionOptions,
    scope: Scope,
}

impl MultiheadAttention {
    /// Attention with `heads` heads of `width / heads` values each.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    #[track_caller]
    pub fn new(width: usize, heads: usize, attention: Attention, init: &Init) -> Result<Self> {
        Self::with(AttentionOptions { attention, ..AttentionOptions::new(width, heads) }, init)
    }

    /// Attention with these options.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    #[track_caller]
    pub fn with(options: AttentionOptions, init: &Init) -> Result<Self> {
        let AttentionOptions { width, heads, .. } = options;
        Dropout::new(options.dropout);
        let divides = heads > 0 && width.is_multiple_of(heads);
        assert!(divides, "attention: a width of {width} does not divide into {heads} heads");
        let appended = |name| init.parameter(name, [1, 1, width], Initial::xavier_normal(width, width));
        let bias = options.bias.then_some(Initial::Constant(0.0));
        let initial = Initial::pytorch_default(width);
        Ok(Self {
            in_projection: InProjection::new(&options, init)?,
            bias_key_value: if options.bias_key_value {
                Some([appended("bias_k")?, appended("bias_v")?])
            } else {
                None
            },
            out_proj: Linear::with_initial(width, width, initial, bias, &init.at("out_proj"))?,
            options,
            scope: Scope::new("MultiheadAttention", init.path()),
        })
    }

    /// With this probability of dropping a weight of the attention (0 unless set).
    #[track_caller]
    #[must_use]
    pub fn dropout(mut self, probability: f64) -> Self {
        Dropout::new(probability);
        self.options.dropout = probability;
        self
    }

    /// What each query reads from `value` where `key` answers it: `[batch, queries, width]`, `[batch, keys, key
    /// width]`, `[batch, keys, value width]` → `[batch, queries, width]`. A query from which all keys are hidden gives
    /// all of them the weight 0 (PyTorch: NaN if it is asked for the weights).
    #[track_caller]
    pub fn attend(&self, query: &Tensor, key: &Tensor, value: &Tensor, masks: AttentionMasks<'_>) -> Tensor {
        let mixed = self.mixed(query, key, value, masks);
        self.out_proj.forward(&mixed)
    }

    #[track_caller]
    fn mixed(&self, query: &Tensor, key: &Tensor, value: &Tensor, masks: AttentionMasks<'_>) -> Tensor {
        let _scope = self.scope.enter();
        let [query, key, value] = self.project(query, key, value);
        if self.dropout_now().is_active() {
            let bias = self.bias(&query, &key, masks);
            return joined(&self.dropout_now().forward(&weights(&query, &key, bias)).matmul(&value));
        }
        let is_plain = masks.is_empty() && self.options.appended() == 0;
        if is_plain && self.options.attention == Attention::Causal {
            return joined(&query.scaled_dot_product_attention(&key, &value, Mask::Causal));
        }
        let bias = self.bias(&query, &key, masks);
        let mask = bias.as_ref().map_or(Mask::None, Mask::Added);
        joined(&query.scaled_dot_product_attention(&key, &value, mask))
    }

    /// [`MultiheadAttention::attend`], and what each query gives each key: `[batch, queries, keys]`, the mean over all
    /// heads, or `[batch, heads, queries, keys]` if not `averaged`; keys that were appended come last.
    #[track_caller]
    pub fn attend_with_weights(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        masks: AttentionMasks<'_>,
        averaged: bool,
    ) -> (Tensor, Tensor) {
        let (mixed, weights) = {
            let _scope = self.scope.enter();
            let [query, key, value] = self.project(query, key, value);
            let bias = self.bias(&query, &key, masks);
            let weights = self.dropout_now().forward(&weights(&query, &key, bias));
            let mixed = joined(&weights.matmul(&value));
            (mixed, if averaged { weights.mean_dim(1) } else { weights })
        };
        (self.out_proj.forward(&mixed), weights)
    }

    /// Self-attention of new positions, `[batch, new, width]`, of which the first is number `position` (i32, `[]`), to
    /// those before them in `cache` and among themselves, always causal; their keys and values are added there. With room
    /// for `keys` positions in the cache, masks are `[batch, keys]` for padding and `[new, keys]`. No weight of the
    /// attention is dropped.
    ///
    /// Positions beyond the room of the cache are an error of the device, as an index beyond a table's rows is.
    ///
    /// # Panics
    /// If keys and values are appended to those of the input, the cache is of another batch, or there are no new
    /// positions or more than it has room for.
    #[track_caller]
    pub fn attend_next(
        &self,
        input: &Tensor,
        position: &Tensor,
        cache: &KeyValueCache,
        masks: AttentionMasks<'_>,
    ) -> Tensor {
        let mixed = {
            let _scope = self.scope.enter();
            self.check_cache(input, cache);
            let (new, room) = (input.size(1), cache.keys.shape()[2]);
            if new == 0 || new > room {
                refuse(format_args!("attention: {new} new positions, but a cache for {room}"));
            }
            let position = &position.checked_index("attend_next", room - new + 1);
            let [query, key, value] = self.project(input, input, input);
            let place = Tensor::arange(room, input.device());
            // of the new positions the one that lies in a place
            let number = &place - position;
            let here = number.ge(0).logical_and(&number.lt(new as i32)).unsqueeze(-1);
            let add = |all: &Var, own: &Tensor| {
                let own = if new == 1 { own } else { &own.index_select(2, &number.clamp(0, new as i32 - 1)) };
                let all_now = here.where_(own, all.tensor());
                all.assign(&all_now);
                all_now
            };
            let (keys, values) = (add(&cache.keys, &key), add(&cache.values, &value));
            let seen = place.le((Tensor::arange(new, input.device()) + position).unsqueeze(-1));
            self.read(&query, &keys, &values, Some(&seen), masks)
        };
        self.out_proj.forward(&mixed)
    }

    /// Keeps in `cache` the keys and values of `memory`, `[batch, sequence, width]`, such as an encoder's output (of which
    /// `key_width` and `value_width` are the width, if they are set): all that [`MultiheadAttention::attend_memory`] needs
    /// of it, however often it is asked.
    ///
    /// # Panics
    /// If keys and values are appended to those of the input, or the cache has another shape.
    #[track_caller]
    pub fn remember(&self, memory: &Tensor, cache: &KeyValueCache) {
        let _scope = self.scope.enter();
        self.check_cache(memory, cache);
        let [keys, values] = self.in_projection.keys_and_values(&self.options, memory, memory);
        // which autocast may have made halves
        cache.keys.assign(&keys.to_dtype(cache.keys.dtype()));
        cache.values.assign(&values.to_dtype(cache.values.dtype()));
    }

    /// [`MultiheadAttention::attend`] to all that `cache` [remembers](MultiheadAttention::remember), as of
    /// [`Attention::Full`]. No weight of the attention is dropped.
    ///
    /// # Panics
    /// If keys and values are appended to those of the input, or the cache is of another batch.
    #[track_caller]
    pub fn attend_memory(&self, query: &Tensor, cache: &KeyValueCache, masks: AttentionMasks<'_>) -> Tensor {
        let mixed = {
            let _scope = self.scope.enter();
            self.check_cache(query, cache);
            let query = self.in_projection.queries(&self.options, query);
            self.read(&query, &cache.keys.tensor(), &cache.values.tensor(), None, masks)
        };
        self.out_proj.forward(&mixed)
    }

    /// What queries read from a cache where `seen` and `masks` let them.
    #[track_caller]
    fn read(
        &self,
        query: &Tensor,
        keys: &Tensor,
        values: &Tensor,
        seen: Option<&Tensor>,
        masks: AttentionMasks<'_>,
    ) -> Tensor {
        let bias = match (masks.bias(), seen) {
            (Some(bias), Some(seen)) => Some(bias + only(seen, DType::F32)),
            (bias, _) => bias,
        };
        let mask = match (&bias, seen) {
            (Some(bias), _) => Mask::Added(bias),
            (None, Some(seen)) => Mask::Allowed(seen),
            (None, None) => Mask::None,
        };
        joined(&query.scaled_dot_product_attention(keys, values, mask))
    }

    #[track_caller]
    fn check_cache(&self, input: &Tensor, cache: &KeyValueCache) {
        assert!(self.options.appended() == 0, "attention: appended keys have no place in a cache");
        let (batch, cached) = (input.size(0), cache.keys.shape());
        if cached[0] != batch {
            refuse(format_args!("attention: input {} and a cache {cached}, of another batch", input.shape()));
        }
    }

    /// Room for the keys and values of `sequence` positions.
    ///
    /// # Errors
    /// If there is no memory for them, they have more elements than 32-bit indices reach, or the device fails.
    pub fn cache(&self, batch: usize, sequence: usize, init: &Init) -> Result<KeyValueCache> {
        let AttentionOptions { width, heads, .. } = self.options;
        let shape = [batch, heads, sequence, width / heads];
        let make = |name| init.buffer(name, shape, Initial::Constant(0.0));
        Ok(KeyValueCache { keys: make("keys")?, values: make("values")? })
    }

    fn dropout_now(&self) -> Dropout {
        Dropout::new(self.options.dropout)
    }

    /// Queries, keys and values, `[batch, heads, sequence, width / heads]`, those that are appended included.
    #[track_caller]
    fn project(&self, query: &Tensor, key: &Tensor, value: &Tensor) -> [Tensor; 3] {
        let AttentionOptions { width, heads, zero_key_value, .. } = self.options;
        let [query, key, value] = self.in_projection.apply(&self.options, query, key, value);
        let append = |own: Tensor, number: usize| {
            let shape = [own.size(0), heads, 1, width / heads];
            let learned = |both: &[Var; 2]| both[number].tensor().reshape([1, heads, 1, width / heads]).expand(shape);
            let learned = self.bias_key_value.as_ref().map(learned);
            let zero = zero_key_value.then(|| Tensor::zeros_of(shape, own.dtype(), own.device()));
            let parts: Vec<&Tensor> = std::iter::once(&own).chain(&learned).chain(&zero).collect();
            if parts.len() == 1 { own } else { Tensor::cat(&parts, 2) }
        };
        [query, append(key, 0), append(value, 1)]
    }

    /// What is added to the scores of `query` and `key`, `None` for nothing.
    #[track_caller]
    fn bias(&self, query: &Tensor, key: &Tensor, masks: AttentionMasks<'_>) -> Option<Tensor> {
        let appended = self.options.appended();
        let causal =
            (self.options.attention == Attention::Causal).then(|| causal(query.size(2), key.size(2) - appended, query));
        let bias = match (masks.bias(), causal) {
            (Some(masks), Some(causal)) => Some(masks + causal),
            (masks, causal) => masks.or(causal),
        };
        if appended == 0 {
            return bias;
        }
        let bias = bias?;
        // what broadcasts to the input's own keys says nothing of those that are appended, at which everything may look
        let own = ok(broadcast("attention", bias.shape(), &[key.size(2) - appended].into()));
        let mut widths = vec![(0, 0); own.rank()];
        widths[own.rank() - 1].1 = appended.cast_signed();
        Some(bias.expand(own).pad(&widths, 0.0))
    }
}

/// `softmax(q kᵀ / √features + bias)`, `[batch, heads, queries, keys]`; zeros for queries that see nothing.
#[track_caller]
fn weights(query: &Tensor, key: &Tensor, bias: Option<Tensor>) -> Tensor {
    let scores = (query * (1.0 / (query.size(-1) as f64).sqrt())).matmul(&key.transpose(-2, -1));
    match bias {
        Some(bias) => scores.weights_with(&bias),
        None => scores.softmax(-1),
    }
}

/// `[batch, heads, sequence, features]` → `[batch, sequence, heads · features]`.
#[track_caller]
fn joined(heads: &Tensor) -> Tensor {
    heads.permute([0, 2, 1, 3]).flatten(2, 3)
}

variables!(MultiheadAttention: in_projection, bias_key_value, out_proj);

impl Module for MultiheadAttention {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        self.attend(input, input, input, AttentionMasks::default())
    }
}

/// The keys and values of the positions so far, for [`MultiheadAttention::attend_next`], or of an encoder's output, for
/// [`MultiheadAttention::attend_memory`].
#[derive(Debug)]
pub struct KeyValueCache {
    /// `[batch, heads, sequence, width / heads]`
    pub keys: Var,
    /// `[batch, heads, sequence, width / heads]`
    pub values: Var,
}
