//! Whole training steps: forward, mean cross-entropy, backward, Adam.

use crate::device::Device;
use crate::error::Result;
use crate::models::{ModelSpec, Task, create};
use crate::optim::{Adam, AdamOptions, Optimizer};
use crate::stage::Stage;
use crate::tensor::Tensor;
use crate::train::ModelName;

use super::super::Suite;
use super::super::method::Work;
use super::{Case, replay};

/// A network and what it is fed.
#[derive(Clone, Copy)]
pub(in crate::bench) struct Network {
    /// In the list of models.
    pub(super) model: &'static str,
    /// Of a sample.
    pub(in crate::bench) input: &'static [usize],
    pub(super) classes: usize,
    /// Shape of a sample's targets; empty for one class of all of it.
    targets: &'static [usize],
    /// Samples are numbers of words.
    is_text: bool,
}

pub(super) const MLP: Network = Network { model: "mlp", input: &[1, 8, 8], classes: 10, targets: &[], is_text: false };
pub(super) const CNN: Network =
    Network { model: "tutorial-cnn", input: &[3, 32, 32], classes: 10, targets: &[], is_text: false };
pub(super) const RESNET20: Network =
    Network { model: "resnet20", input: &[3, 32, 32], classes: 10, targets: &[], is_text: false };
pub(super) const UNET: Network =
    Network { model: "unet", input: &[3, 128, 128], classes: 3, targets: &[128, 128], is_text: false };
pub(super) const GPT: Network = Network { model: "gpt", input: &[128], classes: 96, targets: &[128], is_text: true };

/// Operations of matrix products and convolutions in a step, forward and backward, for one sample, as PyTorch's
/// `FlopCounterMode` counts them.
const OPERATIONS: [(&str, f64); 5] = [
    ("mlp", 5_488_640.0 / 64.0),
    ("tutorial-cnn", 3_204_720.0),
    ("resnet20", 15_615_639_552.0 / 64.0),
    ("unet", 31_973_179_392.0 / 8.0),
    ("gpt", 5_846_859_776.0 / 8.0),
];

pub(super) fn cases() -> Vec<Case> {
    vec![
        step("train_mlp_b64", MLP, 64).quick(true),
        step("train_cnn_b4", CNN, 4).quick(true),
        step("train_cnn_b128", CNN, 128).quick(true),
        step("train_resnet20_b64", RESNET20, 64),
        step("train_unet_b8", UNET, 8),
        step("train_gpt_b8", GPT, 8),
    ]
}

pub(super) fn step(name: &str, network: Network, batch: usize) -> Case {
    let operations = OPERATIONS.iter().find(|(model, _)| *model == network.model).map_or(0.0, |(_, flops)| *flops);
    Case::new(Suite::Train, name, move |device| network.training(batch, device))
        .what(format!("training step of {}, batch {batch}", network.model))
        .flops(operations * batch as f64)
        .samples(batch)
        .throughput()
}

impl Network {
    /// What a model is measured with: pictures as large as those of CIFAR-10, unless it is among those above.
    pub(in crate::bench) fn of(model: ModelName) -> Self {
        let segments = model.entry().task == Task::Segment;
        let alike = if segments { UNET } else { CNN };
        let known = [MLP, RESNET20].into_iter().find(|network| network.model == model.name());
        known.unwrap_or(Self { model: model.name(), ..alike })
    }

    pub(in crate::bench) fn spec(self) -> ModelSpec {
        ModelSpec { input: self.input.to_vec(), classes: self.classes, seed: 1 }
    }

    /// Samples drawn at random.
    pub(super) fn samples(self, batch: usize, device: &Device) -> Tensor {
        let shape = [&[batch], self.input].concat();
        if self.is_text { Tensor::randint(0, self.classes as i32, shape, device) } else { Tensor::rand(shape, device) }
    }

    fn training(self, batch: usize, device: &Device) -> Result<Box<dyn Work>> {
        let model = create(self.model, &self.spec(), device)?;
        let optimizer = Adam::new(&model.parameters(), AdamOptions::default())?;
        let targets = Tensor::randint(0, self.classes as i32, [&[batch], self.targets].concat(), device);
        replay(device, vec![self.samples(batch, device), targets], move |inputs| {
            let logits = model.forward(&inputs[0]);
            let loss = Stage::Loss.scope(|| logits.cross_entropy(&inputs[1]));
            optimizer.update(&loss.backward());
            vec![loss]
        })
    }
}
