//! Losses of values by values.

use brasa::Tensor;
use brasa::tensor::{BinaryCrossEntropy, Reduction, TripletMargin};

use super::classes::reduction;
use super::{Row, one};

/// A loss of two values of one shape by a reduction.
macro_rules! losses {
    ($($name:literal: |$x:ident, $y:ident, $reduction:ident| $body:expr),* $(,)?) => {
        [$(one!($name, |d| {
            let $x = &d.solid();
            let $y = &d.shaped($x.shape().dims());
            let $reduction = reduction(d);
            $body
        })),*]
    };
}

/// -1 or 1 by the sign.
fn side(x: &Tensor) -> Tensor {
    x.gt(0.0).where_(x.full_like(1.0), -1.0)
}

pub(super) fn rows() -> Vec<Row> {
    let pairs = losses![
        "mse_loss": |x, y, reduction| x.mse_loss(y, reduction),
        "l1_loss": |x, y, reduction| x.l1_loss(y, reduction),
        "smooth_l1_loss": |x, y, reduction| x.smooth_l1_loss(y, 0.7, reduction),
        "huber_loss": |x, y, reduction| x.huber_loss(y, 0.7, reduction),
        "kl_div": |x, y, reduction| x.kl_div(&y.sigmoid(), false, reduction),
        "kl_div_log": |x, y, reduction| x.kl_div(&(y * 0.3), true, reduction),
        "poisson_nll_loss": |x, y, reduction| (x * 0.3).poisson_nll_loss(&y.abs(), true, true, 1e-8, reduction),
        "poisson_nll_loss_rates": |x, y, reduction| {
            (x.abs() + 0.1).poisson_nll_loss(&y.abs(), false, false, 1e-3, reduction)
        },
        "gaussian_nll_loss": |x, y, reduction| {
            x.gaussian_nll_loss(y, &(x.square() + 0.2), true, 1e-3, reduction)
        },
        "binary_cross_entropy": |x, y, reduction| {
            (x.sigmoid() * 0.9 + 0.05).binary_cross_entropy(&y.sigmoid(), reduction)
        },
        "binary_cross_entropy_with_logits": |x, y, reduction| {
            x.binary_cross_entropy_with_logits(&y.sigmoid(), reduction)
        },
        "binary_cross_entropy_weighted": |x, y, reduction| {
            let weight = Some(x.square().detach());
            let options = BinaryCrossEntropy { weight: weight.clone(), pos_weight: None, reduction };
            (y.sigmoid() * 0.9 + 0.05).binary_cross_entropy_with(&y.sigmoid(), &options)
                + x.binary_cross_entropy_with_logits_with(
                    &y.sigmoid(),
                    &BinaryCrossEntropy { weight: None, pos_weight: weight, reduction },
                )
        },
        "sigmoid_focal_loss": |x, y, reduction| {
            x.sigmoid_focal_loss(&y.gt(0.0).to_dtype(x.dtype()), 0.25, 2.0, reduction)
        },
        "soft_margin_loss": |x, y, reduction| x.soft_margin_loss(&side(y), reduction),
        "hinge_embedding_loss": |x, y, reduction| x.hinge_embedding_loss(&side(y), 1.1, reduction),
        "margin_ranking_loss": |x, y, reduction| x.margin_ranking_loss(y, &side(&(x + 0.3)), 0.2, reduction),
    ];
    pairs.into_iter().chain(others()).collect()
}

fn others() -> Vec<Row> {
    vec![
        one!("dice_loss", |d| {
            let x = d.shaped(&[2, 2, 3]).sigmoid();
            let y = d.shaped(&[2, 2, 3]).sigmoid();
            x.dice_loss(&y, 1e-2, reduction(d))
        }),
        one!("cosine_embedding_loss", |d| {
            let (x, y) = (d.shaped(&[3, 4]) + 0.1, d.shaped(&[3, 4]) + 0.1);
            let target = side(&d.shaped(&[3]));
            x.cosine_embedding_loss(&y, &target, 0.1, reduction(d))
        }),
        one!("triplet_margin_loss", |d| {
            let (x, y, z) = (d.shaped(&[3, 4]), d.shaped(&[3, 4]) * 0.9, d.shaped(&[3, 4]) - 0.3);
            let swap = d.flag();
            x.triplet_margin_loss(
                &y,
                &z,
                &TripletMargin { swap, epsilon: 0.1, reduction: Reduction::Mean, ..TripletMargin::default() },
            )
        }),
    ]
}
