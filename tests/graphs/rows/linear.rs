//! Products of matrices and tensors, and attention.

use brasa::Tensor;
use brasa::tensor::Mask;

use super::{Row, one};

/// Sums with letters of sizes that a row draws.
const EQUATIONS: [&str; 14] = [
    "ij,jk->ik",
    "ij,kj->ik",
    "ij,ik->jk",
    "bij,bjk->bik",
    "ij->ji",
    "ij->j",
    "i,j->ij",
    "ijk,k->ij",
    "bi,bj->ij",
    "abc,acd,b->d",
    "ij,j->",
    "bhid,bhjd->bhij",
    "aij,bij->ab",
    "iij->j",
];

pub(super) fn rows() -> Vec<Row> {
    vec![
        one!("matmul", |d| {
            let x = d.ranked(1, 5);
            let (inner, outer) = (x.size(-1), d.between(1, 4));
            let w = d.shaped(&[inner, outer]);
            x.matmul(&w) * 0.3
        }),
        one!("matmul_batched", |d| {
            let [b, m, k, n] = [d.between(1, 3), d.between(1, 4), d.between(1, 5), d.between(1, 4)];
            let wide = d.flag();
            let (x, w) = (d.shaped(&[b, m, k]), d.shaped(&if wide { vec![2, 1, k, n] } else { vec![b, k, n] }));
            x.matmul(&w) * 0.3
        }),
        one!("matmul_vector", |d| {
            let x = d.ranked(1, 3);
            let v = d.shaped(&[x.size(-1)]);
            if d.flag() {
                x.matmul(&v) * 0.3
            } else {
                v.matmul(&x.transpose(-1, -1).reshape([v.numel() as isize, -1])) * 0.3
            }
        }),
        one!("gram", |d| {
            let x = d.ranked(2, 3);
            x.matmul(&x.transpose(-2, -1)) * 0.2
        }),
        one!("integer_matmul", |d| {
            let [m, k, n] = [d.between(1, 4), d.between(1, 4), d.between(1, 4)];
            d.index(9, &[m, k]).to_dtype(brasa::DType::I32).matmul(&d.index(7, &[k, n]).to_dtype(brasa::DType::I32))
        }),
        one!("linear", |d| {
            let x = d.ranked(1, 4);
            let (inputs, outputs) = (x.size(-1), d.between(1, 4));
            let (w, b) = (d.shaped(&[outputs, inputs]), d.shaped(&[outputs]));
            let bias = d.flag();
            (x * 0.3).linear(&w, bias.then_some(&b))
        }),
        one!("linear_relu", |d| {
            // what a layer is: bias and activation ride on the product
            let x = d.ranked(2, 3);
            let (inputs, outputs) = (x.size(-1), d.between(1, 5));
            let (w, b) = (d.shaped(&[outputs, inputs]), d.shaped(&[outputs]));
            ((&x * 0.3).matmul(&w.t()) + b).relu()
        }),
        one!("bmm", |d| {
            let [b, m, k, n] = [d.between(1, 3), d.between(1, 4), d.between(1, 4), d.between(1, 4)];
            d.shaped(&[b, m, k]).bmm(&d.shaped(&[b, k, n])) * 0.3
        }),
        one!("mv", |d| {
            let x = d.ranked(2, 2);
            let v = d.shaped(&[x.size(1)]);
            x.mv(&v) * 0.3
        }),
        one!("dot", |d| {
            let x = d.ranked(1, 1);
            let y = d.shaped(x.shape().dims());
            x.dot(&y) * 0.1
        }),
        one!("outer", |d| d.ranked(1, 1).outer(&d.ranked(1, 1))),
        one!("inner", |d| {
            let x = d.ranked(1, 3);
            let y = d.shaped(&[3, x.size(-1)]);
            x.inner(&y) * 0.3
        }),
        one!("tensordot", |d| {
            let [a, b, c, e] = [d.between(1, 3), d.between(1, 3), d.between(1, 3), d.between(1, 3)];
            d.shaped(&[a, b, c]).tensordot(&d.shaped(&[c, e, a]), [2, 0], [0, 2]) * 0.3
        }),
        one!("contract", |d| {
            let [a, b, c, e] = [d.between(1, 3), d.between(1, 3), d.between(1, 3), d.between(1, 3)];
            d.shaped(&[a, b, c]).contract(&d.shaped(&[c, e, a]), &[0, 1, 2], &[2, 3, 0], &[3, 0, 1])
        }),
        one!("addmm", |d| {
            let [m, k, n] = [d.between(1, 4), d.between(1, 4), d.between(1, 4)];
            d.shaped(&[n]).addmm(&d.shaped(&[m, k]), &d.shaped(&[k, n]), 0.5, 0.3)
        }),
        one!("baddbmm", |d| {
            let [b, m, k, n] = [d.between(1, 3), d.between(1, 3), d.between(1, 4), d.between(1, 3)];
            d.shaped(&[b, m, n]).baddbmm(&d.shaped(&[b, m, k]), &d.shaped(&[b, k, n]), 0.5, 0.3)
        }),
        one!("kron", |d| {
            let (a, b) = (d.sizes(2, 4), d.sizes(2, 4));
            d.shaped(&a).kron(&d.shaped(&b))
        }),
        one!("einsum", |d| {
            let equation = d.of(&EQUATIONS);
            let mut sizes = std::collections::HashMap::new();
            let terms: Vec<&str> = equation.split("->").next().unwrap_or_default().split(',').collect();
            let operands: Vec<Tensor> = terms
                .into_iter()
                .map(|term| {
                    let shape: Vec<usize> =
                        term.chars().map(|letter| *sizes.entry(letter).or_insert_with(|| d.between(1, 4))).collect();
                    d.shaped(&shape)
                })
                .collect();
            Tensor::einsum(equation, &operands.iter().collect::<Vec<_>>()) * 0.3
        }),
        one!("attention", |d| {
            let [b, m, n, k, v] = [d.between(1, 2), d.between(1, 4), d.between(1, 4), d.between(1, 4), d.between(1, 4)];
            let (q, k, v) = (d.shaped(&[b, m, k]), d.shaped(&[b, n, k]), d.shaped(&[b, n, v]));
            match d.number(4) {
                0 => q.scaled_dot_product_attention(&k, &v, Mask::None),
                1 => q.scaled_dot_product_attention(&k, &v, Mask::Added(&d.shaped(&[m, n]))),
                // a row of nothing allowed is NaN
                2 => {
                    let allowed = d
                        .truth(&[m, n])
                        .logical_or(&Tensor::eye(n.max(m), q.device()).gt(0.5).narrow(0, 0, m).narrow(1, 0, n));
                    q.scaled_dot_product_attention(&k, &v, Mask::Allowed(&allowed))
                }
                // the first query sees at least one key
                _ => q.narrow(1, 0, n.min(m)).scaled_dot_product_attention(&k, &v, Mask::Causal),
            }
        }),
        one!("attention_grouped", |d| {
            let [groups, each, m, n] = [d.between(1, 2), d.between(1, 2), d.between(1, 3), d.between(1, 3)];
            let (q, k) = (d.shaped(&[groups * each, m, 3]), d.shaped(&[groups, n, 3]));
            let v = d.shaped(&[groups, n, 2]);
            q.grouped_query_attention(&k, &v, Mask::None, Some(0.4))
        }),
    ]
}
