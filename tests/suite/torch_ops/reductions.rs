//! Reductions, cumulative ops and norms.

use brasa::Tensor;

use super::{Row, one};

fn pair((values, indices): (Tensor, Tensor)) -> Vec<Tensor> {
    vec![values, indices]
}

pub(crate) fn rows() -> Vec<Row> {
    vec![
        one!("sum", |x| x[0].sum_dim([0, 2])),
        one!("mean", |x| x[0].mean_keepdim(1)),
        one!("prod", |x| x[0].prod_dim(1)),
        one!("amax", |x| x[0].max_dim(1)),
        one!("amin", |x| x[0].min_dim([0, 1])),
        Row("max", 16.0, |x| pair(x[0].max_with_index(1))),
        Row("min", 16.0, |x| pair(x[0].min_with_index(1))),
        Row("argmax", 16.0, |x| vec![x[0].argmax(1), x[0].argmax_keepdim(0), x[0].argmax_flat()]),
        Row("argmin", 16.0, |x| vec![x[0].argmin(1), x[0].argmin_keepdim(0), x[0].argmin_flat()]),
        Row("any_all", 16.0, |x| vec![x[0].any_dim(1), x[0].all_dim(1), x[0].any(), x[0].all()]),
        Row("var", 16.0, |x| vec![x[0].var_dim(1, 1), x[0].var_dim([0, 2], 0), x[0].var()]),
        Row("std", 16.0, |x| vec![x[0].std_dim(1, 1), x[0].std_keepdim([0, 2], 0), x[0].std()]),
        one!("logsumexp", |x| x[0].logsumexp(1)),
        one!("count_nonzero", |x| x[0].count_nonzero(1)),
        one!("nansum", |x| x[0].nansum(1)),
        one!("nanmean", |x| x[0].nanmean(1)),
        one!("norm_0", |x| x[0].norm_dim(0.0, 1)),
        one!("norm_1", |x| x[0].norm_dim(1.0, 1)),
        one!("norm_2", |x| x[0].norm_dim(2.0, 1)),
        one!("norm_3", |x| x[0].norm_dim(3.0, 1)),
        one!("norm_half", |x| x[0].norm_dim(0.5, 1)),
        one!("norm_inf", |x| x[0].norm_dim(f64::INFINITY, 1)),
        one!("norm_minus_inf", |x| x[0].norm_dim(f64::NEG_INFINITY, 1)),
        one!("normalize", |x| x[0].normalize(2.0, 1, 1e-12)),
        one!("cumsum", |x| x[0].cumsum(1)),
        one!("cumprod", |x| x[0].cumprod(1)),
        Row("cummax", 16.0, |x| pair(x[0].cummax(1))),
        Row("cummin", 16.0, |x| pair(x[0].cummin(1))),
        one!("logcumsumexp", |x| x[0].logcumsumexp(1)),
    ]
}
