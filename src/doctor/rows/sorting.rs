//! Sorting, and places that are data.

use crate::DType;
use crate::tensor::ScatterOp;

use super::{Input, Row, row};

fn floats(shape: &[usize]) -> Input {
    Input { shape: shape.to_vec(), low: -2.0, high: 2.0, dtype: DType::F32 }
}

fn indices(bound: usize, shape: &[usize]) -> Input {
    Input { shape: shape.to_vec(), low: 0.0, high: bound as f64, dtype: DType::I32 }
}

/// A scatter into `[4, 3]` along the first axis: (self, source, index) of the usual shapes.
fn scatter(name: &'static str, call: fn(&[crate::Tensor]) -> crate::Tensor) -> Row {
    row(name, call).case(vec![floats(&[4, 3]), floats(&[7, 3]), indices(4, &[7, 3])]).case(vec![
        floats(&[5, 3]),
        floats(&[7, 3]),
        indices(5, &[6, 2]),
    ])
}

pub(super) fn rows() -> Vec<Row> {
    vec![
        row("sort", |x| x[0].sort(1, false).0).on([&[3, 7]]).on([&[2, 5, 3]]).on([&[1, 1]]).on([&[0, 3]]).on([&[3, 0]]),
        row("sort_descending", |x| x[0].sort(0, true).0).on([&[11, 2]]),
        row("argsort", |x| x[0].argsort(-1, true)).typed(DType::I32, -9.0, 9.0, [&[3, 11]]).on([&[13]]),
        row("argsort_bytes", |x| x[0].argsort(0, false)).typed(DType::U8, 0.0, 9.0, [&[17, 2]]),
        row("topk", |x| x[0].topk(3, 1, true).0).on([&[2, 7, 2]]),
        row("topk_smallest", |x| x[0].topk(2, 0, false).0).on([&[5]]),
        row("kthvalue", |x| x[0].kthvalue(2, -1).0).on([&[3, 5]]),
        row("median", |x| x[0].median()).on([&[3, 4]]).on([&[5]]),
        row("median_dim", |x| x[0].median_dim(0).0).on([&[4, 3]]),
        row("nanmedian", |x| x[0].log().nanmedian_dim(0).1).on([&[7, 3]]),
        row("quantile", |x| x[0].quantile(0.3, 1)).on([&[3, 7]]).on([&[2, 1]]),
        row("searchsorted", |x| x[0].sort(-1, false).0.searchsorted(&x[1], false)).on([&[3, 7], &[3, 4]]),
        row("searchsorted_right", |x| x[0].sort(0, false).0.searchsorted(&x[1], true)).typed(
            DType::I32,
            -3.0,
            3.0,
            [&[7], &[3, 4]],
        ),
        scatter("scatter", |x| x[0].scatter(0, &x[2], &x[1])),
        scatter("scatter_number", |x| x[0].scatter(0, &x[2], 0.5) * &x[1].sum()),
        scatter("scatter_add", |x| x[0].scatter_add(0, &x[2], &x[1])),
        scatter("scatter_mean", |x| x[0].scatter_reduce(0, &x[2], &x[1], ScatterOp::Mean, true)),
        scatter("scatter_mean_others", |x| x[0].scatter_reduce(0, &x[2], &x[1], ScatterOp::Mean, false)),
        scatter("scatter_sum_others", |x| x[0].scatter_reduce(0, &x[2], &x[1], ScatterOp::Sum, false)),
        scatter("scatter_max", |x| x[0].scatter_reduce(0, &x[2], &x[1], ScatterOp::Max, true)),
        scatter("scatter_min_others", |x| x[0].scatter_reduce(0, &x[2], &x[1], ScatterOp::Min, false)),
        scatter("scatter_prod", |x| x[0].scatter_reduce(0, &x[2], &x[1], ScatterOp::Prod, true)),
        scatter("scatter_prod_others", |x| x[0].scatter_reduce(0, &x[2], &x[1], ScatterOp::Prod, false)),
        row("index_copy", |x| x[0].index_copy(1, &x[2], &x[1])).case(vec![
            floats(&[3, 4]),
            floats(&[3, 6]),
            indices(4, &[6]),
        ]),
        row("index_fill", |x| x[0].index_fill(1, &x[1], 0.5)).case(vec![floats(&[3, 4]), indices(4, &[2])]),
        row("index_put", |x| x[0].index_put(&[&x[2], &x[3]], &x[1], false)).case(vec![
            floats(&[3, 4, 2]),
            floats(&[5, 1]),
            indices(3, &[5]),
            indices(4, &[2, 1]),
        ]),
        row("index_put_add", |x| x[0].index_put(&[&x[2]], &x[1], true)).case(vec![
            floats(&[3, 4]),
            floats(&[4]),
            indices(3, &[5]),
        ]),
        row("bincount", |x| x[0].bincount(5)).case(vec![indices(5, &[4, 3])]).case(vec![indices(5, &[0])]),
        row("bincount_with", |x| x[1].bincount_with(&x[0], 5))
            .case(vec![floats(&[4, 3]), indices(5, &[4, 3])])
            .case(vec![floats(&[0]), indices(5, &[0])]),
        row("histc", |x| x[0].histc(7, -1.0, 1.5)).on([&[9, 5]]),
        // more products than are worth a contraction
        row("embedding_by_sorting", |x| x[0].embedding(&x[1]))
            .case(vec![floats(&[1 << 14, 1]), indices(1 << 14, &[1 << 13])]),
    ]
}
