//! Every element type through the whole engine, on strided, broadcast and prime-sized inputs, against the f64
//! reference.

use std::collections::HashMap;

use brasa::autodiff::grad;
use brasa::graph::reference::{decode, evaluate};
use brasa::ops::pool::PoolOptions;
use brasa::tensor::{Mask, Outside, autocast};
use brasa::{DType, Device, Tensor};

use crate::common::{assert_close, devices, doubles, panic_of, values};

const ROWS: usize = 13;
const COLUMNS: usize = 7;

/// Small whole numbers (halves for floats): exact in every type, and so are their products and sums.
fn sample(seed: u64, shape: [usize; 2], dtype: DType, device: &Device) -> Tensor {
    let low = if matches!(dtype, DType::U32 | DType::U8 | DType::Bool) { 0.0 } else { -6.0 };
    let high = if dtype == DType::Bool { 2.0 } else { 7.0 };
    let whole: Vec<f32> =
        values(seed, shape[0] * shape[1], low, high).into_iter().map(|value| value.floor() as f32).collect();
    let whole = Tensor::from_slice(&whole, shape, device).expect("memory");
    if dtype.is_float() { (whole * 0.5).to_dtype(dtype) } else { whole.to_dtype(dtype) }
}

/// Evaluates each on its device, and compares with the reference. f16 results are rounded once: half an ulp, 2^-11.
fn check(dtype: DType, results: &[(&str, Tensor)]) {
    for (name, result) in results {
        let expected = evaluate(std::slice::from_ref(result.node()), &HashMap::new()).remove(0);
        let bytes = bytes_of(result);
        let got = decode(result.dtype(), &bytes);
        let relative = if result.dtype() == DType::F16 { 2f64.powi(-11) } else { 1e-6 };
        assert_close(&format!("{name} of {dtype} on {}", result.device().name()), &got, &expected, relative, 1e-6);
    }
}

/// The elements as they lie in memory.
fn bytes_of(tensor: &Tensor) -> Vec<u8> {
    use brasa::Element;
    match tensor.dtype() {
        DType::F32 => f32::to_bytes(&tensor.to_vec().expect("values")).into_owned(),
        DType::F16 => half::f16::to_bytes(&tensor.to_vec().expect("values")).into_owned(),
        DType::I32 => i32::to_bytes(&tensor.to_vec().expect("values")).into_owned(),
        DType::U32 => u32::to_bytes(&tensor.to_vec().expect("values")).into_owned(),
        DType::U8 => u8::to_bytes(&tensor.to_vec().expect("values")).into_owned(),
        DType::Bool => bool::to_bytes(&tensor.to_vec().expect("values")).into_owned(),
    }
}

#[test]
fn arithmetic_of_every_number_type() {
    for device in devices() {
        for dtype in [DType::F32, DType::F16, DType::I32, DType::U32] {
            let a = sample(1, [ROWS, COLUMNS], dtype, &device);
            let b = sample(2, [COLUMNS, ROWS], dtype, &device);
            let row = sample(3, [1, COLUMNS], dtype, &device);
            check(
                dtype,
                &[
                    ("add of a transpose", &a + b.t()),
                    ("mul by a row", &a * &row),
                    ("maximum of a strided part", a.slice_step(0, 1.., 3).maximum(&row)),
                    ("flip and pad", a.flip(1).pad(&[(1, 2), (0, 3)], 1)),
                    ("comparison", a.lt(b.t())),
                    ("select", a.lt(&row).where_(&a, &row)),
                    ("sum of rows", a.sum_dim(1)),
                    ("sum of columns", a.sum_dim(0)),
                    ("largest of columns of a transpose", b.t().max_dim(0)),
                    ("smallest of all", a.min()),
                    ("argmax", a.argmax(1)),
                    ("matmul", a.matmul(&b)),
                    ("matmul of transposes", b.t().matmul(&a.t())),
                    ("cat", Tensor::cat(&[&a, &row], 0)),
                ],
            );
        }
    }
}

