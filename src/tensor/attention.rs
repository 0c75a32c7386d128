//! Attention, composed of two products and a softmax.

use super::Tensor;

/// Which keys a query may see.
#[derive(Clone, Copy, Debug, Default)]
pub enum Mask<'a> {
    /// All.
    #[default]
    None,
    /// Those at its own position and before, the last query at the last key.
    Causal,
    /// Those where this bool tensor, broadcast to `[..., queries, keys]`, is true.
    Allowed(&'a Tensor),
    /// All, with this float tensor, broadcast to `[..., queries, keys]`, added to the scores.
    Added(&'a Tensor),
}

impl Tensor {
    /// `softmax(q kᵀ / √features) v`: queries `[..., queries, features]`, keys `[..., keys, features]`, values
    /// `[..., keys, outputs]` → `[..., queries, outputs]`.
    #[track_caller]
    #[must_use]
    pub fn scaled_dot_product_attention(&self, key: &Self, value: &Self, mask: Mask<'_>) -> Self {
        assert!(
            self.rank() >= 2 && key.rank() >= 2 && value.rank() >= 2,
            "scaled_dot_product_attention: {}, {} and {} need two axes each",
            self.shape(),
            key.shape(),
            value.shape()
        );
        let scale = 1.0 / (self.size(-1) as f64).sqrt();
        let scores = (self * scale).matmul(&key.transpose(-2, -1));
        let scores = match mask {
            Mask::None => scores,
            Mask::Causal => {
                let (queries, keys) = (scores.size(-2), scores.size(-1));
                let row = Self::iota([queries, keys], 0, self.device());
                let column = Self::iota([queries, keys], 1, self.device());
                let last = keys as i64 - queries as i64;
                column.le(row + last).where_(scores, f64::NEG_INFINITY)
            }
            Mask::Allowed(allowed) => allowed.where_(scores, f64::NEG_INFINITY),
            Mask::Added(bias) => scores + bias,
        };
        scores.softmax(-1).matmul(value)
    }
}
