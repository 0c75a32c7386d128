//! Gradient clipping.

use crate::tensor::Tensor;

/// Which norm of all gradients together.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Norm {
    /// `sqrt(Σ g²)`
    #[default]
    Euclidean,
    /// `Σ |g|`
    Sum,
    /// `max |g|`
    Max,
    /// `(Σ |g|^p)^(1/p)` for this `p > 0`.
    Power(f32),
}

impl Norm {
    /// The norm itself, of which infinity is the largest.
    #[track_caller]
    pub(super) fn checked(self) -> Self {
        match self {
            Self::Power(f32::INFINITY) => Self::Max,
            Self::Power(p) => {
                assert!(p > 0.0, "Norm::Power: {p} is not positive");
                self
            }
            other => other,
        }
    }

    /// The norm of `tensors` as if they were one vector, of shape `[]`.
    pub(super) fn of(self, tensors: &[Tensor]) -> Option<Tensor> {
        let sum = |f: &dyn Fn(&Tensor) -> Tensor| tensors.iter().map(|tensor| f(tensor).sum()).reduce(|a, b| a + b);
        match self {
            Self::Euclidean => Some(sum(&|tensor| tensor.square())?.sqrt()),
            Self::Sum => sum(&|tensor| tensor.abs()),
            Self::Max => tensors.iter().map(|tensor| tensor.abs().max()).reduce(|a, b| a.maximum(b)),
            Self::Power(p) => Some(sum(&|tensor| tensor.abs().pow(p))?.pow(1.0 / p)),
        }
    }
}

/// Scales `gradients` by `min(1, max_norm / (norm + 1e-6))`, where `norm` is that of all of them together: PyTorch's
/// `clip_grad_norm_`. Also returns the norm before, of shape `[]`.
///
/// ```
/// use brasa::optim::{Norm, clip_grad_norm};
/// use brasa::{Device, Result, Tensor};
///
/// # fn main() -> Result<()> {
/// let gradient = Tensor::from_slice(&[3.0_f32, 4.0], [2], &Device::cpu())?;
/// let (clipped, norm) = clip_grad_norm(&[gradient], 1.0, Norm::Euclidean);
/// assert_eq!(norm.item::<f32>()?, 5.0);
/// assert!((clipped[0].to_vec::<f32>()?[0] - 0.6).abs() < 1e-6);
/// # Ok(())
/// # }
/// ```
///
/// # Panics
/// If there are no gradients, or the norm's power is not positive.
#[track_caller]
pub fn clip_grad_norm(gradients: &[Tensor], max_norm: f32, norm: Norm) -> (Vec<Tensor>, Tensor) {
    let Some(norm) = norm.checked().of(gradients) else { panic!("clip_grad_norm: no gradients") };
    let factor = ((&norm + 1e-6).reciprocal() * max_norm).minimum(1.0);
    (gradients.iter().map(|gradient| gradient * &factor).collect(), norm)
}

/// Limits every element to `-max_value..=max_value`: PyTorch's `clip_grad_value_`.
#[track_caller]
pub fn clip_grad_value(gradients: &[Tensor], max_value: f32) -> Vec<Tensor> {
    gradients.iter().map(|gradient| gradient.clamp(-max_value, max_value)).collect()
}
