//! Eigenvalues of symmetric matrices.

use crate::tensor::Tensor;

use super::jacobi::{columns, orthogonal_columns};
use super::matrices::{Matrices, product, scaled, symmetric, transposed};

/// The eigenvalues of a symmetric A in ascending order, and the matrix of its eigenvectors, orthonormal columns in the
/// same order: `[..., n, n]` → `[..., n]`, `[..., n, n]`. What is above the diagonal is not read. An eigenvector's sign
/// is arbitrary, and so is the basis of those of one eigenvalue: gradients of vectors are right for functions that do
/// not depend on signs, and of eigenvalues that differ from all others; where two are the same they are not finite
/// (PyTorch's too). PyTorch's `torch.linalg.eigh`.
///
/// Computed by Jacobi's rotations, in f32 to a few roundings of the largest eigenvalue. They are for batches of small
/// matrices and for GPUs: for one matrix of hundreds of rows, a CPU library takes a thirtieth of the time that they take
/// on the CPU.
///
/// ```
/// use brasa::{Device, Tensor, linalg};
///
/// let a = Tensor::from_slice(&[2.0_f32, 1.0, 1.0, 2.0], [2, 2], &Device::cpu())?;
/// let (values, vectors) = linalg::eigh(&a);
/// let again = vectors.matmul(&values.diag_embed(0)).matmul(&vectors.t());
/// assert!(again.allclose(&a, 1e-5, 1e-6)?);
/// let values = values.to_vec::<f32>()?;
/// assert!((values[0] - 1.0).abs() < 1e-6 && (values[1] - 3.0).abs() < 1e-6);
/// # Ok::<(), brasa::Error>(())
/// ```
///
/// # Panics
///
/// If A is not square.
#[track_caller]
#[must_use]
pub fn eigh(a: &Tensor) -> (Tensor, Tensor) {
    let matrices = Matrices::square("eigh", a);
    let size = a.size(-1);
    let both = decomposed(&matrices.all).with_gradient(&[&matrices.all], move |both, _, gradient| {
        let ((v, values), (by_v, by_values)) = (parts(both, size), parts(gradient, size));
        let slope = product(&transposed(&v), &by_v);
        let slope = (&slope - transposed(&slope)) * 0.5;
        let inner = over(&slope, &(values.unsqueeze(-2) - values.unsqueeze(-1)), &idle_pairs(&by_v));
        vec![Some(symmetric(&around(&v, &(inner + by_values.diag_embed(0)))))]
    });
    let (vectors, values) = parts(&both, size);
    (matrices.back(&values), matrices.back(&vectors))
}

/// The eigenvalues of a symmetric A in ascending order, as [`eigh`] has them, `[..., n, n]` → `[..., n]`, with a
/// gradient also where several are the same. PyTorch's `torch.linalg.eigvalsh`.
///
/// # Panics
///
/// If A is not square.
#[track_caller]
#[must_use]
pub fn eigvalsh(a: &Tensor) -> Tensor {
    let matrices = Matrices::square("eigvalsh", a);
    let size = a.size(-1);
    let both = decomposed(&matrices.all);
    let values = parts(&both, size).1.with_gradient(&[&matrices.all], |_, inputs, gradient| {
        let (_, vectors) = eigh(&inputs[0]);
        vec![Some(around(&vectors, &gradient.diag_embed(0)))]
    });
    matrices.back(&values)
}

/// V M Vᵀ
#[track_caller]
fn around(v: &Tensor, inner: &Tensor) -> Tensor {
    product(&product(v, inner), &transposed(v))
}

/// The quotient, and zero where `idle`.
#[track_caller]
pub(super) fn over(numerator: &Tensor, denominator: &Tensor, idle: &Tensor) -> Tensor {
    idle.where_(0.0, numerator / idle.where_(1.0, denominator))
}

/// Which columns have no gradient: `[count, m, n]` → bool `[count, 1, n]`.
#[track_caller]
pub(super) fn idle_columns(gradient: &Tensor) -> Tensor {
    gradient.abs().sum_keepdim(-2).eq(0.0)
}

/// The diagonal, and pairs of columns of which neither has a gradient: there values may be the same.
#[track_caller]
pub(super) fn idle_pairs(gradient: &Tensor) -> Tensor {
    let (idle, size) = (idle_columns(gradient), gradient.size(-1));
    let diagonal = Tensor::eye(size, gradient.device()).ne(0.0);
    idle.logical_and(&transposed(&idle)).logical_or(&diagonal)
}

/// Vectors and values.
#[track_caller]
fn parts(both: &Tensor, size: usize) -> (Tensor, Tensor) {
    (both.slice(-2, 0..size), both.slice(-2, size..).squeeze(-2))
}

/// The vectors as columns, and the values in a row below them: `[count, n + 1, n]`, without a gradient.
#[track_caller]
fn decomposed(a: &Tensor) -> Tensor {
    let [count, size, _] = *a.shape().dims() else { unreachable!("there is a batch") };
    if size == 0 {
        return Tensor::zeros([count, 1, 0], a.device());
    }
    let (a, scale) = scaled(&(a.tril(0) + transposed(&a.tril(-1))));
    // no eigenvalue is larger than the largest sum of a row; with that of a power it is known more closely
    let whole = &a / largest_row(&a);
    let fourth = product(&product(&whole, &whole), &product(&whole, &whole));
    let eighth = product(&fourth, &fourth);
    // those of this one are from 1 to 3
    let shifted = whole / largest_row(&eighth).pow(0.125) + Tensor::eye(size, a.device()) * 2.0;
    // columns that are orthogonal are eigenvectors, as long as their eigenvalues
    let v = orthogonal_columns(&shifted);
    let v = &v / v.square().sum_keepdim(-2).sqrt();
    let values = (&v * product(&a, &v)).sum_dim(-2);
    let order = values.argsort(-1, false);
    Tensor::cat(&[&columns(&v, &order), &(columns(&values.unsqueeze(-2), &order) * scale)], -2)
}

/// The largest sum of a row's sizes, or 1 if all are zero: `[count, 1, 1]`.
#[track_caller]
fn largest_row(a: &Tensor) -> Tensor {
    let largest = a.abs().sum_dim(-1).max_dim(-1).reshape([-1, 1, 1]);
    largest.gt(0.0).where_(&largest, 1.0)
}
