//! Decompositions and solvers, of matrices that are far from singular. What has an arbitrary sign is squared.

use brasa::Tensor;
use brasa::linalg::{self, Triangle};

use super::super::draw::Draw;
use super::{Row, one, row};

/// A matrix close to the identity, maybe a batch of them.
fn regular(d: &mut Draw) -> Tensor {
    let n = d.between(1, 4);
    let shape = if d.flag() { vec![2, n, n] } else { vec![n, n] };
    let x = d.within(-0.2, 0.2, &shape);
    &x + Tensor::eye(n, x.device())
}

/// A symmetric and positive definite one.
fn definite(d: &mut Draw) -> Tensor {
    let x = regular(d);
    x.matmul(&x.transpose(-2, -1))
}

/// A symmetric one, whose eigenvalues lie apart.
fn symmetric(d: &mut Draw) -> Tensor {
    let x = regular(d);
    let n = x.size(-1);
    &x + x.transpose(-2, -1) + Tensor::arange(n, x.device()).to_dtype(brasa::DType::F32).diag_embed(0) * 2.0
}

/// A right side for a matrix.
fn right(d: &mut Draw, a: &Tensor) -> Tensor {
    let columns = d.between(1, 3);
    d.within(-1.0, 1.0, &[a.size(-2), columns])
}

pub(super) fn rows() -> Vec<Row> {
    vec![
        one!("cholesky", |d| linalg::cholesky(&definite(d))),
        one!("cholesky_solve", |d| {
            let l = linalg::cholesky(&definite(d));
            linalg::cholesky_solve(&right(d, &l), &l)
        }),
        one!("solve_triangular", |d| {
            let a = regular(d);
            let triangle = d.of(&[Triangle::Lower, Triangle::UnitLower, Triangle::Upper, Triangle::UnitUpper]);
            linalg::solve_triangular(&a, &right(d, &a), triangle)
        }),
        one!("solve", |d| {
            let a = regular(d);
            linalg::solve(&a, &right(d, &a))
        }),
        one!("inv", |d| linalg::inv(&regular(d).flip(-1))),
        one!("det", |d| linalg::det(&regular(d))),
        row("slogdet", |d| {
            let (sign, log) = linalg::slogdet(&regular(d).flip(-2));
            vec![sign, log]
        }),
        one!("matrix_power", |d| {
            let exponent = d.of(&[-1, 0, 1, 3]);
            linalg::matrix_power(&regular(d), exponent)
        }),
        row("qr", |d| {
            let (q, r) = linalg::qr(&regular(d));
            vec![q, r]
        }),
        one!("lstsq", |d| {
            let a = regular(d);
            let a = Tensor::cat(&[&a, &a.square()], -2);
            let a = if d.flag() { a.transpose(-2, -1) } else { a };
            linalg::lstsq(&a, &right(d, &a))
        }),
        row("eigh", |d| {
            let (values, vectors) = linalg::eigh(&symmetric(d));
            vec![values, vectors.square()]
        }),
        one!("eigvalsh", |d| linalg::eigvalsh(&symmetric(d))),
        row("svd", |d| {
            let (u, s, vt) = linalg::svd(&symmetric(d));
            vec![u.square(), s, vt.square()]
        }),
        one!("svdvals", |d| linalg::svdvals(&symmetric(d))),
        one!("pinv", |d| {
            let a = regular(d);
            linalg::pinv(&Tensor::cat(&[&a, &a.square()], -1))
        }),
        one!("cond", |d| linalg::cond(&symmetric(d))),
        one!("matrix_rank", |d| linalg::matrix_rank(&regular(d))),
    ]
}
