//! Convolution and pooling.

use crate::ops::conv::ConvOptions;
use crate::ops::pool::PoolOptions;

use super::{Row, row};

fn conv(stride: usize, padding: usize, dilation: usize, groups: usize) -> ConvOptions {
    ConvOptions::default().stride(stride).padding(padding).dilation(dilation).groups(groups)
}

fn overlap() -> PoolOptions {
    PoolOptions::new(3).stride(2).padding(1).ceil_mode()
}

pub(super) fn rows() -> Vec<Row> {
    vec![
        row("conv1d", |x| x[0].conv1d(&x[1], Some(&x[2]), &conv(2, 1, 1, 1))).on([&[2, 3, 8], &[4, 3, 3], &[4]]),
        row("conv2d", |x| x[0].conv2d(&x[1], Some(&x[2]), &conv(1, 1, 1, 1)))
            .on([&[2, 3, 5, 4], &[4, 3, 3, 3], &[4]])
            .on([&[1, 2, 3, 3], &[2, 2, 1, 1], &[2]]),
        row("conv2d_strided", |x| x[0].conv2d(&x[1], None, &conv(2, 1, 1, 1)))
            .on([&[2, 3, 7, 6], &[4, 3, 3, 3]])
            .on([&[1, 1, 2, 2], &[1, 1, 4, 4]]),
        row("conv2d_dilated", |x| x[0].conv2d(&x[1], None, &conv(1, 2, 2, 1))).on([&[1, 2, 6, 5], &[3, 2, 3, 3]]),
        row("conv2d_grouped", |x| x[0].conv2d(&x[1], None, &conv(1, 1, 1, 2))).on([&[2, 4, 4, 4], &[6, 2, 3, 3]]),
        row("conv2d_depthwise", |x| x[0].conv2d(&x[1], None, &conv(2, 1, 1, 3))).on([&[2, 3, 5, 5], &[3, 1, 3, 3]]),
        row("conv3d", |x| x[0].conv3d(&x[1], None, &conv(1, 0, 1, 1))).on([&[1, 2, 3, 4, 3], &[2, 2, 2, 3, 2]]),
        row("conv_transpose1d", |x| x[0].conv_transpose1d(&x[1], None, &conv(3, 0, 1, 1))).on([&[1, 2, 4], &[2, 3, 2]]),
        row("conv_transpose2d", |x| x[0].conv_transpose2d(&x[1], Some(&x[2]), &conv(2, 1, 1, 1).output_padding(1)))
            .on([&[2, 3, 3, 4], &[3, 2, 3, 3], &[2]]),
        row("conv_transpose2d_grouped", |x| x[0].conv_transpose2d(&x[1], None, &conv(2, 0, 2, 2)))
            .on([&[1, 4, 3, 3], &[4, 3, 2, 2]]),
        row("max_pool2d", |x| x[0].max_pool2d(2, 2, 0)).on([&[2, 3, 6, 4]]).on([&[1, 1, 3, 3]]),
        row("max_pool2d_overlapping", |x| x[0].max_pool2d(3, 2, 1)).on([&[2, 2, 6, 5]]),
        row("avg_pool2d", |x| x[0].avg_pool2d(2, 2, 0)).on([&[2, 3, 6, 4]]),
        row("avg_pool2d_overlapping", |x| x[0].avg_pool2d(3, 1, 1)).on([&[1, 2, 4, 5]]),
        row("adaptive_avg_pool2d", |x| x[0].adaptive_avg_pool2d(2)).on([&[2, 3, 6, 4]]),
        row("conv2d_same", |x| x[0].conv2d(&x[1], None, &conv(1, 0, 2, 1).same())).on([&[1, 2, 5, 4], &[3, 2, 2, 3]]),
        row("conv_transpose3d", |x| x[0].conv_transpose3d(&x[1], None, &conv(2, 1, 1, 1)))
            .on([&[1, 2, 2, 3, 2], &[2, 2, 3, 2, 3]]),
        row("max_pool1d", |x| x[0].max_pool1d_with(&overlap())).on([&[2, 3, 8]]),
        row("max_pool2d_ceil", |x| x[0].max_pool2d_with(&overlap())).on([&[1, 2, 5, 6]]),
        row("max_pool3d", |x| x[0].max_pool3d_with(&PoolOptions::new(2))).on([&[1, 2, 4, 3, 5]]),
        row("max_pool_indices", |x| x[0].max_pool2d_with_indices(&overlap()).1).on([&[1, 2, 5, 6]]),
        row("max_unpool2d", |x| {
            let (largest, indices) = x[0].max_pool2d_with_indices(&PoolOptions::new([2, 1]));
            (largest * 2.0).max_unpool2d(&indices, [5, 3])
        })
        .on([&[2, 2, 5, 3]]),
        row("avg_pool1d", |x| x[0].avg_pool1d_with(&overlap())).on([&[2, 3, 8]]),
        row("max_pool2d_ceil_of_less_than_a_window", |x| {
            x[0].max_pool2d_with(&PoolOptions::new(3).stride(2).ceil_mode())
        })
        .on([&[1, 2, 2, 2]]),
        row("avg_pool2d_ceil", |x| x[0].avg_pool2d_with(&overlap().without_padding())).on([&[1, 2, 5, 6]]),
        row("avg_pool3d", |x| x[0].avg_pool3d_with(&PoolOptions::new(2))).on([&[1, 2, 4, 3, 5]]),
        row("lp_pool", |x| {
            x[0].lp_pool1d(3.0, &PoolOptions::new(2))
                * x[0].reshape([1, 2, 6, 1]).lp_pool2d(2.0, &PoolOptions::new([2, 1])).squeeze(3)
        })
        .within(0.5, 2.0, [&[1, 2, 6]]),
        row("adaptive_avg_pool1d", |x| x[0].adaptive_avg_pool1d(4)).on([&[2, 3, 9]]),
        row("adaptive_avg_pool2d_uneven", |x| x[0].adaptive_avg_pool2d([3, 4])).on([&[1, 2, 7, 6]]),
        row("adaptive_max_pool2d", |x| x[0].adaptive_max_pool2d([3, 2])).on([&[1, 2, 7, 5]]),
        row("adaptive_max_pool3d", |x| x[0].adaptive_max_pool3d(2)).on([&[1, 2, 3, 4, 5]]),
        row("im2col", |x| x[0].im2col([2, 3], &conv(2, 1, 1, 1))).on([&[2, 3, 5, 4]]),
        row("col2im", |x| x[0].col2im([5, 4], [2, 3], &conv(2, 1, 1, 1))).on([&[2, 12, 6]]),
    ]
}
