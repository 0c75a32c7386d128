//! Losses, with PyTorch's names, formulas and defaults. Each has a reduction: the mean, the sum, or one value per
//! element.
//!
//! Shapes must be the same, where PyTorch would broadcast: `[n, 1]` against `[n]` would silently compare all pairs.
//!
//! ```
//! use brasa::tensor::{CrossEntropy, Reduction};
//! use brasa::{Device, Result, Tensor};
//!
//! # fn main() -> Result<()> {
//! let device = Device::cpu();
//! let logits = Tensor::from_slice(&[2.0_f32, 0.0, 0.0, 3.0], [2, 2], &device)?;
//! let labels = Tensor::from_slice(&[0, -100], [2], &device)?;
//! let options = CrossEntropy { ignore_index: Some(-100), label_smoothing: 0.1, ..CrossEntropy::default() };
//! let loss = logits.cross_entropy_with(&labels, &options).item::<f32>()?;
//! // 0.95 · ln(1 + e^-2) + 0.05 · ln(1 + e^2)
//! assert!((loss - 0.226_93).abs() < 1e-5);
//!
//! let weights = logits.sigmoid();
//! let distances = weights.smooth_l1_loss(&logits, 1.0, Reduction::None);
//! assert_eq!(*distances.shape(), [2, 2].into());
//! # Ok(())
//! # }
//! ```

mod binary;
mod classes;
mod ctc;
mod distance;
mod distribution;
mod overlap;
mod ranking;

pub use binary::BinaryCrossEntropy;
pub use classes::{CrossEntropy, NLLLoss};
pub use ctc::CTCLoss;
pub use ranking::TripletMargin;

use super::Tensor;

/// What becomes of the losses of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Reduction {
    /// Their mean, of shape `[]`.
    #[default]
    Mean,
    /// Their sum, of shape `[]`.
    Sum,
    /// They stay apart.
    None,
}

impl Reduction {
    #[track_caller]
    fn apply(self, losses: &Tensor) -> Tensor {
        match self {
            Self::Mean => losses.mean(),
            Self::Sum => losses.sum(),
            Self::None => losses.clone(),
        }
    }
}

impl Tensor {
    #[track_caller]
    fn assert_same_shape(&self, name: &str, target: &Self) {
        assert!(self.shape() == target.shape(), "{name}: {} with target {}", self.shape(), target.shape());
    }

    /// Both, of one shape and one type; under an autocast in f32, as PyTorch computes losses.
    #[track_caller]
    fn alike(&self, name: &str, target: &Self) -> [Self; 2] {
        self.assert_same_shape(name, target);
        let [own, its] = [self, target].map(Self::full_precision);
        let (dtype, other) = (own.dtype(), its.dtype());
        assert!(dtype == other, "{name}: {dtype} with target {other}; cast one with to_dtype");
        [own, its]
    }

    /// 0 where negative, with gradient 0 at 0, as PyTorch's `clamp_min(0)`; NaN stays.
    #[track_caller]
    fn hinge(&self) -> Self {
        self.le(0.0).where_(0.0, self)
    }
}
