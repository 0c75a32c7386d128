//! Products of plain matrices, which the `gemm` crate computes.
#![expect(unsafe_code, reason = "the product takes pointers")]

use pulp::Arch;

use super::contracts::{contract, packed};
use super::*;
use crate::cpu::dots::{self, Dots, Lines};
use crate::cpu::gemm::by_the_crate_alone;
use crate::cpu::operands::is_plain;
use crate::cpu::small::SmallProduct;

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

/// The vectors this machine has.
fn vectors() -> Vec<Arch> {
    let mut all = vec![Arch::Scalar, Arch::new()];
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    all.extend(pulp::x86::V3::try_new().map(Arch::V3));
    all
}

/// The product by [`SmallProduct`] of matrices with two words more than a row has; the words between the target's rows
/// stay NaN.
fn small([m, n, k]: [usize; 3], arch: Arch, transposed: bool, lhs: &[f32], rhs: &[f32]) -> Vec<f32> {
    let (across, along) = (m + 2, k + 2);
    let mut stored = vec![f32::NAN; across * along];
    for (row, values) in lhs.chunks_exact(k).enumerate() {
        for (column, &value) in values.iter().enumerate() {
            stored[if transposed { column * across + row } else { row * along + column }] = value;
        }
    }
    let strides = if transposed { (1, across as isize) } else { (along as isize, 1) };
    let stride = n + 2;
    let mut wide = vec![f32::NAN; k * stride];
    wide.chunks_exact_mut(stride).zip(rhs.chunks_exact(n)).for_each(|(row, values)| row[..n].copy_from_slice(values));
    let mut target = vec![f32::NAN; m * stride];
    let product = SmallProduct {
        rows: m,
        columns: n,
        depth: k,
        lhs: (stored.as_ptr(), strides.0, strides.1),
        rhs: (wide.as_ptr(), stride as isize),
        target: (target.as_mut_ptr(), stride as isize),
    };
    // SAFETY: all three have as many elements.
    unsafe { product.run(arch) };
    assert!(target.chunks_exact(stride).all(|row| row[n..].iter().all(|value| value.is_nan())), "{m}x{n}x{k}");
    target.chunks_exact(stride).flat_map(|row| &row[..n]).copied().collect()
}

#[test]
fn small_products_in_tiles_that_lie_upon_each_other() {
    for arch in vectors() {
        for sizes in [[16, 16, 1], [17, 23, 7], [70, 70, 26], [37, 61, 53], [19, 97, 71], [16, 31, 256], [83, 47, 31]] {
            let [m, n, k] = sizes;
            let [lhs, rhs] = [m * k, k * n].map(|len| Data::random(DType::F32, len).values);
            let [lhs32, rhs32] = [&lhs, &rhs].map(|values| values.iter().map(|&v| v as f32).collect::<Vec<f32>>());
            for transposed in [false, true] {
                for (at, result) in small(sizes, arch, transposed, &lhs32, &rhs32).into_iter().enumerate() {
                    let terms = (0..k).map(|p| f64::from(lhs32[at / n * k + p]) * f64::from(rhs32[p * n + at % n]));
                    let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
                    let error = (f64::from(result) - sum).abs();
                    assert!(error <= size * k as f64 * f64::from(f32::EPSILON), "{sizes:?} {at}: {result} for {sum}");
                }
            }
        }
    }
}

#[test]
fn small_products_have_the_bits_of_the_crate() {
    assert_eq!(SmallProduct::pays(Arch::new(), [70, 70, 30]), crate::cpu::micro::lanes_of(Arch::new()) >= 16);
    for side in [16, 30, 50, 70, 77] {
        let [lhs, rhs] = [0, 1].map(|_| Data::random(DType::F32, side * side).values);
        let [lhs, rhs] = [lhs, rhs].map(|values| values.iter().map(|&v| v as f32).collect::<Vec<f32>>());
        let mut whole = vec![0.0; side * side];
        by_the_crate_alone(side, &lhs, &rhs, &mut whole);
        // without vectors a product and its sum may be rounded apart
        for arch in vectors().into_iter().filter(|arch| !matches!(arch, Arch::Scalar)) {
            assert_eq!(small([side; 3], arch, false, &lhs, &rhs), whole, "{side}");
        }
    }
}

