//! Where formulas meet numbers and shapes that they are not made for: halves, infinities, powers, equals, and what is
//! to be refused. Expected values are PyTorch's.

use brasa::autodiff::vjp;
use brasa::nn::{
    Attention, AttentionMasks, AttentionOptions, BagMode, Conv2d, Embedding, EmbeddingBag, Init, Initial, Linear,
    MaxUnpool2d, Module as _, MultiheadAttention, Transformer, TransformerDecoder, TransformerEncoder,
    TransformerOptions,
};
use brasa::ops::conv::ConvOptions;
use brasa::ops::pool::PoolOptions;
use brasa::tensor::{Reduction, ScatterOp};
use brasa::{DType, Device, Tensor};

use crate::common::{assert_close, devices, doubles, panic_of, read, vector};
use crate::edges::gradient;

const INF: f32 = f32::INFINITY;

fn halves(values: &[f32], device: &Device) -> Tensor {
    let halves = vector(values, device).to_dtype(DType::F16);
    halves.realize().expect("small");
    halves
}

/// What is added against a division by 0 is 0 in 16 bits.
#[test]
fn losses_of_halves_divide_by_no_zero() {
    for device in devices() {
        let p = halves(&[0.0, 1.0, 0.5], &device);
        let t = halves(&[0.0, 1.0, 1.0], &device);
        let found = gradient(&p.binary_cross_entropy(&t, Reduction::Sum), &p);
        assert_close("binary_cross_entropy", &found, &[0.0, 0.0, -2.0], 1e-3, 0.0);
        let (x, y) = (halves(&[0.0, 0.0], &device), halves(&[3.0, 4.0], &device));
        let loss = x.cosine_embedding_loss(&y, &Tensor::scalar(1.0_f32, &device), 0.0, Reduction::Mean);
        assert_eq!((loss.dtype(), doubles(&loss)), (DType::F16, vec![1.0]));
        assert!(gradient(&loss, &y).iter().all(|&slope| slope == 0.0));
    }
}

#[test]
fn boundaries_of_a_histogram_belong_to_the_bin_above() {
    for device in devices() {
        for (x, bins, high) in [(47.0, 10, 470.0), (41.0, 2, 82.0)] {
            let mut expected = vec![0.0; bins];
            expected[1] = 1.0;
            assert_eq!(read(&vector(&[x], &device).histc(bins, 0.0, high)), expected, "{x} on {}", device.name());
        }
    }
}

#[test]
fn what_counts_nothing_does_not_show_in_sums_of_products() {
    for device in devices() {
        let ones = Tensor::ones([2, 2], &device);
        let wild = vector(&[f32::NAN, INF], &device);
        assert_eq!(read(&wild.addmm(&ones, &ones, 0.0, 0.5)), [1.0; 4]);
        let batch = ones.unsqueeze(0);
        assert_eq!(read(&wild.baddbmm(&batch, &batch, 0.0, 1.0)), [2.0; 4]);
        assert_eq!(gradient(&wild.addmm(&ones, &ones, 0.0, 1.0).sum(), &wild), [0.0; 2]);
    }
}

#[test]
fn variances_out_of_range_count_as_the_least_one_and_have_gradients() {
    for device in devices() {
        let (x, t) = (vector(&[1.0; 3], &device), vector(&[0.0; 3], &device));
        let variance = vector(&[-100.0, INF, 2.0], &device);
        let losses = x.gaussian_nll_loss(&t, &variance, false, 0.5, Reduction::None);
        let (least, whole) = (0.5 * (0.5_f64.ln() + 2.0), 0.5 * (2.0_f64.ln() + 0.5));
        assert_close("values", &doubles(&losses), &[least, f64::INFINITY, whole], 1e-6, 0.0);
        // (1 / v - 1 / v²) / 2
        assert_close("gradients", &gradient(&losses.sum(), &variance), &[-1.0, 0.0, 0.125], 1e-6, 0.0);
    }
}

#[test]
fn a_whole_weight_ends_at_the_end() {
    for device in devices() {
        let (x, end) = (vector(&[1e8, 0.1], &device), vector(&[1.0, 0.3], &device));
        assert_eq!(read(&x.lerp(&end, 1)), [1.0, 0.3]);
        assert_eq!(read(&x.lerp(&end, 1)), read(&x.lerp(&end, 1.0)));
        let [a, b] = [[1, 5], [4, 7]].map(|x| Tensor::from_slice(&x, [2], &device).expect("small"));
        assert_eq!(a.lerp(&b, 2).to_vec::<i32>().expect("still whole"), [7, 9]);
    }
}

