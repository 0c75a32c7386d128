//! Single operations: most of them wait for memory, so what counts is the share of its bandwidth.

use crate::device::Device;
use crate::ops::conv::ConvOptions;
use crate::tensor::{Mask, Tensor};
use crate::units::thousands;

use super::super::Suite;
use super::{Case, compute, replay};

/// 64 MiB of f32, larger than caches.
const MANY: usize = 16 << 20;
/// In a batch.
const PICTURES: usize = 32;
const ROWS: [usize; 2] = [4096, 1024];
const F32: f64 = 4.0;

pub(super) fn cases() -> Vec<Case> {
    let many = MANY as f64 * F32;
    let rows = (ROWS[0] * ROWS[1]) as f64 * F32;
    vec![
        add_one("add1_16m", MANY).quick(true),
        map("gelu_chain_16m", MANY, 4, |x| (&x[0] * &x[1] + &x[2]).gelu() * &x[3])
            .what("gelu(p x + q) r in one kernel, 16 Mi elements")
            .bytes(5.0 * many),
        map("sum_16m", MANY, 1, |x| x[0].sum()).what("sum of 16 Mi elements").bytes(many).quick(true),
        on_rows("softmax_4096x1024", |x| x.softmax(-1))
            .what("softmax of 4096 rows of 1024")
            .bytes(2.0 * rows)
            .quick(true),
        on_rows("layer_norm_4096x1024", |x| x.layer_norm(1, None, None, 1e-5))
            .what("layer norm of 4096 rows of 1024")
            .bytes(2.0 * rows),
        on_rows("column_sums_4096x1024", |x| x.sum_dim(0)).what("sums of 1024 columns of 4096").bytes(rows),
        transpose().quick(true),
        embedding(),
        convolution(PICTURES, false).quick(true),
        convolution(PICTURES, true),
        attention(),
    ]
}

fn map(
    name: &str,
    elements: usize,
    inputs: usize,
    function: impl Fn(&[Tensor]) -> Tensor + Copy + Send + 'static,
) -> Case {
    Case::new(Suite::Ops, name, move |device| {
        let inputs = (0..inputs).map(|_| Tensor::rand([elements], device)).collect();
        compute(device, inputs, move |inputs| vec![function(inputs)])
    })
}

pub(super) fn add_one(name: &str, elements: usize) -> Case {
    map(name, elements, 1, |x| &x[0] + 1.0)
        .what(format!("x + 1, {} elements", thousands(elements)))
        .bytes(2.0 * F32 * elements as f64)
}

fn on_rows(name: &str, function: impl Fn(&Tensor) -> Tensor + Copy + Send + 'static) -> Case {
    Case::new(Suite::Ops, name, move |device| {
        compute(device, vec![Tensor::rand(ROWS, device)], move |inputs| vec![function(&inputs[0])])
    })
}

fn transpose() -> Case {
    const SIDE: usize = 4096;
    let make =
        |device: &Device| compute(device, vec![Tensor::rand([SIDE, SIDE], device)], |inputs| vec![inputs[0].t()]);
    Case::new(Suite::Ops, "transpose_4096", make)
        .what("a 4096x4096 matrix, transposed and written out")
        .bytes(2.0 * F32 * (SIDE * SIDE) as f64)
}

fn embedding() -> Case {
    const VOCABULARY: usize = 50_000;
    const WIDTH: usize = 256;
    const COUNT: usize = 65_536;
    let make = |device: &Device| {
        let inputs =
            vec![Tensor::rand([VOCABULARY, WIDTH], device), Tensor::randint(0, VOCABULARY as i32, [COUNT], device)];
        compute(device, inputs, |inputs| vec![inputs[0].embedding(&inputs[1])])
    };
    Case::new(Suite::Ops, "embedding_65536x256", make)
        .what("65,536 rows of 256 looked up in 50,000")
        .bytes(2.0 * F32 * (COUNT * WIDTH) as f64)
}

/// 3×3 over 64 channels of 32×32 pictures.
pub(super) fn convolution(batch: usize, with_gradients: bool) -> Case {
    const CHANNELS: usize = 64;
    const SIDE: usize = 32;
    let make = move |device: &Device| {
        let picture = || Tensor::rand([batch, CHANNELS, SIDE, SIDE], device);
        let inputs = vec![picture(), Tensor::rand([CHANNELS, CHANNELS, 3, 3], device), picture()];
        let convolve = |x: &[Tensor]| x[0].conv2d(&x[1], None, &ConvOptions::default().padding(1));
        if !with_gradients {
            return compute(device, inputs, move |inputs| vec![convolve(inputs)]);
        }
        // gradients are of what a step is given
        replay(device, inputs, move |inputs| {
            let y = convolve(inputs);
            let gradients = (&y * &inputs[2]).sum().backward();
            let of = |x: &Tensor| gradients.get(x).expect("it depends on both");
            vec![y, of(&inputs[0]), of(&inputs[1])]
        })
    };
    let flops = 2.0 * (batch * SIDE * SIDE * CHANNELS * CHANNELS * 9) as f64;
    let (name, what, times) = match with_gradients {
        false => ("conv_3x3", "3x3 convolution of pictures of 64x32x32", 1.0),
        true => ("conv_3x3_gradients", "the same with the gradients of pictures and weights", 3.0),
    };
    Case::new(Suite::Ops, name, make).what(what).flops(times * flops)
}

fn attention() -> Case {
    const BATCH: usize = 8;
    const HEADS: usize = 8;
    const LENGTH: usize = 512;
    const WIDTH: usize = 64;
    let make = |device: &Device| {
        let inputs = (0..3).map(|_| Tensor::rand([BATCH, HEADS, LENGTH, WIDTH], device)).collect();
        compute(device, inputs, |x| vec![x[0].scaled_dot_product_attention(&x[1], &x[2], Mask::Causal)])
    };
    Case::new(Suite::Ops, "attention_8x8x512x64", make)
        .what("causal attention, 8 heads of 512x64, batch 8; all products counted")
        .flops(4.0 * (BATCH * HEADS * LENGTH * LENGTH * WIDTH) as f64)
}
