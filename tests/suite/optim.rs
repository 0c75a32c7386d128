//! Every optimizer's first steps against PyTorch's, and what an optimizer keeps.
//!
//! `reference/record_optim.py` made the expected numbers and describes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use brasa::nn::{BatchNorm1d, Init, Linear, Module, Variables};
use brasa::optim::{
    ASGD, ASGDOptions, Adadelta, AdadeltaOptions, Adagrad, AdagradOptions, Adam, AdamOptions, Adamax, AdamaxOptions,
    ExponentialMovingAverage, Lamb, LambOptions, Lion, LionOptions, Momentum, Muon, MuonAdjust, MuonOptions, NAdam,
    NAdamOptions, Norm, Optimizer, RAdam, RAdamOptions, RMSprop, RMSpropOptions, Rprop, RpropOptions, SGD, SGDOptions,
    WeightDecay, clip_grad_norm,
};
use brasa::runtime::{Step, Var, catch_non_finite, skip_if};
use brasa::{DType, Device, Result, Tensor};

use crate::common::reference::{classes, signed};
use crate::common::{assert_close, devices, panic_of, read, vector};

#[derive(serde::Deserialize)]
struct Record {
    losses: Vec<f64>,
    parameters: Vec<f64>,
    valley: Vec<[f64; 2]>,
}

fn records() -> BTreeMap<String, Record> {
    serde_json::from_str(include_str!("../reference/optim.json")).expect("a record")
}

type Boxed = Result<Box<dyn Optimizer>>;

/// How `record_optim.py` makes the optimizer of a case; the learning rate is another one in the valley.
struct Case {
    name: &'static str,
    learning_rates: [f32; 2],
    make: fn(&[Var], f32) -> Boxed,
}

/// A case whose `$options` have the learning rate `$lr` in the network and `$valley` in the valley.
macro_rules! cases {
    ($($name:literal: $optimizer:ident($options:expr), $lr:literal, $valley:literal $(, $change:expr)?;)*) => {
        vec![$(Case {
            name: $name,
            learning_rates: [$lr, $valley],
            make: |parameters, learning_rate| {
                let optimizer = $optimizer::new(parameters, $options)?;
                optimizer.set_learning_rate(learning_rate);
                $(let optimizer = $change(optimizer);)?
                Ok(Box::new(optimizer))
            },
        }),*]
    };
}

fn sgd(momentum: Momentum, weight_decay: WeightDecay) -> SGDOptions {
    SGDOptions { momentum, weight_decay, ..SGDOptions::default() }
}

fn adam(beta1: f64, beta2: f64, weight_decay: WeightDecay) -> AdamOptions {
    AdamOptions { beta1, beta2, weight_decay, ..AdamOptions::default() }
}

