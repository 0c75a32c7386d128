//! Which frequency a point of a transform is of.

use crate::device::Device;
use crate::dtype::DType;
use crate::tensor::{Axes, Tensor};

/// The frequencies of the points of [`fft`](super::fft), in cycles by `step`, the time between two points: `[n]`, from
/// zero on and then the negative ones.
///
/// ```
/// use brasa::{Device, fft};
///
/// assert_eq!(fft::fftfreq(4, 0.5, &Device::cpu()).to_vec::<f32>()?, [0.0, 0.5, -1.0, -0.5]);
/// # Ok::<(), brasa::Error>(())
/// ```
#[track_caller]
#[must_use]
pub fn fftfreq(n: usize, step: f64, device: &Device) -> Tensor {
    let number = Tensor::arange(n, device);
    let signed = (&number * 2).ge(n).where_(&number - n, &number);
    signed.to_dtype(DType::F32) / (n as f64 * step)
}

/// The frequencies of the points of [`rfft`](super::rfft), in cycles by `step`: `[n / 2 + 1]`.
#[track_caller]
#[must_use]
pub fn rfftfreq(n: usize, step: f64, device: &Device) -> Tensor {
    Tensor::arange(n / 2 + 1, device).to_dtype(DType::F32) / (n as f64 * step)
}

/// With the zero frequency in the middle of each of these axes. For [`Complex`](super::Complex) numbers by their
/// [`map`](super::Complex::map).
///
/// ```
/// use brasa::{Device, fft};
///
/// let frequencies = fft::fftfreq(5, 0.2, &Device::cpu());
/// assert_eq!(fft::fftshift(&frequencies, 0).to_vec::<f32>()?, [-2.0, -1.0, 0.0, 1.0, 2.0]);
/// # Ok::<(), brasa::Error>(())
/// ```
///
/// # Panics
///
/// If there is no such axis.
#[track_caller]
#[must_use]
pub fn fftshift(x: &Tensor, axes: impl Axes) -> Tensor {
    shifted("fftshift", x, axes.axes(), |size| size / 2)
}

/// The inverse of [`fftshift`].
///
/// # Panics
///
/// If there is no such axis.
#[track_caller]
#[must_use]
pub fn ifftshift(x: &Tensor, axes: impl Axes) -> Tensor {
    shifted("ifftshift", x, axes.axes(), |size| size - size / 2)
}

#[track_caller]
fn shifted(name: &str, x: &Tensor, axes: Vec<isize>, by: fn(usize) -> usize) -> Tensor {
    let mut shifts = Vec::with_capacity(axes.len());
    for &axis in &axes {
        shifts.push(by(x.shape()[x.axis(name, axis)]) as isize);
    }
    x.roll(&shifts[..], &axes[..])
}
