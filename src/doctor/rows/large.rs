//! Samples large enough for each form that kernels have: trees over a workgroup, columns side by side, tiles turned
//! over, merged runs, segments that are cut; and values for which differences would be none. The families' own are
//! small, as tests take differences for every element of theirs.

use crate::{DType, fft, linalg};

use super::linalg::{definite, regular};
use super::{Row, row};

pub(super) fn rows() -> Vec<Row> {
    vec![
        row("sum_of_long_rows", |x| x[0].sum_dim(1)).on([&[3, 4097]]),
        row("sum_of_columns", |x| x[0].sum_dim(0)).on([&[700, 70]]).on([&[5000, 3]]),
        row("max_of_long_rows", |x| x[0].max_dim(-1)).on([&[2, 3001]]),
        row("softmax_of_long_rows", |x| x[0].softmax(1)).on([&[2, 4097]]),
        row("layer_norm_of_long_rows", |x| x[0].layer_norm(1, None, None, 1e-5)).on([&[5, 1027]]),
        row("turned_over", |x| &x[0].t() * &x[1]).on([&[83, 48], &[48, 83]]),
        row("sort_of_merged_runs", |x| x[0].sort(1, false).0).on([&[2, 5000]]),
        row("index_add_of_many", |x| x[0].index_add(0, &x[2], &x[1])).indexed([&[2, 3], &[3000, 3]], 2, &[3000]),
        row("gather_of_many", |x| x[0].index_select(0, &x[1])).indexed([&[300, 5]], 300, &[2000]),
        row("power_by_large_exponents", |x| x[0].pow(&x[1] * 1000.0)).within(0.99, 1.01, [&[40], &[40]]),
        row("cholesky_of_blocks", |x| linalg::cholesky(&definite(&(&x[0] * 0.2)))).on([&[70, 70]]),
        row("solve_of_blocks", |x| linalg::solve(&regular(&(&x[0] * 0.3)).flip(-1), &x[1])).on([&[70, 70], &[70, 2]]),
        // of all values alike: single vectors of so many depend on rounding
        row("eigvalsh_of_blocks", |x| (linalg::eigvalsh(&(&x[0] + x[0].t())) * 0.1).exp().sum()).on([&[70, 70]]),
        row("lstsq_of_blocks", |x| linalg::lstsq(&x[0], &x[1])).on([&[200, 70], &[200]]).loose(64.0),
        row("svdvals_of_blocks", |x| (linalg::svdvals(&x[0]) * 0.1).exp().sum()).on([&[90, 66]]),
        row("rfft_of_passes", |x| fft::rfft(&x[0], None, 1).to_pairs()).on([&[2, 4096]]),
        row("rfft_of_strided_passes", |x| fft::rfft(&x[0], None, 0).to_pairs()).on([&[600, 3]]),
        row("rfft_of_a_prime", |x| fft::rfft(&x[0], None, 1).to_pairs()).on([&[2, 1511]]).loose(64.0),
        row("sum_of_many_integers", |x| x[0].sum()).typed(DType::I32, -9.0, 9.0, [&[70_001]]),
    ]
}
