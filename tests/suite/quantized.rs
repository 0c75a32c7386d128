//! Weights that are kept in 8 bits.

use brasa::nn::{self, Conv2d, Embedding, Init, Linear, Module, Sequential, Variables, quantize};
use brasa::ops::conv::ConvOptions;
use brasa::optim::{SGD, SGDOptions};
use brasa::runtime::{Step, Var};
use brasa::{Device, Error, Result, Tensor};

use crate::common::{assert_close, devices, doubles, fresh_devices, panic_of, vector};

/// What 8 bits make of rows of so many numbers.
fn rounded(values: &[f64], row: usize) -> Vec<f64> {
    let of_row = |row: &[f64]| {
        let largest = row.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
        let scale = if largest == 0.0 { 1.0 } else { largest / 127.0 };
        row.iter().map(|value| (value / scale).round() * scale).collect::<Vec<_>>()
    };
    values.chunks(row).flat_map(of_row).collect()
}

#[test]
fn a_variable_keeps_whole_numbers_of_each_rows_scale() {
    for device in devices() {
        // among them a row of zeros, and rows of very different sizes; no value half way between two codes
        let rows = [1.0_f32, 0.0, 1e-6, 3e4, 0.37];
        let values: Vec<f32> =
            rows.iter().flat_map(|row| (0..7).map(move |n| row * (n as f32 * 0.31 - 0.83))).collect();
        let weight = Var::parameter("w", &vector(&values, &device).reshape([5, 7])).expect("memory");
        let before = weight.tensor();
        weight.quantize().expect("it is a matrix");
        let all: Vec<f64> = values.iter().copied().map(f64::from).collect();
        assert_close(&format!("{device:?}"), &doubles(&weight.tensor()), &rounded(&all, 7), 1e-6, 0.0);
        assert_eq!(doubles(&before), all, "a snapshot keeps what it was, on {device:?}");
        assert_eq!((weight.is_quantized(), weight.bytes()), (true, 5 * 7 + 5 * 4));
        weight.quantize().expect("it is so already");
    }
}

/// A layer's answer is that of the same layer with rounded weights, outside of a step and within one.
#[track_caller]
fn check<M: Module + 'static>(make: impl Fn(&Init) -> Result<M>, input: impl Fn(&Device) -> Tensor) {
    for device in devices() {
        let init = || Init::new(&device, 3);
        let (kept, plain) = (make(&init()).expect("memory"), make(&init()).expect("memory"));
        let input = input(&device);
        for weight in plain.parameters().iter().filter(|weight| weight.shape().rank() >= 2) {
            let row = weight.shape().numel() / weight.shape()[0];
            let values: Vec<f32> =
                rounded(&doubles(&weight.tensor()), row).into_iter().map(|value| value as f32).collect();
            weight.set(&vector(&values, &device).reshape(weight.shape().clone())).expect("memory");
        }
        let done = quantize(&kept).expect("it has a weight");
        assert_eq!(done.variables, 1);
        let expected = doubles(&plain.forward(&input));
        assert_close(&format!("eager on {device:?}"), &doubles(&kept.forward(&input)), &expected, 1e-4, 1e-5);
        let mut step = Step::new(&device, move |inputs| vec![kept.forward(&inputs[0])]).expect("a step");
        let answer = step.run(&[input]).expect("it runs").remove(0);
        assert_close(&format!("captured on {device:?}"), &doubles(&answer), &expected, 1e-4, 1e-5);
    }
}

fn wave(shape: &[usize], device: &Device) -> Tensor {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|n| (n as f32 * 0.7).sin()).collect();
    vector(&values, device).reshape(shape.to_vec())
}

#[test]
fn products_of_codes_are_those_of_rounded_weights() {
    check(|init| Linear::new(37, 19, init), |device| wave(&[1, 37], device));
    check(|init| Linear::new(128, 65, init), |device| wave(&[33, 128], device));
}

