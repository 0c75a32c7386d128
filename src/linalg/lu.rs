//! LU factors, and what is computed from them: solutions, inverses, determinants.

use std::sync::LazyLock;

use rayon::prelude::*;

use crate::custom::{Call, CustomOp, Kernel, Signature, folded};
use crate::dtype::{DType, Scalar};
use crate::tensor::Tensor;

use super::matrices::{Matrices, assert_square, block, halved, joined, of_panels, panel, product, transposed};
use super::system::System;
use super::triangular::{Triangle, triangular};

/// The solution X of A X = B: `[..., n, n]`, `[..., n, k]` → `[..., n, k]` with broadcast leading axes, or `[n]` for a
/// B of one axis. PyTorch's `torch.linalg.solve`, but a B of two axes is a matrix also where A is a batch (PyTorch takes
/// `[batch, n]` for vectors, which are `unsqueeze(-1)` here). Where A is singular, X is infinite, NaN, or as large as
/// rounding makes it.
///
/// ```
/// use brasa::{Device, Tensor, linalg};
///
/// let device = Device::cpu();
/// let a = Tensor::from_slice(&[0.0_f32, 2.0, 1.0, 1.0], [2, 2], &device)?;
/// let b = Tensor::from_slice(&[4.0_f32, 3.0], [2], &device)?;
/// assert_eq!(linalg::solve(&a, &b).to_vec::<f32>()?, [1.0, 2.0]);
/// # Ok::<(), brasa::Error>(())
/// ```
///
/// # Panics
///
/// If A is not square, if B does not have as many rows or another type, or if leading axes do not broadcast.
#[track_caller]
#[must_use]
pub fn solve(a: &Tensor, b: &Tensor) -> Tensor {
    assert_square("solve", a);
    let system = System::of("solve", a, b);
    // each A is factored once, however many right sides it has
    let Factors { lu, order, .. } = Factors::of(&system.a.detach());
    let [a, lu, order] = [system.spread(&system.a), system.spread(&lu), system.spread(&order)];
    system.result(&solution([&a, &system.b, &lu, &order], false))
}

/// The inverse of A, `[..., n, n]`; where A is singular, it is infinite, NaN, or as large as rounding makes it. [`solve`]
/// is faster, and more exact, than the product with an inverse. PyTorch's `torch.linalg.inv`.
///
/// # Panics
///
/// If A is not square.
#[track_caller]
#[must_use]
pub fn inv(a: &Tensor) -> Tensor {
    let matrices = Matrices::square("inv", a);
    matrices.back(&inverse(&matrices.all))
}

/// The determinant: `[..., n, n]` → `[...]`. The gradient wants an inverse: of a singular A it is not finite. PyTorch's
/// `torch.linalg.det`.
///
/// # Panics
///
/// If A is not square.
#[track_caller]
#[must_use]
pub fn det(a: &Tensor) -> Tensor {
    let matrices = Matrices::square("det", a);
    let Factors { lu, sign, .. } = Factors::of(&matrices.all);
    matrices.back(&(sign * lu.diagonal(0, -2, -1).prod_dim(-1)))
}

/// The sign of the determinant and the logarithm of its size, each `[..., n, n]` → `[...]`, where the determinant
/// itself would be too large or too small; of a singular A 0 and minus infinity. PyTorch's `torch.linalg.slogdet`.
///
/// ```
/// use brasa::{Device, Tensor, linalg};
///
/// let (sign, log) = linalg::slogdet(&(Tensor::eye(200, &Device::cpu()) * -0.1));
/// assert_eq!(sign.item::<f32>()?, 1.0);
/// assert!((log.item::<f32>()? - 200.0 * 0.1_f32.ln()).abs() < 1e-3);
/// # Ok::<(), brasa::Error>(())
/// ```
///
/// # Panics
///
/// If A is not square.
#[track_caller]
#[must_use]
pub fn slogdet(a: &Tensor) -> (Tensor, Tensor) {
    let matrices = Matrices::square("slogdet", a);
    let Factors { lu, sign, .. } = Factors::of(&matrices.all);
    let diagonal = lu.diagonal(0, -2, -1);
    let sign = sign * diagonal.sign().prod_dim(-1);
    (matrices.back(&sign), matrices.back(&diagonal.abs().log().sum_dim(-1)))
}

