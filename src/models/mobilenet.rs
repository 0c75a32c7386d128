//! MobileNetV2 (Sandler et al., arXiv 1801.04381), with torchvision's keys.

use crate::error::Result;
use crate::nn::{BatchNorm2d, Block, Dropout, Init, Linear, Module, ReLU6, Residual, Sequential};
use crate::ops::conv::ConvOptions;
use crate::tensor::Tensor;
use crate::variables;

use super::blocks::{conv, head};

/// (expansion, outputs, blocks, stride of the first block): table 2 of the paper.
const STAGES: [(usize, usize, usize, usize); 7] =
    [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)];

/// A 3×3 convolution, seventeen inverted residual blocks, a 1×1 convolution, the mean over all pixels, dropout of a
/// fifth and one linear layer. From `[batch, channels, height, width]` to `[batch, classes]`.
#[derive(Debug)]
pub struct MobileNetV2 {
    features: Sequential,
    dropout: Dropout,
    classifier: Linear,
}

impl MobileNetV2 {
    /// `width` scales all numbers of channels, which are rounded to multiples of 8; 1 is the usual network. For images
    /// of any size; each side is divided by 32.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    pub fn new(width: f64, channels: usize, classes: usize, init: &Init) -> Result<Self> {
        let scaled = |channels: usize| round_to_eight(channels as f64 * width);
        let place = |index: usize| init.at("features").at(index);
        let mut inputs = scaled(32);
        let mut features = Sequential::new().push(normed(channels, inputs, 3, 2, 1, &place(0))?);
        for (expansion, outputs, count, first_stride) in STAGES {
            let outputs = scaled(outputs);
            for index in 0..count {
                let stride = if index == 0 { first_stride } else { 1 };
                let init = place(features.len()).at("conv");
                let block = inverted_residual(inputs, outputs, expansion, stride, &init)?;
                features = if stride == 1 && inputs == outputs {
                    features.push(Block(Residual(block)))
                } else {
                    features.push(Block(block))
                };
                inputs = outputs;
            }
        }
        let last = round_to_eight(1280.0 * width.max(1.0));
        let index = features.len();
        Ok(Self {
            features: features.push(normed(inputs, last, 1, 1, 1, &place(index))?),
            dropout: Dropout::new(0.2),
            classifier: head(last, classes, &init.at("classifier.1"))?,
        })
    }
}

/// To the nearest multiple of 8, but at least 8 and nine tenths of what was asked for.
fn round_to_eight(channels: f64) -> usize {
    let rounded = ((channels + 4.0) as usize / 8 * 8).max(8);
    if (rounded as f64) < 0.9 * channels { rounded + 8 } else { rounded }
}

/// A convolution that keeps the size but for its stride, batch norm, ReLU6: `0`, `1` and `2`.
fn normed(
    inputs: usize,
    outputs: usize,
    kernel: usize,
    stride: usize,
    groups: usize,
    init: &Init,
) -> Result<Sequential> {
    let options = ConvOptions::default().stride(stride).padding(kernel / 2).groups(groups);
    Ok(Sequential::new()
        .push(conv(inputs, outputs, kernel, options, &init.at(0))?)
        .push(BatchNorm2d::new(outputs, &init.at(1))?)
        .push(ReLU6))
}

/// To `expansion` times the channels, a 3×3 convolution of each channel alone, to the outputs without activation.
fn inverted_residual(
    inputs: usize,
    outputs: usize,
    expansion: usize,
    stride: usize,
    init: &Init,
) -> Result<Sequential> {
    let inner = inputs * expansion;
    let mut block = Sequential::new();
    if expansion > 1 {
        block = block.push(normed(inputs, inner, 1, 1, 1, &init.at(0))?);
    }
    let index = block.len();
    Ok(block
        .push(normed(inner, inner, 3, stride, inner, &init.at(index))?)
        .push(conv(inner, outputs, 1, ConvOptions::default(), &init.at(index + 1))?)
        .push(BatchNorm2d::new(outputs, &init.at(index + 2))?))
}

variables!(MobileNetV2: features, classifier);

impl Module for MobileNetV2 {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let value = self.features.forward(input).mean_dim([2, 3]);
        self.classifier.forward(&self.dropout.forward(&value))
    }
}
