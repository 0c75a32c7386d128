//! Making variables: their device, their names and their initial values.

mod initial;
mod matrix;

pub use initial::{Initial, Nonlinearity, fans};

use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::runtime::{Var, VarKind};
use crate::shape::{MAX_ELEMENTS, Shape};
use crate::tensor::Tensor;

pub(crate) use initial::Generator;
use initial::{NoRoom, room};

/// A place in a model under construction: the device, the seed, and the path of the module being built.
///
/// Values are drawn from (seed, path, element), so that a layer starts with the same weights on every device, and
/// adding a layer leaves the others' as they were.
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
    /// `None`: everything is zero.
    seed: Option<u64>,
    path: String,
}

impl Init {
    /// The root of a model on `device`.
    pub fn new(device: &Device, seed: u64) -> Self {
        Self { device: device.clone(), seed: Some(seed), path: String::new() }
    }

    /// The root of a model whose variables are all zero, whatever its layers ask for: one that is about to be loaded
    /// from a file, or only looked at. Nothing is drawn or computed, and on the CPU memory is taken when it is first
    /// written.
    pub fn zeros(device: &Device) -> Self {
        Self { device: device.clone(), seed: None, path: String::new() }
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
    ///
    /// # Errors
    /// If there is no memory for it, it has more elements than 32-bit indices reach, or the device fails.
    ///
    /// # Panics
    /// If `initial` is not for this shape, or its numbers leave nothing to draw.
    #[track_caller]
    pub fn parameter(&self, name: &str, shape: impl Into<Shape>, initial: Initial) -> Result<Var> {
        self.variable(name, VarKind::Parameter, shape.into(), initial)
    }

    /// A variable that belongs to the model's state but is not trained, such as a running mean.
    ///
    /// # Errors
    /// If there is no memory for it, it has more elements than 32-bit indices reach, or the device fails.
    ///
    /// # Panics
    /// If `initial` is not for this shape, or its numbers leave nothing to draw.
    #[track_caller]
    pub fn buffer(&self, name: &str, shape: impl Into<Shape>, initial: Initial) -> Result<Var> {
        self.variable(name, VarKind::Buffer, shape.into(), initial)
    }

    /// A buffer that counts: i32 of shape `[]`, 0 at first.
    ///
    /// # Errors
    /// If there is no memory for it, or the device fails.
    pub fn counter(&self, name: &str) -> Result<Var> {
        Var::zeros(&self.join(name), VarKind::Buffer, [].into(), DType::I32, &self.device)
    }

    /// The path of `name` here.
    pub(super) fn join(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// Draws a variable of this model anew.
    #[track_caller]
    pub(super) fn redraw(&self, variable: &Var, initial: Initial) -> Result<()> {
        let Some(seed) = self.seed else { return Ok(()) };
        let values = self.draw(variable.name(), variable.shape(), initial, seed)?;
        variable.set(&Tensor::from_slice(&values, variable.shape(), &self.device)?)
    }

    #[track_caller]
    fn variable(&self, name: &str, kind: VarKind, shape: Shape, initial: Initial) -> Result<Var> {
        let path = self.join(name);
        let Some(seed) = self.seed else {
            in_reach(&path, &shape)?;
            return Var::zeros(&path, kind, shape, DType::F32, &self.device);
        };
        let values = self.draw(&path, &shape, initial, seed)?;
        Var::new(&path, kind, &Tensor::from_slice(&values, shape, &self.device)?)
    }

    /// The first values of the variable at `path`.
    #[track_caller]
    fn draw(&self, path: &str, shape: &Shape, initial: Initial, seed: u64) -> Result<Vec<f32>> {
        let none = |NoRoom { bytes }| {
            self.device.out_of_host_memory(bytes, format!("first values of {path} {} {shape}", DType::F32))
        };
        let values = room(shape.numel()).map_err(none)?;
        // only now, as want of memory says more: what to do about it
        in_reach(path, shape)?;
        initial.draw(path, shape, values, &mut Generator::new(seed, path)).map_err(none)
    }
}

/// Sizes of a model may come from its user, such as from the size of pictures.
fn in_reach(path: &str, shape: &Shape) -> Result<()> {
    let elements = shape.numel();
    if elements > MAX_ELEMENTS {
        return Err(Error::TooManyElements { what: format!("{path} {shape}"), elements });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_is_an_error() {
        let device = Device::cpu();
        let zeros = Init::zeros(&device).at("fc").parameter("weight", [1 << 20, 1 << 12], Initial::Eye);
        let error = zeros.expect_err("more than indices reach");
        assert!(matches!(error, Error::TooManyElements { elements: 0x1_0000_0000, .. }), "{error}");
        assert!(error.to_string().starts_with("fc.weight [1048576, 4096] has 4294967296 elements"), "{error}");
        let init = Init::new(&device, 1);
        for initial in [Initial::Constant(1.0), Initial::kaiming_normal(9), Initial::Orthogonal { gain: 1.0 }] {
            let error = init.parameter("weight", [1 << 31, 1 << 31], initial).expect_err("more than any machine has");
            assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
            assert!(error.to_string().contains("first values of weight f32 [2147483648, 2147483648] needs"), "{error}");
        }
    }
}
