//! Attention, composed of two products and a softmax.

use super::Tensor;

/// Which keys a query may see.
#[derive(Clone, Copy, Debug, Default)]
pub enum Mask<'a> {
    /// All.
    #[default]
    None,
    /// Those at its own position and before, the last query at the last key (PyTorch: the first query at the first key,
    /// which differs where there are more keys than queries). More queries than keys panic: the first ones would see none.
    Causal,
    /// Those where this bool tensor, broadcast to `[..., queries, keys]`, is true. A query that may see none gets NaN.
    Allowed(&'a Tensor),
    /// All, with this float tensor, broadcast to `[..., queries, keys]`, added to the scores.
    Added(&'a Tensor),
}

impl Tensor {
    /// `softmax(q kᵀ / √features) v`: queries `[..., queries, features]`, keys `[..., keys, features]`, values
    /// `[..., keys, outputs]` → `[..., queries, outputs]`.
    ///
    /// ```
    /// # use brasa::{Device, Tensor, tensor::Mask};
    /// let x = Tensor::ones([1, 2, 4], &Device::cpu());
    /// let y = x.scaled_dot_product_attention(&x, &x, Mask::Causal);
    /// assert_eq!(y.shape().dims(), [1, 2, 4]);
    /// # Ok::<(), brasa::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn scaled_dot_product_attention(&self, key: &Self, value: &Self, mask: Mask<'_>) -> Self {
        self.attend(key, value, mask, 1.0 / (self.size(-1) as f64).sqrt())
    }

    /// [`Tensor::scaled_dot_product_attention`] in which several heads of queries share one of keys and values, PyTorch's
    /// `enable_gqa`: `[.., heads, queries, features]` by `[.., groups, keys, features]`, `groups` a divisor of `heads`.
    #[track_caller]
    #[must_use]
    pub fn grouped_query_attention(&self, key: &Self, value: &Self, mask: Mask<'_>, scale: Option<f64>) -> Self {
        let (key, value) = (key.shared_by_heads(self), value.shared_by_heads(self));
        self.attend(&key, &value, mask, scale.unwrap_or(1.0 / (self.size(-1) as f64).sqrt()))
    }

    /// Each group of keys or values once for each head of `queries` that it serves.
    #[track_caller]
    fn shared_by_heads(&self, queries: &Self) -> Self {
        let (heads, groups) = (queries.size(-3), self.size(-3));
        assert!(
            groups > 0 && heads.is_multiple_of(groups),
            "grouped_query_attention: {} with keys or values {}, {heads} heads in {groups} groups",
            queries.shape(),
            self.shape()
        );
        self.repeat_interleave(heads / groups, -3)
    }

    #[track_caller]
    fn attend(&self, key: &Self, value: &Self, mask: Mask<'_>, scale: f64) -> Self {
        assert!(
            self.rank() >= 2 && key.rank() >= 2 && value.rank() >= 2,
            "scaled_dot_product_attention: {}, {} and {} need two axes each",
            self.shape(),
            key.shape(),
            value.shape()
        );
        let scores = (self * scale).matmul(&key.transpose(-2, -1));
        let scores = match mask {
            Mask::None => scores,
            Mask::Causal => {
                let (queries, keys) = (scores.size(-2), scores.size(-1));
                assert!(
                    queries <= keys,
                    "scaled_dot_product_attention: of {queries} queries the first {} would see none of {keys} keys",
                    queries.saturating_sub(keys)
                );
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