fn cases() -> Vec<Case> {
    cases! {
        "sgd": SGD(sgd(Momentum::None, WeightDecay::None)), 0.5, 1e-4;
        "sgd_momentum": SGD(sgd(Momentum::Heavy(0.9), WeightDecay::Coupled(0.01))), 0.5, 1e-4;
        "sgd_dampened": SGD(sgd(Momentum::Dampened { factor: 0.8, dampening: 0.3 }, WeightDecay::None)), 0.5, 1e-4;
        "sgd_nesterov": SGD(sgd(Momentum::Nesterov(0.9), WeightDecay::Coupled(0.02))), 0.5, 1e-4;
        "sgd_maximize": SGD(sgd(Momentum::Heavy(0.5), WeightDecay::None)), 0.1, 1e-5, SGD::with_maximize;
        "sgd_clip_norm": SGD(sgd(Momentum::None, WeightDecay::None)), 0.5, 0.5, |it: SGD| it.with_max_norm(0.05);
        "sgd_clip_norm_max": SGD(sgd(Momentum::None, WeightDecay::None)), 0.5, 0.5, |it: SGD| it.with_max_norm_of(0.02, Norm::Max);
        "sgd_clip_norm_3": SGD(sgd(Momentum::None, WeightDecay::None)), 0.5, 0.5, |it: SGD| it.with_max_norm_of(0.03, Norm::Power(3.0));
        "sgd_clip_value": SGD(sgd(Momentum::None, WeightDecay::None)), 0.5, 0.5, |it: SGD| it.with_max_value(0.01);
        "adam": Adam(AdamOptions::default()), 0.02, 0.05;
        "adam_options": Adam(AdamOptions { epsilon: 1e-3, ..adam(0.7, 0.95, WeightDecay::Coupled(0.05)) }), 0.02, 0.05;
        "adam_amsgrad": Adam(AdamOptions { amsgrad: true, ..adam(0.9, 0.8, WeightDecay::None) }), 0.1, 0.05;
        "adamw": Adam(AdamOptions::adamw()), 0.02, 0.05;
        "adamw_amsgrad": Adam(AdamOptions { amsgrad: true, ..adam(0.9, 0.8, WeightDecay::Decoupled(0.3)) }), 0.1, 0.05;
        "nadam": NAdam(NAdamOptions::default()), 0.02, 0.05;
        "nadam_decoupled": NAdam(NAdamOptions {
            momentum_decay: 0.1, weight_decay: WeightDecay::Decoupled(0.2), ..NAdamOptions::default()
        }), 0.02, 0.05;
        "radam": RAdam(RAdamOptions::default()), 0.05, 1e-4;
        "radam_options": RAdam(RAdamOptions {
            beta1: 0.8, beta2: 0.9, epsilon: 1e-4, weight_decay: WeightDecay::Coupled(0.1), ..RAdamOptions::default()
        }), 0.05, 2e-4;
        "rmsprop": RMSprop(RMSpropOptions::default()), 0.005, 0.01;
        "rmsprop_centered": RMSprop(RMSpropOptions {
            alpha: 0.9, epsilon: 1e-5, centered: true, ..RMSpropOptions::default()
        }), 0.002, 0.01;
        "rmsprop_momentum": RMSprop(RMSpropOptions {
            momentum: 0.7, weight_decay: WeightDecay::Coupled(0.1), ..RMSpropOptions::default()
        }), 0.002, 0.01;
        "adagrad": Adagrad(AdagradOptions::default()), 0.1, 0.1;
        "adagrad_options": Adagrad(AdagradOptions {
            learning_rate_decay: 0.1, weight_decay: WeightDecay::Coupled(0.05), initial_accumulator: 0.02, epsilon: 1e-3,
            ..AdagradOptions::default()
        }), 0.2, 0.1;
        "adadelta": Adadelta(AdadeltaOptions::default()), 1.0, 1.0;
        "adadelta_options": Adadelta(AdadeltaOptions {
            rho: 0.8, epsilon: 1e-4, weight_decay: WeightDecay::Coupled(0.05), ..AdadeltaOptions::default()
        }), 3.0, 1.0;
        "adamax": Adamax(AdamaxOptions::default()), 0.05, 0.05;
        "adamax_options": Adamax(AdamaxOptions {
            beta1: 0.8, beta2: 0.9, epsilon: 1e-2, weight_decay: WeightDecay::Coupled(0.1), ..AdamaxOptions::default()
        }), 0.05, 0.05;
        "rprop": Rprop(RpropOptions::default()), 0.02, 0.05;
        "rprop_options": Rprop(RpropOptions {
            shrink: 0.3, grow: 1.5, least: 1e-3, most: 0.08, ..RpropOptions::default()
        }), 0.05, 0.02;
        "asgd": ASGD(ASGDOptions::default()), 0.5, 1e-4;
        "asgd_options": ASGD(ASGDOptions {
            decay: 0.2, alpha: 0.6, average_after: 3.0, weight_decay: WeightDecay::Coupled(0.01), ..ASGDOptions::default()
        }), 0.5, 1e-4;
        "lion": Lion(LionOptions::default()), 0.02, 0.02;
        "lion_options": Lion(LionOptions { beta1: 0.8, beta2: 0.9, weight_decay: WeightDecay::Decoupled(0.5), ..LionOptions::default() }), 0.02, 0.02;
        "lamb": Lamb(LambOptions::default()), 0.05, 0.05;
        "lamb_options": Lamb(LambOptions {
            beta1: 0.8, beta2: 0.9, epsilon: 1e-3, weight_decay: WeightDecay::Decoupled(0.5), ..LambOptions::default()
        }), 0.05, 0.05;
        "muon": Muon(MuonOptions::default()), 0.05, 0.05;
        "muon_match_rms": Muon(MuonOptions {
            weight_decay: WeightDecay::Decoupled(0.3), momentum: 0.8, adjust: MuonAdjust::MatchRmsAdamw, ..MuonOptions::default()
        }), 0.2, 0.1;
        "muon_plain": Muon(MuonOptions {
            nesterov: false, steps: 3, adjust: MuonAdjust::SpectralUnclamped, ..MuonOptions::default()
        }), 0.05, 0.05;
    }
}

