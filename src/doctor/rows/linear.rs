//! Products and attention.

use crate::tensor::Mask;
use crate::{DType, Tensor};

use super::{Row, row};

pub(super) fn rows() -> Vec<Row> {
    let int = |row: Row| row.typed(DType::I32, -9.0, 9.0, [&[3, 4], &[4, 2]]);
    vec![
        int(row("matmul", |x| x[0].matmul(&x[1])))
            .on([&[3, 4], &[4, 5]])
            .on([&[4], &[4]])
            .on([&[3, 4], &[4]])
            .on([&[4], &[4, 2]])
            .on([&[2, 3, 4], &[4, 5]])
            .on([&[3, 4], &[2, 4, 5]])
            .on([&[2, 1, 3, 4], &[5, 4, 2]])
            .on([&[1, 3, 4], &[2, 4, 1]])
            .on([&[3, 0], &[0, 2]])
            .on([&[0, 3], &[3, 2]]),
        row("linear", |x| x[0].linear(&x[1], Some(&x[2]))).on([&[2, 3, 4], &[5, 4], &[5]]).on([&[4], &[5, 4], &[5]]),
        row("contract", |x| x[0].contract(&x[1], &[0, 1, 2], &[2, 3, 0], &[3, 0, 1])).on([&[2, 3, 4], &[4, 5, 2]]),
        row("attention", |x| x[0].scaled_dot_product_attention(&x[1], &x[2], Mask::Causal))
            .on([&[2, 3, 4], &[2, 3, 4], &[2, 3, 5]])
            .on([&[2, 4], &[5, 4], &[5, 3]]),
        // sizes at which it is one kernel, in blocks or tiles of 16 to 64
        row("attention_at_once", |x| x[0].scaled_dot_product_attention(&x[1], &x[2], Mask::None))
            .on([&[2, 17, 5], &[2, 3, 5], &[2, 3, 6]])
            .on([&[33, 4], &[2, 4], &[2, 1]])
            .on([&[2, 35, 64], &[2, 17, 64], &[2, 17, 61]]),
        row("attention_causal_at_once", |x| x[0].scaled_dot_product_attention(&x[1], &x[2], Mask::Causal))
            .on([&[16, 4], &[19, 4], &[19, 3]])
            .on([&[3, 2, 17, 2], &[3, 2, 17, 2], &[3, 2, 17, 2]])
            .on([&[37, 64], &[41, 64], &[41, 64]])
            .on([&[2, 33, 37], &[2, 33, 37], &[2, 33, 32]]),
        row("attention_masked", |x| x[0].scaled_dot_product_attention(&x[1], &x[2], Mask::Added(&x[3]))).on([
            &[3, 4],
            &[2, 4],
            &[2, 4],
            &[3, 2],
        ]),
        row("bmm", |x| x[0].bmm(&x[1])).on([&[2, 3, 4], &[2, 4, 5]]),
        row("mv", |x| x[0].mv(&x[1])).on([&[3, 4], &[4]]),
        row("dot", |x| x[0].dot(&x[1])).on([&[7], &[7]]),
        row("outer", |x| x[0].outer(&x[1])).on([&[3], &[4]]),
        row("inner", |x| x[0].inner(&x[1])).on([&[2, 3], &[4, 3]]),
        row("tensordot", |x| x[0].tensordot(&x[1], [2, 0], [1, 0])).on([&[2, 3, 4], &[2, 4, 5]]),
        row("kron", |x| x[0].kron(&x[1])).on([&[2, 3], &[4, 2]]).on([&[3], &[2, 2]]),
        row("addmm", |x| x[0].addmm(&x[1], &x[2], 0.5, 2.0)).on([&[5], &[3, 4], &[4, 5]]),
        row("baddbmm", |x| x[0].baddbmm(&x[1], &x[2], 0.5, 2.0)).on([&[2, 3, 5], &[2, 3, 4], &[2, 4, 5]]),
        row("einsum", |x| Tensor::einsum("bij,bjk,bkl->lib", &[&x[0], &x[1], &x[2]])).on([
            &[2, 3, 4],
            &[2, 4, 2],
            &[2, 2, 3],
        ]),
        row("einsum_diagonal", |x| Tensor::einsum("...ii,i->...", &[&x[0], &x[1]])).on([&[2, 1, 3, 3], &[3]]),
        row("attention_grouped", |x| x[0].grouped_query_attention(&x[1], &x[2], Mask::Causal, None)).on([
            &[4, 3, 4],
            &[2, 3, 4],
            &[2, 3, 5],
        ]),
    ]
}
