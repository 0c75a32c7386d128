//! The meaning of composed ops: the f64 reference of their graphs against plain loops written from the definitions.

use std::collections::HashMap;

use brasa::autodiff::grad;
use brasa::graph::reference;
use brasa::ops::conv::ConvOptions;
use brasa::ops::pool::PoolOptions;
use brasa::runtime::Step;
use brasa::tensor::{CrossEntropy, Reduction};
use brasa::{DType, Device, Element, Error, Tensor};

use crate::common::{assert_close, devices, doubles, floats, panic_of, read, vector};

fn tensor<T: Element>(values: &[T], shape: &[usize]) -> Tensor {
    Tensor::from_slice(values, shape, &Device::cpu()).expect("a small tensor fits")
}

fn eval(tensor: &Tensor) -> Vec<f64> {
    reference::evaluate(&[tensor.node().clone()], &HashMap::new()).remove(0)
}

fn at(values: &[f32], shape: &[usize], point: &[usize]) -> f64 {
    let number = point.iter().zip(shape).fold(0, |number, (coordinate, size)| number * size + coordinate);
    f64::from(values[number])
}

#[test]
fn convolution_sums_over_channels_and_kernel() {
    let (input_shape, weight_shape) = ([2, 4, 6, 5], [6, 2, 3, 2]);
    let (input, weight) = (floats(1, 240, -1.0, 1.0), floats(2, 72, -1.0, 1.0));
    let options =
        ConvOptions { stride: vec![2, 1], padding: vec![1, 2], dilation: vec![1, 2], groups: 2, ..Default::default() };
    let output = tensor(&input, &input_shape).conv2d(&tensor(&weight, &weight_shape), None, &options);
    assert_eq!(output.shape().dims(), [2, 6, 3, 7]);
    let mut expected = Vec::new();
    for (n, o, y, x) in
        (0..2).flat_map(|n| (0..6).flat_map(move |o| (0..3).flat_map(move |y| (0..7).map(move |x| (n, o, y, x)))))
    {
        let mut sum = 0.0;
        for (c, i, j) in (0..2_usize).flat_map(|c| (0..3_usize).flat_map(move |i| (0..2_usize).map(move |j| (c, i, j))))
        {
            let (row, column): (usize, usize) = (2 * y + i, x + 2 * j);
            if (1..7).contains(&row) && (2..7).contains(&column) {
                let channel = o / 3 * 2 + c;
                sum += at(&input, &input_shape, &[n, channel, row - 1, column - 2])
                    * at(&weight, &weight_shape, &[o, c, i, j]);
            }
        }
        expected.push(sum);
    }
    assert_close("conv2d", &eval(&output), &expected, 1e-12, 1e-12);
}

#[test]
fn transposed_convolution_is_the_gradient_of_convolution() {
    let options = ConvOptions::default().stride(2).padding(1).groups(2);
    let weight = tensor(&floats(1, 4 * 3 * 9, -1.0, 1.0), &[4, 3, 3, 3]);
    let small = tensor(&floats(2, 4 * 9, -1.0, 1.0), &[1, 4, 3, 3]);
    let large = tensor(&floats(3, 6 * 36, -1.0, 1.0), &[1, 6, 6, 6]);
    let spread = small.conv_transpose2d(&weight, None, &options.clone().output_padding(1));
    let gradient = grad(&(large.conv2d(&weight, None, &options) * &small), &[&large]).remove(0);
    assert_close("conv_transpose2d", &eval(&spread), &eval(&gradient), 1e-12, 1e-12);
}

