//! VGG (Simonyan and Zisserman, arXiv 1409.1556), with torchvision's keys.

use crate::error::Result;
use crate::nn::{
    AdaptiveAvgPool2d, BatchNorm2d, Block, Conv2d, Dropout, Flatten, Init, Initial, MaxPool2d, Module, ReLU, Sequential,
};
use crate::ops::conv::ConvOptions;
use crate::tensor::Tensor;
use crate::variables;

use super::blocks::{he, head};

/// Convolutions of each of the five stages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VGGOptions {
    /// 3×3 convolutions before each halving.
    pub convolutions: [usize; 5],
    /// A batch norm behind each of them.
    pub batch_norm: bool,
    /// Channels of the first stage; each further one but the last has twice as many.
    pub width: usize,
    /// Values of the two hidden linear layers.
    pub hidden: usize,
}

impl VGGOptions {
    /// The network of the paper with 11, 13, 16 or 19 layers that have weights.
    ///
    /// # Panics
    /// If there is none of that depth.
    #[track_caller]
    pub fn depth(depth: usize, batch_norm: bool) -> Self {
        let convolutions = match depth {
            11 => [1, 1, 2, 2, 2],
            13 => [2, 2, 2, 2, 2],
            16 => [2, 2, 3, 3, 3],
            19 => [2, 2, 4, 4, 4],
            _ => panic!("vgg: no network of {depth} layers; there are 11, 13, 16 and 19"),
        };
        Self { convolutions, batch_norm, width: 64, hidden: 4096 }
    }
}

/// Stages of 3×3 convolutions with ReLU, each ending with max-pooling that halves the image, means over 7×7 parts,
/// three linear layers with dropout of a half between. From `[batch, channels, height, width]` to `[batch, classes]`.
#[derive(Debug)]
pub struct VGG {
    features: Sequential,
    classifier: Sequential,
}

impl VGG {
    /// For images with sides of at least 32.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    pub fn new(options: VGGOptions, channels: usize, classes: usize, init: &Init) -> Result<Self> {
        let mut features = Sequential::new();
        let mut inputs = channels;
        // torchvision counts through all stages
        let mut before = 0;
        for (stage, &count) in options.convolutions.iter().enumerate() {
            let outputs = options.width << stage.min(3);
            let mut layers = Sequential::new();
            let place = |layers: &Sequential| init.at("features").at(before + layers.len());
            for _ in 0..count {
                let padded = ConvOptions::default().padding(1);
                let weight = he(outputs, 3);
                let bias = Some(Initial::Constant(0.0));
                let conv = Conv2d::with_initial(inputs, outputs, 3, padded, weight, bias, &place(&layers))?;
                layers = layers.push(conv);
                if options.batch_norm {
                    let norm = BatchNorm2d::new(outputs, &place(&layers))?;
                    layers = layers.push(norm);
                }
                layers = layers.push(ReLU);
                inputs = outputs;
            }
            layers = layers.push(MaxPool2d::new(2));
            before += layers.len();
            features = features.push(Block(layers));
        }
        let init = init.at("classifier");
        let classifier = Sequential::new()
            .push(head(inputs * 49, options.hidden, &init.at(0))?)
            .push(ReLU)
            .push(Dropout::new(0.5))
            .push(head(options.hidden, options.hidden, &init.at(3))?)
            .push(ReLU)
            .push(Dropout::new(0.5))
            .push(head(options.hidden, classes, &init.at(6))?);
        Ok(Self { features, classifier })
    }
}

variables!(VGG: features, classifier);

impl Module for VGG {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let parts = AdaptiveAvgPool2d::new(7).forward(&self.features.forward(input));
        self.classifier.forward(&Flatten::default().forward(&parts))
    }
}
