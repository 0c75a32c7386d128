//! Pictures made larger and smaller: `[batch, channels, ..]` to other sizes along the axes after the second.

use crate::dtype::DType;
use crate::graph::at_callers_line;
use crate::shape::Shape;

use super::Tensor;

/// How [`Tensor::interpolate`] finds a value between elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interpolation {
    /// The element at `⌊i · old / new⌋`.
    Nearest,
    /// The element whose centre is nearest: PyTorch's `nearest-exact`.
    NearestExact,
    /// Linear, bilinear or trilinear.
    Linear,
    /// As [`Self::Linear`] with the outer elements' centres at the edges: PyTorch's `align_corners`.
    LinearAligned,
    /// Bicubic convolution with PyTorch's a = -0.75.
    Cubic,
    /// As [`Self::Cubic`] with the outer elements' centres at the edges.
    CubicAligned,
    /// As [`Self::Linear`], but with a wider window where the picture shrinks: PyTorch's `antialias`, PIL's resizing.
    LinearAntialiased,
    /// As [`Self::Cubic`] with such a window, and with PIL's a = -0.5.
    CubicAntialiased,
    /// The mean over the part of the picture that an element stands for: adaptive pooling.
    Area,
}

impl Interpolation {
    fn aligned(self) -> bool {
        matches!(self, Self::LinearAligned | Self::CubicAligned)
    }

    /// True if elements are taken as they are, of whatever type.
    fn picks(self) -> bool {
        matches!(self, Self::Nearest | Self::NearestExact)
    }
}

impl Tensor {
    /// Each spatial axis at another size: one number, or one for each.
    ///
    /// ```
    /// # use brasa::{Device, Tensor, tensor::Interpolation};
    /// let x = Tensor::from_slice(&[0.0_f32, 1.0], [1, 1, 2], &Device::cpu())?;
    /// let wide = x.interpolate(4, Interpolation::Linear);
    /// assert_eq!(wide.to_vec::<f32>()?, [0.0, 0.25, 0.75, 1.0]);
    /// # Ok::<(), brasa::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    #[doc(alias = "upsample")]
    pub fn interpolate(&self, size: impl Into<Shape>, mode: Interpolation) -> Self {
        let size = size.into();
        assert!(self.rank() >= 3, "interpolate: {} is not [batch, channels, ..]", self.shape());
        let spatial = self.rank() - 2;
        let size = if size.rank() == 1 { vec![size[0]; spatial] } else { size.to_vec() };
        assert!(
            size.len() == spatial && !size.contains(&0) && !self.shape()[2..].contains(&0),
            "interpolate: {} to {size:?}",
            self.shape()
        );
        if !mode.picks() {
            self.assert_float("interpolate");
        }
        let mut value = self.clone();
        for (axis, &new) in (2..).zip(&size) {
            let ratio = self.shape()[axis] as f64 / new as f64;
            value = at_callers_line(|| value.resampled(axis, new, ratio, mode));
        }
        value
    }

    /// Each spatial axis at `scale` times its size, rounded down; places are measured by `scale` itself, as in PyTorch.
    /// An axis whose size stays is left as it is by linear and antialiased modes, but not by the others.
    #[track_caller]
    #[must_use]
    pub fn interpolate_scale(&self, scale: f64, mode: Interpolation) -> Self {
        assert!(self.rank() >= 3 && scale > 0.0, "interpolate_scale: {} by {scale}", self.shape());
        if !mode.picks() {
            self.assert_float("interpolate_scale");
        }
        let scaled = self.shape()[2..].iter().map(|&old| (old as f64 * scale).floor() as usize);
        let size: Vec<usize> = scaled.collect();
        assert!(!size.contains(&0), "interpolate_scale: nothing is left of {} by {scale}", self.shape());
        let mut value = self.clone();
        for (axis, &new) in (2..).zip(&size) {
            value = at_callers_line(|| value.resampled(axis, new, 1.0 / scale, mode));
        }
        value
    }

    /// `[batch, channels, height, width]`: each pixel becomes `scale[0]` by `scale[1]` pixels.
    #[track_caller]
    #[must_use]
    pub fn upsample_nearest2d(&self, scale: [usize; 2]) -> Self {
        assert!(self.rank() == 4, "upsample_nearest2d: {} is not [batch, channels, height, width]", self.shape());
        self.repeated(2, scale[0]).repeated(3, scale[1])
    }

    #[track_caller]
    fn repeated(&self, axis: usize, count: usize) -> Self {
        self.repeat_interleave(count, axis.cast_signed())
    }

