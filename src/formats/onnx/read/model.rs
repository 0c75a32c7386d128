//! The model: loaded once, traced as often as one likes, or captured and replayed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use prost::Message as _;

use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::files::stand_in;
use crate::graph::{at_callers_line, in_module};
use crate::nn::Module;
use crate::ops::ok;
use crate::runtime::{Signature, Step, Var, realize};
use crate::shape::MAX_ELEMENTS;
use crate::tensor::{Tensor, no_grad};
use crate::units::some;
use crate::variables;

use super::super::proto::{GraphProto, ModelProto};
use super::call::{Call, Later, Pass, fail};
use super::graph::{Attribute, Builder, Constant, Graph, Node, about, domain};
use super::info::TensorInfo;
use super::order::unsupported;
use super::prepared::prepare;
use super::table::Function;
use super::value::{ELEMENTS, HostData, Value};

/// Beside [`ELEMENTS`], a value may have this many for each element of the model and its inputs.
const GROWTH: usize = 1024;
/// The name of a model that came without a file, in messages.
const NAMELESS: &str = "ONNX model";

/// An ONNX model on a device.
///
/// Its floating initializers are variables under their names in the file, but for single numbers, what decides on
/// shapes, masks of infinities and initial states; the running statistics of batch norms are buffers, all others
/// parameters. The model is thereby a [`Module`] (of one input and one output) that may be trained further. Batch norms
/// use their running statistics and dropout does nothing, whatever the [`Mode`](crate::nn::Mode), as the file says what
/// is computed.
///
/// Integers of 64 bits are i32 here, f64 and bf16 are f32. What does not fit is an error where it comes from the file,
/// but what is computed on the device wraps in silence. Shapes are computed on the host, in 64 bits. A model is a file
/// of somebody else's: nothing in it makes this panic, and no value in it may have more than 16 million elements or
/// 1024 times as many as the model and its inputs have, whichever is more; recurrent layers take 16384 steps at most, and
/// 2^29 pairs of boxes are compared.
pub struct Model {
    core: Arc<Core>,
    replay: Mutex<Replay>,
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Core { inputs, outputs, variables, .. } = &*self.core;
        f.debug_struct("Model")
            .field("inputs", inputs)
            .field("outputs", outputs)
            .field("variables", &variables.len())
            .finish_non_exhaustive()
    }
}

/// What is computed, without the memory for it.
struct Core {
    graph: Graph,
    places: usize,
    inputs: Vec<TensorInfo>,
    outputs: Vec<TensorInfo>,
    metadata: BTreeMap<String, String>,
    variables: Vec<Var>,
    /// Elements that the file holds.
    elements: usize,
    device: Device,
    /// The file, for messages.
    path: PathBuf,
    by_pytorch: bool,
}

/// The captured model.
#[derive(Default)]
struct Replay {
    step: Option<Step>,
    /// Signatures of inputs that it was traced for without an error, and whether it can be captured for them.
    known: HashMap<Signature, bool>,
    /// Why tracing failed.
    error: Arc<Mutex<Option<Error>>>,
}

