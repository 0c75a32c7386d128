//! Self-attention and the transformer block made of it.

use crate::error::Result;
use crate::runtime::Var;
use crate::tensor::{Mask, Tensor};

use super::linear::linear;
use super::module::Scope;
use super::{Init, Initial, LayerNorm, Linear, Module};

/// Which positions a position may look at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attention {
    /// All of them.
    Full,
    /// Itself and those before it.
    Causal,
}

impl Attention {
    fn mask(self) -> Mask<'static> {
        match self {
            Self::Full => Mask::None,
            Self::Causal => Mask::Causal,
        }
    }
}

/// Multi-head self-attention (Vaswani et al., arXiv 1706.03762) over `[batch, sequence, width]`; keys and
/// first weights as in PyTorch's `MultiheadAttention`.
pub struct MultiheadAttention {
    /// `[3 · width, width]`: queries, keys, values.
    pub in_proj_weight: Var,
    /// `[3 · width]`
    pub in_proj_bias: Var,
    /// From the joined heads back to the width.
    pub out_proj: Linear,
    heads: usize,
    attention: Attention,
    scope: Scope,
}

impl MultiheadAttention {
    /// Attention with `heads` heads of `width / heads` values each.
    pub fn new(width: usize, heads: usize, attention: Attention, init: &Init) -> Result<Self> {
        assert!(width.is_multiple_of(heads), "attention: a width of {width} does not divide into {heads} heads");
        let initial = Initial::xavier_uniform(width, 3 * width);
        Ok(Self {
            in_proj_weight: init.parameter("in_proj_weight", [3 * width, width], initial)?,
            in_proj_bias: init.parameter("in_proj_bias", 3 * width, Initial::Constant(0.0))?,
            out_proj: Linear::with_bias(width, width, Initial::Constant(0.0), &init.at("out_proj"))?,
            heads,
            attention,
            scope: Scope::new(init.path()),
        })
    }

    #[track_caller]
    fn attend(&self, input: &Tensor) -> Tensor {
        let &[batch, sequence, width] = input.shape().dims() else {
            panic!("attention: input {} is not [batch, sequence, width]", input.shape());
        };
        let head_width = width / self.heads;
        let projected = linear(input, &self.in_proj_weight, Some(&self.in_proj_bias))
            .reshape([batch, sequence, 3, self.heads, head_width])
            .permute([2, 0, 3, 1, 4]);
        let part = |index| projected.select(0, index);
        let (queries, keys, values) = (part(0), part(1), part(2));
        let mixed = queries.scaled_dot_product_attention(&keys, &values, self.attention.mask());
        mixed.permute([0, 2, 1, 3]).reshape([batch, sequence, width])
    }
}

impl Module for MultiheadAttention {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let mixed = self.scope.run(|| self.attend(input));
        self.out_proj.forward(&mixed)
    }

    fn visit(&self, visitor: &mut dyn FnMut(&Var)) {
        visitor(&self.in_proj_weight);
        visitor(&self.in_proj_bias);
        self.out_proj.visit(visitor);
    }
}

/// A pre-norm transformer block over `[batch, sequence, width]`: `x + attention(norm1(x))`, then
/// `x + linear2(gelu(linear1(norm2(x))))` with the exact GELU.
///
/// Keys as in PyTorch's `TransformerEncoderLayer` with `norm_first=True`.
pub struct TransformerBlock {
    /// Attention.
    pub self_attn: MultiheadAttention,
    /// From the width to four times as much.
    pub linear1: Linear,
    /// And back.
    pub linear2: Linear,
    /// Before the attention.
    pub norm1: LayerNorm,
    /// Before the two linear layers.
    pub norm2: LayerNorm,
}

impl TransformerBlock {
    /// A block with `heads` heads and a hidden layer of four times `width`.
    pub fn new(width: usize, heads: usize, attention: Attention, init: &Init) -> Result<Self> {
        Ok(Self {
            self_attn: MultiheadAttention::new(width, heads, attention, &init.at("self_attn"))?,
            linear1: Linear::new(width, 4 * width, &init.at("linear1"))?,
            linear2: Linear::new(4 * width, width, &init.at("linear2"))?,
            norm1: LayerNorm::new(width, &init.at("norm1"))?,
            norm2: LayerNorm::new(width, &init.at("norm2"))?,
        })
    }
}

impl Module for TransformerBlock {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let attended = input + self.self_attn.forward(&self.norm1.forward(input));
        let hidden = self.linear1.forward(&self.norm2.forward(&attended)).gelu();
        attended + self.linear2.forward(&hidden)
    }

    fn visit(&self, visitor: &mut dyn FnMut(&Var)) {
        self.self_attn.visit(visitor);
        self.linear1.visit(visitor);
        self.linear2.visit(visitor);
        self.norm1.visit(visitor);
        self.norm2.visit(visitor);
    }
}
