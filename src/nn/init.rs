//! Making variables: where they live, what they are called, and what they hold at first.

use crate::device::Device;
use crate::error::Result;
use crate::runtime::Var;
use crate::shape::Shape;
use crate::tensor::Tensor;

/// A place in a model under construction: the device, the seed, and the path of the module being built.
///
/// Values are drawn from (seed, path, element), so that a layer starts with the same weights on every device, and adding a
/// layer leaves the others' as they were.
///
/// ```no_run
/// # use brasa::{Device, nn::{Init, Linear}};
/// # fn main() -> brasa::Result<()> {
/// let init = Init::new(&Device::cpu(), 42);
/// let hidden = Linear::new(64, 128, &init.at("fc1"))?; // variables `fc1.weight` and `fc1.bias`
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Init {
    device: Device,
    seed: u64,
    path: String,
}

/// How a variable's first value is drawn.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Initial {
    /// The same value everywhere.
    Constant(f32),
    /// Uniform in `-bound..bound`.
    Uniform {
        /// Half the width.
        bound: f32,
    },
    /// Normal around zero.
    Normal {
        /// The standard deviation.
        deviation: f32,
    },
}

impl Initial {
    /// Uniform with the bound sqrt(6 / ((1 + slope²) · fan_in)), He et al. 2015 (arXiv 1502.01852), for a leaky ReLU of
    /// this negative slope.
    pub fn kaiming_uniform(fan_in: usize, slope: f32) -> Self {
        Self::Uniform { bound: (6.0 / ((1.0 + slope * slope) * fan_in.max(1) as f32)).sqrt() }
    }

    /// Normal with the deviation sqrt(2 / fan_in), He et al. 2015, for ReLU.
    pub fn kaiming_normal(fan_in: usize) -> Self {
        Self::Normal { deviation: (2.0 / fan_in.max(1) as f32).sqrt() }
    }

    /// Uniform with the bound sqrt(6 / (fan_in + fan_out)), Glorot and Bengio 2010.
    pub fn xavier_uniform(fan_in: usize, fan_out: usize) -> Self {
        Self::Uniform { bound: (6.0 / (fan_in + fan_out).max(1) as f32).sqrt() }
    }

    /// What PyTorch draws the weights and biases of linear layers and convolutions from: `kaiming_uniform` with slope √5,
    /// which is uniform within 1/√fan_in (`reset_parameters` in its `torch/nn/modules/linear.py` and `conv.py`).
    pub fn pytorch_default(fan_in: usize) -> Self {
        Self::kaiming_uniform(fan_in, 5.0_f32.sqrt())
    }

    fn draw(self, count: usize, generator: &mut Generator) -> Vec<f32> {
        let mut sample = || match self {
            Self::Constant(value) => value,
            Self::Uniform { bound } => bound * (2.0 * generator.uniform() - 1.0) as f32,
            Self::Normal { deviation } => deviation * generator.normal() as f32,
        };
        (0..count).map(|_| sample()).collect()
    }
}

impl Init {
    /// The root of a model on `device`.
    pub fn new(device: &Device, seed: u64) -> Self {
        Self { device: device.clone(), seed, path: String::new() }
    }

    /// The sub-module `name` of this place.
    #[must_use]
    pub fn at(&self, name: impl std::fmt::Display) -> Self {
        Self { path: self.join(&name.to_string()), ..self.clone() }
    }

    /// Path of the module being built, such as `layer1.0.conv1`; empty at the root.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The device the model will live on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// A variable that an optimizer changes.
    pub fn parameter(&self, name: &str, shape: impl Into<Shape>, initial: Initial) -> Result<Var> {
        let path = self.join(name);
        Var::parameter(&path, &self.value(&path, shape.into(), initial)?)
    }

    /// A variable that belongs to the model's state but is not trained, such as a running mean.
    pub fn buffer(&self, name: &str, shape: impl Into<Shape>, initial: Initial) -> Result<Var> {
        let path = self.join(name);
        Var::buffer(&path, &self.value(&path, shape.into(), initial)?)
    }

    fn join(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    fn value(&self, path: &str, shape: Shape, initial: Initial) -> Result<Tensor> {
        let mut generator = Generator::new(self.seed, path);
        Tensor::from_slice(&initial.draw(shape.numel(), &mut generator), shape, &self.device)
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): small, and more than good enough for first weights.
struct Generator(u64);

impl Generator {
    fn new(seed: u64, path: &str) -> Self {
        // FNV-1a of the path, so that layers draw from streams of their own.
        let hash = path.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let mut generator = Self(seed);
        generator.0 = generator.next() ^ hash;
        generator
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// In (0, 1): never 0, so that its logarithm is finite.
    fn uniform(&mut self) -> f64 {
        ((self.next() >> 12) as f64 + 0.5) * (-52.0_f64).exp2()
    }

    /// Standard normal (Box and Muller 1958).
    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(initial: Initial) -> (f64, f64) {
        let values = initial.draw(20_000, &mut Generator::new(1, "layer.weight"));
        let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / values.len() as f64;
        let square = values.iter().map(|&v| f64::from(v) * f64::from(v)).sum::<f64>() / values.len() as f64;
        (mean, (square - mean * mean).sqrt())
    }

    #[test]
    fn draws_have_the_stated_moments() {
        let (mean, deviation) = moments(Initial::Uniform { bound: 3.0 });
        // Standard errors of mean and deviation of 20,000 draws are below 0.013; four of them.
        assert!(mean.abs() < 0.05 && (deviation - 3.0 / 3.0_f64.sqrt()).abs() < 0.05, "{mean} {deviation}");
        let (mean, deviation) = moments(Initial::Normal { deviation: 2.0 });
        assert!(mean.abs() < 0.06 && (deviation - 2.0).abs() < 0.04, "{mean} {deviation}");
    }

    #[test]
    fn pytorch_draws_within_one_over_the_root_of_the_fan_in() {
        let Initial::Uniform { bound } = Initial::pytorch_default(400) else { panic!("not uniform") };
        assert!((bound - 0.05).abs() < 1e-8, "{bound}");
    }

    #[test]
    fn streams_depend_on_seed_and_path() {
        let first = |seed, path| Generator::new(seed, path).next();
        assert_eq!(first(1, "a.weight"), first(1, "a.weight"));
        assert_ne!(first(1, "a.weight"), first(2, "a.weight"));
        assert_ne!(first(1, "a.weight"), first(1, "b.weight"));
    }
}
