//! Attention as the operators that it is made of.

use crate::dtype::{DType, Scalar};
use crate::error::{Error, Result};
use crate::graph::{Attention, AttentionPart, NodeRef};

use super::Writer;
use super::builder::{Value, element_type, int};
use super::size::Size;
use super::trace::what;

impl Writer<'_> {
    /// The outputs, as one vector; what follows them in the op's own value is for gradients.
    pub(super) fn attention(&mut self, attention: &Attention, node: &NodeRef) -> Result<Value> {
        if attention.part != AttentionPart::Forward {
            return Err(Error::Export(format!("there is no operator of ONNX for {}", what(node))));
        }
        let &Attention { queries, keys, features, outputs, scale, causal, .. } = attention;
        let other = match &self.traced.other(node).op {
            crate::graph::Op::Attention(other) => other.heads,
            _ => attention.heads,
        };
        let heads = self.traced.between(attention.heads, other);
        let mut rows = |number: usize, rows: usize, width: usize| {
            let x = self.whole(&node.inputs[number])?;
            self.to.reshape(&x, &[heads, Size::of(rows), Size::of(width)])
        };
        let (query, key, value) = (rows(0, queries, features)?, rows(1, keys, features)?, rows(2, keys, outputs)?);
        let key = self.to.transpose(&key, &[0, 2, 1]);
        let dims = vec![heads, Size::of(queries), Size::of(keys)];
        let scale = self.to.scalar(scale);
        let query = self.to.value("Mul", &[&query.name, &scale], Vec::new(), query.dims.clone());
        let mut scores = self.to.value("MatMul", &[&query.name, &key.name], Vec::new(), dims.clone());
        if causal {
            let seen = |query: usize| (0..keys).map(move |key| u8::from(key < query + 1 + keys - queries));
            let mask = (0..queries).flat_map(seen).collect();
            let mask = self.to.constant(&[queries, keys], element_type(DType::Bool), mask);
            let hidden = self.to.scalar(Scalar::new(DType::F32, f64::NEG_INFINITY));
            scores = self.to.value("Where", &[&mask, &scores.name, &hidden], Vec::new(), dims.clone());
        }
        let weights = self.to.value("Softmax", &[&scores.name], vec![int("axis", -1)], dims);
        let dims = vec![heads, Size::of(queries), Size::of(outputs)];
        let value = self.to.value("MatMul", &[&weights.name, &value.name], Vec::new(), dims);
        let per_head = (queries * outputs) as i64;
        let length = Size { fixed: heads.fixed * per_head, per_batch: heads.per_batch * per_head };
        self.to.reshape(&value, &[length])
    }
}
