//! Training, end to end: a small set learnt by heart, learning rates, weights moved from model to model.

use brasa::models::{Mlp, ModelSpec};
use brasa::nn::{Init, Module, Variables};
use brasa::optim::{Adam, AdamOptions, Optimizer, SGD, SGDOptions, WeightDecay};
use brasa::runtime::{Step, Var};
use brasa::tensor::Tensor;
use brasa::{Device, models, nn};

use crate::common::devices;
use crate::followed::{classes, images, mlp, training_step};

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
        let error = models::create(name, &spec(input), &device).expect_err("an error").to_string();
        assert!(error.contains(name), "{error}");
    }
    let error = models::create("resnet2000", &spec(&[3, 32, 32]), &device).expect_err("an error").to_string();
    assert!(error.contains("resnet20,"), "it lists the known ones: {error}");
}
