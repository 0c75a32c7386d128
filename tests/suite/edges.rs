//! Where values, gradients and types meet an edge: extrema of what is rounded, infinities, whole numbers, sizes that
//! stay. Expected values are PyTorch's.

use brasa::autodiff::{grad, jvp};
use brasa::nn::{Conv2d, Init, InstanceNorm2d, MaxUnpool2d, Module as _};
use brasa::ops::conv::ConvOptions;
use brasa::ops::pool::PoolOptions;
use brasa::optim::{Norm, Schedule, clip_grad_norm};
use brasa::runtime::Step;
use brasa::tensor::{CTCLoss, CrossEntropy, Interpolation, NLLLoss, PadMode, Reduction, ScatterOp, autocast};
use brasa::{DType, Device, Tensor};

use crate::common::{assert_close, devices, doubles, panic_of, read};

const VALUES: [f32; 6] = [0.3, -1.1, 0.7, 1.3, -0.2, 0.9];

/// [`VALUES`], stored.
fn values(dtype: DType, device: &Device) -> Tensor {
    let values = Tensor::from_slice(&VALUES, [6], device).expect("small").to_dtype(dtype);
    values.realize().expect("small");
    values
}

pub(crate) fn gradient(y: &Tensor, x: &Tensor) -> Vec<f64> {
    doubles(&grad(y, &[x])[0].to_dtype(DType::F32))
}

/// The extremum is rounded to 16 bits, and what it is compared with may be computed again, in 32.
#[test]
fn gradients_reach_what_scatter_reduce_chose_in_every_type() {
    for device in devices() {
        for dtype in [DType::F32, DType::F16] {
            let x = values(dtype, &device);
            let i = Tensor::from_slice(&[0_i32, 1, 2], [3], &device).expect("small");
            let zero = Tensor::zeros([3], &device).to_dtype(dtype);
            let twice: Vec<f64> = VALUES.iter().map(|&x| 2.0 * f64::from(x)).collect();
            let name = format!("{dtype} on {}", device.name());
            for read_first in [false, true] {
                let y = x.square().scatter_reduce(0, &i, &zero, ScatterOp::Max, true);
                if read_first {
                    y.realize().expect("small");
                }
                assert_close(&name, &gradient(&y, &x), &twice, 1e-3, 1e-3);
                let y = zero.scatter_reduce(0, &i, x.narrow(0, 0, 3).square(), ScatterOp::Max, true);
                if read_first {
                    y.realize().expect("small");
                }
                let expected = [&twice[..3], &[0.0; 3]].concat();
                assert_close(&name, &gradient(&y, &x), &expected, 1e-3, 1e-3);
                let y = (-x.square()).scatter_reduce(0, &i, &zero, ScatterOp::Min, true);
                let expected: Vec<f64> = twice.iter().map(|x| -x).collect();
                assert_close(&name, &gradient(&y, &x), &expected, 1e-3, 1e-3);
            }
            let mut step = Step::new(&device, move |x| {
                let y = x[0].square().scatter_reduce(0, &i, &zero, ScatterOp::Max, true);
                vec![grad(&y, &[&x[0]]).remove(0).to_dtype(DType::F32)]
            })
            .expect("it is traced");
            let got = doubles(&step.run(&[x]).expect("it runs")[0]);
            assert_close(&name, &got, &twice, 1e-3, 1e-3);
        }
    }
}

