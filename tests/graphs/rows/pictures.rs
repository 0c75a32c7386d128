//! Interpolation and sampling.

use brasa::tensor::{Interpolation, Outside};

use super::super::draw::Draw;
use super::{Row, one};

/// Any mode that goes with two spatial axes.
fn mode(d: &mut Draw) -> Interpolation {
    use Interpolation::{
        Area, Cubic, CubicAligned, CubicAntialiased, Linear, LinearAligned, LinearAntialiased, Nearest, NearestExact,
    };
    d.of(&[
        Nearest,
        NearestExact,
        Linear,
        LinearAligned,
        Cubic,
        CubicAligned,
        LinearAntialiased,
        CubicAntialiased,
        Area,
    ])
}

pub(super) fn rows() -> Vec<Row> {
    vec![
        one!("interpolate", |d| {
            let [height, width] = [d.between(1, 4), d.between(1, 4)];
            let size = d.sizes(2, 6);
            let x = d.shaped(&[1, 2, height, width]);
            x.interpolate(size, mode(d))
        }),
        one!("interpolate_1d", |d| {
            let (size, new) = (d.between(1, 6), d.between(1, 8));
            let x = d.shaped(&[2, 2, size]);
            use Interpolation::{Linear, LinearAligned, Nearest, NearestExact};
            x.interpolate(new, d.of(&[Linear, Nearest, NearestExact, LinearAligned]))
        }),
        one!("interpolate_scale", |d| {
            let x = d.shaped(&[1, 2, 3, 2]);
            let scale = d.of(&[1.6, 2.0, 0.5]);
            x.interpolate_scale(scale, mode(d))
        }),
        one!("upsample_nearest2d", |d| {
            let [height, width] = [d.between(1, 3), d.between(1, 3)];
            d.shaped(&[1, 2, height, width]).upsample_nearest2d([2, 3])
        }),
        one!("grid_sample", |d| {
            let [height, width] = [d.between(1, 4), d.between(1, 4)];
            let (x, grid) = (d.shaped(&[1, 2, height, width]), d.within(-1.5, 1.5, &[1, 2, 3, 2]));
            let outside = d.of(&[Outside::Zeros, Outside::Border, Outside::Reflection]);
            let (nearest, aligned) = (d.flag(), d.flag());
            x.grid_sample(&grid, nearest, outside, aligned)
        }),
        one!("grid_sample_3d", |d| {
            let sizes = d.sizes(3, 3);
            let (x, grid) = (d.shaped(&[&[1, 2], sizes.as_slice()].concat()), d.within(-1.5, 1.5, &[1, 2, 1, 3, 3]));
            let outside = d.of(&[Outside::Zeros, Outside::Border, Outside::Reflection]);
            let (nearest, aligned) = (d.flag(), d.flag());
            x.grid_sample(&grid, nearest, outside, aligned)
        }),
        one!("affine_grid", |d| {
            let batch = d.between(1, 2);
            let aligned = d.flag();
            if d.flag() {
                d.shaped(&[batch, 3, 4]).affine_grid([2, 1, 3], aligned)
            } else {
                d.shaped(&[batch, 2, 3]).affine_grid([2, 3], aligned)
            }
        }),
    ]
}
