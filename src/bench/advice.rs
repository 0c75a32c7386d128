//! What a person who wants to train a network should know: how much data goes in, what it takes, and what a device may
//! cost.

use crate::device::Device;
use crate::models::create;

use super::Growth;
use super::cases::Network;

/// What was found of training a network, in other words.
#[derive(Clone, PartialEq, Debug)]
pub struct Advice {
    /// The network.
    pub model: String,
    /// Its trainable numbers.
    pub weights: usize,
    /// Of one sample as f32 (or a word as i32), in bytes.
    pub sample_bytes: usize,
    /// What each device does with which batch; the first is the one that others are held against.
    pub devices: Vec<Growth>,
}

impl Advice {
    /// From what devices do with one and the same network; `None` without any.
    pub fn of(devices: &[Growth]) -> Option<Self> {
        let model = devices.first()?.model;
        let network = Network::of(model);
        let parameters = create(model.name(), &network.spec(), &Device::cpu()).ok()?.parameters();
        Some(Self {
            model: model.name().into(),
            weights: parameters.iter().map(|parameter| parameter.shape().numel()).sum(),
            sample_bytes: network.input.iter().product::<usize>() * 4,
            devices: devices.iter().filter(|growth| growth.model == model).cloned().collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Ended;
    use crate::train::ModelName;

    #[test]
    fn each_device_is_judged_by_its_best_batch() {
        let model = ModelName::new("mlp").expect("there is one");
        let of = |device: &str, points: &[(usize, f64)], ended| Growth {
            device: device.into(),
            model,
            points: points.to_vec(),
            ended,
        };
        let cpu = of("cpu", &[(1, 1e-3), (64, 0.128)], Ended::Level);
        let gpu = of("gpu:0", &[(1, 1e-2), (64, 0.016)], Ended::Slow(20.0));
        assert_eq!([cpu.best(), gpu.best()], [(1, 1000.0), (64, 4000.0)]);
        let large = of("gpu:1", &[(1, 1e-2), (16_384, 0.1)], Ended::Largest);
        let advice = Advice::of(&[cpu, gpu, large]).expect("it is a training");
        assert_eq!(advice.sample_bytes, 8 * 8 * 4);
        assert_eq!(advice.weights, 64 * 128 + 128 + 128 * 64 + 64 + 64 * 10 + 10, "64-128-64-10");
        assert_eq!(Advice::of(&[]), None);
        #[cfg(feature = "cli")]
        {
            let said = advice.describe().join("\n").replace('\u{a0}', " ");
            for words in [
                "1,000,000 samples (244.1 MiB)",
                "1,000 s in batches of 1; up to 64 were tried, and larger ones are no faster",
                "250 s in batches of 64; up to 64 were tried, and a step of the next would take more than 20 s",
                "up to 16,384 were tried; larger ones were not tried and may be faster",
                "gpu:0 pays off if an hour of it costs less than 4.0 x an hour of cpu",
            ] {
                assert!(said.contains(words), "`{words}` is missing in {said}");
            }
        }
    }
}
