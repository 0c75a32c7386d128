//! How much memory a step takes, told before it is there.

use std::ops::Add;

use serde::{Deserialize, Serialize};

use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::tensor::Tensor;

use super::capture::Planned;
use super::eval::options_for;
use super::step::StepInfo;
use super::var::{Var, VarKind};

/// Bytes that a captured step takes on its device, by purpose. What kernels use within themselves, and what the driver
/// needs besides, is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
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

/// Traces and plans `function` as a step for inputs of these shapes and types would be, and tells what it would take.
/// Nothing runs, and nothing is allocated.
///
/// # Errors
/// If the device fails.
pub fn preview(
    device: &Device,
    inputs: &[(crate::Shape, DType)],
    mut function: impl FnMut(&[Tensor]) -> Vec<Tensor>,
) -> Result<(StepInfo, Forecast)> {
    let halted = Var::zeros("halted", VarKind::State, [].into(), DType::U32, device)?;
    let planned = Planned::new(device, &mut function, &inputs.to_vec(), &halted, &options_for(device))?;
    let forecast = planned.forecast(&mut Vec::new());
    Ok((StepInfo { plan: planned.plan, program: planned.traced.program, because: None }, forecast))
}
