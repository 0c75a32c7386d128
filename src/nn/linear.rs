//! Matrix products with learned weights.

use crate::error::Result;
use crate::graph::refuse;
use crate::runtime::Var;
use crate::tensor::Tensor;
use crate::variables;

use super::module::Scope;
use super::{Init, Initial, Module, Variables};

/// `y = x · weightᵀ + bias`, from `[.., inputs]` to `[.., outputs]`.
#[derive(Debug)]
pub struct Linear {
    /// `[outputs, inputs]`
    pub weight: Var,
    /// `[outputs]`
    pub bias: Option<Var>,
    scope: Scope,
    /// The name that a weight of another layer goes by here.
    tied: Option<String>,
}

impl Linear {
    /// A layer with bias; weights as PyTorch draws them ([`Initial::pytorch_default`]).
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    pub fn new(inputs: usize, outputs: usize, init: &Init) -> Result<Self> {
        Self::with_bias(inputs, outputs, Initial::pytorch_default(inputs), init)
    }

    /// A layer with this first bias.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    #[track_caller]
    pub fn with_bias(inputs: usize, outputs: usize, bias: Initial, init: &Init) -> Result<Self> {
        Self::with_initial(inputs, outputs, Initial::pytorch_default(inputs), Some(bias), init)
    }

    /// A layer without bias.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    pub fn without_bias(inputs: usize, outputs: usize, init: &Init) -> Result<Self> {
        Self::with_initial(inputs, outputs, Initial::pytorch_default(inputs), None, init)
    }

    /// A layer with these first values.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    #[track_caller]
    pub fn with_initial(
        inputs: usize,
        outputs: usize,
        weight: Initial,
        bias: Option<Initial>,
        init: &Init,
    ) -> Result<Self> {
        let weight = init.parameter("weight", [outputs, inputs], weight)?;
        let bias = match bias {
            Some(bias) => Some(init.parameter("bias", outputs, bias)?),
            None => None,
        };
        Ok(Self { weight, bias, scope: Scope::new("Linear", init.path()), tied: None })
    }

    /// A layer without bias that shares another layer's weight, `[outputs, inputs]`, such as an embedding's, from
    /// features back to logits (Press and Wolf, arXiv 1608.05859).
    pub fn tied(weight: &Var, init: &Init) -> Self {
        let tied = Some(init.join("weight"));
        Self { weight: weight.clone(), bias: None, scope: Scope::new("Linear", init.path()), tied }
    }
}

impl Variables for Linear {
    fn visit(&self, visitor: &mut dyn FnMut(&Var)) {
        visitor(&self.weight);
        self.bias.iter().for_each(visitor);
    }

    fn visit_tied(&self, visitor: &mut dyn FnMut(&str, &Var)) {
        self.tied.iter().for_each(|name| visitor(name, &self.weight));
    }
}

impl Module for Linear {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let _scope = self.scope.enter();
        linear(input, &self.weight, self.bias.as_ref())
    }
}

/// `x · weightᵀ + bias`
#[track_caller]
pub(super) fn linear(input: &Tensor, weight: &Var, bias: Option<&Var>) -> Tensor {
    input.linear(&weight.tensor(), bias.map(Var::tensor).as_ref())
}

/// `y_k = a · weight_k · bᵀ + bias_k`, from `[.., first]` and `[.., second]` to `[.., outputs]`.
#[derive(Debug)]
pub struct Bilinear {
    /// `[outputs, first, second]`
    pub weight: Var,
    /// `[outputs]`
    pub bias: Var,
    scope: Scope,
}

impl Bilinear {
    /// All values uniform within 1/√first, as in PyTorch.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    pub fn new(first: usize, second: usize, outputs: usize, init: &Init) -> Result<Self> {
        let initial = Initial::pytorch_default(first);
        Ok(Self {
            weight: init.parameter("weight", [outputs, first, second], initial)?,
            bias: init.parameter("bias", outputs, initial)?,
            scope: Scope::new("Bilinear", init.path()),
        })
    }

    /// The output for two inputs whose shapes agree except for the last axis.
    #[track_caller]
    pub fn forward(&self, a: &Tensor, b: &Tensor) -> Tensor {
        let _scope = self.scope.enter();
        let [outputs, first, second] = self.weight.shape()[..] else { unreachable!("made with three axes") };
        let fits = |input: &Tensor, width: usize| input.shape().last() == Some(&width);
        if !fits(a, first) || !fits(b, second) || a.shape()[..a.rank() - 1] != b.shape()[..b.rank() - 1] {
            let (a, b) = (a.shape(), b.shape());
            refuse(format_args!(
                "bilinear: {a} and {b}, not [.., {first}] and [.., {second}] with the same axes before"
            ));
        }
        let weight = self.weight.tensor();
        // [.., outputs · second], then a sum over the second input
        let half = a.linear(&weight.transpose(1, 2).reshape([outputs * second, first]), None);
        let split = half.unflatten(-1, [outputs.cast_signed(), second.cast_signed()]);
        (split * b.unsqueeze(-2)).sum_dim(-1) + self.bias.tensor()
    }
}

variables!(Bilinear: weight, bias);
