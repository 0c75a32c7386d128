//! Sorting, searching and scattering against plain loops: the same bits on every device.

use brasa::autodiff::grad;
use brasa::doctor::rows::unit;
use brasa::runtime::{Step, Var};
use brasa::tensor::ScatterOp;
use brasa::{DType, Device, Element, Error, Shape, Tensor};

use crate::common::{devices, panic_of, read};

/// Numbers with many repeats, both zeros, infinities and NaN.
fn awkward(seed: u64, count: usize) -> Vec<f32> {
    let special = [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, f32::MIN_POSITIVE / 4.0, -1e-40];
    let number = |element| {
        let bits = unit(seed, element);
        match (bits * 64.0) as usize {
            which @ 0..8 => special[which],
            8..40 => (bits * 640.0).floor() as f32 - 200.0,
            _ => (bits as f32 - 0.8) * 1e3,
        }
    };
    (0..count).map(number).collect()
}

/// The stable order of a row, as PyTorch has it.
fn order<T: Copy>(row: &[T], descending: bool, less: impl Fn(T, T) -> bool) -> Vec<i32> {
    let mut order: Vec<i32> = (0..row.len() as i32).collect();
    order.sort_by(|&a, &b| {
        let (a, b) = (row[a as usize], row[b as usize]);
        let (a, b) = if descending { (b, a) } else { (a, b) };
        if less(a, b) {
            std::cmp::Ordering::Less
        } else if less(b, a) {
            std::cmp::Ordering::Greater
        } else {
            std::cmp::Ordering::Equal
        }
    });
    order
}

fn float_less(a: f32, b: f32) -> bool {
    a < b || b.is_nan() && !a.is_nan()
}

fn check_rows<T: Element + PartialEq + std::fmt::Debug>(
    values: &[T],
    length: usize,
    device: &Device,
    less: impl Fn(T, T) -> bool + Copy,
) {
    let rows = values.len().checked_div(length).unwrap_or(3);
    let x = Tensor::from_slice(values, [rows, length], device).expect("memory");
    for descending in [false, true] {
        let (sorted, indices) = x.sort(1, descending);
        let expected: Vec<i32> = values.chunks(length.max(1)).flat_map(|row| order(row, descending, less)).collect();
        let indices = indices.to_vec::<i32>().expect("indices");
        assert!(indices == expected, "{} rows of {length} {} on {}", rows, T::DTYPE, device.name());
        let picked: Vec<T> =
            expected.iter().enumerate().map(|(n, &i)| values[n / length * length + i as usize]).collect();
        // as bytes: NaN and zeros keep their bits
        assert!(T::to_bytes(&sorted.to_vec::<T>().expect("values")) == T::to_bytes(&picked), "{} values", T::DTYPE);
    }
}

#[test]
fn sorts_agree_with_the_standard_library() {
    for device in devices() {
        for length in [0, 1, 2, 3, 5, 17, 127, 1023, 1024, 1025, 2048, 2049, 5003, 70_000] {
            let rows = if length < 2000 { 3 } else { 1 };
            check_rows(&awkward(length as u64, rows * length), length, &device, float_less);
        }
    }
}

#[test]
fn many_short_rows_fold_into_the_second_dimension() {
    for device in devices() {
        check_rows(&awkward(1, 70_001 * 3), 3, &device, float_less);
    }
}

#[test]
fn every_type_is_sorted() {
    let count = 2500;
    let numbers: Vec<f64> = (0..count).map(|n| (unit(7, n) * 300.0).floor()).collect();
    for device in devices() {
        check_rows(&numbers.iter().map(|&x| x as i32 - 150).collect::<Vec<_>>(), count / 2, &device, |a, b| a < b);
        check_rows(&numbers.iter().map(|&x| x as u32 * 14_000_000).collect::<Vec<_>>(), count, &device, |a, b| a < b);
        check_rows(&numbers.iter().map(|&x| x as u8).collect::<Vec<_>>(), count, &device, |a, b| a < b);
        check_rows(&numbers.iter().map(|&x| x > 99.0).collect::<Vec<_>>(), count, &device, |a, b| !a & b);
        let halves: Vec<half::f16> = awkward(3, count).into_iter().map(half::f16::from_f32).collect();
        check_rows(&halves, count, &device, |a, b| float_less(a.to_f32(), b.to_f32()));
    }
}

