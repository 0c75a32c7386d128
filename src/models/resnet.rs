//! Residual networks (He et al., arXiv 1512.03385), with torchvision's keys.

use crate::error::Result;
use crate::nn::{BatchNorm2d, Conv2d, Init, Linear, Module, Variables, block};
use crate::ops::conv::ConvOptions;
use crate::runtime::Var;
use crate::tensor::Tensor;
use crate::variables;

use super::blocks::conv;

/// What goes around a block that changes the size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Shortcut {
    /// A 1×1 convolution with batch norm: option B of the paper, and torchvision's.
    #[default]
    Projection,
    /// Every other pixel, and channels of zeros on both sides: option A, which the paper's CIFAR networks have.
    Padded,
}

/// Two 3×3 convolutions with batch norm, and a shortcut around them: the identity, unless the size changes.
#[derive(Debug)]
pub struct BasicBlock {
    conv1: Conv2d,
    bn1: BatchNorm2d,
    conv2: Conv2d,
    bn2: BatchNorm2d,
    around: Around,
}

impl BasicBlock {
    /// From `inputs` to `outputs` channels; `stride` belongs to the first convolution and the shortcut.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    pub fn new(inputs: usize, outputs: usize, stride: usize, init: &Init) -> Result<Self> {
        Self::with_shortcut(inputs, outputs, stride, Shortcut::Projection, init)
    }

    /// The same with this kind of shortcut.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    pub fn with_shortcut(
        inputs: usize,
        outputs: usize,
        stride: usize,
        shortcut: Shortcut,
        init: &Init,
    ) -> Result<Self> {
        Ok(Self {
            conv1: conv3x3(inputs, outputs, stride, &init.at("conv1"))?,
            bn1: BatchNorm2d::new(outputs, &init.at("bn1"))?,
            conv2: conv3x3(outputs, outputs, 1, &init.at("conv2"))?,
            bn2: BatchNorm2d::new(outputs, &init.at("bn2"))?,
            around: Around::new(inputs, outputs, stride, shortcut, init)?,
        })
    }
}

fn conv3x3(inputs: usize, outputs: usize, stride: usize, init: &Init) -> Result<Conv2d> {
    conv(inputs, outputs, 3, ConvOptions::default().stride(stride).padding(1), init)
}

variables!(BasicBlock: conv1, bn1, conv2, bn2, around);

impl Module for BasicBlock {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let value = self.bn1.forward(&self.conv1.forward(input)).relu();
        let value = self.bn2.forward(&self.conv2.forward(&value));
        (value + self.around.forward(input)).relu()
    }
}

/// A 1×1 convolution to a quarter of the outputs, a 3×3 one, which has the stride (as in torchvision, where the paper
/// has it in the first), and a 1×1 one to the outputs, each with batch norm; and a shortcut around them.
#[derive(Debug)]
pub struct Bottleneck {
    convs: [(Conv2d, BatchNorm2d); 3],
    around: Around,
}

impl Bottleneck {
    /// From `inputs` to `outputs` channels.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    pub fn new(inputs: usize, outputs: usize, stride: usize, init: &Init) -> Result<Self> {
        let inner = outputs / 4;
        let norm = |number: usize, channels| BatchNorm2d::new(channels, &init.at(format_args!("bn{number}")));
        Ok(Self {
            convs: [
                (conv(inputs, inner, 1, ConvOptions::default(), &init.at("conv1"))?, norm(1, inner)?),
                (conv3x3(inner, inner, stride, &init.at("conv2"))?, norm(2, inner)?),
                (conv(inner, outputs, 1, ConvOptions::default(), &init.at("conv3"))?, norm(3, outputs)?),
            ],
            around: Around::new(inputs, outputs, stride, Shortcut::Projection, init)?,
        })
    }
}

variables!(Bottleneck: convs, around);

impl Module for Bottleneck {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let [first, second, third] = &self.convs;
        let value = first.1.forward(&first.0.forward(input)).relu();
        let value = second.1.forward(&second.0.forward(&value)).relu();
        (third.1.forward(&third.0.forward(&value)) + self.around.forward(input)).relu()
    }
}

/// A shortcut.
#[derive(Debug)]
enum Around {
    Identity,
    Projection(Box<(Conv2d, BatchNorm2d)>),
    Padded { stride: usize, channels: usize },
}

impl Around {
    fn new(inputs: usize, outputs: usize, stride: usize, shortcut: Shortcut, init: &Init) -> Result<Self> {
        if inputs == outputs && stride == 1 {
            return Ok(Self::Identity);
        }
        if shortcut == Shortcut::Padded {
            return Ok(Self::Padded { stride, channels: (outputs - inputs) / 2 });
        }
        let options = ConvOptions::default().stride(stride);
        let conv = conv(inputs, outputs, 1, options, &init.at("downsample.0"))?;
        Ok(Self::Projection(Box::new((conv, BatchNorm2d::new(outputs, &init.at("downsample.1"))?))))
    }

    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        match self {
            Self::Identity => input.clone(),
            Self::Projection(layers) => layers.1.forward(&layers.0.forward(input)),
            Self::Padded { stride, channels } => {
                let (step, zeros) = (stride.cast_signed(), channels.cast_signed());
                let fewer = input.slice_step(2, .., step).slice_step(3, .., step);
                fewer.pad(&[(0, 0), (zeros, zeros), (0, 0), (0, 0)], 0.0)
            }
        }
    }
}

