//! Products of matrices, and two loops as notebooks time them that ask whether a GPU is worth it: 7000×3000 by
//! 3000×7000, and 70×30 by 30×70, a hundred times each.

use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::matmul_precision::MatmulPrecision;
use crate::runtime::Step;
use crate::tensor::Tensor;

use super::super::Suite;
use super::super::method::Work;
use super::{Case, compute};

const SMALL: [usize; 2] = [70, 30];
const LARGE: [usize; 2] = [7000, 3000];
const LOOP: usize = 100;
/// A hundred large ones take minutes on a processor.
const QUICK_LOOP: usize = 3;
const SIDES: [usize; 8] = [64, 128, 256, 512, 1024, 2048, 4096, 8192];
const QUICK_SIDES: [usize; 3] = [64, 256, 1024];
const HALF_SIDES: [usize; 3] = [256, 1024, 4096];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![loop_of("notebook_small", SMALL, LOOP, true), loop_of("notebook_large", LARGE, 1, false)];
    for side in SIDES {
        cases.push(square(side, DType::F32).quick(QUICK_SIDES.contains(&side)));
    }
    for side in HALF_SIDES {
        cases.push(square(side, DType::F16));
        cases.push(at_high_precision(square(side, DType::F32)));
    }
    cases.push(product("matmul_1x4096x4096", [1, 4096, 4096], DType::F32).quick(true));
    cases
}

/// The two loops as the notebook ran them.
pub(super) fn as_notebook(quick: bool) -> Vec<Case> {
    let large = if quick { QUICK_LOOP } else { LOOP };
    vec![loop_of("notebook_small", SMALL, LOOP, true), loop_of("notebook_large", LARGE, large, true)]
}

pub(super) fn square(side: usize, dtype: DType) -> Case {
    let name = match dtype {
        DType::F32 => format!("matmul_{side}"),
        _ => format!("matmul_{side}_{dtype}"),
    };
    product(&name, [side; 3], dtype)
}

/// The same product of f32 by units for f16, on devices where that is another one.
fn at_high_precision(case: Case) -> Case {
    // its step keeps the precision
    let precision = MatmulPrecision::High;
    let make = move |device: &Device| device.at_matmul_precision(precision, || (case.make)(device));
    let (name, what) = (format!("{}_high", case.name), format!("{} at high precision", case.what));
    Case { name, what, precision, make: Box::new(make), wanted_on: Device::splits_products, ..case }
}

fn product(name: &str, [rows, inner, columns]: [usize; 3], dtype: DType) -> Case {
    let make = move |device: &Device| {
        let matrix = |rows: usize, columns: usize| Tensor::rand([rows, columns], device).to_dtype(dtype);
        compute(device, vec![matrix(rows, inner), matrix(inner, columns)], |inputs| vec![inputs[0].matmul(&inputs[1])])
    };
    let elements = rows * inner + inner * columns + rows * columns;
    Case::new(Suite::Matmul, name, make)
        .what(format!("{rows}x{inner} times {inner}x{columns}, {dtype}"))
        .dtype(dtype)
        .flops(2.0 * (rows * inner * columns) as f64)
        .bytes((elements * dtype.size_bytes()) as f64)
}

/// `count` times: two random matrices, their product, and the sum of all of its elements.
fn loop_of(name: &str, [rows, inner]: [usize; 2], count: usize, quick: bool) -> Case {
    let make = move |device: &Device| -> Result<Box<dyn Work>> {
        let drawn = device.clone();
        let step = Step::new(device, move |_| {
            let [x, y] = [(); 2].map(|()| Tensor::rand([rows, inner], &drawn));
            vec![x.matmul(&y.t()).sum()]
        })?;
        Ok(Box::new(Loop { device: device.clone(), step, count }))
    };
    // how often is part of what it is: loops of different lengths are different cases
    Case::new(Suite::Matmul, format!("{name}_x{count}"), make)
        .what(format!("{count} times: random {rows}x{inner} and {inner}x{rows}, their product, its sum"))
        .flops(2.0 * (count * rows * inner * rows) as f64)
        .quick(quick)
}

struct Loop {
    device: Device,
    step: Step,
    count: usize,
}

impl Work for Loop {
    fn start(&mut self) -> Result<()> {
        (0..self.count).try_for_each(|_| self.step.run(&[]).map(drop))
    }

    fn wait(&mut self) -> Result<()> {
        self.device.sync()
    }
}
