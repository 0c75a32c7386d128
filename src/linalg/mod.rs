//! Decompositions and solvers of linear algebra, with gradients of any order: PyTorch's `torch.linalg`.
//!
//! The last two axes of a tensor are matrices, those before them a batch; all of a batch are worked on together. Values
//! are computed in f32, whatever [`autocast`](crate::tensor::autocast) is under way; f16 comes back as f16, and integers
//! are f32.
//!
//! Nothing here is an error of a device: where a matrix is not positive definite, or exactly singular, results are
//! infinite or NaN, which [`check_finite`](crate::runtime::check_finite) finds in a training (PyTorch raises an error,
//! for which it has to wait for the device). One that is singular but for rounding gives results as large as that makes
//! them; [`cond`] tells.
//!
//! Small blocks, panels of 64 columns and the rotations of pairs of columns are kernels of their own
//! ([`custom`](crate::custom), in `shaders/linalg`); what is larger is cut in halves that meet in products of matrices, which a device's
//! [`MatmulPrecision`](crate::MatmulPrecision) is for.
//! On the CPU those kernels compute in f64, and round what they return.
//!
//! ```
//! use brasa::{Device, Tensor, autodiff, linalg};
//!
//! // how likely a draw from a normal distribution is, and how that depends on its covariance
//! let device = Device::best()?;
//! let covariance = Tensor::from_slice(&[2.0_f32, 0.5, 0.5, 1.0], [2, 2], &device)?;
//! let x = Tensor::from_slice(&[0.3_f32, -0.7], [2], &device)?;
//! let l = linalg::cholesky(&covariance);
//! let distance = x.dot(&linalg::cholesky_solve(&x, &l));
//! let log_determinant = l.diagonal(0, 0, 1).log().sum() * 2.0;
//! let log_likelihood = (distance + log_determinant + 2.0 * std::f32::consts::TAU.ln()) * -0.5;
//! let gradient = &autodiff::grad(&log_likelihood, &[&covariance])[0];
//! assert_eq!(gradient.shape().dims(), [2, 2]);
//! # Ok::<(), brasa::Error>(())
//! ```

mod cholesky;
mod eigen;
mod jacobi;
mod lu;
mod matrices;
mod qr;
mod svd;
mod system;
mod triangular;

pub use cholesky::{cholesky, cholesky_solve};
pub use eigen::{eigh, eigvalsh};
pub use lu::{det, inv, matrix_power, slogdet, solve};
pub use qr::{lstsq, qr};
pub use svd::{cond, matrix_rank, pinv, svd, svdvals};
pub use triangular::{Triangle, solve_triangular};
