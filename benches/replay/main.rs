//! What a replay costs the host: CPU time of the calling thread per kernel, and wall time of a step.
//!
//! `cargo bench --bench replay [-- MODEL]`. Beside it, what wgpu alone takes for the same inputs and launches of the
//! same shape (`floor.rs`), measured in turn with it. A device that is a program on the same processor (llvmpipe) works
//! in other threads, so the calling thread's CPU time is the cost of recording and submitting alone. It shares the
//! caches, though: a replay is measured once after the device has worked on the one before (`after it`), and once right
//! behind another replay (`at once`), which is how a training loop replays on a device of its own. So is wgpu alone,
//! and once more while the device works on a step of ours, which tells a busy machine from what our side costs.

#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

mod floor;
#[path = "../support/mod.rs"]
mod support;

use std::time::Instant;

use brasa::models::{ModelSpec, create};
use brasa::{DType, Device, Error, Shape};
use cpu_time::ThreadTime;

use floor::Floor;
use support::training_step;

const WARM_UP: usize = 10;
const ROUNDS: usize = 100;

fn main() -> Result<(), Error> {
    let mut devices = vec![Device::cpu()];
    devices.extend(Device::gpu(0));
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    for device in devices {
        for (model, batch, input) in
            [("mlp", 64, vec![1, 8, 8]), ("tutorial-cnn", 4, vec![3, 32, 32]), ("resnet20", 8, vec![3, 32, 32])]
        {
            if only.as_ref().is_none_or(|only| only == model) {
                measure(&device, model, batch, &input)?;
            }
        }
    }
    Ok(())
}

fn measure(device: &Device, name: &str, batch: usize, input: &[usize]) -> Result<(), Error> {
    let model = create(name, &ModelSpec { input: input.to_vec(), classes: 10, seed: 1 }, device)?;
    let mut step = training_step(device, model)?;
    let mut shape = vec![batch];
    shape.extend(input);
    let (pixels, labels) = (Shape::from(shape), Shape::from(batch));
    let info = step.prepare(&[(pixels.clone(), DType::F32), (labels.clone(), DType::I32)])?;
    let kernels = info.plan.kernels.len();
    let values: Vec<u8> = bytemuck::cast_slice(&vec![0.25f32; pixels.numel()]).to_vec();
    let classes: Vec<u8> = bytemuck::cast_slice(&vec![3i32; batch]).to_vec();
    let bytes: [&[u8]; 2] = [&values, &classes];
    let floor = if device.is_cpu() { None } else { Floor::new(&info.plan, &bytes) };
    let mut replay = || {
        let cpu = ThreadTime::now();
        step.run_bytes(&[(&pixels, DType::F32, &values), (&labels, DType::I32, &classes)])?;
        Ok::<_, Error>(cpu.elapsed().as_secs_f64() * 1e6)
    };
    let (mut after, mut at_once, mut wall) = (Vec::new(), Vec::new(), Vec::new());
    let (mut floor_after, mut floor_at_once, mut floor_beside) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..WARM_UP + ROUNDS {
        let clock = Instant::now();
        let first = replay()?;
        device.sync()?;
        let elapsed = clock.elapsed().as_secs_f64() * 1e6;
        replay()?;
        let third = replay()?;
        device.sync()?;
        if let Some(floor) = &floor {
            // the device has just worked: caches are as cold as before a replay of ours
            floor_after.push(floor.replay(&bytes));
            floor.wait();
            floor.replay(&bytes);
            floor_at_once.push(floor.replay(&bytes));
            floor.wait();
            // the same while the device works on a step of ours
            replay()?;
            floor_beside.push(floor.replay(&bytes));
            floor.wait();
            device.sync()?;
        }
        if round >= WARM_UP {
            after.push(first);
            at_once.push(third);
            wall.push(elapsed);
        }
    }
    let mut line = format!("{:<28} {name:<13} batch {batch:<3} {kernels:>4} kernels", device.name());
    if floor.is_some() {
        let [after, at_once, floor_after, floor_at_once, floor_beside] =
            [after, at_once, floor_after, floor_at_once, floor_beside].map(|times| median(times) / kernels as f64);
        line += &format!(
            "  host per kernel {after:>5.2} µs after it (wgpu alone {floor_after:.2}), {at_once:>5.2} µs at once (wgpu \
             alone {floor_at_once:.2}, {floor_beside:.2} beside a step of ours)"
        );
    }
    println!("{line}  step {:>9.0} µs", median(wall));
    Ok(())
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