#[test]
fn medians_and_quantiles_know_about_nan() {
    for device in devices() {
        let x = Tensor::from_slice(&[3.0, f32::NAN, 1.0, 4.0, 1.0, 5.0, 2.0, 2.0], [2, 4], &device).expect("memory");
        let (medians, indices) = x.median_dim(1);
        assert!(read(&medians)[0].is_nan());
        assert_eq!((read(&medians)[1], indices.to_vec::<i32>().expect("indices")), (2.0, vec![1, 2]));
        let (medians, indices) = x.nanmedian_dim(1);
        assert_eq!((read(&medians), indices.to_vec::<i32>().expect("indices")), (vec![3.0, 2.0], vec![0, 2]));
        let quantiles = read(&x.quantile(0.5, 1));
        assert!(quantiles[0].is_nan() && quantiles[1] == 2.0, "{quantiles:?}");
        assert_eq!(read(&x.narrow(0, 1, 1).quantile(0.9, 1)), [2.0 + (5.0 - 2.0) * 0.7]);
    }
}

#[test]
fn searches_agree_with_the_standard_library() {
    for device in devices() {
        for (length, queries) in [(1, 5), (7, 70), (1025, 3001)] {
            let mut table: Vec<i32> = (0..length).map(|n| (unit(1, n) * 100.0) as i32 - 50).collect();
            table.sort_unstable();
            let wanted: Vec<i32> = (0..queries).map(|n| (unit(2, n) * 110.0) as i32 - 55).collect();
            let rows = Tensor::from_slice(&table, [length], &device).expect("memory");
            let values = Tensor::from_slice(&wanted, [queries], &device).expect("memory");
            for right in [false, true] {
                let found = values.bucketize(&rows, right).to_vec::<i32>().expect("places");
                let expected = wanted.iter().map(|&q| table.partition_point(|&t| t < q || right && t == q) as i32);
                assert_eq!(found, expected.collect::<Vec<_>>(), "{length} {queries} {right}");
            }
        }
    }
}

#[test]
fn permutations_are_the_same_on_every_device() {
    let drawn: Vec<Vec<i32>> = devices()
        .iter()
        .map(|device| {
            let device = device.reopen().expect("it opens twice");
            brasa::runtime::seed(&device, 5).expect("a seed");
            Tensor::randperm(3001, &device).to_vec().expect("a permutation")
        })
        .collect();
    assert!(drawn.windows(2).all(|pair| pair[0] == pair[1]));
    let mut sorted = drawn[0].clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..3001).collect::<Vec<_>>());
    assert_ne!(drawn[0], sorted);
}

/// Indices of which about a half is 0, so that segments are long.
fn skewed(seed: u64, count: usize, bound: usize) -> Vec<i32> {
    let index = |n| {
        let number = unit(seed, n);
        if number < 0.5 { 0 } else { ((number - 0.5) * 2.0 * bound as f64) as i32 }
    };
    (0..count).map(index).collect()
}

#[test]
fn sums_by_index_have_the_bits_of_a_plain_loop_in_parts() {
    // 20,000 positions: segments are cut at multiples of 1024
    let (count, size, width) = (20_000, 1500, 3);
    let index = skewed(3, count, size);
    let values: Vec<f32> = (0..count * width).map(|n| unit(4, n) as f32 - 0.5).collect();
    let mut groups = vec![Vec::new(); size];
    for (position, &group) in index.iter().enumerate() {
        groups[group as usize].push(position);
    }
    let mut expected = Vec::new();
    let mut start = 0;
    for group in &groups {
        let mut whole = vec![0f32; width];
        let mut from = 0;
        while from < group.len() {
            let to = group.len().min((start + from) / 1024 * 1024 + 1024 - start);
            let mut part = vec![0f32; width];
            for &position in &group[from..to] {
                part.iter_mut().zip(&values[position * width..]).for_each(|(sum, value)| *sum += value);
            }
            whole.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
            from = to;
        }
        start += group.len();
        expected.extend(whole);
    }
    for device in devices() {
        let index = Tensor::from_slice(&index, [count], &device).expect("memory");
        let source = Tensor::from_slice(&values, [count, width], &device).expect("memory");
        let sums = Tensor::zeros([size, width], &device).index_add(0, &index, &source);
        assert!(read(&sums) == expected, "{}", device.name());
    }
}

