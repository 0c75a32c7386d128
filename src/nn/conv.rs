//! Convolutions over one to three spatial axes.

use crate::error::Result;
use crate::ops::conv::ConvOptions;
use crate::ops::ok;
use crate::runtime::Var;
use crate::shape::Shape;
use crate::tensor::{PadMode, Tensor};
use crate::variables;

use super::module::Scope;
use super::{Init, Initial, Module};

/// Cross-correlation of `[batch, inputs, length]` with learned kernels.
pub type Conv1d = Conv<1>;
/// Cross-correlation of `[batch, inputs, height, width]` with learned kernels.
pub type Conv2d = Conv<2>;
/// Cross-correlation of `[batch, inputs, depth, height, width]` with learned kernels.
pub type Conv3d = Conv<3>;

/// Cross-correlation of `[batch, inputs, size..]` with learned kernels, to `[batch, outputs, size'..]`; the batch's
/// axis may be missing.
#[derive(Debug)]
pub struct Conv<const AXES: usize> {
    /// `[outputs, inputs / groups, kernel..]`
    pub weight: Var,
    /// `[outputs]`
    pub bias: Option<Var>,
    options: ConvOptions,
    border: Option<PadMode>,
    scope: Scope,
}

impl<const AXES: usize> Conv<AXES> {
    /// With bias; weights as PyTorch draws them ([`Initial::pytorch_default`]). `kernel`: one size, or one for each
    /// axis.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    #[track_caller]
    pub fn new(
        inputs: usize,
        outputs: usize,
        kernel: impl Into<Shape>,
        options: ConvOptions,
        init: &Init,
    ) -> Result<Self> {
        let kernel = sizes::<AXES>(kernel);
        let initial = pytorch_default((inputs, outputs), inputs, &kernel, &options);
        Self::with_initial(inputs, outputs, kernel, options, initial, Some(initial), init)
    }

    /// The same without bias: for convolutions that a batch norm follows.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    #[track_caller]
    pub fn without_bias(
        inputs: usize,
        outputs: usize,
        kernel: impl Into<Shape>,
        options: ConvOptions,
        init: &Init,
    ) -> Result<Self> {
        let kernel = sizes::<AXES>(kernel);
        let initial = pytorch_default((inputs, outputs), inputs, &kernel, &options);
        Self::with_initial(inputs, outputs, kernel, options, initial, None, init)
    }

    /// With these first values.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    #[track_caller]
    pub fn with_initial(
        inputs: usize,
        outputs: usize,
        kernel: impl Into<Shape>,
        options: ConvOptions,
        weight: Initial,
        bias: Option<Initial>,
        init: &Init,
    ) -> Result<Self> {
        let kernel = sizes::<AXES>(kernel);
        check(inputs, outputs, &kernel, &options);
        let shape = [&[outputs, inputs / options.groups], &kernel[..]].concat();
        Ok(Self {
            weight: init.parameter("weight", shape, weight)?,
            bias: match bias {
                Some(bias) => Some(init.parameter("bias", outputs, bias)?),
                None => None,
            },
            options,
            border: None,
            scope: Scope::over(AXES, ["Conv1d", "Conv2d", "Conv3d"], init.path()),
        })
    }

    /// Pads with elements from inside instead of zeros: PyTorch's `padding_mode`.
    #[must_use]
    pub fn padding_mode(mut self, mode: PadMode) -> Self {
        self.border = Some(mode);
        self
    }

    /// The input with its border, and the options for what is left to do.
    #[track_caller]
    fn padded(&self, input: &Tensor, mode: PadMode) -> (Tensor, ConvOptions) {
        let (name, kernel) = (["conv1d", "conv2d", "conv3d"][AXES - 1], &self.weight.shape()[2..]);
        let own = if self.options.same {
            self.options.same_widths(name, kernel)
        } else {
            self.options
                .windows(name, kernel)
                .map(|windows| windows.iter().map(|window| (window.padding, window.padding)).collect::<Vec<_>>())
        };
        let mut widths = vec![(0, 0); input.rank().saturating_sub(AXES)];
        match own {
            Ok(own) => widths.extend(own),
            Err(error) => panic!("{error}"),
        }
        let options = ConvOptions { padding: vec![0], same: false, ..self.options.clone() };
        (input.pad_mode(&widths, mode), options)
    }

    #[track_caller]
    fn convolve(&self, input: &Tensor, options: &ConvOptions) -> Tensor {
        let (weight, bias) = (self.weight.tensor(), self.bias.as_ref().map(Var::tensor));
        match AXES {
            1 => input.conv1d(&weight, bias.as_ref(), options),
            2 => input.conv2d(&weight, bias.as_ref(), options),
            _ => input.conv3d(&weight, bias.as_ref(), options),
        }
    }
}

