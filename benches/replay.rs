//! What a replay costs the host: CPU time of the calling thread per kernel, and wall time of a step.
//!
//! `cargo bench --bench replay`. A device that is a program on the same processor (llvmpipe) works in other threads, so
//! the calling thread's CPU time is the cost of recording and submitting alone.

#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::time::Instant;

use brasa::models::{ModelSpec, create};
use brasa::optim::{Adam, AdamOptions, Optimizer};
use brasa::runtime::Step;
use brasa::{DType, Device, Error, Shape, Stage};
use cpu_time::ThreadTime;

const WARM_UP: usize = 20;
const ROUNDS: usize = 200;

fn main() -> Result<(), Error> {
    let mut devices = vec![Device::cpu()];
    devices.extend(Device::gpu(0));
    for device in devices {
        for (model, batch, input) in
            [("mlp", 64, vec![1, 8, 8]), ("tutorial-cnn", 4, vec![3, 32, 32]), ("resnet20", 8, vec![3, 32, 32])]
        {
            measure(&device, model, batch, &input)?;
        }
    }
    Ok(())
}

fn measure(device: &Device, name: &str, batch: usize, input: &[usize]) -> Result<(), Error> {
    let model = create(name, &ModelSpec { input: input.to_vec(), classes: 10, seed: 1 }, device)?;
    let optimizer = Adam::new(&model.parameters(), AdamOptions::default())?;
    let mut step = Step::new(device, move |inputs| {
        let logits = model.forward(&inputs[0]);
        let loss = Stage::Loss.scope(|| logits.cross_entropy(&inputs[1]));
        optimizer.update(&loss.backward());
        vec![loss]
    })?;
    let mut shape = vec![batch];
    shape.extend(input);
    let (pixels, labels) = (Shape::from(shape), Shape::from(batch));
    let info = step.prepare(&[(pixels.clone(), DType::F32), (labels.clone(), DType::I32)])?;
    let kernels = info.plan.kernels.len();
    let values: Vec<u8> = bytemuck::cast_slice(&vec![0.25f32; pixels.numel()]).to_vec();
    let classes: Vec<u8> = bytemuck::cast_slice(&vec![3i32; batch]).to_vec();
    let (mut host, mut wall) = (Vec::new(), Vec::new());
    for round in 0..WARM_UP + ROUNDS {
        let (cpu, clock) = (ThreadTime::now(), Instant::now());
        step.run_bytes(&[(&pixels, DType::F32, &values), (&labels, DType::I32, &classes)])?;
        let recorded = cpu.elapsed();
        device.sync()?;
        if round >= WARM_UP {
            host.push(recorded.as_secs_f64() * 1e6);
            wall.push(clock.elapsed().as_secs_f64() * 1e6);
        }
    }
    host.sort_by(f64::total_cmp);
    wall.sort_by(f64::total_cmp);
    let (host, wall) = (host[host.len() / 2], wall[wall.len() / 2]);
    let per_kernel = if device.is_cpu() { String::from("-") } else { format!("{:.2} µs", host / kernels as f64) };
    println!(
        "{:<28} {name:<13} batch {batch:<3} {kernels:>4} kernels  host {per_kernel:>8} per kernel  step {:>9.0} µs",
        device.name(),
        wall
    );
    Ok(())
}