#[test]
fn scatters_agree_with_a_plain_loop() {
    let (rows, columns, count) = (700, 50, 900);
    let index = skewed(5, count * columns, rows);
    let source: Vec<i32> = (0..count * columns).map(|n| (unit(6, n) * 100.0) as i32 - 50).collect();
    let start: Vec<i32> = (0..rows * columns).map(|n| (unit(8, n) * 100.0) as i32).collect();
    let plain = |join: fn(i32, i32) -> i32| {
        let mut out = start.clone();
        for (position, (&row, &value)) in index.iter().zip(&source).enumerate() {
            let place = &mut out[row as usize * columns + position % columns];
            *place = join(*place, value);
        }
        out
    };
    for device in devices() {
        let x = Tensor::from_slice(&start, [rows, columns], &device).expect("memory");
        let index = Tensor::from_slice(&index, [count, columns], &device).expect("memory");
        let source = Tensor::from_slice(&source, [count, columns], &device).expect("memory");
        let ints = |tensor: Tensor| tensor.to_vec::<i32>().expect("values");
        assert_eq!(ints(x.scatter(0, &index, &source)), plain(|_, new| new));
        assert_eq!(ints(x.scatter_add(0, &index, &source)), plain(i32::wrapping_add));
        assert_eq!(ints(x.scatter_reduce(0, &index, &source, ScatterOp::Max, true)), plain(i32::max));
        assert_eq!(ints(x.scatter_reduce(0, &index, &source, ScatterOp::Prod, true)), plain(i32::wrapping_mul));
        // a mean of integers is rounded down, as PyTorch's
        let [none, three] = [0, -3].map(|value| Tensor::from_slice(&[value], [1], &device).expect("memory"));
        assert_eq!(ints(none.scatter_reduce(0, &none, &three, ScatterOp::Mean, true)), [-2]);
    }
}

/// What `values`, `[outer, n, inner]`, come to when each is added at its index along the middle axis of `size`.
fn added_up(values: &[f32], index: &[i32], [outer, n, inner]: [usize; 3], size: usize) -> Vec<f32> {
    let mut sums = vec![0f64; outer * size * inner];
    for (element, (&value, &at)) in values.iter().zip(index).enumerate() {
        let (row, column) = (element / (n * inner), element % inner);
        sums[(row * size + at as usize) * inner + column] += f64::from(value);
    }
    sums.iter().map(|&sum| sum as f32).collect()
}