#[test]
fn the_first_of_equals_takes_the_gradient_of_max_pooling() {
    let input = tensor(&[1.0_f32, 1.0, 0.0, 2.0, 1.0, 0.0, 2.0, 2.0], &[1, 1, 2, 4]);
    let gradient = grad(&input.max_pool2d(2, 2, 0), &[&input]).remove(0);
    assert_eq!(eval(&gradient), [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
    // of nothing but -infinity, too, however the padding compares
    let far = tensor(&[f32::NEG_INFINITY; 4], &[1, 1, 4]);
    let pooled = far.max_pool1d_with(&PoolOptions::new(2).stride(2).padding(1));
    assert_eq!(eval(&grad(&pooled, &[&far]).remove(0)), [1.0, 1.0, 0.0, 1.0]);
    assert_eq!(doubles(&grad(&pooled, &[&far]).remove(0)), [1.0, 1.0, 0.0, 1.0]);
    // but of a plain maximum they share it
    let gradient = grad(&input.max(), &[&input]).remove(0);
    assert_eq!(eval(&gradient), [0.0, 0.0, 0.0, 1.0 / 3.0, 0.0, 0.0, 1.0 / 3.0, 1.0 / 3.0]);
}

#[test]
fn gradients_of_maxima_of_windows_that_overlap_are_summed() {
    let (planes, [height, width]) = (7, [45, 38]);
    let input = floats(3, planes * height * width, -1.0, 1.0);
    for (kernel, stride, padding) in [(3, 2, 1), (3, 2, 0), (5, 3, 2), (3, 1, 1), (2, 3, 0), (4, 2, 1)] {
        let count = |size: usize| (size + 2 * padding - kernel) / stride + 1;
        let [rows, columns] = [height, width].map(count);
        // whole numbers, whose sums are exact in any order
        let weights: Vec<f32> = (0..planes * rows * columns).map(|number| (number % 13) as f32 - 6.0).collect();
        let mut expected = vec![0.0; input.len()];
        for (number, &weight) in weights.iter().enumerate() {
            let (plane, row, column) = (number / columns / rows, number / columns % rows, number % columns);
            let points = (0..kernel * kernel).filter_map(|point| {
                let y = (row * stride + point / kernel).checked_sub(padding).filter(|&y| y < height)?;
                let x = (column * stride + point % kernel).checked_sub(padding).filter(|&x| x < width)?;
                Some((plane * height + y) * width + x)
            });
            let largest = points.max_by(|&a, &b| input[a].total_cmp(&input[b]).then(b.cmp(&a)));
            expected[largest.expect("a window has a point")] += f64::from(weight);
        }
        for device in devices() {
            let x = Tensor::from_slice(&input, [1, planes, height, width], &device).expect("memory");
            let g = Tensor::from_slice(&weights, [1, planes, rows, columns], &device).expect("memory");
            let pooled = x.max_pool2d(kernel, stride, padding);
            assert_eq!(doubles(&grad(&(pooled * g).sum(), &[&x]).remove(0)), expected, "{kernel}, {stride}, {padding}");
        }
    }
}

#[test]
fn pooling_ignores_padding_in_maxima_and_counts_it_in_means() {
    let input = tensor(&[-1.0_f32, -2.0, -3.0, -4.0], &[1, 1, 2, 2]);
    assert_eq!(eval(&input.max_pool2d(2, 2, 1)), [-1.0, -2.0, -3.0, -4.0]);
    assert_eq!(eval(&input.avg_pool2d(2, 2, 1)), [-0.25, -0.5, -0.75, -1.0]);
}

#[test]
fn losses_agree_with_their_definitions() {
    let logits = floats(1, 12, -3.0, 3.0);
    let labels = [2, 0, 3];
    let probability = |row: usize, class: usize| {
        let sum: f64 = (0..4).map(|c| at(&logits, &[3, 4], &[row, c]).exp()).sum();
        at(&logits, &[3, 4], &[row, class]).exp() / sum
    };
    let (x, t) = (tensor(&logits, &[3, 4]), tensor(&labels, &[3]));
    let picked: Vec<f64> = (0..3).map(|row| -probability(row, labels[row] as usize).ln()).collect();
    let mean = picked.iter().sum::<f64>() / 3.0;
    assert_close("cross_entropy", &eval(&x.cross_entropy(&t)), &[mean], 1e-7, 0.0);
    assert_close(
        "none",
        &eval(&x.cross_entropy_with(&t, &CrossEntropy { reduction: Reduction::None, ..Default::default() })),
        &picked,
        1e-7,
        0.0,
    );
    assert_close("nll", &eval(&x.log_softmax(1).nll_loss(&t, Reduction::Mean)), &[mean], 1e-7, 0.0);
    let soft = t.one_hot(4).to_dtype(DType::F32) * 0.9 + 0.025;
    let smoothed = x.cross_entropy_with(&t, &CrossEntropy { label_smoothing: 0.1, ..Default::default() });
    assert_close("smoothing", &eval(&smoothed), &eval(&x.cross_entropy_soft(&soft, Reduction::Mean)), 1e-6, 0.0);
    let softmax: Vec<f64> = (0..3).flat_map(|row| (0..4).map(move |class| probability(row, class))).collect();
    assert_close("softmax", &eval(&x.softmax(1)), &softmax, 1e-12, 0.0);
    let far = tensor(&[1000.0_f32, -1000.0, f32::NEG_INFINITY], &[1, 3]);
    assert_eq!(eval(&far.cross_entropy(&tensor(&[0], &[1]))), [0.0]);
    assert_eq!(
        eval(&far.select(1, 1).binary_cross_entropy_with_logits(&tensor(&[1.0_f32], &[1]), Reduction::Sum)),
        [1000.0]
    );
}

#[test]
fn normalisation_gives_mean_zero_and_variance_one() {
    let input = tensor(&floats(1, 48, -3.0, 5.0), &[4, 3, 2, 2]);
    for (values, axes) in [
        (input.batch_norm(None, None, 0.0).output, vec![0, 2, 3]),
        (input.layer_norm(3, None, None, 0.0), vec![1, 2, 3]),
        (input.group_norm(3, None, None, 0.0), vec![2, 3]),
    ] {
        let means = eval(&values.mean_dim(axes.as_slice()));
        assert_close("mean", &means, &vec![0.0; means.len()], 0.0, 1e-6);
        assert_close("variance", &eval(&values.var_dim(axes.as_slice(), 0)), &vec![1.0; means.len()], 1e-6, 0.0);
    }
    let norm = input.batch_norm(None, None, 1e-5);
    assert_close("batch variance", &eval(&norm.variance), &eval(&input.var_dim([0, 2, 3], 1)), 1e-6, 0.0);
    let same = input.batch_norm_eval(&norm.mean, &(norm.variance * (15.0 / 16.0)), None, None, 1e-5);
    assert_close("evaluation", &eval(&same), &eval(&norm.output), 1e-6, 1e-7);
}

#[test]
fn doubtful_cases_are_as_documented() {
    let nan = f32::NAN;
    let x = tensor(&[1.0_f32, 3.0, 3.0, nan, 5.0, nan], &[2, 3]);
    assert_eq!(eval(&x.argmax(1)), [1.0, 0.0]);
    assert_eq!(eval(&x.argmin(1)), [0.0, 0.0]);
    assert!(eval(&x.max_dim(1))[1].is_nan() && eval(&x.maximum(0.0))[3].is_nan());
    let a = tensor(&[7, -7, 7, -7, 5], &[5]);
    let b = tensor(&[3, 3, -3, -3, 0], &[5]);
    assert_eq!(eval(&a.div_trunc(&b)), [2.0, -2.0, -2.0, 2.0, 0.0]);
    assert_eq!(eval(&a.fmod(&b)), [1.0, -1.0, 1.0, -1.0, 0.0]);
    assert_eq!(eval(&a.remainder(&b))[..4], [1.0, 2.0, -2.0, -1.0]);
    let halves = tensor(&[true, false], &[2]).floor_divide(2);
    assert_eq!((halves.dtype(), eval(&halves)), (DType::I32, vec![0.0, 0.0]));
    assert_eq!(eval(&tensor(&[true, false], &[2]).floor_divide(-1)), [-1.0, 0.0]);
    assert_eq!(eval(&tensor(&[i32::MAX], &[1]).pow(2)), [1.0]);
    assert_eq!((&a / 2).dtype(), DType::F32);
    assert_eq!((&a + 1).dtype(), DType::I32);
    assert_eq!((&a + 0.5).dtype(), DType::F32);
    assert_eq!(a.gt(0).sum().dtype(), DType::I32);
    let zeros = [-0.0_f32, 0.0];
    let joined = Tensor::cat(&[&tensor(&zeros, &[2]), &tensor(&zeros, &[2])], 0);
    let signs: Vec<bool> = eval(&joined).into_iter().map(f64::is_sign_negative).collect();
    assert_eq!(signs, [true, false, true, false]);
    let product = tensor(&[2.0_f32, 0.0, 3.0, 0.0, 0.0, 4.0], &[2, 3]);
    let gradient = grad(&product.prod_dim(1), &[&product]).remove(0);
    assert_eq!(eval(&gradient), [0.0, 6.0, 0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn operators_are_the_methods_they_stand_for() {
    let device = Device::cpu();
    let (a, b) = (tensor(&[7, -7, 7, -7, 5], &[5]), tensor(&[3, 3, -3, -3, 0], &[5]));
    assert_eq!(eval(&(&a % &b))[..4], [1.0, 2.0, -2.0, -1.0]);
    assert_eq!(eval(&(&a % 4)), [3.0, 1.0, 3.0, 1.0, 1.0]);
    assert_eq!(eval(&(7 % &b))[..4], [1.0, 1.0, -2.0, -2.0]);
    assert_eq!(eval(&(&a % 2.5))[..2], [2.0, 0.5]);
    assert_eq!(eval(&(-1.5 % b.to_dtype(DType::F32)))[..3], [1.5, 1.5, -1.5]);
    assert_eq!((eval(&(&a & 3)), eval(&(1 | &a))), (eval(&a.bitwise_and(3)), eval(&a.bitwise_or(1))));
    assert_eq!((eval(&(&a ^ &b)), eval(&!&a)), (eval(&a.bitwise_xor(&b)), vec![-8.0, 6.0, -8.0, 6.0, -6.0]));
    let [left, right] = [[true, true, false, false], [true, false, true, false]].map(|bits| tensor(&bits, &[4]));
    for (what, got, expected) in [
        ("and", &left & &right, [true, false, false, false]),
        ("or", &left | &right, [true, true, true, false]),
        ("xor", &left ^ &right, [false, true, true, false]),
        ("not", !&left & right.clone(), [false, false, true, false]),
        ("true on the left", true ^ &left, [false, false, true, true]),
        ("true on the right", &left | true, [true; 4]),
    ] {
        assert_eq!(got.to_vec::<bool>().expect("truths"), expected, "{what}");
    }
    assert_eq!((&left & 1).dtype(), DType::I32);
    let mut changed = left.clone();
    changed &= &right;
    changed |= false;
    changed ^= true;
    assert_eq!(changed.to_vec::<bool>().expect("truths"), [false, true, true, true]);
    let mut angle = Tensor::from_slice(&[-1.0_f32, 7.0], [2], &device).expect("memory");
    angle %= 6.0;
    assert_eq!(angle.to_vec::<f32>().expect("numbers"), [5.0, 1.0]);
    let line = line!() + 1;
    let panic = panic_of(|| &angle & &left);
    assert_eq!(panic.0, "bitwise_and: f32 and bool do not mix; cast one with to_dtype");
    assert_eq!(panic.2, line, "the caller's line");
}

#[test]
fn comparisons_with_nan_are_false_but_for_ne() {
    for device in devices() {
        // one by one, and four at once
        for count in [1, 4] {
            let x = vector(&[1.0, f32::NAN, f32::INFINITY].repeat(count), &device);
            let is = |what: &str, got: Tensor, expected: [bool; 3]| {
                let got = got.to_vec::<bool>().expect("truths");
                assert_eq!(got, expected.repeat(count), "{what}, {count} times, on {device:?}");
            };
            for x in [x.clone(), x.to_dtype(DType::F16)] {
                is("ne", x.ne(&x), [false, true, false]);
                is("ne infinity", x.ne(f64::INFINITY), [true, true, false]);
                is("eq", x.eq(&x), [true, false, true]);
                is("lt", x.lt(2.0), [true, false, false]);
                is("ge", x.ge(&x), [true, false, true]);
                is("bool", (&x - 1.0).to_dtype(DType::Bool), [false, true, true]);
            }
            assert_eq!(read(&x.ne(&x).where_(0.0, &x)), [1.0, 0.0, f32::INFINITY].repeat(count), "on {device:?}");
        }
    }
}

#[test]
fn powers_of_integers_are_integers() {
    for device in devices() {
        let x = Tensor::from_slice(&[31, -3, 10, 0, 2], [5], &device).expect("memory");
        for exponent in [0_u32, 1, 4, 5, 7, 13, 40] {
            let expected: Vec<i32> = [31_i32, -3, 10, 0, 2].iter().map(|x| x.wrapping_pow(exponent)).collect();
            assert_eq!(x.pow(exponent).to_vec::<i32>().expect("integers"), expected, "^{exponent} on {device:?}");
        }
    }
}

#[test]
fn small_arguments_keep_their_digits() {
    let x = tensor(&[1e-7_f32, -1e-7, 0.0, 0.3], &[4]);
    let exact: Vec<f64> = eval(&x);
    assert_close("log1p", &eval(&x.log1p()), &exact.iter().map(|x| x.ln_1p()).collect::<Vec<_>>(), 1e-9, 0.0);
    assert_close("expm1", &eval(&x.expm1()), &exact.iter().map(|x| x.exp_m1()).collect::<Vec<_>>(), 1e-9, 0.0);
}

#[test]
fn odd_functions_keep_the_sign_of_zero() {
    for device in devices() {
        // one by one, and four at once
        for count in [1, 4] {
            let zeros = vector(&[-0.0_f32, 0.0].repeat(count), &device);
            for (what, got) in [("sin", zeros.sin()), ("tan", zeros.tan()), ("tanh", zeros.tanh())] {
                let bits: Vec<u32> = read(&got).into_iter().map(f32::to_bits).collect();
                assert_eq!(bits, [1_u32 << 31, 0].repeat(count), "{what} on {device:?}");
            }
        }
    }
}

#[test]
fn random_numbers_have_their_moments() {
    let device = Device::cpu();
    let moments = |tensor: &Tensor| {
        let values = eval(tensor);
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        (mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64)
    };
    // ten standard errors
    let (mean, variance) = moments(&Tensor::rand([20_000], &device));
    assert!((mean - 0.5).abs() < 0.02 && (variance - 1.0 / 12.0).abs() < 0.006, "{mean} {variance}");
    let (mean, variance) = moments(&Tensor::randn([20_000], &device));
    assert!(mean.abs() < 0.07 && (variance - 1.0).abs() < 0.1, "{mean} {variance}");
    let (mean, _) = moments(&Tensor::full([20_000], 0.3_f32, &device).bernoulli());
    assert!((mean - 0.3).abs() < 0.033, "{mean}");
    let draws = eval(&Tensor::randint(-2, 3, [1000], &device));
    let expected: Vec<f64> = (-2..3).map(f64::from).collect();
    assert!(draws.iter().all(|draw| expected.contains(draw)) && expected.iter().all(|value| draws.contains(value)));
    let kept = eval(&Tensor::ones([20_000], &device).dropout(0.25));
    assert!(kept.iter().all(|&value| value == 0.0 || (value - 4.0 / 3.0).abs() < 1e-6));
    assert!((kept.iter().sum::<f64>() / 20_000.0 - 1.0).abs() < 0.05);
}

#[test]
fn embeddings_and_index_add_are_transposes() {
    let table = tensor(&floats(1, 10, -1.0, 1.0), &[5, 2]);
    let index = tensor(&[4, 0, 4], &[3]);
    let weight = tensor(&[1.0_f32, 2.0, 4.0, 8.0, 16.0, 32.0], &[3, 2]);
    let gradient = grad(&(table.embedding(&index) * &weight), &[&table]).remove(0);
    assert_eq!(eval(&gradient), [4.0, 8.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 17.0, 34.0]);
    assert_eq!(eval(&table.zeros_like().index_add(0, &index, &weight)), eval(&gradient));
}

#[test]
fn tensors_print_as_in_pytorch() {
    let device = Device::cpu();
    assert_eq!(tensor(&[1.0_f32, 2.0, -3.0, 4.0], &[2, 2]).to_string(), "tensor([[ 1.,  2.],\n        [-3.,  4.]])");
    assert_eq!(tensor(&[0.5_f32, 10.25], &[2]).to_string(), "tensor([ 0.5000, 10.2500])");
    assert_eq!(tensor(&[1, -20], &[2]).to_string(), "tensor([  1, -20], i32)");
    assert_eq!(Tensor::full([], true, &device).to_string(), "tensor(true, bool)");
    assert_eq!(Tensor::zeros([0, 3], &device).to_string(), "tensor([], shape=[0, 3])");
    assert_eq!(Tensor::zeros([1 << 30, 0], &device).to_string(), "tensor([], shape=[1073741824, 0])");
    let long = Tensor::arange(2000, &device).to_string();
    assert_eq!(long, "tensor([   0,    1,    2, ..., 1997, 1998, 1999], i32)");
    assert_eq!(Tensor::zeros([2000], &device).to_string(), "tensor([0., 0., 0., ..., 0., 0., 0.])");
    assert!(format!("{:?}", Tensor::zeros([2], &device)).starts_with("Tensor f32[2] on "));
}

#[test]
fn long_axes_are_pooled_in_parts_whose_bounds_do_not_fit_32_bits_before_they_are_divided() {
    // a second of sound from 96 to 44.1 kHz
    let (long, short) = (96_000, 44_100);
    let sound = Tensor::arange(long, &Device::cpu()).to_dtype(DType::F32).reshape([1, 1, long]);
    let parts: Vec<f32> = sound.adaptive_avg_pool1d(short).to_vec().expect("values");
    for part in [0, 1, 22_369, short - 1] {
        let (start, end) = (part * long / short, ((part + 1) * long).div_ceil(short));
        assert_eq!(parts[part], (start + end - 1) as f32 / 2.0, "part {part}");
    }
}

#[test]
fn creation_fills_as_it_says() {
    let device = Device::cpu();
    assert_eq!(eval(&Tensor::arange_step(1.0, 2.0, 0.25, &device)), [1.0, 1.25, 1.5, 1.75]);
    assert_eq!(eval(&Tensor::arange_step(3.0, -1.0, -2.0, &device)), [3.0, 1.0]);
    assert_eq!(eval(&Tensor::arange_step(1.0, 1.0, 1.0, &device)), [0.0; 0]);
    let line = eval(&Tensor::linspace(-0.3, 0.7, 11, &device));
    assert_eq!((line[0], line[10]), (f64::from(-0.3_f32), f64::from(0.7_f32)));
    let expected: Vec<f64> = (0..11).map(|i| -0.3 + 0.1 * f64::from(i)).collect();
    assert_close("linspace", &line, &expected, 0.0, 1e-7);
    assert_eq!(eval(&Tensor::linspace(2.0, 5.0, 1, &device)), [2.0]);
    assert_eq!(eval(&Tensor::linspace(2.0, 5.0, 0, &device)), [0.0; 0]);
    let powers = eval(&Tensor::logspace(-1.0, 2.0, 4, 10.0, &device));
    assert_close("logspace", &powers, &[0.1, 1.0, 10.0, 100.0], 1e-6, 0.0);
    let made = Tensor::from_iter([1_u8, 2, 3], &device).expect("memory");
    assert_eq!((made.dtype(), eval(&made)), (DType::U8, vec![1.0, 2.0, 3.0]));
    assert_eq!(eval(&Tensor::ones_of([2], DType::I32, &device)), [1.0, 1.0]);
    assert_eq!(eval(&Tensor::arange(6, &device).slice_step(0, 1.., -2)), [5.0, 3.0, 1.0]);
}

#[test]
fn closeness_counts_equal_infinities_and_no_nan() {
    let a = tensor(&[1.0_f32, f32::INFINITY, f32::NAN], &[3]);
    let b = tensor(&[1.00001_f32, f32::INFINITY, f32::NAN], &[3]);
    assert_eq!(eval(&a.isclose(&b, 1e-4, 0.0, false)), [1.0, 1.0, 0.0]);
    assert_eq!(eval(&a.isclose(&b, 0.0, 0.0, true)), [0.0, 1.0, 1.0]);
    assert!(!a.allclose(&b, 1e-4, 0.0).expect("a value"));
    assert!(a.narrow(0, 0, 2).allclose(&b.narrow(0, 0, 2), 1e-4, 0.0).expect("a value"));
}

#[test]
fn assigning_operators_give_the_name_another_value() {
    let mut x = vector(&[1.0, 2.0], &Device::cpu());
    let before = x.clone();
    x += &before;
    x *= 3.0;
    x -= 1;
    x /= vector(&[5.0, 11.0], &Device::cpu());
    assert_eq!((read(&x), read(&before)), (vec![1.0, 1.0], vec![1.0, 2.0]));
    assert_eq!(read(&grad(&x.sum(), &[&before])[0]), [6.0 / 5.0, 6.0 / 11.0]);
    let (message, file, _) = panic_of(|| x += Tensor::ones([3], &Device::cpu()));
    assert_eq!((message.as_str(), file.as_str()), ("add: [2] and [3] do not broadcast", file!()));
}

#[test]
fn reductions_of_nothing() {
    let nothing = tensor::<f32>(&[], &[0, 2]);
    assert_eq!(eval(&nothing.sum_dim(0)), [0.0, 0.0]);
    assert_eq!(eval(&nothing.prod_dim(0)), [1.0, 1.0]);
    assert!(eval(&nothing.mean()).into_iter().all(f64::is_nan));
    assert_eq!(eval(&nothing.norm(2.0)), [0.0]);
    assert_eq!(eval(&nothing.logsumexp(0)), [f64::NEG_INFINITY; 2]);
    assert_eq!((eval(&nothing.any()), eval(&nothing.all())), (vec![0.0], vec![1.0]));
    assert_eq!(nothing.cumsum(0).shape().dims(), [0, 2]);
    assert_eq!(nothing.t().multinomial(0, true).shape().dims(), [2, 0]);
    let channels = nothing.t().unsqueeze(2);
    assert_eq!(channels.prelu(&tensor::<f32>(&[], &[0])).shape().dims(), [2, 0, 1]);
    assert_eq!(nothing.cummax(0).1.shape().dims(), [0, 2]);
    for call in [|x: &Tensor| x.max(), |x: &Tensor| x.argmin(0), |x: &Tensor| x.max_with_index(0).0] {
        assert!(panic_of(|| call(&nothing)).0.contains("has no elements"));
    }
}

/// A shape whose product wraps around passed for a small one.
#[test]
fn shapes_beyond_the_reach_of_indices_are_refused_at_the_callers_line() {
    let device = Device::cpu();
    let side = 1 << 16;
    let makers: [(&str, &dyn Fn() -> Tensor); 5] = [
        ("zeros", &|| Tensor::zeros([side, side], &device)),
        ("full", &|| Tensor::full([side, side], 1_u8, &device)),
        ("random numbers", &|| Tensor::rand([side, side], &device)),
        ("eye", &|| Tensor::eye(side, &device)),
        ("from_bytes", &|| Tensor::from_bytes(&[], [1 << 32, 1 << 32], DType::U8, &device).expect("memory")),
    ];
    for (what, make) in makers {
        let (message, file, _) = panic_of(make);
        let shape = if what == "from_bytes" { "[4294967296, 4294967296]" } else { "[65536, 65536]" };
        assert!(message.starts_with(&format!("{what}: {shape} has ")) && message.contains("2147483647"), "{message}");
        assert!(file.ends_with("values.rs"), "{what}: {file}");
    }
    assert_eq!(Tensor::zeros([side, 0, side], &device).numel(), 0);
}

#[test]
fn values_beyond_the_reach_of_indices_are_errors_where_they_would_be_computed() {
    fn table(numbers: &Tensor) -> Tensor {
        numbers * numbers.t()
    }
    let device = Device::cpu();
    let side = 1 << 16;
    let numbers = Tensor::from_slice(&vec![2.0_f32; side], [side, 1], &device).expect("memory");
    let too_many = |error: Error| matches!(error, Error::TooManyElements { elements, .. } if elements == side * side);
    let message = table(&numbers).realize().expect_err("it is too long").to_string();
    assert!(message.contains("[65536, 65536] at ") && message.contains("values.rs"), "{message}");
    let mut step = Step::new(&device, |inputs| vec![table(&inputs[0])]).expect("a step");
    // what takes no memory may be longer
    assert_eq!(read(&table(&numbers).narrow(0, 3, 1).narrow(1, 5, 2)), [4.0, 4.0]);
    assert!(too_many(step.run(&[numbers]).expect_err("its output is too long")));
    // unless there are more of them than can be counted
    let endless = |number: &Tensor| (number.expand([1 << 40, 1 << 40]) + 1.0).sum();
    let message = endless(&Tensor::ones([1, 1], &device)).realize().expect_err("it never ends").to_string();
    assert!(message.contains("more than the"), "{message}");
    let mut step = Step::new(&device, move |inputs| vec![endless(&inputs[0])]).expect("a step");
    step.run(&[Tensor::ones([1, 1], &device)]).expect_err("it never ends");
}

#[test]
fn windows_of_zeros_have_gradients_of_zero_in_power_averages() {
    for device in devices() {
        for p in [2.0, 3.0] {
            let x = vector(&[0.0, 0.0, 3.0, 0.0], &device).reshape([1, 1, 4]);
            let pooled = x.lp_pool1d(p, &PoolOptions::new(2));
            let gradient = grad(&pooled.sum(), &[&x]).remove(0);
            assert_close("values", &doubles(&pooled), &[0.0, 3.0], 1e-6, 1e-6);
            assert_close("gradient", &doubles(&gradient), &[0.0, 0.0, 1.0, 0.0], 1e-6, 1e-6);
        }
    }
}

/// Kernels too large for a cache fetch what the next strip needs; nothing of that may be seen in results.
#[test]
fn large_kernels_have_the_bits_of_small_ones() {
    type Function = fn(&Tensor) -> Tensor;
    let functions: [(&str, Function); 5] = [
        ("softmax", |x| x.softmax(-1)),
        ("gelu", Tensor::gelu),
        ("a quotient", |x| x / &(x * x + 1.5)),
        ("a root", |x| (x * x + 0.5).sqrt()),
        ("a norm of exponentials", |x| x.exp().layer_norm(1, None, None, 1e-5)),
    ];
    // rows that are no whole strips, and a last strip that is not full
    for [rows, columns] in [[201, 999], [700, 300], [2003, 70]] {
        let values = floats(3, rows * columns, -3.0, 3.0);
        for (name, function) in functions {
            let whole = function(&tensor(&values, &[rows, columns])).to_vec::<f32>().expect("values");
            let parts = values.chunks(101 * columns).flat_map(|part| {
                function(&tensor(part, &[part.len() / columns, columns])).to_vec::<f32>().expect("values")
            });
            assert!(whole.iter().copied().eq(parts), "{name} of {rows} x {columns}");
        }
    }
}
