//! Random tensors, composed of counter-based bits.
//!
//! A draw is a function of the device's seed, its position and the draw's ordinal, so the same program draws the same
//! numbers, and recomputing a value repeats them.

use crate::device::Device;
use crate::dtype::DType;
use crate::graph::{Node, Op};
use crate::shape::Shape;

use super::Tensor;

impl Tensor {
    /// 32 random bits per element, as u32.
    #[track_caller]
    fn random_bits(shape: impl Into<Shape>, device: &Device) -> Self {
        let shape = shape.into().in_memory("random numbers");
        let (seed, position, stream) = crate::runtime::random_inputs(device);
        Self::from_node(Node::new(Op::Random { stream }, vec![seed, position], shape, DType::U32, device))
    }

    /// Uniform numbers in [0, 1): multiples of 2⁻²⁴, as f32.
    #[track_caller]
    pub fn rand(shape: impl Into<Shape>, device: &Device) -> Self {
        let bits = Self::random_bits(shape, device).bitwise_right_shift(8);
        bits.to_dtype(DType::F32) * f64::from(2.0_f32.powi(-24))
    }

    /// Normal numbers of mean 0 and variance 1, as f32 (Box and Muller's method, one number per pair of uniform ones).
    ///
    /// The uniform numbers are the same on every device; logarithm, root and cosine are each device's own, good to 4
    /// units in the last place each (of the radius, where the cosine crosses zero).
    #[track_caller]
    pub fn randn(shape: impl Into<Shape>, device: &Device) -> Self {
        let shape = shape.into();
        let radius = ((1.0 - Self::rand(shape.clone(), device)).log() * -2.0).sqrt();
        let angle = Self::rand(shape, device) * std::f64::consts::TAU;
        radius * angle.cos()
    }

    /// [`Tensor::rand`] of the shape and device of `self`.
    #[track_caller]
    #[must_use]
    pub fn rand_like(&self) -> Self {
        Self::rand(self.shape(), self.device())
    }

    /// [`Tensor::randn`] of the shape and device of `self`.
    #[track_caller]
    #[must_use]
    pub fn randn_like(&self) -> Self {
        Self::randn(self.shape(), self.device())
    }

    /// Integers in `low..high`, as i32; small ones are likelier by at most `(high - low) / 2³²`.
    #[track_caller]
    pub fn randint(low: i32, high: i32, shape: impl Into<Shape>, device: &Device) -> Self {
        assert!(low < high, "randint: {low}..{high} is empty");
        let span = i64::from(high) - i64::from(low);
        Self::random_bits(shape, device).fmod(span).to_dtype(DType::I32) + low
    }

    /// The integers `0..count` in random order, as i32. Random bits are sorted, so that orders are equally likely but
    /// for bits that occur twice.
    #[track_caller]
    pub fn randperm(count: usize, device: &Device) -> Self {
        Self::random_bits([count], device).argsort(0, false)
    }

    /// True with probability `self`, for each element.
    #[track_caller]
    #[must_use]
    pub fn bernoulli(&self) -> Self {
        Self::rand(self.shape(), self.device()).lt(self.to_dtype(DType::F32))
    }

    /// `count` indices drawn from each row of weights `[n]` or `[rows, n]`, which need not sum to 1, as i32 `[count]`
    /// or `[rows, count]`.
    ///
    /// With `replacement` each is drawn by itself: a uniform number is looked for in the cumulative sum, so that
    /// weights below 1.2e-7 of a row's sum may never be drawn. Without, none is drawn twice, and they stand in the
    /// order in which they are drawn: that of `-log(uniform) / weight` (Efraimidis and Spirakis 2006, "Weighted random
    /// sampling with a reservoir").
    ///
    /// Weights are at least 0, finite and not all 0; a row of others becomes an error when the result is read. Without
    /// `replacement`, ones of 0 are drawn when no others are left.
    ///
    /// # Panics
    /// If these are not floats of one or two axes, or there are fewer than are to be drawn.
    ///
    /// ```
    /// use brasa::{Device, Tensor};
    ///
    /// let weights = Tensor::from_slice(&[0.0_f32, 3.0, 0.0, 1.0], [4], &Device::cpu())?;
    /// assert!(weights.multinomial(9, true).to_vec::<i32>()?.iter().all(|index| [1, 3].contains(index)));
    /// # Ok::<(), brasa::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn multinomial(&self, count: usize, replacement: bool) -> Self {
        assert!(
            self.dtype().is_float() && matches!(self.rank(), 1 | 2),
            "multinomial: the weights are {}{}, not floats [n] or [rows, n]",
            self.dtype(),
            self.shape()
        );
        let length = self.size(-1);
        let most = if replacement && length > 0 { usize::MAX } else { length };
        assert!(count <= most, "multinomial: {count} of {length} weights {}", self.shape());
        let (weights, device) = (self.to_dtype(DType::F32).detach(), self.device());
        let mut drawn = self.shape().to_vec();
        drawn[self.rank() - 1] = count;
        if count == 0 {
            return Self::zeros_of(drawn, DType::I32, device);
        }
        if !replacement {
            // no uniform number is 0, which would be infinitely early
            let time = ((1.0 - Self::rand(self.shape(), device)).log() * -1.0).clamp_min(f64::from(f32::EPSILON) / 4.0);
            return (&weights / time).topk(count, -1, true).1.drawn_by(&weights);
        }
        // sums of many are rounded differently from place to place: they are made to ascend, and not to at weights of 0
        let sums = weights.gt(0.0).where_(weights.cumsum(-1), 0.0).cummax(-1).0;
        let total = sums.narrow(-1, length - 1, 1);
        // below the sum in spite of rounding: what follows the last weight is none
        let place = (Self::rand(drawn, device) * &total).minimum(&total * (1.0 - f64::from(f32::EPSILON)));
        sums.searchsorted(&place, true).drawn_by(&weights)
    }

    /// Indices drawn by rows of weights that can be drawn by, else an error of the device.
    #[track_caller]
    fn drawn_by(&self, weights: &Self) -> Self {
        let length = weights.size(-1);
        let is_one = weights.ge(0.0).logical_and(&weights.isfinite());
        let is_some = weights.gt(0.0).max_keepdim(-1);
        let fits = is_one.min_keepdim(-1).logical_and(&is_some);
        fits.where_(self, length as i64).checked_index("multinomial", length)
    }

    /// Zero with probability `probability`, else scaled by `1 / (1 - probability)`; for training only.
    #[track_caller]
    #[must_use]
    pub fn dropout(&self, probability: f64) -> Self {
        assert!((0.0..=1.0).contains(&probability), "dropout: {probability} is not a probability");
        if probability == 0.0 {
            return self.clone();
        }
        if probability == 1.0 {
            return self * 0.0;
        }
        let kept = Self::rand(self.shape(), self.device()).ge(probability);
        kept.where_(self * (1.0 / (1.0 - probability)), 0.0)
    }
}
