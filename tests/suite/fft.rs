//! Fourier transforms by their definition in f64, at sizes of one pass and of several, along every axis, on every device.
//! That gradients are right is for `ops::fft`.

use std::f64::consts::TAU;

use brasa::autodiff::grad;
use brasa::fft::{self, Complex, Stft};
use brasa::runtime::Step;
use brasa::tensor::autocast;
use brasa::{DType, Device, Tensor};

use crate::common::{devices, floats, panic_of, read};

fn values(seed: u64, shape: &[usize], device: &Device) -> Tensor {
    let values = floats(seed, shape.iter().product(), -1.0, 1.0);
    Tensor::from_slice(&values, shape, device).expect("a small tensor fits")
}

fn complex(seed: u64, shape: &[usize], device: &Device) -> Complex {
    Complex::new(values(seed, shape, device), values(seed + 1, shape, device))
}

/// Pairs of parts in f64.
fn pairs(z: &Complex) -> Vec<[f64; 2]> {
    let parts = [z.re(), z.im()].map(|part| part.to_vec::<f32>().expect("values"));
    parts[0].iter().zip(&parts[1]).map(|(&re, &im)| [re.into(), im.into()]).collect()
}

/// The transform of `[outer, size, inner]` to `n` points, of which the first `written` are returned.
fn transformed(z: &[[f64; 2]], [outer, size, inner]: [usize; 3], n: usize, written: usize, sign: f64) -> Vec<[f64; 2]> {
    let roots: Vec<(f64, f64)> = (0..n).map(|k| (sign * TAU * k as f64 / n as f64).sin_cos()).collect();
    let mut result = Vec::with_capacity(outer * written * inner);
    for (o, k, i) in (0..outer).flat_map(|o| (0..written).flat_map(move |k| (0..inner).map(move |i| (o, k, i)))) {
        let mut sum = [0.0; 2];
        for j in 0..size.min(n) {
            let [re, im] = z[(o * size + j) * inner + i];
            let (sine, cosine) = roots[j * k % n];
            sum = [sum[0] + re * cosine - im * sine, sum[1] + re * sine + im * cosine];
        }
        result.push(sum);
    }
    result
}

/// Both are the same but for so many roundings of the root of the mean square.
fn assert_near(what: &str, got: &[[f64; 2]], expected: &[[f64; 2]], roundings: f64) {
    assert_eq!(got.len(), expected.len(), "{what}");
    let squares: f64 = expected.iter().flatten().map(|value| value * value).sum();
    let scale = (squares / expected.len().max(1) as f64).sqrt().max(1e-30);
    let off = got.iter().flatten().zip(expected.iter().flatten()).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(off <= roundings * f64::from(f32::EPSILON) * scale, "{what}: {off} off of {scale}");
}

/// Roundings that a transform of so many points may be off by: some for each radix, and more where it is a convolution.
fn roundings(n: usize) -> f64 {
    let largest = (2..=n).fold((n, 1), |(rest, largest), p| {
        let mut rest = rest;
        while rest.is_multiple_of(p) {
            rest /= p;
        }
        if n.is_multiple_of(p) && (2..p).all(|q| !p.is_multiple_of(q)) { (rest, p) } else { (rest, largest) }
    });
    if largest.1 > 31 { 64.0 } else { 12.0 }
}

