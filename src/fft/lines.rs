//! Transforms of all lines along one axis, with their gradient.

use std::sync::LazyLock;

use crate::custom::CustomOp;
use crate::tensor::Tensor;

use super::chirp::by_convolution;
use super::pass::{Flags, Pass};
use super::radices::split;

/// What a line has of the points of its transform.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    /// The first so many; those behind are zeros before a transform, and not wanted after it.
    Complex(usize),
    /// The same without imaginary parts.
    Real(usize),
    /// Before a transform: the first so many of those up to the middle, of which the others are the conjugates.
    Half(usize),
}

impl Side {
    pub(super) fn points(self) -> usize {
        let (Self::Complex(points) | Self::Real(points) | Self::Half(points)) = self;
        points
    }

    pub(super) fn is_real(self) -> bool {
        matches!(self, Self::Real(_))
    }
}

/// One transform of so many points along an axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines {
    /// Points.
    pub(super) n: usize,
    /// With exp(+2πi jk / n) instead of exp(-2πi jk / n).
    pub(super) inverse: bool,
    pub(super) from: Side,
    pub(super) to: Side,
    /// What results are multiplied by.
    pub(super) scale: f32,
}

/// Real and imaginary parts, `[outer, points, inner]` each; what is real has no second one.
pub(super) type Parts = (Tensor, Option<Tensor>);

impl Lines {
    /// The transforms of `[outer, points, inner]` in f32.
    #[track_caller]
    pub(super) fn of(self, re: &Tensor, im: Option<&Tensor>) -> Parts {
        let [_, points, inner] = *re.shape().dims() else { unreachable!("an axis and what is around it") };
        assert_eq!(points, self.from.points(), "as many as the side has");
        let passes = if re.device().is_cpu() { Some(vec![self.n]) } else { split(self.n, inner) };
        match passes {
            Some(passes) => self.by_passes(re, im, &passes),
            None => by_convolution(self, re, im),
        }
    }

    /// With the gradient of the whole.
    #[track_caller]
    fn by_passes(self, re: &Tensor, im: Option<&Tensor>, sizes: &[usize]) -> Parts {
        let (passes, last) = self.passes(re, sizes);
        let mut parts = [re.clone(), im.unwrap_or(re).clone()];
        for pass in passes {
            parts = KERNEL.with(pass).call([&parts[0], &parts[1]]);
        }
        let [re_out, im_out] =
            KERNEL.with(last).call_with_gradient([&parts[0], &parts[1]], &self.inputs(re, im), self.rule());
        (re_out, (!self.to.is_real()).then_some(im_out))
    }

    /// What has a gradient.
    pub(super) fn inputs<'a>(&self, re: &'a Tensor, im: Option<&'a Tensor>) -> Vec<&'a Tensor> {
        std::iter::once(re).chain(im).collect()
    }

    /// From gradients of the results to those of what was transformed: the same transform the other way around.
    pub(super) fn rule(self) -> impl Fn(&[Tensor]) -> Vec<Option<Tensor>> + Send + Sync + 'static {
        move |gradients| {
            let to = match self.from {
                Side::Half(points) => Side::Complex(points),
                side => side,
            };
            let back = Self { inverse: !self.inverse, from: self.to, to, ..self };
            let im = (!self.to.is_real()).then(|| &gradients[1]);
            let (mut re, mut im) = back.of(&gradients[0], im);
            if let Side::Half(points) = self.from {
                // each stands for its conjugate, too, but for those that are their own, whose imaginary parts are not read
                let alone = self.alone(points, &gradients[0]);
                re *= alone.where_(1.0, 2.0);
                im = im.map(|im| alone.where_(0.0, im * 2.0));
            }
            std::iter::once(re).chain(im).map(Some).collect()
        }
    }

    /// Which of the first points of a half line are their own conjugates: `[1, points, 1]`.
    #[track_caller]
    fn alone(&self, points: usize, like: &Tensor) -> Tensor {
        let number = Tensor::arange(points, like.device());
        number.eq(0).logical_or(&(&number * 2).eq(self.n)).reshape([1, points, 1])
    }

    /// The passes before the last one, and that.
    fn passes(self, re: &Tensor, sizes: &[usize]) -> (Vec<Pass>, Pass) {
        let [outer, points, inner] = *re.shape().dims() else { unreachable!("an axis and what is around it") };
        let mut flags = Flags { inverse: self.inverse, ..Flags::default() };
        (flags.real, flags.mirrored) = (self.from.is_real(), matches!(self.from, Side::Half(_)));
        let mut passes = Vec::new();
        let (mut before, mut left, mut read) = (outer, self.n, points * inner);
        for &n in &sizes[..sizes.len() - 1] {
            let rest = left / n;
            passes.push(Pass {
                n,
                before,
                inner: rest * inner,
                whole: left,
                split: inner,
                read,
                written: n,
                first: 1,
                second: 1,
                flags: Flags { twisted: true, ..flags },
                scale: 1.0_f32.to_bits(),
            });
            (flags.real, flags.mirrored) = (false, false);
            (before, left, read) = (before * n, rest, rest * inner);
        }
        let [first, second] = match *sizes {
            [_] => [1, 1],
            [first, _] => [first, 1],
            [first, second, _] => [first, second],
            _ => unreachable!("one to three passes"),
        };
        let last = Pass {
            n: left,
            before,
            inner,
            whole: left,
            split: inner,
            read,
            written: self.to.points(),
            first,
            second,
            flags: Flags { to_real: self.to.is_real(), ..flags },
            scale: self.scale.to_bits(),
        };
        (passes, last)
    }
}

static KERNEL: LazyLock<CustomOp<2, 2>> = LazyLock::new(|| CustomOp::new(Pass::default()).expect("the WGSL is valid"));
