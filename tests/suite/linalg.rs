//! Linear algebra by what it is defined by, at sizes around those of blocks, on every device: products of factors are
//! what was factored. That gradients and both backends are right is for `ops::linalg`.

use brasa::autodiff::grad;
use brasa::linalg::{self, Triangle};
use brasa::tensor::autocast;
use brasa::{DType, Device, Tensor};

use crate::common::{devices, floats, panic_of};

fn matrices(seed: u64, shape: &[usize], device: &Device) -> Tensor {
    let values = floats(seed, shape.iter().product(), -1.0, 1.0);
    Tensor::from_slice(&values, shape, device).expect("a small tensor fits")
}

fn transposed(x: &Tensor) -> Tensor {
    x.transpose(-2, -1)
}

/// A symmetric matrix with eigenvalues from 1 on.
fn definite(seed: u64, shape: &[usize], device: &Device) -> Tensor {
    let x = matrices(seed, shape, device);
    x.matmul(&transposed(&x)) + Tensor::eye(x.size(-1), device)
}

fn largest(x: &Tensor) -> f32 {
    if x.numel() == 0 { 0.0 } else { x.abs().max().item().expect("a value") }
}

/// Both are the same but for so many roundings of the largest element.
fn assert_same(what: &str, got: &Tensor, expected: &Tensor, roundings: f32) {
    assert_eq!(got.shape(), expected.shape(), "{what}");
    let (off, scale) = (largest(&(got - expected)), largest(expected).max(1e-30));
    assert!(off <= roundings * f32::EPSILON * scale, "{what}: {off} off of {scale} on {}", got.device().name());
}

/// Columns of length 1 that are orthogonal.
fn assert_orthonormal(what: &str, q: &Tensor) {
    let one = Tensor::eye(q.size(-1), q.device());
    let product = transposed(q).matmul(q);
    assert_same(what, &product, &one.expand(product.shape()), 32.0);
}

/// Rows of matrices: one, around a block and two, and in batches.
const SHAPES: [&[usize]; 8] =
    [&[1, 1], &[2, 2], &[3, 17, 17], &[63, 63], &[2, 64, 64], &[65, 65], &[129, 129], &[2, 2, 70, 70]];

#[test]
fn products_of_factors_are_what_was_factored() {
    for device in devices() {
        for shape in SHAPES {
            let n = shape[shape.len() - 1] as f32;
            let a = definite(1, shape, &device);
            let l = linalg::cholesky(&a);
            assert_same("cholesky", &l.matmul(&transposed(&l)), &a, 16.0);
            assert_same("above the diagonal", &l.triu(1), &a.zeros_like(), 0.0);
            let b = matrices(2, &[&shape[..shape.len() - 1], &[3]].concat(), &device);
            assert_same("cholesky_solve", &a.matmul(&linalg::cholesky_solve(&b, &l)), &b, 16.0 * n);
            assert_same("solve", &a.matmul(&linalg::solve(&a, &b)), &b, 16.0 * n);
            assert_same(
                "inv",
                &a.matmul(&linalg::inv(&a)),
                &Tensor::eye(shape[shape.len() - 1], &device).expand(shape),
                16.0 * n,
            );
            let log = l.diagonal(0, -2, -1).log().sum_dim(-1) * 2.0;
            let (sign, by_lu) = linalg::slogdet(&a);
            assert_same("slogdet", &by_lu, &log, 64.0);
            assert_same("sign", &sign, &sign.ones_like(), 0.0);
            // rows change places, in every panel
            let flipped = a.flip(-1);
            assert_same("solve", &flipped.matmul(&linalg::solve(&flipped, &b)), &b, 16.0 * n);
            let (sign, by_lu) = linalg::slogdet(&flipped);
            assert_same("slogdet", &by_lu, &log, 64.0);
            let parity = if (n as usize / 2).is_multiple_of(2) { 1.0 } else { -1.0 };
            assert_same("sign", &sign, &(sign.ones_like() * parity), 0.0);
        }
    }
}

