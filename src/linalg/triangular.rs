//! Systems with triangular matrices.

use std::sync::LazyLock;

use rayon::prelude::*;

use crate::custom::{Call, CustomOp, Kernel, Signature, folded};
use crate::dtype::Scalar;
use crate::tensor::Tensor;

use super::matrices::{BLOCK, assert_square, block, halved, product, transposed};
use super::system::System;

/// Which elements of a matrix count; the others are taken for zeros, whatever they are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Triangle {
    /// Those on and below the diagonal.
    Lower,
    /// Those below the diagonal, which is taken for ones.
    UnitLower,
    /// Those on and above the diagonal.
    Upper,
    /// Those above the diagonal, which is taken for ones.
    UnitUpper,
}

impl Triangle {
    const fn is_upper(self) -> bool {
        matches!(self, Self::Upper | Self::UnitUpper)
    }

    const fn is_unit(self) -> bool {
        matches!(self, Self::UnitLower | Self::UnitUpper)
    }

    const fn transposed(self) -> Self {
        match self {
            Self::Lower => Self::Upper,
            Self::UnitLower => Self::UnitUpper,
            Self::Upper => Self::Lower,
            Self::UnitUpper => Self::UnitLower,
        }
    }

    /// The elements of `matrix` that are read, zero elsewhere.
    #[track_caller]
    fn of(self, matrix: &Tensor) -> Tensor {
        match self {
            Self::Lower => matrix.tril(0),
            Self::UnitLower => matrix.tril(-1),
            Self::Upper => matrix.triu(0),
            Self::UnitUpper => matrix.triu(1),
        }
    }
}

/// The solution X of T X = B for a triangular T: `[..., n, n]`, `[..., n, k]` → `[..., n, k]` with broadcast leading
/// axes, or `[n]` for a B of one axis. PyTorch's `torch.linalg.solve_triangular`; X T = B is what the transposed ones
/// solve.
///
/// ```
/// use brasa::linalg::{Triangle, solve_triangular};
/// use brasa::{Device, Tensor};
///
/// let device = Device::cpu();
/// let t = Tensor::from_slice(&[2.0_f32, 0.0, 1.0, 4.0], [2, 2], &device)?;
/// let b = Tensor::from_slice(&[2.0_f32, 9.0], [2], &device)?;
/// assert_eq!(solve_triangular(&t, &b, Triangle::Lower).to_vec::<f32>()?, [1.0, 2.0]);
/// # Ok::<(), brasa::Error>(())
/// ```
///
/// # Panics
///
/// If T is not square, if B does not have as many rows or another type, or if leading axes do not broadcast.
#[track_caller]
#[must_use]
pub fn solve_triangular(t: &Tensor, b: &Tensor, triangle: Triangle) -> Tensor {
    assert_square("solve_triangular", t);
    let system = System::of("solve_triangular", t, b);
    system.result(&triangular(&system.spread(&system.a), &system.b, triangle))
}

/// X of T X = B, `[count, n, n]` and `[count, n, k]` in f32.
#[track_caller]
pub(super) fn triangular(t: &Tensor, b: &Tensor, triangle: Triangle) -> Tensor {
    substitute(t, b, triangle).with_gradient(&[t, b], move |x, inputs, gradient| {
        let by_b = triangular(&transposed(&inputs[0]), gradient, triangle.transposed());
        let by_t = -triangle.of(&product(&by_b, &transposed(x)));
        vec![Some(by_t), Some(by_b)]
    })
}

/// The same without a gradient: halves of it, until they are small enough for the kernel.
#[track_caller]
fn substitute(t: &Tensor, b: &Tensor, triangle: Triangle) -> Tensor {
    let size = t.size(-1);
    if b.numel() == 0 {
        return b.clone();
    }
    if size <= BLOCK {
        let [x] = KERNELS[usize::from(triangle.is_upper())][usize::from(triangle.is_unit())].call([t, b]);
        return x;
    }
    let half = halved(size, BLOCK);
    let corners = [block(t, 0..half, 0..half), block(t, half..size, half..size)];
    let (above, below) = (b.slice(-2, 0..half), b.slice(-2, half..size));
    let (first, second) = if triangle.is_upper() {
        let second = substitute(&corners[1], &below, triangle);
        let rest = above - product(&block(t, 0..half, half..size), &second);
        (substitute(&corners[0], &rest, triangle), second)
    } else {
        let first = substitute(&corners[0], &above, triangle);
        let rest = below - product(&block(t, half..size, 0..half), &first);
        let second = substitute(&corners[1], &rest, triangle);
        (first, second)
    };
    Tensor::cat(&[&first, &second], -2)
}

static KERNELS: LazyLock<[[CustomOp<2>; 2]; 2]> = LazyLock::new(|| {
    [false, true]
        .map(|upper| [false, true].map(|unit| CustomOp::new(Substitute { upper, unit }).expect("the WGSL is valid")))
});

#[derive(PartialEq, Eq, Hash)]
struct Substitute {
    upper: bool,
    unit: bool,
}

impl Kernel<2> for Substitute {
    fn name(&self) -> &str {
        "substitute"
    }

    fn wgsl(&self) -> &str {
        include_str!("../../shaders/linalg/substitute.wgsl")
    }

    fn outputs(&self, [_, right]: &[Signature; 2]) -> [Signature; 1] {
        [right.clone()]
    }

    fn groups(&self, call: &Call) -> [u32; 3] {
        let shape = &call.outputs[0].shape;
        folded((shape[0] * shape[2]).div_ceil(64))
    }

    fn params(&self, call: &Call) -> Vec<Scalar> {
        let [count, size, columns] = *call.outputs[0].shape.dims() else { unreachable!("there is a batch") };
        let numbers = [size, columns, count * columns, usize::from(self.upper), usize::from(self.unit)];
        numbers.map(|number| Scalar::from(number as u32)).to_vec()
    }

    fn flops(&self, call: &Call) -> u64 {
        let shape = &call.outputs[0].shape;
        (shape.numel() * shape[1]) as u64
    }

    fn is_batched(&self) -> bool {
        true
    }

    fn host(&self, call: &Call, [triangles, right]: [&[f64]; 2], [result]: [&mut [f64]; 1]) {
        let [_, size, columns] = *call.outputs[0].shape.dims() else { unreachable!("there is a batch") };
        let solve = |((x, b), t): ((&mut [f64], &[f64]), &[f64])| {
            for step in 0..size {
                let turn = |step: usize| if self.upper { size - 1 - step } else { step };
                let row = turn(step);
                let mut rest = b[row * columns..][..columns].to_vec();
                for k in (0..step).map(turn) {
                    let factor = t[row * size + k];
                    rest.iter_mut().zip(&x[k * columns..]).for_each(|(rest, x)| *rest -= factor * x);
                }
                if !self.unit {
                    rest.iter_mut().for_each(|rest| *rest /= t[row * size + row]);
                }
                x[row * columns..][..columns].copy_from_slice(&rest);
            }
        };
        let of_all = result.par_chunks_mut(size * columns).zip(right.par_chunks(size * columns));
        of_all.zip(triangles.par_chunks(size * size)).for_each(solve);
    }
}
