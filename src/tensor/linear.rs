//! Products of matrices, and sums of products in general.

use crate::graph::{Contract, Op};
use crate::ops::{contract, ok};

use super::Tensor;

impl Tensor {
    /// The matrix product `[..., m, k] · [..., k, n] → [..., m, n]` with broadcast leading axes; a vector's only axis is
    /// the summed one.
    #[track_caller]
    #[must_use]
    pub fn matmul(&self, other: &Self) -> Self {
        let product = ok(contract::matmul(self.shape(), other.shape()));
        let (lhs, rhs) = (self.reshape(&product.lhs), other.reshape(&product.rhs));
        let Contract { lhs: lhs_labels, rhs: rhs_labels, out } = product.contract;
        lhs.contract(&rhs, &lhs_labels, &rhs_labels, &out)
    }

    /// `x · weightᵀ + bias`: `[..., inputs]`, `[outputs, inputs]`, `[outputs]` → `[..., outputs]`.
    #[track_caller]
    #[must_use]
    pub fn linear(&self, weight: &Self, bias: Option<&Self>) -> Self {
        assert!(
            weight.rank() == 2 && self.shape().last() == weight.shape().last(),
            "linear: {} x {}, last axes differ or the weight is not [outputs, inputs]",
            self.shape(),
            weight.shape()
        );
        let rows: Vec<u8> = (2..=self.rank() as u8).collect();
        let product =
            self.contract(weight, &[rows.as_slice(), &[0]].concat(), &[1, 0], &[rows.as_slice(), &[1]].concat());
        match bias {
            Some(bias) => product + bias,
            None => product,
        }
    }

    /// Sums products over axes that only the operands share; every axis has a label. See [`Contract`].
    #[track_caller]
    #[must_use]
    pub fn contract(&self, other: &Self, lhs: &[u8], rhs: &[u8], out: &[u8]) -> Self {
        let contract = Contract { lhs: lhs.to_vec(), rhs: rhs.to_vec(), out: out.to_vec() };
        let shape = ok(contract::shape(&contract, self.shape(), other.shape()));
        assert!(
            self.dtype() == other.dtype(),
            "contract: {} and {} do not mix; cast one with to_dtype",
            self.dtype(),
            other.dtype()
        );
        assert!(
            crate::ops::elementwise::Domain::Number.contains(self.dtype()),
            "contract: not defined for {}; cast with to_dtype",
            self.dtype()
        );
        Self::apply(Op::Contract(contract), &[self, other], shape, self.dtype())
    }
}
