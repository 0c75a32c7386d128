//! Orthogonal factors, and least squares.

use std::sync::LazyLock;

use rayon::prelude::*;

use crate::custom::{Call, CustomOp, Kernel, Signature, folded};
use crate::dtype::{DType, Scalar};
use crate::tensor::Tensor;

use super::matrices::{Matrices, block, halved, joined, of_panels, panel, product, scaled, transposed};
use super::system::System;
use super::triangular::{Triangle, triangular};

/// Q with orthonormal columns and an upper triangular R with Q R = A: `[..., m, n]` → `[..., m, k]`, `[..., k, n]`,
/// k = min(m, n), by Householder's reflections. PyTorch's `torch.linalg.qr` in its mode `reduced`.
///
/// The gradient (Walter and Lehmann 2010, arXiv 1009.6112) wants the first k columns to be independent.
///
/// ```
/// use brasa::{Device, Tensor, linalg};
///
/// let a = Tensor::randn([5, 3], &Device::cpu());
/// let (q, r) = linalg::qr(&a);
/// assert_eq!((q.shape().dims(), r.shape().dims()), (&[5, 3][..], &[3, 3][..]));
/// assert!(q.matmul(&r).allclose(&a, 1e-5, 1e-6)?);
/// # Ok::<(), brasa::Error>(())
/// ```
///
/// # Panics
///
/// If A has no two axes.
#[track_caller]
#[must_use]
pub fn qr(a: &Tensor) -> (Tensor, Tensor) {
    let matrices = Matrices::of("qr", a);
    let (q, r) = orthogonal(&matrices.all);
    (matrices.back(&q), matrices.back(&r))
}

/// The X for which A X is closest to B, by the sum of squares, and the shortest one if there are several: `[..., m, n]`,
/// `[..., m, k]` → `[..., n, k]` with broadcast leading axes, or `[n]` for a B of one axis. A has full rank (else
/// [`pinv`](super::pinv) times B is what is wanted). PyTorch's `torch.linalg.lstsq(A, B).solution`; a B of two axes is a
/// matrix also where A is a batch.
///
/// ```
/// use brasa::{Device, Tensor, linalg};
///
/// // a line through four points
/// let device = Device::cpu();
/// let a = Tensor::from_slice(&[0.0_f32, 1.0, 1.0, 1.0, 2.0, 1.0, 3.0, 1.0], [4, 2], &device)?;
/// let b = Tensor::from_slice(&[1.0_f32, 3.0, 5.0, 7.0], [4], &device)?;
/// let line = linalg::lstsq(&a, &b).to_vec::<f32>()?;
/// assert!((line[0] - 2.0).abs() < 1e-5 && (line[1] - 1.0).abs() < 1e-5);
/// # Ok::<(), brasa::Error>(())
/// ```
///
/// # Panics
///
/// If A has no two axes, if B does not have as many rows or another type, or if leading axes do not broadcast.
#[track_caller]
#[must_use]
pub fn lstsq(a: &Tensor, b: &Tensor) -> Tensor {
    let system = System::of("lstsq", a, b);
    let a = system.spread(&system.a);
    let x = if a.size(-2) >= a.size(-1) {
        let (q, r) = orthogonal(&a);
        triangular(&r, &product(&transposed(&q), &system.b), Triangle::Upper)
    } else {
        let (q, r) = orthogonal(&transposed(&a));
        product(&q, &triangular(&transposed(&r), &system.b, Triangle::Lower))
    };
    system.result(&x)
}

/// Q and R of `[count, m, n]`.
#[track_caller]
pub(super) fn orthogonal(a: &Tensor) -> (Tensor, Tensor) {
    let [_, height, width] = *a.shape().dims() else { unreachable!("there is a batch") };
    if height < width {
        let (q, r) = orthogonal(&a.slice(-1, 0..height));
        let rest = product(&transposed(&q), &a.slice(-1, height..width));
        let r = Tensor::cat(&[&r, &rest], -1);
        return (q, r);
    }
    let both = factors(a).with_gradient(&[a], move |both, _, gradient| {
        let (q, r) = parts(both, height);
        let (by_q, by_r) = parts(gradient, height);
        let slope = product(&r, &transposed(&by_r.triu(0))) - product(&transposed(&by_q), &q);
        let slope = slope.tril(0) + transposed(&slope.tril(-1));
        let right = by_q + product(&q, &slope);
        vec![Some(transposed(&triangular(&r, &transposed(&right), Triangle::Upper)))]
    });
    parts(&both, height)
}

/// The first `height` rows, and the others.
#[track_caller]
fn parts(both: &Tensor, height: usize) -> (Tensor, Tensor) {
    (both.slice(-2, 0..height), both.slice(-2, height..))
}

/// Q, and R below it, of at least as many rows as columns; without a gradient.
#[track_caller]
fn factors(a: &Tensor) -> Tensor {
    let [_, height, width] = *a.shape().dims() else { unreachable!("there is a batch") };
    let (a, size) = scaled(a);
    let reflected = Reflected::of(&a);
    let v = reflected.vectors();
    // Q = I - V S Vᵀ, of which the first columns count
    let inner = triangular(&reflected.inverse(&v), &transposed(&v.slice(-2, 0..width)), Triangle::Upper);
    let q = Tensor::identity([height, width], a.device()) - product(&v, &inner);
    let r = reflected.all.slice(-2, 0..width).triu(0) * size;
    Tensor::cat(&[&q, &r], -2)
}

