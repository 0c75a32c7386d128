//! Convolution, pooling and windows.

use brasa::Tensor;
use brasa::ops::conv::ConvOptions;
use brasa::ops::movement::Window;
use brasa::ops::pool::PoolOptions;

use super::super::draw::Draw;
use super::{Row, one, row};

/// Input, weight and options of a convolution over `axes` axes, in which one window fits at the least.
fn convolution(d: &mut Draw, axes: usize, transposed: bool) -> (Tensor, Tensor, Option<Tensor>, ConvOptions) {
    let mut options = ConvOptions { groups: d.between(1, 2), ..ConvOptions::default() };
    let list = |d: &mut Draw, low, high| (0..axes).map(|_| d.between(low, high)).collect::<Vec<_>>();
    let kernel = list(d, 1, 3);
    options.stride = list(d, 1, 3);
    options.dilation = list(d, 1, 2);
    options.padding = list(d, 0, 2);
    let extra = list(d, 0, if axes == 1 { 8 } else { 3 });
    let [batch, inputs, outputs] = [d.between(1, 2), d.between(1, 2), d.between(1, 2)];
    let size = |axis: usize| {
        let reach: usize = options.dilation[axis] * (kernel[axis] - 1) + 1;
        let least = if transposed {
            // at least one element has to be left of the output
            (2 * options.padding[axis] + 1).saturating_sub(reach).div_ceil(options.stride[axis]) + 1
        } else {
            reach.saturating_sub(2 * options.padding[axis]).max(1)
        };
        least + extra[axis]
    };
    let sizes: Vec<usize> = (0..axes).map(size).collect();
    if transposed {
        options.output_padding =
            (0..axes).map(|axis| d.number(options.stride[axis].max(options.dilation[axis])).min(1)).collect();
    }
    let groups = options.groups;
    let x = d.shaped(&[&[batch, inputs * groups], sizes.as_slice()].concat());
    let channels = if transposed { [inputs * groups, outputs] } else { [outputs * groups, inputs] };
    let w = d.shaped(&[&channels, kernel.as_slice()].concat()) * 0.3;
    let bias = d.flag().then(|| d.shaped(&[outputs * groups]));
    (x, w, bias, options)
}

/// An input of `axes` spatial axes, and windows that fit.
fn pool(d: &mut Draw, axes: usize, dilated: bool) -> (Tensor, PoolOptions) {
    let list = |d: &mut Draw, low, high| (0..axes).map(|_| d.between(low, high)).collect::<Vec<_>>();
    let kernel = list(d, 1, 3);
    let mut options = PoolOptions::new(kernel.clone());
    options.stride = list(d, 1, 3);
    options.padding = (0..axes).map(|axis| d.number(kernel[axis] / 2 + 1)).collect();
    options.dilation = if dilated { list(d, 1, 2) } else { vec![1; axes] };
    options.ceil_mode = d.flag();
    let extra = list(d, 0, if axes == 1 { 6 } else { 3 });
    let sizes: Vec<usize> =
        (0..axes).map(|axis| options.dilation[axis] * (kernel[axis] - 1) + 1 + extra[axis]).collect();
    let mut shape = if d.flag() { vec![d.between(1, 2)] } else { Vec::new() };
    shape.push(d.between(1, 2));
    shape.extend(sizes);
    (d.shaped(&shape), options)
}

/// A convolution, its name and its method.
macro_rules! convolutions {
    ($($name:literal: $method:ident $axes:literal $transposed:literal),* $(,)?) => {
        [$(one!($name, |d| {
            let (x, w, bias, options) = convolution(d, $axes, $transposed);
            x.$method(&w, bias.as_ref(), &options)
        })),*]
    };
}

/// A pooling, its name and its method.
macro_rules! pools {
    ($($name:literal: $method:ident $axes:literal $dilated:literal),* $(,)?) => {
        [$(one!($name, |d| {
            let (x, options) = pool(d, $axes, $dilated);
            x.$method(&options)
        })),*]
    };
}

/// Maxima with their places, and what goes back there.
fn unpooled(
    d: &mut Draw,
    axes: usize,
    pooled: fn(&Tensor, &PoolOptions) -> (Tensor, Tensor),
    back: fn(&Tensor, &Tensor, Vec<usize>) -> Tensor,
) -> Vec<Tensor> {
    let (x, options) = pool(d, axes, true);
    let (largest, indices) = pooled(&x, &options);
    let back = back(&(&largest * 0.5), &indices, x.shape()[x.rank() - axes..].to_vec());
    vec![indices, largest, back]
}

/// Pooling to a size.
macro_rules! adaptive {
    ($($name:literal: $method:ident $axes:literal),* $(,)?) => {
        [$(one!($name, |d| {
            let sizes = d.sizes($axes, 5);
            let target = d.sizes($axes, 4);
            let x = d.shaped(&[&[1, 2], sizes.as_slice()].concat());
            x.$method(target)
        })),*]
    };
}