/// `record_optim.py`'s `parameters`.
fn parameters(device: &Device) -> Vec<Var> {
    let shapes: [(&str, &[usize]); 4] =
        [("fc1.weight", &[7, 6]), ("fc1.bias", &[7]), ("fc2.weight", &[3, 7]), ("fc2.bias", &[3])];
    let parameter = |(name, shape): (&str, &[usize])| {
        let values: Vec<f32> = signed(name, shape.iter().product()).into_iter().map(|value| value * 0.5).collect();
        Var::parameter(name, &Tensor::from_slice(&values, shape, device).expect("memory")).expect("memory")
    };
    shapes.map(parameter).to_vec()
}

/// A step of `record_optim.py`'s `network`; its output is the loss.
fn network(parameters: &[Var], optimizers: Vec<Box<dyn Optimizer>>, device: &Device) -> Step {
    let input = vector(&signed("input", 16 * 6), device).reshape([16, 6]);
    let target = Tensor::from_slice(&classes("target", 16, 3), [16], device).expect("memory");
    let parameters = parameters.to_vec();
    Step::new(device, move |_| {
        let [w1, b1, w2, b2] = [0, 1, 2, 3].map(|number: usize| parameters[number].tensor());
        let hidden = (input.matmul(&w1.t()) + b1).tanh();
        let loss = (hidden.matmul(&w2.t()) + b2).cross_entropy(&target);
        let gradients = loss.backward();
        for optimizer in &optimizers {
            optimizer.update(&gradients);
        }
        vec![loss]
    })
    .expect("a step")
}

fn all_values(parameters: &[Var]) -> Vec<f64> {
    parameters.iter().flat_map(|parameter| read(&parameter.tensor())).map(f64::from).collect()
}

fn check_network(
    name: &str,
    record: &Record,
    parameters: &[Var],
    optimizers: Vec<Box<dyn Optimizer>>,
    device: &Device,
) {
    let mut step = network(parameters, optimizers, device);
    for (number, &expected) in record.losses.iter().enumerate() {
        let loss = step.run(&[]).expect("a step").remove(0).item::<f32>().expect("a loss");
        assert_close(&format!("{name}: loss {number} on {device:?}"), &[loss.into()], &[expected], 1e-4, 0.0);
    }
    let what = format!("{name}: parameters on {device:?}");
    assert_close(&what, &all_values(parameters), &record.parameters, 1e-4, 1e-5);
}