/// A to the power of `exponent`; a negative one is that of the inverse. PyTorch's `torch.linalg.matrix_power`.
///
/// # Panics
///
/// If A is not square.
#[track_caller]
#[must_use]
pub fn matrix_power(a: &Tensor, exponent: i32) -> Tensor {
    let matrices = Matrices::square("matrix_power", a);
    let mut power = if exponent < 0 { inverse(&matrices.all) } else { matrices.all.clone() };
    let (mut left, mut result) = (exponent.unsigned_abs(), None);
    while left > 0 {
        if left % 2 == 1 {
            result = Some(match result {
                Some(so_far) => product(&so_far, &power),
                None => power.clone(),
            });
        }
        left /= 2;
        if left > 0 {
            power = product(&power, &power);
        }
    }
    let one = || Tensor::eye(a.size(-1), a.device()).expand(power.shape());
    matrices.back(&result.unwrap_or_else(one))
}

/// P A = L U of a batch `[count, n, n]`.
struct Factors {
    /// U, and below its diagonal L, whose own is ones.
    lu: Tensor,
    /// i32 `[count, n]`: which row of A each row of P A is.
    order: Tensor,
    /// `[count]`: the sign of P.
    sign: Tensor,
}

impl Factors {
    #[track_caller]
    fn of(a: &Tensor) -> Self {
        let (lu, order, sign) = factor(&a.detach());
        let order = order.to_dtype(DType::I32);
        // as a function of the rows in their order: this gives each its gradient
        let ordered = rows(a, &order);
        let lu = lu.with_gradient(&[&ordered], |lu, _, gradient| {
            let one = Tensor::eye(lu.size(-1), lu.device());
            let by_l = product(&transposed(&(lu.tril(-1) + one)), &gradient.tril(-1));
            let by_u = product(&gradient.triu(0), &transposed(&lu.triu(0)));
            let by_row = triangular(&transposed(lu), &(by_l.tril(-1) + by_u.triu(0)), Triangle::UnitUpper);
            vec![Some(transposed(&triangular(lu, &transposed(&by_row), Triangle::Upper)))]
        });
        Self { lu, order, sign: sign.detach() }
    }
}

/// X of A X = B, or of Aᵀ X = B, from (A, B, A's factors, their order). The factors take no part in gradients: those are
/// the two systems again.
#[track_caller]
fn solution(inputs: [&Tensor; 4], is_transposed: bool) -> Tensor {
    let [_, b, lu, order] = inputs;
    let x = if is_transposed {
        let half = triangular(&transposed(lu), b, Triangle::Lower);
        let ordered = triangular(&transposed(lu), &half, Triangle::UnitUpper);
        rows(&ordered, &order.argsort(-1, false))
    } else {
        let half = triangular(lu, &rows(b, order), Triangle::UnitLower);
        triangular(lu, &half, Triangle::Upper)
    };
    x.with_gradient(&inputs, move |x, inputs, gradient| {
        let [a, lu, order] = [0, 2, 3].map(|number| &inputs[number]);
        let by_b = solution([a, gradient, lu, order], !is_transposed);
        let [first, second] = if is_transposed { [x, &by_b] } else { [&by_b, x] };
        vec![Some(-product(first, &transposed(second))), Some(by_b), None, None]
    })
}

/// The inverses of `[count, n, n]`.
#[track_caller]
fn inverse(a: &Tensor) -> Tensor {
    let Factors { lu, order, .. } = Factors::of(&a.detach());
    let one = Tensor::eye(a.size(-1), a.device()).expand(a.shape());
    solution([a, &one, &lu, &order], false).with_gradient(&[a], |p, _, gradient| {
        let p = transposed(p);
        vec![Some(-product(&product(&p, gradient), &p))]
    })
}

/// Row `order[c, i]` of matrix `c` in the place of row `i`: `[count, m, n]`, i32 `[count, k]` → `[count, k, n]`.
#[track_caller]
fn rows(matrices: &Tensor, order: &Tensor) -> Tensor {
    let [count, height, width] = *matrices.shape().dims() else { unreachable!("there is a batch") };
    let first = Tensor::iota(order.shape(), 0, order.device()) * height as i32;
    let places = (order + first).reshape([order.numel()]);
    let kept = matrices.reshape([count * height, width]).index_select(0, &places);
    kept.reshape([count, order.size(-1), width])
}

