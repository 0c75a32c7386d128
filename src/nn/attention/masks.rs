//! What attention may not see.

use crate::dtype::DType;
use crate::graph::refuse;
use crate::tensor::Tensor;

/// Which positions a position may look at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attention {
    /// All of them.
    Full,
    /// Itself and those before it.
    Causal,
}

/// What queries may not see, beyond [`Attention`]; as PyTorch's arguments of the same names.
#[derive(Clone, Copy, Default, Debug)]
pub struct AttentionMasks<'a> {
    /// Bool, `[batch, keys]`: true for keys that are padding.
    pub key_padding: Option<&'a Tensor>,
    /// `[queries, keys]`, or anything that broadcasts to `[batch, heads, queries, keys]`: bool, true for what is
    /// hidden, or floats, which are added to the scores.
    pub attn: Option<&'a Tensor>,
}

impl AttentionMasks<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.key_padding.is_none() && self.attn.is_none()
    }

    /// What is added to the scores, `None` for nothing: minus infinity where hidden.
    #[track_caller]
    pub(super) fn bias(&self) -> Option<Tensor> {
        let hidden = |mask: &Tensor| only(&mask.logical_not(), DType::F32);
        if let Some(mask) = self.key_padding.filter(|mask| mask.dtype() != DType::Bool || mask.rank() != 2) {
            let (dtype, shape) = (mask.dtype(), mask.shape());
            refuse(format_args!("attention: the key padding mask is {dtype} {shape}, not bool [batch, keys]"));
        }
        let padding = self.key_padding.map(|mask| hidden(mask).unsqueeze(1).unsqueeze(1));
        let scores = self.attn.map(|mask| if mask.dtype() == DType::Bool { hidden(mask) } else { mask.clone() });
        match (padding, scores) {
            (Some(padding), Some(scores)) => Some(padding + scores),
            (padding, scores) => padding.or(scores),
        }
    }
}

/// `[queries, keys]`: minus infinity for keys behind the last `queries` of `keys` positions and the query's own.
#[track_caller]
pub(super) fn causal(queries: usize, keys: usize, like: &Tensor) -> Tensor {
    let row = Tensor::iota([queries, keys], 0, like.device()) + (keys as i64 - queries as i64);
    let seen = Tensor::iota([queries, keys], 1, like.device()).le(row);
    only(&seen, like.dtype())
}

/// What leaves of scores those that are `seen`, if it is added to them: minus infinity for all others.
#[track_caller]
pub(super) fn only(seen: &Tensor, dtype: DType) -> Tensor {
    seen.where_(Tensor::zeros_of(seen.shape(), dtype, seen.device()), f64::NEG_INFINITY)
}
