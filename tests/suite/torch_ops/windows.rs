//! Convolution, pooling, interpolation and sampling.

use brasa::ops::conv::ConvOptions;
use brasa::ops::pool::PoolOptions;
use brasa::tensor::{Interpolation, Outside};

use super::{Row, one};

fn conv(stride: &[usize], padding: &[usize], dilation: &[usize], groups: usize) -> ConvOptions {
    let [stride, padding, dilation] = [stride, padding, dilation].map(<[usize]>::to_vec);
    ConvOptions { stride, padding, dilation, groups, ..ConvOptions::default() }
}

/// A mode of sampling under its name.
macro_rules! sample {
    ($($mode:literal $outside:literal $aligned:literal = $nearest:literal $variant:ident),* $(,)?) => {
        [$(one!(concat!("grid_sample ", $mode, " ", $outside, " ", $aligned), 64.0, |x| {
            x[0].grid_sample(&x[1], $nearest, Outside::$variant, $aligned)
        })),*]
    };
}

pub(crate) fn rows() -> Vec<Row> {
    convolutions().into_iter().chain(pools()).chain(pictures()).collect()
}

fn convolutions() -> Vec<Row> {
    vec![
        one!("conv1d", |x| x[0].conv1d(&x[1], Some(&x[2]), &conv(&[2], &[3], &[2], 2))),
        one!("conv2d", |x| x[0].conv2d(&x[1], Some(&x[2]), &conv(&[2, 1], &[1, 2], &[1, 2], 2))),
        one!("conv3d", |x| x[0].conv3d(&x[1], Some(&x[2]), &conv(&[1, 2, 1], &[0, 1, 1], &[1], 1))),
        one!("conv2d_same", |x| x[0].conv2d(&x[1], None, &conv(&[1], &[0], &[1, 3], 1).same())),
        one!("conv2d_valid", |x| x[0].conv2d(&x[1], None, &ConvOptions::default())),
        one!("conv_transpose1d", |x| {
            x[0].conv_transpose1d(&x[1], Some(&x[2]), &conv(&[3], &[1], &[2], 2).output_padding(2))
        }),
        one!("conv_transpose2d", |x| {
            let options = ConvOptions { output_padding: vec![1, 0], ..conv(&[2, 1], &[1, 0], &[1], 1) };
            x[0].conv_transpose2d(&x[1], Some(&x[2]), &options)
        }),
        one!("conv_transpose3d", |x| x[0].conv_transpose3d(&x[1], None, &conv(&[1, 2, 1], &[0, 1, 1], &[1], 1))),
    ]
}

fn pools() -> Vec<Row> {
    vec![
        one!("max_pool1d", |x| {
            x[0].max_pool1d_with(&PoolOptions::new(3).stride(2).padding(1).dilation(2).ceil_mode())
        }),
        one!("max_pool2d", |x| {
            x[0].max_pool2d_with(&PoolOptions::new([3, 2]).stride([2, 1]).padding(1).dilation([1, 2]))
        }),
        one!("max_pool2d_ceil", |x| x[0].max_pool2d_with(&overlap())),
        one!("max_pool3d", |x| x[0].max_pool3d_with(&PoolOptions::new(2).ceil_mode())),
        one!("avg_pool1d", |x| x[0].avg_pool1d_with(&PoolOptions::new(4).stride(3).padding(2).ceil_mode())),
        one!("avg_pool2d", |x| x[0].avg_pool2d_with(&PoolOptions::new([3, 2]).stride([2, 1]).padding(1))),
        one!("avg_pool2d_ceil", |x| x[0].avg_pool2d_with(&overlap())),
        one!("avg_pool2d_inside", |x| x[0].avg_pool2d_with(&overlap().without_padding())),
        one!("avg_pool2d_divisor", |x| x[0].avg_pool2d_with(&PoolOptions::new(3).divisor(2))),
        one!("avg_pool3d", |x| {
            x[0].avg_pool3d_with(&PoolOptions::new([2, 3, 1]).padding([1, 0, 0]).without_padding())
        }),
        Row("max_pool1d_indices", 16.0, |x| {
            pair(x[0].max_pool1d_with_indices(&PoolOptions::new(3).stride(2).padding(1).dilation(2).ceil_mode()))
        }),
        Row("max_pool2d_indices", 16.0, |x| pair(x[0].max_pool2d_with_indices(&overlap()))),
        Row("max_pool3d_indices", 16.0, |x| pair(x[0].max_pool3d_with_indices(&PoolOptions::new(2).ceil_mode()))),
        one!("max_unpool1d", |x| x[0].max_unpool1d(&x[1], [9])),
        one!("max_unpool2d", |x| x[0].max_unpool2d(&x[1], [7, 6])),
        one!("max_unpool3d", |x| x[0].max_unpool3d(&x[1], [4, 5, 3])),
        one!("lp_pool1d", |x| x[0].lp_pool1d(2.0, &PoolOptions::new(3).stride(2))),
        one!("lp_pool2d", |x| x[0].lp_pool2d(3.0, &PoolOptions::new([3, 2]).stride(2).ceil_mode())),
        one!("lp_pool3d", |x| x[0].lp_pool3d(2.0, &PoolOptions::new(2))),
        one!("adaptive_avg_pool1d", |x| x[0].adaptive_avg_pool1d(4)),
        Row("adaptive_avg_pool2d", 16.0, |x| {
            vec![x[0].adaptive_avg_pool2d([3, 4]), x[0].adaptive_avg_pool2d(1), x[0].adaptive_avg_pool2d([7, 3])]
        }),
        one!("adaptive_avg_pool3d", |x| x[0].adaptive_avg_pool3d([3, 2, 2])),
        one!("adaptive_max_pool1d", |x| x[0].adaptive_max_pool1d(4)),
        Row("adaptive_max_pool2d", 16.0, |x| vec![x[0].adaptive_max_pool2d([3, 4]), x[0].adaptive_max_pool2d(1)]),
        one!("adaptive_max_pool3d", |x| x[0].adaptive_max_pool3d([3, 2, 2])),
    ]
}

