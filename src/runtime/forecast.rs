//! How much memory a step takes, told before it is there.

use std::ops::Add;

use serde::Serialize;

/// Bytes that a captured step takes on its device, by purpose. What kernels use within themselves, and what the driver needs
/// besides, is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Forecast {
    /// Parameters and other variables of a model.
    pub model_bytes: u64,
    /// Variables of other kinds: the optimizer's moments, metrics, counters.
    pub state_bytes: u64,
    /// Tensors from outside that the step reads: constants computed before.
    pub constant_bytes: u64,
    /// Values that live within a run: activations, gradients.
    pub activation_bytes: u64,
    /// Inputs and outputs.
    pub input_output_bytes: u64,
}

impl Forecast {
    /// All together.
    pub const fn total_bytes(&self) -> u64 {
        self.model_bytes + self.state_bytes + self.constant_bytes + self.new_bytes()
    }

    /// What is made when the step is captured. The rest is there already, and may be shared with other steps.
    pub const fn new_bytes(&self) -> u64 {
        self.activation_bytes + self.input_output_bytes
    }
}

impl Add for Forecast {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            model_bytes: self.model_bytes + other.model_bytes,
            state_bytes: self.state_bytes + other.state_bytes,
            constant_bytes: self.constant_bytes + other.constant_bytes,
            activation_bytes: self.activation_bytes + other.activation_bytes,
            input_output_bytes: self.input_output_bytes + other.input_output_bytes,
        }
    }
}
