//! Decompositions and solvers, of matrices far from singular ones. Signs of vectors that are arbitrary do not count.

use crate::linalg::{self, Triangle};
use crate::{DType, Tensor};

use super::{Row, row};

/// Ones on the diagonal, in the type of a matrix.
fn one(x: &Tensor) -> Tensor {
    Tensor::eye(x.size(-1), x.device()).to_dtype(x.dtype())
}

/// A matrix that has an inverse: one that is not far from twice the identity.
pub(super) fn regular(x: &Tensor) -> Tensor {
    x * 0.3 + one(x) * 2.0
}

/// A symmetric and positive definite matrix.
pub(super) fn definite(x: &Tensor) -> Tensor {
    x.matmul(&x.transpose(-2, -1)) * 0.3 + one(x)
}

/// A symmetric matrix.
fn symmetric(x: &Tensor) -> Tensor {
    x + x.transpose(-2, -1)
}

/// Matrices side by side, in the place of several results.
fn side_by_side(parts: &[&Tensor]) -> Tensor {
    let flat: Vec<Tensor> = parts.iter().map(|part| part.flatten(0, -1)).collect();
    Tensor::cat(&flat.iter().collect::<Vec<_>>(), 0)
}

/// X of T X = B for a part of a matrix.
fn triangular(name: &'static str, call: fn(&[Tensor]) -> Tensor) -> Row {
    row(name, call).on([&[5, 5], &[5, 3]]).on([&[2, 1, 3, 3], &[2, 3, 1]])
}

pub(super) fn rows() -> Vec<Row> {
    vec![
        row("cholesky", |x| linalg::cholesky(&definite(&x[0])))
            .on([&[4, 4]])
            .on([&[2, 1, 3, 3]])
            .on([&[1, 1]])
            .on([&[2, 0, 0]]),
        row("cholesky_solve", |x| linalg::cholesky_solve(&x[1], &linalg::cholesky(&definite(&x[0]))))
            .on([&[3, 3], &[2, 3, 2]])
            .on([&[3, 3], &[3]]),
        triangular("solve_triangular", |x| linalg::solve_triangular(&regular(&x[0]), &x[1], Triangle::Lower)),
        triangular("solve_triangular_upper", |x| linalg::solve_triangular(&regular(&x[0]), &x[1], Triangle::Upper)),
        triangular("solve_triangular_unit", |x| {
            linalg::solve_triangular(&regular(&x[0]), &x[1], Triangle::UnitLower)
                + linalg::solve_triangular(&regular(&x[0]), &x[1], Triangle::UnitUpper)
        }),
        row("solve", |x| linalg::solve(&regular(&x[0]), &x[1]))
            .on([&[5, 5], &[5, 3]])
            .on([&[2, 3, 3], &[3]])
            .on([&[3, 3], &[4, 3, 2]])
            .on([&[3, 3], &[3, 0]]),
        // rows change places
        row("inv", |x| linalg::inv(&regular(&x[0]).flip(-1))).on([&[4, 4]]).on([&[2, 3, 3]]).on([&[0, 0]]),
        row("det", |x| linalg::det(&regular(&x[0]).flip(-2))).on([&[4, 4]]).on([&[2, 1, 3, 3]]).on([&[1, 1]]),
        row("slogdet", |x| {
            let (sign, log) = linalg::slogdet(&regular(&x[0]).flip(-2));
            sign + log
        })
        .on([&[5, 5]])
        .on([&[2, 3, 3]]),
        row("matrix_power", |x| linalg::matrix_power(&x[0], 3)).on([&[3, 3]]).on([&[2, 2, 2]]),
        row("matrix_power_of_inverse", |x| linalg::matrix_power(&regular(&x[0]), -2)).on([&[3, 3]]),
        row("qr", |x| {
            let (q, r) = linalg::qr(&x[0]);
            side_by_side(&[&q, &r])
        })
        .on([&[7, 3]])
        .on([&[2, 4, 2]])
        .on([&[1, 1]]),
        row("qr_wide", |x| {
            let (q, r) = linalg::qr(&Tensor::cat(&[&regular(&x[0]), &x[1]], -1));
            side_by_side(&[&q, &r])
        })
        .on([&[3, 3], &[3, 2]])
        .on([&[4, 4], &[4, 0]]),
        row("lstsq", |x| linalg::lstsq(&x[0], &x[1]))
            .on([&[7, 3], &[7, 2]])
            .on([&[3, 7], &[3, 2]])
            .on([&[2, 6, 2], &[6]]),
        row("eigh", |x| {
            let (values, vectors) = linalg::eigh(&symmetric(&x[0]));
            side_by_side(&[&values, &vectors.square()])
        })
        .on([&[4, 4]])
        .on([&[2, 3, 3]])
        .on([&[1, 1]])
        .loose(64.0),
        row("eigvalsh", |x| linalg::eigvalsh(&symmetric(&x[0]))).on([&[5, 5]]).on([&[2, 1, 3, 3]]).loose(32.0),
        row("svd", |x| {
            let (u, s, vt) = linalg::svd(&x[0]);
            side_by_side(&[&u.square(), &s, &vt.square()])
        })
        .on([&[5, 3]])
        .on([&[3, 5]])
        .on([&[2, 3, 3]])
        .loose(64.0),
        row("svdvals", |x| linalg::svdvals(&x[0])).on([&[4, 3]]).on([&[2, 3, 4]]).loose(32.0),
        row("pinv", |x| linalg::pinv(&x[0])).on([&[5, 3]]).on([&[2, 3, 5]]).loose(32.0),
        row("cond", |x| linalg::cond(&x[0])).on([&[5, 3]]).loose(32.0),
        row("matrix_rank", |x| linalg::matrix_rank(&x[0].to_dtype(DType::F32)))
            .typed(DType::I32, 0.0, 2.0, [&[4, 3]])
            .on([&[2, 3, 3]]),
    ]
}
