//! Random graphs: a list of small numbers decides everything, so that a failing one can be shrunk.

#![allow(unreachable_pub, reason = "included by test crates and by unit tests, each at another depth")]

use super::api::{DType, Tensor};

/// One step: which op, on which earlier values, with which parameters.
pub type Choice = [u8; 4];

/// Shapes of the inputs every graph starts from.
pub const INPUTS: [&[usize]; 4] = [&[3, 5], &[5], &[2, 3, 4], &[4, 6]];

/// Values made from `inputs` (of shapes [`INPUTS`]) by `choices`; the last few. All stay within a few units.
pub fn build(choices: &[Choice], inputs: &[Tensor]) -> Vec<Tensor> {
    let mut pool = inputs.to_vec();
    for &choice in choices {
        let value = apply(choice, &pool);
        // keep values tame, and graphs small enough for the reference
        if value.numel() <= 4000 && value.rank() <= 5 {
            pool.push(value);
        }
    }
    pool.split_off(pool.len().saturating_sub(3))
}

fn apply([op, first, second, parameter]: Choice, pool: &[Tensor]) -> Tensor {
    // recent values more often: deep graphs rather than wide ones
    let pick = |n: u8| pool[pool.len() - 1 - usize::from(n) % pool.len()].clone();
    let (a, b, p) = (pick(first), pick(second), usize::from(parameter));
    let axis = |tensor: &Tensor| (p % tensor.rank().max(1)) as isize;
    let scalar = a.rank() == 0;
    match op % 26 {
        0 => broadcasting(&a, &b, |a, b| a + b) * 0.5,
        1 => broadcasting(&a, &b, |a, b| a - b) * 0.5,
        2 => broadcasting(&a, &b, |a, b| a * b).tanh(),
        3 => broadcasting(&a, &b, |a, b| a / (b.square() + 1.0)),
        4 => broadcasting(&a, &b, |a, b| a.maximum(b)),
        5 => broadcasting(&a, &b, |a, b| a.lt(b).where_(a * 0.5, b)),
        6 => a.tanh(),
        7 => a.sigmoid() - 0.25,
        8 => a.relu(),
        9 => a.gelu(),
        10 if !scalar => a.mean_dim(axis(&a)),
        11 if !scalar => a.sum_keepdim(axis(&a)).tanh(),
        12 if !scalar => a.max_keepdim(axis(&a)),
        13 if !scalar => a.softmax(axis(&a)),
        14 if !scalar => a.transpose(axis(&a), -1),
        15 if !scalar => a.flip(axis(&a)),
        16 if !scalar => {
            let size = a.size(axis(&a));
            let start = p % size.max(1);
            a.narrow(axis(&a), start, (size - start).min(2))
        }
        17 if !scalar => Tensor::cat(&[&a, &(&a * -1.0)], axis(&a)),
        18 => a.reshape([a.numel()]),
        19 => a.unsqueeze((p % (a.rank() + 1)) as isize),
        20 if !scalar => {
            let half = a.size(0) / 2;
            if half > 0 && a.size(0) % 2 == 0 { a.reshape([2, a.numel() / 2]) } else { a }
        }
        21 if a.rank() == 2 && b.rank() == 2 && a.size(1) == b.size(0) => a.matmul(&b) * 0.3,
        22 if a.rank() >= 1 => {
            let row = a.reshape([1, a.numel()]);
            (row.matmul(&row.t()) * 0.1).tanh()
        }
        23 if a.rank() == 2 => a.matmul(&a.t()).tanh(),
        24 if !scalar => {
            a.to_dtype(DType::F16).to_dtype(DType::F32) * 0.5 + a.argmax(axis(&a)).to_dtype(DType::F32).mean() * 0.1
        }
        25 if a.rank() == 2 && a.size(0) >= 2 && a.size(1) >= 2 => {
            let image = a.reshape([1, 1, a.size(0), a.size(1)]);
            image.max_pool2d(2, 1, 1).reshape([a.size(0) + 1, a.size(1) + 1])
        }
        _ => a.exp().log1p() - 0.3,
    }
}

/// `f(a, b)` if they broadcast, else `f(a, mean of b)`.
fn broadcasting(a: &Tensor, b: &Tensor, f: impl Fn(&Tensor, &Tensor) -> Tensor) -> Tensor {
    if a.shape().broadcast(b.shape()).is_some() { f(a, b) } else { f(a, &b.mean()) }
}
