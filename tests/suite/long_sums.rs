//! Sums that are cut into parts, on every device and against the f64 reference: of rows and of columns, evenly and not,
//! squared distances, whose parts are joined by their means, and cumulative ones.

use std::collections::HashMap;

use brasa::autodiff::grad;
use brasa::graph::reference;
use brasa::runtime::checkpoint;
use brasa::{DType, Device, Tensor};

use crate::common::{assert_close, devices, doubles, floats, read};

/// Shapes, and the axes that are summed: more elements than any adapter sweeps over in one go.
const LONG: [(&[usize], &[isize]); 7] = [
    (&[2, 3, 300, 300], &[0, 2, 3]),
    (&[1 << 18], &[0]),
    // equally long axes
    (&[400, 400], &[0, 1]),
    // primes have no even parts
    (&[2, 367, 367], &[1, 2]),
    (&[140_009], &[0]),
    // columns
    (&[140_000, 3], &[0]),
    (&[70_001, 2, 3], &[0, 1]),
];

/// Numbers around 1000, whose squares would leave no digit of their variance.
fn far_from_zero(shape: &[usize], device: &Device) -> Tensor {
    let values = floats(7, shape.iter().product(), 999.0, 1001.0);
    Tensor::from_slice(&values, shape, device).expect("memory")
}

/// What `of` makes of the same tensor on every device, against f64.
#[track_caller]
fn assert_exact(what: &str, shape: &[usize], tolerance: f64, of: impl Fn(&Tensor) -> Vec<Tensor>) {
    let nodes: Vec<_> = of(&far_from_zero(shape, &Device::cpu())).iter().map(|tensor| tensor.node().clone()).collect();
    let expected = reference::evaluate(&nodes, &HashMap::new());
    for device in devices() {
        for (number, (got, expected)) in of(&far_from_zero(shape, &device)).iter().zip(&expected).enumerate() {
            let what = format!("{what} of {shape:?}, result {number}, on {device:?}");
            assert_close(&what, &doubles(got), expected, tolerance, tolerance);
        }
    }
}

#[test]
fn sums_means_and_extrema() {
    for (shape, axes) in LONG {
        assert_exact("sums", shape, 2e-6, |x| {
            let small = x - 1000.0;
            vec![x.mean_dim(axes), small.abs().sum_dim(axes), small.max_dim(axes), small.min_dim(axes)]
        });
    }
}

#[test]
fn products_counts_and_truths() {
    for (shape, axes) in LONG {
        // a rounding of 6e-8 for each of half a million factors, in either direction
        assert_exact("products", shape, 1e-3, |x| vec![((x - 1000.0) * 1e-3 + 1.0).prod_dim(axes)]);
        assert_exact("counts", shape, 0.0, |x| {
            let whole = ((x - 1000.0) * 100.0).to_dtype(DType::I32);
            let places = whole.abs().to_dtype(DType::U32);
            let (some, most) = (x.gt(1000.9999), x.lt(1000.9999));
            let extrema = [whole.max_dim(axes), whole.min_dim(axes)];
            let sums = [whole.sum_dim(axes), places.sum_dim(axes), some.sum_dim(axes)];
            let truths = [some.any_dim(axes), most.all_dim(axes), some.logical_not().all_dim(axes)];
            extrema.into_iter().chain(sums).chain(truths).collect()
        });
    }
}

#[test]
fn long_sums_of_nothing() {
    for device in devices() {
        let x = Tensor::zeros([0, 200_000], &device);
        assert_eq!((read(&x.sum()), x.sum_dim(1).shape().to_vec()), (vec![0.0], vec![0]), "{device:?}");
        assert_eq!(read(&x.sum_dim(0).max()), [0.0], "{device:?}");
        for axis in [0, 1] {
            assert_eq!(x.cumsum(axis).to_vec::<f32>().expect("nothing"), [0.0; 0], "{device:?}");
            assert_eq!(x.t().cummax(axis).0.to_vec::<f32>().expect("nothing"), [0.0; 0], "{device:?}");
        }
    }
}

#[test]
fn variances_far_from_zero() {
    for (shape, axes) in LONG {
        // the mean is rounded to 3e-5, and so is each part's
        assert_exact("variances", shape, 2e-5, |x| vec![x.var_dim(axes, 1), x.mean_dim(axes), x.std_dim(axes, 0)]);
    }
}

#[test]
fn squared_distances_from_what_is_no_mean() {
    for (shape, axes) in LONG {
        assert_exact("distances", shape, 2e-5, |x| {
            let first = axes.iter().fold(x.clone(), |x, &axis| x.narrow(axis, 0, 1));
            vec![(x - &first).square().sum_dim(axes), (x - 1000.5).square().sum_dim(axes)]
        });
    }
}

