//! One right class of many.

use brasa::Tensor;
use brasa::tensor::{CTCLoss, CrossEntropy, NLLLoss, Reduction};

use super::super::draw::Draw;
use super::{Row, one};

/// Any reduction.
pub(super) fn reduction(d: &mut Draw) -> Reduction {
    d.of(&[Reduction::Mean, Reduction::Sum, Reduction::None])
}

/// Logits `[batch, classes]`, maybe with pixels, and labels.
fn logits(d: &mut Draw) -> (Tensor, Tensor, usize) {
    let [batch, classes] = [d.between(1, 4), d.between(1, 5)];
    let pixels = if d.flag() { d.sizes(2, 2) } else { Vec::new() };
    let x = d.shaped(&[&[batch, classes], pixels.as_slice()].concat());
    let labels = d.index(classes, &[&[batch], pixels.as_slice()].concat());
    (x, labels, classes)
}

pub(super) fn rows() -> Vec<Row> {
    vec![
        one!("cross_entropy", |d| {
            let (x, labels, _) = logits(d);
            x.cross_entropy(&labels)
        }),
        one!("cross_entropy_with", |d| {
            let (x, labels, classes) = logits(d);
            let weight = d.flag().then(|| d.within(0.5, 2.0, &[classes]));
            let label_smoothing = d.of(&[0.0, 0.1]);
            let ignore_index = if weight.is_none() && d.flag() { Some(0) } else { None };
            // all labels may be ignored: the mean of nothing is NaN
            let reduction = if ignore_index.is_some() { Reduction::Sum } else { reduction(d) };
            x.cross_entropy_with(&labels, &CrossEntropy { weight, ignore_index, label_smoothing, reduction })
        }),
        one!("cross_entropy_soft", |d| {
            let (x, _, _) = logits(d);
            let targets = d.shaped(x.shape().dims()).softmax(1);
            x.cross_entropy_soft(&targets, reduction(d))
        }),
        one!("cross_entropy_soft_with", |d| {
            let (x, _, classes) = logits(d);
            let targets = d.shaped(x.shape().dims()).softmax(1);
            let weight = Some(d.within(0.5, 2.0, &[classes]));
            x.cross_entropy_soft_with(
                &targets,
                &CrossEntropy { weight, label_smoothing: 0.1, ..CrossEntropy::default() },
            )
        }),
        one!("nll_loss", |d| {
            let (x, labels, _) = logits(d);
            x.log_softmax(1).nll_loss(&labels, reduction(d))
        }),
        one!("nll_loss_with", |d| {
            let (x, labels, classes) = logits(d);
            let weight = Some(d.within(0.5, 2.0, &[classes]));
            x.nll_loss_with(&labels, &NLLLoss { weight, ignore_index: None, reduction: reduction(d) })
        }),
        one!("multi_margin_loss", |d| {
            let [batch, classes] = [d.between(1, 4), d.between(2, 5)];
            let (x, labels) = (d.shaped(&[batch, classes]), d.index(classes, &[batch]));
            let p = d.of(&[1, 2]);
            x.multi_margin_loss(&labels, p, 0.7, None, reduction(d))
        }),
        one!("dice_loss_classes", |d| {
            let (x, labels) = (d.shaped(&[2, 3, 4]), d.index(3, &[2, 4]));
            x.dice_loss_classes(&labels, 1e-2, reduction(d))
        }),
        one!("ctc_loss", |d| {
            let [time, batch, classes, longest] = [d.between(3, 5), d.between(1, 2), d.between(3, 4), d.between(1, 2)];
            let x = d.shaped(&[time, batch, classes]).log_softmax(2);
            let labels = d.index(classes - 1, &[batch, longest]).to_dtype(brasa::DType::I32) + 1;
            let times = Tensor::full([batch], time as i32, x.device());
            let lengths = d.index(longest, &[batch]).to_dtype(brasa::DType::I32) + 1;
            x.ctc_loss(
                &labels,
                &times,
                &lengths,
                &CTCLoss { reduction: reduction(d), zero_infinity: true, ..CTCLoss::default() },
            )
        }),
    ]
}
