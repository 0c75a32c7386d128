//! Indices that are data.

use super::{Row, row};

pub(super) fn rows() -> Vec<Row> {
    vec![
        row("index_select", |x| x[0].index_select(1, &x[1])).indexed([&[3, 5, 2]], 5, &[4]).indexed(
            [&[1, 2]],
            2,
            &[2, 3],
        ),
        row("index_select_one", |x| x[0].index_select(0, &x[1])).indexed([&[3, 2]], 3, &[]),
        row("embedding", |x| x[0].embedding(&x[1])).indexed([&[7, 4]], 7, &[2, 3]),
        row("gather", |x| x[0].gather(1, &x[1])).indexed([&[3, 5]], 5, &[3, 2]),
        row("one_hot", |x| x[0].one_hot(5)).indexed([], 5, &[2, 3]),
        row("index_add", |x| x[0].index_add(0, &x[2], &x[1])).indexed([&[4, 3], &[6, 3]], 4, &[6]),
        row("gather_part", |x| x[0].gather(0, &x[1])).indexed([&[5, 3]], 5, &[4, 2]),
        row("take_along_dim", |x| x[0].take_along_dim(&x[1], 1)).indexed([&[3, 5, 2]], 5, &[1, 4, 1]),
        row("masked_scatter", |x| x[0].masked_scatter(&x[2].gt(0.0).detach(), &x[1]))
            .on([&[2, 3, 5], &[31], &[3, 5]])
            .on([&[4], &[9], &[2, 4]])
            .on([&[0, 3], &[0], &[3]]),
        row("masked_fill", |x| x[0].masked_fill(&x[0].gt(1.0), 7.0)).on([&[3, 5]]),
    ]
}