#[test]
fn equal_medians_share_the_gradient() {
    for device in devices() {
        for dtype in [DType::F32, DType::F16] {
            let of = |values: &[f32]| vector(values, &device).to_dtype(dtype);
            let x = of(&[2.0, 1.0, 2.0, 5.0, 2.0, 7.0]).reshape([2, 3]);
            let third = 1.0 / 3.0;
            let expected = [third, 0.0, third, 0.0, third, 0.0];
            for read_first in [false, true] {
                let y = x.median();
                if read_first {
                    y.realize().expect("small");
                }
                assert_eq!(doubles(&y.to_dtype(DType::F32)), [2.0]);
                assert_close("median", &gradient(&y, &x), &expected, 1e-3, 0.0);
            }
            let x = of(&[f32::NAN, 1.0, f32::NAN]);
            assert_eq!(gradient(&x.median(), &x), [0.5, 0.0, 0.5]);
            let x = of(&[0.3, -1.1, 0.7]);
            assert_close("square", &gradient(&x.square().median(), &x), &[0.0, 0.0, 1.4], 1e-3, 0.0);
        }
    }
}

#[test]
fn logarithms_of_powers_are_whole_numbers() {
    let twos: Vec<f32> = (-126..128).map(|n| 2.0_f32.powi(n)).collect();
    let tens: Vec<f32> = (-37..39).map(|n| format!("1e{n}").parse().expect("a number")).collect();
    let whole = |range: std::ops::Range<i32>| range.map(|n| n as f32).collect::<Vec<_>>();
    for device in devices() {
        assert_eq!(read(&vector(&twos, &device).log2()), whole(-126..128), "{}", device.name());
        assert_eq!(read(&vector(&tens, &device).log10()), whole(-37..39), "{}", device.name());
        assert_eq!(read(&vector(&[8192.0, 8191.0, 1000.0, 999.0], &device).log2().floor()), [13.0, 12.0, 9.0, 9.0]);
        let half = halves(&[8192.0, 6e-8, 1000.0, INF], &device);
        assert_eq!(read(&half.log2().floor().to_dtype(DType::F32)), [13.0, -24.0, 9.0, INF]);
        assert_eq!(read(&half.log10().floor().to_dtype(DType::F32)), [3.0, -8.0, 3.0, INF]);
        // between powers, and next to them
        let numbers: Vec<f32> = (1..4000).map(|n| (n as f32 * 0.05 - 90.0).exp2() * (1.0 + n as f32 * 1e-7)).collect();
        let near: Vec<f32> = twos.iter().chain(&tens).flat_map(|x| [x.next_down(), x.next_up()]).collect();
        let values: Vec<f32> = numbers.into_iter().chain(near).filter(|x| x.is_normal()).collect();
        let x = vector(&values, &device);
        type Row = (&'static str, fn(&Tensor) -> Tensor, fn(f64) -> f64, f64);
        let rows: [Row; 2] = [
            ("log2", Tensor::log2, f64::log2, std::f64::consts::LN_2),
            ("log10", Tensor::log10, f64::log10, std::f64::consts::LN_10),
        ];
        for (name, f, exact, ln) in rows {
            let name = format!("{name} on {}", device.name());
            let expected: Vec<f64> = values.iter().map(|&x| exact(x.into())).collect();
            assert_close(&name, &doubles(&f(&x)), &expected, 3e-7, 2e-8);
            let slopes: Vec<f64> = values.iter().map(|&x| 1.0 / (f64::from(x) * ln)).collect();
            let normal = |slope: &f64| (slope.abs() as f32).is_normal();
            let found = gradient(&f(&x), &x);
            let kept: Vec<(f64, f64)> = found.into_iter().zip(slopes).filter(|(_, slope)| normal(slope)).collect();
            let (found, slopes): (Vec<f64>, Vec<f64>) = kept.into_iter().unzip();
            assert_close(&name, &found, &slopes, 1e-6, 0.0);
            let odd = doubles(&f(&vector(&[0.0, INF, -1.0, f32::NAN, -INF], &device)));
            assert!(odd[0] == -f64::INFINITY && odd[1] == f64::INFINITY, "{name}: {odd:?}");
            assert!(odd[2..].iter().all(|x| x.is_nan()), "{name}: {odd:?}");
        }
    }
    // not normal numbers, which a GPU may take for 0
    let x = vector(&[2.0_f32.powi(-149), 2.0_f32.powi(-130), 1e-40], &Device::cpu());
    assert_close("small", &doubles(&x.log2()), &[-149.0, -130.0, f64::from(1e-40_f32).log2()], 2e-7, 0.0);
}

#[test]
fn quantiles_reach_infinite_neighbours_from_the_far_end() {
    for device in devices() {
        let quantile = |values: &[f32], q| read(&vector(values, &device).quantile(q, 0))[0];
        assert_eq!(quantile(&[-INF, 1.0], 0.7), -INF);
        assert_eq!(quantile(&[1.0, INF], 0.3), INF);
        assert_eq!(quantile(&[INF, INF, INF], 0.3), INF);
        assert_eq!(quantile(&[1.0, 1e8], 0.75), 75_000_000.0);
        let x = vector(&[2.0, 2.0], &device);
        assert_eq!(gradient(&x.quantile(0.75, 0), &x), [0.25, 0.75]);
        let x = vector(&[4.0, -INF, 1.0], &device);
        assert_eq!(gradient(&x.quantile(0.375, 0), &x), [0.0, 0.25, 0.75]);
    }
}

#[test]
fn a_stand_in_for_what_is_not_included_wins_no_tie() {
    for device in devices() {
        let index = Tensor::from_slice(&[0_i32, 2, 2], [3], &device).expect("small");
        for (op, worst) in [(ScatterOp::Max, -INF), (ScatterOp::Min, INF)] {
            let x = vector(&[5.0, 6.0, 7.0], &device);
            let source = vector(&[worst, 3.0, 3.0], &device);
            let y = x.scatter_reduce(0, &index, &source, op, false);
            assert_eq!(read(&y), [worst, 6.0, 3.0]);
            assert_eq!(gradient(&y.sum(), &source), [1.0, 0.5, 0.5], "{op:?} on {}", device.name());
            assert_eq!(gradient(&y.sum(), &x), [0.0, 1.0, 0.0], "{op:?} on {}", device.name());
        }
    }
}

#[test]
fn the_first_of_equal_rows_takes_the_gradient_of_a_bag() {
    for device in devices() {
        for padding in [None, Some(3)] {
            let bag = EmbeddingBag::new(4, 2, BagMode::Max, padding, &Init::new(&device, 1)).expect("memory");
            let rows = [0.5_f32, 1.0, 0.5, 2.0, -1.0, 2.0, 0.0, 0.0];
            bag.weight.set(&Tensor::from_slice(&rows, [4, 2], &device).expect("small")).expect("it fits");
            let index = Tensor::from_slice(&[1_i32, 0, 2], [1, 3], &device).expect("small");
            let weight = bag.weight.tensor();
            let y = bag.forward(&index);
            assert_eq!(read(&y), [0.5, 2.0]);
            let found = doubles(&y.sum().backward().get(&weight).expect("a gradient"));
            assert_eq!(found, [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0], "{padding:?}");
        }
    }
}

/// A mask of one column says the same of all keys of the input, and nothing of those that are appended.
#[test]
fn masks_that_broadcast_leave_appended_keys_in_sight() {
    for device in devices() {
        let options = AttentionOptions { bias_key_value: true, zero_key_value: true, ..AttentionOptions::new(4, 2) };
        let attention = MultiheadAttention::with(options, &Init::new(&device, 1)).expect("memory");
        let x = Tensor::arange(24, &device).to_dtype(DType::F32).sin().reshape([2, 3, 4]);
        let run = |mask: &Tensor| {
            let masks = AttentionMasks { attn: Some(mask), ..AttentionMasks::default() };
            let (output, weights) = attention.attend_with_weights(&x, &x, &x, masks, true);
            assert_close("output", &doubles(&attention.attend(&x, &x, &x, masks)), &doubles(&output), 1e-5, 1e-5);
            [doubles(&output), doubles(&weights)].concat()
        };
        let column = vector(&[0.5, -INF, -1.0], &device).unsqueeze(1);
        assert_close("a column", &run(&column), &run(&column.expand([3, 3])), 1e-6, 1e-6);
        let number = Tensor::scalar(-0.75_f32, &device);
        assert_close("a number", &run(&number), &run(&number.expand([3, 3])), 1e-6, 1e-6);
        let plain = MultiheadAttention::new(4, 2, Attention::Full, &Init::new(&device, 1)).expect("memory");
        let masks = AttentionMasks { attn: Some(&number), ..AttentionMasks::default() };
        let expected = doubles(&plain.forward(&x));
        assert_close("nothing appended", &doubles(&plain.attend(&x, &x, &x, masks)), &expected, 1e-5, 1e-5);
    }
}

#[test]
fn wrong_calls_are_told_so_where_they_are_made() {
    let device = Device::cpu();
    let init = &Init::new(&device, 1).at("net");
    let ones = |shape: &[usize]| Tensor::ones(shape, &device);
    let (picture, vector) = (ones(&[1, 4, 3, 3]), ones(&[4]));
    let same = &ConvOptions::default().same();
    let extra = &ConvOptions::default().stride(2).output_padding(2);
    let indices = picture.to_dtype(DType::I32);
    let unpool = |options| MaxUnpool2d::with(options).forward(&picture, &indices);
    let odd = TransformerOptions::new(5, 2);
    let drop = TransformerOptions { dropout: 2.0, ..TransformerOptions::new(4, 2) };
    let orthogonal = Initial::Orthogonal { gain: 1.0 };
    let dirac = Initial::Dirac { groups: 1 };
    let empty = Initial::TruncatedNormal { deviation: 1.0, low: 1.0, high: 0.0 };
    let conv = |bias| Conv2d::with_initial(4, 4, 3, ConvOptions::default(), dirac, Some(bias), init);
    type Case<'a> = (Box<dyn Fn() + 'a>, &'a str);
    let cases: [Case<'_>; 17] = [
        (call(|| unpool(PoolOptions::new([2, 2, 2]))), "max_unpool: kernel [2, 2, 2] for 2 axes"),
        (call(|| unpool(PoolOptions::new(2).stride([2, 1, 1]))), "max_unpool: stride [2, 1, 1] for 2 axes"),
        (call(|| unpool(PoolOptions::new(2).padding([0, 1, 0]))), "max_unpool: padding [0, 1, 0] for 2 axes"),
        (call(|| MaxUnpool2d::new(2).forward(&vector, &vector)), "max_unpool: [4] is not [batch, channels, 2 axes]"),
        (call(|| picture.im2col([3, 3], same)), "im2col: `same` is for convolutions; say padding"),
        (call(|| ones(&[1, 9, 9]).col2im([3, 3], [3, 3], same)), "col2im: `same` is for convolutions; say padding"),
        (
            call(|| picture.conv_transpose2d(&ones(&[4, 1, 3, 3]), None, extra)),
            "conv_transpose2d: [1, 4, 3, 3] x [4, 1, 3, 3], output_padding 2 is not below the larger of stride 2 and \
             dilation 1",
        ),
        (call(|| init.parameter("w", 4, orthogonal)), "net.w: Orthogonal, but [4] is not a matrix"),
        (call(|| init.buffer("b", [4, 1, 1], Initial::Eye)), "net.b: Eye, but [4, 1, 1] is not a matrix"),
        (
            call(|| Linear::with_initial(4, 4, empty, None, init)),
            "net.weight: TruncatedNormal { deviation: 1.0, low: 1.0, high: 0.0 } has no room",
        ),
        (call(|| Linear::with_bias(4, 4, Initial::Eye, init)), "net.bias: Eye, but [4] is not a matrix"),
        (
            call(|| Embedding::with_initial(4, 4, dirac, init)),
            "net.weight: Dirac, but [4, 4] is not a kernel [outputs, inputs, ...]",
        ),
        (call(|| conv(Initial::Eye)), "net.bias: Eye, but [4] is not a matrix"),
        (call(|| TransformerEncoder::new(odd, 1, true, init)), "attention: a width of 5 does not divide into 2 heads"),
        (call(|| TransformerDecoder::new(drop, 1, true, init)), "dropout: 2 is not a probability"),
        (call(|| Transformer::new(odd, 1, 1, init)), "attention: a width of 5 does not divide into 2 heads"),
        (call(|| vjp(&[&vector], &[&vector], &[&indices])), "grad: i32 has no gradient; cast with to_dtype before"),
    ];
    for (call, expected) in cases {
        let (message, file, line) = panic_of(call);
        assert!(
            message.contains(expected) && file == file!(),
            "{message}\n    at {file}:{line} instead of\n{expected}"
        );
    }
}

fn call<'a, T>(f: impl Fn() -> T + 'a) -> Box<dyn Fn() + 'a> {
    Box::new(move || drop(f()))
}