/// A matrix of at least as many rows as columns after reflections I - s v vᵀ, one for each column.
struct Reflected {
    /// `[count, m, n]`: R, and below its diagonal the vectors, which are 1 there (but 0 where nothing is reflected).
    all: Tensor,
    /// `[count, n]`: each s.
    scales: Tensor,
}

impl Reflected {
    #[track_caller]
    fn of(a: &Tensor) -> Self {
        let [count, height, width] = *a.shape().dims() else { unreachable!("there is a batch") };
        if a.numel() == 0 {
            return Self { all: a.clone(), scales: Tensor::zeros([count, width], a.device()) };
        }
        let widest = panel(height);
        if width <= widest {
            let [all, scales] = KERNEL.call([a]);
            return Self { all, scales };
        }
        // the reflections of one half, applied to the other (Elmroth and Gustavson 2000)
        let half = halved(width, widest);
        let first = Self::of(&a.slice(-1, 0..half));
        let v = first.vectors();
        let other = a.slice(-1, half..width);
        let along = product(&transposed(&v), &other);
        let along = triangular(&transposed(&first.inverse(&v)), &along, Triangle::Lower);
        let other = other - product(&v, &along);
        let second = Self::of(&other.slice(-2, half..height));
        let corners = [block(&first.all, 0..half, 0..half), block(&first.all, half..height, 0..half)];
        let all = joined([[&corners[0], &other.slice(-2, 0..half)], [&corners[1], &second.all]]);
        Self { all, scales: Tensor::cat(&[&first.scales, &second.scales], -1) }
    }

    /// V: the vectors as columns.
    #[track_caller]
    fn vectors(&self) -> Tensor {
        let [_, height, width] = *self.all.shape().dims() else { unreachable!("there is a batch") };
        let diagonal = Tensor::identity([height, width], self.all.device());
        self.all.tril(-1) + diagonal * self.scales.ne(0.0).to_dtype(DType::F32).unsqueeze(-2)
    }

    /// The inverse of the upper triangular S for which all reflections together are I - V S Vᵀ.
    #[track_caller]
    fn inverse(&self, v: &Tensor) -> Tensor {
        let diagonal = self.scales.eq(0.0).where_(1.0, self.scales.reciprocal());
        product(&transposed(v), v).triu(1) + diagonal.diag_embed(0)
    }
}

static KERNEL: LazyLock<CustomOp<1, 2>> = LazyLock::new(|| CustomOp::new(Qr).expect("the WGSL is valid"));

#[derive(PartialEq, Eq, Hash)]
struct Qr;

impl Kernel<1, 2> for Qr {
    fn name(&self) -> &str {
        "qr"
    }

    fn wgsl(&self) -> &str {
        include_str!("../../shaders/linalg/qr.wgsl")
    }

    fn outputs(&self, [matrices]: &[Signature; 1]) -> [Signature; 2] {
        let shape = &matrices.shape;
        [matrices.clone(), Signature::new(DType::F32, [shape[0], shape[2]])]
    }

    fn groups(&self, call: &Call) -> [u32; 3] {
        folded(call.outputs[0].shape[0])
    }

    fn params(&self, call: &Call) -> Vec<Scalar> {
        of_panels(&call.outputs[0].shape)
    }

    fn flops(&self, call: &Call) -> u64 {
        let shape = &call.outputs[0].shape;
        (2 * shape.numel() * shape[2]) as u64
    }

    fn is_batched(&self) -> bool {
        true
    }

    fn host(&self, call: &Call, [matrices]: [&[f64]; 1], [factors, scales]: [&mut [f64]; 2]) {
        let [_, height, width] = *call.outputs[0].shape.dims() else { unreachable!("there is a batch") };
        factors.copy_from_slice(matrices);
        let of_all = factors.par_chunks_mut(height * width).zip(scales.par_chunks_mut(width));
        of_all.for_each(|(matrix, scales)| {
            for (step, scale) in scales.iter_mut().enumerate() {
                *scale = reflect_on_host(matrix, width, step);
            }
        });
    }
}

/// Reflects column `step` and those right of it; the reflection's scale.
fn reflect_on_host(matrix: &mut [f64], width: usize, step: usize) -> f64 {
    let (above, below) = matrix.split_at_mut((step + 1) * width);
    let own = &mut above[step * width..];
    let squares: f64 = below.chunks_exact(width).map(|row| row[step] * row[step]).sum();
    if squares == 0.0 {
        return 0.0;
    }
    let first = own[step];
    let length = (first * first + squares).sqrt();
    let diagonal = if first < 0.0 { length } else { -length };
    let scale = (diagonal - first) / diagonal;
    own[step] = diagonal;
    let mut along = own[step + 1..].to_vec();
    for row in below.chunks_exact_mut(width) {
        row[step] /= first - diagonal;
        let v = row[step];
        along.iter_mut().zip(&row[step + 1..]).for_each(|(along, value)| *along += v * value);
    }
    own[step + 1..].iter_mut().zip(&along).for_each(|(value, along)| *value -= scale * along);
    for row in below.chunks_exact_mut(width) {
        let v = scale * row[step];
        row[step + 1..].iter_mut().zip(&along).for_each(|(value, along)| *value -= v * along);
    }
    scale
}