#[test]
fn the_first_steps_of_a_network_are_pytorchs() {
    let records = records();
    for device in devices() {
        for case in cases() {
            let parameters = parameters(&device);
            let (mut own, mut optimizers) = (parameters.clone(), Vec::new());
            if case.name.starts_with("muon") {
                let vectors: Vec<Var> = own.extract_if(.., |parameter| parameter.shape().rank() != 2).collect();
                let options = SGDOptions { learning_rate: 0.5, ..SGDOptions::default() };
                optimizers.push(Box::new(SGD::new(&vectors, options).expect("memory")) as Box<dyn Optimizer>);
            }
            optimizers.push((case.make)(&own, case.learning_rates[0]).expect("memory"));
            check_network(case.name, &records[case.name], &parameters, optimizers, &device);
        }
    }
}

#[test]
fn groups_have_options_of_their_own() {
    for device in devices() {
        let parameters = parameters(&device);
        let (matrices, vectors): (Vec<_>, Vec<_>) = parameters.iter().cloned().partition(|it| it.shape().rank() == 2);
        let options = |learning_rate, decay| AdamOptions { learning_rate, ..adam(0.9, 0.999, decay) };
        let optimizer = Adam::new(&matrices, options(0.02, WeightDecay::Decoupled(0.3)))
            .and_then(|optimizer| optimizer.with_group(&vectors, options(0.1, WeightDecay::None)))
            .expect("memory")
            .with_max_norm(0.05);
        assert_eq!(optimizer.learning_rates(), [0.02, 0.1]);
        check_network("groups", &records()["groups"], &parameters, vec![Box::new(optimizer)], &device);
    }
}

#[test]
fn the_first_steps_in_rosenbrocks_valley_are_pytorchs() {
    let records = records();
    for device in devices() {
        for case in cases() {
            let start = vector(&[-1.25, 0.75], &device).reshape([1, 2]);
            let point = Var::parameter("point", &start).expect("memory");
            let optimizer = (case.make)(std::slice::from_ref(&point), case.learning_rates[1]).expect("memory");
            let variable = point.clone();
            let mut step = Step::new(&device, move |_| {
                let point = variable.tensor();
                let (x, y) = (point.narrow(1, 0, 1), point.narrow(1, 1, 1));
                let loss = ((1.0 - &x).square() + (y - x.square()).square() * 100.0).sum();
                optimizer.update(&loss.backward());
                vec![loss]
            })
            .expect("a step");
            for (number, expected) in records[case.name].valley.iter().enumerate() {
                step.run(&[]).expect("a step");
                let what = format!("{}: point {number} on {device:?}", case.name);
                // the valley is steep: a rounding of the point changes the next gradient 400-fold
                assert_close(&what, &all_values(std::slice::from_ref(&point)), expected, 1e-4, 2e-5);
            }
        }
    }
}

/// Trains `steps` steps, and says the losses.
fn losses(step: &mut Step, steps: usize) -> Vec<f32> {
    (0..steps).map(|_| step.run(&[]).expect("a step").remove(0).item().expect("a loss")).collect()
}

#[test]
fn a_saved_state_continues_as_if_nothing_had_happened() {
    for device in devices() {
        // each with a state of its own kind
        let names = [
            "sgd_dampened",
            "adam_amsgrad",
            "nadam",
            "radam",
            "rmsprop_centered",
            "adagrad",
            "adadelta",
            "adamax",
            "lion",
        ];
        for case in cases().iter().filter(|case| names.contains(&case.name)) {
            let make = |parameters: &[Var]| -> Arc<dyn Optimizer> {
                (case.make)(parameters, case.learning_rates[0]).expect("memory").into()
            };
            let shared = |optimizer: &Arc<dyn Optimizer>| vec![Box::new(Shared(optimizer.clone())) as Box<_>];
            let first = parameters(&device);
            let optimizer = make(&first);
            let mut step = network(&first, shared(&optimizer), &device);
            losses(&mut step, 3);
            let (weights, saved) = (first.iter().map(Var::tensor).collect::<Vec<_>>(), optimizer.state_dict());
            let expected = losses(&mut step, 3);

            let second = parameters(&device);
            second.iter().zip(&weights).for_each(|(parameter, weight)| parameter.set(weight).expect("the same shape"));
            // in another order: parts are found by name
            let reversed: Vec<Var> = second.iter().rev().cloned().collect();
            let other = make(&reversed);
            other.set_learning_rate(123.0);
            other.load_state_dict(&saved).expect("the same state");
            assert_eq!(other.learning_rate(), case.learning_rates[0]);
            let got = losses(&mut network(&second, shared(&other), &device), 3);
            let [got, expected] = [got, expected].map(|losses| losses.into_iter().map(f64::from).collect::<Vec<_>>());
            // other orders in the arena, other vector lanes
            assert_close(&format!("{} on {device:?}", case.name), &got, &expected, 1e-5, 0.0);
        }
    }
}