fn assert_all(device: &Device, [outer, size, inner]: [usize; 3], n: usize) {
    let (half, name) = (n / 2 + 1, device.name());
    let shape = [outer, size, inner];
    let what = |which: &str| format!("{which} of {n} in {shape:?} on {name}");
    let z = complex(1, &shape, device);
    let (given, near) = (pairs(&z), roundings(n));
    let expected = transformed(&given, shape, n, n, -1.0);
    assert_near(&what("fft"), &pairs(&fft::fft(&z, n, 1)), &expected, near);
    let scaled = |values: Vec<[f64; 2]>| values.iter().map(|z| z.map(|part| part / n as f64)).collect::<Vec<_>>();
    let expected = scaled(transformed(&given, shape, n, n, 1.0));
    assert_near(&what("ifft"), &pairs(&fft::ifft(&z, n, 1)), &expected, near);
    let real: Vec<[f64; 2]> = given.iter().map(|z| [z[0], 0.0]).collect();
    let expected = transformed(&real, shape, n, half, -1.0);
    assert_near(&what("rfft"), &pairs(&fft::rfft(z.re(), n, 1)), &expected, near);
    // all points, from those of half of them
    let point = |o: usize, k: usize, i: usize| {
        let mirrored = 2 * k > n;
        let at = if mirrored { n - k } else { k };
        let [re, im] = if at < size { given[(o * size + at) * inner + i] } else { [0.0; 2] };
        [
            re,
            if k == 0 || 2 * k == n {
                0.0
            } else if mirrored {
                -im
            } else {
                im
            },
        ]
    };
    let all = (0..outer).flat_map(|o| (0..n).flat_map(move |k| (0..inner).map(move |i| (o, k, i))));
    let all: Vec<[f64; 2]> = all.map(|(o, k, i)| point(o, k, i)).collect();
    let expected = scaled(transformed(&all, [outer, n, inner], n, n, 1.0));
    let got = fft::irfft(&z, n, 1).to_vec::<f32>().expect("values");
    let got: Vec<[f64; 2]> = got.iter().map(|&re| [re.into(), 0.0]).collect();
    assert!(expected.iter().all(|z| z[1].abs() < 1e-9), "{}", what("a real result"));
    assert_near(&what("irfft"), &got, &expected, near);
}

#[test]
fn transforms_are_what_their_definition_says() {
    for device in devices() {
        // each radix, all of them, and primes beyond them
        for n in (1..=34).chain([37, 49, 60, 64, 100, 127, 210, 256, 341, 400, 961]) {
            assert_all(&device, [2, n, 1], n);
            assert_all(&device, [1, n, 3], n);
        }
        // a workgroup's last lines are not all there
        assert_all(&device, [70, 12, 5], 12);
        assert_all(&device, [515, 6, 1], 6);
    }
}

#[test]
fn lines_are_cut_and_continued_with_zeros() {
    for device in devices() {
        for (size, n) in [(5, 8), (8, 5), (1, 7), (9, 2), (20, 37), (50, 37), (100, 144), (7, 1), (3, 37), (3, 50)] {
            assert_all(&device, [3, size, 1], n);
            assert_all(&device, [2, size, 4], n);
        }
    }
}

#[test]
fn long_lines_are_transformed_in_passes() {
    for device in devices() {
        for (shape, n) in [
            // one pass, two, and two of a strided line
            ([2, 2048, 1], 2048),
            ([1, 2100, 1], 4096),
            ([1, 3000, 2], 3000),
            ([1, 600, 3], 600),
            ([1, 4, 3], 600),
            // a convolution whose transforms are of two passes
            ([1, 1511, 2], 1511),
        ] {
            assert_all(&device, shape, n);
        }
    }
}

/// The gradients of a transform of several passes, of a convolution, and of what is cut and continued, are those that
/// the CPU has, where each is one transform.
#[test]
fn gradients_pass_through_all_passes() {
    let host = Device::cpu();
    for device in devices() {
        for (shape, n) in [([1, 4096, 1], 4096), ([1, 3000, 1], 4096), ([1, 600, 3], 600), ([2, 1511, 1], 1511)] {
            let of = |device: &Device| {
                let z = complex(21, &shape, device);
                let weights = complex(23, &[shape[0], n, shape[2]], device);
                let half = weights.map(|part| part.slice(1, ..=n / 2));
                let sum = |z: &Complex, weights: &Complex| (z.re() * weights.re() + z.im() * weights.im()).sum();
                let real = fft::rfft(z.re(), n, 1);
                let back = fft::irfft(&z.map(|part| part.slice(1, ..100)), n, 1);
                let all = sum(&fft::fft(&z, n, 1), &weights) + sum(&real, &half) + (back * weights.im()).sum() * n;
                grad(&all, &[z.re(), z.im()]).iter().map(read).collect::<Vec<_>>()
            };
            let (got, expected) = (of(&device), of(&host));
            for (got, expected) in got.iter().zip(&expected) {
                let scale = expected.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
                let off = got.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(off <= 1e-5 * scale, "{n} of {shape:?}: {off} off of {scale} on {}", device.name());
            }
        }
    }
}

