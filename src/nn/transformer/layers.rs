//! Transformer layers.

use crate::error::Result;
use crate::graph::{model, refuse};
use crate::tensor::Tensor;
use crate::variables;

use super::super::{
    Attention, AttentionMasks, Dropout, Init, KeyValueCache, LayerNorm, Linear, Module, MultiheadAttention,
};

/// The function between the two linear layers of a transformer layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activation {
    /// `max(x, 0)`
    Relu,
    /// `x · Φ(x)`, exact.
    Gelu,
}

impl Activation {
    #[track_caller]
    fn apply(self, input: &Tensor) -> Tensor {
        match self {
            Self::Relu => input.relu(),
            Self::Gelu => input.gelu(),
        }
    }
}

/// Options of transformer layers: PyTorch's arguments. Inputs are `[batch, sequence, width]` (`batch_first=True`).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TransformerOptions {
    /// Values per position: `d_model`.
    pub width: usize,
    /// Heads of each attention: `nhead`.
    pub heads: usize,
    /// Values between the two linear layers: `dim_feedforward`.
    pub hidden: usize,
    /// Probability of every dropout.
    pub dropout: f64,
    /// Between the two linear layers.
    pub activation: Activation,
    /// Normalise before each part instead of after it.
    pub norm_first: bool,
    /// Added to variances: `layer_norm_eps`.
    pub epsilon: f64,
    /// What self-attention may look at.
    pub attention: Attention,
}

impl TransformerOptions {
    /// PyTorch's defaults: 2048 hidden values, dropout of a tenth, ReLU, norms behind.
    pub fn new(width: usize, heads: usize) -> Self {
        Self {
            width,
            heads,
            hidden: 2048,
            dropout: 0.1,
            activation: Activation::Relu,
            norm_first: false,
            epsilon: 1e-5,
            attention: Attention::Full,
        }
    }

    /// A block of GPT-2: four times as many hidden values, GELU, norms first, no dropout, causal attention.
    pub fn gpt(width: usize, heads: usize) -> Self {
        Self {
            hidden: 4 * width,
            dropout: 0.0,
            activation: Activation::Gelu,
            norm_first: true,
            attention: Attention::Causal,
            ..Self::new(width, heads)
        }
    }

    #[track_caller]
    fn attention(&self, attention: Attention, init: &Init) -> Result<MultiheadAttention> {
        Ok(MultiheadAttention::new(self.width, self.heads, attention, init)?.dropout(self.dropout))
    }

    #[track_caller]
    fn check(&self, input: &Tensor) {
        if input.rank() != 3 || input.size(2) != self.width {
            refuse(format_args!("transformer: input {} is not [batch, sequence, {}]", input.shape(), self.width));
        }
    }

    pub(super) fn norm(&self, init: &Init) -> Result<LayerNorm> {
        Ok(LayerNorm::new(self.width, init)?.epsilon(self.epsilon))
    }
}

/// `x + part(norm(x))` if `norm_first`, else `norm(x + part(x))`.
#[track_caller]
fn residual(input: &Tensor, norm: &LayerNorm, norm_first: bool, part: impl FnOnce(&Tensor) -> Tensor) -> Tensor {
    if norm_first { input + part(&norm.forward(input)) } else { norm.forward(&(input + part(input))) }
}

/// Self-attention, then two linear layers with an activation between, each with a residual connection, layer norm and
/// dropout: PyTorch's `TransformerEncoderLayer`.
#[derive(Debug)]
pub struct TransformerEncoderLayer {
    /// Attention.
    pub self_attn: MultiheadAttention,
    /// From the width to the hidden values.
    pub linear1: Linear,
    /// And back.
    pub linear2: Linear,
    /// Of the attention.
    pub norm1: LayerNorm,
    /// Of the linear layers.
    pub norm2: LayerNorm,
    options: TransformerOptions,
}

impl TransformerEncoderLayer {
    /// A layer with these options.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    #[track_caller]
    pub fn new(options: TransformerOptions, init: &Init) -> Result<Self> {
        Ok(Self {
            self_attn: options.attention(options.attention, &init.at("self_attn"))?,
            linear1: Linear::new(options.width, options.hidden, &init.at("linear1"))?,
            linear2: Linear::new(options.hidden, options.width, &init.at("linear2"))?,
            norm1: options.norm(&init.at("norm1"))?,
            norm2: options.norm(&init.at("norm2"))?,
            options,
        })
    }

    /// The output with some positions hidden.
    #[track_caller]
    pub fn forward_masked(&self, input: &Tensor, masks: AttentionMasks<'_>) -> Tensor {
        self.run(input, |input| self.self_attn.attend(input, input, input, masks))
    }

    /// Room for the keys and values of `sequence` positions in each of these layers.
    pub(crate) fn caches(layers: &[Self], batch: usize, sequence: usize, init: &Init) -> Result<Vec<KeyValueCache>> {
        let cache = |(number, layer): (usize, &Self)| layer.self_attn.cache(batch, sequence, &init.at(number));
        layers.iter().enumerate().map(cache).collect()
    }

    /// The output for new positions alone, of a layer whose attention is [`Attention::Causal`]: see
    /// [`MultiheadAttention::attend_next`].
    ///
    /// # Panics
    /// As that.
    #[track_caller]
    pub fn forward_next(
        &self,
        input: &Tensor,
        position: &Tensor,
        cache: &KeyValueCache,
        masks: AttentionMasks<'_>,
    ) -> Tensor {
        self.run(input, |input| self.self_attn.attend_next(input, position, cache, masks))
    }

