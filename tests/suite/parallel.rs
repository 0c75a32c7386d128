//! Several devices that learn as one: what they learn is what one device learns from whole batches.

use std::path::Path;

use brasa::data::On;
use brasa::device::DeviceKind;
use brasa::nn::{self, Init, Linear, Module, Sequential, Variables};
use brasa::optim::{Adam, AdamOptions, Optimizer, SGD, SGDOptions};
use brasa::parallel::DataParallel;
use brasa::runtime::{Step, Var};
use brasa::train::{Config, Control, Event, ModelName, OnNan, OptimizerName, Precision, Summary, Trainer};
use brasa::{Device, Error, Tensor, variables};

use crate::common::{assert_close, devices, doubles, floats, panic_of, skipped};

/// Two layers.
struct Net {
    fc1: Linear,
    fc2: Linear,
}

impl Net {
    fn new(device: &Device, seed: u64) -> brasa::Result<Self> {
        let init = Init::new(device, seed);
        Ok(Self { fc1: Linear::new(5, 7, &init.at("fc1"))?, fc2: Linear::new(7, 3, &init.at("fc2"))? })
    }

    fn loss(&self, inputs: &[Tensor]) -> Tensor {
        self.forward(&inputs[0]).cross_entropy(&inputs[1])
    }
}

variables!(Net: fc1, fc2);

impl Module for Net {
    fn forward(&self, input: &Tensor) -> Tensor {
        self.fc2.forward(&self.fc1.forward(input).tanh())
    }
}

/// Sets of devices: two, and three, of each kind and of both.
fn sets() -> Vec<Vec<Device>> {
    let again = |device: &Device| device.reopen().expect("it opens again");
    let all = devices();
    let mut sets: Vec<_> = all.iter().map(|device| vec![device.clone(), again(device), again(device)]).collect();
    if let [cpu, gpu, ..] = &all[..] {
        sets.extend([vec![cpu.clone(), gpu.clone()], vec![gpu.clone(), cpu.clone()]]);
    }
    sets
}

fn batch(number: u64, rows: usize, device: &Device) -> [Tensor; 2] {
    let x = Tensor::from_slice(&floats(number, rows * 5, -1.0, 1.0), [rows, 5], device).expect("memory");
    let labels: Vec<i32> = (0..rows as i32).map(|row| (row + number as i32) % 3).collect();
    [x, Tensor::from_slice(&labels, [rows], device).expect("memory")]
}

fn adam(parameters: &[Var]) -> brasa::Result<Adam> {
    Ok(Adam::new(parameters, AdamOptions { learning_rate: 0.02, ..AdamOptions::default() })?.with_max_norm(0.5))
}

fn values(model: &dyn Module) -> Vec<f64> {
    nn::state(model).values().flat_map(doubles).collect()
}

#[test]
fn steps_are_those_of_one_device_whatever_number_of_rows_each_gets() {
    const ROWS: [usize; 5] = [8, 7, 1, 2, 13];
    let alone = Device::cpu().reopen().expect("a device");
    let net = std::sync::Arc::new(Net::new(&alone, 3).expect("memory"));
    let optimizer = adam(&net.parameters()).expect("memory");
    let tracing = net.clone();
    let mut step = Step::new(&alone, move |inputs| {
        let loss = tracing.loss(inputs);
        optimizer.update(&loss.backward());
        vec![loss]
    })
    .expect("a step");
    let mut run = |(number, rows): (usize, &usize)| {
        f64::from(step.run(&batch(number as u64, *rows, &alone)).expect("it runs")[0].item::<f32>().expect("a number"))
    };
    let expected: Vec<f64> = ROWS.iter().enumerate().map(&mut run).collect();
    for set in sets() {
        let mut seed = 2;
        let model = |device: &Device| {
            // each begins with other values than the first one, and gets its
            seed += 1;
            Net::new(device, seed)
        };
        let mut together = DataParallel::new(&set, model, adam, Net::loss).expect("memory");
        let learn = |(number, rows): (usize, &usize)| {
            let loss = together.step(&batch(number as u64, *rows, &Device::cpu())).expect("it runs");
            assert_eq!(*loss.device(), set[0]);
            f64::from(loss.item::<f32>().expect("a number"))
        };
        let losses: Vec<f64> = ROWS.iter().enumerate().map(learn).collect();
        assert_close(&format!("losses on {set:?}"), &losses, &expected, 1e-5, 1e-6);
        // sums in another order, through five steps of Adam, which divides by small numbers
        let (got, wanted) = (values(together.model()), values(net.as_ref()));
        assert_close(&format!("weights on {set:?}"), &got, &wanted, 1e-3, 1e-4);
    }
}

#[test]
fn what_is_not_finite_on_one_device_changes_nothing_on_any() {
    for set in sets() {
        let sgd = |parameters: &[Var]| SGD::new(parameters, SGDOptions { learning_rate: 0.1, ..Default::default() });
        let mut together = DataParallel::new(&set, |device| Net::new(device, 1), sgd, Net::loss).expect("memory");
        for bad_row in [0, 5] {
            let before = values(together.model());
            let [x, labels] = batch(1, 6, &set[0]);
            let is_bad = Tensor::arange(6_usize, &set[0]).eq(bad_row).unsqueeze(1);
            together.step(&[is_bad.where_(f64::NAN, &x), labels.clone()]).expect("it runs");
            together.step(&[x.clone(), labels.clone()]).expect("it stands still");
            assert_eq!(values(together.model()), before, "row {bad_row} on {set:?}");
            assert!(matches!(together.ensure_finite(), Err(Error::Halted { .. })), "row {bad_row} on {set:?}");
            together.resume().expect("it goes on");
            together.step(&[x, labels]).expect("it runs");
            together.ensure_finite().expect("it is finite");
            assert_ne!(values(together.model()), before, "row {bad_row} on {set:?}");
        }
    }
}

