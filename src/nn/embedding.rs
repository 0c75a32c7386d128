//! Lookup in learned tables.

use crate::error::Result;
use crate::runtime::Var;
use crate::tensor::Tensor;

use super::module::Scope;
use super::{Init, Initial, Module};

/// Rows of a learned table: from indices `[..]` to `[.., width]`.
pub struct Embedding {
    /// `[count, width]`
    pub weight: Var,
    padding: Option<usize>,
    scope: Scope,
}

impl Embedding {
    /// A table of `count` rows, drawn from the standard normal distribution as in PyTorch.
    pub fn new(count: usize, width: usize, init: &Init) -> Result<Self> {
        Self::with_initial(count, width, Initial::Normal { deviation: 1.0 }, init)
    }

    /// A table with these first values.
    pub fn with_initial(count: usize, width: usize, initial: Initial, init: &Init) -> Result<Self> {
        let weight = init.parameter("weight", [count, width], initial)?;
        Ok(Self { weight, padding: None, scope: Scope::new(init.path()) })
    }

    /// Row `padding` is zero at first and learns nothing: PyTorch's `padding_idx`.
    pub fn with_padding(count: usize, width: usize, padding: usize, init: &Init) -> Result<Self> {
        assert!(padding < count, "embedding: padding row {padding} of {count}");
        let table = Self::new(count, width, init)?;
        let row = Tensor::arange(count, init.device()).eq(padding as i32).unsqueeze(1);
        table.weight.set(&row.where_(0.0, table.weight.tensor()))?;
        Ok(Self { padding: Some(padding), ..table })
    }
}

impl Module for Embedding {
    /// `input`: integers below `count`; others become an error when the result is read.
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        self.scope.run(|| rows(&self.weight.tensor(), input, self.padding))
    }

    fn visit(&self, visitor: &mut dyn FnMut(&Var)) {
        visitor(&self.weight);
    }
}

/// Rows of `table`; no gradient reaches row `padding`.
#[track_caller]
fn rows(table: &Tensor, index: &Tensor, padding: Option<usize>) -> Tensor {
    let rows = table.embedding(index);
    match padding {
        Some(padding) => index.eq(padding as i32).unsqueeze(-1).where_(rows.detach(), rows),
        None => rows,
    }
}

/// How an [`EmbeddingBag`] joins the rows of a bag.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BagMode {
    /// Their sum.
    Sum,
    /// Their mean.
    #[default]
    Mean,
    /// The largest of each feature.
    Max,
}

/// The rows of each bag of indices joined: from `[batch, bag]` to `[batch, width]`. Bags are of one size; those that differ
/// are filled up with the padding index, which counts for nothing.
pub struct EmbeddingBag {
    /// `[count, width]`
    pub weight: Var,
    mode: BagMode,
    padding: Option<usize>,
    scope: Scope,
}

impl EmbeddingBag {
    /// A table of `count` rows, drawn from the standard normal distribution as in PyTorch.
    pub fn new(count: usize, width: usize, mode: BagMode, padding: Option<usize>, init: &Init) -> Result<Self> {
        let table = match padding {
            Some(padding) => Embedding::with_padding(count, width, padding, init)?,
            None => Embedding::new(count, width, init)?,
        };
        Ok(Self { weight: table.weight, mode, padding, scope: table.scope })
    }

    #[track_caller]
    fn join(&self, index: &Tensor) -> Tensor {
        assert!(index.rank() == 2, "embedding bag: indices {} are not [batch, bag]", index.shape());
        let rows = rows(&self.weight.tensor(), index, self.padding);
        let Some(padding) = self.padding else {
            return match self.mode {
                BagMode::Sum => rows.sum_dim(1),
                BagMode::Mean => rows.mean_dim(1),
                BagMode::Max => rows.max_dim(1),
            };
        };
        let counts = index.ne(padding as i32).unsqueeze(-1);
        // a bag of nothing but padding is zero
        let count = counts.to_dtype(rows.dtype()).sum_dim(1);
        match self.mode {
            BagMode::Sum => counts.where_(rows, 0.0).sum_dim(1),
            BagMode::Mean => counts.where_(rows, 0.0).sum_dim(1) / count.maximum(1.0),
            BagMode::Max => count.eq(0.0).where_(0.0, counts.where_(rows, f64::NEG_INFINITY).max_dim(1)),
        }
    }
}

impl Module for EmbeddingBag {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        self.scope.run(|| self.join(input))
    }

    fn visit(&self, visitor: &mut dyn FnMut(&Var)) {
        visitor(&self.weight);
    }
}