#[test]
fn gradients_of_elements_taken_by_index() {
    // few and many elements of a row, more than a segment has, and rows that lie side by side
    for (shape, size) in
        [([3, 20, 2], 9), ([4, 70, 1], 300), ([2, 5000, 1], 7), ([3, 333, 5], 41), ([1, 6000, 1], 2000)]
    {
        let count = shape.iter().product();
        let index = skewed(11, count, size);
        let weights: Vec<f32> = (0..count).map(|n| (unit(12, n) * 64.0).floor() as f32 - 32.0).collect();
        let expected = added_up(&weights, &index, shape, size);
        for device in devices() {
            let what = format!("{shape:?} of {size} on {}", device.name());
            // an axis that is not indexed may be longer
            let x = Tensor::ones([shape[0] + 1, size, shape[2]], &device);
            let index = Tensor::from_slice(&index, shape, &device).expect("memory");
            let weights = Tensor::from_slice(&weights, shape, &device).expect("memory");
            let slope = grad(&(x.gather(1, &index) * &weights).sum(), &[&x])[0].clone();
            assert_eq!(read(&slope)[..expected.len()], expected, "{what}");
            assert!(read(&slope)[expected.len()..].iter().all(|&slope| slope == 0.0), "{what}");
            assert_eq!(read(&(&x - &x).scatter_add(1, &index, &weights)), read(&slope), "{what}");
            let half = x.to_dtype(DType::F16);
            let by_half = grad(&(half.gather(1, &index) * weights.to_dtype(DType::F16)).sum(), &[&half]);
            let rounded: Vec<f32> = read(&slope.to_dtype(DType::F16).to_dtype(DType::F32));
            assert_eq!(read(&by_half[0].to_dtype(DType::F32)), rounded, "{what}");
            // the gradient's gradient takes from where the gradient adds
            let second = &grad(&slope.square().sum(), &[&weights])[0];
            assert_eq!(read(second), read(&(slope.gather(1, &index) * 2.0)), "{what}");
        }
    }
}

#[test]
fn gradients_of_extrema_so_far() {
    for [outer, n, inner] in [[2, 16, 3], [3, 40, 1], [2, 1500, 3], [1, 20_000, 1]] {
        let count = outer * n * inner;
        let mut values: Vec<f32> = (0..count).map(|n| (unit(13, n) * 30.0).floor() as f32 + (n / 100) as f32).collect();
        values[count / 2] = f32::NAN;
        for device in devices() {
            let x = Tensor::from_slice(&values, [outer, n, inner], &device).expect("memory");
            let weights: Vec<f32> = (0..count).map(|n| (unit(14, n) * 9.0).floor() as f32).collect();
            for (largest, index) in [x.cummax(1), x.cummin(1)] {
                let w = Tensor::from_slice(&weights, [outer, n, inner], &device).expect("memory");
                let slope = &grad(&x.isnan().logical_not().where_(largest * w, 0.0).sum(), &[&x])[0];
                let index = index.to_vec::<i32>().expect("values");
                let kept: Vec<f32> =
                    weights.iter().zip(&values).map(|(&w, v)| if v.is_nan() { 0.0 } else { w }).collect();
                let expected = added_up(&kept, &index, [outer, n, inner], n);
                let wrong = read(slope).iter().zip(&expected).position(|(got, expected)| got != expected);
                assert_eq!(wrong, None, "{outer} of {n}, {inner} side by side, on {}", device.name());
            }
        }
    }
}

#[test]
fn unique_nonzero_and_masked_select() {
    for device in devices() {
        let x = Tensor::from_slice(&[3.0, -0.0, 1.0, 3.0, 0.0, f32::NAN], [2, 3], &device).expect("memory");
        let unique = x.unique().expect("values");
        let values = read(&unique.values);
        assert_eq!(values[..3], [0.0, 1.0, 3.0]);
        assert!(values[3].is_nan() && values.len() == 4);
        assert_eq!(unique.inverse.shape().dims(), [2, 3]);
        assert_eq!(unique.inverse.to_vec::<i32>().expect("values"), [2, 0, 1, 2, 0, 3]);
        assert_eq!(unique.counts.to_vec::<i32>().expect("values"), [2, 1, 2, 1]);
        let points = x.nonzero().expect("values");
        assert_eq!(points.shape().dims(), [4, 2]);
        assert_eq!(points.to_vec::<i32>().expect("values"), [0, 0, 0, 2, 1, 0, 1, 2]);
        let selected = x.masked_select(&x.gt(0.5)).expect("values");
        assert_eq!(read(&selected), [3.0, 1.0, 3.0]);
        assert_eq!(read(&grad(&selected.square(), &[&x])[0]), [6.0, 0.0, 2.0, 6.0, 0.0, 0.0]);
        let none = x.masked_select(&x.gt(9.0)).expect("values");
        assert_eq!(none.shape().dims(), [0]);
        assert_eq!(Tensor::zeros([0], &device).unique().expect("values").counts.numel(), 0);
    }
}