    #[track_caller]
    fn run(&self, input: &Tensor, attend: impl FnOnce(&Tensor) -> Tensor) -> Tensor {
        let _model = model();
        self.options.check(input);
        let TransformerOptions { norm_first, activation, dropout, .. } = self.options;
        let dropout = Dropout::new(dropout);
        let attended = residual(input, &self.norm1, norm_first, |input| dropout.forward(&attend(input)));
        residual(&attended, &self.norm2, norm_first, |input| {
            let hidden = dropout.forward(&activation.apply(&self.linear1.forward(input)));
            dropout.forward(&self.linear2.forward(&hidden))
        })
    }
}

variables!(TransformerEncoderLayer: self_attn, linear1, linear2, norm1, norm2);

impl Module for TransformerEncoderLayer {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        self.forward_masked(input, AttentionMasks::default())
    }
}

/// Self-attention, attention to an encoder's output, then two linear layers: PyTorch's `TransformerDecoderLayer`.
#[derive(Debug)]
pub struct TransformerDecoderLayer {
    /// To the sequence itself.
    pub self_attn: MultiheadAttention,
    /// To the encoder's output.
    pub multihead_attn: MultiheadAttention,
    /// From the width to the hidden values.
    pub linear1: Linear,
    /// And back.
    pub linear2: Linear,
    /// Of the self-attention, the attention to the encoder, the linear layers.
    pub norms: [LayerNorm; 3],
    options: TransformerOptions,
}

impl TransformerDecoderLayer {
    /// A layer with these options; `attention` is that of the sequence to itself.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    #[track_caller]
    pub fn new(options: TransformerOptions, init: &Init) -> Result<Self> {
        let norm = |name| options.norm(&init.at(name));
        Ok(Self {
            self_attn: options.attention(options.attention, &init.at("self_attn"))?,
            multihead_attn: options.attention(Attention::Full, &init.at("multihead_attn"))?,
            linear1: Linear::new(options.width, options.hidden, &init.at("linear1"))?,
            linear2: Linear::new(options.hidden, options.width, &init.at("linear2"))?,
            norms: [norm("norm1")?, norm("norm2")?, norm("norm3")?],
            options,
        })
    }

    /// The output for `input` and an encoder's output `memory`, `[batch, sequence', width]`; masks for each attention.
    #[track_caller]
    pub fn forward(
        &self,
        input: &Tensor,
        memory: &Tensor,
        own: AttentionMasks<'_>,
        encoded: AttentionMasks<'_>,
    ) -> Tensor {
        self.run(
            input,
            |input| self.self_attn.attend(input, input, input, own),
            |input| self.multihead_attn.attend(input, memory, memory, encoded),
        )
    }

    /// Room for what the layer keeps of `sequence` positions of its own, and of the first `memory` positions of an
    /// encoder's output.
    ///
    /// # Errors
    /// If there is no memory for them, they have more elements than 32-bit indices reach, or the device fails.
    pub fn cache(&self, batch: usize, sequence: usize, memory: usize, init: &Init) -> Result<DecoderCache> {
        Ok(DecoderCache {
            own: self.self_attn.cache(batch, sequence, &init.at("own"))?,
            memory: self.multihead_attn.cache(batch, memory, &init.at("memory"))?,
        })
    }

    /// Begins with an encoder's output, of which all that is needed is kept in `cache`.
    ///
    /// # Panics
    /// If the cache was made for another shape.
    #[track_caller]
    pub fn remember(&self, memory: &Tensor, cache: &DecoderCache) {
        self.multihead_attn.remember(memory, &cache.memory);
    }

    /// The output for new positions alone, of a layer whose attention is [`Attention::Causal`], given what `cache`
    /// [remembers](TransformerDecoderLayer::remember): see [`MultiheadAttention::attend_next`].
    ///
    /// # Panics
    /// As that.
    #[track_caller]
    pub fn forward_next(
        &self,
        input: &Tensor,
        position: &Tensor,
        cache: &DecoderCache,
        own: AttentionMasks<'_>,
        encoded: AttentionMasks<'_>,
    ) -> Tensor {
        self.run(
            input,
            |input| self.self_attn.attend_next(input, position, &cache.own, own),
            |input| self.multihead_attn.attend_memory(input, &cache.memory, encoded),
        )
    }

    #[track_caller]
    fn run(
        &self,
        input: &Tensor,
        own: impl FnOnce(&Tensor) -> Tensor,
        encoded: impl FnOnce(&Tensor) -> Tensor,
    ) -> Tensor {
        let _model = model();
        self.options.check(input);
        let TransformerOptions { norm_first, activation, dropout, .. } = self.options;
        let dropout = Dropout::new(dropout);
        let [norm1, norm2, norm3] = &self.norms;
        let value = residual(input, norm1, norm_first, |input| dropout.forward(&own(input)));
        let value = residual(&value, norm2, norm_first, |input| dropout.forward(&encoded(input)));
        residual(&value, norm3, norm_first, |input| {
            let hidden = dropout.forward(&activation.apply(&self.linear1.forward(input)));
            dropout.forward(&self.linear2.forward(&hidden))
        })
    }
}

variables!(TransformerDecoderLayer: self_attn, multihead_attn, linear1, linear2, norms);

/// What a [`TransformerDecoderLayer`] keeps while it is given a sequence bit by bit.
#[derive(Debug)]
pub struct DecoderCache {
    /// Of the positions so far.
    pub own: KeyValueCache,
    /// Of the encoder's output.
    pub memory: KeyValueCache,
}