#[test]
fn bytes_and_truth_values() {
    for device in devices() {
        let bytes = sample(4, [ROWS, COLUMNS], DType::U8, &device);
        let flags = sample(5, [ROWS, COLUMNS], DType::Bool, &device);
        let other = sample(6, [COLUMNS, ROWS], DType::Bool, &device).t();
        check(
            DType::Bool,
            &[
                ("bytes as floats, transposed", bytes.t().to_dtype(DType::F32) / 255.0),
                ("bytes moved", bytes.t().flip(0)),
                ("floats as bytes", (bytes.to_dtype(DType::F32) * 2.0).to_dtype(DType::U8)),
                ("and", flags.logical_and(&other)),
                ("or, moved", flags.logical_or(&other).t()),
                ("not", flags.logical_not()),
                ("any of rows", flags.any_dim(1)),
                ("all of columns", flags.all_dim(0)),
                ("as numbers", flags.to_dtype(DType::I32).sum_dim(0)),
            ],
        );
    }
}

#[test]
fn every_cast() {
    for device in devices() {
        for from in DType::ALL {
            let x = sample(7, [COLUMNS, ROWS], from, &device).t();
            let casts: Vec<(&str, Tensor)> = DType::ALL.into_iter().map(|to| (to.name(), x.to_dtype(to))).collect();
            // negative numbers as u8 or u32 saturate or wrap as Rust's `as` does; the reference says how
            check(from, &casts);
        }
    }
}

#[test]
fn halves_are_averaged_in_numbers_that_can_count_them() {
    for device in devices() {
        let floats = |tensor: Tensor| tensor.to_dtype(DType::F32).to_vec::<f32>().expect("values");
        // 0 and 1 in turns: more of them than the largest f16, 65504
        let turns = Tensor::arange(70_000, &device).remainder(2).to_dtype(DType::F16);
        assert_eq!(floats(turns.mean()), [0.5], "{device:?}");
        assert_eq!(floats(turns.var()), [0.25], "{device:?}");
        assert_eq!(floats(turns.nanmean(0)), [0.5], "{device:?}");
        // a sum that is cut in parts, and is infinite as f16
        let ones = Tensor::ones([512, 512], &device).to_dtype(DType::F16);
        assert_eq!(floats(ones.mean()), [1.0], "{device:?}");
        let pooled = ones.reshape([1, 1, 512, 512]).avg_pool2d_with(&PoolOptions::new(512));
        assert_eq!((floats(pooled), ones.mean().dtype()), (vec![1.0], DType::F16), "{device:?}");
        // 70,000 equal largest elements share the gradient
        let same = Tensor::ones([70_000], &device).to_dtype(DType::F16);
        let shares = floats(grad(&(same.max() * 60_000.0), &[&same]).remove(0));
        assert_close("share", &[f64::from(shares[7])], &[60_000.0 / 70_000.0], 1e-3, 0.0);
    }
}

/// Squares of 300, and a sum of 70,000 ones, are beyond f16.
#[test]
fn halves_are_normalised_where_their_squares_and_sums_are_none() {
    for device in devices() {
        let half =
            |values: &[f32]| Tensor::from_slice(values, [values.len()], &device).expect("memory").to_dtype(DType::F16);
        let (apart, same, many) = (half(&[-300.0, 300.0]), half(&[300.0; 4]), half(&vec![1.0; 70_000]));
        let gradient = |y: Tensor| grad(&y, &[&same]).remove(0);
        let count = 70_000_f64;
        let cases: [(&str, Tensor, f64); 13] = [
            ("layer norm", apart.layer_norm(1, None, None, 1e-5), -1.0),
            ("group norm", apart.reshape([1, 1, 2]).group_norm(1, None, None, 1e-5), -1.0),
            ("batch norm", apart.reshape([2, 1]).batch_norm(None, None, 1e-5).output, -1.0),
            ("root mean square norm", same.rms_norm(None, 1e-5), 1.0),
            ("norm", same.norm(2.0), 600.0),
            ("its gradient", gradient(same.norm(2.0)), 0.5),
            ("norm of 3", same.norm(3.0), 300.0 * 4_f64.cbrt()),
            ("normalized", same.normalize(2.0, 0, 1e-12), 0.5),
            ("cosine", same.cosine_similarity(&same, 0, 1e-8), 1.0),
            ("power average", same.reshape([1, 1, 4]).lp_pool1d(2.0, &PoolOptions::new(4)), 600.0),
            ("softmax", many.softmax(0), 1.0 / count),
            ("log softmax", many.log_softmax(0), -count.ln()),
            ("logarithm of the sum", many.logsumexp(0), 1.0 + count.ln()),
        ];
        for (name, result, expected) in cases {
            assert_eq!(result.dtype(), DType::F16, "{name}");
            assert_close(&format!("{name} on {device:?}"), &doubles(&result)[..1], &[expected], 2e-3, 0.0);
        }
    }
}

