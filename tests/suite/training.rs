//! Training, end to end: the same losses as PyTorch step by step, a small set learnt by heart, weights saved and loaded.
//!
//! `reference/record.py` made the expected numbers and describes them; weights and data come from an integer hash that both
//! sides compute.

use brasa::models::{CifarResNet, Gpt, GptOptions, Mlp, ModelSpec, TutorialCnn, UNet};
use brasa::nn::{Init, Mode, Module};
use brasa::optim::{Adam, AdamOptions, Momentum, Optimizer, SGD, SGDOptions, WeightDecay};
use brasa::runtime::{Step, Var};
use brasa::tensor::Tensor;
use brasa::{Device, Result, Shape, models, nn};

use crate::common::devices;
use crate::common::reference::{fill, hash32, signed};

/// What `record.py` wrote.
#[derive(serde::Deserialize)]
struct Record {
    checked: Vec<String>,
    f64: Vec<f64>,
    eval_f64: f64,
    sums_f64: Vec<f64>,
    spread: Vec<f64>,
    eval_spread: f64,
    sums_spread: Vec<f64>,
}

/// One run: what is trained on what, and how.
struct Run<M> {
    record: &'static str,
    model: fn(&Init) -> Result<M>,
    input: fn(&Device) -> Tensor,
    target: fn(&Device) -> Tensor,
    optimizer: fn(&[Var]) -> Result<Box<dyn Optimizer>>,
}

fn images(shape: impl Into<Shape>, device: &Device) -> Tensor {
    let shape = shape.into();
    Tensor::from_slice(&signed("input", shape.numel()), shape, device).expect("memory")
}

fn classes(name: &str, shape: impl Into<Shape>, bound: u32, device: &Device) -> Tensor {
    let shape = shape.into();
    let values: Vec<i32> = hash32(name, shape.numel()).map(|bits| (bits % bound) as i32).collect();
    Tensor::from_slice(&values, shape, device).expect("memory")
}

/// A step that trains `model` on (input, target) and returns the loss before the update.
fn training_step<M: Module + 'static>(
    model: &std::sync::Arc<M>,
    optimizer: Box<dyn Optimizer>,
    device: &Device,
) -> Step {
    let model = model.clone();
    Step::new(device, move |inputs| {
        let loss = model.forward(&inputs[0]).cross_entropy(&inputs[1]);
        optimizer.update(&loss.backward());
        vec![loss]
    })
    .expect("a step")
}

/// `got` against `exact`, from which rounding alone moves PyTorch by up to `spread`: the largest of 41 runs (see `record.py`).
///
/// Ours is one more such run, whose distance from the largest is a matter of chance: twice is allowed. The floor, 2e-6 of the
/// value, stands for the rounding of the result itself. Mistakes are seen from afar: in ResNet-20, a weight decay of 4e-3
/// instead of 5e-3 is 11 tolerances off (in a sum of squares) and a learning rate of 1.01e-4 instead of 1e-4 is 106 (in a
/// loss).
fn assert_close(what: &str, got: f64, exact: f64, spread: f64) {
    let tolerance = 2.0 * spread + 2e-6 * exact.abs().max(1.0);
    assert!((got - exact).abs() <= tolerance, "{what}: {got} instead of {exact}, off by more than {tolerance:e}");
}

fn check<M: Module + 'static>(run: &Run<M>) {
    let record: Record = serde_json::from_str(run.record).expect("a record");
    for device in devices() {
        let model = std::sync::Arc::new((run.model)(&Init::new(&device, 0)).expect("a model"));
        fill(&model.parameters());
        let (input, target) = ((run.input)(&device), (run.target)(&device));
        let optimizer = (run.optimizer)(&model.parameters()).expect("an optimizer");
        let mut step = training_step(&model, optimizer, &device);
        for (number, (&exact, &spread)) in record.f64.iter().zip(&record.spread).enumerate() {
            let outputs = step.run(&[input.clone(), target.clone()]).expect("a step");
            let loss: f32 = outputs[0].item().expect("a loss");
            assert_close(&format!("loss of step {number} on {device:?}"), loss.into(), exact, spread);
        }
        let loss = Mode::Evaluate.scope(|| model.forward(&input).cross_entropy(&target));
        let loss: f32 = loss.item().expect("a loss");
        assert_close(
            &format!("loss in evaluation mode on {device:?}"),
            loss.into(),
            record.eval_f64,
            record.eval_spread,
        );
        let variables = model.variables();
        for ((name, &exact), &spread) in record.checked.iter().zip(&record.sums_f64).zip(&record.sums_spread) {
            let variable = variables.iter().find(|variable| variable.name() == name).expect("a variable of that name");
            let values: Vec<f32> = variable.tensor().to_vec().expect("its values");
            let square = values.iter().map(|&value| f64::from(value) * f64::from(value)).sum();
            assert_close(&format!("sum of squares of {name} on {device:?}"), square, exact, spread);
        }
    }
}

