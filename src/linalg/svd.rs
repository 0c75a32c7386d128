//! Singular values, and what is defined by them.

use crate::dtype::DType;
use crate::graph::refuse;
use crate::tensor::Tensor;

use super::eigen::{idle_columns, idle_pairs, over};
use super::jacobi::{columns, orthogonal_columns, orthogonal_columns_by};
use super::matrices::{Matrices, product, scaled, transposed};
use super::qr::orthogonal;

/// U, the singular values in descending order, and Vᵀ, with U diag(S) Vᵀ = A and orthonormal columns of U and V:
/// `[..., m, n]` → `[..., m, k]`, `[..., k]`, `[..., k, n]`, k = min(m, n). The signs of a pair of singular vectors are
/// arbitrary, and so is the basis of those of one singular value: gradients of vectors are right for functions that do
/// not depend on signs, and of singular values that differ from all others and from zero; where two are the same they are
/// not finite (PyTorch's too). PyTorch's `torch.linalg.svd` with `full_matrices=False`.
///
/// Computed by Hestenes' one-sided Jacobi method, in f32 to a few roundings of the largest value. It is for batches of
/// small matrices and for GPUs: for one matrix of hundreds of rows, a CPU library takes a thirtieth of the time that it
/// takes on the CPU.
///
/// ```
/// use brasa::{Device, Tensor, linalg};
///
/// let a = Tensor::randn([3, 5], &Device::cpu());
/// let (u, s, vt) = linalg::svd(&a);
/// assert!((u * s.unsqueeze(0)).matmul(&vt).allclose(&a, 1e-5, 1e-5)?);
/// # Ok::<(), brasa::Error>(())
/// ```
///
/// # Panics
///
/// If A has no two axes.
#[track_caller]
#[must_use]
pub fn svd(a: &Tensor) -> (Tensor, Tensor, Tensor) {
    let matrices = Matrices::of("svd", a);
    let height = a.size(-2);
    let all = decomposed(&matrices.all).with_gradient(&[&matrices.all], move |all, _, gradient| {
        let (own, by) = (Parts::of(all, height), Parts::of(gradient, height));
        vec![Some(own.gradient(&by))]
    });
    let Parts { u, s, v } = Parts::of(&all, height);
    (matrices.back(&u), matrices.back(&s), matrices.back(&transposed(&v)))
}

/// The singular values of A in descending order, as [`svd`] has them, `[..., m, n]` → `[..., min(m, n)]`, with a
/// gradient also where several are the same. PyTorch's `torch.linalg.svdvals`.
///
/// # Panics
///
/// If A has no two axes.
#[track_caller]
#[must_use]
pub fn svdvals(a: &Tensor) -> Tensor {
    let matrices = Matrices::of("svdvals", a);
    matrices.back(&values(&matrices.all))
}

/// The pseudoinverse of Moore and Penrose: `[..., m, n]` → `[..., n, m]`. Singular values up to max(m, n) roundings of
/// the largest one are taken for zeros. The gradient is that of Golub and Pereyra 1973, which keeps the rank. PyTorch's
/// `torch.linalg.pinv`.
///
/// # Panics
///
/// If A has no two axes.
#[track_caller]
#[must_use]
pub fn pinv(a: &Tensor) -> Tensor {
    let matrices = Matrices::of("pinv", a);
    let Parts { u, s, v } = Parts::of(&decomposed(&matrices.all), a.size(-2));
    let kept = is_not_rounding(&s, a).where_(s.reciprocal(), 0.0);
    let inverse = product(&(v * kept.unsqueeze(-2)), &transposed(&u));
    let inverse = inverse.with_gradient(&[&matrices.all], |p, inputs, gradient| {
        let (a, pt, g) = (&inputs[0], transposed(p), transposed(gradient));
        let first = product(&product(&pt, gradient), &pt);
        // what A and P leave of their spaces
        let second = product(&product(&g, p), &pt);
        let second = &second - product(a, &product(p, &second));
        let third = product(&pt, &product(p, &g));
        let third = &third - product(&product(&third, p), a);
        vec![Some(second + third - first)]
    });
    matrices.back(&inverse)
}

/// How many singular values are larger than max(m, n) roundings of the largest one: `[..., m, n]` → i32 `[...]`.
/// PyTorch's `torch.linalg.matrix_rank`.
///
/// # Panics
///
/// If A has no two axes.
#[track_caller]
#[must_use]
pub fn matrix_rank(a: &Tensor) -> Tensor {
    let matrices = Matrices::of("matrix_rank", a);
    let rank = is_not_rounding(&values(&matrices.all.detach()), a).to_dtype(DType::I32).sum_dim(-1);
    rank.reshape(matrices.lead)
}