#[test]
fn squared_distances_of_an_infinity() {
    for device in devices() {
        let mut values = floats(7, 1 << 18, -1.0, 1.0);
        values[70_000] = f32::INFINITY;
        let x = Tensor::from_slice(&values, [1 << 18], &device).expect("memory");
        assert_eq!(read(&(&x - &x.narrow(0, 0, 1)).square().sum()), [f32::INFINITY], "{device:?}");
        assert_eq!(read(&x.mean()), [f32::INFINITY], "{device:?}");
        assert!(read(&x.var())[0].is_nan(), "its distance from the mean is none, on {device:?}");
    }
}

#[test]
fn distances_from_the_mean_of_another_row() {
    for device in devices() {
        let mut values = floats(7, 1 << 18, -1.0, 1.0);
        values[70_000] = f32::INFINITY;
        let x = Tensor::from_slice(&values, [2, 1 << 17], &device).expect("memory");
        let other = x.mean_keepdim(1).flip([0]);
        assert_eq!(read(&(&x - other).square().sum_dim(1)), [f32::INFINITY; 2], "{device:?}");
    }
}

#[test]
fn batch_norm_of_long_channels_and_its_gradient() {
    // a mean of 1000 is rounded to 6e-5, twice as much of a standard deviation, and again where it is subtracted
    assert_exact("batch norm", &[2, 3, 300, 300], 4e-4, |x| {
        let norm = x.batch_norm(None, None, 1e-5);
        let gradient = grad(&(norm.output.square() * (x - 1000.0)).sum(), &[x]).remove(0);
        // the same, computed again for the gradient
        let saving = checkpoint(|| x.batch_norm(None, None, 1e-5).output);
        let again = grad(&(saving.square() * (x - 1000.0)).sum(), &[x]).remove(0);
        vec![norm.output, norm.mean, norm.variance, gradient, saving, again]
    });
}

#[test]
fn cumulative_ops_pass_on_what_is_no_number() {
    let count = 9000;
    let (infinite, missing) = (1000, 6000);
    for device in devices() {
        let mut values = floats(7, count, -1.0, 1.0);
        (values[infinite], values[missing]) = (f32::INFINITY, f32::NAN);
        let row = Tensor::from_slice(&values, [count], &device).expect("memory");
        for width in [1, 3] {
            let x = row.unsqueeze(1).expand([count, width]);
            for results in [x.cumsum(0), x.cummax(0).0, x.logcumsumexp(0)] {
                let results = read(&results.narrow(1, 0, 1));
                let (finite, rest) = results.split_at(infinite);
                let (infinite, missing) = rest.split_at(missing - infinite);
                assert!(finite.iter().all(|value| value.is_finite()), "{device:?}");
                assert!(infinite.iter().all(|&value| value == f32::INFINITY), "{device:?}");
                assert!(missing.iter().all(|value| value.is_nan()), "{device:?}");
            }
        }
        let places: Vec<u8> = (0..300).map(|n| (n * 7919 % 251) as u8).collect();
        let small = Tensor::from_slice(&places, [300], &device).expect("memory");
        let largest: Vec<u8> = (1..=300).map(|end| places[..end].iter().copied().max().expect("one")).collect();
        assert_eq!(small.cummax(0).0.to_vec::<u8>().expect("numbers"), largest, "{device:?}");
        let some = small.gt(100).cummax(0).0.to_vec::<bool>().expect("truths");
        assert_eq!(some, largest.iter().map(|&value| value > 100).collect::<Vec<_>>(), "{device:?}");
    }
}

#[test]
fn cumulative_sums_in_blocks_of_blocks() {
    for (shape, axis) in [(&[2, 5003][..], 1), (&[5003, 3], 0), (&[70_000], 0)] {
        // sums of 70,000 numbers in -1..1
        assert_exact("cumulative", shape, 1e-4, |x| {
            let small = x - 1000.0;
            let weights = &small + 2.0;
            let sums = small.cumsum(axis);
            let gradient = grad(&(&sums * &weights).mean(), &[x]).remove(0);
            vec![sums, (&small * 1e-3 + 1.0).cumprod(axis), small.cummax(axis).0, small.logcumsumexp(axis), gradient]
        });
        assert_exact("counts", shape, 0.0, |x| {
            let (lowest, place) = x.cummin(axis);
            vec![x.gt(1000.0).cumsum(axis), lowest, place]
        });
        assert_exact("sums in f16", shape, 1e-3, |x| vec![(x - 1000.0).to_dtype(DType::F16).cumsum(axis)]);
    }
}