fn pair((values, indices): (brasa::Tensor, brasa::Tensor)) -> Vec<brasa::Tensor> {
    vec![values, indices]
}

fn overlap() -> PoolOptions {
    PoolOptions::new(3).stride(2).padding(1).ceil_mode()
}

fn pictures() -> Vec<Row> {
    let sampled = sample![
        "bilinear" "zeros" false = false Zeros,
        "bilinear" "zeros" true = false Zeros,
        "bilinear" "border" false = false Border,
        "bilinear" "border" true = false Border,
        "bilinear" "reflection" false = false Reflection,
        "bilinear" "reflection" true = false Reflection,
        "nearest" "zeros" false = true Zeros,
        "nearest" "zeros" true = true Zeros,
        "nearest" "border" false = true Border,
        "nearest" "border" true = true Border,
        "nearest" "reflection" false = true Reflection,
        "nearest" "reflection" true = true Reflection,
    ];
    let resized = [
        Row("interpolate nearest", 16.0, |x| nearest(&x[0], Interpolation::Nearest)),
        Row("interpolate nearest-exact", 16.0, |x| nearest(&x[0], Interpolation::NearestExact)),
        one!("interpolate linear", |x| x[0].interpolate(13, Interpolation::Linear)),
        Row("interpolate bilinear", 32.0, |x| smooth(&x[0], Interpolation::Linear)),
        Row("interpolate bilinear aligned", 32.0, |x| smooth(&x[0], Interpolation::LinearAligned)),
        // places are rounded to f32, and the weights are steep
        Row("interpolate bicubic", 64.0, |x| smooth(&x[0], Interpolation::Cubic)),
        Row("interpolate bicubic aligned", 64.0, |x| smooth(&x[0], Interpolation::CubicAligned)),
        one!("interpolate trilinear", |x| x[0].interpolate_scale(1.5, Interpolation::Linear)),
        Row("interpolate trilinear aligned", 32.0, |x| {
            vec![
                x[0].interpolate([3, 7, 4], Interpolation::LinearAligned),
                x[0].interpolate([2, 3, 1], Interpolation::Linear),
            ]
        }),
        Row("interpolate nearest 3d", 16.0, |x| {
            vec![
                x[0].interpolate([3, 7, 4], Interpolation::Nearest),
                x[0].interpolate([2, 3, 6], Interpolation::NearestExact),
            ]
        }),
        Row("interpolate nearest 1d", 16.0, |x| {
            vec![x[0].interpolate(13, Interpolation::Nearest), x[0].interpolate(5, Interpolation::NearestExact)]
        }),
        Row("interpolate area", 16.0, |x| {
            vec![x[0].interpolate([5, 11], Interpolation::Area), x[0].interpolate_scale(0.5, Interpolation::Area)]
        }),
        Row("interpolate bilinear antialias", 32.0, |x| antialiased(&x[0], Interpolation::LinearAntialiased)),
        Row("interpolate bicubic antialias", 64.0, |x| antialiased(&x[0], Interpolation::CubicAntialiased)),
        Row("affine_grid", 16.0, |x| vec![x[0].affine_grid([3, 4], false), x[0].affine_grid([3, 1], true)]),
        Row("affine_grid 3d", 16.0, |x| vec![x[0].affine_grid([2, 3, 4], false), x[0].affine_grid([1, 3, 2], true)]),
    ];
    let solid = sample![
        "3d bilinear" "zeros" false = false Zeros,
        "3d bilinear" "border" true = false Border,
        "3d bilinear" "reflection" false = false Reflection,
        "3d nearest" "zeros" true = true Zeros,
        "3d nearest" "reflection" true = true Reflection,
    ];
    resized.into_iter().chain(sampled).chain(solid).collect()
}

fn nearest(x: &brasa::Tensor, mode: Interpolation) -> Vec<brasa::Tensor> {
    vec![x.interpolate([5, 11], mode), x.interpolate([14, 12], mode), x.interpolate_scale(1.6, mode)]
}

fn antialiased(x: &brasa::Tensor, mode: Interpolation) -> Vec<brasa::Tensor> {
    let sized = [[2, 11], [14, 3], [4, 2]].into_iter().map(|size| x.interpolate(size, mode));
    sized.chain([x.interpolate_scale(0.4, mode)]).collect()
}

fn smooth(x: &brasa::Tensor, mode: Interpolation) -> Vec<brasa::Tensor> {
    [[5, 11], [14, 12], [1, 7]].into_iter().map(|size| x.interpolate(size, mode)).collect()
}
