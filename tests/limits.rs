//! Sizes at which drivers and counters give out: 65,535 loop steps, 65,535 workgroups, 128 MiB per binding.

mod common;

use brasa::autodiff::grad;
use brasa::ops::conv::ConvOptions;
use brasa::{DType, Device, Tensor};

use common::{assert_close, devices, doubles, floats, read};

fn tensor(values: &[f32], shape: &[usize], device: &Device) -> Tensor {
    Tensor::from_slice(values, shape, device).expect("memory")
}

#[test]
fn sixteen_million_ones_are_all_counted() {
    for device in devices() {
        for count in [65_535, 65_536, (1 << 18) + 1, 1 << 24] {
            // stored, so that nothing can fold the sum of a constant
            let ones = tensor(&vec![1.0; count], &[count], &device);
            let sum: f32 = ones.sum().item().expect("a sum");
            assert_eq!(sum, count as f32, "{count} on {device:?}");
        }
    }
}

#[test]
fn long_sums_of_any_kind_lose_nothing() {
    let count = (1 << 18) + 1;
    let values: Vec<i32> = (0..count).map(|index| (index * 7919 % 1001) - 500).collect();
    let (sum, max): (i32, _) = (values.iter().sum(), values.iter().copied().max());
    let first = values.iter().position(|value| Some(*value) == max).expect("a largest") as i32;
    for device in devices() {
        let integers = Tensor::from_vec(values.clone(), &device).expect("memory");
        let as_floats = integers.to_dtype(DType::F32);
        assert_eq!(integers.sum().item::<i32>().expect("a sum"), sum, "{device:?}");
        assert_eq!(as_floats.sum().item::<f32>().expect("a sum"), sum as f32, "{device:?}");
        assert_eq!(integers.max().item::<i32>().expect("a largest"), max.expect("not empty"), "{device:?}");
        assert_eq!(as_floats.argmax(0).item::<i32>().expect("its place"), first, "{device:?}");
        // along columns of a tall matrix, and along rows of a wide one
        let tall = as_floats.reshape([count as usize, 1]).expand([count as usize, 3]);
        assert_eq!(read(&(tall * 1.0).sum_dim(0)), [sum as f32; 3], "{device:?}");
        let dot = as_floats.reshape([1, -1]).matmul(&integers.ones_like().to_dtype(DType::F32).reshape([-1, 1]));
        assert_eq!(dot.item::<f32>().expect("a product"), sum as f32, "{device:?}");
    }
}

#[test]
fn batch_norm_over_long_channels_has_the_right_statistics() {
    // 131,200 values per channel
    let (batch, channels, side) = (8, 2, 128);
    let side_length = side * (side + 1) - 112;
    let count = batch * side_length;
    assert!(count > 131_072);
    let values = floats(1, batch * channels * side_length, -1.0, 3.0);
    let mut statistics = Vec::new();
    for channel in 0..channels {
        let of_channel = || (0..batch).flat_map(|n| &values[(n * channels + channel) * side_length..][..side_length]);
        let mean = of_channel().map(|&x| f64::from(x)).sum::<f64>() / count as f64;
        let variance = of_channel().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / count as f64;
        statistics.push((mean, variance));
    }
    for device in devices() {
        let input = tensor(&values, &[batch, channels, side_length], &device);
        let norm = input.batch_norm(None, None, 1e-5);
        let (means, variances): (Vec<f64>, Vec<f64>) = statistics.iter().copied().unzip();
        // means of numbers near 1 and of their squares, summed in parts: some roundings of 6e-8 each
        assert_close("mean", &doubles(&norm.mean), &means, 1e-6, 1e-6);
        let by_count: Vec<f64> = variances.iter().map(|v| v * count as f64 / (count - 1) as f64).collect();
        assert_close("variance", &doubles(&norm.variance), &by_count, 3e-6, 0.0);
        let output = doubles(&norm.output);
        for (index, (&x, &y)) in values.iter().zip(&output).enumerate().step_by(997) {
            let (mean, variance) = statistics[index / side_length % channels];
            let expected = (f64::from(x) - mean) / (variance + 1e-5).sqrt();
            assert!((y - expected).abs() < 1e-5, "element {index}: {y} instead of {expected} on {device:?}");
        }
        // the gradient of Σ y·w along x is perpendicular to 1 and to y
        let weights = tensor(&floats(2, values.len(), -1.0, 1.0), &[batch, channels, side_length], &device);
        let gradient = grad(&(&norm.output * weights).sum(), &[&input]).remove(0);
        let gradient = doubles(&gradient);
        for channel in 0..channels {
            let of = |values: &[f64]| -> Vec<f64> {
                let rows = values.chunks(side_length).skip(channel).step_by(channels);
                rows.flatten().copied().collect()
            };
            let (g, y) = (of(&gradient), of(&output));
            let size = g.iter().map(|g| g.abs()).sum::<f64>();
            let along_one = g.iter().sum::<f64>() / size;
            let along_y = g.iter().zip(&y).map(|(g, y)| g * y).sum::<f64>() / size;
            assert!(size > 1e4 && along_one.abs() < 1e-5 && along_y.abs() < 1e-5, "{along_one} {along_y}");
        }
    }
}

