//! Two-dimensional convolution.

use crate::error::Result;
use crate::ops::conv::ConvOptions;
use crate::runtime::Var;
use crate::tensor::Tensor;

use super::module::Scope;
use super::{Init, Initial, Module};

/// Cross-correlation of `[batch, inputs, height, width]` with learned kernels, to `[batch, outputs, height', width']`.
pub struct Conv2d {
    /// `[outputs, inputs / groups, kernel, kernel]`
    pub weight: Var,
    /// `[outputs]`
    pub bias: Option<Var>,
    options: ConvOptions,
    scope: Scope,
}

impl Conv2d {
    /// A square kernel of `kernel` pixels with bias; weights as PyTorch draws them ([`Initial::pytorch_default`]).
    pub fn new(inputs: usize, outputs: usize, kernel: usize, options: ConvOptions, init: &Init) -> Result<Self> {
        let fan_in = inputs / options.groups * kernel * kernel;
        let layer = Self::without_bias(inputs, outputs, kernel, options, init)?;
        Ok(Self { bias: Some(init.parameter("bias", outputs, Initial::pytorch_default(fan_in))?), ..layer })
    }

    /// The same without bias: for convolutions that a batch norm follows.
    pub fn without_bias(
        inputs: usize,
        outputs: usize,
        kernel: usize,
        options: ConvOptions,
        init: &Init,
    ) -> Result<Self> {
        assert!(
            inputs.is_multiple_of(options.groups) && outputs.is_multiple_of(options.groups),
            "conv2d: {inputs} inputs and {outputs} outputs do not divide into {} groups",
            options.groups
        );
        let inputs = inputs / options.groups;
        let initial = Initial::pytorch_default(inputs * kernel * kernel);
        let weight = init.parameter("weight", [outputs, inputs, kernel, kernel], initial)?;
        Ok(Self { weight, bias: None, options, scope: Scope::new(init.path()) })
    }
}

impl Module for Conv2d {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        self.scope
            .run(|| input.conv2d(&self.weight.tensor(), self.bias.as_ref().map(Var::tensor).as_ref(), &self.options))
    }

    fn visit(&self, visitor: &mut dyn FnMut(&Var)) {
        visitor(&self.weight);
        self.bias.iter().for_each(visitor);
    }
}