#[test]
fn numbers_are_chosen_in_the_type_that_sums_have() {
    for device in devices() {
        let condition = Tensor::from_slice(&[true, false, true], [3], &device).expect("memory");
        let ints = Tensor::from_slice(&[1, 2, 3], [3], &device).expect("memory");
        let check = |got: &Tensor, dtype: DType, expected: &[f64]| {
            assert_eq!((got.dtype(), doubles(got)), (dtype, expected.to_vec()), "{device:?}");
        };
        check(&condition.where_(&ints, 0.5), DType::F32, &[1.0, 0.5, 3.0]);
        check(&condition.where_(0.5, &ints), DType::F32, &[0.5, 2.0, 0.5]);
        check(&condition.where_(&ints, 7), DType::I32, &[1.0, 7.0, 3.0]);
        check(&condition.where_(&condition, 2), DType::I32, &[1.0, 2.0, 1.0]);
        check(&condition.where_(&condition, false), DType::Bool, &[1.0, 0.0, 1.0]);
        check(&ints.masked_fill(&condition, 0.5), DType::F32, &[0.5, 2.0, 0.5]);
        // but what ops themselves fill in has the type of what it stands for
        let row = Tensor::arange(5, &device).reshape([1, 1, 5]);
        check(&row.adaptive_max_pool1d(2), DType::I32, &[2.0, 4.0]);
        let places = Tensor::from_slice(&[0.0_f32, 0.0, 5.0, 5.0], [1, 1, 2, 2], &device).expect("memory");
        let picture = Tensor::from_slice(&[7], [1, 1, 1, 1], &device).expect("memory");
        check(&picture.grid_sample(&places, true, Outside::Zeros, false), DType::I32, &[7.0, 0.0]);
    }
}

#[test]
fn sums_by_index_stay_in_their_type_under_autocast() {
    for device in devices() {
        let index = Tensor::from_slice(&[0_i32, 2, 2], [3], &device).expect("memory");
        let source = Tensor::from_slice(&[70_000.0_f32, 1.0, 4097.0], [3], &device).expect("memory");
        let sums = autocast(DType::F16, || Tensor::zeros([3], &device).index_add(0, &index, &source));
        assert_eq!(sums.to_vec::<f32>().expect("values"), [70_000.0, 0.0, 4098.0], "{device:?}");
    }
}

#[test]
fn remainders_of_floats_are_exact() {
    let least = f32::from_bits(1);
    let dividends = [1e9_f32, -1e9, 16_777_217.0, 1e30, 3.0, -0.75, 5.5, f32::MAX, 1e-30, 6.0, -0.0, 1e-40, least];
    let divisors = [7.0_f32, -7.0, 0.1, 3.0, 1e-6, 0.5, 2.75, 1.1, 1e-36, f32::INFINITY, 3e-41, least];
    for device in devices() {
        let a = Tensor::from_slice(&dividends, [dividends.len(), 1], &device).expect("memory");
        let b = Tensor::from_slice(&divisors, [1, divisors.len()], &device).expect("memory");
        let remainders = a.fmod(&b).to_vec::<f32>().expect("values");
        let pairs = dividends.iter().flat_map(|&a| divisors.map(|b| (a, b)));
        for ((a, b), remainder) in pairs.zip(remainders) {
            assert_eq!(remainder.to_bits(), (a % b).to_bits(), "{a} % {b} is {}, not {remainder}: {device:?}", a % b);
        }
    }
}

#[test]
fn whole_numbers_that_a_type_does_not_have_are_refused() {
    let bytes = Tensor::zeros([3], &Device::cpu()).to_dtype(DType::U8);
    for (message, case) in [
        ("-1 is not representable as u8", Box::new(|| bytes.eq(-1)) as Box<dyn Fn() -> Tensor>),
        ("300 is not representable as u8", Box::new(|| bytes.lt(300))),
        ("-1 is not representable as u32", Box::new(|| bytes.to_dtype(DType::U32) + -1)),
        ("3000000000 is not representable as i32", Box::new(|| bytes.to_dtype(DType::I32) + 3_000_000_000_i64)),
    ] {
        let (said, file, _) = panic_of(|| drop(case()));
        assert!(said.contains(message) && file.ends_with("dtypes.rs"), "{said} at {file}");
    }
}

