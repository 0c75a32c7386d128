//! Fourier transforms. Complex values are pairs.

use brasa::Tensor;
use brasa::fft::{self, Complex, Stft};

use super::{Row, one};

fn complex(x: &[Tensor]) -> Complex {
    Complex::new(x[0].clone(), x[1].clone())
}

/// A row of transforms as pairs.
macro_rules! pairs {
    ($name:expr, |$x:ident| $($z:expr),*) => {
        Row($name, 16.0, |$x| vec![$($z.to_pairs()),*])
    };
}

/// Windows times values.
fn windows(x: &Tensor, window: fn(usize, bool, &brasa::Device) -> Tensor) -> Vec<Tensor> {
    let device = x.device();
    vec![window(8, true, device) * x, window(8, false, device) * x, window(1, true, device)]
}

pub(crate) fn rows() -> Vec<Row> {
    vec![
        // of primes by a convolution
        Row("fft.fft", 64.0, |x| {
            let z = complex(x);
            [fft::fft(&z, None, -1), fft::fft(&z, 5, 0), fft::fft(&z, 9, 1)].map(|z| z.to_pairs()).to_vec()
        }),
        Row("fft.ifft", 64.0, |x| {
            let z = complex(x);
            [fft::ifft(&z, None, -1), fft::ifft(&z, 5, 0), fft::ifft(&z, 9, 1)].map(|z| z.to_pairs()).to_vec()
        }),
        Row("fft.irfft", 16.0, |x| {
            let z = complex(x);
            vec![fft::irfft(&z, None, -1), fft::irfft(&z, 7, 0), fft::irfft(&z, 4, 1)]
        }),
        Row("fft.fft2", 16.0, |x| {
            let z = complex(x);
            vec![fft::fft2(&z).to_pairs(), fft::ifft2(&z).to_pairs(), fft::irfft2(&z, None)]
        }),
        Row("fft.fftn", 16.0, |x| {
            let z = complex(x);
            let all = fft::ifftn(&z, [0, 1, 2]).to_pairs();
            vec![fft::fftn(&z, [0, 2]).to_pairs(), all, fft::irfftn(&z, 7, [0, 2])]
        }),
        Row("fft.rfft", 64.0, |x| {
            [fft::rfft(&x[0], None, -1), fft::rfft(&x[0], 5, 0), fft::rfft(&x[0], 9, 1)].map(|z| z.to_pairs()).to_vec()
        }),
        pairs!("fft.rfftn", |x| fft::rfft2(&x[0]), fft::rfftn(&x[0], [2, 0])),
        Row("fft.fftshift", 0.0, |x| vec![fft::fftshift(&x[0], [0, 1]), fft::ifftshift(&x[0], 1)]),
        Row("fft.fftfreq", 16.0, |x| {
            let device = x[0].device();
            vec![&x[0] * fft::fftfreq(5, 0.1, device), x[0].select(0, 0) * fft::rfftfreq(9, 2.0, device)]
        }),
        pairs!("stft", |x| { Stft::new(8).hop(3).window(&fft::hann_window(8, true, x[0].device())).forward(&x[0]) }),
        pairs!("stft_uncentered", |x| {
            let window = fft::hamming_window(6, false, x[0].device());
            Stft::new(9).hop(2).window(&window).uncentered().forward(&x[0])
        }),
        one!("istft", |x| {
            Stft::new(8).hop(3).window(&fft::hann_window(8, true, x[0].device())).inverse(&complex(x), 17)
        }),
        Row("hann_window", 16.0, |x| windows(&x[0], fft::hann_window)),
        Row("hamming_window", 16.0, |x| windows(&x[0], fft::hamming_window)),
        Row("blackman_window", 16.0, |x| windows(&x[0], fft::blackman_window)),
        Row("bartlett_window", 16.0, |x| windows(&x[0], fft::bartlett_window)),
        one!("mel_filters", |x| x[0].matmul(&fft::mel_filters(16, 4, 1000.0, x[0].device()))),
        Row("complex", 16.0, |x| {
            let (a, b) = (complex(x), complex(&x[2..]));
            vec![
                (&a * &b).to_pairs(),
                (&a / &b).to_pairs(),
                (a.exp() + b.conj() - &x[0]).to_pairs(),
                a.abs(),
                a.angle(),
                Complex::polar(&x[0].abs(), &x[1]).to_pairs(),
                a.matmul(&b.map(|part| part.transpose(0, 1))).to_pairs(),
            ]
        }),
        one!("complex_abs", |x| complex(x).abs()),
    ]
}