fn adam(parameters: &[Var]) -> Result<Box<dyn Optimizer>> {
    Ok(Box::new(Adam::new(parameters, AdamOptions::default())?))
}

fn mlp(init: &Init) -> Result<Mlp> {
    Mlp::new(&[64, 128, 64, 10], init)
}

#[test]
fn mlp_with_adam_follows_pytorch() {
    check(&Run {
        record: include_str!("../reference/mlp.json"),
        model: mlp,
        input: |device| images([64, 64], device),
        target: |device| classes("target", 64, 10, device),
        optimizer: adam,
    });
}

#[test]
fn mlp_with_nesterov_decay_and_clipping_follows_pytorch() {
    check(&Run {
        record: include_str!("../reference/mlp_nesterov.json"),
        model: mlp,
        input: |device| images([64, 64], device),
        target: |device| classes("target", 64, 10, device),
        optimizer: |parameters| {
            let options = SGDOptions {
                learning_rate: 0.1,
                momentum: Momentum::Nesterov(0.9),
                weight_decay: WeightDecay::Coupled(1e-2),
            };
            Ok(Box::new(SGD::new(parameters, options)?.with_max_norm(0.1)))
        },
    });
}

#[test]
fn tutorial_cnn_follows_pytorch() {
    check(&Run {
        record: include_str!("../reference/cnn.json"),
        model: |init| TutorialCnn::new([3, 32, 32], 10, init),
        input: |device| images([8, 3, 32, 32], device),
        target: |device| classes("target", 8, 10, device),
        optimizer: adam,
    });
}

#[test]
fn resnet20_follows_pytorch() {
    check(&Run {
        record: include_str!("../reference/resnet20.json"),
        model: |init| CifarResNet::new(20, 3, 10, init),
        input: |device| images([8, 3, 32, 32], device),
        target: |device| classes("target", 8, 10, device),
        optimizer: |parameters| {
            let options = SGDOptions {
                learning_rate: 1e-4,
                momentum: Momentum::Heavy(0.9),
                weight_decay: WeightDecay::Coupled(5e-3),
            };
            Ok(Box::new(SGD::new(parameters, options)?))
        },
    });
}

#[test]
fn unet_follows_pytorch() {
    check(&Run {
        record: include_str!("../reference/unet.json"),
        model: |init| UNet::new(3, &[4, 8, 16], 3, init),
        input: |device| images([2, 3, 32, 32], device),
        target: |device| classes("target", [2, 32, 32], 3, device),
        optimizer: adam,
    });
}

#[test]
fn gpt_with_adamw_follows_pytorch() {
    check(&Run {
        record: include_str!("../reference/gpt.json"),
        model: |init| Gpt::new(GptOptions { vocabulary: 32, sequence: 16, width: 32, heads: 4, layers: 2 }, init),
        input: |device| classes("input", [4, 16], 32, device),
        target: |device| classes("target", [4, 16], 32, device),
        optimizer: |parameters| Ok(Box::new(Adam::new(parameters, AdamOptions::adamw())?)),
    });
}

#[test]
fn thirty_two_samples_are_learnt_by_heart() {
    for device in devices() {
        let model = std::sync::Arc::new(Mlp::new(&[16, 32, 4], &Init::new(&device, 7)).expect("a model"));
        let (input, target) = (images([32, 16], &device), classes("target", 32, 4, &device));
        let options = AdamOptions { learning_rate: 1e-2, ..AdamOptions::default() };
        let optimizer = Adam::new(&model.parameters(), options).expect("an optimizer");
        let mut step = training_step(&model, Box::new(optimizer), &device);
        for _ in 0..300 {
            step.run(&[input.clone(), target.clone()]).expect("a step");
        }
        let predicted: Vec<i32> = model.forward(&input).argmax(1).to_vec().expect("predictions");
        let expected: Vec<i32> = target.to_vec().expect("targets");
        assert_eq!(predicted, expected, "random labels of 32 samples on {device:?}");
    }
}

