//! Decompositions and solvers.

use brasa::Tensor;
use brasa::linalg::{self, Triangle};

use super::{Row, one};

fn regular(x: &Tensor) -> Tensor {
    x * 0.3 + Tensor::eye(x.size(-1), x.device()) * 2.0
}

fn definite(x: &Tensor) -> Tensor {
    x.matmul(&x.transpose(-2, -1)) * 0.3 + Tensor::eye(x.size(-1), x.device())
}

fn symmetric(x: &Tensor) -> Tensor {
    x + x.transpose(-2, -1)
}

pub(crate) fn rows() -> Vec<Row> {
    vec![
        one!("linalg.cholesky", |x| linalg::cholesky(&definite(&x[0]))),
        one!("cholesky_solve", |x| linalg::cholesky_solve(&x[1], &linalg::cholesky(&definite(&x[0])))),
        one!("linalg.solve_triangular", |x| linalg::solve_triangular(&regular(&x[0]), &x[1], Triangle::Lower)),
        one!("linalg.solve_triangular_unit", |x| linalg::solve_triangular(&regular(&x[0]), &x[1], Triangle::UnitUpper)),
        one!("linalg.solve", |x| linalg::solve(&regular(&x[0]).flip(-1), &x[1])),
        one!("linalg.inv", |x| linalg::inv(&regular(&x[0]).flip(-1))),
        one!("linalg.det", |x| linalg::det(&regular(&x[0]).flip(-1))),
        Row("linalg.slogdet", 16.0, |x| {
            let (sign, log) = linalg::slogdet(&regular(&x[0]).flip(-1));
            vec![sign, log]
        }),
        Row("linalg.matrix_power", 16.0, |x| {
            vec![linalg::matrix_power(&x[0], 3), linalg::matrix_power(&regular(&x[0]), -2)]
        }),
        Row("linalg.qr", 16.0, |x| {
            let (q, r) = linalg::qr(&x[0]);
            vec![q.abs(), r.abs()]
        }),
        Row("linalg.qr_wide", 16.0, |x| {
            let (q, r) = linalg::qr(&Tensor::cat(&[&regular(&x[0]), &x[1]], -1));
            vec![q.abs(), r.abs()]
        }),
        one!("linalg.lstsq", |x| linalg::lstsq(&x[0], &x[1])),
        Row("linalg.eigh", 64.0, |x| {
            let (values, vectors) = linalg::eigh(&symmetric(&x[0]));
            vec![values.abs(), vectors.abs()]
        }),
        one!("linalg.eigvalsh", |x| linalg::eigvalsh(&symmetric(&x[0]))),
        Row("linalg.svd", 64.0, |x| {
            let (u, s, vt) = linalg::svd(&x[0]);
            vec![u.abs(), s, vt.abs()]
        }),
        one!("linalg.svdvals", |x| linalg::svdvals(&x[0])),
        one!("linalg.pinv", 64.0, |x| linalg::pinv(&x[0])),
        one!("linalg.cond", 64.0, |x| linalg::cond(&x[0])),
        one!("linalg.matrix_rank", |x| linalg::matrix_rank(&x[0])),
    ]
}
