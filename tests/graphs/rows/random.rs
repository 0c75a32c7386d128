//! Random numbers.

use brasa::{DType, Tensor};

use super::{Row, crate_row, one};

pub(super) fn rows() -> Vec<Row> {
    vec![
        one!("rand", |d| {
            let x = d.float();
            &x * Tensor::rand(x.shape(), x.device())
        }),
        one!("randn", |d| {
            let x = d.float();
            &x + Tensor::randn(x.shape(), x.device()) * 0.5
        }),
        one!("rand_like", |d| {
            let x = d.float();
            x.rand_like() - x.randn_like() * 0.1 * &x
        }),
        one!("randint", |d| {
            let x = d.float();
            Tensor::randint(-3, 9, x.shape(), x.device())
        }),
        one!("randperm", |d| {
            let x = d.ranked(1, 1);
            x.index_select(0, &Tensor::randperm(x.numel(), x.device()))
        }),
        one!("bernoulli", |d| d.float().sigmoid().bernoulli().to_dtype(DType::F32)),
        one!("dropout", |d| {
            let x = d.float();
            x.dropout(d.of(&[0.3, 0.5, 0.0]))
        }),
    ]
}