/// Reading a loss before its gradient is asked for must not change the gradient.
#[test]
fn extrema_that_were_read_first_have_their_gradients() {
    for device in devices() {
        for dtype in [DType::F32, DType::F16] {
            let x = values(dtype, &device);
            let found = |f: &dyn Fn(&Tensor) -> Tensor, read_first: bool| {
                let y = f(&x.square());
                if read_first {
                    y.realize().expect("small");
                }
                gradient(&y, &x)
            };
            type Row = (&'static str, fn(&Tensor) -> Tensor, [f64; 6]);
            let rows: [Row; 3] = [
                ("max_keepdim", |x| x.max_keepdim(0), [0.0, 0.0, 0.0, 2.6, 0.0, 0.0]),
                ("min_keepdim", |x| x.min_keepdim(0), [0.0, 0.0, 0.0, 0.0, -0.4, 0.0]),
                ("max", |x| x.max(), [0.0, 0.0, 0.0, 2.6, 0.0, 0.0]),
            ];
            for (name, f, expected) in rows {
                for read_first in [false, true] {
                    let name = format!("{name} of {dtype} on {}, read first: {read_first}", device.name());
                    assert_close(&name, &found(&f, read_first), &expected, 1e-3, 1e-3);
                }
            }
        }
    }
}

#[test]
fn activations_of_whole_numbers_are_real() {
    for device in devices() {
        let x = Tensor::from_slice(&[-2_i32, 0, 3], [3], &device).expect("small");
        type Row = (&'static str, fn(&Tensor) -> Tensor, [f64; 3]);
        let rows: [Row; 6] = [
            ("silu", Tensor::silu, [-0.238_405_84, 0.0, 2.857_722_4]),
            ("gelu_tanh", Tensor::gelu_tanh, [-0.045_402_306, 0.0, 2.996_362_6]),
            ("mish", Tensor::mish, [-0.252_501_5, 0.0, 2.986_535]),
            ("tanhshrink", Tensor::tanhshrink, [-1.035_972_4, 0.0, 2.004_945_3]),
            ("softsign", Tensor::softsign, [-0.666_666_7, 0.0, 0.75]),
            ("log_sigmoid", Tensor::log_sigmoid, [-2.126_928, -std::f64::consts::LN_2, -0.048_587_35]),
        ];
        for (name, f, expected) in rows {
            assert_close(name, &doubles(&f(&x)), &expected, 1e-5, 1e-6);
        }
        let unsigned = Tensor::from_slice(&[0_u32, 1, 2], [3], &device).expect("small");
        assert_close(
            "u32",
            &doubles(&unsigned.log_sigmoid()),
            &[-std::f64::consts::LN_2, -0.313_261_7, -0.126_928],
            1e-5,
            1e-6,
        );
        let least = Tensor::from_slice(&[i32::MIN], [1], &device).expect("small");
        assert_close("least", &doubles(&least.softsign()), &[-1.0], 1e-6, 0.0);
        assert_close("least", &doubles(&least.log_sigmoid()), &[-2_147_483_648.0], 1e-6, 0.0);
    }
}

#[test]
fn whole_numbers_stay_what_they_are() {
    for device in devices() {
        let (a, b) = (1 << 24, (1 << 24) + 1);
        let of = |values: &[i32]| Tensor::from_slice(values, [values.len()], &device).expect("small");
        for rounded in [of(&[b]).floor(), of(&[b]).ceil(), of(&[b]).round()] {
            assert_eq!(rounded.to_vec::<i32>().expect("i32"), [b]);
        }
        let close = of(&[a, a, i32::MIN]).isclose(&of(&[b, a, i32::MAX]), 0.0, 0.0, false);
        assert_eq!(close.to_vec::<bool>().expect("bool"), [false, true, false]);
        let close = of(&[a, i32::MIN]).isclose(&of(&[b, i32::MAX]), 0.0, 1.0, false);
        assert_eq!(close.to_vec::<bool>().expect("bool"), [true, false]);
    }
}

#[test]
fn infinities_keep_their_gradients() {
    for device in devices() {
        let of = |values: &[f32]| Tensor::from_slice(values, [values.len()], &device).expect("small");
        let (far, zero) = (of(&[f32::INFINITY, -f32::INFINITY, 0.5]), of(&[0.0; 3]));
        assert_eq!(gradient(&far.clamp_min(&zero), &far), [1.0, 0.0, 1.0]);
        assert_eq!(gradient(&far.clamp_max(&zero), &far), [0.0, 1.0, 0.0]);
        assert_eq!(gradient(&far.huber_loss(&zero, 1.0, Reduction::Sum), &far), [1.0, -1.0, 0.5]);
        assert_eq!(gradient(&far.smooth_l1_loss(&zero, 1.0, Reduction::Sum), &far), [1.0, -1.0, 0.5]);
        let half = far.to_dtype(DType::F16).asinh().to_dtype(DType::F32);
        assert_eq!(read(&half)[..2], [f32::INFINITY, -f32::INFINITY]);
        let (x, y) = (of(&[1.0, 0.5]), of(&[0.0, 0.5]));
        let masked = y.gt(0.0).where_(x.xlogy(&y), 0.0);
        assert_close("xlogy", &gradient(&masked, &x), &[0.0, 0.5_f64.ln()], 1e-5, 0.0);
        let x = of(&[2.0, 0.5, -0.1]);
        let found = gradient(&x.logit(), &x);
        assert!(found[0].is_nan() && (found[1] - 4.0).abs() < 1e-5 && found[2].is_nan(), "{found:?}");
        let moved = doubles(&jvp(&[&x.logit()], &[&x], &[&x.ones_like()])[0]);
        assert!(moved[0].is_nan() && (moved[1] - 4.0).abs() < 1e-5 && moved[2].is_nan(), "{moved:?}");
        let (x, y) = (of(&[1.0, 2.0, 0.0]), of(&[0.0, 0.5, 0.0]));
        let moved = doubles(&jvp(&[&x.xlogy(&y)], &[&x], &[&x.ones_like()])[0]);
        assert_close("xlogy moved", &moved, &[-f64::INFINITY, 0.5_f64.ln(), 0.0], 1e-5, 0.0);
        let (x, weight) = (of(&[f32::INFINITY, -1.0]), of(&[0.25]));
        assert_eq!(gradient(&x.prelu(&weight), &weight), [-1.0]);
        assert_eq!(gradient(&x.prelu(&weight), &x), [1.0, 0.25]);
    }
}

#[test]
fn inverse_hyperbolic_functions_are_precise_where_their_formulas_meet() {
    for device in devices() {
        let values = [0.1_f32, 1.5, 300.0, 2.9e4, 3.1e4, 1e10, 1e30];
        let x = Tensor::from_slice(&values, [7], &device).expect("small");
        let expected: Vec<f64> = values.iter().map(|&x| f64::from(x).asinh()).collect();
        assert_close("asinh", &doubles(&x.asinh()), &expected, 1e-6, 0.0);
        let expected: Vec<f64> = values[1..].iter().map(|&x| f64::from(x).acosh()).collect();
        assert_close("acosh", &doubles(&x.slice(0, 1..).acosh()), &expected, 1e-6, 0.0);
        let below = Tensor::from_slice(&[0.999_f32, -1.0, -5000.0, -65504.0, -1e8, -1e30], [6], &device);
        let below = below.expect("small");
        assert!(doubles(&below.acosh()).iter().all(|value| value.is_nan()), "{:?}", doubles(&below.acosh()));
    }
}

#[test]
fn a_size_that_stays_is_left_alone_by_a_scale() {
    for device in devices() {
        let x = Tensor::from_slice(&[1.0_f32, 2.0, 4.0], [1, 1, 3], &device).expect("small");
        assert_eq!(read(&x.interpolate_scale(1.3, Interpolation::Linear)), [1.0, 2.0, 4.0]);
        let picture = Tensor::from_slice(&[1.0_f32, 2.0, 4.0, 3.0, 0.0, 5.0], [1, 1, 2, 3], &device).expect("small");
        for mode in [Interpolation::CubicAntialiased, Interpolation::LinearAntialiased] {
            assert_eq!(read(&picture.interpolate_scale(1.3, mode)), read(&picture), "{mode:?}");
        }
        let cubic = [0.778_495_35, 1.518_216_1, 3.012_994_5, 2.456_622_7, 0.765_943_06, 2.139_979_8];
        let got = doubles(&picture.interpolate_scale(1.3, Interpolation::Cubic));
        assert_close("cubic", &got, &cubic, 1e-5, 1e-6);
    }
}

type Loss<'a> = &'a dyn Fn(&Tensor) -> Tensor;

/// As PyTorch computes them: in f32, whatever their inputs are of.
#[test]
fn losses_under_an_autocast_are_f32_and_have_gradients() {
    for device in devices() {
        let x = Tensor::from_slice(&[0.5_f32, -1.0, 2.0, 0.25, 1.5, -0.5], [2, 3], &device).expect("small");
        let labels = Tensor::from_slice(&[2, 0], [2], &device).expect("small");
        let weight = Some(Tensor::from_slice(&[1.0_f32, 0.5, 2.0], [3], &device).expect("small"));
        let target = Tensor::from_slice(&[0.0_f32, 1.0, 0.25, 1.0, 0.5, 0.0], [2, 3], &device).expect("small");
        let options = CrossEntropy { weight: weight.clone(), ..CrossEntropy::default() };
        let nll = NLLLoss { weight, ..NLLLoss::default() };
        let losses: [(&str, Loss<'_>); 7] = [
            ("cross_entropy", &|x| x.cross_entropy_with(&labels, &options)),
            ("nll_loss", &|x| x.nll_loss_with(&labels, &nll)),
            ("binary_cross_entropy", &|x| x.sigmoid().binary_cross_entropy(&target, Reduction::Mean)),
            ("with_logits", &|x| x.binary_cross_entropy_with_logits(&target, Reduction::Mean)),
            ("mse_loss", &|x| x.mse_loss(&target, Reduction::Mean)),
            ("dice_loss", &|x| x.sigmoid().dice_loss(&target, 1e-5, Reduction::Mean)),
            ("clamp", &|x| x.clamp_min(&target).sum()),
        ];
        for (name, loss) in losses {
            // of products, which an autocast computes in 16 bits
            let of_halves = autocast(DType::F16, || loss(&x.matmul(&Tensor::eye(3, &device))));
            let name = format!("{name} on {}", device.name());
            assert_eq!(of_halves.dtype(), DType::F32, "{name}");
            assert_close(&name, &doubles(&of_halves), &doubles(&loss(&x)), 2e-3, 2e-3);
            assert_close(&name, &gradient(&of_halves, &x), &gradient(&loss(&x), &x), 2e-3, 2e-3);
        }
    }
}

#[test]
fn sequences_of_no_time_say_nothing_and_lengths_beyond_it_are_errors() {
    for device in devices() {
        let log_probabilities = Tensor::full([3, 4, 2], 0.5_f32.ln(), &device);
        let labels = Tensor::from_slice(&[1, 1, 1, 1], [4, 1], &device).expect("small");
        let loss = |times: [i32; 4], lengths: [i32; 4]| {
            let [times, lengths] = [times, lengths].map(|n| Tensor::from_slice(&n, [4], &device).expect("small"));
            let options = CTCLoss { reduction: Reduction::None, ..CTCLoss::default() };
            log_probabilities.ctc_loss(&labels, &times, &lengths, &options).to_vec::<f32>()
        };
        let losses = loss([0, 0, 1, 2], [0, 1, 1, 1]).expect("lengths that there are");
        let half = 0.5_f32.ln();
        let ways = -(3.0_f32.ln() + 2.0 * half);
        for (got, expected) in losses.into_iter().zip([0.0, f32::INFINITY, -half, ways]) {
            assert!(got == expected || (got - expected).abs() < 1e-5, "{got} and {expected} on {}", device.name());
        }
        assert!(loss([4, 1, 1, 1], [1; 4]).is_err() && loss([3; 4], [2, 1, 1, 1]).is_err(), "{}", device.name());
    }
}

/// Sizes whose products do not fit a number.
#[test]
fn nothing_has_axes_of_any_size() {
    for device in devices() {
        let nothing = Tensor::from_slice::<f32>(&[], [1 << 40, 1 << 40, 0], &device).expect("no memory");
        for also_nothing in [-&nothing, nothing.permute([2, 1, 0]) * 2.0 + 1.0] {
            assert!(read(&also_nothing).is_empty(), "{}", device.name());
        }
        assert_eq!(read(&nothing.sum()), [0.0], "{}", device.name());
    }
}

#[test]
fn nothing_is_split_into_empty_parts() {
    let nothing = Tensor::zeros([0, 3], &Device::cpu());
    assert_eq!(nothing.split(2, 0).len(), 1);
    assert_eq!(nothing.chunk(4, 0).len(), 4);
}

#[test]
fn what_a_layer_cannot_do_is_refused_where_it_would_be_nonsense() {
    let device = Device::cpu();
    let init = Init::new(&device, 1);
    let norm = InstanceNorm2d::new(&init);
    let message = panic_of(|| norm.forward(&Tensor::ones([1, 2, 1, 1], &device))).0;
    assert!(message.contains("instance norm") && message.contains("[1, 2, 1, 1]"), "{message}");
    let conv = Conv2d::new(1, 1, 3, ConvOptions::default().stride(2).same(), &init).expect("memory");
    let conv = conv.padding_mode(PadMode::Reflect);
    let message = panic_of(|| conv.forward(&Tensor::ones([1, 1, 6, 6], &device))).0;
    assert!(message.contains("only with stride 1"), "{message}");
    let unpool = MaxUnpool2d::with(PoolOptions::new(2).padding(2));
    let x = Tensor::ones([1, 1, 1, 1], &device);
    let message = panic_of(|| unpool.forward(&x, &x.to_dtype(DType::I32))).0;
    assert!(message.contains("max_unpool") && message.contains("padding 2"), "{message}");
}

#[test]
fn the_infinite_norm_of_gradients_is_their_largest() {
    let gradients = [Tensor::from_slice(&[3.0_f32, -4.0], [2], &Device::cpu()).expect("small")];
    for norm in [Norm::Max, Norm::Power(f32::INFINITY)] {
        let (clipped, norm) = clip_grad_norm(&gradients, 2.0, norm);
        assert_eq!(read(&norm), [4.0]);
        assert_close("clipped", &doubles(&clipped[0]), &[1.5, -2.0], 1e-6, 0.0);
    }
    for wrong in [0.0, -1.0, f32::NAN] {
        assert!(panic_of(|| clip_grad_norm(&gradients, 1.0, Norm::Power(wrong))).0.contains("not positive"));
    }
    let empty = Schedule::MultiStep { at: Vec::new(), gamma: 0.5 };
    assert_eq!(empty.to_string().parse::<Schedule>().expect("it reads what it writes"), empty);
}
