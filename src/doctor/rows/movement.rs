//! Movement.

use crate::tensor::PadMode;
use crate::{DType, Tensor};

use super::{Row, row};

pub(super) fn rows() -> Vec<Row> {
    vec![
        row("reshape", |x| x[0].reshape([-1, 2]) * 3.0).on([&[3, 4]]).on([&[2, 1, 3]]),
        row("flatten", |x| x[0].flatten(1, -1)).on([&[3, 4, 2]]),
        row("permute", |x| x[0].permute([2, 0, 1])).on([&[3, 4, 2]]).on([&[1, 0, 2]]),
        row("transpose", |x| x[0].transpose(0, -1)).on([&[3, 4, 2]]),
        row("t", |x| x[0].t()).on([&[3, 4]]),
        row("unsqueeze", |x| x[0].unsqueeze(-1).unsqueeze(0)).on([&[3]]).on([&[]]),
        row("squeeze", |x| x[0].squeeze([0, 2])).on([&[1, 3, 1]]),
        row("expand", |x| x[0].expand([2, 3, 4])).on([&[3, 1]]).on([&[]]),
        row("expand_rows", |x| x[0].expand([0, 3])).on([&[3]]),
        row("narrow", |x| x[0].narrow(-1, 1, 2)).on([&[3, 4]]),
        row("narrow_to_nothing", |x| x[0].narrow(0, 1, 0)).on([&[3, 4]]),
        row("slice", |x| x[0].slice(0, 2..)).on([&[5]]),
        row("slice_step", |x| x[0].slice_step(0, 1..6, 2)).on([&[7, 2]]),
        row("select", |x| x[0].select(1, 2)).on([&[3, 4]]).on([&[1, 3]]),
        row("flip", |x| x[0].flip([0, 1])).on([&[3, 4]]),
        row("pad", |x| x[0].pad(&[(1, 0), (2, -1)], 7.0)).on([&[3, 4]]).on([&[0, 2]]).on([&[1, 1]]),
        row("cat", |x| Tensor::cat(&[&x[0], &x[1], &x[0]], 1)).on([&[2, 3], &[2, 1]]).on([&[2, 0], &[2, 2]]),
        row("cat_bytes", |x| Tensor::cat(&[&x[0], &x[1]], 0)).typed(DType::U8, 0.0, 255.0, [&[3], &[4]]),
        row("stack", |x| Tensor::stack(&[&x[0], &x[1]], 1)).on([&[2, 3], &[2, 3]]),
        row("split", |x| {
            x[0].split(2, 0).iter().rev().fold(x[0].narrow(0, 0, 1), |sum, part| sum * part.narrow(0, 0, 1))
        })
        .on([&[5, 2]]),
        row("chunk", |x| x[0].chunk(2, 1)[1].clone()).on([&[2, 5]]),
        row("views_of_views", |x| x[0].t().slice_step(0, .., 2).flip(1).pad(&[(1, 1), (0, 1)], 0.0).t().reshape([-1]))
            .on([&[3, 5]]),
        row("slice_backwards", |x| x[0].slice_step(0, 1..6, -2)).on([&[7, 2]]),
        row("slice_scatter", |x| x[0].slice_scatter(-1, 1..3, &x[1])).on([&[3, 4], &[3, 2]]).on([&[3, 4], &[2]]),
        row("slice_step_scatter", |x| x[0].slice_step_scatter(0, 1..7, -2, &x[1])).on([&[7, 2], &[3, 2]]),
        row("select_scatter", |x| x[0].select_scatter(1, 2, &x[1])).on([&[3, 4], &[3]]).on([&[1, 3], &[1]]),
        row("diagonal_scatter", |x| x[0].diagonal_scatter(-1, 2, 0, &x[1])).on([&[3, 2, 5], &[2, 3]]),
        row("unflatten", |x| x[0].unflatten(1, [2, -1])).on([&[3, 4]]),
        row("movedim", |x| x[0].movedim([0, 1], [-1, 0])).on([&[3, 4, 2]]),
        row("squeeze_all", |x| x[0].squeeze_all()).on([&[1, 3, 1]]),
        row("roll", |x| x[0].roll([1, -2], [0, 1])).on([&[3, 5]]).on([&[0, 1]]),
        row("repeat", |x| x[0].repeat(&[2, 1, 3])).on([&[3, 2]]).on([&[0, 2]]),
        row("tile", |x| x[0].tile(&[2])).on([&[3, 2]]),
        row("repeat_interleave", |x| x[0].repeat_interleave(3, 0)).on([&[3, 2]]),
        row("rot90", |x| x[0].rot90(1, [0, 1]) * x[0].rot90(-1, [0, 1])).on([&[3, 4]]),
        row("unbind", |x| x[0].unbind(1).into_iter().reduce(|a, b| a * b).expect("slices")).on([&[3, 4]]),
        row("split_sizes", |x| x[0].split_sizes(&[1, 3], 1)[1].clone()).on([&[3, 4]]),
        row("meshgrid", |x| {
            let grids = Tensor::meshgrid(&[&x[0], &x[1]]);
            &grids[0] * &grids[1]
        })
        .on([&[3], &[4]]),
        row("unfold", |x| x[0].unfold(0, 3, 2)).on([&[7, 2]]),
        row("diagonal", |x| x[0].diagonal(1, 0, 2)).on([&[3, 2, 4]]).on([&[1, 1, 1]]).on([&[4, 2, 3]]),
        row("diag_embed", |x| x[0].diag_embed(-1)).on([&[2, 3]]),
        row("trace", |x| x[0].trace()).on([&[3, 4]]),
        row("tril", |x| x[0].tril(1) * x[0].triu(-1)).on([&[2, 4, 5]]).typed(DType::I32, -9.0, 9.0, [&[3, 3]]),
        row("pad_reflect", |x| x[0].pad_mode(&[(2, 1), (0, 3)], PadMode::Reflect)).on([&[3, 4]]),
        row("pad_replicate", |x| x[0].pad_mode(&[(2, 1), (0, 5)], PadMode::Replicate)).on([&[3, 4]]),
        row("pad_circular", |x| x[0].pad_mode(&[(2, 1), (0, 4)], PadMode::Circular)).on([&[3, 4]]),
        row("pixel_shuffle", |x| x[0].pixel_shuffle(2)).on([&[2, 8, 2, 3]]),
        row("pixel_unshuffle", |x| x[0].pixel_unshuffle(2)).on([&[2, 4, 6]]),
        row("channel_shuffle", |x| x[0].channel_shuffle(3)).on([&[2, 6, 2]]),
        row("eight_axes", |x| x[0].permute([7, 0, 6, 1, 5, 2, 4, 3]).flip([0, 3]).sum_dim([1, 4]))
            .on([&[2, 1, 2, 1, 2, 1, 2, 3]]),
    ]
}
