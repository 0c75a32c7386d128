//! Rows of a table, joined.

use crate::dtype::DType;
use crate::error::Result;
use crate::graph::refuse;
use crate::runtime::Var;
use crate::tensor::{ScatterOp, Tensor};
use crate::variables;

use super::embedding::rows;
use super::module::Scope;
use super::{Embedding, Init, Module};

/// How an [`EmbeddingBag`] joins the rows of a bag.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BagMode {
    /// Their sum.
    Sum,
    /// Their mean.
    #[default]
    Mean,
    /// The largest of each feature. Of equal ones the first takes the gradient; with offsets they share it (PyTorch: the
    /// first).
    Max,
}

/// The rows of each bag of indices joined: from `[batch, bag]` to `[batch, width]`. Bags of one size are a matrix,
/// filled up with the padding index, which is ignored; others follow one another ([`EmbeddingBag::with_offsets`]).
#[derive(Debug)]
pub struct EmbeddingBag {
    /// `[count, width]`
    pub weight: Var,
    mode: BagMode,
    padding: Option<usize>,
    scope: Scope,
}

impl EmbeddingBag {
    /// A table of `count` rows, drawn from the standard normal distribution as in PyTorch.
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    #[track_caller]
    pub fn new(count: usize, width: usize, mode: BagMode, padding: Option<usize>, init: &Init) -> Result<Self> {
        let table = match padding {
            Some(padding) => Embedding::with_padding(count, width, padding, init)?,
            None => Embedding::new(count, width, init)?,
        };
        Ok(Self { weight: table.weight, mode, padding, scope: Scope::new("EmbeddingBag", init.path()) })
    }

    /// Bags of any size: bag `n` are the elements of `index` (`[count]`) from `offsets[n]` (integers, `[batch]`,
    /// ascending from 0) to the one before `offsets[n + 1]`. An empty one is zero. Rows are multiplied by `weights`,
    /// `[count]`: PyTorch's `per_sample_weights`.
    ///
    /// # Panics
    /// If shapes differ, or there are weights and rows are not summed.
    #[track_caller]
    pub fn with_offsets(&self, index: &Tensor, offsets: &Tensor, weights: Option<&Tensor>) -> Tensor {
        let _scope = self.scope.enter();
        if index.rank() != 1 || offsets.rank() != 1 {
            let (index, offsets) = (index.shape(), offsets.shape());
            refuse(format_args!("embedding bag: indices {index} and offsets {offsets} are not vectors"));
        }
        let rows = self.weighted_rows(index, weights);
        let (count, batch) = (index.numel(), offsets.numel());
        let position = Tensor::iota([count], 0, index.device()).to_dtype(offsets.dtype());
        // elements before the first bag are an index out of range
        let bag = offsets.searchsorted(&position, true) - 1;
        let zeros = Tensor::zeros_of([batch, rows.size(1)], rows.dtype(), rows.device());
        let counts = self.counts(index).to_dtype(rows.dtype());
        let size = bag.bincount_with(&counts, batch).unsqueeze(1);
        let filled = |nothing: f64| counts.ne(0.0).unsqueeze(1).where_(&rows, nothing);
        match self.mode {
            BagMode::Sum => zeros.index_add(0, &bag, &filled(0.0)),
            BagMode::Mean => zeros.index_add(0, &bag, &filled(0.0)) / size.maximum(1.0),
            BagMode::Max => {
                let bag = bag.unsqueeze(1).expand(rows.shape());
                let largest = zeros.scatter_reduce(0, &bag, filled(f64::NEG_INFINITY), ScatterOp::Max, false);
                size.eq(0.0).where_(0.0, largest)
            }
        }
    }

    /// As [`Module::forward`], with rows multiplied by `weights`, `[batch, bag]`: PyTorch's `per_sample_weights`.
    ///
    /// # Panics
    /// If shapes differ, or rows are not summed.
    #[track_caller]
    pub fn with_weights(&self, index: &Tensor, weights: &Tensor) -> Tensor {
        let _scope = self.scope.enter();
        self.join(index, Some(weights))
    }

    /// The rows at `index`, multiplied by `weights`.
    #[track_caller]
    fn weighted_rows(&self, index: &Tensor, weights: Option<&Tensor>) -> Tensor {
        let rows = rows(&self.weight, index, self.padding);
        let Some(weights) = weights else { return rows };
        if self.mode != BagMode::Sum {
            refuse(format_args!("embedding bag: weights are for sums, not for {:?}", self.mode));
        }
        if weights.shape() != index.shape() {
            refuse(format_args!("embedding bag: weights {} for indices {}", weights.shape(), index.shape()));
        }
        rows * weights.unsqueeze(-1)
    }

    /// True for the elements of `index` that count.
    #[track_caller]
    fn counts(&self, index: &Tensor) -> Tensor {
        match self.padding {
            Some(padding) => index.ne(padding as i32),
            None => Tensor::ones(index.shape(), index.device()).to_dtype(DType::Bool),
        }
    }

    #[track_caller]
    fn join(&self, index: &Tensor, weights: Option<&Tensor>) -> Tensor {
        if index.rank() != 2 {
            refuse(format_args!("embedding bag: indices {} are not [batch, bag]", index.shape()));
        }
        let rows = self.weighted_rows(index, weights);
        if self.padding.is_none() {
            return match self.mode {
                BagMode::Sum => rows.sum_dim(1),
                BagMode::Mean => rows.mean_dim(1),
                BagMode::Max => rows.max_with_index(1).0,
            };
        }
        let counts = self.counts(index).unsqueeze(-1);
        // a bag of nothing but padding is zero
        let count = counts.to_dtype(rows.dtype()).sum_dim(1);
        match self.mode {
            BagMode::Sum => counts.where_(rows, 0.0).sum_dim(1),
            BagMode::Mean => counts.where_(rows, 0.0).sum_dim(1) / count.maximum(1.0),
            BagMode::Max => count.eq(0.0).where_(0.0, counts.where_(rows, f64::NEG_INFINITY).max_with_index(1).0),
        }
    }
}

variables!(EmbeddingBag: weight);

impl Module for EmbeddingBag {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        let _scope = self.scope.enter();
        self.join(input, None)
    }
}
