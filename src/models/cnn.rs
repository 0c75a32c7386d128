//! Small convolutional networks for images.

use crate::error::Result;
use crate::nn::{Conv2d, Dropout, Init, Linear, Module};
use crate::ops::conv::ConvOptions;
use crate::tensor::Tensor;
use crate::variables;

/// The network of PyTorch's "Training a Classifier" tutorial: two 5×5 convolutions, each with ReLU and 2×2 max-pooling,
/// then linear layers of 120, 84 and `classes` values with ReLU between.
#[derive(Debug)]
pub struct TutorialCnn {
    conv1: Conv2d,
    conv2: Conv2d,
    fc1: Linear,
    fc2: Linear,
    fc3: Linear,
}

impl TutorialCnn {
    /// For samples `[channels, height, width]` with sides of at least 16.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    pub fn new([channels, height, width]: [usize; 3], classes: usize, init: &Init) -> Result<Self> {
        // Twice: a 5×5 window takes 4 pixels off, pooling halves.
        let side = |size: usize| ((size - 4) / 2 - 4) / 2;
        Ok(Self {
            conv1: Conv2d::new(channels, 6, 5, ConvOptions::default(), &init.at("conv1"))?,
            conv2: Conv2d::new(6, 16, 5, ConvOptions::default(), &init.at("conv2"))?,
            fc1: Linear::new(16 * side(height) * side(width), 120, &init.at("fc1"))?,
            fc2: Linear::new(120, 84, &init.at("fc2"))?,
            fc3: Linear::new(84, classes, &init.at("fc3"))?,
        })
    }
}

variables!(TutorialCnn: conv1, conv2, fc1, fc2, fc3);

impl Module for TutorialCnn {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let value = self.conv1.forward(input).relu().max_pool2d(2, 2, 0);
        let value = self.conv2.forward(&value).relu().max_pool2d(2, 2, 0).flatten(1, -1);
        let value = self.fc1.forward(&value).relu();
        self.fc3.forward(&self.fc2.forward(&value).relu())
    }
}

/// A network for small images such as 8×8 digits: 3×3 convolutions to 32, 32 and 64 channels with ReLU, 2×2 max-pooling
/// after the second and third, dropout of a quarter, one linear layer.
#[derive(Debug)]
pub struct DigitsCnn {
    conv1: Conv2d,
    conv2: Conv2d,
    conv3: Conv2d,
    dropout: Dropout,
    fc: Linear,
}

impl DigitsCnn {
    /// For samples `[channels, height, width]` with sides of at least 4.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    pub fn new([channels, height, width]: [usize; 3], classes: usize, init: &Init) -> Result<Self> {
        let conv =
            |inputs, outputs, name| Conv2d::new(inputs, outputs, 3, ConvOptions::default().padding(1), &init.at(name));
        Ok(Self {
            conv1: conv(channels, 32, "conv1")?,
            conv2: conv(32, 32, "conv2")?,
            conv3: conv(32, 64, "conv3")?,
            dropout: Dropout::new(0.25),
            fc: Linear::new(64 * (height / 4) * (width / 4), classes, &init.at("fc"))?,
        })
    }
}

variables!(DigitsCnn: conv1, conv2, conv3, fc);

impl Module for DigitsCnn {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let value = self.conv1.forward(input).relu();
        let value = self.conv2.forward(&value).relu().max_pool2d(2, 2, 0);
        let value = self.conv3.forward(&value).relu().max_pool2d(2, 2, 0).flatten(1, -1);
        self.fc.forward(&self.dropout.forward(&value))
    }
}
