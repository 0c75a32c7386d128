//! Models of `tests/reference/record_onnx.py`, of one operator each and of PyTorch's exporters, with what ONNX Runtime
//! computed.

use std::collections::BTreeSet;

use brasa::formats::onnx::{Dimension, Model};
use brasa::nn::{Module, Variables, trainable};
use brasa::optim::Optimizer as _;
use brasa::runtime::{Step, VarKind};
use brasa::tensor::Reduction;
use brasa::{DType, Device, Tensor, optim};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use super::Numbers;
use crate::common::{assert_same, devices, doubles, panic_of};

fn recording() -> Vec<u8> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/reference/onnx_cases.safetensors");
    std::fs::read(path).expect("the recording lies beside the test")
}

fn numbers(view: &TensorView<'_>) -> Numbers {
    let bytes = view.data();
    macro_rules! values {
        ($type:ty, $of:expr) => {
            bytes
                .chunks_exact(size_of::<$type>())
                .map(|chunk| $of(<$type>::from_le_bytes(chunk.try_into().expect("so many bytes"))))
                .collect()
        };
    }
    let (values, rounding) = match view.dtype() {
        Dtype::F32 => (values!(f32, f64::from), Some(0.0)),
        Dtype::F16 => (values!(u16, |bits| half::f16::from_bits(bits).to_f64()), Some(2e-3)),
        Dtype::I64 => (values!(i64, |value| value as f64), None),
        Dtype::I32 => (values!(i32, f64::from), None),
        Dtype::I8 => (values!(i8, f64::from), None),
        Dtype::U8 | Dtype::BOOL => (values!(u8, f64::from), None),
        other => panic!("recorded as {other:?}"),
    };
    Numbers { shape: view.shape().to_vec(), values, rounding }
}

/// A recorded model: its bytes, inputs and outputs.
struct Case {
    name: String,
    bytes: Vec<u8>,
    inputs: Vec<Numbers>,
    outputs: Vec<Numbers>,
}

impl Case {
    fn all() -> Vec<Self> {
        let recording = recording();
        let file = SafeTensors::deserialize(&recording).expect("a recording");
        let names: BTreeSet<String> =
            file.names().iter().filter_map(|name| name.split_once('/')).map(|(name, _)| name.to_owned()).collect();
        let case = |name: String| {
            let several = |kind: &str| {
                (0..)
                    .map_while(|number| file.tensor(&format!("{name}/{kind}/{number}")).ok())
                    .map(|view| numbers(&view))
                    .collect()
            };
            let bytes = file.tensor(&format!("{name}/model")).expect("a model").data().to_vec();
            Self { bytes, inputs: several("in"), outputs: several("out"), name }
        };
        names.into_iter().map(case).collect()
    }

    fn named(name: &str) -> Self {
        Self::all().into_iter().find(|case| case.name == name).expect("it was recorded")
    }