struct Shared(Arc<dyn Optimizer>);

impl Optimizer for Shared {
    fn update(&self, gradients: &brasa::autodiff::Gradients) -> Tensor {
        self.0.update(gradients)
    }
    fn accumulate(&self, gradients: &brasa::autodiff::Gradients) {
        self.0.accumulate(gradients);
    }
    fn scale_accumulated(&self, factor: &Tensor) {
        self.0.scale_accumulated(factor);
    }
    fn layouts(&self) -> Vec<&brasa::optim::Layout> {
        self.0.layouts()
    }
    fn set_learning_rates(&self, learning_rates: &[f32]) {
        self.0.set_learning_rates(learning_rates);
    }
    fn learning_rates(&self) -> Vec<f32> {
        self.0.learning_rates()
    }
    fn state(&self) -> Vec<Var> {
        self.0.state()
    }
    fn state_dict(&self) -> BTreeMap<String, Tensor> {
        self.0.state_dict()
    }
    fn load_state_dict(&self, state: &BTreeMap<String, Tensor>) -> Result<()> {
        self.0.load_state_dict(state)
    }
}

#[test]
fn a_skipped_step_drops_the_parts_that_were_accumulated_for_it() {
    for device in devices() {
        let weight = Var::state("weight", &Tensor::zeros([2], &device)).expect("memory");
        let options = SGDOptions { learning_rate: 1.0, ..SGDOptions::default() };
        let optimizer = Arc::new(
            SGD::new(std::slice::from_ref(&weight), options).and_then(SGD::with_accumulation).expect("memory"),
        );
        let part = |updates: bool| {
            let (weight, optimizer) = (weight.clone(), optimizer.clone());
            let step = Step::new(&device, move |inputs| {
                let ((), bad) = catch_non_finite(|| {
                    let gradients = (weight.tensor() * &inputs[0]).sum().backward();
                    match updates {
                        true => drop(optimizer.update(&gradients)),
                        false => optimizer.accumulate(&gradients),
                    }
                });
                skip_if(&bad.expect("it is traced"), &[]);
                Vec::new()
            });
            step.expect("a step")
        };
        let (mut first, mut last) = (part(false), part(true));
        let mut run = |values: [f32; 2]| {
            first.run(&[vector(&[1.0, 1.0], &device)]).expect("a run");
            last.run(&[vector(&values, &device)]).expect("a run");
            read(&weight.tensor())
        };
        assert_eq!(run([f32::NAN, 1.0]), [0.0, 0.0], "skipped on {device:?}");
        assert_eq!(run([2.0, 3.0]), [-3.0, -4.0], "without the parts of the step before on {device:?}");
    }
}

