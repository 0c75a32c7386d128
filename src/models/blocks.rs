//! What several networks are made of.

use crate::error::Result;
use crate::nn::{Conv2d, Init, Initial, Linear};
use crate::ops::conv::ConvOptions;

/// A square convolution without bias that a batch norm follows, drawn from the normal distribution with the deviation
/// sqrt(2 / fan_out), as in torchvision's networks.
pub(super) fn conv(inputs: usize, outputs: usize, kernel: usize, options: ConvOptions, init: &Init) -> Result<Conv2d> {
    Conv2d::with_initial(inputs, outputs, kernel, options, he(outputs, kernel), None, init)
}

/// Normal with the deviation sqrt(2 / fan_out), where PyTorch's `fan_out` counts all outputs, those of other groups,
/// too.
pub(super) fn he(outputs: usize, kernel: usize) -> Initial {
    Initial::kaiming_normal(outputs * kernel * kernel)
}

/// A linear layer with a normal weight of deviation 0.01 and a bias of zero: the heads of torchvision's older networks.
pub(super) fn head(inputs: usize, outputs: usize, init: &Init) -> Result<Linear> {
    let weight = Initial::Normal { deviation: 0.01 };
    Linear::with_initial(inputs, outputs, weight, Some(Initial::Constant(0.0)), init)
}
