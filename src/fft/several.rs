//! Transforms along several axes.

use crate::dtype::DType;
use crate::graph::refuse;
use crate::tensor::{Axes, Tensor};

use super::{Complex, fft, ifft, irfft, rfft};

/// The transform along each of these axes.
///
/// # Panics
///
/// If there is no such axis, an axis occurs twice, or there are no points.
#[track_caller]
#[must_use]
pub fn fftn(z: &Complex, axes: impl Axes) -> Complex {
    narrowed(along(wide(z), &checked("fftn", z.re(), axes.axes()), false), z.dtype())
}

/// The inverse of [`fftn`].
///
/// # Panics
///
/// If there is no such axis, an axis occurs twice, or there are no points.
#[track_caller]
#[must_use]
pub fn ifftn(z: &Complex, axes: impl Axes) -> Complex {
    narrowed(along(wide(z), &checked("ifftn", z.re(), axes.axes()), true), z.dtype())
}

/// The transform of real numbers along each of these axes, of which the last one has half of the points.
///
/// # Panics
///
/// If there is no such axis, an axis occurs twice, there are no axes, or there are no points.
#[track_caller]
#[must_use]
pub fn rfftn(x: &Tensor, axes: impl Axes) -> Complex {
    let (axes, floats) = (checked("rfftn", x, axes.axes()), x.floats());
    let Some((&last, others)) = axes.split_last() else { refuse("rfftn: no axes") };
    let half = rfft(&floats.to_dtype(DType::F32), None, last);
    narrowed(along(half, others, false), floats.dtype())
}

/// The inverse of [`rfftn`], with `n` points along the last of these axes, as [`irfft`] has them.
///
/// # Panics
///
/// If there is no such axis, an axis occurs twice, there are no axes, or there are no points.
#[track_caller]
#[must_use]
pub fn irfftn(z: &Complex, n: impl Into<Option<usize>>, axes: impl Axes) -> Tensor {
    let axes = checked("irfftn", z.re(), axes.axes());
    let Some((&last, others)) = axes.split_last() else { refuse("irfftn: no axes") };
    irfft(&along(wide(z), others, true), n, last).to_dtype(z.dtype())
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

/// Axes that differ.
#[track_caller]
fn checked(name: &str, x: &Tensor, axes: Vec<isize>) -> Vec<isize> {
    for (number, &axis) in axes.iter().enumerate() {
        let resolved = x.axis(name, axis);
        if axes[..number].iter().any(|&before| x.axis(name, before) == resolved) {
            refuse(format_args!("{name}: an axis of {} occurs twice in {axes:?}", x.shape()));
        }
    }
    axes
}

/// One transform after the other.
#[track_caller]
fn along(mut z: Complex, axes: &[isize], inverse: bool) -> Complex {
    for &axis in axes {
        z = if inverse { ifft(&z, None, axis) } else { fft(&z, None, axis) };
    }
    z
}

/// In f32: what one axis makes of f16 may not fit into it before the next has summed it.
#[track_caller]
fn wide(z: &Complex) -> Complex {
    narrowed(z.clone(), DType::F32)
}

#[track_caller]
fn narrowed(z: Complex, dtype: DType) -> Complex {
    if z.dtype() == dtype { z } else { Complex::new(z.re().to_dtype(dtype), z.im().to_dtype(dtype)) }
}
