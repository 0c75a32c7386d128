//! ONNX's own cases for each operator, where there are some: `BRASA_ONNX_CASES` names a folder of folders with
//! `model.onnx` and `test_data_set_0`, as `onnx.backend.test.case.node.collect_testcases` makes them.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use brasa::Device;
use brasa::formats::onnx::Model;
use prost::Message;

use super::Numbers;
use crate::common::caught;

/// The fields of a `TensorProto` that the cases have.
#[derive(Clone, PartialEq, Message)]
struct Stored {
    #[prost(int64, repeated, tag = "1")]
    dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    data_type: i32,
    #[prost(int32, repeated, tag = "5")]
    int32_data: Vec<i32>,
    #[prost(bytes = "vec", tag = "9")]
    raw_data: Vec<u8>,
}

impl Stored {
    /// `None` if the type is none of numbers here.
    fn numbers(&self) -> Option<Numbers> {
        macro_rules! values {
            ($type:ty, $of:expr) => {
                self.raw_data
                    .chunks_exact(size_of::<$type>())
                    .map(|chunk| $of(<$type>::from_le_bytes(chunk.try_into().expect("so many bytes"))))
                    .collect()
            };
        }
        let values = match self.data_type {
            _ if !self.int32_data.is_empty() => self.int32_data.iter().copied().map(f64::from).collect(),
            1 => values!(f32, f64::from),
            2 | 9 => values!(u8, f64::from),
            3 => values!(i8, f64::from),
            4 => values!(u16, f64::from),
            5 => values!(i16, f64::from),
            6 => values!(i32, f64::from),
            7 => values!(i64, |value| value as f64),
            10 => values!(u16, |bits| half::f16::from_bits(bits).to_f64()),
            11 => values!(f64, |value| value),
            12 => values!(u32, f64::from),
            13 => values!(u64, |value| value as f64),
            16 => values!(u16, |bits| half::bf16::from_bits(bits).to_f64()),
            _ => return None,
        };
        let shape = self.dims.iter().map(|&size| size as usize).collect();
        // bf16 is computed in f32 here
        let rounding = match self.data_type {
            1 | 11 => Some(0.0),
            10 => Some(2e-3),
            16 => Some(1e-2),
            _ => None,
        };
        Some(Numbers { shape, values, rounding })
    }
}

fn tensors(folder: &Path, kind: &str) -> Option<Vec<Numbers>> {
    let path = |number: usize| folder.join(format!("test_data_set_0/{kind}_{number}.pb"));
    let bytes = (0..).map_while(|number| fs::read(path(number)).ok());
    bytes.map(|bytes| Stored::decode(bytes.as_slice()).expect("a tensor").numbers()).collect()
}

enum Outcome {
    Passed,
    Unsupported(String),
    Failed(String),
}

fn run(folder: &Path, device: &Device) -> Outcome {
    let (Some(inputs), Some(outputs)) = (tensors(folder, "input"), tensors(folder, "output")) else {
        return Outcome::Unsupported("types".into());
    };
    // their random numbers are NumPy's
    let name = folder.to_string_lossy();
    if name.contains("training_dropout") && !name.contains("zero_ratio") || name.contains("bernoulli") {
        return Outcome::Unsupported("random numbers".into());
    }
    if !folder.join("model.onnx").exists() {
        return Outcome::Unsupported("sequences".into());
    }
    let model = match Model::load(folder.join("model.onnx"), device) {
        Ok(model) => model,
        Err(error) => {
            let message = error.to_string();
            let unsupported = ["not supported", "not known", "cannot be read", "no tensor"];
            let is_unsupported = unsupported.iter().any(|text| message.contains(text));
            return if is_unsupported { Outcome::Unsupported(message) } else { Outcome::Failed(message) };
        }
    };
    let types = model.inputs().iter().map(|input| input.dtype.expect("cases tell types"));
    let inputs: Vec<_> = inputs.iter().zip(types).map(|(input, dtype)| input.to_tensor(dtype, device)).collect();
    let got = match model.run(&inputs) {
        Ok(got) => got,
        Err(error) if error.to_string().contains("not known") => return Outcome::Unsupported(error.to_string()),
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    if let Err(error) = got.iter().try_for_each(brasa::Tensor::realize) {
        return Outcome::Failed(error.to_string());
    }
    let tolerance = fs::read_to_string(folder.join("tolerance")).unwrap_or_default();
    let mut tolerance = tolerance.split_whitespace().map(|number| number.parse::<f64>().expect("a number"));
    let (relative, absolute) = (tolerance.next().unwrap_or(1e-3), tolerance.next().unwrap_or(1e-7));
    for (number, (got, expected)) in got.iter().zip(&outputs).enumerate() {
        if let Some(difference) = expected.difference(got, relative, absolute.max(1e-6)) {
            return Outcome::Failed(format!("output {number}: {difference}"));
        }
    }
    Outcome::Passed
}

/// On standard error, also where the test passes.
fn tell(text: &str) {
    let _unseen = writeln!(std::io::stderr(), "{text}");
}

#[test]
fn onnx_own_cases_pass_where_operators_are_supported() {
    let Some(folder) = std::env::var_os("BRASA_ONNX_CASES") else {
        return crate::common::skipped("ONNX's own cases, as BRASA_ONNX_CASES names no folder of them");
    };
    let only = std::env::var("BRASA_ONNX_ONLY").unwrap_or_default();
    let mut folders: Vec<_> = fs::read_dir(&folder).expect("a folder").flatten().map(|entry| entry.path()).collect();
    folders.sort();
    let device = Device::cpu();
    let (mut passed, mut unsupported, mut failed) = (0, 0, Vec::new());
    for folder in folders.iter().filter(|folder| folder.to_string_lossy().contains(&only)) {
        let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
        let outcome = caught(|| run(folder, &device))
            .unwrap_or_else(|((message, file, line), _)| Outcome::Failed(format!("PANIC at {file}:{line}: {message}")));
        match outcome {
            Outcome::Passed => passed += 1,
            Outcome::Unsupported(why) => {
                unsupported += 1;
                tell(&format!("unsupported {name}: {why}"));
            }
            Outcome::Failed(why) => failed.push(format!("{name}: {why}")),
        }
    }
    for failed in &failed {
        tell(&format!("failed {failed}"));
    }
    tell(&format!("{passed} passed, {unsupported} unsupported, {} failed", failed.len()));
    assert!(failed.is_empty(), "{} cases failed", failed.len());
}