impl Model {
    /// The model in a file, whose weights may lie in others beside it.
    ///
    /// # Errors
    /// If a file cannot be read or is malformed, operators are not supported, or the device has no memory.
    pub fn load(path: impl AsRef<Path>, device: &Device) -> Result<Self> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|error| Error::io(path, error))?;
        Self::new(&bytes, path, Some(path.parent().unwrap_or(Path::new(""))), device)
    }

    /// The model in the contents of a file. Weights in other files are looked for in `folder`; without one they are an
    /// error.
    ///
    /// # Errors
    /// As [`Model::load`].
    pub fn from_bytes(bytes: &[u8], folder: Option<&Path>, device: &Device) -> Result<Self> {
        Self::new(bytes, Path::new(NAMELESS), folder, device)
    }

    fn new(bytes: &[u8], path: &Path, folder: Option<&Path>, device: &Device) -> Result<Self> {
        if let Some(what) = stand_in(bytes) {
            return Err(Error::format(path, what));
        }
        let proto = ModelProto::decode(bytes)
            .map_err(|error| Error::format(path, format!("{error}: it is damaged, or no ONNX model")))?;
        let core = Core::new(proto, path, folder, device).map_err(|error| at(path, error))?;
        Ok(Self { core: Arc::new(core), replay: Mutex::default() })
    }

    /// The operator that computes the first output, but for what only moves it or changes its type.
    pub(crate) fn last_operator(&self) -> Option<&'static str> {
        let graph = &self.core.graph;
        let mut place = *graph.outputs.first()?;
        for node in graph.nodes.iter().rev() {
            if !node.outputs.contains(&Some(place)) {
                continue;
            }
            match node.operator.name {
                "Cast" | "Flatten" | "Identity" | "Reshape" | "Squeeze" | "Unsqueeze" => {
                    place = (*node.inputs.first()?)?;
                }
                name => return Some(name),
            }
        }
        None
    }

    /// The inputs that it takes, in order.
    pub fn inputs(&self) -> &[TensorInfo] {
        &self.core.inputs
    }

    /// The outputs that it gives, in order.
    pub fn outputs(&self) -> &[TensorInfo] {
        &self.core.outputs
    }

    /// What else the file says of the model, by key.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.core.metadata
    }

    /// Where it lives.
    pub fn device(&self) -> &Device {
        &self.core.device
    }

    /// The outputs for these inputs, traced: nothing is computed before a value is read, and gradients reach the inputs
    /// and the parameters. If shapes in the model depend on values of the inputs, these are read, which is an error in
    /// a captured step.
    ///
    /// # Errors
    /// [`Error::Shape`] if inputs are not what the file says; [`Error::Format`] if the shapes of a node do not fit.
    #[track_caller]
    pub fn forward(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        at_callers_line(|| self.core.forward(inputs)).map(|(outputs, _)| outputs)
    }

    /// The outputs for these inputs, computed without gradients. Shapes that were seen before are not traced again,
    /// unless shapes in the model depend on values.
    ///
    /// # Errors
    /// As [`Model::forward`], or if the device fails; within a captured step, where [`Model::forward`] is traced.
    #[track_caller]
    pub fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        at_callers_line(|| no_grad(|| self.replayed(inputs)))
    }

    fn replayed(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let replay = &mut *self.replay.lock().unwrap_or_else(PoisonError::into_inner);
        let signature: Signature = inputs.iter().map(|input| (input.shape().clone(), input.dtype())).collect();
        match replay.known.get(&signature) {
            Some(true) => self.core.check(inputs)?,
            // once without a step, so that what is wrong is known before it is captured
            seen => {
                let seen = seen.is_some();
                let (outputs, has_read) = self.core.forward(inputs)?;
                if !seen {
                    // a hostile caller is no concern, but memory is
                    if replay.known.len() >= 1024 {
                        replay.known.clear();
                    }
                    replay.known.insert(signature, !has_read);
                }
                if has_read {
                    realize(&outputs.iter().map(|output| output.node().clone()).collect::<Vec<_>>())?;
                    return Ok(outputs);
                }
            }
        }
        let step = match &mut replay.step {
            Some(step) => step,
            none => {
                let (core, error) = (Arc::clone(&self.core), Arc::clone(&replay.error));
                let traced = move |inputs: &[Tensor]| match no_grad(|| core.forward(inputs)) {
                    Ok((outputs, _)) => outputs,
                    Err(reason) => {
                        *error.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
                        Vec::new()
                    }
                };
                none.insert(Step::new(&self.core.device, traced)?)
            }
        };
        let outputs = step.run(inputs)?;
        match replay.error.lock().unwrap_or_else(PoisonError::into_inner).take() {
            None => Ok(outputs),
            Some(error) => {
                replay.step = None;
                Err(error)
            }
        }
    }
}

/// What is wrong with a file, with the file.
fn at(path: &Path, error: Error) -> Error {
    match error {
        Error::Shape(reason) => Error::format(path, reason),
        other => other,
    }
}

