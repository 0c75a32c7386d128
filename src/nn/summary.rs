//! What a model consists of, layer by layer.

use std::collections::BTreeMap;
use std::fmt;

use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{Op, Program, ProgramNode, model};
use crate::runtime::{Forecast, VarKind, preview};
use crate::shape::Shape;
use crate::units::thousands;

use super::module::Scope;
use super::{Mode, Module, Variables};

/// A model's layers with their sizes; its `Display` is a table.
#[derive(Clone, PartialEq, Debug)]
pub struct Summary {
    /// The layers in the order in which the model uses them; those it does not use come last.
    pub layers: Vec<LayerSummary>,
    /// Shape of the input.
    pub input: Shape,
    /// Shape of the output.
    pub output: Shape,
    /// Elements of all parameters; those that are tied count once.
    pub parameters: usize,
    /// Elements of all buffers, such as running statistics.
    pub buffers: usize,
    /// Multiply-adds of all matrix products and convolutions of one pass; those with padding's zeros count. Two
    /// floating point operations each.
    pub multiply_adds: u64,
    /// What a pass takes of the device's memory, as it is planned.
    pub memory: Forecast,
}

/// One layer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LayerSummary {
    /// Its path, such as `layer1.0.conv1`; empty for the model's own variables.
    pub path: String,
    /// Its type, such as `Conv2d`; empty if the model does not use it, or for operations outside of its layers.
    pub kind: &'static str,
    /// Shape of its output; `None` if the model does not use it.
    pub output: Option<Shape>,
    /// Elements of its parameters.
    pub parameters: usize,
    /// Multiply-adds of its matrix products and convolutions.
    pub multiply_adds: u64,
}

impl LayerSummary {
    fn new(path: &str) -> Self {
        Self { path: path.to_owned(), kind: "", output: None, parameters: 0, multiply_adds: 0 }
    }
}

/// Elements of all parameters of `module`.
pub fn parameter_count<M: Variables + ?Sized>(module: &M) -> usize {
    module.parameters().iter().map(|parameter| parameter.shape().numel()).sum()
}

/// Traces `module` in evaluation mode for an input of this shape, and lists its layers. Nothing is computed.
///
/// ```
/// use brasa::nn::{Conv2d, Init, Sequential, summary};
/// use brasa::ops::conv::ConvOptions;
/// use brasa::{DType, Device, Tensor};
///
/// let init = Init::new(&Device::cpu(), 0);
/// let model = Sequential::new().push(Conv2d::new(3, 8, 3, ConvOptions::default(), &init.at(0))?).then(Tensor::relu);
/// let summary = summary(&model, [1, 3, 32, 32], DType::F32)?;
/// assert_eq!((summary.parameters, summary.output.dims()), (8 * 3 * 9 + 8, [1, 8, 30, 30].as_slice()));
/// println!("{summary}");
/// # Ok::<(), brasa::Error>(())
/// ```
///
/// # Errors
/// If the device fails.
///
/// # Panics
/// If the model does not take such an input.
#[track_caller]
pub fn summary<M: Module + ?Sized>(module: &M, input: impl Into<Shape>, dtype: DType) -> Result<Summary> {
    let (input, variables) = (input.into(), module.variables());
    let device = variables.first().map_or_else(Device::cpu, |variable| variable.device().clone());
    let mut output = Shape::from([]);
    let _model = model();
    let (traced, kinds) = Scope::kinds(|| {
        preview(&device, &[(input.clone(), dtype)], |inputs| {
            let value = Mode::Evaluate.scope(|| module.forward(&inputs[0]));
            output = value.shape().clone();
            vec![value]
        })
    });
    let (info, memory) = traced?;
    let mut layers = layers(&info.program);
    for parameter in variables.iter().filter(|variable| variable.kind() == VarKind::Parameter) {
        let path = parameter.name().rsplit_once('.').map_or("", |(path, _)| path);
        let known = layers.iter().position(|layer| layer.path == path);
        let place = known.unwrap_or_else(|| {
            layers.push(LayerSummary::new(path));
            layers.len() - 1
        });
        layers[place].parameters += parameter.shape().numel();
    }
    for layer in &mut layers {
        layer.kind = kinds.get(&layer.path).copied().unwrap_or_default();
    }
    let buffers = variables.iter().filter(|variable| variable.kind() == VarKind::Buffer);
    Ok(Summary {
        parameters: parameter_count(module),
        buffers: buffers.map(|buffer| buffer.shape().numel()).sum(),
        multiply_adds: info.program.nodes.iter().map(|node| multiply_adds(node, &info.program)).sum(),
        layers,
        input,
        output,
        memory,
    })
}

/// The layers that nodes were traced in, in the order of their first node.
fn layers(program: &Program) -> Vec<LayerSummary> {
    let mut places = BTreeMap::new();
    let mut layers: Vec<LayerSummary> = Vec::new();
    for node in &program.nodes {
        let (Some(path), false) = (&node.module, node.inputs.is_empty()) else { continue };
        let place = *places.entry(path.clone()).or_insert_with(|| {
            layers.push(LayerSummary::new(path));
            layers.len() - 1
        });
        // the last one stays: nodes are in topological order
        layers[place].output = Some(node.shape.clone());
        layers[place].multiply_adds += multiply_adds(node, program);
    }
    layers
}

/// One for each element of the output and each summed one, if `node` is a product or convolution.
fn multiply_adds(node: &ProgramNode, program: &Program) -> u64 {
    let Op::Contract(contract) = &node.op else { return 0 };
    let mut sizes = BTreeMap::new();
    for (labels, &input) in [&contract.lhs, &contract.rhs].into_iter().zip(&node.inputs) {
        sizes.extend(labels.iter().copied().zip(program.nodes[input].shape.iter().map(|&size| size as u64)));
    }
    sizes.values().product()
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows = vec![["layer", "type", "output", "parameters", "multiply-adds"].map(str::to_owned)];
        for layer in &self.layers {
            rows.push([
                if layer.path.is_empty() { "(model)".to_owned() } else { layer.path.clone() },
                if layer.kind.is_empty() { "-".to_owned() } else { layer.kind.to_owned() },
                layer.output.as_ref().map_or_else(|| "-".to_owned(), Shape::to_string),
                thousands(layer.parameters),
                thousands(layer.multiply_adds),
            ]);
        }
        let output = self.output.to_string();
        rows.push([
            "total".to_owned(),
            String::new(),
            output,
            thousands(self.parameters),
            thousands(self.multiply_adds),
        ]);
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths = [0, 1, 2, 3, 4].map(width);
        let rule = "-".repeat(widths.iter().sum::<usize>() + 8);
        for (number, [path, kind, output, parameters, operations]) in rows.iter().enumerate() {
            if number == 1 || number == rows.len() - 1 {
                writeln!(f, "{rule}")?;
            }
            let [first, second, third, fourth, fifth] = widths;
            let name = format!("{path:first$}  {kind:second$}");
            writeln!(f, "{name}  {output:third$}  {parameters:>fourth$}  {operations:>fifth$}")?;
        }
        writeln!(f, "{rule}")?;
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        writeln!(f, "input {}, {} values in buffers", self.input, thousands(self.buffers))?;
        write!(
            f,
            "memory: model {:.2} MB, activations {:.2} MB, input and output {:.2} MB",
            megabytes(self.memory.model_bytes),
            megabytes(self.memory.activation_bytes),
            megabytes(self.memory.input_output_bytes)
        )
    }
}
