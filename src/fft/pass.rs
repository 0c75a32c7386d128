//! The kernel: transforms of lines that a workgroup's memory holds.

use crate::custom::{Call, Kernel, Signature, folded};
use crate::dtype::{DType, Scalar};

use super::host;
use super::radices::{POINTS, radices};

/// What a pass does besides transforming; the shader has the same names.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
pub(super) struct Flags {
    /// There are no imaginary parts to read.
    pub(super) real: bool,
    /// Half of the points are read, the rest are their conjugates.
    pub(super) mirrored: bool,
    /// No imaginary parts are written.
    pub(super) to_real: bool,
    pub(super) inverse: bool,
    /// Results are multiplied by the roots between two passes.
    pub(super) twisted: bool,
}

/// Transforms of `n` points of `[before, n, inner]`, in the words of `shaders/fft/lines.wgsl`.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
pub(super) struct Pass {
    pub(super) n: usize,
    pub(super) before: usize,
    pub(super) inner: usize,
    pub(super) whole: usize,
    pub(super) split: usize,
    pub(super) read: usize,
    pub(super) written: usize,
    pub(super) first: usize,
    pub(super) second: usize,
    pub(super) flags: Flags,
    /// The bits of an f32.
    pub(super) scale: u32,
}

impl Pass {
    pub(super) fn lines(&self) -> usize {
        self.before * self.inner
    }

    pub(super) fn scale(&self) -> f32 {
        f32::from_bits(self.scale)
    }

    /// Lines of a workgroup: a few hundred points, or as many as give every core of a large GPU something to do, and
    /// enough that what lies apart is read by 64 bytes.
    fn tile(&self) -> usize {
        let wanted = (self.lines() / 1024).max(256 / self.n).max(if self.inner > 1 { 16 } else { 1 });
        wanted.clamp(1, (POINTS / self.n).max(1))
    }

    /// Points that come out along the axis, with those of the passes before.
    fn out(&self) -> [usize; 3] {
        [self.before / (self.first * self.second), self.written, self.inner]
    }
}

impl Kernel<2, 2> for Pass {
    fn name(&self) -> &str {
        "fft"
    }

    fn wgsl(&self) -> &str {
        include_str!("../../shaders/fft/lines.wgsl")
    }

    fn outputs(&self, _: &[Signature; 2]) -> [Signature; 2] {
        let out = Signature::new(DType::F32, self.out());
        let none = Signature::new(DType::F32, [0]);
        [out.clone(), if self.flags.to_real { none } else { out }]
    }

    fn groups(&self, call: &Call) -> [u32; 3] {
        if call.outputs[0].shape.numel() == 0 {
            return folded(0);
        }
        folded(self.lines().div_ceil(self.tile()))
    }

    fn params(&self, _: &Call) -> Vec<Scalar> {
        let radices = radices(self.n).unwrap_or_default();
        let packed = |range: std::ops::Range<usize>| {
            let range = range.start.min(radices.len())..range.end.min(radices.len());
            radices[range].iter().rev().fold(0, |packed, &radix| packed << 8 | radix)
        };
        let Flags { real, mirrored, to_real, inverse, twisted } = self.flags;
        let flags = [real, mirrored, to_real, inverse, twisted].into_iter().rev();
        let numbers = [
            self.n,
            radices.len(),
            packed(0..4),
            packed(4..8),
            self.lines(),
            self.tile(),
            self.inner,
            self.whole,
            self.split,
            self.read,
            self.written,
            self.first,
            self.second,
            flags.fold(0, |flags, flag| flags << 1 | usize::from(flag)),
        ];
        let step = |points: usize| Scalar::from((std::f64::consts::FRAC_PI_4 / points as f64) as f32);
        let floats = [step(self.n), step(self.whole), self.scale().into()];
        numbers.map(|number| Scalar::from(number as u32)).into_iter().chain(floats).collect()
    }

    fn host(&self, _: &Call, [re, im]: [&[f64]; 2], [re_out, im_out]: [&mut [f64]; 2]) {
        host::run(self, [re, im], [re_out, im_out]);
    }

    fn host_f32(&self, _: &Call, [re, im]: [&[f32]; 2], [re_out, im_out]: [&mut [f32]; 2]) -> bool {
        host::run(self, [re, im], [re_out, im_out]);
        true
    }
}
