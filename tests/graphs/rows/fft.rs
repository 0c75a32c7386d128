//! Fourier transforms, and what complex numbers are good for.

use brasa::fft::{self, Complex, Stft};

use super::super::draw::Draw;
use super::{Row, one, row};

/// Complex numbers of up to three axes.
fn complex(d: &mut Draw) -> Complex {
    let shape: Vec<usize> = (0..d.between(1, 3)).map(|_| d.between(1, 6)).collect();
    Complex::new(d.within(-1.0, 1.0, &shape), d.within(-1.0, 1.0, &shape))
}

/// An axis of these.
fn axis(d: &mut Draw, z: &Complex) -> isize {
    d.between(0, z.shape().rank() - 1) as isize
}

/// Points of a transform: as many as there are, or others.
fn points(d: &mut Draw) -> Option<usize> {
    let n = d.between(1, 9);
    d.flag().then_some(n)
}

fn parts(z: &Complex) -> Vec<brasa::Tensor> {
    vec![z.re().clone(), z.im().clone()]
}

pub(super) fn rows() -> Vec<Row> {
    vec![
        row("fft", |d| {
            let z = complex(d);
            parts(&fft::fft(&z, points(d), axis(d, &z)))
        }),
        row("ifft", |d| {
            let z = complex(d);
            parts(&fft::ifft(&z, points(d), axis(d, &z)))
        }),
        row("rfft", |d| {
            let z = complex(d);
            parts(&fft::rfft(z.re(), points(d), axis(d, &z)))
        }),
        one!("irfft", |d| {
            let z = complex(d);
            let n = d.between(1, 9);
            fft::irfft(&z, n, axis(d, &z))
        }),
        row("fft2", |d| {
            let z = complex(d).map(|part| part.unsqueeze(0));
            let again = fft::ifft2(&(fft::fft2(&z) * 0.5));
            let half = fft::rfft2(again.re());
            [parts(&half), vec![fft::irfft2(&half, z.re().size(-1))]].concat()
        }),
        row("fftn", |d| {
            let z = complex(d);
            let axes = [axis(d, &z)];
            let again = fft::ifftn(&fft::fftn(&z, axes).conj(), axes);
            let half = fft::rfftn(again.im(), axes);
            [parts(&half), vec![fft::irfftn(&half, z.re().size(axes[0]), axes)]].concat()
        }),
        one!("fftshift", |d| {
            let z = complex(d);
            fft::fftshift(z.re(), axis(d, &z)) - fft::ifftshift(z.im(), 0)
        }),
        one!("fftfreq", |d| {
            let x = d.within(-1.0, 1.0, &[5]);
            &x * fft::fftfreq(5, 0.1, x.device()) + fft::rfftfreq(9, 1.0, x.device())
        }),
        row("stft", |d| {
            let x = d.within(-1.0, 1.0, &[2, 24]);
            let device = x.device();
            let window = fft::hann_window(8, d.flag(), device) + fft::hamming_window(8, d.flag(), device);
            let stft = Stft::new(8).hop(d.between(1, 4)).window(&window);
            let stft = if d.flag() { stft } else { stft.uncentered() };
            let spectra = stft.forward(&x);
            [parts(&spectra), vec![stft.inverse(&(spectra * 0.5), 20)]].concat()
        }),
        one!("windows", |d| {
            let x = d.within(-1.0, 1.0, &[3, 6]);
            let window = fft::blackman_window(6, d.flag(), x.device()) + fft::bartlett_window(6, d.flag(), x.device());
            (x * &window).matmul(&fft::mel_filters(10, 2, 20.0, window.device()))
        }),
        row("complex", |d| {
            let z = complex(d);
            let other = z.exp() + 2.0;
            let product = &z * &other - z.conj() / &other;
            [parts(&product), vec![product.abs(), product.norm_sqr()]].concat()
        }),
    ]
}