#[test]
fn products_of_lines_are_their_dot_products() {
    for arch in vectors() {
        for [m, n, k] in [[3, 3, 9], [4, 8, 16], [5, 7, 31], [13, 6, 100], [6, 13, 1], [9, 4, 257]] {
            // lines with two elements more, results with a gap behind each row
            let (along, stride) = (k + 2, n + 3);
            let random = |lines: usize| -> Vec<f32> {
                Data::random(DType::F32, lines * along).values.into_iter().map(|value| value as f32).collect()
            };
            let (lhs, rhs) = (random(m), random(n));
            let mut target = vec![f32::NAN; m * stride];
            for adds in [false, true] {
                let lines =
                    |values: &[f32], count: usize| Lines { start: values.as_ptr(), count, stride: along as isize };
                let place = (target.as_mut_ptr(), stride as isize);
                // SAFETY: all three have as many elements; those that are added to were written in the first round.
                unsafe { Dots::new(lines(&lhs, m), lines(&rhs, n), k, place, adds).run(arch) };
                let times = if adds { 2.0 } else { 1.0 };
                for (row, results) in target.chunks_exact(stride).enumerate() {
                    assert!(results[n..].iter().all(|value| value.is_nan()), "what is no result is not written");
                    for (column, &result) in results[..n].iter().enumerate() {
                        let terms =
                            (0..k).map(|p| f64::from(lhs[row * along + p]) * f64::from(rhs[column * along + p]));
                        let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
                        let error = (f64::from(result) - times * sum).abs();
                        assert!(error <= times * size * k as f64 * f64::from(f32::EPSILON), "{m}x{n}x{k}: {result}");
                    }
                }
            }
        }
    }
}

#[test]
fn few_lines_are_multiplied_as_they_lie() {
    assert!(dots::pays([8, 3072, 768], true) && dots::pays([3072, 8, 768], false));
    assert!(dots::pays([200, 3072, 768], false) && !dots::pays([200, 3072, 768], true), "turned over for many runs");
    assert!(
        !dots::pays([300, 3072, 768], false) && !dots::pays([20, 20, 40], false) && !dots::pays([2, 40, 4000], true)
    );
    // weights that another kernel of the plan writes; long sums in parts; results that lie along rows
    for ([m, n, k], out) in
        [([40, 90, 130], [0, 1]), ([90, 33, 2300], [1, 0]), ([7, 5, 4500], [0, 1]), ([3, 70, 9], [0, 1])]
    {
        let kernel = contract(&[m, n, k], [0, 1, 1, 1], &[0, 2], &[1, 2], &out);
        let mut code = Code::default();
        let weight = code.load(3, &Ix::axis(0));
        let copy = map(&[n * k], code, vec![store(1, &Ix::axis(0), weight)]);
        let data = [m * k, n * k, m * n, n * k].map(|len| Data::random(DType::F32, len));
        check(vec![copy, Body::Contract(kernel)], &data, 1e-4);
    }
}

#[test]
fn how_many_threads_there_are_changes_no_bits() {
    // rows and columns of which a few are left over by blocks of many sizes; enough work to be shared
    for ([m, n, k], lhs, rhs) in [
        ([161, 130, 300], [0, 2], [2, 1]),
        ([161, 130, 300], [2, 0], [2, 1]),
        ([161, 130, 300], [0, 2], [1, 2]),
        ([515, 66, 330], [2, 0], [1, 2]),
        ([1027, 64, 70], [0, 2], [2, 1]),
        ([33, 1030, 321], [0, 2], [2, 1]),
        // both along the sums: vectors, few lines, too many of them, short sums
        ([1, 2000, 2040], [0, 2], [1, 2]),
        ([2, 2000, 2040], [0, 2], [1, 2]),
        ([20, 904, 1024], [0, 2], [1, 2]),
        ([300, 600, 40], [0, 2], [1, 2]),
        ([1500, 1500, 2], [0, 2], [2, 1]),
    ] {
        for with_epilogue in [false, true] {
            let mut kernel = contract(&[m, n, k], [0, 1, 1, 1], &lhs, &rhs, &[0, 1]);
            if with_epilogue {
                let doubled = InstrOp::Binary(Binary::Add, 0, 0);
                kernel.epilogue.instrs.push(Instr { op: doubled, dtype: DType::F32 });
                kernel.stores[0].value = 1;
            }
            let data = [m * k, n * k, m * n].map(|len| Data::random(DType::F32, len));
            check(vec![Body::Contract(kernel)], &data, 1e-4);
        }
    }
}
