//! Random numbers.

use brasa::nn::{AlphaDropout, Dropout2d, Module, StochasticDepth};
use brasa::{DType, Tensor};

use super::{Row, one};

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
        one!("multinomial", |d| {
            let x = d.ranked(1, 2);
            let count = d.between(0, x.size(-1));
            x.sigmoid().multinomial(count, d.flag())
        }),
        one!("bernoulli", |d| d.float().sigmoid().bernoulli().to_dtype(DType::F32)),
        one!("AlphaDropout", |d| AlphaDropout::new(0.3).forward(&d.float())),
        one!("Dropout2d", |d| Dropout2d::new(0.4).forward(&d.shaped(&[2, 3, 2, 2]))),
        one!("StochasticDepth", |d| {
            let x = d.ranked(1, 4);
            StochasticDepth::new(0.4).forward(&x)
        }),
        one!("dropout", |d| {
            let x = d.float();
            x.dropout(d.of(&[0.3, 0.5, 0.0]))
        }),
    ]
}
