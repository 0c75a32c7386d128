//! Queries, keys and values from what attention is given.

use crate::error::Result;
use crate::graph::refuse;
use crate::runtime::Var;
use crate::tensor::Tensor;
use crate::variables;

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

    /// The three projections, `[batch, heads, sequence, width / heads]`.
    #[track_caller]
    pub(super) fn apply(
        &self,
        options: &AttentionOptions,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
    ) -> [Tensor; 3] {
        if self.is_joint() && same(query, key) && same(key, value) {
            return self.parts(options, query, 0);
        }
        let [key, value] = self.keys_and_values(options, key, value);
        [self.queries(options, query), key, value]
    }

    /// The first of them alone.
    #[track_caller]
    pub(super) fn queries(&self, options: &AttentionOptions, query: &Tensor) -> Tensor {
        let [query] = self.parts(options, query, 0);
        query
    }

    /// The others.
    #[track_caller]
    pub(super) fn keys_and_values(&self, options: &AttentionOptions, key: &Tensor, value: &Tensor) -> [Tensor; 2] {
        if self.is_joint() && same(key, value) {
            return self.parts(options, key, 1);
        }
        let ([key], [value]) = (self.parts(options, key, 1), self.parts(options, value, 2));
        [key, value]
    }

    /// True if one weight has all parts.
    fn is_joint(&self) -> bool {
        self.weights.len() == 1
    }

    /// Parts `first` to `first + COUNT` of one input, by one product.
    #[track_caller]
    fn parts<const COUNT: usize>(&self, options: &AttentionOptions, input: &Tensor, first: usize) -> [Tensor; COUNT] {
        let AttentionOptions { width, heads, .. } = *options;
        let weight = self.weight(width, first, COUNT);
        if input.rank() != 3 || input.size(2) != weight.size(1) {
            let (input, inputs) = (input.shape(), weight.size(1));
            refuse(format_args!("attention: input {input} is not [batch, sequence, {inputs}]"));
        }
        let split = input
            .linear(&weight, self.bias(width, first, COUNT).as_ref())
            .reshape([input.size(0), input.size(1), COUNT, heads, width / heads])
            .permute([2, 0, 3, 1, 4]);
        std::array::from_fn(|part| split.select(0, part))
    }

    /// `[count · width, inputs]`
    fn weight(&self, width: usize, first: usize, count: usize) -> Tensor {
        if self.is_joint() {
            self.weights[0].tensor().narrow(0, first * width, count * width)
        } else {
            self.weights[first].tensor()
        }
    }

    fn bias(&self, width: usize, first: usize, count: usize) -> Option<Tensor> {
        self.bias.as_ref().map(|bias| bias.tensor().narrow(0, first * width, count * width))
    }
}

variables!(InProjection: weights, bias);

fn same(a: &Tensor, b: &Tensor) -> bool {
    a.node().id == b.node().id
}