impl Variables for Around {
    fn visit(&self, visitor: &mut dyn FnMut(&Var)) {
        if let Self::Projection(layers) = self {
            layers.visit(visitor);
        }
    }
}

/// Sizes of a [`ResNet`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResNetOptions {
    /// Blocks in each of the four stages.
    pub blocks: [usize; 4],
    /// Bottleneck blocks, with four times as many channels, instead of basic ones.
    pub bottleneck: bool,
    /// Channels of the first stage's 3×3 convolutions; each further stage has twice as many.
    pub width: usize,
}

impl ResNetOptions {
    /// The network of the paper with 18, 34, 50, 101 or 152 layers.
    ///
    /// # Panics
    /// If there is none of that depth.
    #[track_caller]
    pub fn depth(depth: usize) -> Self {
        let blocks = match depth {
            18 => [2, 2, 2, 2],
            34 | 50 => [3, 4, 6, 3],
            101 => [3, 4, 23, 3],
            152 => [3, 8, 36, 3],
            _ => panic!("resnet: no network of {depth} layers; there are 18, 34, 50, 101 and 152"),
        };
        Self { blocks, bottleneck: depth >= 50, width: 64 }
    }
}

/// ResNet for ImageNet, as torchvision's: a 7×7 convolution and max-pooling, each halving the image, four stages of
/// blocks, all but the first halving it again, the mean over all pixels, one linear layer.
///
/// From `[batch, channels, height, width]` to `[batch, classes]`.
#[derive(Debug)]
pub struct ResNet {
    conv1: Conv2d,
    bn1: BatchNorm2d,
    blocks: Vec<Box<dyn Module>>,
    fc: Linear,
}

impl ResNet {
    /// For images of any size; those of ImageNet are cut to 224×224.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    pub fn new(options: ResNetOptions, channels: usize, classes: usize, init: &Init) -> Result<Self> {
        let ResNetOptions { blocks: counts, bottleneck, width } = options;
        let mut blocks: Vec<Box<dyn Module>> = Vec::new();
        let mut inputs = width;
        for (stage, &count) in counts.iter().enumerate() {
            let outputs = (width << stage) * if bottleneck { 4 } else { 1 };
            for index in 0..count {
                let stride = if index == 0 && stage > 0 { 2 } else { 1 };
                let init = init.at(format_args!("layer{}.{index}", stage + 1));
                blocks.push(if bottleneck {
                    Box::new(Bottleneck::new(inputs, outputs, stride, &init)?)
                } else {
                    Box::new(BasicBlock::new(inputs, outputs, stride, &init)?)
                });
                inputs = outputs;
            }
        }
        let stem = ConvOptions::default().stride(2).padding(3);
        Ok(Self {
            conv1: conv(channels, width, 7, stem, &init.at("conv1"))?,
            bn1: BatchNorm2d::new(width, &init.at("bn1"))?,
            blocks,
            fc: Linear::new(inputs, classes, &init.at("fc"))?,
        })
    }
}

variables!(ResNet: conv1, bn1, blocks, fc);

impl Module for ResNet {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let mut value = self.bn1.forward(&self.conv1.forward(input)).relu().max_pool2d(3, 2, 1);
        for module in &self.blocks {
            value = block(module.as_ref(), &value);
        }
        self.fc.forward(&value.mean_dim([2, 3]))
    }
}

/// ResNet for CIFAR: a 3×3 convolution, three stages of basic blocks with 16, 32 and 64 channels, the second and third
/// halving the image, the mean over all pixels, one linear layer. From `[batch, channels, height, width]` to `[batch,
/// classes]`.
#[derive(Debug)]
pub struct CifarResNet {
    conv1: Conv2d,
    bn1: BatchNorm2d,
    blocks: Vec<BasicBlock>,
    fc: Linear,
}

impl CifarResNet {
    /// `depth` layers: 20, 32, 44, 56, 110 or any other `6 n + 2`; for images of any size. With projections, which have
    /// 2,752 parameters more than the paper's networks.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    #[track_caller]
    pub fn new(depth: usize, channels: usize, classes: usize, init: &Init) -> Result<Self> {
        Self::with_shortcut(depth, Shortcut::Projection, channels, classes, init)
    }

    /// The same with this kind of shortcut; with [`Shortcut::Padded`] it is the paper's.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    #[track_caller]
    pub fn with_shortcut(
        depth: usize,
        shortcut: Shortcut,
        channels: usize,
        classes: usize,
        init: &Init,
    ) -> Result<Self> {
        assert!(depth >= 8 && depth % 6 == 2, "cifar resnet: {depth} layers are not 6 n + 2");
        let mut blocks = Vec::new();
        let mut inputs = 16;
        for (layer, outputs) in [(1, 16), (2, 32), (3, 64)] {
            for index in 0..depth / 6 {
                let stride = if index == 0 && layer > 1 { 2 } else { 1 };
                let init = init.at(format_args!("layer{layer}.{index}"));
                blocks.push(BasicBlock::with_shortcut(inputs, outputs, stride, shortcut, &init)?);
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

variables!(CifarResNet: conv1, bn1, blocks, fc);

impl Module for CifarResNet {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let mut value = self.bn1.forward(&self.conv1.forward(input)).relu();
        for module in &self.blocks {
            value = block(module, &value);
        }
        self.fc.forward(&value.mean_dim([2, 3]))
    }
}