/// A span began at the wrong element where what was in between came to be stored for another reader.
#[test]
fn slices_of_slices_are_read_where_they_lie() {
    for device in devices() {
        let x = values(31, &[1024], &device);
        let index = Tensor::from_slice(&[3, 0], [2], &device).expect("fits");
        let (step_x, expected) = (x.clone(), fft::rfft(&x.slice(0, 64..), None, 0));
        let mut step = Step::new(&device, |inputs| {
            let between = inputs[0].slice(0, 32..);
            vec![fft::rfft(&between.slice(0, 32..), None, 0).re().clone(), between.index_select(0, &inputs[1])]
        })
        .expect("a step");
        for _ in 0..2 {
            let outputs = step.run(&[step_x.clone(), index.clone()]).expect("it runs");
            assert!(outputs[0].allclose(expected.re(), 1e-5, 1e-5).expect("values"));
            assert_eq!(read(&outputs[1]), [read(&x)[35], read(&x)[32]]);
        }
    }
}

/// Values of each frequency alone, which are known without a sum of all points.
fn assert_tones(device: &Device, n: usize, frequencies: &[usize]) {
    let number = Tensor::arange(n, device);
    for &frequency in frequencies {
        let turns: Vec<f32> = (0..n).map(|j| (TAU * ((j * frequency) % n) as f64 / n as f64).cos() as f32).collect();
        let spectrum = fft::rfft(&Tensor::from_slice(&turns, [n], device).expect("fits"), None, 0);
        let expected = number.slice(0, 0..=n / 2).eq(frequency).to_dtype(DType::F32) * (n / 2);
        let off = (spectrum.re() - expected).abs().max().item::<f32>().expect("a value");
        let off = off.max(spectrum.im().abs().max().item::<f32>().expect("a value"));
        assert!(off <= 1e-5 * n as f32, "{frequency} of {n}: {off} off on {}", device.name());
        let again = fft::irfft(&spectrum, n, 0).to_vec::<f32>().expect("values");
        let off = again.iter().zip(&turns).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(off <= 1e-5, "{frequency} of {n}: {off} off again on {}", device.name());
    }
}

#[test]
fn very_long_lines_find_tones() {
    for device in devices() {
        // three passes; a convolution of three, whose squares do not fit into 32 bits
        assert_tones(&device, 1 << 18, &[1, 77_777]);
        assert_tones(&device, 100_003, &[1, 40_321]);
    }
}

#[test]
fn several_axes_are_transformed_one_after_the_other() {
    for device in devices() {
        let z = complex(5, &[3, 6, 5], &device);
        let (rows, columns) = (fft::fft(&z, None, 1), 5);
        let both = fft::fft(&rows, None, 2);
        assert_eq!(pairs(&fft::fft2(&z)).len(), pairs(&both).len());
        assert_near("fft2", &pairs(&fft::fft2(&z)), &pairs(&both), 8.0);
        assert_near("ifft2", &pairs(&fft::ifft2(&both)), &pairs(&z), 8.0);
        let all = fft::fftn(&z, [0, 1, 2]);
        assert_near("ifftn", &pairs(&fft::ifftn(&all, [0, 1, 2])), &pairs(&z), 8.0);
        let x = z.re();
        let half = fft::rfft2(x);
        assert_eq!(half.shape().dims(), [3, 6, columns / 2 + 1]);
        assert_near("rfft2", &pairs(&half), &pairs(&fft::fft2(&Complex::real(x)).map(|part| part.slice(2, 0..3))), 8.0);
        assert!(fft::irfft2(&half, columns).allclose(x, 1e-5, 1e-5).expect("values"));
        let half = fft::rfftn(x, [2, 0]);
        assert_eq!(half.shape().dims(), [2, 6, 5]);
        assert!(fft::irfftn(&half, 3, [2, 0]).allclose(x, 1e-5, 1e-5).expect("values"));
    }
}

