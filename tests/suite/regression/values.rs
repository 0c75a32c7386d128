//! Values that were wrong, or an error that was none.

use brasa::autodiff::grad;
use brasa::ops::conv::ConvOptions;
use brasa::ops::pool::PoolOptions;
use brasa::runtime::Step;
use brasa::{DType, Error, Shape, Tensor};

use crate::common::{devices, fresh_devices, read, vector};

/// Coordinates outside of the padded part were taken for indices out of range.
#[test]
fn padding_around_a_gather_is_not_out_of_range() {
    for device in devices() {
        let table = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [3, 2], &device).expect("memory");
        let extra = Tensor::from_slice(&[9.0f32, 9.0], [1, 2], &device).expect("memory");
        let rows = table.embedding(&Tensor::arange(3, &device));
        let joined = Tensor::cat(&[&extra, &rows, &extra], 0);
        let expected = [9.0, 9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 9.0, 9.0];
        assert_eq!(joined.to_vec::<f32>().expect("all indices are in range"), expected);
    }
}

/// The kernel that computed the maxima read them from memory before they were there, as it found its place in them by
/// an index.
#[test]
fn gathering_from_what_the_same_kernel_computes_read_stale_memory() {
    for device in devices() {
        let x = vector(&(0..42).map(|i| (i * 29 % 42) as f32).collect::<Vec<_>>(), &device).reshape([1, 6, 7]);
        let pooled = x.permute([0, 2, 1]).adaptive_max_pool2d(1);
        assert_eq!(read(&pooled), [41.0], "{device:?}");
    }
}

/// The index of the value number 32 was called `i32`, which is a type in WGSL.
#[test]
fn the_index_of_the_32nd_value_hid_a_type() {
    for device in devices() {
        let ones = vector(&[1.0; 2 * 7 * 6], &device).reshape([1, 2, 7, 6]);
        let resized = ones.interpolate([5, 11], brasa::tensor::Interpolation::Cubic);
        assert!(read(&resized).iter().all(|value| (value - 1.0).abs() < 1e-6), "{device:?}");
    }
}

/// With both branches of a choice alike, the choice went, and with it the check of the labels it was made by.
#[test]
fn labels_out_of_range_were_no_error_for_constant_logits() {
    for device in fresh_devices() {
        let labels = Tensor::from_slice(&[0, 3, 1], 3, &device).expect("memory");
        let loss = Tensor::zeros([3, 3], &device).cross_entropy(&labels);
        let error = loss.item::<f32>().expect_err("there are three classes");
        assert!(matches!(error, Error::IndexOutOfRange { bound: 3, .. }), "{error}");
    }
}

/// Where the sums lie was taken from where the elements lie, of which there are none.
#[test]
fn sums_of_nothing_over_the_last_axis_left_elements_unwritten() {
    for device in devices() {
        let empty = Tensor::zeros([1, 3, 0], &device) + 1.0;
        for (sums, expected) in [(empty.sum_keepdim(2), 0.0), (empty.sum_dim(2), 0.0), (empty.prod_dim(-1), 1.0)] {
            assert_eq!(read(&(sums + 2.0)), [expected + 2.0; 3], "{device:?}");
        }
    }
}

/// Elements outside of the picture have counters below 0 on the way to being replaced by the padding; the CPU backend
/// panicked.
#[test]
fn random_numbers_were_drawn_behind_padding() {
    for device in devices() {
        let mut step = Step::new(&device, |inputs| {
            let noise = Tensor::rand([1, 1, 2, 3], inputs[0].device());
            vec![noise.pad(&[(0, 0), (0, 0), (2, 1), (1, 2)], 7.0)]
        })
        .expect("a step");
        let padded = read(&step.run(&[Tensor::zeros(1, &device)]).expect("a run")[0]);
        for (place, value) in padded.into_iter().enumerate() {
            let (row, column) = (place / 6, place % 6);
            let is_noise = (2..4).contains(&row) && (1..4).contains(&column);
            assert!(
                if is_noise { (0.0..1.0).contains(&value) } else { value == 7.0 },
                "{value} at {place}, {device:?}"
            );
        }
    }
}

/// A sum over windows of which none met the one element was taken for a sum over moved axes.
#[test]
fn gradients_through_windows_that_miss_the_only_element_were_not_zero() {
    for device in devices() {
        let (x, w) = (Tensor::ones([1, 1, 1, 2], &device), Tensor::ones([1, 1, 2, 1], &device));
        let options = ConvOptions { stride: vec![1, 2], padding: vec![0, 1], ..ConvOptions::default() };
        let y = x.conv_transpose2d(&w, None, &options);
        let gradient = grad(&y.sum(), &[&x]).remove(0);
        assert_eq!((y.shape().dims(), read(&gradient)), ([1, 1, 2, 1].as_slice(), vec![0.0, 0.0]), "{device:?}");
    }
}

