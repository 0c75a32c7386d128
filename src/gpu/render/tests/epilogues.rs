//! Epilogues whose values are the same for a row or a column of results.

use super::*;
use crate::gpu::render::{Variant, render_as};
use crate::graph::{Binary, Unary};
use crate::matmul_precision::MatmulPrecision;
use crate::plan::ContractKernel;

/// `(sum - mean[m]) / sqrt(var[m] + eps) * scale[n] + (0 < flag[m] ? shift[n] : one[]) + own[m, n]`, of a product.
fn normalized(case: &mut Case, [m, n, k]: [usize; 3]) -> Body {
    let [left, right] = [m * k, n * k].map(|elements| case.data(DType::F32, elements));
    let own = case.data(DType::F32, m * n);
    // mean, variance and flag of each row; scale and shift of each column
    let of_rows = (0..m).flat_map(|row| [row as f64 / 8.0 - 1.0, 0.5 + row as f64 / 16.0, (row % 3) as f64 - 1.0]);
    let of_rows = case.buffer(DType::F32, of_rows);
    let of_columns = case.data(DType::F32, 2 * n);
    let one = case.buffer(DType::F32, [0.75]);
    let out = case.data(DType::F32, m * n);
    let (ni, ki) = (n as i64, k as i64);
    let mut lhs = Code::default();
    let a = lhs.load(DType::F32, left, affine(&[ki, 0, 1], 0));
    let mut rhs = Code::default();
    // a condition has parts of its own, as a border of a convolution
    let inside = Cond::InRange(affine(&[0, 1, 1], 0), ni);
    let b = rhs.load_if(DType::F32, right, affine(&[0, 1, ni], 0), vec![inside]);
    let mut code = Code::default();
    let of = |code: &mut Code, op, x, y| code.push(DType::F32, InstrOp::Binary(op, x, y));
    let one = code.load(DType::F32, one, Ix::constant(0));
    let sum = code.push(DType::F32, InstrOp::Accumulator);
    let mean = code.load(DType::F32, of_rows, affine(&[3, 0], 0));
    let apart = of(&mut code, Binary::Sub, sum, mean);
    let var = code.load(DType::F32, of_rows, affine(&[3, 0], 1));
    let eps = code.constant(DType::F32, 1e-5);
    let var = of(&mut code, Binary::Add, var, eps);
    let slope = code.push(DType::F32, InstrOp::Unary(Unary::Rsqrt, var));
    let value = of(&mut code, Binary::Mul, apart, slope);
    let scale = code.load(DType::F32, of_columns, affine(&[0, 1], 0));
    let value = of(&mut code, Binary::Mul, value, scale);
    let flag = code.load(DType::F32, of_rows, affine(&[3, 0], 2));
    let zero = code.constant(DType::F32, 0.0);
    let flag = code.push(DType::Bool, InstrOp::Binary(Binary::Lt, zero, flag));
    let shift = code.load(DType::F32, of_columns, affine(&[0, 1], ni));
    let shift = code.push(DType::F32, InstrOp::Select(flag, shift, one));
    let value = of(&mut code, Binary::Add, value, shift);
    let own = code.load(DType::F32, own, affine(&[ni, 1], 0));
    let value = of(&mut code, Binary::Add, value, own);
    Body::Contract(ContractKernel {
        axes: vec![m, n, k],
        counts: [0, 1, 1, 1],
        lhs: (lhs.0, a),
        rhs: (rhs.0, b),
        epilogue: code.0,
        stores: vec![store(out, affine(&[ni, 1], 0), value)],
        accumulator: DType::F32,
        precision: MatmulPrecision::Highest,
    })
}

/// Odd sizes: rows and columns behind the last ones, lanes without a tile of their own.
#[test]
fn they_are_what_the_interpreter_says() {
    for sizes in [[1usize, 4, 3], [13, 10, 7], [31, 37, 11], [64, 96, 16], [70, 130, 9]] {
        let mut case = Case::new();
        let body = normalized(&mut case, sizes);
        case.check(body);
    }
}

#[test]
fn a_tile_reads_them_once() {
    let mut case = Case::new();
    case.plan.literal_sizes = true;
    let body = normalized(&mut case, [31, 37, 11]);
    let kernel = case.kernel(&body);
    let plain = Variant::Registers { rows: 8, columns: 8, threads: 8 };
    let together = Variant::Subgroups { rows: 8, columns: 8, sharing: 4 };
    let reads = [(plain, 8), (together, 2), (Variant::Registers { rows: 8, columns: 4, threads: 8 }, 0)];
    let mut results = Vec::new();
    for (variant, of_rows) in reads {
        let caps = reading_together();
        let launches = render_as(&case.plan, &kernel, &caps, Some(variant)).expect("it renders");
        launches.iter().for_each(validate);
        let text = &launches[0].wgsl;
        // the mean, the slope, the flag, which is compared anew as that is a bool, and the one value of all
        let calls = |name: &str| {
            text.lines().filter(|line| line.contains(&format!(" = {name}_")) && line.contains("(batch, ")).count()
        };
        assert_eq!(calls("row"), 4 * of_rows, "{variant}\n{text}");
        assert_eq!(calls("column"), if variant == reads[2].0 { 2 } else { 4 }, "{variant}\n{text}");
        let Some(gpu) = runner::gpu().filter(|gpu| caps.subgroups.is_some_and(|sizes| gpu.has(sizes))) else {
            continue;
        };
        let mut contents = case.contents.clone();
        gpu.run(&launches, &mut contents, &case.uniforms);
        results.push(contents);
    }
    assert!(results.iter().all(|result| *result == results[0]), "other bits");
}
