//! Attention: one kernel where there is one, else composed of two products and a softmax.

use crate::dtype::{DType, Scalar};
use crate::graph::{Attention, AttentionPart, Op, refuse};
use crate::ops::attention;
use crate::shape::Shape;

use super::Tensor;

const PLAIN: &str = "scaled_dot_product_attention";
const GROUPED: &str = "grouped_query_attention";

/// Which keys a query may see.
#[derive(Clone, Copy, Debug, Default)]
pub enum Mask<'a> {
    /// All.
    #[default]
    None,
    /// Those at its own position and before, the last query at the last key (PyTorch: the first query at the first key,
    /// which differs where there are more keys than queries). More queries than keys panic: the first ones would see
    /// none.
    Causal,
    /// Those where this bool tensor, broadcast to `[..., queries, keys]`, is true. A query that may see none gets
    /// zeros, as PyTorch has it, and gives no gradients.
    Allowed(&'a Tensor),
    /// All, with this float tensor, broadcast to `[..., queries, keys]`, added to the scores. A query for which it is
    /// minus infinity for all keys sees none.
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
        self.attend(PLAIN, key, value, mask, 1.0 / (self.axis_size(PLAIN, -1) as f64).sqrt())
    }

    /// [`Tensor::scaled_dot_product_attention`] in which several heads of queries share one of keys and values,
    /// PyTorch's `enable_gqa`: `[.., heads, queries, features]` by `[.., groups, keys, features]`, `groups` a divisor
    /// of `heads`.
    #[track_caller]
    #[must_use]
    pub fn grouped_query_attention(&self, key: &Self, value: &Self, mask: Mask<'_>, scale: Option<f64>) -> Self {
        let (key, value) = (key.shared_by_heads(self), value.shared_by_heads(self));
        self.attend(GROUPED, &key, &value, mask, scale.unwrap_or(1.0 / (self.size(-1) as f64).sqrt()))
    }

    /// Each group of keys or values once for each head of `queries` that it serves.
    #[track_caller]
    fn shared_by_heads(&self, queries: &Self) -> Self {
        let (heads, groups) = (queries.axis_size(GROUPED, -3), self.axis_size(GROUPED, -3));
        assert!(
            groups > 0 && heads.is_multiple_of(groups),
            "{GROUPED}: {} with keys or values {}, {heads} heads in {groups} groups",
            queries.shape(),
            self.shape()
        );
        self.repeat_interleave(heads / groups, -3)
    }

    #[track_caller]
    fn attend(&self, name: &str, key: &Self, value: &Self, mask: Mask<'_>, scale: f64) -> Self {
        assert!(
            self.rank() >= 2 && key.rank() >= 2 && value.rank() >= 2,
            "{name}: {}, {} and {} need two axes each",
            self.shape(),
            key.shape(),
            value.shape()
        );
        if matches!(mask, Mask::Causal) {
            let (queries, keys) = (self.size(-2), key.size(-2));
            assert!(
                queries <= keys,
                "{name}: of {queries} queries the first {} would see none of {keys} keys",
                queries.saturating_sub(keys)
            );
        }
        let shapes = [self.shape(), key.shape(), value.shape()];
        let [queries, keys, values] = shapes.map(|shape| shape.split_at(shape.rank() - 2));
        let leading = [queries, keys, values].map(|(leading, _)| Shape::from(leading));
        let batch = leading[0].broadcast(&leading[1]).and_then(|both| both.broadcast(&leading[2]));
        if queries.1[1] != keys.1[1] || keys.1[0] != values.1[0] || batch.is_none() {
            refuse(format_args!(
                "{name}: queries {}, keys {} and values {} do not fit: [.., queries, features], [.., keys, features], \
                 [.., keys, outputs]",
                shapes[0], shapes[1], shapes[2]
            ));
        }
        if let Some(fused) = self.attend_at_once(key, value, mask, scale) {
            return fused;
        }
        let scores = (self * scale).matrix_product(name, &key.transpose(-2, -1));
        if let Mask::Allowed(mask) | Mask::Added(mask) = mask {
            let fits = mask.shape().broadcast(scores.shape()).as_ref() == Some(scores.shape());
            if !fits {
                refuse(format_args!("{name}: the mask {} does not broadcast to {}", mask.shape(), scores.shape()));
            }
        }
        let weights = match mask {
            Mask::None => scores.softmax(-1),
            Mask::Causal => attention::hide_later(&scores).softmax(-1),
            Mask::Allowed(allowed) => {
                let scores = allowed.chosen([name, "mask"], scores, f64::NEG_INFINITY);
                scores.weights_where(&allowed.with_an_axis().any_dim(-1).unsqueeze(-1))
            }
            Mask::Added(bias) => scores.weights_with(bias),
        };
        weights.matrix_product(name, value)
    }

    /// The softmax of scores with `bias`, `[.., queries, keys]`; zeros for queries for which that is minus infinity
    /// everywhere.
    #[track_caller]
    pub(crate) fn weights_with(&self, bias: &Self) -> Self {
        (self + bias).weights_where(&bias.with_an_axis().max_keepdim(-1).ne(f64::NEG_INFINITY))
    }

    /// The softmax of scores where a query `sees` any key (`[.., queries, 1]`), and else zeros: not the NaN, here and in
    /// gradients, of a row of minus infinities.
    #[track_caller]
    fn weights_where(&self, sees: &Self) -> Self {
        sees.where_(sees.where_(self, 0.0).softmax(-1), 0.0)
    }

    /// The same with an axis if it has none.
    #[track_caller]
    fn with_an_axis(&self) -> Self {
        if self.rank() == 0 { self.unsqueeze(0) } else { self.clone() }
    }

    /// The same by one kernel that stores no scores; `None` where there is none, or where it would be slower: products
    /// of f16 are for units that multiply small matrices.
    #[track_caller]
    fn attend_at_once(&self, key: &Self, value: &Self, mask: Mask<'_>, scale: f64) -> Option<Self> {
        let causal = match mask {
            Mask::None => false,
            Mask::Causal => true,
            Mask::Allowed(_) | Mask::Added(_) => return None,
        };
        let operands = [self, key, value];
        let [of_query, of_key, of_value] = operands.map(|operand| operand.shape().split_at(operand.rank() - 2));
        let (&[queries, features], &[keys, width], &[rows, outputs]) = (of_query.1, of_key.1, of_value.1) else {
            unreachable!("two axes each")
        };
        let heads: usize = of_query.0.iter().product();
        let fits = of_query.0 == of_key.0 && of_key.0 == of_value.0 && features == width && keys == rows;
        let plain = operands.iter().all(|operand| operand.operand_of_product().dtype() == DType::F32);
        let sized = attention::FEATURES.contains(&features)
            && attention::FEATURES.contains(&outputs)
            && attention::QUERIES.contains(&queries)
            && attention::KEYS.contains(&keys);
        if !(fits && plain && sized && heads > 0) {
            return None;
        }
        let scale = Scalar::new(DType::F32, scale);
        let part = AttentionPart::Forward;
        let of = Attention { part, heads, queries, keys, features, outputs, scale, causal };
        let length = of.written();
        let both = Self::apply(Op::Attention(of), &operands, [length].into(), DType::F32);
        let shape: Vec<usize> = of_query.0.iter().copied().chain([queries, outputs]).collect();
        Some(both.narrow(0, 0, heads * queries * outputs).reshape(shape))
    }
}
