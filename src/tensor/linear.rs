//! Products of matrices, and sums of products in general.

use crate::graph::{Contract, Op, refuse};
use crate::ops::elementwise::Domain;
use crate::ops::{contract, ok};

use super::{Axes, Tensor};

impl Tensor {
    /// The matrix product `[..., m, k] · [..., k, n] → [..., m, n]` with broadcast leading axes; a vector's only axis
    /// is the summed one.
    ///
    /// ```
    /// # use brasa::{Device, Tensor};
    /// let x = Tensor::arange(4, &Device::cpu()).reshape([2, 2]);
    /// assert_eq!(x.matmul(&x).to_vec::<i32>()?, [2, 3, 6, 11]);
    /// # Ok::<(), brasa::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    #[doc(alias = "mm")]
    pub fn matmul(&self, other: &Self) -> Self {
        self.matrix_product("matmul", other)
    }

    /// [`Tensor::matmul`] as a part of the method `name`.
    #[track_caller]
    pub(super) fn matrix_product(&self, name: &str, other: &Self) -> Self {
        let product = ok(contract::matmul(name, self.shape(), other.shape()));
        let (lhs, rhs) = (self.reshape(&product.lhs), other.reshape(&product.rhs));
        let Contract { lhs: lhs_labels, rhs: rhs_labels, out } = product.contract;
        lhs.contract_for(name, &rhs, &lhs_labels, &rhs_labels, &out)
    }

    /// `x · weightᵀ + bias`: `[..., inputs]`, `[outputs, inputs]`, `[outputs]` → `[..., outputs]`.
    #[track_caller]
    #[must_use]
    pub fn linear(&self, weight: &Self, bias: Option<&Self>) -> Self {
        if weight.rank() != 2 || self.shape().last() != weight.shape().last() {
            let (x, weight) = (self.shape(), weight.shape());
            refuse(format_args!("linear: {x} x {weight}, last axes differ or the weight is not [outputs, inputs]"));
        }
        if let Some(bias) = bias.filter(|bias| *bias.shape() != [weight.shape()[0]].into()) {
            refuse(format_args!("linear: {} x {}, the bias is {}", self.shape(), weight.shape(), bias.shape()));
        }
        let rows: Vec<u8> = (2..=self.rank() as u8).collect();
        let (left, out) = ([rows.as_slice(), &[0]].concat(), [rows.as_slice(), &[1]].concat());
        let product = self.contract_for("linear", weight, &left, &[1, 0], &out);
        match bias {
            Some(bias) => &product + bias.operand_of_product(),
            None => product,
        }
    }

    /// Sums products over axes that only the operands share; every axis has a label. See [`Contract`].
    #[track_caller]
    #[must_use]
    pub fn contract(&self, other: &Self, lhs: &[u8], rhs: &[u8], out: &[u8]) -> Self {
        self.contract_for("contract", other, lhs, rhs, out)
    }

    /// [`Tensor::contract`] as a part of the method `name`.
    #[track_caller]
    pub(super) fn contract_for(&self, name: &str, other: &Self, lhs: &[u8], rhs: &[u8], out: &[u8]) -> Self {
        let (left, right) = (self.operand_of_product(), other.operand_of_product());
        let (a, b) = (left.dtype(), right.dtype());
        if a != b {
            refuse(format_args!("{name}: {a} and {b} do not mix; cast one with to_dtype"));
        }
        if !Domain::Number.contains(a) {
            refuse(format_args!("{name}: not defined for {a}; cast with to_dtype"));
        }
        left.contract_as_it_is(&right, lhs, rhs, out)
    }

    /// [`Tensor::contract`] in the operands' type, whatever [`autocast`](crate::autocast) is under way: gradients have
    /// that of what they are of, and sums by index are not products to those who ask for them.
    #[track_caller]
    pub(crate) fn contract_as_it_is(&self, other: &Self, lhs: &[u8], rhs: &[u8], out: &[u8]) -> Self {
        let contract = Contract { lhs: lhs.into(), rhs: rhs.into(), out: out.into() };
        let shape = ok(contract::shape(&contract, self.shape(), other.shape()));
        Self::apply(Op::Contract(contract), &[self, other], shape, self.dtype())
    }

    /// A batch of matrix products: `[batch, m, k]`, `[batch, k, n]` → `[batch, m, n]`; nothing broadcasts.
    #[track_caller]
    #[must_use]
    pub fn bmm(&self, other: &Self) -> Self {
        self.batch_product("bmm", other)
    }

    #[track_caller]
    fn batch_product(&self, name: &str, other: &Self) -> Self {
        self.assert_ranks(name, other, [3, 3]);
        assert!(self.shape()[0] == other.shape()[0], "{name}: {} x {}, batches differ", self.shape(), other.shape());
        self.matrix_product(name, other)
    }

    /// Matrix times vector: `[m, k]`, `[k]` → `[m]`.
    #[track_caller]
    #[must_use]
    pub fn mv(&self, vector: &Self) -> Self {
        self.assert_ranks("mv", vector, [2, 1]);
        self.matrix_product("mv", vector)
    }

