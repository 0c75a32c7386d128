//! What it takes to prepare a training step: tracing, planning, compiling for the CPU backend.
//!
//! `cargo bench --bench planning`. Planned with the options of the CPU backend and of a GPU that binds eight buffers.

#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

use brasa::models::BasicBlock;
use brasa::nn::{BatchNorm2d, Conv2d, Init, Linear, Module};
use brasa::ops::conv::ConvOptions;
use brasa::optim::{Adam, AdamOptions, Optimizer};
use brasa::plan::PlanOptions;
use brasa::runtime::{Step, Var};
use brasa::tensor::Tensor;
use brasa::{DType, Device, Error, Shape, Stage};
use cpu_time::ThreadTime;

const ROUNDS: usize = 5;
const BATCH: usize = 64;

fn main() -> Result<(), Error> {
    let device = Device::cpu();
    // depth 6n + 2
    for (name, n) in [("ResNet-20", 3), ("ResNet-56", 9), ("ResNet-110", 18)] {
        for (kind, options) in [("cpu", PlanOptions::CPU), ("gpu", PlanOptions::gpu(8))] {
            let mut times = Vec::new();
            let mut summary = String::new();
            for _ in 0..ROUNDS {
                let model = ResNet::new(n, &Init::new(&device, 1))?;
                let optimizer = Adam::new(&model.parameters(), AdamOptions::default())?;
                let mut step = Step::new(&device, move |inputs| {
                    let logits = model.forward(&inputs[0]);
                    let loss = Stage::Loss.scope(|| logits.cross_entropy(&inputs[1]));
                    optimizer.update(&loss.backward());
                    vec![loss]
                })?
                .with_options(|o| *o = options);
                let signature = [(Shape::from([BATCH, 3, 32, 32]), DType::F32), (Shape::from(BATCH), DType::I32)];
                let start = ThreadTime::now();
                summary = step.prepare(&signature)?.plan.summary();
                times.push(start.elapsed().as_secs_f64() * 1e3);
            }
            times.sort_by(f64::total_cmp);
            println!("{name} {kind}: {:>8.1} ms of CPU time; {summary}", times[ROUNDS / 2]);
        }
    }
    Ok(())
}

/// The residual network for CIFAR with n blocks in each of its three stages.
struct ResNet {
    conv: Conv2d,
    norm: BatchNorm2d,
    blocks: Vec<BasicBlock>,
    fc: Linear,
}

impl ResNet {
    fn new(n: usize, init: &Init) -> Result<Self, Error> {
        let mut blocks = Vec::new();
        let mut inputs = 16;
        for (layer, outputs) in [(1, 16), (2, 32), (3, 64)] {
            for index in 0..n {
                let stride = if index == 0 && layer > 1 { 2 } else { 1 };
                blocks.push(BasicBlock::new(inputs, outputs, stride, &init.at(format_args!("layer{layer}.{index}")))?);
                inputs = outputs;
            }
        }
        Ok(Self {
            conv: Conv2d::without_bias(3, 16, 3, ConvOptions::default().padding(1), &init.at("conv1"))?,
            norm: BatchNorm2d::new(16, &init.at("bn1"))?,
            blocks,
            fc: Linear::new(64, 10, &init.at("fc"))?,
        })
    }
}

impl Module for ResNet {
    fn forward(&self, input: &Tensor) -> Tensor {
        let stem = self.norm.forward(&self.conv.forward(input)).relu();
        let value = self.blocks.iter().fold(stem, |value, block| block.forward(&value));
        self.fc.forward(&value.mean_dim([2, 3]))
    }

    fn visit(&self, visitor: &mut dyn FnMut(&Var)) {
        self.conv.visit(visitor);
        self.norm.visit(visitor);
        self.blocks.iter().for_each(|block| block.visit(visitor));
        self.fc.visit(visitor);
    }
}
