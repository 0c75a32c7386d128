//! Making variables: where they live, what they are called, and what they hold at first.

mod initial;
mod matrix;

pub use initial::{Initial, Nonlinearity, fans};

use crate::device::Device;
use crate::error::Result;
use crate::runtime::Var;
use crate::shape::Shape;
use crate::tensor::Tensor;

use initial::Generator;

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
        Tensor::from_slice(&initial.draw(&shape, &mut generator), shape, &self.device)
    }
}
