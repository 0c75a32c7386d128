//! Spectra of a signal's frames.

use crate::graph::refuse;
use crate::tensor::{PadMode, Tensor};

use super::{Complex, irfft, rfft};

/// The short-time Fourier transform: spectra of frames of a signal, which overlap. PyTorch's `torch.stft`, for real
/// signals.
///
/// ```
/// use brasa::fft::{Stft, hann_window};
/// use brasa::{Device, Tensor};
///
/// let device = Device::cpu();
/// let signal = Tensor::linspace(0.0, 600.0, 4000, &device).sin();
/// let stft = Stft::new(400).hop(160).window(&hann_window(400, true, &device));
/// let spectrogram = stft.forward(&signal);
/// assert_eq!(spectrogram.shape().dims(), [201, 26]);
/// let again = stft.inverse(&spectrogram, 4000);
/// assert!(again.allclose(&signal, 1e-4, 1e-4)?);
/// # Ok::<(), brasa::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Stft {
    size: usize,
    hop: usize,
    window: Option<Tensor>,
    centered: bool,
}

impl Stft {
    /// Frames of so many points, each a quarter of that after the one before, all of whose points count alike. The
    /// signal is continued by its reflection, so that frame number `t` has its middle at point `t · hop`.
    ///
    /// # Panics
    ///
    /// If there are no points.
    #[track_caller]
    #[must_use]
    pub fn new(size: usize) -> Self {
        if size == 0 {
            refuse("Stft: frames of no points");
        }
        Self { size, hop: (size / 4).max(1), window: None, centered: true }
    }

    /// With so many points from one frame to the next.
    ///
    /// # Panics
    ///
    /// If there are none.
    #[track_caller]
    #[must_use]
    pub fn hop(mut self, hop: usize) -> Self {
        if hop == 0 {
            refuse("Stft: no points from one frame to the next");
        }
        self.hop = hop;
        self
    }

    /// With frames multiplied by a window, `[size]`; a shorter one is in the frame's middle, and zeros around it.
    ///
    /// # Panics
    ///
    /// If it is longer than a frame, or has another number of axes.
    #[track_caller]
    #[must_use]
    pub fn window(mut self, window: &Tensor) -> Self {
        if window.rank() != 1 || window.numel() > self.size {
            refuse(format_args!("Stft: a window {} for frames of {} points", window.shape(), self.size));
        }
        let missing = self.size - window.numel();
        let before = missing / 2;
        self.window = Some(window.pad(&[(before as isize, (missing - before) as isize)], 0.0));
        self
    }

    /// With the first frame at the signal's start, and none that reaches beyond its end.
    #[must_use]
    pub fn uncentered(mut self) -> Self {
        self.centered = false;
        self
    }

    /// The spectra of all frames: `[..., points]` → `[..., size / 2 + 1, frames]`.
    ///
    /// # Panics
    ///
    /// If the signal is shorter than a frame, or no longer than half of one where it is reflected.
    #[track_caller]
    #[must_use]
    pub fn forward(&self, signal: &Tensor) -> Complex {
        let half = self.half();
        let points = if signal.rank() == 0 { 0 } else { signal.size(-1) };
        if points <= half || points + 2 * half < self.size {
            refuse(format_args!("Stft: a signal {} for frames of {} points", signal.shape(), self.size));
        }
        let mut widths = vec![(0, 0); signal.rank()];
        widths[signal.rank() - 1] = (half, half);
        let signal = if half > 0 { signal.pad_mode(&widths, PadMode::Reflect) } else { signal.clone() };
        let frames = signal.floats().unfold(-1, self.size, self.hop);
        let frames = match &self.window {
            Some(window) => frames * window.to_dtype(signal.floats().dtype()),
            None => frames,
        };
        turned(&rfft(&frames, None, -1))
    }

    /// The signal of so many points whose frames have these spectra; where they contradict each other, the one that is
    /// closest to all: `[..., size / 2 + 1, frames]` → `[..., points]`. PyTorch's `torch.istft`. Points that the windows
    /// of no frames reach are NaN or infinite; those behind the last frame are zeros.
    ///
    /// # Panics
    ///
    /// If the spectra are of frames of another size.
    #[track_caller]
    #[must_use]
    pub fn inverse(&self, spectra: &Complex, points: usize) -> Tensor {
        let shape = spectra.shape();
        if shape.rank() < 2 || spectra.re().size(-2) != self.size / 2 + 1 || spectra.re().size(-1) == 0 {
            refuse(format_args!("Stft: spectra {shape} of frames of {} points", self.size));
        }
        let frames = irfft(&turned(spectra), self.size, -1);
        let window = match &self.window {
            Some(window) => window.to_dtype(frames.dtype()),
            None => Tensor::ones([self.size], frames.device()).to_dtype(frames.dtype()),
        };
        let count = frames.size(-2);
        let sum = overlapped(&(frames * &window), self.hop);
        let weight = overlapped(&window.square().expand([count, self.size]), self.hop);
        let (start, there) = (self.half(), sum.size(-1));
        let end = (start + points).min(there);
        let known = sum.slice(-1, start.min(end)..end) / weight.slice(-1, start.min(end)..end);
        let mut widths = vec![(0, 0); known.rank()];
        widths[known.rank() - 1].1 = (points - known.size(-1)) as isize;
        known.pad(&widths, 0.0)
    }

    /// Points by which a signal is continued on either side.
    fn half(&self) -> usize {
        if self.centered { self.size / 2 } else { 0 }
    }
}

/// With the last two axes exchanged.
#[track_caller]
fn turned(z: &Complex) -> Complex {
    Complex::new(z.re().transpose(-2, -1), z.im().transpose(-2, -1))
}

/// Frames `hop` apart, added where they overlap: `[..., count, size]` → `[..., points]`. Each is cut into pieces of `hop`,
/// of which all first ones follow each other, as do all second ones.
#[track_caller]
fn overlapped(frames: &Tensor, hop: usize) -> Tensor {
    let Some((before, &[count, size])) = frames.shape().split_last_chunk() else { unreachable!("frames") };
    let pieces = size.div_ceil(hop);
    let mut widths = vec![(0, 0); frames.rank()];
    widths[before.len() + 1].1 = (pieces * hop - size) as isize;
    let cut = frames.pad(&widths, 0.0).reshape([before, &[count, pieces, hop]].concat());
    widths.pop();
    let mut sum: Option<Tensor> = None;
    for piece in 0..pieces {
        widths[before.len()] = ((piece * hop) as isize, ((pieces - 1 - piece) * hop) as isize);
        let line = cut.select(-2, piece).reshape([before, &[count * hop]].concat()).pad(&widths, 0.0);
        sum = Some(match sum {
            Some(sum) => sum + line,
            None => line,
        });
    }
    sum.expect("a frame has points").slice(-1, ..(count - 1) * hop + size)
}
