//! Models that are written as ONNX and read again compute what they did: every op of the table, and whole networks.
//!
//! `BRASA_SAVE_ONNX=FOLDER` writes them all, with inputs and outputs, for `reference/check_onnx.py FOLDER`, which runs
//! them in onnxruntime.

use std::collections::BTreeMap;
use std::path::PathBuf;

use brasa::doctor::rows::{FAMILIES, Row};
use brasa::formats::onnx::{Batch, ExportOptions, Input, Model, export_function};
use brasa::models::{ModelSpec, create};
use brasa::nn::{Mode, save_tensors};
use brasa::{DType, Device, Tensor, no_grad};

use crate::common::{assert_close, floats};

/// What ONNX has no operators for, or brasa no pattern: sorts and what is built on them, bits, shifts, angles,
/// decompositions of matrices.
const REFUSED: [&str; 69] = [
    "argsort",
    "argsort_bytes",
    "bincount",
    "cholesky",
    "cholesky_solve",
    "cond",
    "copysign",
    "det",
    "eigh",
    "eigvalsh",
    "fft",
    "fft2",
    "fft_longer",
    "fft_shorter",
    "fftn",
    "histc",
    "ifft",
    "ifft2",
    "ifftn",
    "index_copy",
    "index_fill",
    "index_put",
    "inv",
    "irfft",
    "irfft2",
    "irfft_strided",
    "irfftn",
    "istft",
    "kthvalue",
    "lstsq",
    "matrix_power_of_inverse",
    "matrix_rank",
    "max_unpool2d",
    "median",
    "median_dim",
    "nanmedian",
    "pinv",
    "qr",
    "qr_wide",
    "quantile",
    "rfft",
    "rfft2",
    "rfft_strided",
    "rfftn",
    "scatter",
    "scatter_max",
    "scatter_mean",
    "scatter_mean_others",
    "scatter_min_others",
    "scatter_number",
    "scatter_prod",
    "scatter_prod_others",
    "scatter_sum_others",
    "searchsorted",
    "searchsorted_right",
    "shift",
    "signbit",
    "slogdet",
    "solve",
    "solve_triangular",
    "solve_triangular_unit",
    "solve_triangular_upper",
    "sort",
    "sort_descending",
    "stft",
    "svd",
    "svdvals",
    "topk",
    "topk_smallest",
];
/// What divides by zero, wraps or needs the highest bit, in whole numbers: programs differ.
const UNDEFINED: [&str; 6] = ["bitwise_not", "div_trunc", "floor_divide", "fmod", "remainder", "sub"];

/// Where models are written to for other programs, if anywhere.
fn folder() -> Option<PathBuf> {
    std::env::var_os("BRASA_SAVE_ONNX").map(PathBuf::from)
}

fn save(name: &str, model: &[u8], values: &[(&str, &Tensor)]) {
    let Some(folder) = folder() else { return };
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join(format!("{name}.onnx")), model).expect("writable");
    let values: BTreeMap<String, Tensor> =
        values.iter().map(|(name, value)| ((*name).to_owned(), (*value).clone())).collect();
    save_tensors(&values, folder.join(format!("{name}.safetensors"))).expect("writable");
}

/// All elements, whatever their type.
fn numbers(tensor: &Tensor) -> Vec<f64> {
    tensor.to_dtype(DType::F32).to_vec::<f32>().expect("values").into_iter().map(f64::from).collect()
}

/// Inputs in the types that the model has them in: integers without a sign are written as ones of 64 bits, which are
/// i32 here.
fn as_given(model: &Model, inputs: &[Tensor]) -> Vec<Tensor> {
    let given = model.inputs().iter().zip(inputs);
    given.map(|(info, input)| input.to_dtype(info.dtype.expect("a known type"))).collect()
}

