//! How often values occur.

use crate::dtype::DType;
use crate::graph::opaque;
use crate::ops::indexing::index_add;

use super::{Groups, Tensor};

impl Tensor {
    /// How often each of `0..bins` occurs among the elements, which are integers: `[bins]`, i32. Unlike PyTorch's, the
    /// number of bins is given, and an element outside is an error.
    #[track_caller]
    #[must_use]
    pub fn bincount(&self, bins: usize) -> Self {
        let index = self.checked_index("bincount", bins);
        if self.numel() == 0 || bins == 0 {
            return Self::zeros_of([bins], DType::I32, self.device());
        }
        opaque(|| Groups::new(&index, bins).counts().to_dtype(DType::I32))
    }

    /// The sum of the elements of `weights` (of this shape) by the integer that `self` has in their place: `[bins]`, in
    /// their type. PyTorch's `bincount` with weights, with a gradient.
    #[track_caller]
    #[must_use]
    pub fn bincount_with(&self, weights: &Self, bins: usize) -> Self {
        assert!(self.shape() == weights.shape(), "bincount_with: weights {} for {}", weights.shape(), self.shape());
        weights.assert_addable("bincount_with", weights.dtype());
        let index = self.checked_index("bincount_with", bins).reshape([self.numel()]);
        index_add(&weights.reshape([self.numel()]), &index, 0, bins)
    }

    /// How many elements lie in each of `bins` intervals of equal width between `low` and `high`: `[bins]`, as f32. The
    /// last one includes `high`; elements outside, and NaN, do not count.
    ///
    /// # Panics
    ///
    /// If `low` is not below `high`, there are no bins, or the elements are not floats.
    #[track_caller]
    #[must_use]
    pub fn histc(&self, bins: usize, low: f64, high: f64) -> Self {
        assert!((low as f32) < high as f32 && bins > 0, "histc: {bins} bins between {low} and {high}, in f32");
        assert!(self.dtype().is_float(), "histc: not defined for {}; cast with to_dtype", self.dtype());
        opaque(|| {
            let x = self.to_dtype(DType::F32);
            let inside = x.ge(low).logical_and(&x.le(high));
            // in PyTorch's order: the rounded width of a bin, or its reciprocal, would move elements over a boundary
            let width = f64::from(high as f32 - low as f32);
            let place = if bins as f64 * width < f64::from(f32::MAX) {
                (&x - low) * bins as f64 / width
            } else {
                (&x - low) * (bins as f64 / (high - low))
            };
            let bin = place.floor().clamp(0.0, (bins - 1) as f64);
            let bin = inside.where_(bin.to_dtype(DType::I32), bins);
            bin.bincount(bins + 1).narrow(0, 0, bins).to_dtype(DType::F32)
        })
    }
}