#[test]
fn convolutions_of_codes_are_those_of_rounded_weights() {
    let padded = || ConvOptions::default().padding(1);
    check(move |init| Conv2d::new(3, 8, 3, padded(), init), |device| wave(&[2, 3, 9, 7], device));
    check(move |init| Conv2d::new(8, 8, 3, padded().groups(8), init), |device| wave(&[1, 8, 6, 6], device));
}

#[test]
fn rows_that_are_looked_up_are_those_of_rounded_weights() {
    let words = |device: &Device| Tensor::from_slice(&[3_i32, 0, 10, 3], [4], device).expect("memory");
    check(|init| Embedding::new(11, 6, init), words);
}

#[test]
fn a_quarter_of_the_memory_is_left_and_steps_take_no_more() {
    for device in fresh_devices() {
        let live = || device.memory().live_bytes;
        let layers = |init: &Init| {
            Ok::<_, Error>(Sequential::new().push(Linear::new(1024, 768, &init.at("0"))?).push(Linear::new(
                768,
                512,
                &init.at("1"),
            )?))
        };
        let model = layers(&Init::new(&device, 1)).expect("memory");
        device.sync().expect("it is there");
        let before = live();
        let done = quantize(&model).expect("it has weights");
        let after = live();
        assert_eq!(done.bytes_before - done.bytes, 3 * (1024 * 768 + 768 * 512) - 4 * (768 + 512), "{device:?}");
        // no memory is of no bytes at all
        let saved = (before - after) as f64 / (done.bytes_before - done.bytes) as f64;
        assert!((0.999..=1.0).contains(&saved), "{saved} of what was to be saved on {device:?}");
        let mut step = Step::new(&device, move |inputs| vec![model.forward(&inputs[0])]).expect("a step");
        step.run(&[wave(&[1, 1024], &device)]).expect("it runs");
        let more = live() - after;
        assert!(more < 200 << 10, "a step of one row takes {more} bytes on {device:?}");
    }
}

#[test]
fn what_is_kept_in_8_bits_lets_gradients_pass_and_does_not_change() {
    for device in devices() {
        let layer = Linear::new(5, 3, &Init::new(&device, 1)).expect("memory");
        quantize(&layer).expect("it has a weight");
        let x = Var::parameter("x", &wave(&[2, 5], &device)).expect("memory");
        let gradients = layer.forward(&x.tensor()).sum().backward();
        let expected = layer.weight.tensor().sum_dim(0).expand([2, 5]);
        let got = gradients.of(&x).expect("it passes");
        assert_close(&format!("{device:?}"), &doubles(&got), &doubles(&expected), 1e-5, 1e-6);
        assert!(gradients.of(&layer.weight).is_none());
    }
    let device = Device::cpu();
    let init = Init::new(&device, 1);
    let layer = Linear::new(5, 3, &init).expect("memory");
    let parameters = layer.parameters();
    let sgd = |parameters: &[Var]| SGD::new(parameters, SGDOptions::default()).expect("memory");
    let said = |error: Result<()>| error.expect_err("it is refused").to_string();
    {
        let _trained = sgd(&parameters);
        assert!(said(layer.weight.quantize()).contains("`weight` cannot be kept in 8 bits: an optimizer trains it"));
    }
    let bias = layer.bias.as_ref().expect("a bias");
    assert!(said(bias.quantize()).contains("it is f32[3], not f32 of two axes or more"));
    layer.weight.quantize().expect("nobody trains it now");
    let value = Tensor::zeros([3, 5], &device);
    let assigned = panic_of(|| layer.weight.assign(&value)).0;
    assert!(assigned.contains("`weight`: it is kept in 8 bits"), "{assigned}");
    let trained = panic_of(|| drop(sgd(&parameters))).0;
    assert!(trained.contains("`weight` is kept in 8 bits, and cannot be trained"), "{trained}");
    let loaded = nn::load_state(&layer, &nn::state(&layer));
    assert!(said(loaded).contains("`weight` is kept in 8 bits"));
    let nothing = quantize(&Sequential::new()).expect_err("there is nothing").to_string();
    assert!(nothing.contains("no weights with two axes"), "{nothing}");
}
