//! Reductions, cumulative ops and norms.

use crate::DType;

use super::{Input, Row, reduction, row};

pub(super) fn rows() -> Vec<Row> {
    vec![
        reduction("sum", |x| x[0].sum()).typed(DType::I32, -9.0, 9.0, [&[3, 4]]).on([&[0, 2]]).on([&[]]),
        reduction("sum_dim", |x| x[0].sum_dim([0, -1])).typed(DType::Bool, 0.0, 2.0, [&[3, 2, 4]]),
        reduction("sum_keepdim", |x| x[0].sum_keepdim(1)).on([&[2, 0, 3]]),
        reduction("mean", |x| x[0].mean()),
        reduction("mean_dim", |x| x[0].mean_dim(1)),
        reduction("max", |x| x[0].max_dim([1, 2])).typed(DType::I32, -9.0, 9.0, [&[3, 2, 4]]),
        reduction("max_keepdim", |x| x[0].max_keepdim(0)),
        reduction("min", |x| x[0].min_dim(0)).typed(DType::U32, 0.0, 9.0, [&[3, 2, 4]]),
        reduction("prod", |x| x[0].prod_dim([0, 1])).typed(DType::I32, -3.0, 4.0, [&[3, 2, 4]]),
        reduction("any", |x| x[0].gt(1.5).any_dim(1)),
        reduction("all", |x| x[0].gt(-1.5).all_dim(1)),
        reduction("var", |x| x[0].var_dim([0, 1], 1)).loose(64.0),
        reduction("std", |x| x[0].std_dim(1, 0)).on([&[2, 9]]),
        reduction("argmax", |x| x[0].argmax(1)).typed(DType::I32, 0.0, 3.0, [&[3, 9]]),
        reduction("argmin", |x| x[0].argmin(-2)).typed(DType::I32, 0.0, 3.0, [&[9, 3]]),
        reduction("logsumexp", |x| x[0].logsumexp([1, 2])),
        reduction("count_nonzero", |x| x[0].gt(0.0).count_nonzero(1)),
        reduction("nansum", |x| x[0].nansum(1)),
        reduction("nanmean", |x| x[0].nanmean([0, 1])),
        reduction("max_with_index", |x| x[0].max_with_index(1).0 * 2.0),
        reduction("min_with_index", |x| x[0].min_with_index(-1).0 * 2.0),
        reduction("argmax_keepdim", |x| x[0].argmax_keepdim(0)),
        reduction("argmin_flat", |x| x[0].argmin_flat()),
        reduction("norm", |x| x[0].norm(2.0)),
        reduction("norm_3", |x| x[0].norm_dim(3.0, [0, 2])).loose(64.0),
        reduction("norm_inf", |x| x[0].norm_keepdim(f64::INFINITY, 1)),
        reduction("norm_1", |x| x[0].norm_dim(1.0, -1)),
        reduction("normalize", |x| x[0].normalize(2.0, 1, 1e-12)),
        reduction("cumsum", |x| x[0].cumsum(1)).on([&[2, 300]]).on([&[0, 3]]).typed(DType::I32, -9.0, 9.0, [&[2, 40]]),
        reduction("cumprod", |x| x[0].cumprod(1)).within(0.8, 1.25, [&[2, 37]]).loose(64.0),
        reduction("cummax", |x| x[0].cummax(1).0).on([&[2, 40]]).typed(DType::I32, -9.0, 9.0, [&[2, 40]]),
        reduction("cummin", |x| x[0].cummin(1).0).on([&[2, 40]]),
        row("cummax_index", |x| x[0].cummax(1).1).typed(DType::I32, -3.0, 3.0, [&[2, 40]]).on([&[2, 17]]),
        reduction("logcumsumexp", |x| x[0].logcumsumexp(1)).on([&[2, 40]]),
    ]
    .into_iter()
    .map(|mut row| {
        // a single element has no standard deviation to differentiate
        if row.name == "std" {
            row.cases.retain(|case| case[0].shape != [1, 7, 1]);
            row.cases.push(vec![Input { shape: vec![4, 3], low: -2.0, high: 2.0, dtype: DType::F32 }]);
        }
        row
    })
    .collect()
}