#[test]
fn orthogonal_factors_of_every_form() {
    for device in devices() {
        let narrow: [&[usize]; 7] = [&[5, 1], &[1, 1], &[2, 40, 7], &[64, 64], &[66, 65], &[300, 3], &[200, 129]];
        for shape in narrow {
            for a in [matrices(3, shape, &device), transposed(&matrices(3, shape, &device))] {
                let (q, r) = linalg::qr(&a);
                assert_same("qr", &q.matmul(&r), &a, 32.0);
                assert_orthonormal("q", &q);
                assert_same("below the diagonal", &r.tril(-1), &r.zeros_like(), 0.0);
                let (u, s, vt) = linalg::svd(&a);
                assert_same("svd", &(&u * s.unsqueeze(-2)).matmul(&vt), &a, 64.0);
                assert_orthonormal("u", &u);
                assert_orthonormal("v", &transposed(&vt));
                let descending = s.slice(-1, 1..).le(s.slice(-1, 0..s.size(-1) - 1));
                assert!(s.ge(0.0).all().item::<bool>().expect("a value"), "values of {shape:?}");
                assert!(descending.all().item::<bool>().expect("a value"), "their order for {shape:?}");
            }
        }
    }
}

#[test]
fn eigenvectors_and_their_values() {
    for device in devices() {
        for shape in SHAPES {
            let x = matrices(4, shape, &device);
            let a = &x + transposed(&x);
            let (values, vectors) = linalg::eigh(&a);
            assert_same("eigh", &a.matmul(&vectors), &(&vectors * values.unsqueeze(-2)), 128.0);
            assert_orthonormal("eigenvectors", &vectors);
            let ascending = values.slice(-1, 1..).ge(values.slice(-1, 0..values.size(-1) - 1));
            assert!(ascending.all().item::<bool>().expect("a value"), "the order for {shape:?}");
            // what is above the diagonal does not count
            let (lower, _) = linalg::eigh(&a.tril(0));
            assert_same("of the lower triangle", &lower, &values, 0.0);
        }
    }
}

#[test]
fn matrices_without_full_rank() {
    for device in devices() {
        for (height, width, rank) in [(7, 5, 3), (5, 7, 3), (90, 70, 11), (4, 4, 0)] {
            let a = matrices(5, &[height, rank], &device).matmul(&matrices(6, &[rank, width], &device));
            let (u, s, vt) = linalg::svd(&a);
            assert_same("svd", &(&u * s.unsqueeze(-2)).matmul(&vt), &a, 64.0);
            assert_orthonormal("u", &u);
            assert_orthonormal("v", &transposed(&vt));
            assert_eq!(linalg::matrix_rank(&a).item::<i32>().expect("a value"), rank as i32, "{height}x{width}");
            let p = linalg::pinv(&a);
            assert_same("a p a", &a.matmul(&p).matmul(&a), &a, 256.0);
            assert_same("p a p", &p.matmul(&a).matmul(&p), &p, 256.0);
            let projection = a.matmul(&p);
            assert!(largest(&(&projection - projection.t())) < 1e-4, "a p is symmetric");
        }
    }
}

#[test]
fn values_that_are_singular_infinite_or_none() {
    for device in devices() {
        let ones = Tensor::ones([3, 3], &device);
        assert_eq!(linalg::det(&ones).item::<f32>().expect("a value"), 0.0);
        let (sign, log) = linalg::slogdet(&ones);
        assert_eq!(
            (sign.item::<f32>().expect("a value"), log.item::<f32>().expect("a value")),
            (0.0, f32::NEG_INFINITY)
        );
        let finite = |x: &Tensor| x.isfinite().all().item::<bool>().expect("a value");
        assert!(!finite(&linalg::inv(&ones)));
        assert!(!finite(&linalg::cholesky(&-Tensor::eye(3, &device))));
        let nan = Tensor::full([4, 4], f32::NAN, &device);
        for value in [
            linalg::inv(&nan),
            linalg::cholesky(&nan),
            linalg::qr(&nan).0,
            linalg::svdvals(&nan),
            linalg::eigvalsh(&nan),
        ] {
            assert!(!finite(&value));
        }
        let none = Tensor::zeros([2, 0, 0], &device);
        assert_eq!(linalg::det(&none).to_vec::<f32>().expect("values"), [1.0; 2]);
        assert_eq!(linalg::inv(&none).shape().dims(), [2, 0, 0]);
        let (values, vectors) = linalg::eigh(&none);
        assert_eq!((values.shape().dims(), vectors.shape().dims()), (&[2, 0][..], &[2, 0, 0][..]));
        for (height, width) in [(3, 0), (0, 3), (0, 0)] {
            let a = Tensor::zeros([2, height, width], &device);
            let (u, s, vt) = linalg::svd(&a);
            assert_eq!([u.shape().dims(), vt.shape().dims()], [&[2, height, 0][..], &[2, 0, width]]);
            assert_eq!(s.shape().dims(), [2, 0]);
            let (q, r) = linalg::qr(&a);
            assert_eq!([q.shape().dims(), r.shape().dims()], [&[2, height, 0][..], &[2, 0, width]]);
            let x = linalg::lstsq(&a, &Tensor::ones([height, 1], &device));
            assert_same("of nothing", &x, &Tensor::zeros([2, width, 1], &device), 0.0);
            assert_eq!(linalg::matrix_rank(&a).to_vec::<i32>().expect("values"), [0; 2]);
        }
        let no_matrix = Tensor::zeros([0, 3, 3], &device);
        for x in [
            linalg::cholesky(&no_matrix),
            linalg::inv(&no_matrix),
            linalg::qr(&no_matrix).0,
            linalg::eigh(&no_matrix).1,
        ] {
            assert_eq!((x.shape().dims(), x.to_vec::<f32>().expect("values").len()), (&[0, 3, 3][..], 0));
        }
        assert_eq!(linalg::det(&no_matrix).shape().dims(), [0]);
    }
}

