//! U-Net for segmentation (Ronneberger, Fischer, Brox, arXiv 1505.04597), with padding and batch norm.

use crate::error::Result;
use crate::nn::{BatchNorm2d, Conv2d, Init, Module, block};
use crate::ops::conv::ConvOptions;
use crate::tensor::Tensor;
use crate::variables;

/// Twice a 3×3 convolution with bias, batch norm and ReLU.
#[derive(Debug)]
pub struct DoubleConv {
    conv1: Conv2d,
    bn1: BatchNorm2d,
    conv2: Conv2d,
    bn2: BatchNorm2d,
}

impl DoubleConv {
    /// From `inputs` to `outputs` channels, of the same size.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    pub fn new(inputs: usize, outputs: usize, init: &Init) -> Result<Self> {
        let options = ConvOptions::default().padding(1);
        Ok(Self {
            conv1: Conv2d::new(inputs, outputs, 3, options.clone(), &init.at("conv1"))?,
            bn1: BatchNorm2d::new(outputs, &init.at("bn1"))?,
            conv2: Conv2d::new(outputs, outputs, 3, options, &init.at("conv2"))?,
            bn2: BatchNorm2d::new(outputs, &init.at("bn2"))?,
        })
    }
}

variables!(DoubleConv: conv1, bn1, conv2, bn2);

impl Module for DoubleConv {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let value = self.bn1.forward(&self.conv1.forward(input)).relu();
        self.bn2.forward(&self.conv2.forward(&value)).relu()
    }
}

/// Down with 2×2 max-pooling between the blocks, up again with nearest upsampling, where each block also sees the
/// output of its counterpart on the way down. From `[batch, channels, height, width]` to `[batch, classes, height,
/// width]`.
#[derive(Debug)]
pub struct UNet {
    down: Vec<DoubleConv>,
    bottom: DoubleConv,
    up: Vec<DoubleConv>,
    head: Conv2d,
}

impl UNet {
    /// Channels from the top to the bottom of the usual model.
    pub const WIDTHS: [usize; 4] = [16, 32, 64, 128];

    /// `widths` are the channels from the top to the bottom; sides must divide by 2 once for each but the last.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    pub fn new(channels: usize, widths: &[usize], classes: usize, init: &Init) -> Result<Self> {
        let [above @ .., bottom] = widths else { panic!("unet: no widths") };
        let mut inputs = channels;
        let mut down = Vec::new();
        for (index, &outputs) in above.iter().enumerate() {
            down.push(DoubleConv::new(inputs, outputs, &init.at(format_args!("down.{index}")))?);
            inputs = outputs;
        }
        let middle = DoubleConv::new(inputs, *bottom, &init.at("bottom"))?;
        inputs = *bottom;
        let mut up = Vec::new();
        for (index, &outputs) in above.iter().rev().enumerate() {
            up.push(DoubleConv::new(inputs + outputs, outputs, &init.at(format_args!("up.{index}")))?);
            inputs = outputs;
        }
        let head = Conv2d::new(inputs, classes, 1, ConvOptions::default(), &init.at("head"))?;
        Ok(Self { down, bottom: middle, up, head })
    }
}

variables!(UNet: down, bottom, up, head);

impl Module for UNet {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let mut skips = Vec::new();
        let mut value = input.clone();
        for layers in &self.down {
            let skip = block(layers, &value);
            value = skip.max_pool2d(2, 2, 0);
            skips.push(skip);
        }
        value = block(&self.bottom, &value);
        for (layers, skip) in self.up.iter().zip(skips.iter().rev()) {
            value = block(layers, &Tensor::cat(&[&value.upsample_nearest2d([2, 2]), skip], 1));
        }
        self.head.forward(&value)
    }
}
