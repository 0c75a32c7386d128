//! Small steps: one with a single variable, and a network with everything that keeps state (batch norm, dropout, Adam).

use std::sync::Arc;

use brasa::nn::{BatchNorm2d, Conv2d, Dropout, Init, Linear, Module, Variables};
use brasa::ops::conv::ConvOptions;
use brasa::optim::{Adam, AdamOptions, LossScaler, Optimizer};
use brasa::runtime::{Step, Var, random_variables, seed};
use brasa::{Device, Stage, Tensor, variables};

use super::{floats, vector};

/// A variable that starts as [1, 2], and a step that doubles it and returns what it is then.
pub fn doubling(device: &Device) -> (Var, Step) {
    let variable = Var::state("v", &vector(&[1.0, 2.0], device)).expect("memory");
    let doubled = variable.clone();
    let step = Step::new(device, move |_| {
        doubled.assign(&(doubled.tensor() * 2.0));
        vec![doubled.tensor() * 1.0]
    });
    (variable, step.expect("a step"))
}

/// Convolution, batch norm, dropout and a linear layer for `[batch, 2, 6, 6]` in five classes.
pub struct Network {
    conv: Conv2d,
    norm: BatchNorm2d,
    dropout: Dropout,
    fc: Linear,
}

impl Network {
    fn new(init: &Init) -> brasa::Result<Self> {
        Ok(Self {
            conv: Conv2d::new(2, 4, 3, ConvOptions::default().padding(1), &init.at("conv"))?,
            norm: BatchNorm2d::new(4, &init.at("norm"))?,
            dropout: Dropout::new(0.25),
            fc: Linear::new(36, 5, &init.at("fc"))?,
        })
    }
}

variables!(Network: conv, norm, fc);

impl Module for Network {
    fn forward(&self, input: &Tensor) -> Tensor {
        let value = self.norm.forward(&self.conv.forward(input)).relu().max_pool2d(2, 2, 0);
        self.fc.forward(&self.dropout.forward(&value.flatten(1, -1)))
    }
}

/// The network in training.
pub struct Training {
    pub device: Device,
    pub step: Step,
    /// Parameters, running statistics, moments, counters and the position of the random numbers.
    pub state: Vec<Var>,
}

impl Training {
    /// A new start; `seed` decides weights and dropout. One at a time per device: random numbers are the device's.
    pub fn new(device: &Device, number: u64) -> Self {
        Self::build(device, number, None)
    }

    /// The same with a scaled loss, `weight` times as large as the one it returns.
    pub fn scaled(device: &Device, number: u64, scaler: &Arc<LossScaler>, weight: f32) -> Self {
        Self::build(device, number, Some((scaler.clone(), weight)))
    }

    fn build(device: &Device, number: u64, scaler: Option<(Arc<LossScaler>, f32)>) -> Self {
        seed(device, number).expect("a seed");
        let network = Arc::new(Network::new(&Init::new(device, number)).expect("memory"));
        let options = AdamOptions { learning_rate: 1e-2, ..AdamOptions::default() };
        let optimizer = Adam::new(&network.parameters(), options).expect("memory");
        let (seed, position) = random_variables(device).expect("random numbers");
        let state = [network.variables(), optimizer.state(), vec![seed, position]].concat();
        let step = Step::new(device, move |inputs| {
            let logits = network.forward(&inputs[0]);
            let loss = Stage::Loss.scope(|| logits.cross_entropy(&inputs[1]));
            match &scaler {
                Some((scaler, weight)) => scaler.update(&optimizer, &scaler.backward(&(&loss * *weight))),
                None => optimizer.update(&loss.backward()),
            };
            vec![loss]
        })
        .expect("a step");
        Self { device: device.clone(), step, state }
    }

    /// Batch `number`: eight samples and their labels.
    pub fn batch(&self, number: u64) -> [Tensor; 2] {
        let labels: Vec<i32> = (0..8).map(|row| (row * 3 + number as i32) % 5).collect();
        self.samples(&floats(number, 8 * 72, -1.0, 1.0), &labels)
    }

    /// Eight samples and their labels.
    pub fn samples(&self, values: &[f32], labels: &[i32]) -> [Tensor; 2] {
        let samples = Tensor::from_slice(values, [8, 2, 6, 6], &self.device).expect("memory");
        [samples, Tensor::from_slice(labels, 8, &self.device).expect("memory")]
    }

    /// The loss of a step on batch `number`.
    pub fn train(&mut self, number: u64) -> f32 {
        let batch = self.batch(number);
        self.step.run(&batch).expect("a step")[0].item().expect("a loss")
    }

    /// Every bit of the state, by name.
    pub fn bits(&self) -> Vec<(String, Vec<u8>)> {
        let bytes = |var: &Var| pollster::block_on(var.tensor().to_bytes()).expect("bytes");
        self.state.iter().map(|var| (var.name().to_owned(), bytes(var))).collect()
    }
}
