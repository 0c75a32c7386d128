//! What it takes to prepare a training step: tracing, planning, compiling for the CPU backend.
//!
//! `cargo bench --bench planning`. Planned with the options of the CPU backend and of a GPU that binds as few buffers
//! as WebGPU promises: 8, one of which is the status word.

#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

mod support;

use brasa::models::CifarResNet;
use brasa::nn::Init;
use brasa::plan::PlanOptions;
use brasa::{DType, Device, Error, Shape};
use cpu_time::ThreadTime;

use support::training_step;

const ROUNDS: usize = 5;
const BATCH: usize = 64;

fn main() -> Result<(), Error> {
    let device = Device::cpu();
    for depth in [20, 56, 110] {
        for (kind, options) in [("cpu", PlanOptions::CPU), ("gpu", PlanOptions::gpu(7))] {
            let mut times = Vec::new();
            let mut summary = String::new();
            for _ in 0..ROUNDS {
                let model = CifarResNet::new(depth, 3, 10, &Init::new(&device, 1))?;
                let mut step = training_step(&device, Box::new(model))?.with_options(|o| *o = options);
                let signature = [(Shape::from([BATCH, 3, 32, 32]), DType::F32), (Shape::from(BATCH), DType::I32)];
                let start = ThreadTime::now();
                summary = step.prepare(&signature)?.plan.summary();
                times.push(start.elapsed().as_secs_f64() * 1e3);
            }
            times.sort_by(f64::total_cmp);
            println!("ResNet-{depth} {kind}: {:>8.1} ms of CPU time; {summary}", times[ROUNDS / 2]);
        }
    }
    Ok(())
}