/// Positions before the first one were divided as the large unsigned numbers they are in a shader.
#[test]
fn the_gradient_of_a_pool_of_which_a_part_is_transposed_read_wrong_places() {
    const SIZE: usize = 5;
    let weights: Vec<f32> = (0..30).map(|n| n as f32).collect();
    // of the pooled values [2, 6, 6]: the first 30, as [2, 3, 5], meet the weights as [2, 5, 3]
    let of_pooled = |n: usize| if n < 30 { weights[n / 15 * 15 + n % 5 * 3 + n / 5 % 3] } else { 0.0 };
    let expected: Vec<f32> = (0..2 * SIZE * SIZE)
        .map(|n| {
            let (channel, y, x) = (n / (SIZE * SIZE), n / SIZE % SIZE, n % SIZE);
            let windows = [(0, 0), (0, 1), (1, 0), (1, 1)];
            windows.iter().map(|(down, right)| of_pooled(channel * 36 + (y + down) * 6 + x + right)).sum::<f32>() / 4.0
        })
        .collect();
    for device in devices() {
        let picture = Tensor::ones([1, 2, SIZE, SIZE], &device);
        let part = picture.avg_pool2d(2, 1, 1).flatten(0, -1).slice(0, 0..30).reshape([2, 3, 5]).transpose(1, 2);
        let weights = vector(&weights, &device).reshape([2, 5, 3]);
        let gradient = grad(&(part * weights).sum(), &[&picture]).remove(0);
        assert_eq!(read(&gradient), expected, "{device:?}");
    }
}

/// Once its value was known, whoever read it got another tensor with that value instead.
#[test]
fn the_gradient_by_a_tensor_of_no_grad_that_had_been_computed_was_zero() {
    for device in devices() {
        let x = brasa::no_grad(|| vector(&[1.0, 3.0], &device) * 2.0);
        let slope = || read(&grad(&(&x * &x).sum(), &[&x])[0]);
        assert_eq!(slope(), [4.0, 12.0], "{device:?}");
        read(&x);
        assert_eq!(slope(), [4.0, 12.0], "{device:?}");
    }
}

/// They were taken for numbers on the CPU.
#[test]
fn truth_values_were_those_of_two_bytes_only() {
    for device in devices() {
        let mask = Tensor::from_bytes(&[255, 0, 2, 1], [4], DType::Bool, &device).expect("memory");
        let ones = Tensor::from_bytes(&[1; 4], [4], DType::Bool, &device).expect("memory");
        assert_eq!(read(&mask.to_dtype(DType::F32)), [1.0, 0.0, 1.0, 1.0], "{device:?}");
        assert_eq!(read(&mask.logical_and(&ones).to_dtype(DType::F32)), [1.0, 0.0, 1.0, 1.0], "{device:?}");
        let mut step = Step::new(&device, |inputs| vec![inputs[0].to_dtype(DType::F32)]).expect("a step");
        let outputs = step.run_bytes(&[(Shape::from([3]), DType::Bool, &[128, 0, 1])]).expect("a run");
        assert_eq!(read(&outputs[0]), [1.0, 0.0, 1.0], "{device:?}");
    }
}

#[test]
fn windows_beyond_all_sizes_panicked_where_shapes_come_from_files() {
    let shape = Shape::from([1, 1, 4, 4]);
    let huge = usize::MAX / 2;
    for options in [
        PoolOptions::new(2).stride(0),
        PoolOptions::new(0),
        PoolOptions::new(2).dilation(huge),
        PoolOptions::new(2).dilation(0),
        PoolOptions::new(huge).padding(huge / 2),
        PoolOptions::new(2).stride(huge),
    ] {
        for options in [options.clone(), options.ceil_mode()] {
            // `stride(huge)` fits once
            match options.windows("pool", &shape, 2) {
                Ok((_, counts)) => assert_eq!(counts, [1, 1]),
                Err(error) => assert!(matches!(error, Error::Shape(_)), "{error}"),
            }
        }
    }
}

/// Nothing is as large as the product of its other sizes.
#[test]
fn an_axis_of_no_elements_beside_huge_ones_overflowed() {
    let huge = 1usize << 40;
    for device in devices() {
        let nothing = Tensor::zeros([0, huge, huge], &device);
        assert!(read(&(&nothing + 1.0)).is_empty());
        assert!(read(&nothing.transpose(0, 2).sum_dim(1)).is_empty());
    }
}