#[test]
fn a_state_that_does_not_fit_changes_nothing() {
    let device = Device::cpu();
    let parameters = parameters(&device);
    let optimizer = Adam::new(&parameters, AdamOptions::default()).expect("memory");
    let whole = optimizer.state_dict();
    assert_eq!(*whole["state.fc1.weight.exp_avg"].shape(), [7, 6].into());
    let error = |change: &dyn Fn(&mut BTreeMap<String, Tensor>)| {
        let mut state = whole.clone();
        state.insert("param_groups.0.lr".into(), Tensor::scalar(7.0_f32, &device));
        change(&mut state);
        optimizer.load_state_dict(&state).expect_err("another state").to_string()
    };
    let missing = error(&|state| drop(state.remove("state.fc2.bias.exp_avg_sq")));
    assert!(missing.contains("lacks state.fc2.bias.exp_avg_sq"), "{missing}");
    let unknown = error(&|state| drop(state.insert("state.fc9.bias.exp_avg".into(), Tensor::zeros([3], &device))));
    assert!(unknown.contains("state.fc9.bias.exp_avg"), "{unknown}");
    let shape = error(&|state| drop(state.insert("state.fc1.bias.exp_avg".into(), Tensor::zeros([3], &device))));
    assert!(shape.contains("f32[3] instead of f32[7]"), "{shape}");
    assert_eq!(optimizer.learning_rate(), 1e-3);
}

#[test]
fn a_clipped_norm_is_told() {
    for device in devices() {
        let gradients = [vector(&[3.0, 0.0], &device), vector(&[-4.0], &device)];
        for (norm, expected) in [(Norm::Euclidean, 5.0), (Norm::Sum, 7.0), (Norm::Max, 4.0), (Norm::Power(2.0), 5.0)] {
            let (clipped, before) = clip_grad_norm(&gradients, 2.0, norm);
            assert_close("norm", &[read(&before)[0].into()], &[expected], 1e-6, 0.0);
            assert_close("clipped", &[read(&clipped[1])[0].into()], &[-8.0 / expected], 1e-6, 0.0);
            let (kept, _) = clip_grad_norm(&gradients, 8.0, norm);
            assert_eq!(read(&kept[0]), [3.0, 0.0]);
        }
    }
}

#[test]
fn an_elementwise_rule_is_one_launch_however_many_parameters_there_are() {
    for device in devices() {
        for case in cases().iter().filter(|case| case.name.ends_with("adam") || case.name == "adamax_options") {
            let kernels = |count: usize| {
                let variable =
                    |number| Var::parameter(&format!("p{number}"), &Tensor::ones([5], &device)).expect("memory");
                let parameters: Vec<Var> = (0..count).map(variable).collect();
                let optimizer = (case.make)(&parameters, 0.1).expect("memory");
                let mut step = Step::new(&device, move |_| {
                    let losses = parameters.iter().map(|parameter| parameter.tensor().square().sum());
                    let loss = losses.reduce(|a, b| a + b).expect("there are parameters");
                    optimizer.update(&loss.backward());
                    Vec::new()
                })
                .expect("a step");
                let plan = step.prepare(&[]).expect("a plan").plan;
                plan.kernels.iter().filter(|kernel| kernel.stage == brasa::Stage::Update).count()
            };
            assert_eq!(kernels(2), kernels(9), "{} on {device:?}", case.name);
        }
    }
}

#[test]
fn muon_takes_matrices_only() {
    let device = Device::cpu();
    let parameters = parameters(&device);
    let (message, ..) = panic_of(|| Muon::new(&parameters, MuonOptions::default()));
    assert!(message.contains("fc1.bias") && message.contains("[7]"), "{message}");
}

#[test]
fn asgd_averages_its_parameters_from_some_step_on() {
    for device in devices() {
        let parameter = Var::parameter("p", &vector(&[4.0, -2.0, 1.0], &device)).expect("memory");
        let options = ASGDOptions { learning_rate: 0.1, average_after: 1.0, ..ASGDOptions::default() };
        let optimizer = ASGD::new(std::slice::from_ref(&parameter), options).expect("memory");
        let mut passed = Vec::new();
        for _ in 0..5 {
            optimizer.update(&parameter.tensor().square().sum().backward());
            passed.push(read(&parameter.tensor()));
        }
        // the share of a newest one is 1 up to the third step, then 1/2 and 1/3
        let expected = (0..3).map(|n| f64::from(passed[2][n] + passed[3][n] + passed[4][n]) / 3.0);
        let average: Vec<f64> = read(&optimizer.state_dict()["state.p.ax"]).into_iter().map(f64::from).collect();
        assert_close("the average", &average, &expected.collect::<Vec<_>>(), 1e-6, 0.0);
    }
}

