//! The vision transformer (Dosovitskiy et al., arXiv 2010.11929), with timm's keys.

use crate::error::Result;
use crate::graph::refuse;
use crate::nn::{Conv2d, Init, Initial, LayerNorm, Linear, Module, Scope, block};
use crate::ops::conv::ConvOptions;
use crate::runtime::Var;
use crate::tensor::{Mask, Tensor};
use crate::variables;

/// Added to variances.
const EPSILON: f64 = 1e-6;
/// What weights are drawn from, as in timm.
const WEIGHT: Initial = Initial::TruncatedNormal { deviation: 0.02, low: -2.0, high: 2.0 };

/// Sizes of a [`VisionTransformer`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VisionTransformerOptions {
    /// Pixels along each side of a patch.
    pub patch: usize,
    /// Values per patch.
    pub width: usize,
    /// Heads of each attention.
    pub heads: usize,
    /// Number of blocks.
    pub layers: usize,
}

impl VisionTransformerOptions {
    /// ViT-Ti (Touvron et al., arXiv 2012.12877) with patches of 16×16 pixels: timm's `vit_tiny_patch16_224`.
    pub const TINY: Self = Self { patch: 16, width: 192, heads: 3, layers: 12 };
}

/// Patches with learned positions and a class token before them, pre-norm transformer blocks, layer norm, one linear
/// layer on the class token. From `[batch, channels, height, width]` to `[batch, classes]`.
#[derive(Debug)]
pub struct VisionTransformer {
    patch_embed: Conv2d,
    /// `[1, 1, width]`
    cls_token: Var,
    /// `[1, patches + 1, width]`
    pos_embed: Var,
    blocks: Vec<Block>,
    norm: LayerNorm,
    head: Linear,
}

impl VisionTransformer {
    /// For images `[channels, height, width]` whose sides the patch divides.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    #[track_caller]
    pub fn new(
        options: VisionTransformerOptions,
        [channels, height, width]: [usize; 3],
        classes: usize,
        init: &Init,
    ) -> Result<Self> {
        let VisionTransformerOptions { patch, width: features, heads, layers } = options;
        assert!(
            patch > 0 && height.is_multiple_of(patch) && width.is_multiple_of(patch),
            "vit: {height}x{width} pixels do not divide into patches of {patch}x{patch}"
        );
        let patches = (height / patch) * (width / patch);
        let tiles = ConvOptions::default().stride(patch);
        let block = |index| Block::new(features, heads, &init.at(format_args!("blocks.{index}")));
        Ok(Self {
            patch_embed: Conv2d::new(channels, features, patch, tiles, &init.at("patch_embed.proj"))?,
            cls_token: init.parameter("cls_token", [1, 1, features], Initial::Normal { deviation: 1e-6 })?,
            pos_embed: init.parameter("pos_embed", [1, patches + 1, features], WEIGHT)?,
            blocks: (0..layers).map(block).collect::<Result<_>>()?,
            norm: LayerNorm::new(features, &init.at("norm"))?.epsilon(EPSILON),
            head: linear(features, classes, &init.at("head"))?,
        })
    }
}

fn linear(inputs: usize, outputs: usize, init: &Init) -> Result<Linear> {
    Linear::with_initial(inputs, outputs, WEIGHT, Some(Initial::Constant(0.0)), init)
}

variables!(VisionTransformer: cls_token, pos_embed, patch_embed, blocks, norm, head);

impl Module for VisionTransformer {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let patches = self.patch_embed.forward(input).flatten(2, 3).transpose(1, 2);
        let token = self.cls_token.tensor().expand([patches.size(0), 1, patches.size(2)]);
        let tokens = Tensor::cat(&[&token, &patches], 1);
        if tokens.shape()[1..] != self.pos_embed.shape()[1..] {
            let (patches, places) = (patches.size(1), self.pos_embed.shape()[1] - 1);
            refuse(format_args!("vit: {patches} patches, but there are positions for {places}"));
        }
        let mut value = tokens + self.pos_embed.tensor();
        for module in &self.blocks {
            value = block(module, &value);
        }
        self.head.forward(&self.norm.forward(&value).select(1, 0))
    }
}

/// `x + proj(attention(qkv(norm1(x))))`, then `x + fc2(gelu(fc1(norm2(x))))`.
#[derive(Debug)]
struct Block {
    norm1: LayerNorm,
    qkv: Linear,
    proj: Linear,
    norm2: LayerNorm,
    fc1: Linear,
    fc2: Linear,
    heads: usize,
    attention: Scope,
}

impl Block {
    fn new(width: usize, heads: usize, init: &Init) -> Result<Self> {
        assert!(heads > 0 && width.is_multiple_of(heads), "vit: a width of {width} does not divide into {heads} heads");
        Ok(Self {
            norm1: LayerNorm::new(width, &init.at("norm1"))?.epsilon(EPSILON),
            qkv: linear(width, 3 * width, &init.at("attn.qkv"))?,
            proj: linear(width, width, &init.at("attn.proj"))?,
            norm2: LayerNorm::new(width, &init.at("norm2"))?.epsilon(EPSILON),
            fc1: linear(width, 4 * width, &init.at("mlp.fc1"))?,
            fc2: linear(4 * width, width, &init.at("mlp.fc2"))?,
            heads,
            attention: Scope::new("Attention", init.at("attn").path()),
        })
    }

    /// Attention of all to all, from `[batch, tokens, 3 · width]`.
    #[track_caller]
    fn attend(&self, projected: &Tensor) -> Tensor {
        let _scope = self.attention.enter();
        let (batch, tokens, width) = (projected.size(0), projected.size(1), projected.size(2) / 3);
        let split = projected.reshape([batch, tokens, 3, self.heads, width / self.heads]).permute([2, 0, 3, 1, 4]);
        let [query, key, value] = [0, 1, 2].map(|part| split.select(0, part));
        let mixed = query.scaled_dot_product_attention(&key, &value, Mask::None);
        mixed.permute([0, 2, 1, 3]).reshape([batch, tokens, width])
    }
}

variables!(Block: norm1, qkv, proj, norm2, fc1, fc2);

impl Module for Block {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let projected = self.qkv.forward(&self.norm1.forward(input));
        let value = input + self.proj.forward(&self.attend(&projected));
        let hidden = self.fc1.forward(&self.norm2.forward(&value)).gelu();
        value + self.fc2.forward(&hidden)
    }
}
