//! What a crossover means for a person who wants to train that network: how much data goes in, what it takes, and what a device
//! may cost.

use crate::device::Device;
use crate::models::create;

use super::cases::Network;
use super::{Crossover, Family};

/// What was found of training a network, in other words.
#[derive(Clone, PartialEq, Debug)]
pub struct Advice {
    /// The network.
    pub model: String,
    /// Its trainable numbers.
    pub weights: usize,
    /// Of one sample as f32 (or a word as i32), in bytes.
    pub sample_bytes: usize,
    /// The devices by selector.
    pub devices: [String; 2],
    /// What each of them trains a second at its best.
    pub samples_per_second: [f64; 2],
    /// Samples in a step with which it does.
    pub batches: [usize; 2],
}

impl Advice {
    /// From the batch with which each device was at its best; `None` if it was no training.
    pub fn of(found: &Crossover) -> Option<Self> {
        let Family::Training(model) = found.family else { return None };
        let network = Network::of(model);
        let best = [0, 1].map(|side| {
            let rates = found.points.iter().map(move |point| (point.size as f64 / point.seconds[side], point.size));
            rates.max_by(|(a, _), (b, _)| a.total_cmp(b))
        });
        let [Some(one), Some(other)] = best else { return None };
        let parameters = create(model.name(), &network.spec(), &Device::cpu()).ok()?.parameters();
        Some(Self {
            model: model.name().into(),
            weights: parameters.iter().map(|parameter| parameter.shape().numel()).sum(),
            sample_bytes: network.input.iter().product::<usize>() * 4,
            devices: found.devices.clone(),
            samples_per_second: [one.0, other.0],
            batches: [one.1, other.1],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Crossing;
    use crate::train::ModelName;

    #[test]
    fn each_device_is_judged_by_its_best_batch() {
        let model = ModelName::new("mlp").expect("there is one");
        let found = |family| Crossover {
            family,
            devices: ["cpu".into(), "gpu:0".into()],
            points: vec![Crossing { size: 1, seconds: [1e-3, 1e-2] }, Crossing { size: 64, seconds: [0.128, 0.016] }],
            between: [Some(1), Some(64)],
            ended_by: None,
        };
        let advice = Advice::of(&found(Family::Training(model))).expect("it is a training");
        assert_eq!((advice.batches, advice.samples_per_second), ([1, 64], [1000.0, 4000.0]));
        assert_eq!(advice.sample_bytes, 8 * 8 * 4);
        assert_eq!(advice.weights, 64 * 128 + 128 + 128 * 64 + 64 + 64 * 10 + 10, "64-128-64-10");
        assert_eq!(Advice::of(&found(Family::Matmul)), None);
    }
}
