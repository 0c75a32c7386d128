//! Queries, keys and values from what attention is given.

use crate::error::Result;
use crate::graph::refuse;
use crate::runtime::Var;
use crate::tensor::Tensor;

use super::super::{Init, Initial};
use super::AttentionOptions;

/// The projections of [`MultiheadAttention`](super::MultiheadAttention), named as in PyTorch.
#[derive(Debug)]
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
        let width = options.width;
        let widths = [width, options.key_width.unwrap_or(width), options.value_width.unwrap_or(width)];
        for (input, width) in [query, key, value].into_iter().zip(widths) {
            if input.rank() != 3 || input.size(2) != width {
                refuse(format_args!("attention: input {} is not [batch, sequence, {width}]", input.shape()));
            }
        }
        if self.weights.len() == 3 {
            return [self.part(options, query, 0), self.part(options, key, 1), self.part(options, value, 2)];
        }
        let same = |a: &Tensor, b: &Tensor| a.node().id == b.node().id;
        let all = match (same(query, key), same(key, value)) {
            (true, true) => self.parts(options, query, 0, 3),
            (false, true) => [self.parts(options, query, 0, 1), self.parts(options, key, 1, 2)].concat(),
            _ => {
                let [query, key] = [self.parts(options, query, 0, 1), self.parts(options, key, 1, 1)];
                [query, key, self.parts(options, value, 2, 1)].concat()
            }
        };
        all.try_into().unwrap_or_else(|_| unreachable!("three parts"))
    }

    /// Projection `number` of one input by a weight of its own.
    #[track_caller]
    fn part(&self, options: &AttentionOptions, input: &Tensor, number: usize) -> Tensor {
        let AttentionOptions { width, heads, .. } = *options;
        let projected = input.linear(&self.weights[number].tensor(), self.bias(width, number, 1).as_ref());
        projected.reshape([input.size(0), input.size(1), heads, width / heads]).permute([0, 2, 1, 3])
    }

    /// Parts `first` to `first + count` of the joint projection of one input, by one product.
    #[track_caller]
    fn parts(&self, options: &AttentionOptions, input: &Tensor, first: usize, count: usize) -> Vec<Tensor> {
        let AttentionOptions { width, heads, .. } = *options;
        let weight = self.weights[0].tensor().narrow(0, first * width, count * width);
        let split = input
            .linear(&weight, self.bias(width, first, count).as_ref())
            .reshape([input.size(0), input.size(1), count, heads, width / heads])
            .permute([2, 0, 3, 1, 4]);
        (0..count).map(|part| split.select(0, part)).collect()
    }

    fn bias(&self, width: usize, first: usize, count: usize) -> Option<Tensor> {
        self.bias.as_ref().map(|bias| bias.tensor().narrow(0, first * width, count * width))
    }
}