/// A linear layer and a norm.
struct Pair(Linear, BatchNorm1d);

brasa::variables!(Pair: 0, 1);

impl Pair {
    fn new(device: &Device, seed: u64) -> Self {
        let init = Init::new(device, seed);
        let (linear, norm) = (Linear::new(3, 2, &init.at("fc")), BatchNorm1d::new(2, &init.at("norm")));
        Self(linear.expect("memory"), norm.expect("memory"))
    }
}

#[test]
fn an_average_follows_what_an_optimizer_changes() {
    for device in devices() {
        let (model, averaged) = (Arc::new(Pair::new(&device, 1)), Pair::new(&device, 2));
        let parameters = model.parameters();
        // two groups; the last parameter is in neither
        let options = AdamOptions { learning_rate: 0.1, ..AdamOptions::default() };
        let optimizer = Adam::new(&parameters[..2], options).expect("memory");
        let optimizer = Arc::new(optimizer.with_group(&parameters[2..3], options).expect("memory"));
        let average = Arc::new(ExponentialMovingAverage::new(&averaged, &*model, &*optimizer, 0.9).expect("memory"));
        let values = |of: &Pair| -> Vec<Vec<f32>> {
            of.variables().iter().filter(|of| of.dtype() == DType::F32).map(|of| read(&of.tensor())).collect()
        };
        let mut expected = values(&model);
        assert_eq!(values(&averaged), expected, "{device:?}: it starts as a copy");
        // which no optimizer changes, nor the average therefore
        parameters[3].set(&Tensor::full([2], 5.0_f32, &device)).expect("the device is there");
        let (traced, follower) = (Arc::clone(&model), Arc::clone(&average));
        let mut step = Step::new(&device, move |inputs| {
            let loss = traced.1.forward(&traced.0.forward(&inputs[0])).square().mean();
            optimizer.update(&loss.backward());
            follower.update();
            vec![loss]
        })
        .expect("a step");
        for (number, decay) in [0.9_f32, 0.9, 0.5].into_iter().enumerate() {
            average.set_decay(decay.into());
            let input = signed(&format!("x{number}"), 12);
            step.run(&[Tensor::from_slice(&input, [4, 3], &device).expect("memory")]).expect("a step");
            for (average, now) in expected.iter_mut().zip(values(&model)).take(3) {
                average.iter_mut().zip(now).for_each(|(average, now)| *average += (now - *average) * (1.0 - decay));
            }
        }
        let as_f64 = |values: &[Vec<f32>]| values.concat().into_iter().map(f64::from).collect::<Vec<_>>();
        let followed = values(&averaged);
        assert_close(&format!("{device:?}"), &as_f64(&followed[..4]), &as_f64(&expected[..4]), 1e-5, 1e-6);
        average.refresh().expect("the device is there");
        assert_eq!(values(&averaged)[4..], values(&model)[4..], "{device:?}: statistics are those of now");

        let other = Linear::new(3, 2, &Init::new(&device, 3).at("other")).expect("memory");
        let free = Adam::new(&other.parameters(), options).expect("memory");
        let error = ExponentialMovingAverage::new(&Pair::new(&device, 4), &other, &free, 0.9)
            .expect_err("another model")
            .to_string();
        assert!(error.contains("no variable `other.weight`"), "{error}");
        let (message, ..) = panic_of(|| average.set_decay(1.5));
        assert_eq!(message, "average: a decay of 1.5");
    }
}
