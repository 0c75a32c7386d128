//! Fourier transforms, with gradients of any order: PyTorch's `torch.fft`, and spectrograms.
//!
//! Complex numbers are pairs of tensors, [`Complex`]. Any number of points is transformed, along any axis, all lines of
//! a batch together; values are computed in f32, whatever [`autocast`](crate::tensor::autocast) is under way, and f16
//! comes back as f16. Transforms are not scaled and inverse ones divide by the number of points, as PyTorch's are unless
//! told otherwise; the product with a number that makes them `"ortho"` is fused into what is next to it.
//!
//! Up to 2,048 points with no prime factor above 31 are one launch of a kernel that reads and writes each number once
//! (`shaders/fft`); longer lines, and strided ones of more than 128 points, take two or three where they can be divided.
//! With larger prime factors a transform is three of up to four times the size, and less exact by a decimal digit. On the
//! CPU a library, `rustfft`, does all.
//!
//! ```
//! use brasa::{Device, Tensor, fft};
//!
//! // a convolution as long as the signal itself costs no more than three transforms
//! let device = Device::best()?;
//! let signal = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [4], &device)?;
//! let kernel = Tensor::from_slice(&[1.0_f32, 0.5], [2], &device)?;
//! let spectrum = fft::rfft(&signal, 5, -1) * fft::rfft(&kernel, 5, -1);
//! let filtered = fft::irfft(&spectrum, 5, -1);
//! let expected = Tensor::from_slice(&[1.0_f32, 2.5, 4.0, 5.5, 2.0], [5], &device)?;
//! assert!(filtered.allclose(&expected, 1e-5, 1e-5)?);
//! # Ok::<(), brasa::Error>(())
//! ```

mod chirp;
mod complex;
mod frequencies;
mod host;
mod lines;
mod pass;
mod radices;
mod several;
mod stft;
mod windows;

pub use complex::Complex;
pub use frequencies::{fftfreq, fftshift, ifftshift, rfftfreq};
pub use several::{fft2, fftn, ifft2, ifftn, irfft2, irfftn, rfft2, rfftn};
pub use stft::Stft;
pub use windows::{bartlett_window, blackman_window, hamming_window, hann_window, mel_filters};
pub(crate) use windows::{cosines, mel};

use crate::dtype::DType;
use crate::graph::refuse;
use crate::tensor::Tensor;

use lines::{Lines, Side};

/// The most points of a transform: four times as many are still counted in 32 bits.
pub(crate) const MOST: usize = 1 << 28;

/// The discrete Fourier transform along an axis, of `n` points, by default as many as there are: what is longer is cut,
/// and what is shorter continued with zeros (which are not stored anywhere). `X[k] = Σ x[j] exp(-2πi jk / n)`.
///
/// ```
/// use brasa::fft::{self, Complex};
/// use brasa::{Device, Tensor};
///
/// let x = Tensor::from_slice(&[1.0_f32, 0.0, 0.0, 0.0], [4], &Device::cpu())?;
/// let flat = fft::fft(&Complex::real(&x), None, -1);
/// assert_eq!(flat.re().to_vec::<f32>()?, [1.0; 4]);
/// # Ok::<(), brasa::Error>(())
/// ```
///
/// # Panics
///
/// If there is no such axis, or there are no points.
#[track_caller]
#[must_use]
pub fn fft(z: &Complex, n: impl Into<Option<usize>>, axis: isize) -> Complex {
    whole("fft", z, n.into(), axis, false)
}

/// The inverse of [`fft`]: with `+2πi`, and divided by the number of points.
///
/// # Panics
///
/// If there is no such axis, or there are no points.
#[track_caller]
#[must_use]
pub fn ifft(z: &Complex, n: impl Into<Option<usize>>, axis: isize) -> Complex {
    whole("ifft", z, n.into(), axis, true)
}