/// The largest singular value over the smallest one: `[..., m, n]` → `[...]`. PyTorch's `torch.linalg.cond`.
///
/// # Panics
///
/// If A has no two axes, or no elements.
#[track_caller]
#[must_use]
pub fn cond(a: &Tensor) -> Tensor {
    let matrices = Matrices::of("cond", a);
    let s = values(&matrices.all);
    let Some(last) = s.size(-1).checked_sub(1) else {
        refuse(format_args!("cond: {} has no singular values", a.shape()));
    };
    matrices.back(&(s.select(-1, 0) / s.select(-1, last)))
}

/// The singular values of `[count, m, n]`, with their own gradient, which asks for no vectors' one.
#[track_caller]
fn values(a: &Tensor) -> Tensor {
    let (tall, size) = scaled(&if a.size(-2) < a.size(-1) { transposed(a) } else { a.clone() });
    let square = if tall.size(-2) > tall.size(-1) { orthogonal(&tall).1 } else { tall };
    let lengths = orthogonal_columns(&square).square().sum_dim(-2).sqrt();
    let (s, _) = (lengths * size.squeeze(-1)).sort(-1, true);
    s.with_gradient(&[a], |_, inputs, gradient| {
        let (u, _, vt) = svd(&inputs[0]);
        vec![Some(product(&(u * gradient.unsqueeze(-2)), &vt))]
    })
}

/// Singular values of `a` that are more than rounding makes of zeros; the first one is the largest.
#[track_caller]
fn is_not_rounding(s: &Tensor, a: &Tensor) -> Tensor {
    let roundings = a.size(-2).max(a.size(-1)) as f64 * f64::from(f32::EPSILON);
    s.gt(s.slice(-1, 0..s.size(-1).min(1)) * roundings)
}

/// `[count, m, k]`, `[count, k]` and `[count, n, k]`
struct Parts {
    u: Tensor,
    s: Tensor,
    v: Tensor,
}

impl Parts {
    /// What lies one below the other: `height` rows of U, S as a row, and V.
    #[track_caller]
    fn of(all: &Tensor, height: usize) -> Self {
        let s = all.slice(-2, height..=height).squeeze(-2);
        Self { u: all.slice(-2, 0..height), s, v: all.slice(-2, height + 1..) }
    }

    /// The gradient of A from those of its parts.
    #[track_caller]
    fn gradient(&self, by: &Self) -> Tensor {
        let Self { u, s, v } = self;
        let skew = |a: &Tensor, b: &Tensor| {
            let slope = product(&transposed(a), b);
            &slope - transposed(&slope)
        };
        let (row, column) = (s.unsqueeze(-2), s.unsqueeze(-1));
        let squares = (&row - &column) * (&row + &column);
        let inner = over(&skew(u, &by.u), &squares, &idle_pairs(&by.u)) * &row
            + over(&skew(v, &by.v), &squares, &idle_pairs(&by.v)) * &column
            + by.s.diag_embed(0);
        let mut whole = product(&product(u, &inner), &transposed(v));
        // what lies outside of the spaces that U and V span; of a square one there is nothing
        let outside = |a: &Tensor, slope: &Tensor| {
            over(&(slope - product(a, &product(&transposed(a), slope))), &row, &idle_columns(slope))
        };
        if u.size(-2) > u.size(-1) {
            whole += product(&outside(u, &by.u), &transposed(v));
        }
        if v.size(-2) > v.size(-1) {
            whole += product(u, &transposed(&outside(v, &by.v)));
        }
        whole
    }
}

/// U, S as a row below it, and V below that: `[count, m + 1 + n, k]`, without a gradient.
#[track_caller]
fn decomposed(a: &Tensor) -> Tensor {
    let [_, height, width] = *a.shape().dims() else { unreachable!("there is a batch") };
    if height < width {
        let all = decomposed(&transposed(a));
        let Parts { u, s, v } = Parts::of(&all, width);
        return Tensor::cat(&[&v, &s.unsqueeze(-2), &u], -2);
    }
    let (a, size) = scaled(a);
    let (q, r) = if height > width { orthogonal(&a) } else { (a.clone(), a) };
    let (rotated, v) = orthogonal_columns_by(&r);
    let s = rotated.square().sum_dim(-2).sqrt();
    let order = s.argsort(-1, true);
    // reflections make an orthonormal matrix of columns that are orthogonal, of those also that are zero
    let (u, signed) = orthogonal(&columns(&rotated, &order));
    let u = u * signed.diagonal(0, -2, -1).lt(0.0).where_(-1.0, 1.0).unsqueeze(-2);
    let u = if height > width { product(&q, &u) } else { u };
    Tensor::cat(&[&u, &(columns(&s.unsqueeze(-2), &order) * size), &columns(&v, &order)], -2)
}
