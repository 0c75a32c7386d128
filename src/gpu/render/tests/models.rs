//! Every kernel of the models' training and inference steps is valid WGSL, and SPIR-V, MSL and HLSL can be made of it.

use std::collections::HashSet;

use crate::device::Device;
use crate::dtype::DType;
use crate::models::{ModelSpec, create};
use crate::nn::Mode;
use crate::optim::{Adam, AdamOptions, Optimizer};
use crate::plan::{Plan, PlanOptions};
use crate::runtime::Step;
use crate::shape::Shape;
use crate::stage::Stage;
use crate::tensor::Tensor;

use super::{capabilities, render, validate};

/// A model with the shapes of its inputs and labels.
struct Sample {
    name: &'static str,
    input: &'static [usize],
    input_type: DType,
    labels: &'static [usize],
}

const SAMPLES: [Sample; 5] = [
    Sample { name: "mlp", input: &[1, 8, 8], input_type: DType::F32, labels: &[] },
    Sample { name: "cnn", input: &[1, 8, 8], input_type: DType::F32, labels: &[] },
    Sample { name: "tutorial-cnn", input: &[3, 32, 32], input_type: DType::F32, labels: &[] },
    Sample { name: "unet", input: &[3, 16, 24], input_type: DType::F32, labels: &[16, 24] },
    Sample { name: "gpt", input: &[16], input_type: DType::I32, labels: &[16] },
];

type Function = Box<dyn FnMut(&[Tensor]) -> Vec<Tensor> + Send>;

fn plans(sample: &Sample, literal_sizes: bool) -> Vec<Plan> {
    let device = Device::cpu();
    let spec = ModelSpec { input: sample.input.to_vec(), classes: 10, seed: 1 };
    let with_batch = |sizes: &[usize]| Shape::from([&[3], sizes].concat());
    let inputs = vec![(with_batch(sample.input), sample.input_type), (with_batch(sample.labels), DType::I32)];
    let plan = |inputs: &[(Shape, DType)], function: Function| {
        let mut step = Step::new(&device, function)
            .expect("a step")
            .with_options(|options| *options = PlanOptions { literal_sizes, ..PlanOptions::gpu(8) });
        Plan::clone(&step.prepare(inputs).expect("a plan").plan)
    };
    let model = create(sample.name, &spec, &device).expect("a known model");
    let optimizer = Adam::new(&model.parameters(), AdamOptions::default()).expect("memory");
    let train = move |inputs: &[Tensor]| {
        let loss = Stage::Loss.scope(|| model.forward(&inputs[0]).cross_entropy(&inputs[1]));
        optimizer.update(&loss.backward());
        vec![loss]
    };
    let model = create(sample.name, &spec, &device).expect("a known model");
    let infer = move |inputs: &[Tensor]| vec![Mode::Evaluate.scope(|| model.forward(&inputs[0]))];
    vec![plan(&inputs, Box::new(train)), plan(&inputs[..1], Box::new(infer))]
}

#[test]
fn kernels_of_models_are_valid_everywhere() {
    let mut seen = HashSet::new();
    for sample in &SAMPLES {
        for literal_sizes in [true, false] {
            for plan in plans(sample, literal_sizes) {
                for kernel in &plan.kernels {
                    for caps in [capabilities(true, true), capabilities(false, false)] {
                        for launch in render(&plan, kernel, &caps).expect("it renders") {
                            if seen.insert(launch.wgsl.clone()) {
                                validate(&launch);
                            }
                        }
                    }
                }
            }
        }
    }
    assert!(seen.len() > 100, "{} different kernels", seen.len());
}