/// The first half of the transform of real numbers, `n / 2 + 1` points, of which the others are the conjugates.
///
/// # Panics
///
/// If there is no such axis, or there are no points.
#[track_caller]
#[must_use]
pub fn rfft(x: &Tensor, n: impl Into<Option<usize>>, axis: isize) -> Complex {
    let along = Along::of("rfft", x, axis);
    let n = n.into().unwrap_or(along.size);
    along.forward(x, n, n / 2 + 1)
}

/// The inverse of [`rfft`]: `n` real numbers, by default an even number, twice as many as points but for the first and
/// the last. Imaginary parts of the first point, and of the one in the middle of an even number, do not count.
///
/// # Panics
///
/// If there is no such axis, or there are no points.
#[track_caller]
#[must_use]
pub fn irfft(z: &Complex, n: impl Into<Option<usize>>, axis: isize) -> Tensor {
    let along = Along::of("irfft", z.re(), axis);
    let n = along.points(n.into().unwrap_or(2 * along.size.max(1) - 2));
    let from = Side::Half(along.size.min(n / 2 + 1));
    let lines = Lines { n, inverse: true, from, to: Side::Real(n), scale: 1.0 / n as f32 };
    along.transform(lines, z.re(), Some(z.im())).0
}

/// All points of the transform of real numbers.
#[track_caller]
pub(crate) fn whole_of_real(x: &Tensor, n: usize, axis: isize) -> Complex {
    let along = Along::of("fft", x, axis);
    along.forward(x, n, n)
}

#[track_caller]
fn whole(name: &str, z: &Complex, n: Option<usize>, axis: isize, inverse: bool) -> Complex {
    let along = Along::of(name, z.re(), axis);
    let n = along.points(n.unwrap_or(along.size));
    let (from, to) = (Side::Complex(n.min(along.size)), Side::Complex(n));
    let scale = if inverse { 1.0 / n as f32 } else { 1.0 };
    let (re, im) = along.transform(Lines { n, inverse, from, to, scale }, z.re(), Some(z.im()));
    Complex::new(re, im.expect("complex results"))
}

/// An axis and what is around it.
struct Along<'a> {
    name: &'a str,
    axis: usize,
    size: usize,
}

impl<'a> Along<'a> {
    #[track_caller]
    fn of(name: &'a str, x: &Tensor, axis: isize) -> Self {
        let axis = x.axis(name, axis);
        Self { name, axis, size: x.shape()[axis] }
    }

    /// So many points, if a transform can have them.
    #[track_caller]
    fn points(&self, n: usize) -> usize {
        let Self { name, axis, size } = self;
        if n == 0 || *size == 0 || n > MOST {
            refuse(format_args!("{name}: {n} points of {size} along axis {axis}, not from 1 to {MOST}"));
        }
        n
    }

    /// The first points of the transform of real numbers.
    #[track_caller]
    fn forward(&self, x: &Tensor, n: usize, written: usize) -> Complex {
        let n = self.points(n);
        let (from, to) = (Side::Real(n.min(self.size)), Side::Complex(written));
        let (re, im) = self.transform(Lines { n, inverse: false, from, to, scale: 1.0 }, x, None);
        Complex::new(re, im.expect("complex results"))
    }

    /// The transforms of a tensor's lines.
    #[track_caller]
    fn transform(&self, lines: Lines, re: &Tensor, im: Option<&Tensor>) -> (Tensor, Option<Tensor>) {
        let (dtype, read) = (re.floats().dtype(), lines.from.points());
        let (before, behind) = (&re.shape()[..self.axis], &re.shape()[self.axis + 1..]);
        let around = [before.iter().product(), read, behind.iter().product()];
        let mut parts = Vec::with_capacity(2);
        for part in std::iter::once(re).chain(im) {
            parts.push(part.slice(self.axis as isize, 0..read).floats().to_dtype(DType::F32).reshape(around));
        }
        let (re, im) = lines.of(&parts[0], parts.get(1));
        let shape = [before, &[lines.to.points()], behind].concat();
        let re = re.reshape(&shape[..]).to_dtype(dtype);
        match im {
            Some(im) => (re, Some(im.reshape(&shape[..]).to_dtype(dtype))),
            None => (re, None),
        }
    }
}