#[test]
fn weight_gradients_over_long_axes_are_right() {
    let rows = 70_001;
    let (input, upstream) = (floats(1, rows * 3, -1.0, 1.0), floats(2, rows * 2, -1.0, 1.0));
    let mut expected = vec![0.0_f64; 6];
    for row in 0..rows {
        for (o, i) in (0..2).flat_map(|o| (0..3).map(move |i| (o, i))) {
            expected[o * 3 + i] += f64::from(upstream[row * 2 + o]) * f64::from(input[row * 3 + i]);
        }
    }
    // [4, 1, 144, 144] with 3×3 kernels: 82,944 products for each weight
    let (batch, side) = (4, 144);
    let (image, error) = (floats(3, batch * side * side, -1.0, 1.0), floats(4, batch * side * side, -1.0, 1.0));
    let mut kernel = vec![0.0_f64; 9];
    let at = |n: usize, y: usize, x: usize| n * side * side + y * side + x;
    for (n, y, x) in (0..batch).flat_map(|n| (0..side).flat_map(move |y| (0..side).map(move |x| (n, y, x)))) {
        for (i, j) in (0..3).flat_map(|i| (0..3).map(move |j| (i, j))) {
            let (row, column) = (y + i, x + j);
            if (1..=side).contains(&row) && (1..=side).contains(&column) {
                let product = f64::from(error[at(n, y, x)]) * f64::from(image[at(n, row - 1, column - 1)]);
                kernel[i * 3 + j] += product;
            }
        }
    }
    for device in devices() {
        let weight = tensor(&floats(5, 6, -1.0, 1.0), &[2, 3], &device);
        let output = tensor(&input, &[rows, 3], &device).linear(&weight, None);
        let loss = (output * tensor(&upstream, &[rows, 2], &device)).sum();
        let gradient = grad(&loss, &[&weight]).remove(0);
        // 70,001 products that add up to 130 on the way, 512 or some more at a time. Each of the 137 additions of such
        // parts rounds by up to 2⁻²⁴ · 130 = 8e-6: a random walk of sqrt(137) · 8e-6 = 9e-5 (PyTorch is 7e-5 off).
        // Added one by one they would be sqrt(70,001) · 8e-6 = 2e-3 off at worst, and with these numbers 4e-4.
        assert_close("linear", &doubles(&gradient), &expected, 0.0, 3e-4);

        let filter = tensor(&floats(6, 9, -1.0, 1.0), &[1, 1, 3, 3], &device);
        let images = tensor(&image, &[batch, 1, side, side], &device);
        let output = images.conv2d(&filter, None, &ConvOptions::default().padding(1));
        let loss = (output * tensor(&error, &[batch, 1, side, side], &device)).sum();
        let gradient = grad(&loss, &[&filter]).remove(0);
        assert_close("convolution", &doubles(&gradient), &kernel, 0.0, 3e-4);
    }
}

/// More elements than 65,535 groups of 256 have invocations, once per family of kernels.
#[test]
fn more_than_65_535_groups_reach_every_element() {
    let count = 65_535 * 256 + 1001;
    for device in devices() {
        let index = Tensor::arange(count, &device);
        let map: Vec<i32> = (index * 3 - 7).to_vec().expect("values");
        let wrong = map.iter().zip(0..).position(|(&got, number)| got != number * 3 - 7);
        assert_eq!((wrong, map.len()), (None, count), "map on {device:?}");

        // 2¹⁷ and some rows, one result each
        let rows = 131_101;
        let matrix = Tensor::arange(rows * 5, &device).reshape([rows, 5]).realized();
        let sums: Vec<i32> = matrix.sum_dim(1).to_vec().expect("values");
        let wrong = sums.iter().zip(0..).position(|(&got, row)| got != 25 * row + 10);
        assert_eq!((wrong, sums.len()), (None, rows), "reduce on {device:?}");

        // as many small products in a batch
        let left = Tensor::arange(rows * 4, &device).remainder(13).to_dtype(DType::F32).reshape([rows, 2, 2]);
        let right = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [1, 2, 2], &device).expect("memory");
        let products = read(&left.matmul(&right.expand([rows, 2, 2])));
        let entry = |number: usize| (number % 13) as f32;
        for row in 0..rows * 2 {
            let (a, b) = (entry(row * 2), entry(row * 2 + 1));
            assert_eq!(products[row * 2..][..2], [a + 3.0 * b, 2.0 * a + 4.0 * b], "contract, {row} on {device:?}");
        }
    }
}

