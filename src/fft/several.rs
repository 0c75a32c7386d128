//! Transforms along several axes.

use crate::graph::refuse;
use crate::tensor::{Axes, Tensor};

use super::{Complex, fft, ifft, irfft, rfft};

/// The transform along each of these axes.
///
/// # Panics
///
/// If there is no such axis, or there are no points.
#[track_caller]
#[must_use]
pub fn fftn(z: &Complex, axes: impl Axes) -> Complex {
    let mut z = z.clone();
    for axis in axes.axes() {
        z = fft(&z, None, axis);
    }
    z
}

/// The inverse of [`fftn`].
///
/// # Panics
///
/// If there is no such axis, or there are no points.
#[track_caller]
#[must_use]
pub fn ifftn(z: &Complex, axes: impl Axes) -> Complex {
    let mut z = z.clone();
    for axis in axes.axes() {
        z = ifft(&z, None, axis);
    }
    z
}

/// The transform of real numbers along each of these axes, of which the last one has half of the points.
///
/// # Panics
///
/// If there is no such axis, there are no axes, or there are no points.
#[track_caller]
#[must_use]
pub fn rfftn(x: &Tensor, axes: impl Axes) -> Complex {
    let mut axes = axes.axes();
    let last = last("rfftn", &mut axes);
    fftn(&rfft(x, None, last), &axes[..])
}

/// The inverse of [`rfftn`], with `n` points along the last of these axes, as [`irfft`] has them.
///
/// # Panics
///
/// If there is no such axis, there are no axes, or there are no points.
#[track_caller]
#[must_use]
pub fn irfftn(z: &Complex, n: impl Into<Option<usize>>, axes: impl Axes) -> Tensor {
    let mut axes = axes.axes();
    let last = last("irfftn", &mut axes);
    irfft(&ifftn(z, &axes[..]), n, last)
}

/// [`fftn`] along the last two axes.
///
/// # Panics
///
/// If there are no two axes, or no points.
#[track_caller]
#[must_use]
pub fn fft2(z: &Complex) -> Complex {
    fftn(z, [-2, -1])
}

/// [`ifftn`] along the last two axes.
///
/// # Panics
///
/// If there are no two axes, or no points.
#[track_caller]
#[must_use]
pub fn ifft2(z: &Complex) -> Complex {
    ifftn(z, [-2, -1])
}

/// [`rfftn`] along the last two axes: `[..., h, w]` → `[..., h, w / 2 + 1]`.
///
/// # Panics
///
/// If there are no two axes, or no points.
#[track_caller]
#[must_use]
pub fn rfft2(x: &Tensor) -> Complex {
    rfftn(x, [-2, -1])
}

/// [`irfftn`] along the last two axes, with `n` columns.
///
/// ```
/// use brasa::{Device, Tensor, fft};
///
/// let picture = Tensor::arange(15, &Device::cpu()).reshape([3, 5]).to_dtype(brasa::DType::F32);
/// let again = fft::irfft2(&fft::rfft2(&picture), 5);
/// assert!(again.allclose(&picture, 1e-5, 1e-5)?);
/// # Ok::<(), brasa::Error>(())
/// ```
///
/// # Panics
///
/// If there are no two axes, or no points.
#[track_caller]
#[must_use]
pub fn irfft2(z: &Complex, n: impl Into<Option<usize>>) -> Tensor {
    irfftn(z, n, [-2, -1])
}

/// The last one, which the others are left without.
#[track_caller]
fn last(name: &str, axes: &mut Vec<isize>) -> isize {
    let Some(last) = axes.pop() else { refuse(format_args!("{name}: no axes")) };
    last
}
