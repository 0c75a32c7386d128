//! Cholesky's factor.

use std::sync::LazyLock;

use rayon::prelude::*;

use crate::custom::{Call, CustomOp, Kernel, Signature, folded};
use crate::dtype::Scalar;
use crate::tensor::Tensor;

use super::matrices::{BLOCK, Matrices, assert_square, block, halved, joined, product, symmetric, transposed};
use super::system::System;
use super::triangular::{Triangle, triangular};

/// The lower triangular L with L Lᵀ = A, for a symmetric and positive definite A, of which only what is on and below
/// the diagonal is read: `[..., n, n]` → `[..., n, n]`. The gradient is symmetric (Murray 2016, arXiv 1602.07527).
/// PyTorch's `torch.linalg.cholesky`; where A is not positive definite, L has NaN in it.
///
/// ```
/// use brasa::{Device, Tensor, linalg};
///
/// let a = Tensor::from_slice(&[4.0_f32, 2.0, 2.0, 10.0], [2, 2], &Device::cpu())?;
/// assert_eq!(linalg::cholesky(&a).to_vec::<f32>()?, [2.0, 0.0, 1.0, 3.0]);
/// # Ok::<(), brasa::Error>(())
/// ```
///
/// # Panics
///
/// If A is not square.
#[track_caller]
#[must_use]
pub fn cholesky(a: &Tensor) -> Tensor {
    let matrices = Matrices::square("cholesky", a);
    let l = factor(&matrices.all).with_gradient(&[&matrices.all], |l, _, gradient| {
        // half of the diagonal
        let slope = product(&transposed(l), &gradient.tril(0));
        let slope = (slope.tril(0) + slope.tril(-1)) * 0.5;
        let by_row = triangular(&transposed(l), &slope, Triangle::Upper);
        vec![Some(symmetric(&triangular(&transposed(l), &transposed(&by_row), Triangle::Upper)))]
    });
    matrices.back(&l)
}

/// X of A X = B, from the factor L of A = L Lᵀ: `[..., n, k]`, `[..., n, n]` → `[..., n, k]` with broadcast leading
/// axes, or `[n]` for a B of one axis. PyTorch's `torch.cholesky_solve`.
///
/// # Panics
///
/// If L is not square, if B does not have as many rows or another type, or if leading axes do not broadcast.
#[track_caller]
#[must_use]
pub fn cholesky_solve(b: &Tensor, l: &Tensor) -> Tensor {
    assert_square("cholesky_solve", l);
    let system = System::of("cholesky_solve", l, b);
    let l = system.spread(&system.a);
    let half = triangular(&l, &system.b, Triangle::Lower);
    system.result(&triangular(&transposed(&l), &half, Triangle::Upper))
}

/// L of `[count, n, n]`, without a gradient.
#[track_caller]
fn factor(a: &Tensor) -> Tensor {
    let size = a.size(-1);
    if a.numel() == 0 {
        return a.clone();
    }
    if size <= BLOCK {
        let [l] = KERNEL.call([a]);
        return l;
    }
    let half = halved(size, BLOCK);
    let first = factor(&block(a, 0..half, 0..half));
    let across = transposed(&triangular(&first, &transposed(&block(a, half..size, 0..half)), Triangle::Lower));
    let rest = block(a, half..size, half..size) - product(&across, &transposed(&across));
    let second = factor(&rest);
    let nothing = Tensor::zeros([a.size(0), half, size - half], a.device());
    joined([[&first, &nothing], [&across, &second]])
}

static KERNEL: LazyLock<CustomOp<1>> = LazyLock::new(|| CustomOp::new(Cholesky).expect("the WGSL is valid"));

#[derive(PartialEq, Eq, Hash)]
struct Cholesky;

impl Kernel<1> for Cholesky {
    fn name(&self) -> &str {
        "cholesky"
    }

    fn wgsl(&self) -> &str {
        include_str!("../../shaders/linalg/cholesky.wgsl")
    }

    fn outputs(&self, [matrices]: &[Signature; 1]) -> [Signature; 1] {
        [matrices.clone()]
    }

    fn groups(&self, call: &Call) -> [u32; 3] {
        folded(call.outputs[0].shape[0])
    }

    fn params(&self, call: &Call) -> Vec<Scalar> {
        let shape = &call.outputs[0].shape;
        vec![(shape[1] as u32).into(), (shape[0] as u32).into()]
    }

    fn flops(&self, call: &Call) -> u64 {
        let shape = &call.outputs[0].shape;
        (shape.numel() * shape[1] / 3) as u64
    }

    fn is_batched(&self) -> bool {
        true
    }

    fn host(&self, call: &Call, [matrices]: [&[f64]; 1], [factors]: [&mut [f64]; 1]) {
        let size = call.outputs[0].shape[1];
        let factor = |(l, a): (&mut [f64], &[f64])| {
            for row in 0..size {
                let (done, own) = l.split_at_mut(row * size);
                for column in 0..row {
                    let other = &done[column * size..][..=column];
                    let before: f64 = own.iter().zip(&other[..column]).map(|(a, b)| a * b).sum();
                    own[column] = (a[row * size + column] - before) / other[column];
                }
                let before: f64 = own[..row].iter().map(|value| value * value).sum();
                own[row] = (a[row * size + row] - before).sqrt();
            }
        };
        factors.par_chunks_mut(size * size).zip(matrices.par_chunks(size * size)).for_each(factor);
    }
}
