//! Products of matrices and tensors.

use brasa::Tensor;

use super::{Row, one};

/// Einstein's summation under its equation's name.
macro_rules! einsum {
    ($($equation:literal),* $(,)?) => {
        [$(one!(concat!("einsum ", $equation), |x| Tensor::einsum($equation, &x.iter().collect::<Vec<_>>()))),*]
    };
}

pub(crate) fn rows() -> Vec<Row> {
    let named = [
        one!("matmul", |x| x[0].matmul(&x[1])),
        one!("bmm", |x| x[0].bmm(&x[1])),
        one!("mv", |x| x[0].mv(&x[1])),
        one!("dot", |x| x[0].dot(&x[1])),
        one!("outer", |x| x[0].outer(&x[1])),
        one!("inner", |x| x[0].inner(&x[1])),
        one!("kron", |x| x[0].kron(&x[1])),
        one!("addmm", |x| x[0].addmm(&x[1], &x[2], 0.5, 2.0)),
        one!("baddbmm", |x| x[0].baddbmm(&x[1], &x[2], 0.5, 2.0)),
        one!("tensordot", |x| x[0].tensordot(&x[1], [2, 0], [1, 0])),
    ];
    let equations = einsum![
        "ij,jk->ik",
        "ij,jk",
        "ba,ca",
        "ii->i",
        "ii",
        "ij->",
        "ij->ji",
        "...ij,...jk->...ik",
        "...i,i->...",
        "bij,bjk,bkl->bil",
        "i,j->ij",
        "ijj,j->i",
        "abc,acd,b->d",
        "i...->...",
        "bhid,bhjd->bhij"
    ];
    named.into_iter().chain(equations).collect()
}
