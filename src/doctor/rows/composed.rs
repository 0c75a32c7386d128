//! Softmax, losses and normalisation.

use crate::tensor::{CrossEntropy, Reduction};

use super::{Row, row};

pub(super) fn rows() -> Vec<Row> {
    vec![
        row("local_response_norm", |x| x[0].local_response_norm(3, 0.5, 0.6, 0.7)).on([&[2, 5, 3]]),
        row("cosine_similarity", |x| x[0].cosine_similarity(&x[1], 1, 1e-8)).on([&[3, 5, 2], &[3, 5, 1]]),
        row("pairwise_distance", |x| x[0].pairwise_distance(&x[1], 3.0, 1e-6)).on([&[3, 5], &[3, 5]]),
        row("softmax", |x| x[0].softmax(1)).on([&[3, 5]]).on([&[2, 3, 4]]).on([&[2, 1]]),
        row("log_softmax", |x| x[0].log_softmax(-1)).on([&[3, 5]]),
        row("cross_entropy", |x| x[0].cross_entropy(&x[1])).indexed([&[4, 5]], 5, &[4]).indexed(
            [&[2, 3, 2, 2]],
            3,
            &[2, 2, 2],
        ),
        row("cross_entropy_smoothed", |x| {
            let options = CrossEntropy { label_smoothing: 0.1, reduction: Reduction::Sum, ..CrossEntropy::default() };
            x[0].cross_entropy_with(&x[1], &options)
        })
        .indexed([&[4, 5]], 5, &[4])
        .indexed([&[5]], 5, &[]),
        row("cross_entropy_soft", |x| x[0].cross_entropy_soft(&x[1], Reduction::None)).on([&[4, 5], &[4, 5]]),
        row("nll_loss", |x| x[0].nll_loss(&x[1], Reduction::Mean)).indexed([&[4, 5]], 5, &[4]),
        row("mse_loss", |x| x[0].mse_loss(&x[1], Reduction::Mean)).on([&[4, 5], &[4, 5]]),
        row("l1_loss", |x| x[0].l1_loss(&x[1], Reduction::Sum)).on([&[4, 5], &[4, 5]]),
        row("binary_cross_entropy_with_logits", |x| x[0].binary_cross_entropy_with_logits(&x[1], Reduction::Mean))
            .on([&[4, 5], &[4, 5]]),
        row("layer_norm", |x| x[0].layer_norm(1, Some(&x[1]), Some(&x[2]), 1e-5)).on([&[3, 6], &[6], &[6]]).loose(64.0),
        row("layer_norm_two_axes", |x| x[0].layer_norm(2, None, None, 1e-5)).on([&[2, 3, 4]]).loose(64.0),
        row("rms_norm", |x| x[0].rms_norm(Some(&x[1]), 1e-5)).on([&[3, 6], &[6]]).loose(64.0),
        row("batch_norm", |x| x[0].batch_norm(Some(&x[1]), Some(&x[2]), 1e-5).output)
            .on([&[4, 3, 2, 2], &[3], &[3]])
            .on([&[5, 2], &[2], &[2]])
            .loose(64.0),
        row("batch_norm_statistics", |x| {
            let norm = x[0].batch_norm(None, None, 1e-5);
            norm.mean * norm.variance
        })
        .on([&[4, 3, 2, 2]])
        .loose(64.0),
        row("batch_norm_eval", |x| x[0].batch_norm_eval(&x[1], &x[2], Some(&x[3]), None, 1e-5)).within(
            0.5,
            2.0,
            [&[4, 3, 2, 2], &[3], &[3], &[3]],
        ),
        row("group_norm", |x| x[0].group_norm(2, Some(&x[1]), Some(&x[2]), 1e-5))
            .on([&[2, 4, 3], &[4], &[4]])
            .loose(64.0),
        row("softmin", |x| x[0].softmin(1)).on([&[3, 5]]),
        row("instance_norm", |x| x[0].instance_norm(Some(&x[1]), Some(&x[2]), 1e-5))
            .on([&[2, 3, 2, 3], &[3], &[3]])
            .loose(64.0),
    ]
}
