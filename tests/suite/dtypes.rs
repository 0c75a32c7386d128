//! Every element type through the whole engine, on strided, broadcast and prime-sized inputs, against the f64 reference.

use std::collections::HashMap;

use brasa::graph::reference::{decode, evaluate};
use brasa::{DType, Device, Tensor};

use crate::common::{assert_close, devices, values};

const ROWS: usize = 13;
const COLUMNS: usize = 7;

/// Small whole numbers (halves for floats): exact in every type, and so are their products and sums.
fn sample(seed: u64, shape: [usize; 2], dtype: DType, device: &Device) -> Tensor {
    let low = if matches!(dtype, DType::U32 | DType::U8 | DType::Bool) { 0.0 } else { -6.0 };
    let high = if dtype == DType::Bool { 2.0 } else { 7.0 };
    let whole: Vec<f32> =
        values(seed, shape[0] * shape[1], low, high).into_iter().map(|value| value.floor() as f32).collect();
    let whole = Tensor::from_slice(&whole, shape, device).expect("memory");
    if dtype.is_float() { (whole * 0.5).to_dtype(dtype) } else { whole.to_dtype(dtype) }
}

/// Evaluates each on its device, and compares with the reference. f16 results are rounded once: half an ulp, 2^-11.
fn check(dtype: DType, results: &[(&str, Tensor)]) {
    for (name, result) in results {
        let expected = evaluate(std::slice::from_ref(result.node()), &HashMap::new()).remove(0);
        let bytes = bytes_of(result);
        let got = decode(result.dtype(), &bytes);
        let relative = if result.dtype() == DType::F16 { 2f64.powi(-11) } else { 1e-6 };
        assert_close(&format!("{name} of {dtype} on {}", result.device().name()), &got, &expected, relative, 1e-6);
    }
}

/// The elements as they lie in memory.
fn bytes_of(tensor: &Tensor) -> Vec<u8> {
    use brasa::Element;
    match tensor.dtype() {
        DType::F32 => f32::to_bytes(&tensor.to_vec().expect("values")).into_owned(),
        DType::F16 => half::f16::to_bytes(&tensor.to_vec().expect("values")).into_owned(),
        DType::I32 => i32::to_bytes(&tensor.to_vec().expect("values")).into_owned(),
        DType::U32 => u32::to_bytes(&tensor.to_vec().expect("values")).into_owned(),
        DType::U8 => u8::to_bytes(&tensor.to_vec().expect("values")).into_owned(),
        DType::Bool => bool::to_bytes(&tensor.to_vec().expect("values")).into_owned(),
    }
}

#[test]
fn arithmetic_of_every_number_type() {
    for device in devices() {
        for dtype in [DType::F32, DType::F16, DType::I32, DType::U32] {
            let a = sample(1, [ROWS, COLUMNS], dtype, &device);
            let b = sample(2, [COLUMNS, ROWS], dtype, &device);
            let row = sample(3, [1, COLUMNS], dtype, &device);
            check(
                dtype,
                &[
                    ("add of a transpose", &a + b.t()),
                    ("mul by a row", &a * &row),
                    ("maximum of a strided part", a.slice_step(0, 1.., 3).maximum(&row)),
                    ("flip and pad", a.flip(1).pad(&[(1, 2), (0, 3)], 1)),
                    ("comparison", a.lt(b.t())),
                    ("select", a.lt(&row).where_(&a, &row)),
                    ("sum of rows", a.sum_dim(1)),
                    ("sum of columns", a.sum_dim(0)),
                    ("largest of columns of a transpose", b.t().max_dim(0)),
                    ("smallest of all", a.min()),
                    ("argmax", a.argmax(1)),
                    ("matmul", a.matmul(&b)),
                    ("matmul of transposes", b.t().matmul(&a.t())),
                    ("cat", Tensor::cat(&[&a, &row], 0)),
                ],
            );
        }
    }
}

#[test]
fn bytes_and_truth_values() {
    for device in devices() {
        let bytes = sample(4, [ROWS, COLUMNS], DType::U8, &device);
        let flags = sample(5, [ROWS, COLUMNS], DType::Bool, &device);
        let other = sample(6, [COLUMNS, ROWS], DType::Bool, &device).t();
        check(
            DType::Bool,
            &[
                ("bytes as floats, transposed", bytes.t().to_dtype(DType::F32) / 255.0),
                ("bytes moved", bytes.t().flip(0)),
                ("floats as bytes", (bytes.to_dtype(DType::F32) * 2.0).to_dtype(DType::U8)),
                ("and", flags.logical_and(&other)),
                ("or, moved", flags.logical_or(&other).t()),
                ("not", flags.logical_not()),
                ("any of rows", flags.any_dim(1)),
                ("all of columns", flags.all_dim(0)),
                ("as numbers", flags.to_dtype(DType::I32).sum_dim(0)),
            ],
        );
    }
}

#[test]
fn every_cast() {
    for device in devices() {
        for from in DType::ALL {
            let x = sample(7, [COLUMNS, ROWS], from, &device).t();
            let casts: Vec<(&str, Tensor)> = DType::ALL.into_iter().map(|to| (to.name(), x.to_dtype(to))).collect();
            // negative numbers as u8 or u32 saturate or wrap as Rust's `as` does; the reference says how
            check(from, &casts);
        }
    }
}