#[test]
fn what_cannot_be_is_said_at_the_callers_line() {
    let device = Device::cpu();
    let made = |devices: &[Device]| DataParallel::new(devices, |device| Net::new(device, 1), adam, Net::loss);
    let said = |devices: &[Device]| panic_of(|| drop(made(devices))).0;
    assert!(said(&[]).contains("DataParallel: no devices"));
    assert!(said(&[device.clone(), device.clone()]).contains("is named twice"));
    let mut together = made(&[device.clone(), device.reopen().expect("a device")]).expect("memory");
    let [x, labels] = batch(1, 4, &device);
    let panic = panic_of(|| drop(together.step(&[x, labels.narrow(0, 0, 3)])));
    assert!(panic.0.contains("[3] beside an input of 4 rows"), "{}", panic.0);
    assert!(panic.1.ends_with("parallel.rs"), "{}", panic.1);
    let mut width = 6;
    let other = |device: &Device| {
        width += 1;
        Ok(Sequential::new().push(Linear::new(5, width, &Init::new(device, 1))?))
    };
    let two = [device.clone(), device.reopen().expect("a device")];
    let error = DataParallel::new(&two, other, adam, |model: &Sequential, inputs: &[Tensor]| {
        model.forward(&inputs[0]).cross_entropy(&inputs[1])
    });
    assert!(error.expect_err("models that differ").to_string().contains("weight"));
}

/// A run of the trainer, with what it did at each step.
fn train(config: Config) -> (Summary, Vec<f32>) {
    let mut losses = Vec::new();
    let summary = Trainer::new(config).expect("good settings").run(&Control::default(), &mut |event| {
        if let Event::Step(step) = event {
            losses.push(step.loss);
        }
    });
    (summary.expect("it trains"), losses)
}

fn settings(out: &Path, device: &str) -> Config {
    Config {
        model: ModelName::new("mlp").expect("a model"),
        optimizer: OptimizerName::SGD,
        batch_size: 50,
        epochs: 2,
        log_every: 1,
        seed: 4,
        device: Some(device.into()),
        tensorboard: false,
        out: out.into(),
        ..Config::default()
    }
}

/// The CPU and the first GPU; `None`, and said so, where there is none.
fn both() -> Option<&'static str> {
    if devices().len() < 2 {
        skipped("it takes two devices that have names");
        return None;
    }
    Some("cpu, gpu:0")
}

#[test]
fn a_run_on_two_devices_learns_what_one_does() {
    let Some(both) = both() else { return };
    let out = tempfile::tempdir().expect("a folder");
    for what in ["plain", "in several parts", "averaged", "f16", "weighted"] {
        let change = |config: Config| match what {
            "in several parts" => Config { accumulate: 3, ..config },
            "averaged" => Config { ema: Some(0.9), on_nan: OnNan::Skip, ..config },
            "weighted" => Config { class_weights: Some("1,5,1,0,1,0.1,1,20,1,1".parse().expect("weights")), ..config },
            "f16" => Config { precision: Precision::F16, ..config },
            _ => config,
        };
        let [(alone, expected), (together, losses)] =
            ["cpu", both].map(|device| train(change(settings(out.path(), device))));
        let [expected, losses] = [expected, losses].map(|losses| losses.into_iter().map(f64::from).collect::<Vec<_>>());
        // f16 rounds sums of other lengths elsewhere
        let tolerance = if what == "f16" { 2e-2 } else { 1e-3 };
        assert_eq!((alone.steps, alone.skipped_steps), (together.steps, together.skipped_steps), "{what}");
        assert_close(what, &losses, &expected, tolerance, tolerance);
        let [alone, together] = [alone, together].map(|summary| summary.test.expect("it was judged"));
        assert!((alone.score() - together.score()).abs() < 0.02, "{what}: {alone:?}, {together:?}");
    }
}

#[test]
fn what_several_devices_cannot_do_is_refused() {
    let out = tempfile::tempdir().expect("a folder");
    let refused = |config: Config| Trainer::new(config).expect_err("it is refused").to_string();
    let message = refused(settings(out.path(), "cpu,cpu"));
    assert!(message.contains("`cpu,cpu` names") && message.contains("twice"), "{message}");
    let message = refused(settings(out.path(), "cpu,nothing"));
    assert!(message.contains("unknown device `nothing`"), "{message}");
    let message = refused(settings(out.path(), "nothing"));
    assert!(message.contains("auto, gpus, or several with commas"), "{message}");
    if Device::list().iter().all(|info| matches!(info.kind, DeviceKind::Cpu | DeviceKind::Software)) {
        let message = refused(settings(out.path(), "gpus"));
        assert!(message.contains("`gpus` are all GPUs but those of software, and there is none"), "{message}");
    }
    let Some(both) = both() else { return };
    let mixed = Config {
        model: ModelName::new("cnn").expect("a model"),
        augment: "mixup".parse().expect("an augmentation"),
        augment_on: On::Device,
        ..settings(out.path(), both)
    };
    let message = refused(mixed);
    assert!(message.contains("use augment-on host"), "{message}");
}
