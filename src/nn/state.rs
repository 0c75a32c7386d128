//! A model's variables as named tensors: the form in which files keep them.

use std::collections::BTreeMap;
use std::fmt;

use crate::error::{Error, Result};
use crate::runtime::VarKind;
use crate::tensor::Tensor;

use super::Module;

/// Names in PyTorch's `state_dict` that no variable here stands for: batch norm's count of batches matters only for a
/// cumulative average, which `BatchNorm2d` does not offer.
const IGNORED_SUFFIX: &str = "num_batches_tracked";

/// Current values of all variables of `module`, by path.
pub fn state<M: Module + ?Sized>(module: &M) -> BTreeMap<String, Tensor> {
    module.variables().iter().map(|variable| (variable.name().to_owned(), variable.tensor())).collect()
}

/// Sets every variable of `module` to the tensor of its name; nothing changes unless names and shapes all fit.
pub fn load_state<M: Module + ?Sized>(module: &M, state: &BTreeMap<String, Tensor>) -> Result<()> {
    let variables = module.variables();
    let mut problems = Vec::new();
    for variable in &variables {
        match state.get(variable.name()) {
            None => problems.push(format!("{} is missing", variable.name())),
            Some(tensor) if tensor.dtype() != variable.dtype() => {
                problems.push(format!("{} is {} instead of {}", variable.name(), tensor.dtype(), variable.dtype()));
            }
            Some(tensor) if tensor.shape() != variable.shape() => {
                problems.push(format!("{} is {} instead of {}", variable.name(), tensor.shape(), variable.shape()));
            }
            Some(_) => {}
        }
    }
    for name in state.keys().filter(|name| !name.ends_with(IGNORED_SUFFIX)) {
        if !variables.iter().any(|variable| variable.name() == name) {
            problems.push(format!("{name} is unknown"));
        }
    }
    if !problems.is_empty() {
        return Err(Error::Shape(mismatch(&problems)));
    }
    for variable in &variables {
        variable.set(&state[variable.name()])?;
    }
    Ok(())
}

/// The first few problems; a wholly different model would list hundreds.
fn mismatch(problems: &[String]) -> String {
    const SHOWN: usize = 5;
    let mut message = format!("the weights are of another model: {}", problems[..problems.len().min(SHOWN)].join(", "));
    if problems.len() > SHOWN {
        message += &format!(" and {} more", problems.len() - SHOWN);
    }
    message
}

/// Parameter counts of a model; its `Display` is a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// (path, shape as text, elements) of each parameter, in order.
    pub parameters: Vec<(String, String, usize)>,
    /// Elements of all parameters.
    pub parameter_count: usize,
    /// Elements of all buffers.
    pub buffer_count: usize,
}

/// Counts what `module` holds.
pub fn summary<M: Module + ?Sized>(module: &M) -> Summary {
    let (parameters, buffers): (Vec<_>, Vec<_>) =
        module.variables().into_iter().partition(|variable| variable.kind() == VarKind::Parameter);
    let parameters: Vec<_> = parameters
        .iter()
        .map(|variable| (variable.name().to_owned(), variable.shape().to_string(), variable.shape().numel()))
        .collect();
    Summary {
        parameter_count: parameters.iter().map(|(_, _, count)| count).sum(),
        buffer_count: buffers.iter().map(|variable| variable.shape().numel()).sum(),
        parameters,
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.parameters.iter().map(|(path, ..)| path.len()).max().unwrap_or(0);
        for (path, shape, count) in &self.parameters {
            writeln!(f, "{path:width$}  {shape:18} {count:>10}")?;
        }
        write!(f, "{} parameters, {} other values", self.parameter_count, self.buffer_count)
    }
}