variables!(impl[const AXES: usize] Conv<AXES>: weight, bias);

impl<const AXES: usize> Module for Conv<AXES> {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let _scope = self.scope.enter();
        match self.border {
            None => self.convolve(input, &self.options),
            Some(mode) => {
                let (input, options) = self.padded(input, mode);
                self.convolve(&input, &options)
            }
        }
    }
}

/// The transpose of a convolution of `[batch, .., length]`.
pub type ConvTranspose1d = ConvTranspose<1>;
/// The transpose of a convolution of `[batch, .., height, width]`.
pub type ConvTranspose2d = ConvTranspose<2>;
/// The transpose of a convolution of `[batch, .., depth, height, width]`.
pub type ConvTranspose3d = ConvTranspose<3>;

/// The transpose of a convolution: from `[batch, inputs, size..]` to `[batch, outputs, size'..]` with
/// `size' = (size - 1) · stride - 2 · padding + dilation · (kernel - 1) + output_padding + 1`.
#[derive(Debug)]
pub struct ConvTranspose<const AXES: usize> {
    /// `[inputs, outputs / groups, kernel..]`
    pub weight: Var,
    /// `[outputs]`
    pub bias: Option<Var>,
    options: ConvOptions,
    scope: Scope,
}

impl<const AXES: usize> ConvTranspose<AXES> {
    /// With bias; weights as PyTorch draws them, which takes `outputs / groups · kernel` for the fan-in.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    #[track_caller]
    pub fn new(
        inputs: usize,
        outputs: usize,
        kernel: impl Into<Shape>,
        options: ConvOptions,
        init: &Init,
    ) -> Result<Self> {
        let kernel = sizes::<AXES>(kernel);
        let bias = pytorch_default((inputs, outputs), outputs, &kernel, &options);
        let layer = Self::without_bias(inputs, outputs, kernel, options, init)?;
        Ok(Self { bias: Some(init.parameter("bias", outputs, bias)?), ..layer })
    }

    /// The same without bias.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    #[track_caller]
    pub fn without_bias(
        inputs: usize,
        outputs: usize,
        kernel: impl Into<Shape>,
        options: ConvOptions,
        init: &Init,
    ) -> Result<Self> {
        let kernel = sizes::<AXES>(kernel);
        let initial = pytorch_default((inputs, outputs), outputs, &kernel, &options);
        let shape = [&[inputs, outputs / options.groups], &kernel[..]].concat();
        let weight = init.parameter("weight", shape, initial)?;
        Ok(Self {
            weight,
            bias: None,
            options,
            scope: Scope::over(AXES, ["ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"], init.path()),
        })
    }
}

variables!(impl[const AXES: usize] ConvTranspose<AXES>: weight, bias);

impl<const AXES: usize> Module for ConvTranspose<AXES> {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let _scope = self.scope.enter();
        let (weight, bias) = (self.weight.tensor(), self.bias.as_ref().map(Var::tensor));
        match AXES {
            1 => input.conv_transpose1d(&weight, bias.as_ref(), &self.options),
            2 => input.conv_transpose2d(&weight, bias.as_ref(), &self.options),
            _ => input.conv_transpose3d(&weight, bias.as_ref(), &self.options),
        }
    }
}

/// What PyTorch draws weights and biases from, with `channels / groups · kernel` for the fan-in.
#[track_caller]
fn pytorch_default(
    (inputs, outputs): (usize, usize),
    channels: usize,
    kernel: &[usize],
    options: &ConvOptions,
) -> Initial {
    check(inputs, outputs, kernel, options);
    Initial::pytorch_default(channels / options.groups * kernel.iter().product::<usize>())
}

/// One size for each axis.
#[track_caller]
fn sizes<const AXES: usize>(kernel: impl Into<Shape>) -> Vec<usize> {
    const { assert!(AXES >= 1 && AXES <= 3, "one to three spatial axes") }
    let kernel = kernel.into();
    let sizes = if kernel.rank() == 1 { vec![kernel[0]; AXES] } else { kernel.to_vec() };
    assert!(sizes.len() == AXES && !sizes.contains(&0), "convolution: a kernel of {kernel} for {AXES} axes");
    sizes
}

#[track_caller]
fn check(inputs: usize, outputs: usize, kernel: &[usize], options: &ConvOptions) {
    ok(options.windows("convolution", kernel));
    assert!(
        options.groups > 0 && inputs.is_multiple_of(options.groups) && outputs.is_multiple_of(options.groups),
        "convolution: {inputs} inputs and {outputs} outputs do not divide into {} groups",
        options.groups
    );
}