#[test]
fn decoupled_decay_shrinks_a_parameter_without_gradient() {
    for device in devices() {
        let parameter = Var::parameter("unused", &Tensor::full([3], 2.0_f32, &device)).expect("memory");
        let used = Var::parameter("used", &Tensor::full([1], 1.0_f32, &device)).expect("memory");
        let options =
            AdamOptions { learning_rate: 0.1, weight_decay: WeightDecay::Decoupled(0.5), ..Default::default() };
        let optimizer = Adam::new(&[parameter.clone(), used.clone()], options).expect("an optimizer");
        let mut step = Step::new(&device, move |_| {
            let loss = used.tensor().square().sum();
            optimizer.update(&loss.backward());
            vec![loss]
        })
        .expect("a step");
        step.run(&[]).expect("a step");
        let values: Vec<f32> = parameter.tensor().to_vec().expect("values");
        // 2 · (1 − 0.1 · 0.5)
        assert!(values.iter().all(|value| (value - 1.9).abs() < 1e-6), "{values:?}");
    }
}

#[test]
fn the_learning_rate_changes_without_a_new_step() {
    let device = Device::cpu();
    let parameter = Var::parameter("p", &Tensor::full([1], 1.0_f32, &device)).expect("memory");
    let options = SGDOptions { learning_rate: 0.5, ..SGDOptions::default() };
    let optimizer = SGD::new(std::slice::from_ref(&parameter), options).expect("an optimizer");
    let optimizer = std::sync::Arc::new(optimizer);
    let (rule, variable) = (optimizer.clone(), parameter.clone());
    let mut step = Step::new(&device, move |_| {
        let loss = variable.tensor().sum();
        rule.update(&loss.backward());
        vec![loss]
    })
    .expect("a step");
    step.run(&[]).expect("a step");
    optimizer.set_learning_rate(0.25);
    step.run(&[]).expect("a step");
    // 1 − 0.5 − 0.25, exact in binary.
    assert_eq!(parameter.tensor().to_vec::<f32>().expect("values"), [0.25]);
}

#[test]
fn weights_move_from_one_model_to_another() {
    for device in devices() {
        let (from, to) = [1, 2].map(|seed| mlp(&Init::new(&device, seed)).expect("a model")).into();
        let input = images([64, 64], &device);
        let outputs = |model: &Mlp| model.forward(&input).to_vec::<f32>().expect("outputs");
        let before = outputs(&from);
        assert!(outputs(&to) != before, "two seeds made the same model");
        nn::load_state(&to, &nn::state(&from)).expect("the same model");
        assert!(outputs(&to) == before, "loaded weights compute something else");
    }
}

#[test]
fn weights_of_another_model_change_nothing() {
    let device = Device::cpu();
    let model = mlp(&Init::new(&device, 1)).expect("a model");
    let before: Vec<f32> = model.parameters()[0].tensor().to_vec().expect("values");
    let other = Mlp::new(&[64, 128, 65, 10], &Init::new(&device, 2)).expect("a model");
    let error = nn::load_state(&model, &nn::state(&other)).expect_err("another width").to_string();
    assert!(error.contains("2.weight") && error.contains("[65, 128]"), "{error}");
    assert_eq!(model.parameters()[0].tensor().to_vec::<f32>().expect("values"), before);
}

#[test]
fn models_have_the_known_numbers_of_parameters() {
    let device = Device::cpu();
    let count = |name: &str, input: &[usize], classes| {
        let spec = ModelSpec { input: input.to_vec(), classes, seed: 0 };
        nn::parameter_count(&*models::create(name, &spec, &device).expect("a model"))
    };
    // From PyTorch's modules of the same definition: sum(p.numel() for p in model.parameters()).
    assert_eq!(count("mlp", &[1, 8, 8], 10), 17_226);
    assert_eq!(count("tutorial-cnn", &[3, 32, 32], 10), 62_006);
    assert_eq!(count("resnet20", &[3, 32, 32], 10), 272_474);
    assert_eq!(count("unet", &[3, 128, 128], 3), 488_739);
    assert_eq!(count("gpt", &[128], 96), 834_400);
}

#[test]
fn a_model_that_does_not_fit_the_data_is_an_error() {
    let device = Device::cpu();
    let spec = |input: &[usize]| ModelSpec { input: input.to_vec(), classes: 10, seed: 0 };
    for (name, input) in [
        ("tutorial-cnn", &[3, 8, 8][..]),
        ("unet", &[3, 36, 32]),
        ("gpt", &[3, 32, 32]),
        ("resnet20", &[64]),
        ("mlp", &[0]),
    ] {
        let error = models::create(name, &spec(input), &device).err().expect("an error").to_string();
        assert!(error.contains(name), "{error}");
    }
    let error = models::create("resnet2000", &spec(&[3, 32, 32]), &device).err().expect("an error").to_string();
    assert!(error.contains("resnet20,"), "it lists the known ones: {error}");
}