/// The rows of zeros became rows of an operand, and were multiplied by the infinity in the other one.
#[test]
fn the_sum_of_a_padded_product_was_nan_where_there_are_zeros() {
    for device in devices() {
        let x = vector(&[1.0; 12], &device).reshape([2, 2, 3]);
        let mut values = [1.0; 12];
        values[0] = f32::INFINITY;
        let y = vector(&values, &device).reshape([2, 3, 2]);
        let sum = x.matmul(&y).pad(&[(0, 0), (1, 1), (0, 0)], 0.0).sum_dim(0);
        assert_eq!(read(&sum), [0.0, 0.0, f32::INFINITY, 6.0, f32::INFINITY, 6.0, 0.0, 0.0], "{device:?}");
    }
}

/// The branch that was not chosen went, and with it the check of its indices.
#[test]
fn an_index_out_of_range_was_no_error_beside_a_constant_condition() {
    for device in fresh_devices() {
        let table = vector(&[1.0, 2.0, 3.0], &device);
        let index = Tensor::from_slice(&[7, 1, 0], 3, &device).expect("memory");
        let chosen = Tensor::full(3, true, &device).where_(&table, table.index_select(0, &index));
        let error = chosen.to_vec::<f32>().expect_err("there are three rows");
        assert!(matches!(error, Error::IndexOutOfRange { bound: 3, .. }), "{error}");
    }
}

/// Terms whose place lies in the padding were left out of the product, whatever padded it, and whatever it was
/// multiplied by.
#[test]
fn terms_of_padding_went_from_products_of_few_phases() {
    const ROWS: usize = 70;
    const COLUMNS: usize = 33;
    let data: Vec<f32> = (0..ROWS * 14).map(|i| (i * 37 % 23) as f32 - 11.0).collect();
    let factors: Vec<f32> = (0..8 * COLUMNS).map(|i| (i * 29 % 19) as f32 - 9.0).collect();
    // element k of row m in phase r lies at place 2k + r of the padded row
    let expected = |padding: f32, factors: &[f32], added: f32| -> Vec<f32> {
        let at = |m: usize, place: usize| if (1..15).contains(&place) { data[m * 14 + place - 1] } else { padding };
        let sum = |m: usize, r: usize, n: usize| -> f32 {
            (0..8).map(|k| (at(m, 2 * k + r) + added) * factors[k * COLUMNS + n]).sum()
        };
        let points = (0..ROWS).flat_map(|m| (0..2).flat_map(move |r| (0..COLUMNS).map(move |n| (m, r, n))));
        points.map(|(m, r, n)| sum(m, r, n)).collect()
    };
    let mut infinite = factors.clone();
    infinite[..COLUMNS].fill(f32::INFINITY);
    for device in devices() {
        let x = vector(&data, &device).reshape([ROWS, 14]);
        for (padding, factors, added) in
            [(0.0, &factors, 0.0), (1.0, &factors, 0.0), (0.0, &factors, 1.0), (0.0, &infinite, 0.0)]
        {
            let w = vector(factors, &device).reshape([8, COLUMNS]);
            let padded = x.pad(&[(0, 0), (1, 1)], padding);
            let padded = if added == 0.0 { padded } else { padded + added };
            let product = padded.reshape([ROWS, 8, 2]).permute([0, 2, 1]).matmul(&w);
            let same = |(a, b): (&f32, &f32)| a == b || a.is_nan() && b.is_nan();
            let (found, expected) = (read(&product), expected(padding, factors, added));
            assert!(found.iter().zip(&expected).all(same), "padding {padding}, {added} added, {device:?}");
        }
    }
}

#[test]
fn places_in_a_padding_of_ones_went_from_dilated_convolutions() {
    const CHANNELS: usize = 3;
    let data: Vec<f32> = (0..64 * CHANNELS * 8).map(|i| (i * 31 % 17) as f32 - 8.0).collect();
    let filters: Vec<f32> = (0..5 * CHANNELS * 3).map(|i| (i * 23 % 13) as f32 - 6.0).collect();
    let at = |n: usize, c: usize, place: usize| {
        if (2..10).contains(&place) { data[(n * CHANNELS + c) * 8 + place - 2] } else { 1.0 }
    };
    let sum = |n: usize, o: usize, y: usize| -> f32 {
        let taps = (0..CHANNELS).flat_map(|c| (0..3).map(move |k| (c, k)));
        taps.map(|(c, k)| at(n, c, y + 4 * k) * filters[(o * CHANNELS + c) * 3 + k]).sum()
    };
    let points = (0..64).flat_map(|n| (0..5).flat_map(move |o| (0..4).map(move |y| (n, o, y))));
    let expected: Vec<f32> = points.map(|(n, o, y)| sum(n, o, y)).collect();
    for device in devices() {
        let x = vector(&data, &device).reshape([64, CHANNELS, 8]).pad(&[(0, 0), (0, 0), (2, 2)], 1.0);
        let w = vector(&filters, &device).reshape([5, CHANNELS, 3]);
        let y = x.conv1d(&w, None, &ConvOptions::default().dilation(4));
        assert_eq!(read(&y), expected, "{device:?}");
    }
}
