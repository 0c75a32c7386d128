//! Sums of products as convolutions, `Gemm` and `MatMul`.

use crate::error::Result;
use crate::graph::{Contract, Labels, NodeRef, Op};

use super::Writer;
use super::builder::{Value, int};
use super::size::Size;
use super::trace::{depends, resolved};
use super::views::permutation;

/// An operand with its axes' labels.
struct Operand {
    value: Value,
    labels: Labels,
}

impl Writer<'_> {
    /// A contraction, with a vector added along the channels of a convolution, or the columns of a matrix.
    pub(super) fn contract(&mut self, contract: &Contract, node: &NodeRef, bias: Option<&NodeRef>) -> Result<Value> {
        if let Some(convolution) = self.convolution(contract, node) {
            return self.convolve(&convolution, node, bias);
        }
        let lhs = self.operand(&node.inputs[0], &contract.lhs)?;
        let rhs = self.operand(&node.inputs[1], &contract.rhs)?;
        if let Some(value) = self.gemm(&lhs, &rhs, &contract.out, bias)? {
            return Ok(value);
        }
        debug_assert!(bias.is_none(), "nothing else takes one");
        // the operand whose own axes come first in the output is multiplied from the left
        let first = contract.out.iter().find(|label| lhs.labels.contains(label) != rhs.labels.contains(label));
        let (lhs, rhs) = match first {
            Some(label) if rhs.labels.contains(label) => (rhs, lhs),
            _ => (lhs, rhs),
        };
        self.matmul(&lhs, &rhs, &contract.out)
    }

    /// Whether a contraction takes a vector to add.
    pub(super) fn takes_bias(&mut self, contract: &Contract, node: &NodeRef) -> bool {
        let rank = |number: usize| node.inputs[number].shape.rank();
        self.convolution(contract, node).is_some()
            || rank(0) == 2 && rank(1) == 2 && contract.out.len() == 2 && contract.out[0] != contract.out[1] && {
                let [row, column] = [contract.out[0], contract.out[1]];
                contract.lhs.contains(&row) && contract.rhs.contains(&column) && !contract.lhs.contains(&column)
            }
    }

    /// The value and the labels; exchanged axes are other labels.
    fn operand(&mut self, node: &NodeRef, labels: &Labels) -> Result<Operand> {
        let (mut node, mut labels) = (resolved(node), labels.clone());
        while let Op::View(view) = &node.op
            && let Some(order) = permutation(view, node)
        {
            let mut before = labels.clone();
            for (out, &axis) in order.iter().enumerate() {
                before[axis] = labels[out];
            }
            labels = before;
            node = resolved(&node.inputs[0]);
        }
        Ok(Operand { value: self.whole(node)?, labels })
    }

    /// A product of two matrices as they lie in memory.
    fn gemm(&mut self, lhs: &Operand, rhs: &Operand, out: &[u8], bias: Option<&NodeRef>) -> Result<Option<Value>> {
        let (&[row, column], [a, b], [c, d]) = (out, &lhs.labels[..], &rhs.labels[..]) else { return Ok(None) };
        let (turned_lhs, inner) = if *a == row { (false, *b) } else { (true, *a) };
        let (turned_rhs, other) = if *d == column { (false, *c) } else { (true, *d) };
        let is_product = inner == other
            && lhs.labels.contains(&row)
            && rhs.labels.contains(&column)
            && ![row, column].contains(&inner)
            && row != column;
        if !is_product || (bias.is_none() && !turned_lhs && !turned_rhs) {
            return Ok(None);
        }
        let size = |operand: &Operand, label: u8| {
            operand.value.dims[operand.labels.iter().position(|own| *own == label).unwrap_or(0)]
        };
        let dims = vec![size(lhs, row), size(rhs, column)];
        let mut attributes = Vec::new();
        if turned_lhs {
            attributes.push(int("transA", 1));
        }
        if turned_rhs {
            attributes.push(int("transB", 1));
        }
        let bias = bias.map(|bias| self.whole(bias)).transpose()?;
        let mut inputs = vec![lhs.value.name.as_str(), &rhs.value.name];
        inputs.extend(bias.iter().map(|bias| bias.name.as_str()));
        Ok(Some(self.to.value("Gemm", &inputs, attributes, dims)))
    }

    /// A product of matrices, or batches of them, whose axes are brought into order first.
    fn matmul(&mut self, lhs: &Operand, rhs: &Operand, out: &Labels) -> Result<Value> {
        let both = |label: &&u8| lhs.labels.contains(label) && rhs.labels.contains(label);
        let batch: Vec<u8> = out.iter().filter(both).copied().collect();
        let rows: Vec<u8> = out.iter().filter(|label| !rhs.labels.contains(label)).copied().collect();
        let columns: Vec<u8> = out.iter().filter(|label| !lhs.labels.contains(label)).copied().collect();
        let inner: Vec<u8> = lhs.labels.iter().filter(|label| !out.contains(label)).copied().collect();
        let left = self.ordered(lhs, &[batch.as_slice(), &rows, &inner].concat());
        let right = self.ordered(rhs, &[batch.as_slice(), &inner, &columns].concat());
        let (b, m, k) = (batch.len(), rows.len(), inner.len());
        let [batches, row_sizes, inner_sizes] =
            [&left.dims[..b], &left.dims[b..b + m], &left.dims[b + m..]].map(<[Size]>::to_vec);
        let column_sizes = right.dims[b + k..].to_vec();
        // several rows stay as they are before a plain matrix
        let plain = b == 0 && k == 1 && columns.len() == 1;
        let (left, right) = if plain && m > 0 || m == 1 && k == 1 && columns.len() == 1 {
            (left, right)
        } else {
            let (m, k, n) = (product(&row_sizes)?, product(&inner_sizes)?, product(&column_sizes)?);
            let left = self.to.reshape(&left, &[batches.as_slice(), &[m, k]].concat())?;
            (left, self.to.reshape(&right, &[batches.as_slice(), &[k, n]].concat())?)
        };
        let mut dims = left.dims[..left.dims.len() - 1].to_vec();
        dims.extend(right.dims.last());
        let value = self.to.value("MatMul", &[&left.name, &right.name], Vec::new(), dims);
        let value = self.to.reshape(&value, &[batches, row_sizes, column_sizes].concat())?;
        let labels = [batch, rows, columns].concat();
        let place = |label: &u8| labels.iter().position(|own| own == label).unwrap_or(0);
        Ok(self.to.transpose(&value, &out.iter().map(place).collect::<Vec<_>>()))
    }

    /// The value with its axes in the order of these labels.
    fn ordered(&mut self, operand: &Operand, labels: &[u8]) -> Value {
        let place = |label: &u8| operand.labels.iter().position(|own| own == label).unwrap_or(0);
        self.to.transpose(&operand.value, &labels.iter().map(place).collect::<Vec<_>>())
    }
}

/// The number of elements. One of the sizes may depend on the batch.
pub(super) fn product(sizes: &[Size]) -> Result<Size> {
    sizes.iter().try_fold(Size::ONE, |a, b| {
        if a.per_batch != 0 && b.per_batch != 0 {
            return Err(depends("a product of two sizes that do"));
        }
        let per_batch = a.per_batch * b.fixed + a.fixed * b.per_batch;
        Ok(Size { fixed: a.fixed * b.fixed, per_batch })
    })
}