pub(super) fn rows() -> Vec<Row> {
    let convolutions = convolutions![
        "conv1d": conv1d 1 false,
        "conv2d": conv2d 2 false,
        "conv3d": conv3d 3 false,
        "conv_transpose1d": conv_transpose1d 1 true,
        "conv_transpose2d": conv_transpose2d 2 true,
        "conv_transpose3d": conv_transpose3d 3 true,
    ];
    let pools = pools![
        "max_pool1d": max_pool1d_with 1 true,
        "max_pool2d": max_pool2d_with 2 true,
        "max_pool3d": max_pool3d_with 3 true,
        "avg_pool1d": avg_pool1d_with 1 false,
        "avg_pool2d": avg_pool2d_with 2 false,
        "avg_pool3d": avg_pool3d_with 3 false,
    ];
    let adaptive = adaptive![
        "adaptive_avg_pool1d": adaptive_avg_pool1d 1,
        "adaptive_avg_pool2d": adaptive_avg_pool2d 2,
        "adaptive_avg_pool3d": adaptive_avg_pool3d 3,
        "adaptive_max_pool1d": adaptive_max_pool1d 1,
        "adaptive_max_pool2d": adaptive_max_pool2d 2,
        "adaptive_max_pool3d": adaptive_max_pool3d 3,
    ];
    let indexed = [
        row("max_unpool1d", |d| {
            unpooled(d, 1, |x, o| x.max_pool1d_with_indices(o), |x, indices, size| x.max_unpool1d(indices, size))
        }),
        row("max_unpool2d", |d| {
            unpooled(d, 2, |x, o| x.max_pool2d_with_indices(o), |x, indices, size| x.max_unpool2d(indices, size))
        }),
        row("max_unpool3d", |d| {
            unpooled(d, 3, |x, o| x.max_pool3d_with_indices(o), |x, indices, size| x.max_unpool3d(indices, size))
        }),
    ];
    let all = convolutions.into_iter().chain(pools).chain(indexed).chain(adaptive);
    all.chain(others()).collect()
}

/// A size that leaves room for two windows.
fn side(d: &mut Draw) -> usize {
    d.between(4, 6)
}

fn others() -> Vec<Row> {
    vec![
        one!("conv2d_same", |d| {
            let (x, w) = (d.shaped(&[1, 2, 4, 3]), d.shaped(&[2, 2, 3, 2]) * 0.3);
            let dilation = d.between(1, 2);
            x.conv2d(&w, None, &ConvOptions::default().dilation(dilation).same())
        }),
        one!("conv_norm_relu", |d| {
            // what a network is made of
            let (x, w) = (d.shaped(&[2, 2, 4, 4]), d.shaped(&[3, 2, 3, 3]) * 0.3);
            let stride = d.between(1, 2);
            let y = x.conv2d(&w, None, &ConvOptions::default().padding(1).stride(stride));
            y.batch_norm(None, None, 1e-3).output.relu()
        }),
        one!("max_pool2d_square", |d| {
            let size = side(d);
            d.shaped(&[1, 2, size, size]).max_pool2d(2, 2, 0)
        }),
        one!("avg_pool2d_square", |d| {
            let size = side(d);
            d.shaped(&[1, 2, size, size]).avg_pool2d(2, 1, 1)
        }),
        one!("avg_pool_divided", |d| {
            let size = side(d);
            let x = d.shaped(&[1, 2, size]);
            let options = PoolOptions::new(3).stride(2).padding(1);
            if d.flag() {
                x.avg_pool1d_with(&options.divisor(2))
            } else {
                x.avg_pool1d_with(&options.without_padding())
            }
        }),
        one!("lp_pool1d", |d| {
            let size = side(d);
            d.within(0.3, 2.0, &[1, 2, size]).lp_pool1d(3.0, &PoolOptions::new(2))
        }),
        one!("lp_pool2d", |d| {
            let size = side(d);
            d.within(0.3, 2.0, &[1, 2, size, 4]).lp_pool2d(2.0, &PoolOptions::new([3, 2]).stride(2))
        }),
        one!("lp_pool3d", |d| d.within(0.3, 2.0, &[1, 2, 3, 4, 2]).lp_pool3d(2.0, &PoolOptions::new(2))),
        one!("unfold", |d| {
            let x = d.ranked(1, 4);
            let axis = d.axis(&x);
            let size = d.between(1, x.size(axis).min(3));
            let step = d.between(1, 3);
            x.unfold(axis, size, step)
        }),
        one!("windows", |d| {
            let x = d.ranked(1, 3);
            let dilation = if x.size(-1) > 2 { d.between(1, 2) } else { 1 };
            let kernel = if x.size(-1) > 1 { 2 } else { 1 };
            let [stride, padding] = [d.between(1, 2), d.number(2)];
            x.windows(&[Window { kernel, stride, padding, dilation }], 0.25)
        }),
        one!("im2col", |d| {
            let (size, stride) = (side(d), d.between(1, 2));
            d.shaped(&[1, 2, size, 3]).im2col([2, 3], &ConvOptions::default().stride(stride).padding(1))
        }),
        one!("col2im", |d| {
            let stride = d.between(1, 2);
            let positions = if stride == 1 { 5 * 4 } else { 3 * 2 };
            let options = ConvOptions::default().stride(stride).padding(1);
            // an image of 4 × 4, padded to 6 × 6: windows of 2 × 3 have 5 × 4 places, or 3 × 2
            d.shaped(&[1, 12, positions]).col2im([4, 4], [2, 3], &options)
        }),
    ]
}