/// The same for the routines: a group sorts one row, 64 invocations of a group find or reduce one result each. (Merges,
/// which would take 33 million elements, have a test of rendered kernels.)
#[test]
fn more_than_65_535_groups_of_a_routine_reach_every_element() {
    let rows = 65_535 + 66;
    let count = 65_535 * 64 + 1001;
    for device in devices() {
        let matrix = Tensor::arange(rows * 3, &device).reshape([rows, 3]).realized();
        let sorted: Vec<i32> = matrix.sort(1, true).0.to_vec().expect("values");
        let expected = |at: i32| at / 3 * 3 + 2 - at % 3;
        let wrong = sorted.iter().zip(0..).position(|(&got, at)| got != expected(at));
        assert_eq!((wrong, sorted.len()), (None, rows * 3), "sort on {device:?}");

        let bounds = Tensor::from_slice(&[1000, 2_000_000, 4_194_000], 3, &device).expect("memory");
        let queries = Tensor::arange(count, &device).realized();
        let found: Vec<i32> = bounds.searchsorted(&queries, true).to_vec().expect("values");
        let expected = |query: i32| [1000, 2_000_000, 4_194_000].iter().filter(|&&bound| bound <= query).count() as i32;
        let wrong = found.iter().zip(0..).position(|(&got, query)| got != expected(query));
        assert_eq!((wrong, found.len()), (None, count), "search on {device:?}");

        let places = [0, 5, 5, 65_535 * 64 - 1, 65_535 * 64, count as i32 - 1, count as i32 - 1];
        let index = Tensor::from_slice(&places, places.len(), &device).expect("memory");
        let source = Tensor::arange(places.len(), &device).to_dtype(DType::F32) + 1.0;
        let sums = read(&Tensor::zeros([count], &device).scatter_add(0, &index, &source));
        let mut expected = vec![0.0; count];
        places.iter().zip(1..).for_each(|(&place, value)| expected[place as usize] += value as f32);
        let wrong = sums.iter().zip(&expected).position(|(got, expected)| got != expected);
        assert_eq!((wrong, sums.len()), (None, count), "segments on {device:?}");
    }
}

trait Realized {
    /// The tensor with its value computed, so that what follows is a kernel of its own.
    fn realized(self) -> Self;
}

impl Realized for Tensor {
    fn realized(self) -> Self {
        self.realize().expect("memory");
        self
    }
}

/// 160 MiB: more than the 128 MiB that a binding of Mesa's llvmpipe holds, and no whole number of rows or groups.
const LARGE: usize = 40 * (1 << 20) + 12_345;

#[test]
fn maps_and_sums_of_tensors_larger_than_a_binding() {
    for device in devices() {
        let numbers = (Tensor::arange(LARGE, &device).remainder(1009)).to_dtype(DType::F32).realized();
        let doubled = (&numbers * 2.0 + 1.0).realized();
        for index in [0, 1, (32 << 20) - 1, 32 << 20, (32 << 20) + 1, LARGE - 1] {
            let value: f32 = doubled.narrow(0, index, 1).item().expect("a value");
            assert_eq!(value, (index % 1009) as f32 * 2.0 + 1.0, "element {index} on {device:?}");
        }
        drop(doubled);
        // whole periods sum to 1009 · 504, then the rest; in i32, so that every element counts exactly
        let (periods, rest) = (LARGE / 1009, LARGE % 1009);
        let expected = (periods * 1009 * 504 + rest * (rest - 1) / 2) as u64;
        let sum: i32 = numbers.to_dtype(DType::I32).sum().item().expect("a sum");
        assert_eq!(sum, expected as u32 as i32, "sum on {device:?}");
        let largest: f32 = numbers.max().item().expect("a largest");
        assert_eq!(largest, 1008.0, "{device:?}");
        let backwards = numbers.flip([0]).narrow(0, LARGE - 3, 3);
        assert_eq!(read(&backwards), [2.0, 1.0, 0.0], "{device:?}");
    }
}

/// The product of the benchmark in the lecture's notebook: its result has 196 MB.
#[test]
fn a_product_larger_than_a_binding() {
    let (size, inner) = (7000, 3000);
    let (left, right) = (floats(1, size * inner, -1.0, 1.0), floats(2, inner * size, -1.0, 1.0));
    for device in devices() {
        let a = tensor(&left, &[size, inner], &device);
        let b = tensor(&right, &[inner, size], &device);
        let product = a.matmul(&b).realized();
        for (row, column) in [(0, 0), (0, 6999), (4793, 1234), (4794, 5000), (6999, 0), (6999, 6999), (3500, 3499)] {
            let terms = (0..inner).map(|k| f64::from(left[row * inner + k]) * f64::from(right[k * size + column]));
            let expected: f64 = terms.sum();
            let got: f32 = product.narrow(0, row, 1).narrow(1, column, 1).item().expect("a value");
            // 3000 products of size 1/3: a random walk of roundings to sums of some tens
            assert!((f64::from(got) - expected).abs() < 1e-4, "({row}, {column}): {got} for {expected} on {device:?}");
        }
    }
}
