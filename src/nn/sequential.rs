//! Modules one after the other, and around a shortcut.

use crate::graph::model;
use crate::tensor::Tensor;
use crate::variables;

use super::Module;

/// Applies its modules in order.
///
/// Functions without variables join through [`Sequential::then`]. They count as PyTorch's modules do, so that the keys
/// agree: in Linear, ReLU, Linear the second linear layer is at `init.at(2)`.
#[derive(Default, Debug)]
pub struct Sequential {
    modules: Vec<Box<dyn Module>>,
}

impl Sequential {
    /// The identity.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `module` at the end.
    #[must_use]
    pub fn push(mut self, module: impl Module + 'static) -> Self {
        self.modules.push(Box::new(module));
        self
    }

    /// Adds a function of a tensor at the end, such as `Tensor::relu`.
    #[must_use]
    pub fn then(self, function: impl Fn(&Tensor) -> Tensor + Send + Sync + 'static) -> Self {
        self.push(Function(function))
    }

    /// Number of modules, functions included; the index the next one will have.
    pub fn len(&self) -> usize {
        self.modules.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.modules.is_empty()
    }
}

variables!(Sequential: modules);

impl Module for Sequential {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let _model = model();
        self.modules.iter().fold(input.clone(), |value, module| module.forward(&value))
    }
}

/// `x + module(x)`, for a module whose output has its input's shape. It adds nothing to the names of variables.
#[derive(Debug)]
pub struct Residual<M>(pub M);

variables!(impl[M: Module] Residual<M>: 0);

impl<M: Module> Module for Residual<M> {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        input + self.0.forward(input)
    }
}

/// A module that is a [`block`](super::block) of its model. It adds nothing to the names of variables.
#[derive(Debug)]
pub struct Block<M>(pub M);

variables!(impl[M: Module] Block<M>: 0);

impl<M: Module> Module for Block<M> {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        super::block(&self.0, input)
    }
}

struct Function<F>(F);

variables!(impl[F: Fn(&Tensor) -> Tensor + Send + Sync] Function<F>);

impl<F: Fn(&Tensor) -> Tensor + Send + Sync> Module for Function<F> {
    fn forward(&self, input: &Tensor) -> Tensor {
        (self.0)(input)
    }
}
