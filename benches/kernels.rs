//! Where a training step's time goes, kernel by kernel, or that of an ONNX model's answer.
//!
//! `cargo bench --bench kernels -- MODEL BATCH CHANNELS SIDE [cpu|gpu]`, for example `cnn 32 1 8 cpu`, `unet 8 3 128`,
//! with a vocabulary and a length `gpt 8 96 128`, or `resnet50.onnx 1 3 224`.

#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

mod support;

use brasa::formats::onnx::Model;
use brasa::models::{ModelSpec, create};
use brasa::nn::{Mode, Module};
use brasa::runtime::Step;
use brasa::{DType, Device, Error, Shape};

use support::training_step;

const WARM_UP: usize = 5;
const ROUNDS: usize = 20;

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let text = |n: usize, default: &str| arguments.get(n).map_or(default, String::as_str).to_owned();
    let number = |n: usize, default: usize| arguments.get(n).and_then(|text| text.parse().ok()).unwrap_or(default);
    let (name, batch, channels, side) = (text(0, "tutorial-cnn"), number(1, 128), number(2, 3), number(3, 32));
    let device = Device::named(&text(4, "cpu"))?;
    let (input, classes, targets) = match name.as_str() {
        "gpt" => (vec![side], channels, vec![side]),
        "unet" => (vec![channels, side, side], 3, vec![side, side]),
        _ => (vec![channels, side, side], 10, vec![]),
    };
    let mut step = if name.ends_with(".onnx") {
        let model = Model::load(&name, &device)?;
        Step::new(&device, move |inputs| vec![Mode::Evaluate.scope(|| Module::forward(&model, &inputs[0]))])?
    } else {
        training_step(&device, create(&name, &ModelSpec { input: input.clone(), classes, seed: 1 }, &device)?)?
    };
    let shape = |rest: &[usize]| Shape::from([&[batch], rest].concat());
    let (samples, labels) = (shape(&input), shape(&targets));
    let ones = |shape: &Shape| bytemuck::cast_slice(&vec![1i32; shape.numel()]).to_vec();
    let (dtype, values): (DType, Vec<u8>) = match name.as_str() {
        "gpt" => (DType::I32, ones(&samples)),
        _ => (DType::F32, bytemuck::cast_slice(&vec![0.25f32; samples.numel()]).to_vec()),
    };
    let classes: Vec<u8> = ones(&labels);
    let mut rounds = Vec::new();
    for round in 0..WARM_UP + ROUNDS {
        step.profile_kernels(round >= WARM_UP);
        step.run_bytes(&[(&samples, dtype, &values), (&labels, DType::I32, &classes)])?;
        device.sync()?;
        if round >= WARM_UP {
            rounds.push(step.kernel_times());
        }
    }
    let times = &rounds[0];
    let (mut medians, mut leasts) = (Vec::new(), Vec::new());
    for number in 0..times.len() {
        let mut times: Vec<f64> = rounds.iter().map(|times| times[number].milliseconds).collect();
        times.sort_by(f64::total_cmp);
        medians.push(times[times.len() / 2]);
        leasts.push(times[0]);
    }
    let (total, least): (f64, f64) = (medians.iter().sum(), leasts.iter().sum());
    for ((time, median), least) in times.iter().zip(medians).zip(leasts) {
        let per_second = time.milliseconds / median;
        println!(
            "{median:>9.3} ms (least {least:>9.3}) {:>5.1} % {:>8.1} GFLOP/s {:>7.1} GB/s  {:<8} {}",
            100.0 * median / total,
            time.gflops_per_second * per_second,
            time.gigabytes_per_second * per_second,
            time.stage,
            time.label
        );
    }
    println!("{total:>9.3} ms (least {least:.3}) in {} kernels on {}", times.len(), device.name());
    Ok(())
}