#[test]
fn histograms_count_what_lies_inside() {
    for device in devices() {
        let x = [0.0, 0.1, 0.25, 0.5, 1.0, -0.1, 1.1, f32::NAN, f32::INFINITY];
        let x = Tensor::from_slice(&x, [9], &device).expect("memory");
        assert_eq!(read(&x.histc(4, 0.0, 1.0)), [2.0, 1.0, 1.0, 1.0]);
    }
}

#[test]
fn an_index_outside_is_an_error_that_names_the_line() {
    for device in crate::common::fresh_devices() {
        let index = Tensor::from_slice(&[0, 4], [2, 1], &device).expect("memory");
        let source = Tensor::ones([2, 1], &device);
        let line = line!() + 1;
        let scattered = Tensor::zeros([4, 1], &device).scatter(0, &index, &source);
        let Err(Error::IndexOutOfRange { location, bound, .. }) = scattered.to_vec::<f32>() else {
            panic!("no error on {}", device.name())
        };
        assert!(location.contains(&format!("sort.rs:{line}:")) && bound == 4, "{location} {bound}");
    }
}

#[test]
fn wrong_inputs_panic_at_the_callers_line() {
    let device = Device::cpu();
    let x = Tensor::zeros([3, 4], &device);
    let index = Tensor::zeros([3], &device).to_dtype(DType::I32);
    type Call = fn(&Tensor, &Tensor) -> Tensor;
    let cases: Vec<(Call, &str)> = vec![
        (|x, _| x.sort(2, false).0, "sort: [3, 4] has no axis 2"),
        (|x, _| x.topk(5, 1, true).0, "topk: 5 of the 4 elements along axis 1"),
        (|x, _| x.kthvalue(0, 0).0, "kthvalue: number 0 of the 3 elements along axis 0"),
        (|x, i| x.scatter(0, i, 1.0), "scatter: [3, 4] by [3] along axis 0"),
        (|x, i| x.index_copy(0, i, x).index_copy(1, i, x), "index_copy: [3, 4] at [3] into [3, 4] along axis 1"),
        (|x, i| x.searchsorted(i, false), "searchsorted: [3] into [3, 4]"),
        (|x, _| x.histc(3, 1.0, 1.0), "histc: 3 bins between 1 and 1, in f32"),
    ];
    for (call, expected) in cases {
        let (message, file, _) = panic_of(|| call(&x, &index));
        assert_eq!(message, expected);
        assert_eq!(file, file!(), "{expected}");
    }
}

#[test]
fn a_large_embedding_trains_in_bounded_memory() {
    let (vocabulary, tokens, width) = (50_000, 8192, 64);
    let index: Vec<i32> = skewed(9, tokens, vocabulary);
    for device in crate::common::fresh_devices() {
        let table = Var::parameter("table", &Tensor::ones([vocabulary, width], &device)).expect("memory");
        let variable = table.clone();
        let mut step = Step::new(&device, move |inputs| {
            let rows = variable.tensor();
            let loss = rows.embedding(&inputs[0]).square().sum() * 0.5;
            let gradient = loss.backward().get(&rows).expect("a gradient");
            variable.assign(&(rows - gradient * 0.25));
            vec![loss]
        })
        .expect("a step");
        let plan = step.prepare(&[(Shape::from(tokens), DType::I32)]).expect("a plan").plan.clone();
        // the table has 12.8 MB, the indices as one-hot rows would have 1.6 GB
        assert!(plan.memory_bytes() < 80 << 20, "{}", plan.summary());
        let input = Tensor::from_slice(&index, [tokens], &device).expect("memory");
        step.run(std::slice::from_ref(&input)).expect("a run");
        let mut counts = vec![0; vocabulary];
        index.iter().for_each(|&row| counts[row as usize] += 1);
        let rows = read(&table.tensor());
        for (row, count) in rows.chunks(width).zip(counts) {
            assert!(row.iter().all(|&x| x == 1.0 - 0.25 * count as f32), "{} of {count} on {}", row[0], device.name());
        }
    }
}