impl Core {
    fn new(proto: ModelProto, path: &Path, folder: Option<&Path>, device: &Device) -> Result<Self> {
        let Some(graph) = proto.graph else {
            return fail("it holds no graph: it is damaged, or no ONNX model");
        };
        let opsets: HashMap<String, i64> =
            proto.opset_import.iter().map(|opset| (domain(&opset.domain).to_owned(), opset.version)).collect();
        check_operators(&graph)?;
        let by_pytorch = proto.producer_name == "pytorch";
        let inputs = of_inputs(&graph)?;
        let outputs = graph.output.iter().map(TensorInfo::of).collect::<Result<_>>()?;
        let mut builder = Builder::new(device, folder, opsets);
        let mut graph = builder.graph(graph)?;
        let metadata = proto.metadata_props.into_iter().map(|entry| (entry.key, entry.value)).collect();
        let elements = builder.elements;
        let places = prepare(&mut graph, builder.places(), &Pass::new(device, limit(elements), by_pytorch))?;
        let (device, path) = (device.clone(), path.to_owned());
        Ok(Self {
            graph,
            places,
            inputs,
            outputs,
            metadata,
            variables: builder.variables,
            elements,
            device,
            path,
            by_pytorch,
        })
    }

    /// Refuses inputs that are not what the file says: an error of whoever gives them, not of the file.
    fn check(&self, inputs: &[Tensor]) -> Result<()> {
        self.check_each(inputs).map_err(about(|| self.path.display().to_string()))
    }

    fn check_each(&self, inputs: &[Tensor]) -> Result<()> {
        if inputs.len() != self.inputs.len() {
            let names: Vec<&str> = self.inputs.iter().map(|input| input.name.as_str()).collect();
            return fail(format!("{} inputs are given, and it takes {}: {}", inputs.len(), names.len(), some(&names)));
        }
        let pass = self.pass(inputs);
        for (input, info) in inputs.iter().zip(&self.inputs) {
            info.check(input)?;
            // one without elements may have any other sizes
            pass.shape(input.shape()).map_err(about(|| format!("input `{}`", info.name)))?;
            if *input.device() != self.device {
                let (given, own) = (input.device().name(), self.device.name());
                return fail(format!("input `{}` is on {given}, and the model on {own}: use to_device", info.name));
            }
        }
        Ok(())
    }

    /// The outputs, and whether values were read that depend on data.
    fn forward(&self, inputs: &[Tensor]) -> Result<(Vec<Tensor>, bool)> {
        self.check(inputs)?;
        self.traced(inputs).map_err(|error| at(&self.path, error))
    }

    fn pass(&self, inputs: &[Tensor]) -> Pass<'_> {
        let elements = inputs.iter().fold(self.elements, |sum, input| sum.saturating_add(input.numel()));
        Pass::new(&self.device, limit(elements), self.by_pytorch)
    }

    fn traced(&self, inputs: &[Tensor]) -> Result<(Vec<Tensor>, bool)> {
        let pass = self.pass(inputs);
        let mut values = vec![None; self.places];
        for (&place, input) in self.graph.inputs.iter().zip(inputs) {
            values[place] = Some(Value::Tensor(input.clone()));
        }
        run(&self.graph, &mut values, &pass)?;
        let output = |(&place, info): (&usize, &TensorInfo)| match &values[place] {
            // bytes are computed as i32
            Some(Value::Tensor(tensor)) if info.dtype == Some(DType::U8) && tensor.dtype() == DType::I32 => {
                Ok(tensor.to_dtype(DType::U8))
            }
            Some(Value::Tensor(tensor)) => Ok(tensor.clone()),
            Some(Value::Host(host)) => {
                host.to_tensor(&self.device).map_err(about(|| format!("output `{}`", info.name)))
            }
            None => fail(format!("output `{}` was not computed", info.name)),
        };
        let outputs = self.graph.outputs.iter().zip(&self.outputs).map(output).collect::<Result<_>>()?;
        Ok((outputs, pass.has_read.get()))
    }
}

/// The most elements of a value, where so many are given.
fn limit(elements: usize) -> usize {
    elements.saturating_mul(GROWTH).clamp(ELEMENTS, MAX_ELEMENTS)
}

