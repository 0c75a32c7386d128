//! Matrix products with learned weights, and lookup in a learned table.

use crate::error::Result;
use crate::runtime::Var;
use crate::tensor::Tensor;

use super::module::Scope;
use super::{Init, Initial, Module};

/// `y = x · weightᵀ + bias`, from `[.., inputs]` to `[.., outputs]`.
pub struct Linear {
    /// `[outputs, inputs]`
    pub weight: Var,
    /// `[outputs]`
    pub bias: Option<Var>,
    scope: Scope,
}

impl Linear {
    /// A layer with bias; weights as PyTorch draws them ([`Initial::pytorch_default`]).
    pub fn new(inputs: usize, outputs: usize, init: &Init) -> Result<Self> {
        Self::with_bias(inputs, outputs, Initial::pytorch_default(inputs), init)
    }

    /// A layer with this first bias.
    pub fn with_bias(inputs: usize, outputs: usize, bias: Initial, init: &Init) -> Result<Self> {
        let layer = Self::without_bias(inputs, outputs, init)?;
        Ok(Self { bias: Some(init.parameter("bias", outputs, bias)?), ..layer })
    }

    /// A layer without bias.
    pub fn without_bias(inputs: usize, outputs: usize, init: &Init) -> Result<Self> {
        let weight = init.parameter("weight", [outputs, inputs], Initial::pytorch_default(inputs))?;
        Ok(Self { weight, bias: None, scope: Scope::new(init.path()) })
    }
}

impl Module for Linear {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        self.scope.run(|| linear(input, &self.weight, self.bias.as_ref()))
    }

    fn visit(&self, visitor: &mut dyn FnMut(&Var)) {
        visitor(&self.weight);
        self.bias.iter().for_each(visitor);
    }
}

/// `x · weightᵀ + bias`
#[track_caller]
pub(super) fn linear(input: &Tensor, weight: &Var, bias: Option<&Var>) -> Tensor {
    input.linear(&weight.tensor(), bias.map(Var::tensor).as_ref())
}

/// Rows of a learned table: from indices `[..]` to `[.., width]`.
pub struct Embedding {
    /// `[count, width]`
    pub weight: Var,
    scope: Scope,
}

impl Embedding {
    /// A table of `count` rows, drawn from the standard normal distribution as in PyTorch.
    pub fn new(count: usize, width: usize, init: &Init) -> Result<Self> {
        let weight = init.parameter("weight", [count, width], Initial::Normal { deviation: 1.0 })?;
        Ok(Self { weight, scope: Scope::new(init.path()) })
    }
}

impl Module for Embedding {
    /// `input`: integers below `count`; others become an error when the result is read.
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        self.scope.run(|| self.weight.tensor().embedding(input))
    }

    fn visit(&self, visitor: &mut dyn FnMut(&Var)) {
        visitor(&self.weight);
    }
}