/// Factors of `[count, m, n]`, the order of rows (as f32) and its sign, without gradients.
#[track_caller]
fn factor(a: &Tensor) -> (Tensor, Tensor, Tensor) {
    let [count, height, width] = *a.shape().dims() else { unreachable!("there is a batch") };
    if a.numel() == 0 {
        let order = Tensor::iota([count, height], 1, a.device()).to_dtype(DType::F32);
        return (a.clone(), order, Tensor::ones([count], a.device()));
    }
    let widest = panel(height);
    if width <= widest {
        let [lu, order, sign] = KERNEL.call([a]);
        return (lu, order, sign);
    }
    let half = halved(width, widest);
    let (left, order, sign) = factor(&a.slice(-1, 0..half));
    let right = rows(&a.slice(-1, half..width), &order.to_dtype(DType::I32));
    let corner = left.slice(-2, 0..half);
    let above = triangular(&corner, &right.slice(-2, 0..half), Triangle::UnitLower);
    let below = block(&left, half..height, 0..half);
    let rest = right.slice(-2, half..height) - product(&below, &above);
    let (second, order_below, sign_below) = factor(&rest);
    let again = order_below.to_dtype(DType::I32);
    let order_below = rows(&order.slice(-1, half..height).unsqueeze(-1), &again).squeeze(-1);
    let order = Tensor::cat(&[&order.slice(-1, 0..half), &order_below], -1);
    (joined([[&corner, &above], [&rows(&below, &again), &second]]), order, sign * sign_below)
}

static KERNEL: LazyLock<CustomOp<1, 3>> = LazyLock::new(|| CustomOp::new(Lu).expect("the WGSL is valid"));

#[derive(PartialEq, Eq, Hash)]
struct Lu;

impl Kernel<1, 3> for Lu {
    fn name(&self) -> &str {
        "lu"
    }

    fn wgsl(&self) -> &str {
        include_str!("../../shaders/linalg/lu.wgsl")
    }

    fn outputs(&self, [matrices]: &[Signature; 1]) -> [Signature; 3] {
        let [count, height, _] = *matrices.shape.dims() else { unreachable!("there is a batch") };
        [matrices.clone(), Signature::new(DType::F32, [count, height]), Signature::new(DType::F32, [count])]
    }

    fn groups(&self, call: &Call) -> [u32; 3] {
        folded(call.outputs[0].shape[0])
    }

    fn params(&self, call: &Call) -> Vec<Scalar> {
        of_panels(&call.outputs[0].shape)
    }

    fn flops(&self, call: &Call) -> u64 {
        let shape = &call.outputs[0].shape;
        (shape.numel() * shape[2]) as u64
    }

    fn is_batched(&self) -> bool {
        true
    }

    fn host(&self, call: &Call, [matrices]: [&[f64]; 1], [factors, order, signs]: [&mut [f64]; 3]) {
        let [_, height, width] = *call.outputs[0].shape.dims() else { unreachable!("there is a batch") };
        factors.copy_from_slice(matrices);
        let of_all = factors.par_chunks_mut(height * width).zip(order.par_chunks_mut(height)).zip(signs);
        of_all.for_each(|((lu, order), sign)| *sign = factor_on_host(lu, order, width));
    }
}

/// Factors a matrix where it lies; the sign of the order.
fn factor_on_host(lu: &mut [f64], order: &mut [f64], width: usize) -> f64 {
    let height = order.len();
    order.iter_mut().zip(0..).for_each(|(order, row)| *order = f64::from(row));
    let mut sign = 1.0;
    for step in 0..height.min(width) {
        let size = |row: usize| lu[row * width + step].abs();
        let pivot = (step..height).fold(step, |best, row| {
            // what is not a number is none
            if size(row) > size(best) || size(best).is_nan() && !size(row).is_nan() { row } else { best }
        });
        if pivot != step {
            sign = -sign;
            order.swap(step, pivot);
            (0..width).for_each(|column| lu.swap(step * width + column, pivot * width + column));
        }
        let (above, below) = lu.split_at_mut((step + 1) * width);
        let own = &above[step * width + step..];
        for row in below.chunks_exact_mut(width) {
            // a column of zeros stays one
            if own[0] != 0.0 {
                row[step] /= own[0];
            }
            let factor = row[step];
            row[step + 1..].iter_mut().zip(&own[1..]).for_each(|(value, above)| *value -= factor * above);
        }
    }
    sign
}
