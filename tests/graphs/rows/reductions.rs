//! Reductions, cumulative ops and norms.

use brasa::{DType, Tensor};

use super::super::draw::Draw;
use super::{Row, one, row};

/// A float value with elements, and some of its axes.
fn over(d: &mut Draw) -> (Tensor, Vec<isize>) {
    let x = d.ranked(1, 8);
    let axes = d.axes(&x);
    (x, axes)
}

/// The same, which may be empty.
fn over_any(d: &mut Draw) -> (Tensor, Vec<isize>) {
    let x = d.float();
    let x = if x.rank() == 0 { x.unsqueeze(0) } else { x };
    let axes = d.axes(&x);
    (x, axes)
}

/// The same as [`over`] with one axis.
pub(super) fn along(d: &mut Draw) -> (Tensor, isize) {
    let x = d.ranked(1, 8);
    let axis = d.axis(&x);
    (x, axis)
}

/// Values and where they are from.
pub(super) fn pair((values, places): (Tensor, Tensor)) -> Vec<Tensor> {
    vec![values, places]
}

/// Rows that reduce a value with elements over some axes.
macro_rules! over {
    ($($name:literal: |$x:ident, $axes:ident| $body:expr),* $(,)?) => {
        [$(one!($name, |d| {
            let ($x, $axes) = over(d);
            $body
        })),*]
    };
}

/// Rows that reduce a value with elements along one axis.
macro_rules! along {
    ($($name:literal: |$x:ident, $axis:ident| $body:expr),* $(,)?) => {
        [$(row($name, |d| {
            let ($x, $axis) = along(d);
            $body
        })),*]
    };
}

pub(super) fn rows() -> Vec<Row> {
    let several = over![
        "mean_dim": |x, axes| x.mean_dim(axes),
        "mean_keepdim": |x, axes| x.mean_keepdim(axes),
        "max_dim": |x, axes| x.max_dim(axes),
        "max_keepdim": |x, axes| x.max_keepdim(axes),
        "min_dim": |x, axes| x.min_dim(axes),
        "min_keepdim": |x, axes| x.min_keepdim(axes),
        "centred": |x, axes| &x - x.mean_keepdim(axes),
        "logsumexp": |x, axes| x.logsumexp(axes),
        "logsumexp_keepdim": |x, axes| x.logsumexp_keepdim(axes),
        "prod_dim": |x, axes| (x * 0.1 + 1.0).prod_dim(axes),
        "prod_keepdim": |x, axes| (x * 0.1 + 1.0).prod_keepdim(axes),
        "var_dim": |x, axes| x.var_dim(axes, 0),
        "var_keepdim": |x, axes| x.var_keepdim(axes, 0),
        "std_dim": |x, axes| (x + 0.01).std_dim(axes, 0),
        "std_keepdim": |x, axes| x.std_keepdim(axes, 0),
        "any_dim": |x, axes| x.gt(1.0).any_dim(axes),
        "all_dim": |x, axes| x.gt(-1.0).all_dim(axes),
        "count_nonzero": |x, axes| x.relu().count_nonzero(axes),
        "nansum": |x, axes| x.log().nansum(axes),
        "nanmean": |x, axes| x.log().nanmean(axes),
        "norm_1": |x, axes| x.norm_dim(1.0, axes),
        "norm_2": |x, axes| x.norm_keepdim(2.0, axes),
        "norm_3": |x, axes| x.norm_dim(3.0, axes),
        "norm_infinity": |x, axes| x.norm_keepdim(f64::INFINITY, axes),
    ];
    let single = along![
        "softmax": |x, axis| vec![x.softmax(axis)],
        "log_softmax": |x, axis| vec![x.log_softmax(axis)],
        "softmin": |x, axis| vec![x.softmin(axis)],
        "argmax": |x, axis| vec![x.argmax(axis)],
        "argmax_keepdim": |x, axis| vec![x.argmax_keepdim(axis)],
        "argmin": |x, axis| vec![x.argmin(axis)],
        "argmin_keepdim": |x, axis| vec![x.argmin_keepdim(axis)],
        "max_with_index": |x, axis| pair(x.max_with_index(axis)),
        "min_with_index": |x, axis| pair(x.min_with_index(axis)),
        "cumsum": |x, axis| vec![x.cumsum(axis)],
        "cumprod": |x, axis| vec![(x * 0.1 + 1.0).cumprod(axis)],
        "cummax": |x, axis| pair(x.cummax(axis)),
        "cummin": |x, axis| pair(x.cummin(axis)),
        "logcumsumexp": |x, axis| vec![x.logcumsumexp(axis)],
        "normalize": |x, axis| vec![x.normalize(2.0, axis, 1e-3)],
    ];
    several.into_iter().chain(single).chain(others()).collect()
}

fn others() -> Vec<Row> {
    vec![
        one!("sum_dim", |d| {
            let (x, axes) = over_any(d);
            x.sum_dim(axes)
        }),
        one!("sum_keepdim", |d| {
            let (x, axes) = over_any(d);
            x.sum_keepdim(axes)
        }),
        one!("sum", |d| d.any().sum()),
        one!("mean", |d| d.solid().mean()),
        one!("max", |d| d.value(|value| value.numel() > 0 && value.dtype() != DType::Bool).max()),
        one!("min", |d| d.value(|value| value.numel() > 0 && value.dtype() != DType::Bool).min()),
        one!("prod", |d| (d.solid() * 0.02 + 1.0).prod()),
        one!("any", |d| d.value(|value| value.dtype() == DType::Bool).any()),
        one!("all", |d| d.value(|value| value.dtype() == DType::Bool).all()),
        one!("var", |d| {
            let x = d.solid();
            if x.numel() > 1 { x.var() } else { x }
        }),
        one!("std", |d| {
            let x = d.solid();
            if x.numel() > 1 { (x + 0.1).std() } else { x }
        }),
        one!("norm", |d| d.float().norm(2.0)),
        one!("argmax_flat", |d| d.solid().argmax_flat()),
        one!("argmin_flat", |d| d.solid().argmin_flat()),
        one!("integer_sum", |d| {
            let x = d.value(|value| !value.dtype().is_float() && value.rank() > 0);
            let axes = d.axes(&x);
            x.sum_dim(axes)
        }),
        one!("integer_prod", |d| {
            let x = d.value(|value| !value.dtype().is_float() && value.rank() > 0).to_dtype(DType::I32);
            let axes = d.axes(&x);
            x.clamp(-1, 2).prod_keepdim(axes)
        }),
        one!("integer_max", |d| {
            let x = d.value(|value| !value.dtype().is_float() && value.rank() > 0 && value.numel() > 0);
            let axes = d.axes(&x);
            if d.flag() { x.max_dim(axes) } else { x.min_keepdim(axes) }
        }),
        one!("integer_argmax", |d| {
            let x = d.value(|value| !value.dtype().is_float() && value.rank() > 0 && value.numel() > 0);
            let axis = d.axis(&x);
            if d.flag() { x.argmax(axis) } else { x.argmin(axis) }
        }),
        one!("integer_cumsum", |d| {
            let x = d.value(|value| !value.dtype().is_float() && value.rank() > 0);
            let axis = d.axis(&x);
            x.cumsum(axis)
        }),
    ]
}
