//! A network of one's own with everything that brasa's have: the trainer's runs, the window, checkpoints, predictions.
//!
//! `cargo run --release --example own_model`, and while it runs or afterwards `cargo run --release -- view runs`.

#![expect(clippy::print_stdout, reason = "an example prints")]

use brasa::models::{self, Task};
use brasa::nn::{BatchNorm2d, Conv2d, Init, Linear, Module};
use brasa::ops::conv::ConvOptions;
use brasa::train::{Config, Control, Event, ModelName, Trainer};
use brasa::{Result, Tensor, variables};

/// Two convolutions; between them, channels are weighted by what the whole picture shows (squeeze and excitation, Hu et
/// al. 2018, arXiv 1709.01507).
struct Gated {
    conv1: Conv2d,
    norm: BatchNorm2d,
    gate: Linear,
    conv2: Conv2d,
    head: Linear,
}

impl Gated {
    const WIDTH: usize = 32;

    fn new(channels: usize, classes: usize, init: &Init) -> Result<Self> {
        let padded = || ConvOptions::default().padding(1);
        Ok(Self {
            conv1: Conv2d::new(channels, Self::WIDTH, 3, padded(), &init.at("conv1"))?,
            norm: BatchNorm2d::new(Self::WIDTH, &init.at("norm"))?,
            gate: Linear::new(Self::WIDTH, Self::WIDTH, &init.at("gate"))?,
            conv2: Conv2d::new(Self::WIDTH, Self::WIDTH, 3, padded(), &init.at("conv2"))?,
            head: Linear::new(Self::WIDTH, classes, &init.at("head"))?,
        })
    }
}

variables!(Gated: conv1, norm, gate, conv2, head);

impl Module for Gated {
    /// `[batch, channels, height, width]` to `[batch, classes]`.
    fn forward(&self, pictures: &Tensor) -> Tensor {
        let x = self.norm.forward(&self.conv1.forward(pictures)).relu().max_pool2d(2, 2, 0);
        let gate = self.gate.forward(&x.mean_dim([2, 3])).sigmoid();
        let x = self.conv2.forward(&(x * gate.unsqueeze(2).unsqueeze(3))).relu();
        self.head.forward(&x.mean_dim([2, 3]))
    }
}

fn main() -> Result<()> {
    models::add("gated", "two convolutions and a gate for each channel", Task::Classify, |spec, init| {
        Ok(Box::new(Gated::new(spec.input[0], spec.classes, init)?))
    })?;
    let config = Config { model: ModelName::new("gated")?, epochs: 5, seed: 1, ..Config::default() };
    let mut trainer = Trainer::new(config)?;
    trainer.add_tensorboard();
    let summary = trainer.run(&Control::default(), &mut |event| match event {
        Event::Started(start) => println!("{} parameters on {}", start.parameters, start.device),
        Event::Evaluated { epoch, test, .. } => println!("epoch {epoch}: {:.1} % right", 100.0 * test.score()),
        _ => {}
    })?;
    println!("saved in {}", summary.folder.display());
    Ok(())
}