/// Squares of these are not finite, or nothing.
#[test]
fn very_large_and_very_small_elements() {
    for device in devices() {
        for size in [1e25_f32, 1e-25] {
            let x = matrices(7, &[6, 4], &device);
            let (q, r) = linalg::qr(&(&x * size));
            assert_same("qr", &q.matmul(&(r / size)), &x, 64.0);
            assert_same("svdvals", &(linalg::svdvals(&(&x * size)) / size), &linalg::svdvals(&x), 64.0);
            let a = &x.slice(0, 0..4) + x.slice(0, 0..4).t();
            assert_same("eigvalsh", &(linalg::eigvalsh(&(&a * size)) / size), &linalg::eigvalsh(&a), 64.0);
        }
        let a = Tensor::from_slice(&[1e38_f32, 3e38, 3e38, -1e38], [2, 2], &device).expect("it fits");
        let expected = Tensor::from_slice(&[-3.162_278e38_f32, 3.162_278e38], [2], &device).expect("it fits");
        assert_same("sums that are not finite", &linalg::eigvalsh(&a), &expected, 16.0);
    }
}

#[test]
fn gradients_of_values_that_are_the_same() {
    for device in devices() {
        let one = Tensor::eye(3, &device);
        let sum = |x: &Tensor| grad(&x.sum(), &[&one]).remove(0);
        // of the trace, and of the nuclear norm
        assert_same("eigvalsh", &sum(&linalg::eigvalsh(&one)), &one, 4.0);
        assert_same("svdvals", &sum(&linalg::svdvals(&one)), &one, 4.0);
        assert_same("eigh's values", &sum(&linalg::eigh(&one).0), &one, 4.0);
        let finite = |x: &Tensor| x.isfinite().all().item::<bool>().expect("a value");
        let (values, vectors) = linalg::eigh(&one);
        assert!(!finite(&sum(&(&vectors * values).matmul(&vectors.t()))), "no basis is the right one");
        let (u, s, vt) = linalg::svd(&one);
        assert!(!finite(&sum(&(u * s).matmul(&vt))), "no basis is the right one");
        let weights = matrices(8, &[3, 3], &device);
        let by_pinv = sum(&(linalg::pinv(&one) * &weights));
        assert_same("pinv", &by_pinv, &-&weights, 16.0);
    }
}

#[test]
fn types_and_autocast() {
    for device in devices() {
        let a = definite(9, &[5, 5], &device);
        let exact = linalg::inv(&a);
        assert_eq!(linalg::inv(&a.to_dtype(DType::F16)).dtype(), DType::F16);
        assert_same("within autocast", &autocast(DType::F16, || linalg::inv(&a)), &exact, 0.0);
        let long = definite(9, &[70, 70], &device);
        assert_same("of blocks", &autocast(DType::F16, || linalg::cholesky(&long)), &linalg::cholesky(&long), 0.0);
        let ints = Tensor::from_slice(&[2_i32, 0, 0, 4], [2, 2], &device).expect("it fits");
        assert_eq!(linalg::inv(&ints).to_vec::<f32>().expect("values"), [0.5, 0.0, 0.0, 0.25]);
    }
}

#[test]
fn one_matrix_for_many_right_sides_and_many_for_one() {
    for device in devices() {
        let (a, many) = (definite(10, &[4, 4], &device), definite(11, &[2, 3, 4, 4], &device));
        let b = matrices(12, &[3, 4, 2], &device);
        let x = linalg::solve(&a, &b);
        assert_same("of one", &a.matmul(&x), &b, 64.0);
        let x = linalg::solve(&many, &b);
        assert_same("of many", &many.matmul(&x), &b.expand([2, 3, 4, 2]), 64.0);
        let vector = matrices(13, &[4], &device);
        let x = linalg::solve(&many, &vector);
        assert_same("a vector", &many.matmul(&x.unsqueeze(-1)).squeeze(-1), &vector.expand([2, 3, 4]), 64.0);
        let x = linalg::solve_triangular(&many, &vector, Triangle::Upper);
        assert_same("a triangle", &many.triu(0).matmul(&x.unsqueeze(-1)).squeeze(-1), &vector.expand([2, 3, 4]), 64.0);
    }
}