/// The inputs that are no initializers.
fn of_inputs(graph: &GraphProto) -> Result<Vec<TensorInfo>> {
    let known: BTreeSet<&str> = graph.initializer.iter().map(|tensor| tensor.name.as_str()).collect();
    graph.input.iter().filter(|input| !known.contains(input.name.as_str())).map(TensorInfo::of_input).collect()
}

/// An error that names all operators that are not supported.
fn check_operators(graph: &GraphProto) -> Result<()> {
    let mut names = BTreeSet::new();
    unsupported(graph, &mut names);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    if names.is_empty() {
        Ok(())
    } else {
        fail(format!("it has operators that are not supported: {}", names.join(", ")))
    }
}

/// Computes a graph's nodes.
fn run(graph: &Graph, values: &mut [Option<Value>], pass: &Pass<'_>) -> Result<()> {
    for (place, constant) in &graph.constants {
        values[*place] = Some(match constant {
            Constant::Value(value) => value.clone(),
            Constant::Var(var) => Value::Tensor(var.tensor()),
        });
    }
    for (number, node) in graph.nodes.iter().enumerate() {
        let title = || format!("{} \"{}\"", node.operator.name, node.name);
        in_module(&node.name, || evaluate(graph, number, values, pass)).map_err(about(title))?;
    }
    Ok(())
}

fn evaluate(graph: &Graph, number: usize, values: &mut [Option<Value>], pass: &Pass<'_>) -> Result<()> {
    let node = &graph.nodes[number];
    let mut inputs = Vec::with_capacity(node.inputs.len());
    for (number, place) in node.inputs.iter().enumerate() {
        inputs.push(match place {
            None => None,
            Some(place) if values[*place].is_some() => values[*place].clone(),
            Some(_) => return fail(format!("input {number} was not computed: it is an output that is left out here")),
        });
    }
    let later = |values| Later { nodes: &graph.nodes[number + 1..], outputs: &graph.outputs, values };
    let outputs = match node.operator.function {
        Function::Of(function) => function(&Call { node, inputs: &inputs, pass, later: later(&*values) })?,
        Function::If => {
            let condition = condition(&Call { node, inputs: &inputs, pass, later: later(&*values) })?;
            branch(node, condition, values, pass)?
        }
    };
    for (number, place) in node.outputs.iter().enumerate() {
        let Some(place) = place else { continue };
        let Some(value) = outputs.get(number) else {
            return fail(format!("its output {number} is not known here"));
        };
        pass.shape(value.shape())?;
        values[*place] = Some(value.clone());
    }
    Ok(())
}

/// Input 0, a single truth value.
fn condition(call: &Call<'_>) -> Result<bool> {
    match call.host(0)?.data {
        HostData::Bools(of) if of.len() == 1 => Ok(of[0]),
        _ => fail(format!("its condition is {}{}, not one bool", call.value(0)?.dtype(), call.value(0)?.shape())),
    }
}

/// The outputs of the graph that the condition chooses.
fn branch(node: &Node, condition: bool, values: &mut [Option<Value>], pass: &Pass<'_>) -> Result<Vec<Value>> {
    let name = if condition { "then_branch" } else { "else_branch" };
    let Some(Attribute::Graph(graph)) = node.attributes.get(name) else {
        return fail(format!("has no {name}"));
    };
    if !graph.inputs.is_empty() {
        return fail(format!("{name} has inputs"));
    }
    run(graph, values, pass)?;
    let output = |&place: &usize| match &values[place] {
        Some(value) => Ok(value.clone()),
        None => fail(format!("an output of {name} was not computed")),
    };
    graph.outputs.iter().map(output).collect()
}

variables!(Model: core.variables);

/// Of a model with one input and one output.
impl Module for Model {
    /// The output for `input`.
    ///
    /// # Panics
    /// If the model has several inputs or outputs, or [`Model::forward`] would return an error.
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        assert!(
            self.inputs().len() == 1 && self.outputs().len() == 1,
            "{}: {} inputs and {} outputs; a module has one of each",
            self.core.path.display(),
            self.inputs().len(),
            self.outputs().len()
        );
        ok(Self::forward(self, std::slice::from_ref(input))).remove(0)
    }
}
