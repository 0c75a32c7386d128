//! Lookup in learned tables.

use crate::error::Result;
use crate::runtime::Var;
use crate::tensor::Tensor;
use crate::variables;

use super::module::Scope;
use super::{Init, Initial, Module};

/// Rows of a learned table: from indices `[..]` to `[.., width]`.
#[derive(Debug)]
pub struct Embedding {
    /// `[count, width]`
    pub weight: Var,
    padding: Option<usize>,
    scope: Scope,
}

impl Embedding {
    /// A table of `count` rows, drawn from the standard normal distribution as in PyTorch.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    pub fn new(count: usize, width: usize, init: &Init) -> Result<Self> {
        Self::with_initial(count, width, Initial::Normal { deviation: 1.0 }, init)
    }

    /// A table with these first values.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    #[track_caller]
    pub fn with_initial(count: usize, width: usize, initial: Initial, init: &Init) -> Result<Self> {
        let weight = init.parameter("weight", [count, width], initial)?;
        Ok(Self { weight, padding: None, scope: Scope::new("Embedding", init.path()) })
    }

    /// Row `padding` is zero at first and learns nothing: PyTorch's `padding_idx`.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    #[track_caller]
    pub fn with_padding(count: usize, width: usize, padding: usize, init: &Init) -> Result<Self> {
        assert!(padding < count, "embedding: padding row {padding} of {count}");
        let table = Self::new(count, width, init)?;
        let row = Tensor::arange(count, init.device()).eq(padding as i32).unsqueeze(1);
        table.weight.set(&row.where_(0.0, table.weight.tensor()))?;
        Ok(Self { padding: Some(padding), ..table })
    }
}

variables!(Embedding: weight);

impl Module for Embedding {
    /// `input`: integers below `count`; others become an error when the result is read.
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let _scope = self.scope.enter();
        rows(&self.weight, input, self.padding)
    }
}

/// Rows of `table`; no gradient reaches row `padding`.
#[track_caller]
pub(super) fn rows(table: &Var, index: &Tensor, padding: Option<usize>) -> Tensor {
    let rows = table.embedding(index);
    match padding {
        Some(padding) => index.eq(padding as i32).unsqueeze(-1).where_(rows.detach(), rows),
        None => rows,
    }
}
