//! Interpolation and sampling.

use crate::tensor::{Interpolation, Outside};

use super::{Row, row};

pub(super) fn rows() -> Vec<Row> {
    vec![
        row("upsample_nearest2d", |x| x[0].upsample_nearest2d([2, 3])).on([&[1, 2, 3, 2]]),
        row("interpolate_nearest", |x| x[0].interpolate([4, 6], Interpolation::Nearest)).on([&[1, 2, 3, 2]]),
        row("interpolate_exact", |x| x[0].interpolate_scale(1.6, Interpolation::NearestExact)).on([&[1, 2, 5]]),
        row("interpolate_linear", |x| x[0].interpolate([5, 3], Interpolation::Linear)).on([&[1, 2, 3, 4]]),
        row("interpolate_aligned", |x| x[0].interpolate(5, Interpolation::LinearAligned)).on([&[1, 2, 3]]),
        row("interpolate_cubic", |x| x[0].interpolate([5, 3], Interpolation::Cubic)).on([&[1, 2, 3, 4]]),
        row("grid_sample", |x| x[0].grid_sample(&x[1], false, Outside::Zeros, false))
            .on([&[2, 2, 3, 4], &[2, 2, 3, 2]])
            .loose(64.0),
        row("grid_sample_reflected", |x| x[0].grid_sample(&x[1], false, Outside::Reflection, true))
            .on([&[1, 2, 3, 4], &[1, 2, 3, 2]])
            .loose(64.0),
        row("interpolate_area", |x| x[0].interpolate([2, 7], Interpolation::Area)).on([&[1, 2, 3, 4]]),
        row("interpolate_antialiased", |x| {
            x[0].interpolate([2, 7], Interpolation::LinearAntialiased)
                + x[0].interpolate([2, 7], Interpolation::CubicAntialiased)
        })
        .on([&[1, 2, 5, 4]]),
        row("grid_sample_3d", |x| x[0].grid_sample(&x[1], false, Outside::Border, true))
            .on([&[1, 2, 3, 4, 2], &[1, 2, 1, 3, 3]])
            .loose(64.0),
        row("affine_grid", |x| x[0].affine_grid([3, 4], false)).on([&[2, 2, 3]]),
        row("affine_grid_3d", |x| x[0].affine_grid([2, 3, 4], true)).on([&[2, 3, 4]]),
    ]
}
