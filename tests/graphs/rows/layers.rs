//! Normalisation, and functions with gradient rules of their own.

use brasa::autodiff::custom_gradient;
use brasa::runtime::checkpoint;

use super::{Row, one, row};

pub(super) fn rows() -> Vec<Row> {
    vec![
        one!("layer_norm", |d| {
            let x = d.ranked(1, 4);
            let axes = d.between(1, x.rank());
            let shape = x.shape()[x.rank() - axes..].to_vec();
            let (w, b) = (d.shaped(&shape), d.shaped(&shape));
            let affine = d.flag();
            x.layer_norm(axes, affine.then_some(&w), affine.then_some(&b), 1e-2)
        }),
        one!("rms_norm", |d| {
            let x = d.ranked(1, 4);
            let w = d.shaped(&[x.size(-1)]);
            x.rms_norm(Some(&w), 1e-2)
        }),
        row("batch_norm", |d| {
            let x = d.ranked(2, 4);
            let (w, b) = (d.shaped(&[x.size(1)]), d.shaped(&[x.size(1)]));
            let norm = x.batch_norm(Some(&w), Some(&b), 1e-2);
            // of a single element there is no variance
            if x.numel() > x.size(1) { vec![norm.mean, norm.variance, norm.output] } else { vec![norm.output] }
        }),
        one!("batch_norm_eval", |d| {
            let x = d.ranked(2, 4);
            let channels = [x.size(1)];
            let (mean, variance) = (d.shaped(&channels), d.within(0.2, 4.0, &channels));
            let w = d.shaped(&channels);
            x.batch_norm_eval(&mean, &variance, Some(&w), None, 1e-2)
        }),
        one!("group_norm", |d| {
            let [groups, each, size] = [d.between(1, 2), d.between(1, 3), d.between(1, 5)];
            let channels = groups * each;
            let (w, b) = (d.shaped(&[channels]), d.shaped(&[channels]));
            d.shaped(&[2, channels, size]).group_norm(groups, Some(&w), Some(&b), 1e-2)
        }),
        one!("instance_norm", |d| {
            let [channels, size] = [d.between(1, 3), d.between(1, 5)];
            let (w, b) = (d.shaped(&[channels]), d.shaped(&[channels]));
            d.shaped(&[2, channels, size]).instance_norm(Some(&w), Some(&b), 1e-2)
        }),
        one!("local_response_norm", |d| {
            let x = d.ranked(2, 4);
            let size = d.between(1, 3);
            x.local_response_norm(size, 0.5, 0.75, 1.0)
        }),
        one!("cosine_similarity", |d| {
            let x = d.ranked(1, 3);
            let y = d.shaped(x.shape().dims());
            let axis = d.axis(&x);
            x.cosine_similarity(&y, axis, 0.1)
        }),
        one!("pairwise_distance", |d| {
            let x = d.ranked(1, 3);
            let y = d.shaped(x.shape().dims());
            (x - 8.0).pairwise_distance(&y, 3.0, 1e-6)
        }),
        one!("custom_gradient", |d| {
            let x = d.solid();
            custom_gradient(&[&x], |x| (x[0] * 2.0).round(), |_, _, gradient| vec![Some(gradient * 2.0)])
        }),
        one!("checkpoint", |d| {
            let x = d.ranked(2, 2);
            let w = d.shaped(&[x.size(1), 3]);
            checkpoint(|| (x.matmul(&w) * 0.3).tanh().softmax(1))
        }),
        one!("checkpoint_norm", |d| {
            let x = d.ranked(2, 3);
            let y = d.shaped(x.shape().dims());
            checkpoint(|| (&x * y.sigmoid()).layer_norm(1, None, None, 1e-2).gelu())
        }),
        one!("checkpoint_dropout", |d| {
            let x = d.solid();
            checkpoint(|| x.sin().dropout(0.3).exp() - x.mean())
        }),
        one!("checkpoint_chain", |d| {
            let x = d.solid();
            let first = checkpoint(|| x.sin() * x.cos());
            checkpoint(|| (&first + &x).tanh() * x.sigmoid())
        }),
    ]
}
