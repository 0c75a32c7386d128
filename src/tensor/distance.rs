//! How alike vectors are.

use super::Tensor;

impl Tensor {
    /// The cosine of the angle between vectors along `axis`, broadcast: their product over the product of their
    /// Euclidean norms, each taken to be at least `epsilon` (PyTorch's default: 1e-8).
    ///
    /// ```
    /// # use brasa::{Device, Tensor};
    /// let device = Device::cpu();
    /// let x = Tensor::from_vec(vec![3.0_f32, 4.0], &device)?;
    /// let y = Tensor::from_vec(vec![4.0_f32, 3.0], &device)?;
    /// assert_eq!(x.cosine_similarity(&y, 0, 1e-8).item::<f32>()?, 0.96);
    /// # Ok::<(), brasa::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn cosine_similarity(&self, other: &Self, axis: isize, epsilon: f64) -> Self {
        let (a, b) = Self::float_pair("cosine_similarity", self, other);
        let (axis, dtype) = (a.axis("cosine_similarity", axis).cast_signed(), a.dtype());
        assert!(dtype == b.dtype(), "cosine_similarity: {dtype} and {} do not mix; cast one with to_dtype", b.dtype());
        let (a, b) = (a.countable(), b.countable());
        let (first, second) = (a.norm_dim(2.0, axis).clamp_min(epsilon), b.norm_dim(2.0, axis).clamp_min(epsilon));
        ((a * b).sum_dim(axis) / (first * second)).to_dtype(dtype)
    }

    /// The norm of `self - other + epsilon` along the last axis (PyTorch's defaults: the norm of 2, and 1e-6).
    #[track_caller]
    #[must_use]
    pub fn pairwise_distance(&self, other: &Self, p: f64, epsilon: f64) -> Self {
        (self - other + epsilon).norm_dim(p, -1)
    }
}
