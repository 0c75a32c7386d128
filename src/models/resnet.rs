//! Residual networks for CIFAR (He et al., arXiv 1512.03385).

use crate::error::Result;
use crate::nn::{BatchNorm2d, Conv2d, Init, Linear, Module};
use crate::ops::conv::ConvOptions;
use crate::runtime::Var;
use crate::tensor::Tensor;

/// Two 3×3 convolutions with batch norm, and a shortcut around them: where the width changes, a 1×1 convolution with
/// batch norm, else the identity. Keys as in torchvision.
pub struct BasicBlock {
    conv1: Conv2d,
    bn1: BatchNorm2d,
    conv2: Conv2d,
    bn2: BatchNorm2d,
    downsample: Option<(Conv2d, BatchNorm2d)>,
}

impl BasicBlock {
    /// From `inputs` to `outputs` channels; `stride` belongs to the first convolution and the shortcut.
    pub fn new(inputs: usize, outputs: usize, stride: usize, init: &Init) -> Result<Self> {
        let downsample = || {
            let options = ConvOptions::default().stride(stride);
            let conv = Conv2d::without_bias(inputs, outputs, 1, options, &init.at("downsample.0"))?;
            Ok((conv, BatchNorm2d::new(outputs, &init.at("downsample.1"))?))
        };
        Ok(Self {
            conv1: conv3x3(inputs, outputs, stride, &init.at("conv1"))?,
            bn1: BatchNorm2d::new(outputs, &init.at("bn1"))?,
            conv2: conv3x3(outputs, outputs, 1, &init.at("conv2"))?,
            bn2: BatchNorm2d::new(outputs, &init.at("bn2"))?,
            downsample: (inputs != outputs || stride != 1).then(downsample).transpose()?,
        })
    }
}

fn conv3x3(inputs: usize, outputs: usize, stride: usize, init: &Init) -> Result<Conv2d> {
    let options = ConvOptions::default().stride(stride).padding(1);
    Conv2d::without_bias(inputs, outputs, 3, options, init)
}

impl Module for BasicBlock {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let value = self.bn1.forward(&self.conv1.forward(input)).relu();
        let value = self.bn2.forward(&self.conv2.forward(&value));
        let shortcut = match &self.downsample {
            Some((conv, norm)) => norm.forward(&conv.forward(input)),
            None => input.clone(),
        };
        (value + shortcut).relu()
    }

    fn visit(&self, visitor: &mut dyn FnMut(&Var)) {
        self.conv1.visit(visitor);
        self.bn1.visit(visitor);
        self.conv2.visit(visitor);
        self.bn2.visit(visitor);
        if let Some((conv, norm)) = &self.downsample {
            conv.visit(visitor);
            norm.visit(visitor);
        }
    }
}

/// ResNet-20: a 3×3 convolution, three stages of three basic blocks with 16, 32 and 64 channels, the second and third
/// halving the image, the mean over all pixels, one linear layer. From `[batch, channels, height, width]` to `[batch, classes]`.
pub struct ResNet20 {
    conv1: Conv2d,
    bn1: BatchNorm2d,
    blocks: Vec<BasicBlock>,
    fc: Linear,
}

impl ResNet20 {
    /// For images of any size.
    pub fn new(channels: usize, classes: usize, init: &Init) -> Result<Self> {
        let mut blocks = Vec::new();
        let mut inputs = 16;
        for (layer, outputs) in [(1, 16), (2, 32), (3, 64)] {
            for index in 0..3 {
                let stride = if index == 0 && layer > 1 { 2 } else { 1 };
                blocks.push(BasicBlock::new(inputs, outputs, stride, &init.at(format_args!("layer{layer}.{index}")))?);
                inputs = outputs;
            }
        }
        Ok(Self {
            conv1: conv3x3(channels, 16, 1, &init.at("conv1"))?,
            bn1: BatchNorm2d::new(16, &init.at("bn1"))?,
            blocks,
            fc: Linear::new(64, classes, &init.at("fc"))?,
        })
    }
}

impl Module for ResNet20 {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let stem = self.bn1.forward(&self.conv1.forward(input)).relu();
        let value = self.blocks.iter().fold(stem, |value, block| block.forward(&value));
        self.fc.forward(&value.mean_dim([2, 3]))
    }

    fn visit(&self, visitor: &mut dyn FnMut(&Var)) {
        self.conv1.visit(visitor);
        self.bn1.visit(visitor);
        self.blocks.iter().for_each(|block| block.visit(visitor));
        self.fc.visit(visitor);
    }
}
