//! Queries, keys and values from what attention is given.

use crate::error::Result;
use crate::runtime::Var;
use crate::tensor::Tensor;

use super::super::{Init, Initial};
use super::AttentionOptions;

/// The projections of [`MultiheadAttention`](super::MultiheadAttention), named as in PyTorch.
pub struct InProjection {
    /// `[3 · width, width]` for queries, keys and values, or one for each if their widths differ: `[width, width]`,
    /// `[width, key width]`, `[width, value width]`.
    pub weights: Vec<Var>,
    /// `[3 · width]`
    pub bias: Option<Var>,
}

impl InProjection {
    pub(super) fn new(options: &AttentionOptions, init: &Init) -> Result<Self> {
        let width = options.width;
        let inputs = [width, options.key_width.unwrap_or(width), options.value_width.unwrap_or(width)];
        let weight =
            |name, outputs, inputs| init.parameter(name, [outputs, inputs], Initial::xavier_uniform(inputs, outputs));
        let weights = if inputs == [width; 3] {
            vec![weight("in_proj_weight", 3 * width, width)?]
        } else {
            let names = ["q_proj_weight", "k_proj_weight", "v_proj_weight"];
            names.into_iter().zip(inputs).map(|(name, inputs)| weight(name, width, inputs)).collect::<Result<_>>()?
        };
        let bias = options.bias.then(|| init.parameter("in_proj_bias", 3 * width, Initial::Constant(0.0)));
        Ok(Self { weights, bias: bias.transpose()? })
    }

    pub(super) fn visit(&self, visitor: &mut dyn FnMut(&Var)) {
        self.weights.iter().chain(&self.bias).for_each(visitor);
    }

    /// The three projections, `[batch, heads, sequence, width / heads]`.
    #[track_caller]
    pub(super) fn apply(
        &self,
        options: &AttentionOptions,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
    ) -> [Tensor; 3] {
        let AttentionOptions { width, heads, .. } = *options;
        let widths = [width, options.key_width.unwrap_or(width), options.value_width.unwrap_or(width)];
        for (input, width) in [query, key, value].into_iter().zip(widths) {
            let fits = input.rank() == 3 && input.size(2) == width;
            assert!(fits, "attention: input {} is not [batch, sequence, {width}]", input.shape());
        }
        let bias = self.bias.as_ref().map(Var::tensor);
        let bias = |first: usize, count: usize| bias.as_ref().map(|bias| bias.narrow(0, first * width, count * width));
        let [joint] = &self.weights[..] else {
            let part = |number: usize, input: &Tensor| {
                let projected = input.linear(&self.weights[number].tensor(), bias(number, 1).as_ref());
                projected.reshape([input.size(0), input.size(1), heads, width / heads]).permute([0, 2, 1, 3])
            };
            return [part(0, query), part(1, key), part(2, value)];
        };
        let weight = joint.tensor();
        // parts `first` to `first + count` of the projection of one input, by one product
        let parts = |input: &Tensor, first: usize, count: usize| -> Vec<Tensor> {
            let weight = weight.narrow(0, first * width, count * width);
            let split = input
                .linear(&weight, bias(first, count).as_ref())
                .reshape([input.size(0), input.size(1), count, heads, width / heads])
                .permute([2, 0, 3, 1, 4]);
            (0..count).map(|part| split.select(0, part)).collect()
        };
        let same = |a: &Tensor, b: &Tensor| a.node().id == b.node().id;
        let all = match (same(query, key), same(key, value)) {
            (true, true) => parts(query, 0, 3),
            (false, true) => [parts(query, 0, 1), parts(key, 1, 2)].concat(),
            _ => [parts(query, 0, 1), parts(key, 1, 1), parts(value, 2, 1)].concat(),
        };
        all.try_into().unwrap_or_else(|_| unreachable!("three parts"))
    }
}