#[test]
fn more_matrices_than_a_dimension_has_workgroups() {
    for device in devices() {
        let a = Tensor::arange(70_000, &device).to_dtype(DType::F32) + 1.0;
        let l = linalg::cholesky(&a.reshape([70_000, 1, 1]));
        assert_same("roots", &l.flatten(0, -1), &a.sqrt(), 2.0);
        let x = linalg::solve(&a.reshape([70_000, 1, 1]), &a.reshape([70_000, 1]).unsqueeze(-1));
        assert_same("quotients", &x.flatten(0, -1), &a.ones_like(), 2.0);
    }
}

/// More rows than a square matrix may have, fewer columns than a panel.
#[test]
fn very_tall_matrices() {
    for device in devices() {
        let a = matrices(14, &[50_000, 3], &device);
        let weights = Tensor::from_slice(&[0.5_f32, -1.0, 2.0], [3], &device).expect("it fits");
        assert_same("lstsq", &linalg::lstsq(&a, &a.mv(&weights)), &weights, 64.0);
        assert_orthonormal("q", &linalg::qr(&matrices(15, &[7000, 40], &device)).0);
        let s = linalg::svdvals(&a);
        assert_same("svdvals", &s.square(), &linalg::eigvalsh(&a.t().matmul(&a)).flip(0), 256.0);
    }
}

#[test]
fn powers_of_matrices() {
    let a = Tensor::from_slice(&[f32::INFINITY, 2.0, 0.0, 1.0], [2, 2], &Device::cpu()).expect("it fits");
    assert_eq!(linalg::matrix_power(&a, 1).to_vec::<f32>().expect("values"), [f32::INFINITY, 2.0, 0.0, 1.0]);
    assert_eq!(linalg::matrix_power(&a, 0).to_vec::<f32>().expect("values"), [1.0, 0.0, 0.0, 1.0]);
    let a = Tensor::from_slice(&[1.0_f32, 1.0, 0.0, 1.0], [2, 2], &Device::cpu()).expect("it fits");
    assert_eq!(linalg::matrix_power(&a, -11).to_vec::<f32>().expect("values"), [1.0, -11.0, 0.0, 1.0]);
}

#[test]
fn wrong_shapes_are_refused_at_the_caller_s_line() {
    let device = Device::cpu();
    let (a, b) = (Tensor::zeros([3, 4], &device), Tensor::zeros([5, 2], &device));
    let square = Tensor::zeros([2, 3, 3], &device);
    type Call = fn(&Tensor, &Tensor, &Tensor) -> Tensor;
    let cases: [(Call, &str); 10] = [
        (|a, _, _| linalg::cholesky(a), "cholesky: [3, 4] is not square"),
        (|a, _, _| linalg::det(a), "det: [3, 4] is not square"),
        (|_, b, square| linalg::solve(square, b), "solve: [2, 3, 3] x [5, 2], B does not have as many rows as A"),
        (|a, b, _| linalg::lstsq(a, b), "lstsq: [3, 4] x [5, 2], B does not have as many rows as A"),
        (|a, _, _| linalg::qr(&a.flatten(0, 1)).0, "qr: [12] is not a matrix"),
        (|a, _, _| linalg::lstsq(&a.flatten(0, 1), a), "lstsq: [12] is not a matrix"),
        (
            |_, _, square| linalg::solve(square, &Tensor::zeros([3, 3, 1], square.device())),
            "solve: [2, 3, 3] x [3, 3, 1], leading axes do not broadcast",
        ),
        (
            |_, _, square| linalg::solve(square, &square.to_dtype(DType::F16)),
            "solve: f32 and f16 do not mix; cast one with to_dtype",
        ),
        (|a, b, _| linalg::cholesky_solve(b, a), "cholesky_solve: [3, 4] is not square"),
        (|a, _, _| linalg::cond(&a.slice(0, 0..0)), "cond: [0, 4] has no singular values"),
    ];
    for (call, expected) in cases {
        let (message, file, _) = panic_of(|| call(&a, &b, &square));
        assert_eq!((message.as_str(), file.as_str()), (expected, file!()));
    }
}