    fn model(&self, device: &Device) -> Model {
        Model::from_bytes(&self.bytes, None, device).unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    fn tensors(&self, model: &Model) -> Vec<Tensor> {
        let types = model.inputs().iter().map(|input| input.dtype.expect("it is told"));
        self.inputs.iter().zip(types).map(|(input, dtype)| input.to_tensor(dtype, model.device())).collect()
    }
}

#[test]
fn models_compute_what_onnx_runtime_does() {
    let (cases, mut failures) = (Case::all(), Vec::new());
    for device in devices() {
        for case in &cases {
            let Case { name, outputs, .. } = case;
            let model = case.model(&device);
            let inputs = case.tensors(&model);
            let got = ["traced", "captured", "replayed"].map(|how| match how {
                "traced" => (how, model.forward(&inputs)),
                _ => (how, model.run(&inputs)),
            });
            for (how, got) in got {
                let got = got.unwrap_or_else(|error| panic!("{name} on {}: {error}", device.name()));
                assert_eq!(got.len(), outputs.len(), "{name}");
                for (number, (got, expected)) in got.iter().zip(outputs).enumerate() {
                    let difference = expected.difference(got, 1e-4, 1e-5);
                    let place = || format!("{name} {how} on {}, output {number}", device.name());
                    failures.extend(difference.map(|difference| format!("{}: {difference}", place())));
                }
            }
        }
    }
    assert!(cases.len() > 200, "{} cases", cases.len());
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn a_model_tells_what_it_takes_and_gives() {
    let model = Case::named("torch_cnn").model(&Device::cpu());
    let [input] = model.inputs() else { panic!("{:?}", model.inputs()) };
    assert_eq!(input.to_string(), "input: float32 [batch, 3, 8, 8]");
    assert_eq!(input.dtype, Some(DType::F32));
    assert_eq!(input.dimensions.as_ref().map(|sizes| sizes[0].clone()), Some(Dimension::Named("batch".into())));
    assert_eq!(model.outputs()[0].to_string(), "output: float32 [batch, 5]");
    let tokens = Case::named("torch_block").model(&Device::cpu());
    assert_eq!((tokens.inputs()[0].element_type.as_str(), tokens.inputs()[0].dtype), ("int64", Some(DType::I32)));
}

#[test]
fn weights_are_variables_under_their_names() {
    let model = Case::named("dynamo_cnn").model(&Device::cpu());
    let names: Vec<String> = model.parameters().iter().map(|var| var.name().to_owned()).collect();
    for name in ["conv1.weight", "conv2.weight", "fc.weight", "fc.bias"] {
        assert!(names.contains(&name.to_owned()), "{name} in {names:?}");
    }
    let case = Case::named("BatchNormalization").model(&Device::cpu());
    let kinds: Vec<VarKind> = case.variables().iter().map(|var| var.kind()).collect();
    assert_eq!(kinds, [VarKind::Parameter, VarKind::Parameter, VarKind::Buffer, VarKind::Buffer]);
}

#[test]
fn a_model_is_a_module_that_learns() {
    for device in devices() {
        let case = Case::named("torch_cnn");
        let model = case.model(&device);
        let input = case.tensors(&model).remove(0);
        assert_same(
            "as a module",
            &Module::forward(&model, &input),
            &model.run(std::slice::from_ref(&input)).expect("a run")[0],
        );
        let parameters = trainable(&model, &[]).expect("no pattern");
        let optimizer = optim::SGD::new(&parameters, optim::SGDOptions { learning_rate: 0.05, ..Default::default() });
        let optimizer = optimizer.expect("memory");
        let labels = Tensor::from_slice(&[1_i32, 3], [2], &device).expect("memory");
        let mut step = Step::new(&device, move |inputs| {
            let loss = Module::forward(&model, &inputs[0]).nll_loss(&inputs[1], Reduction::Mean);
            optimizer.update(&loss.backward());
            vec![loss]
        })
        .expect("memory");
        let mut losses = Vec::new();
        for _ in 0..40 {
            losses.push(step.run(&[input.clone(), labels.clone()]).expect("a step")[0].item::<f32>().expect("a loss"));
        }
        assert!(losses[39] < 0.3 * losses[0], "{losses:?}");
    }
}

#[test]
fn gradients_reach_inputs_and_every_parameter() {
    for name in ["torch_block", "torch_unet", "dynamo_recurrent", "attention_mask"] {
        let case = Case::named(name);
        let model = case.model(&Device::cpu());
        let output = model.forward(&case.tensors(&model)).expect("shapes fit").remove(0);
        let gradients = output.square().sum().backward();
        for parameter in model.parameters() {
            let gradient =
                gradients.get(&parameter.tensor()).unwrap_or_else(|| panic!("{name}: none of {parameter:?}"));
            assert!(doubles(&gradient).iter().all(|value| value.is_finite()), "{name}: {parameter:?}");
        }
    }
}

#[test]
fn what_does_not_fit_is_an_error_that_names_it() {
    let device = Device::cpu();
    let model = Case::named("torch_cnn").model(&device);
    let message = |inputs: &[Tensor]| model.run(inputs).expect_err("it does not fit").to_string();
    assert!(message(&[]).contains("0 inputs are given, and it takes 1: input"), "{}", message(&[]));
    let wrong = Tensor::zeros([2, 3, 8, 9], &device);
    let expected = "input input: float32 [batch, 3, 8, 8], which is f32 here: f32[2, 3, 8, 9] does not fit";
    assert!(message(std::slice::from_ref(&wrong)).contains(expected), "{}", message(std::slice::from_ref(&wrong)));
    let integers = Tensor::zeros_of([2, 3, 8, 8], DType::I32, &device);
    assert!(message(&[integers]).contains("i32[2, 3, 8, 8] does not fit"));
    let (panic, file, _) = panic_of(|| Module::forward(&model, &wrong));
    assert!(panic.contains("does not fit") && file.ends_with("recorded.rs"), "{panic} at {file}");
    let truncated = &Case::named("torch_cnn").bytes[..1000];
    let error = Model::from_bytes(truncated, None, &device).expect_err("it is cut off").to_string();
    assert!(error.contains("it is damaged, or no ONNX model"), "{error}");
    assert!(Model::load("/nowhere.onnx", &device).is_err());
}

#[test]
fn shapes_that_depend_on_values_are_read_outside_of_steps() {
    let case = Case::named("NonZero");
    let device = Device::cpu();
    let model = case.model(&device);
    let input = case.tensors(&model).remove(0);
    // other values, other shapes
    let zeros = input.zeros_like();
    assert_eq!(model.run(&[zeros]).expect("a run")[0].shape().dims(), [2, 0]);
    assert_eq!(model.run(std::slice::from_ref(&input)).expect("a run")[0].shape().dims(), case.outputs[0].shape);
    let mut step = Step::new(&device, move |inputs| {
        let error = model.forward(inputs).expect_err("nothing is known in a step").to_string();
        assert!(error.contains("inside a captured step"), "{error}");
        inputs.to_vec()
    })
    .expect("memory");
    step.run(&[input]).expect("a step");
}

#[test]
fn a_signature_is_traced_once() {
    let device = Device::cpu().reopen().expect("it opens twice");
    let case = Case::named("torch_block");
    let model = case.model(&device);
    for length in [3, 6, 3] {
        let tokens = Tensor::zeros_of([1, length], DType::I32, &device);
        let output = model.run(&[tokens]).expect("a run").remove(0);
        assert_eq!(output.shape().dims(), [1, length, 16]);
    }
}
