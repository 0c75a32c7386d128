//! Movement and indexing.

use brasa::Tensor;
use brasa::ops::conv::ConvOptions;
use brasa::tensor::PadMode;

use super::{Row, one};

fn uneven() -> ConvOptions {
    ConvOptions { stride: vec![2, 1], padding: vec![1, 2], dilation: vec![1, 2], ..ConvOptions::default() }
}

pub(crate) fn rows() -> Vec<Row> {
    vec![
        Row("roll", 1.0, |x| vec![x[0].roll(1, 0), x[0].roll([-1, 3], [1, 2])]),
        Row("repeat", 16.0, |x| vec![x[0].repeat(&[2, 1, 3, 2]), x[0].tile(&[2])]),
        one!("repeat_interleave", |x| x[0].repeat_interleave(3, 1)),
        Row("rot90", 1.0, |x| (-1..4).map(|times| x[0].rot90(times, [1, 2])).collect()),
        one!("flip", |x| x[0].flip([0, 2])),
        Row("movedim", 1.0, |x| vec![x[0].movedim(0, 2), x[0].movedim([0, 1], [-1, 0])]),
        one!("unflatten", |x| x[0].unflatten(1, [2, -1])),
        Row("unbind", 1.0, |x| x[0].unbind(1)),
        Row("split_sizes", 1.0, |x| x[0].split_sizes(&[1, 3], 1)),
        Row("unfold", 16.0, |x| vec![x[0].unfold(1, 3, 1), x[0].unfold(0, 1, 2)]),
        Row("diagonal", 1.0, |x| vec![x[0].diagonal(0, 0, 1), x[0].diagonal(1, 1, 0), x[0].diagonal(-1, 0, 2)]),
        Row("diag", 1.0, |x| vec![x[0].diag(0), x[0].diag(-1), x[0].select(0, 0).diag(2)]),
        Row("diag_embed", 1.0, |x| vec![x[0].diag_embed(0), x[0].diag_embed(-2)]),
        one!("trace", |x| x[0].trace()),
        Row("tril", 1.0, |x| vec![x[0].tril(0), x[0].triu(1), x[0].tril(-1), x[0].triu(-1)]),
        Row("meshgrid", 1.0, |x| Tensor::meshgrid(&[&x[0], &x[1]])),
        one!("pad_reflect", |x| x[0].pad_mode(&[(0, 0), (1, 0), (2, 1)], PadMode::Reflect)),
        one!("pad_replicate", |x| x[0].pad_mode(&[(0, 0), (0, 0), (3, 0), (2, 1)], PadMode::Replicate)),
        one!("pad_circular", |x| x[0].pad_mode(&[(0, 0), (0, 0), (3, 0), (2, 1)], PadMode::Circular)),
        one!("pad_constant", |x| x[0].pad(&[(0, 0), (1, 0), (2, -1)], 7.0)),
        one!("pixel_shuffle", |x| x[0].pixel_shuffle(2)),
        one!("pixel_unshuffle", |x| x[0].pixel_unshuffle(2)),
        one!("channel_shuffle", |x| x[0].channel_shuffle(3)),
        one!("im2col", |x| x[0].im2col([2, 3], &uneven())),
        one!("col2im", |x| x[0].col2im([5, 4], [2, 3], &uneven())),
        one!("gather", |x| x[0].gather(1, &x[1])),
        one!("take_along_dim", |x| x[0].take_along_dim(&x[1], 1)),
        one!("index_select", |x| x[0].index_select(1, &x[1])),
        one!("masked_scatter", |x| x[0].masked_scatter(&x[1], &x[2])),
        one!("slice_scatter", |x| x[0].slice_scatter(1, 1..4, &x[1])),
        one!("slice_step_scatter", |x| x[0].slice_step_scatter(0, 1..7, 3, &x[1])),
        one!("select_scatter", |x| x[0].select_scatter(-2, 2, &x[1])),
        one!("diagonal_scatter", |x| x[0].diagonal_scatter(1, 0, -1, &x[1])),
        one!("diagonal_scatter_below", |x| x[0].diagonal_scatter(-1, 1, 0, &x[1])),
        one!("index_fill", |x| x[0].index_fill(1, &x[1], 0.5)),
        one!("bincount", |x| x[0].bincount_with(&x[1], 6)),
        one!("masked_fill", |x| x[0].masked_fill(&x[1], 7.0)),
    ]
}
