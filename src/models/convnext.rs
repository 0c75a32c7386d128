//! ConvNeXt (Liu et al., arXiv 2201.03545), with torchvision's keys.

use crate::error::Result;
use crate::nn::{self, Conv2d, Init, Initial, LayerNorm, LayerNorm2d, Linear, Module, Sequential, StochasticDepth};
use crate::ops::conv::ConvOptions;
use crate::runtime::Var;
use crate::tensor::Tensor;
use crate::variables;

/// Added to variances.
const EPSILON: f64 = 1e-6;
/// What linear layers and convolutions are drawn from.
const DEVIATION: f32 = 0.02;

/// Sizes of a [`ConvNeXt`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ConvNeXtOptions {
    /// Blocks in each stage.
    pub blocks: [usize; 4],
    /// Channels in each stage.
    pub widths: [usize; 4],
    /// Probability of leaving out the last block; those before are left out less often.
    pub stochastic_depth: f64,
}

impl ConvNeXtOptions {
    /// ConvNeXt-T.
    pub const TINY: Self = Self { blocks: [3, 3, 9, 3], widths: [96, 192, 384, 768], stochastic_depth: 0.1 };
}

/// Four stages of blocks between layer-normed convolutions that shrink the image, by four at first, then by two; the
/// mean over all pixels, layer norm, one linear layer. From `[batch, channels, height, width]` to `[batch, classes]`.
#[derive(Debug)]
pub struct ConvNeXt {
    features: Sequential,
    norm: LayerNorm2d,
    head: Linear,
}

impl ConvNeXt {
    /// For images with sides of at least 32.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    pub fn new(options: ConvNeXtOptions, channels: usize, classes: usize, init: &Init) -> Result<Self> {
        let ConvNeXtOptions { blocks: counts, widths, stochastic_depth } = options;
        let total: usize = counts.iter().sum();
        let place = |index: usize| init.at("features").at(index);
        let norm = |channels, init: Init| LayerNorm2d::new(channels, &init).map(|norm| norm.epsilon(EPSILON));
        let stem = Sequential::new()
            .push(conv(channels, widths[0], 4, ConvOptions::default().stride(4), &place(0).at(0))?)
            .push(norm(widths[0], place(0).at(1))?);
        let mut features = Sequential::new().push(stem);
        let mut done = 0;
        for (stage, (&count, &width)) in counts.iter().zip(&widths).enumerate() {
            if stage > 0 {
                let (before, init) = (widths[stage - 1], place(features.len()));
                let halving = ConvOptions::default().stride(2);
                let shrink = Sequential::new().push(norm(before, init.at(0))?).push(conv(
                    before,
                    width,
                    2,
                    halving,
                    &init.at(1),
                )?);
                features = features.push(shrink);
            }
            let mut blocks = Sequential::new();
            for index in 0..count {
                let probability = stochastic_depth * done as f64 / (total - 1).max(1) as f64;
                blocks = blocks.push(nn::Block(Block::new(width, probability, &place(2 * stage + 1).at(index))?));
                done += 1;
            }
            features = features.push(blocks);
        }
        Ok(Self {
            features,
            norm: norm(widths[3], init.at("classifier.0"))?,
            head: linear(widths[3], classes, &init.at("classifier.2"))?,
        })
    }
}

fn conv(inputs: usize, outputs: usize, kernel: usize, options: ConvOptions, init: &Init) -> Result<Conv2d> {
    let (weight, bias) =
        (Initial::TruncatedNormal { deviation: DEVIATION, low: -2.0, high: 2.0 }, Some(Initial::Constant(0.0)));
    Conv2d::with_initial(inputs, outputs, kernel, options, weight, bias, init)
}

fn linear(inputs: usize, outputs: usize, init: &Init) -> Result<Linear> {
    Linear::with_initial(
        inputs,
        outputs,
        Initial::TruncatedNormal { deviation: DEVIATION, low: -2.0, high: 2.0 },
        Some(Initial::Constant(0.0)),
        init,
    )
}

variables!(ConvNeXt: features, norm, head);

impl Module for ConvNeXt {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let value = self.features.forward(input).mean_keepdim([2, 3]);
        self.head.forward(&self.norm.forward(&value).flatten(1, -1))
    }
}

/// `x + scale · linear(gelu(linear(norm(depthwise(x)))))`, with a 7×7 convolution of each channel alone and four times
/// as many values between the linear layers.
struct Block {
    conv: Conv2d,
    norm: LayerNorm,
    expand: Linear,
    reduce: Linear,
    /// `[width, 1, 1]`
    scale: Var,
    depth: StochasticDepth,
}

impl Block {
    fn new(width: usize, probability: f64, init: &Init) -> Result<Self> {
        let part = |index: usize| init.at("block").at(index);
        Ok(Self {
            conv: conv(width, width, 7, ConvOptions::default().padding(3).groups(width), &part(0))?,
            norm: LayerNorm::new(width, &part(2))?.epsilon(EPSILON),
            expand: linear(width, 4 * width, &part(3))?,
            reduce: linear(4 * width, width, &part(5))?,
            scale: init.parameter("layer_scale", [width, 1, 1], Initial::Constant(1e-6))?,
            depth: StochasticDepth::new(probability),
        })
    }
}

variables!(Block: scale, conv, norm, expand, reduce);

impl Module for Block {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let value = self.norm.forward(&self.conv.forward(input).permute([0, 2, 3, 1]));
        let value = self.reduce.forward(&self.expand.forward(&value).gelu()).permute([0, 3, 1, 2]);
        input + self.depth.forward(&(value * self.scale.tensor()))
    }
}
