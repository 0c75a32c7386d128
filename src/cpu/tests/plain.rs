//! Products of plain matrices, which the `gemm` crate computes.

use super::contracts::{contract, packed};
use super::*;
use crate::cpu::gemm::is_plain;

const F32: [DType; 3] = [DType::F32; 3];

#[test]
fn only_single_loads_at_one_stride_are_plain() {
    let plain = contract(&[5, 6, 7, 8], [1, 1, 1, 1], &[0, 3, 1], &[3, 0, 2], &[0, 1, 2]);
    assert!(is_plain(&plain, &F32));
    assert!(!is_plain(&plain, &[DType::F16, DType::F32, DType::F32]), "f16 is converted");
    assert!(!is_plain(&packed(plain.clone()), &F32), "a condition");
    let mut scaled = plain;
    let two = scaled.lhs.0.instrs.len();
    scaled.lhs.0.instrs.push(Instr { op: InstrOp::Const(Scalar::new(DType::F32, 2.0)), dtype: DType::F32 });
    scaled.lhs.0.instrs.push(Instr { op: InstrOp::Binary(Binary::Mul, 0, two), dtype: DType::F32 });
    scaled.lhs.1 = two + 1;
    assert!(!is_plain(&scaled, &F32), "a prologue");
    // Rows of two axes are one axis only where they lie one behind the other.
    let axes = [3, 4, 5, 6];
    assert!(is_plain(&contract(&axes, [0, 2, 1, 1], &[0, 1, 3], &[2, 3], &[0, 1, 2]), &F32));
    assert!(!is_plain(&contract(&axes, [0, 2, 1, 1], &[1, 0, 3], &[2, 3], &[0, 1, 2]), &F32));
}

#[test]
fn matrices_with_gaps_reversed_and_repeated() {
    for [m, n, k] in [[37, 61, 1030], [1, 61, 530], [2, 61, 530], [90, 1, 17], [3, 1, 2]] {
        let axes = [m, n, k];
        let mut kernel = contract(&axes, [0, 1, 1, 1], &[0, 2], &[2, 1], &[0, 1]);
        // Every second column of lhs, from the last one on; rhs with all its rows alike and a gap after each element.
        let lhs = Ix::axis(0).times(2 * k as i64).plus(&Ix::axis(2).times(-2)).plus(&Ix::constant(2 * k as i64 - 1));
        let rhs = Ix::axis(1).times(3).plus(&Ix::constant(1));
        for (tape, new) in [(&mut kernel.lhs.0, lhs), (&mut kernel.rhs.0, rhs)] {
            let InstrOp::Load { index, .. } = &mut tape.instrs[0].op else { panic!("a load") };
            *index = new;
        }
        assert!(is_plain(&kernel, &F32));
        let data =
            [Data::random(DType::F32, 2 * m * k), Data::random(DType::F32, 3 * n), Data::zeros(DType::F32, m * n)];
        check(vec![Body::Contract(kernel)], &data, 1e-4);
    }
}

#[test]
fn what_is_overwritten_is_not_read_and_no_infinity_is_lost() {
    for [m, n, k] in [[40, 50, 1100], [1, 300, 700], [3, 5, 2]] {
        let kernel = contract(&[m, n, k], [0, 1, 1, 1], &[0, 2], &[2, 1], &[0, 1]);
        let (lhs, rhs) = (Data::random(DType::F32, m * k), Data::random(DType::F32, k * n));
        // The first kernel leaves NaN in the output and in the threads' memory, the second has to overwrite it.
        let mut nowhere = kernel.clone();
        let InstrOp::Load { buffer, .. } = &mut nowhere.lhs.0.instrs[0].op else { panic!("a load") };
        *buffer = 3;
        let data = [
            lhs.clone(),
            rhs.clone(),
            Data::new(DType::F32, vec![f64::NAN; m * n]),
            Data::new(DType::F32, vec![f64::NAN; m * k]),
        ];
        let (results, _) = check(vec![Body::Contract(nowhere), Body::Contract(kernel.clone())], &data, 1e-4);
        assert!(results[2].values.iter().all(|value| value.is_finite()));
        // One row sees an infinity, and a zero makes it NaN in one column.
        let (mut lhs, mut rhs) = (lhs, rhs);
        lhs.values[k - 1] = f64::INFINITY;
        rhs.values[(k - 1) * n] = 0.0;
        let (results, _) = check(vec![Body::Contract(kernel)], &[lhs, rhs, Data::zeros(DType::F32, m * n)], 1e-4);
        let (first, rest) = results[2].values.split_at(n);
        assert!(first[0].is_nan() && first[1..].iter().all(|value| value.is_infinite()));
        assert!(rest.iter().all(|value| value.is_finite()));
    }
}

#[test]
fn long_sums_of_vectors_are_made_of_short_ones() {
    let k = 70_001;
    // as the crate takes them: rows and columns of results, matrices across and along the sum
    for (m, n, lhs, rhs) in [
        (1, 5, [0, 2], [2, 1]),
        (2, 3, [0, 2], [2, 1]),
        (2, 3, [2, 0], [2, 1]),
        (1, 5, [0, 2], [1, 2]),
        (5, 1, [2, 0], [2, 1]),
        (5, 1, [0, 2], [2, 1]),
        (4, 6, [2, 0], [2, 1]),
    ] {
        let kernel = contract(&[m, n, k], [0, 1, 1, 1], &lhs, &rhs, &[0, 1]);
        // All alike and above zero, so that roundings add up instead of cancelling.
        let data = [(m * k, 0.1), (n * k, 1.0), (m * n, 0.0)].map(|(len, v)| Data::new(DType::F32, vec![v; len]));
        // Each sum of 512 terms is at most so many roundings off, and the sum of those as many as it has terms.
        let roundings = (512 + k.div_ceil(512)) as f64;
        check(vec![Body::Contract(kernel)], &data, roundings * f64::from(f32::EPSILON) / 2.0);
    }
}