    /// `axis` at `new` places; `ratio` old places lie between two new ones.
    #[track_caller]
    fn resampled(&self, axis: usize, new: usize, ratio: f64, mode: Interpolation) -> Self {
        let old = self.shape()[axis];
        let is_kept =
            matches!(mode, Interpolation::Linear | Interpolation::LinearAntialiased | Interpolation::CubicAntialiased);
        if old == new && (is_kept || (ratio - 1.0).abs() < f64::EPSILON) {
            return self.clone();
        }
        match mode {
            Interpolation::LinearAntialiased => {
                return self.antialiased(axis, new, ratio, 1.0, |d| (1.0 - d).maximum(0.0));
            }
            Interpolation::CubicAntialiased => return self.antialiased(axis, new, ratio, 2.0, cubic_sharp),
            Interpolation::Area => return self.averaged(axis, new),
            _ => {}
        }
        if mode.picks() && new.is_multiple_of(old) && (ratio * new as f64 - old as f64).abs() < 1e-9 {
            return self.repeated(axis, new / old);
        }
        let number = Self::iota([new], 0, self.device()).floats();
        let place = match mode {
            Interpolation::Nearest => number * ratio,
            Interpolation::NearestExact => (number + 0.5) * ratio,
            _ if mode.aligned() => number * (old.saturating_sub(1) as f64 / new.saturating_sub(1).max(1) as f64),
            _ => (number + 0.5) * ratio - 0.5,
        };
        let linear = matches!(mode, Interpolation::Linear | Interpolation::LinearAligned);
        let place = if linear { place.maximum(0.0) } else { place };
        let below = place.floor();
        let part = self.along(axis, &(place - &below));
        let at = |step: i32| {
            let index = (below.to_dtype(DType::I32) + step).maximum(0).minimum(old as i64 - 1);
            self.index_select(axis.cast_signed(), &index)
        };
        if mode.picks() {
            return at(0);
        }
        if linear {
            return at(0) * (1.0 - &part) + at(1) * part;
        }
        let weights = [
            cubic_far(&(&part + 1.0), CUBIC),
            cubic_near(&part, CUBIC),
            cubic_near(&(1.0 - &part), CUBIC),
            cubic_far(&(2.0 - &part), CUBIC),
        ];
        let terms = (-1..).zip(weights).map(|(step, weight)| at(step) * weight);
        terms.reduce(|sum, term| sum + term).expect("four terms")
    }

    /// Means of the elements around each place, weighted by `filter` of their distance, which is 0 from `reach` on;
    /// distances are measured in new elements where those are larger.
    #[track_caller]
    fn antialiased(&self, axis: usize, new: usize, ratio: f64, reach: f64, filter: fn(&Self) -> Self) -> Self {
        let old = self.shape()[axis];
        let stretch = ratio.max(1.0);
        let reach = reach * stretch;
        let taps = 2 * reach.ceil() as usize + 1;
        let centre = (Self::iota([new, taps], 0, self.device()).floats() + 0.5) * ratio;
        let first = (&centre - (reach - 0.5)).floor().maximum(0.0);
        let end = (&centre + (reach + 0.5)).floor().minimum(old as f64);
        let place = first + Self::iota([new, taps], 1, self.device()).floats();
        let inside = place.lt(end);
        let weight = inside.where_(filter(&((&place + 0.5 - centre) * (1.0 / stretch)).abs()), 0.0);
        let weight = &weight / weight.sum_keepdim(1);
        let elements = self.index_select(axis.cast_signed(), &place.to_dtype(DType::I32).minimum(old as i64 - 1));
        let mut along = vec![1; elements.rank()];
        (along[axis], along[axis + 1]) = (new, taps);
        let elements = inside.reshape(along.as_slice()).expand(elements.shape()).where_(elements, 0.0);
        (elements * weight.to_dtype(self.dtype()).reshape(along)).sum_dim(axis + 1)
    }

    /// A vector in this tensor's type, shaped so that it broadcasts along `axis`.
    #[track_caller]
    fn along(&self, axis: usize, vector: &Self) -> Self {
        let mut shape = vec![1; self.rank()];
        shape[axis] = vector.numel();
        vector.to_dtype(self.dtype()).reshape(shape)
    }
}

/// Of cubic convolution, see [`Interpolation`].
const CUBIC: f64 = -0.75;

/// The weight of an element at distance `d <= 1`: `(a + 2) d³ - (a + 3) d² + 1`.
#[track_caller]
fn cubic_near(d: &Tensor, a: f64) -> Tensor {
    (d * (a + 2.0) - (a + 3.0)) * d * d + 1.0
}

/// The weight of an element at distance `1 <= d <= 2`: `a d³ - 5a d² + 8a d - 4a`.
#[track_caller]
fn cubic_far(d: &Tensor, a: f64) -> Tensor {
    ((d * a - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a
}

/// The weight of an element at any distance, with PIL's a.
#[track_caller]
fn cubic_sharp(d: &Tensor) -> Tensor {
    let far = d.lt(2.0).where_(cubic_far(d, -0.5), 0.0);
    d.lt(1.0).where_(cubic_near(d, -0.5), far)
}
