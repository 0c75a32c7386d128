//! Windows that frames of a signal fade in and out by.

use crate::device::Device;
use crate::dtype::DType;
use crate::tensor::Tensor;

/// How far along a window its elements are, from 0 to 1: a periodic one would go on where it starts, and ends before 1.
#[track_caller]
fn along(size: usize, periodic: bool, device: &Device) -> Tensor {
    let length = if periodic { size } else { size.max(2) - 1 };
    Tensor::arange(size, device).to_dtype(DType::F32) / length
}

/// A sum of cosines, of which the first has no turns.
#[track_caller]
pub(crate) fn cosines(terms: &[f64], size: usize, periodic: bool, device: &Device) -> Tensor {
    let turn = along(size, periodic, device) * std::f64::consts::TAU;
    let mut window = Tensor::full([size], terms[0] as f32, device);
    for (number, &term) in terms.iter().enumerate().skip(1) {
        window += (&turn * number).cos() * term;
    }
    window
}

/// A window, of which a single element is 1.
#[track_caller]
fn or_one(window: Tensor) -> Tensor {
    if window.numel() == 1 { window.ones_like() } else { window }
}

/// Hann's window, `0.5 - 0.5 cos`: `[size]`, of which a single element is 1. A periodic one is for spectra, the other is
/// symmetric. PyTorch's `torch.hann_window`.
///
/// ```
/// use brasa::{Device, Tensor, fft};
///
/// let device = Device::cpu();
/// let expected = Tensor::from_slice(&[0.0_f32, 0.5, 1.0, 0.5], [4], &device)?;
/// assert!(fft::hann_window(4, true, &device).allclose(&expected, 1e-6, 1e-6)?);
/// # Ok::<(), brasa::Error>(())
/// ```
#[track_caller]
#[must_use]
pub fn hann_window(size: usize, periodic: bool, device: &Device) -> Tensor {
    or_one(cosines(&[0.5, -0.5], size, periodic, device))
}

/// Hamming's window, `0.54 - 0.46 cos`, as [`hann_window`]. PyTorch's `torch.hamming_window`.
#[track_caller]
#[must_use]
pub fn hamming_window(size: usize, periodic: bool, device: &Device) -> Tensor {
    or_one(cosines(&[0.54, -0.46], size, periodic, device))
}

/// Blackman's window, `0.42 - 0.5 cos + 0.08 cos` of twice as many turns, as [`hann_window`]. PyTorch's
/// `torch.blackman_window`.
#[track_caller]
#[must_use]
pub fn blackman_window(size: usize, periodic: bool, device: &Device) -> Tensor {
    or_one(cosines(&[0.42, -0.5, 0.08], size, periodic, device))
}

/// Bartlett's window, a triangle, as [`hann_window`]. PyTorch's `torch.bartlett_window`.
#[track_caller]
#[must_use]
pub fn bartlett_window(size: usize, periodic: bool, device: &Device) -> Tensor {
    or_one(1.0 - (along(size, periodic, device) * 2.0 - 1.0).abs())
}

/// Mels of a frequency in Hz, as HTK has them.
pub(crate) fn mel(hertz: f64) -> f64 {
    2595.0 * (1.0 + hertz / 700.0).log10()
}

/// The triangles over frequencies by which a spectrum's points become a mel spectrogram: `[n / 2 + 1, bands]`, for
/// frames of `n` points taken `rate` times a second; a spectrum times this. Mels are HTK's, `2595 log10(1 + f / 700)`,
/// up to half of the rate, and triangles are not normalised: torchaudio's `melscale_fbanks`.
///
/// ```
/// use brasa::fft::{self, Stft};
/// use brasa::{Device, Tensor};
///
/// let device = Device::cpu();
/// let sound = Tensor::rand([2, 16_000], &device);
/// let stft = Stft::new(400).hop(160).window(&fft::hann_window(400, true, &device));
/// let power = stft.forward(&sound).norm_sqr().transpose(-2, -1);
/// let mel = power.matmul(&fft::mel_filters(400, 80, 16_000.0, &device));
/// assert_eq!(mel.shape().dims(), [2, 101, 80]);
/// ```
#[track_caller]
#[must_use]
pub fn mel_filters(n: usize, bands: usize, rate: f64, device: &Device) -> Tensor {
    let mels = Tensor::linspace(0.0, mel(rate / 2.0), bands + 2, device);
    let edges = ((mels * (std::f64::consts::LN_10 / 2595.0)).exp() - 1.0) * 700.0;
    let points = Tensor::linspace(0.0, rate / 2.0, n / 2 + 1, device);
    let apart = edges.unsqueeze(0) - points.unsqueeze(-1);
    let between = edges.slice(0, 1..) - edges.slice(0, ..bands + 1);
    let falling = apart.slice(1, 2..) / between.slice(0, 1..);
    let rising = -apart.slice(1, ..bands) / between.slice(0, ..bands);
    falling.minimum(rising).relu()
}