#[test]
fn attention_to_nothing_is_refused_or_nothing() {
    for device in devices() {
        let tokens = |count: usize| Tensor::ones([count, 3], &device);
        let (said, ..) =
            panic_of(|| drop(tokens(4).scaled_dot_product_attention(&tokens(2), &tokens(2), Mask::Causal)));
        assert!(said.contains("of 4 queries the first 2 would see none of 2 keys"), "{said}");
        assert_eq!(Tensor::zeros([4, 0], &device).softmax(1).shape().dims(), [4, 0]);
        assert_eq!(Tensor::zeros([4, 0], &device).log_softmax(-1).to_vec::<f32>().expect("nothing"), [0.0; 0]);
        let nothing = tokens(4).scaled_dot_product_attention(&tokens(0), &tokens(0), Mask::None);
        assert_eq!(nothing.to_vec::<f32>().expect("values"), [0.0; 12], "{device:?}");
    }
}

/// Of the first piece of a row every score may be -infinity.
#[test]
fn attention_gets_over_keys_that_are_infinitely_far() {
    let (queries, keys, width) = (16, 256, 4);
    for device in devices() {
        let numbers: Vec<f32> = [vec![f32::NEG_INFINITY; keys / 2 * width], vec![1.0; keys / 2 * width]].concat();
        let key = Tensor::from_slice(&numbers, [1, keys, width], &device).expect("memory");
        let value = Tensor::from_slice(&vec![3.0_f32; keys * width], [1, keys, width], &device).expect("memory");
        let query = Tensor::from_slice(&vec![1.0_f32; queries * width], [1, queries, width], &device).expect("memory");
        let seen = query.scaled_dot_product_attention(&key, &value, Mask::None);
        assert_close("values", &doubles(&seen), &[3.0; 64], 1e-5, 0.0);
        let gradient = doubles(&grad(&seen, &[&value]).remove(0));
        let share = queries as f64 / (keys / 2) as f64;
        assert_close("of what is not seen", &gradient[..keys / 2 * width], &[0.0; 512], 0.0, 0.0);
        assert_close("of what is seen", &gradient[keys / 2 * width..], &[share; 512], 1e-5, 0.0);
    }
    let nothing = Tensor::full([1, keys, width], f32::NEG_INFINITY, &Device::cpu());
    let query = Tensor::ones([1, queries, width], &Device::cpu());
    let seen = query.scaled_dot_product_attention(&nothing, &query.repeat(&[1, 16, 1]), Mask::None);
    assert!(doubles(&seen).into_iter().all(f64::is_nan));
}

#[test]
fn what_is_chosen_among_f16_and_f32_is_f32_under_autocast() {
    for device in devices() {
        let x = sample(3, [3, 3], DType::F32, &device);
        let chosen = autocast(DType::F16, || x.gt(0.0).where_(&x, x.matmul(&x)));
        assert_eq!(chosen.dtype(), DType::F32);
        let expected = x.gt(0.0).where_(&x, x.matmul(&x));
        assert_eq!(chosen.to_vec::<f32>().expect("values"), expected.to_vec::<f32>().expect("values"), "{device:?}");
        let weight = Tensor::full([1], 0.25, &device);
        let activated = autocast(DType::F16, || x.matmul(&x).prelu(&weight)).to_vec::<f32>().expect("values");
        assert_eq!(activated, x.matmul(&x).prelu(&weight).to_vec::<f32>().expect("values"), "{device:?}");
    }
}

/// Though the variance is none.
#[test]
fn a_deviation_that_f16_can_hold_is_one() {
    for device in devices() {
        for (size, expected) in [(400.0_f32, 565.5), (1e-4, 1.414e-4)] {
            let x = Tensor::from_slice(&[-size, size], [2], &device).expect("memory").to_dtype(DType::F16);
            for std in [x.std(), x.std_dim(0, 1), x.std_keepdim(0, 1).squeeze(0)] {
                assert_eq!((std.dtype(), std.rank()), (DType::F16, 0));
                let found = std.to_dtype(DType::F32).item::<f32>().expect("a value");
                assert!((found / expected - 1.0).abs() < 2e-3, "{device:?}: {found} for {expected}");
            }
        }
    }
}