    /// The sum of products of two vectors.
    #[track_caller]
    #[must_use]
    pub fn dot(&self, other: &Self) -> Self {
        self.assert_ranks("dot", other, [1, 1]);
        self.matrix_product("dot", other)
    }

    /// All products of two vectors: `[m]`, `[n]` → `[m, n]`.
    #[track_caller]
    #[must_use]
    pub fn outer(&self, other: &Self) -> Self {
        self.assert_ranks("outer", other, [1, 1]);
        self.contract_for("outer", other, &[0], &[1], &[0, 1])
    }

    /// Sums of products over the last axes: `[.., k]`, `[.., k]` → both leading axes.
    #[track_caller]
    #[must_use]
    pub fn inner(&self, other: &Self) -> Self {
        if self.rank() == 0 || other.rank() == 0 { self * other } else { self.summed("inner", other, &[-1], &[-1]) }
    }

    /// Sums of products over axes `axes` of `self` and `others` of `other`, pair by pair; then the remaining axes of
    /// both.
    #[track_caller]
    #[must_use]
    pub fn tensordot(&self, other: &Self, axes: impl Axes, others: impl Axes) -> Self {
        self.summed("tensordot", other, &axes.axes(), &others.axes())
    }

    /// [`Tensor::tensordot`] as a part of the method `name`.
    #[track_caller]
    fn summed(&self, name: &str, other: &Self, axes: &[isize], others: &[isize]) -> Self {
        assert!(axes.len() == others.len(), "{name}: {axes:?} and {others:?} are not pairs");
        let mut left: Vec<u8> = (0..self.rank() as u8).collect();
        let mut right: Vec<u8> = (0..other.rank() as u8).map(|axis| 64 + axis).collect();
        for (number, (&axis, &beside)) in axes.iter().zip(others).enumerate() {
            let (own, its) = (self.axis(name, axis), other.axis(name, beside));
            let (a, b) = (self.shape(), other.shape());
            assert!(a[own] == b[its], "{name}: {a} x {b}, axis {axis} is {} and axis {beside} {}", a[own], b[its]);
            (left[own], right[its]) = (128 + number as u8, 128 + number as u8);
        }
        let out: Vec<u8> = left.iter().chain(&right).copied().filter(|label| *label < 128).collect();
        self.contract_for(name, other, &left, &right, &out)
    }

    /// `beta · self + alpha · a · b` of matrices; `self` broadcasts. If `beta` is 0, what is in `self` is not looked at:
    /// neither NaN nor infinity shows.
    #[track_caller]
    #[must_use]
    pub fn addmm(&self, a: &Self, b: &Self, beta: f64, alpha: f64) -> Self {
        a.assert_ranks("addmm", b, [2, 2]);
        self.plus_product("addmm", a.matrix_product("addmm", b), beta, alpha)
    }

    /// `beta · self + alpha · a · b` of batches of matrices, as [`Tensor::addmm`].
    #[track_caller]
    #[must_use]
    pub fn baddbmm(&self, a: &Self, b: &Self, beta: f64, alpha: f64) -> Self {
        self.plus_product("baddbmm", a.batch_product("baddbmm", b), beta, alpha)
    }

    #[track_caller]
    fn plus_product(&self, name: &str, product: Self, beta: f64, alpha: f64) -> Self {
        let (own, whole) = (self.shape(), product.shape());
        let fits = own.broadcast(whole).is_some_and(|both| both == *whole) && self.dtype() == product.dtype();
        let [own_type, type_of_product] = [self.dtype(), product.dtype()];
        assert!(fits, "{name}: {own_type}{own} does not broadcast to the product {type_of_product}{whole}");
        if beta == 0.0 { product * alpha } else { self * beta + product * alpha }
    }

    /// Kronecker's product: each element of `self` times all of `other`; missing leading axes are of size 1.
    #[track_caller]
    #[must_use]
    pub fn kron(&self, other: &Self) -> Self {
        let rank = self.rank().max(other.rank());
        let size = |tensor: &Self, axis: usize| {
            (axis + tensor.rank()).checked_sub(rank).map_or(1, |axis| tensor.shape()[axis])
        };
        let (mut left, mut right, mut whole) = (Vec::new(), Vec::new(), Vec::new());
        for axis in 0..rank {
            left.extend([size(self, axis), 1]);
            right.extend([1, size(other, axis)]);
            whole.push(size(self, axis) * size(other, axis));
        }
        (self.reshape(left) * other.reshape(right)).reshape(whole)
    }

    #[track_caller]
    fn assert_ranks(&self, name: &str, other: &Self, ranks: [usize; 2]) {
        assert!(
            [self.rank(), other.rank()] == ranks,
            "{name}: {} x {}, ranks are not {} and {}",
            self.shape(),
            other.shape(),
            ranks[0],
            ranks[1]
        );
    }
}