#[test]
fn types_and_empty_batches() {
    for device in devices() {
        let x = values(9, &[4, 10], &device);
        let wide = fft::rfft(&x.to_dtype(DType::F16), None, -1);
        assert_eq!(wide.dtype(), DType::F16);
        let expected = fft::rfft(&x, None, -1);
        assert!(wide.re().to_dtype(DType::F32).allclose(expected.re(), 1e-2, 1e-2).expect("values"));
        let within = autocast(DType::F16, || fft::rfft(&x, None, -1));
        assert_near("within autocast", &pairs(&within), &pairs(&expected), 0.0);
        let numbers = Tensor::arange(6, &device);
        assert_eq!(fft::rfft(&numbers, None, 0).dtype(), DType::F32);
        // what one axis makes does not fit into f16, and is gone after the next
        let large = Tensor::full([2, 100], 1000.0_f32, &device)
            * Tensor::from_slice(&[1.0_f32, -1.0], [2, 1], &device).expect("fits");
        let both = fft::rfft2(&large.to_dtype(DType::F16));
        assert_eq!(both.re().select(0, 0).select(0, 0).to_dtype(DType::F32).item::<f32>().expect("a value"), 0.0);
        // a quotient fits where squares do not
        let of = |re: f32, im: f32| Complex::new(Tensor::scalar(re, &device), Tensor::scalar(im, &device));
        assert_near("a quotient", &pairs(&(of(1e38, 0.0) / of(2e38, 2e38))), &[[0.25, -0.25]], 4.0);
        let nothing = Tensor::zeros([6, 0], &device);
        assert_eq!(fft::rfft(&nothing, None, 0).shape().dims(), [4, 0]);
        let nothing = Tensor::zeros([0, 6], &device);
        assert_eq!(fft::rfft(&nothing, None, 1).shape().dims(), [0, 4]);
        assert_eq!(fft::irfft(&Complex::real(&nothing), 7, 1).shape().dims(), [0, 7]);
    }
}

#[test]
fn frames_are_put_together_again() {
    for device in devices() {
        let signal = values(11, &[2, 50], &device);
        let window = fft::hann_window(12, true, &device);
        for stft in [Stft::new(16), Stft::new(16).hop(5).window(&window), Stft::new(7).hop(2)] {
            let spectra = stft.forward(&signal);
            let again = stft.inverse(&spectra, 50);
            assert!(again.allclose(&signal, 1e-4, 1e-4).expect("values"), "{stft:?}");
            let longer = stft.inverse(&spectra, 90);
            assert_eq!(longer.shape().dims(), [2, 90]);
        }
        let stft = Stft::new(10).hop(10).uncentered();
        let spectra = stft.forward(&signal);
        assert_eq!(spectra.shape().dims(), [2, 6, 5]);
        let expected = fft::rfft(&signal.reshape([2, 5, 10]), None, -1).map(|part| part.transpose(1, 2));
        assert_near("frames", &pairs(&spectra), &pairs(&expected), 8.0);
        assert!(stft.inverse(&spectra, 50).allclose(&signal, 1e-5, 1e-5).expect("values"));
    }
}

#[test]
fn wrong_sizes_are_told_at_the_callers_line() {
    let device = Device::cpu();
    let (x, z) = (Tensor::zeros([4, 0], &device), Complex::real(&Tensor::zeros([4, 3], &device)));
    let tell = |call: &dyn Fn(), wanted: &str| {
        let (message, file, _) = panic_of(call);
        assert!(message.contains(wanted) && file.ends_with("fft.rs"), "{message} at {file}");
    };
    tell(&|| drop(fft::rfft(&x, None, 1)), "rfft: 0 points of 0 along axis 1");
    tell(&|| drop(fft::fft(&z, 0, 1)), "fft: 0 points of 3");
    tell(&|| drop(fft::irfft2(&Complex::real(&x), None)), "irfft: 0 points of 0");
    tell(&|| drop(fft::fft(&z, None, 2)), "fft: [4, 3] has no axis 2");
    tell(&|| drop(fft::rfftn(&x, [0; 0])), "no axes");
    tell(&|| drop(fft::fftn(&z, [1, -1])), "fftn: an axis of [4, 3] occurs twice");
    tell(&|| drop(fft::fft(&z, 1 << 30, 0)), "fft: 1073741824 points of 4");
    tell(&|| drop(Complex::new(x.clone(), z.re().clone())), "[4, 0]");
    tell(&|| drop(Complex::from_pairs(z.re())), "[4, 3]");
    tell(&|| drop(&z * &x), "[4, 0]");
    tell(&|| drop(Stft::new(9).forward(z.re())), "[4, 3]");
    tell(&|| drop(Stft::new(9).window(z.re())), "[4, 3]");
    tell(&|| drop(Stft::new(9).inverse(&z, 30)), "[4, 3]");
}