/// Writes each case of a row, reads it again and holds what it computes against the row itself: what is wrong is added
/// to `problems`. False if ONNX has no operators for it.
fn written_and_read(row: &Row, device: &Device, problems: &mut Vec<String>) -> bool {
    for (number, case) in row.cases.iter().enumerate() {
        let leaves: Vec<Tensor> = case
            .iter()
            .zip(1..)
            .map(|(input, seed)| input.leaf(&input.sample(seed), device).expect("a small tensor"))
            .collect();
        let names: Vec<String> = (0..case.len()).map(|number| format!("x{number}")).collect();
        let inputs: Vec<Input> = names
            .iter()
            .zip(case)
            .map(|(name, input)| Input::new(name, input.shape.as_slice(), input.dtype).without_batch())
            .collect();
        let options = ExportOptions { batch: Batch::Fixed(1), ..ExportOptions::default() };
        let call = row.call;
        let bytes = match export_function(device, &inputs, &["y"], &options, |inputs| vec![call(inputs)]) {
            Ok(bytes) => bytes,
            Err(error) => {
                assert!(error.to_string().contains("no operator of ONNX"), "{}: {error}", row.name);
                return false;
            }
        };
        let integers = case.iter().all(|input| !input.dtype.is_float());
        if integers && UNDEFINED.contains(&row.name) {
            continue;
        }
        let expected = call(&leaves);
        let what = format!("{}-{number}", row.name);
        let mut values: Vec<(&str, &Tensor)> = names.iter().map(String::as_str).zip(&leaves).collect();
        values.push(("y", &expected));
        save(&what.replace(|sign: char| !sign.is_ascii_alphanumeric() && sign != '-', "_"), &bytes, &values);
        let run = || -> brasa::Result<Tensor> {
            let model = Model::from_bytes(&bytes, None, device)?;
            Ok(model.run(&as_given(&model, &leaves))?.remove(0))
        };
        let tolerance = if expected.dtype() == DType::F16 { 2e-3 } else { 1e-5 * f64::max(row.tolerance / 16.0, 1.0) };
        match run() {
            Err(error) => problems.push(format!("{what}: {error}")),
            Ok(got) if got.shape() != expected.shape() => {
                problems.push(format!("{what}: {} instead of {}", got.shape(), expected.shape()));
            }
            Ok(got) => {
                let (got, expected) = (numbers(&got), numbers(&expected));
                let differ = |(got, expected): &(&f64, &f64)| {
                    let same = got == expected || got.is_nan() && expected.is_nan();
                    let near = (*got - *expected).abs() <= tolerance + tolerance * expected.abs();
                    !(same || near)
                };
                if let Some((got, expected)) = got.iter().zip(&expected).find(differ) {
                    problems.push(format!("{what}: {got} instead of {expected}"));
                }
            }
        }
    }
    true
}

#[test]
fn every_op_is_written_and_read_or_refused() {
    let device = Device::cpu();
    let rows = FAMILIES.into_iter().flat_map(|(_, rows)| rows());
    let mut problems = Vec::new();
    let refused = rows.filter(|row| !written_and_read(row, &device, &mut problems));
    let mut refused: Vec<&str> = refused.map(|row| row.name).collect();
    refused.sort_unstable();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert_eq!(refused, REFUSED, "the ops that ONNX has no operators for");
}

/// Networks with the shapes of their samples.
const NETWORKS: [(&str, &[usize]); 9] = [
    ("mlp", &[1, 8, 8]),
    ("cnn", &[1, 8, 8]),
    ("tutorial-cnn", &[3, 32, 32]),
    ("resnet20", &[3, 16, 16]),
    ("mobilenet-v2", &[3, 32, 32]),
    ("convnext-tiny", &[3, 32, 32]),
    ("vit-tiny", &[3, 32, 32]),
    ("unet", &[3, 16, 16]),
    ("gpt", &[16]),
];

#[test]
fn networks_are_written_for_any_batch_and_read() {
    let device = Device::cpu();
    for (name, shape) in NETWORKS {
        let spec = ModelSpec { input: shape.to_vec(), classes: 7, seed: 1 };
        let network = create(name, &spec, &device).expect("a model");
        let dtype = if name == "gpt" { DType::U32 } else { DType::F32 };
        let inputs = [Input::new("x", shape, dtype)];
        let forward = |x: &Tensor| no_grad(|| Mode::Evaluate.scope(|| network.forward(x)));
        let bytes =
            export_function(&device, &inputs, &["y"], &ExportOptions::default(), |inputs| vec![forward(&inputs[0])]);
        let bytes = bytes.unwrap_or_else(|error| panic!("{name}: {error}"));
        let model = Model::from_bytes(&bytes, None, &device).unwrap_or_else(|error| panic!("{name}: {error}"));
        for batch in [1, 5] {
            let sizes = [&[batch], shape].concat();
            let (low, high) = if name == "gpt" { (0.0, 7.0) } else { (-1.0, 1.0) };
            let x = floats(batch as u64, sizes.iter().product(), low, high);
            let x = Tensor::from_slice(&x, sizes, &device).expect("a small tensor").to_dtype(dtype);
            let expected = forward(&x);
            save(&format!("{name}-{batch}"), &bytes, &[("x", &x), ("y", &expected)]);
            let got = model.run(&as_given(&model, &[x])).unwrap_or_else(|error| panic!("{name}: {error}")).remove(0);
            assert_eq!(got.shape(), expected.shape(), "{name}");
            assert_close(name, &numbers(&got), &numbers(&expected), 1e-4, 1e-4);
        }
    }
}
