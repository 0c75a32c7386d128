//! Fourier transforms. Complex values are shown as pairs.

use crate::Tensor;
use crate::fft::{self, Complex, Stft};

use super::{Row, row};

/// Real and imaginary parts, one input each.
fn complex(x: &[Tensor]) -> Complex {
    Complex::new(x[0].clone(), x[1].clone())
}

/// A transform of complex values, at sizes of each radix, strided, and of a prime that is a convolution.
fn transform(name: &'static str, call: fn(&[Tensor]) -> Tensor) -> Row {
    row(name, call).on([&[2, 4], &[2, 4]]).on([&[5, 1, 3], &[5, 1, 3]]).on([&[1, 7], &[1, 7]]).on([&[37, 1], &[37, 1]])
}

pub(super) fn rows() -> Vec<Row> {
    vec![
        transform("fft", |x| fft::fft(&complex(x), None, 0).to_pairs()),
        transform("ifft", |x| fft::ifft(&complex(x), None, 0).to_pairs()),
        transform("fft_longer", |x| fft::fft(&complex(x), x[0].size(-1) + 2, -1).to_pairs()),
        transform("fft_shorter", |x| fft::fft(&complex(x), x[0].size(-1).div_ceil(2), -1).to_pairs()),
        row("rfft", |x| fft::rfft(&x[0], None, -1).to_pairs()).on([&[3, 8]]).on([&[2, 9]]).on([&[0, 4]]).on([&[41]]),
        row("rfft_strided", |x| fft::rfft(&x[0], 6, 0).to_pairs()).on([&[5, 2, 3]]).on([&[12, 2]]),
        transform("irfft", |x| fft::irfft(&complex(x), 2 * x[0].size(-1) - 1, -1)),
        transform("irfft_strided", |x| fft::irfft(&complex(x), x[0].size(0) + 5, 0)),
        row("fft2", |x| fft::fft2(&complex(x)).to_pairs()).on([&[2, 3, 4], &[2, 3, 4]]),
        row("ifft2", |x| fft::ifft2(&complex(x)).to_pairs()).on([&[2, 3, 4], &[2, 3, 4]]),
        row("rfft2", |x| fft::rfft2(&x[0]).to_pairs()).on([&[2, 3, 6]]),
        row("irfft2", |x| fft::irfft2(&complex(x), 5)).on([&[4, 3], &[4, 3]]),
        row("fftn", |x| fft::fftn(&complex(x), [0, 2]).to_pairs()).on([&[2, 3, 4], &[2, 3, 4]]),
        row("ifftn", |x| fft::ifftn(&complex(x), [-1]).to_pairs()).on([&[2, 3], &[2, 3]]),
        row("rfftn", |x| fft::rfftn(&x[0], [2, 1, 0]).to_pairs()).on([&[2, 3, 4]]),
        row("irfftn", |x| fft::irfftn(&complex(x), None, [1, 0])).on([&[4, 3], &[4, 3]]),
        row("fftshift", |x| fft::fftshift(&x[0], [0, 1]) + fft::ifftshift(&x[0], 1)).on([&[4, 5]]),
        row("fftfreq", |x| &x[0] * fft::fftfreq(5, 0.5, x[0].device()).to_dtype(x[0].dtype())).on([&[2, 5]]),
        row("rfftfreq", |x| &x[0] * fft::rfftfreq(7, 0.5, x[0].device()).to_dtype(x[0].dtype())).on([&[2, 4]]),
        row("stft", |x| {
            let window = fft::hann_window(6, true, x[0].device());
            Stft::new(8).hop(3).window(&window).forward(&x[0]).to_pairs()
        })
        .on([&[2, 20]])
        .on([&[9]]),
        row("istft", |x| {
            let window = fft::hamming_window(4, false, x[0].device());
            Stft::new(4).hop(2).window(&window).inverse(&complex(x), 10)
        })
        .on([&[2, 3, 6], &[2, 3, 6]]),
        row("windows", |x| {
            let (size, device) = (x[0].size(-1), x[0].device());
            let sum = fft::blackman_window(size, true, device) + fft::bartlett_window(size, false, device);
            &x[0] * sum.to_dtype(x[0].dtype())
        })
        .on([&[2, 6]])
        .on([&[1]]),
        row("mel_filters", |x| x[0].matmul(&fft::mel_filters(16, 3, 100.0, x[0].device()).to_dtype(x[0].dtype())))
            // differences of frequencies that are far larger
            .on([&[2, 9]])
            .loose(64.0),
        row("complex_product", |x| {
            let (a, b) = (complex(x), complex(&x[2..]));
            ((&a * &b) + a.conj() - &x[0]).to_pairs()
        })
        .on([&[2, 3], &[2, 3], &[3], &[3]]),
        row("complex_quotient", |x| (complex(x) / (complex(&x[2..]) + 3.0)).to_pairs()).within(
            -1.0,
            1.0,
            [&[4], &[4], &[4], &[4]],
        ),
        row("complex_matmul", |x| complex(x).matmul(&complex(&x[2..])).to_pairs()).on([
            &[2, 3],
            &[2, 3],
            &[3, 2],
            &[3, 2],
        ]),
        row("complex_einsum", |x| Complex::einsum("bik,iok->bok", &complex(x), &complex(&x[2..])).to_pairs()).on([
            &[2, 3, 4],
            &[2, 3, 4],
            &[3, 2, 4],
            &[3, 2, 4],
        ]),
        row("complex_abs", |x| complex(x).abs() + complex(x).norm_sqr()).on([&[5], &[5]]),
        row("complex_angle", |x| complex(x).angle()).within(0.5, 2.0, [&[5], &[5]]),
        row("complex_exp", |x| (-complex(x).exp().sum_dim(0)).to_pairs()).on([&[5, 2], &[5, 2]]),
        row("complex_polar", |x| Complex::polar(&x[0], &x[1]).to_pairs()).on([&[5], &[5]]),
        row("complex_pairs", |x| Complex::from_pairs(&x[0]).map(|part| part.flip(0)).to_pairs()).on([&[5, 2]]),
    ]
}
