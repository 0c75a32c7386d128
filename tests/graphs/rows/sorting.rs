//! Sorts and searches.

use brasa::{DType, Tensor};

use super::super::draw::Draw;
use super::reductions::{along, pair};
use super::{Row, one, row};

/// A value with elements of any type but bool, and one of its axes.
fn keys_along(d: &mut Draw) -> (Tensor, isize) {
    let x = d.value(|value| value.numel() > 0 && value.rank() > 0 && value.dtype() != DType::Bool);
    let axis = d.axis(&x);
    (x, axis)
}

pub(super) fn rows() -> Vec<Row> {
    vec![
        row("sort", |d| {
            let (x, axis) = keys_along(d);
            pair(x.sort(axis, d.flag()))
        }),
        one!("argsort", |d| {
            let (x, axis) = keys_along(d);
            x.argsort(axis, d.flag())
        }),
        row("topk", |d| {
            let (x, axis) = keys_along(d);
            let k = d.between(1, x.size(axis));
            pair(x.topk(k, axis, d.flag()))
        }),
        row("kthvalue", |d| {
            let (x, axis) = keys_along(d);
            let k = d.between(1, x.size(axis));
            pair(x.kthvalue(k, axis))
        }),
        one!("median", |d| d.solid().median()),
        row("median_dim", |d| {
            let (x, axis) = along(d);
            pair(x.median_dim(axis))
        }),
        row("nanmedian_dim", |d| {
            let (x, axis) = along(d);
            let (_, places) = (x - 0.5).log().nanmedian_dim(axis);
            vec![places]
        }),
        one!("quantile", |d| {
            let (x, axis) = along(d);
            x.quantile(d.of(&[0.5, 0.3, 0.0, 1.0]), axis)
        }),
        one!("searchsorted", |d| {
            let x = d.ranked(1, 4);
            let (values, right) = (d.shaped(x.shape().dims()), d.flag());
            x.sort(-1, false).0.searchsorted(&values, right)
        }),
        one!("bucketize", |d| {
            let x = d.float();
            let boundaries = d.ranked(1, 1).sort(0, false).0;
            x.bucketize(&boundaries, d.flag())
        }),
        one!("bincount", |d| {
            let size = d.between(1, 20);
            d.index(5, &[size]).bincount(6)
        }),
        one!("bincount_with", |d| {
            let size = d.between(1, 7);
            let weights = d.shaped(&[size, 2]);
            d.index(5, &[size, 2]).bincount_with(&weights, 6)
        }),
        one!("histc", |d| d.float().histc(5, -1.5, 1.5)),
    ]
}
