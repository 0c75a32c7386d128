//! A small GPT.

use crate::error::Result;
use crate::graph::refuse;
use crate::nn::{
    AttentionMasks, Embedding, Init, KeyValueCache, LayerNorm, Linear, Module, TransformerEncoderLayer,
    TransformerOptions, block,
};
use crate::tensor::Tensor;
use crate::variables;

/// Sizes of a [`Gpt`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GptOptions {
    /// Number of different tokens.
    pub vocabulary: usize,
    /// Longest sequence.
    pub sequence: usize,
    /// Values per position.
    pub width: usize,
    /// Heads of each attention; they divide the width.
    pub heads: usize,
    /// Number of blocks.
    pub layers: usize,
}

impl GptOptions {
    /// Four blocks of width 128 with 4 heads.
    pub fn new(vocabulary: usize, sequence: usize) -> Self {
        Self { vocabulary, sequence, width: 128, heads: 4, layers: 4 }
    }
}

/// Learned positions, pre-norm transformer blocks with causal attention, a final layer norm and a separate head: from
/// token numbers `[batch, sequence]` to logits `[batch, vocabulary, sequence]`, classes second as cross-entropy wants
/// them.
#[derive(Debug)]
pub struct Gpt {
    token_embedding: Embedding,
    position_embedding: Embedding,
    blocks: Vec<TransformerEncoderLayer>,
    norm: LayerNorm,
    head: Linear,
    options: GptOptions,
}

impl Gpt {
    /// A model of these sizes.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    pub fn new(options: GptOptions, init: &Init) -> Result<Self> {
        let GptOptions { vocabulary, sequence, width, heads, layers } = options;
        let layer = TransformerOptions::gpt(width, heads);
        let block = |index| TransformerEncoderLayer::new(layer, &init.at(format_args!("blocks.{index}")));
        Ok(Self {
            token_embedding: Embedding::new(vocabulary, width, &init.at("token_embedding"))?,
            position_embedding: Embedding::new(sequence, width, &init.at("position_embedding"))?,
            blocks: (0..layers).map(block).collect::<Result<_>>()?,
            norm: LayerNorm::new(width, &init.at("norm"))?,
            head: Linear::new(width, vocabulary, &init.at("head"))?,
            options,
        })
    }

    /// The sizes it was made with.
    pub fn options(&self) -> GptOptions {
        self.options
    }

    /// Room for the keys and values of one sequence, for [`Gpt::forward_next`].
    pub(super) fn caches(&self, init: &Init) -> Result<Vec<KeyValueCache>> {
        TransformerEncoderLayer::caches(&self.blocks, 1, self.options.sequence, init)
    }

    /// Logits `[vocabulary]` of what follows `tokens`, `[1, new]`, of which the first is number `position` (`[]`) of its
    /// sequence; `caches` know what came before.
    #[track_caller]
    pub(super) fn forward_next(&self, tokens: &Tensor, position: &Tensor, caches: &[KeyValueCache]) -> Tensor {
        let new = tokens.size(1);
        let places = (Tensor::arange(new, tokens.device()) + position).unsqueeze(0);
        let mut value = self.token_embedding.forward(tokens) + self.position_embedding.forward(&places);
        for (block, cache) in self.blocks.iter().zip(caches) {
            value = block.forward_next(&value, position, cache, AttentionMasks::default());
        }
        let last = value.narrow(1, new - 1, 1);
        self.head.forward(&self.norm.forward(&last)).reshape([self.options.vocabulary])
    }
}

variables!(Gpt: token_embedding, position_embedding, blocks, norm, head);

impl Module for Gpt {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let &[_, sequence] = input.shape().dims() else {
            refuse(format_args!("gpt: input {} is not [batch, sequence]", input.shape()));
        };
        let longest = self.options.sequence;
        if sequence > longest {
            refuse(format_args!("gpt: a sequence of {sequence} tokens, but there are positions for {longest}"));
        }
        let positions = self.position_embedding.weight.tensor().narrow(0, 0, sequence);
        let mut value = self.token_embedding.forward(input) + positions;
        for module in &self.blocks {
            value = block(module, &value);
        }
        self.head.forward(&self.norm.forward(&value)).transpose(1, 2)
    }
}
