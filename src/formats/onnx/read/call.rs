//! What the functions of operators get: a node, its inputs and attributes, all checked where they are asked for.

use std::cell::Cell;
use std::collections::BTreeSet;

use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::runtime::realize;
use crate::shape::{MAX_ELEMENTS, Shape};
use crate::tensor::Tensor;

use super::super::proto::ElementType;
use super::checks::{self, float};
use super::graph::{Attribute, Node, Place};
use super::value::{HOST_ELEMENTS, HostTensor, MAX_RANK, Value};

/// The outputs of a node, in order; those behind the last one that is asked for may be missing.
pub(super) type Outputs = Result<Vec<Value>>;

/// What is wrong with a node; the node's name comes before it.
pub(super) fn fail<T>(reason: impl Into<String>) -> Result<T> {
    Err(Error::Shape(reason.into()))
}

/// The only output.
pub(super) fn one(value: impl Into<Value>) -> Outputs {
    Ok(vec![value.into()])
}

/// What holds for a whole pass through a model.
pub(super) struct Pass<'a> {
    pub(super) device: &'a Device,
    /// The most elements of a value.
    pub(super) limit: usize,
    /// Whether PyTorch wrote the file.
    pub(super) by_pytorch: bool,
    /// Whether a value that depends on data was read to go on: then the pass cannot be replayed.
    pub(super) has_read: Cell<bool>,
    /// Steps of recurrent layers so far.
    steps: Cell<usize>,
    /// Pairs of boxes that were compared so far.
    comparisons: Cell<usize>,
}

/// The most steps of a pass: each is a dozen nodes of the graph, or two.
pub(super) const MAX_STEPS: usize = 1 << 14;

/// The most pairs of boxes that a pass compares, which takes some seconds: a detector of 25,000 boxes in 80 classes
/// that keeps 100 of each compares less than half of them.
pub(super) const MAX_COMPARISONS: usize = 1 << 29;

impl<'a> Pass<'a> {
    pub(super) fn new(device: &'a Device, limit: usize, by_pytorch: bool) -> Self {
        let (steps, comparisons) = (Cell::new(0), Cell::new(0));
        Self { device, limit, by_pytorch, has_read: Cell::new(false), steps, comparisons }
    }
}

impl Pass<'_> {
    /// Counts pairs of boxes that are compared.
    pub(super) fn take_comparisons(&self, count: usize) -> Result<()> {
        let all = self.comparisons.get().saturating_add(count);
        if all > MAX_COMPARISONS {
            return fail(format!(
                "more than {MAX_COMPARISONS} pairs of boxes would be compared in one pass: give fewer boxes or samples, a \
                 higher score_threshold, or a smaller max_output_boxes_per_class"
            ));
        }
        self.comparisons.set(all);
        Ok(())
    }

    /// Counts steps of a recurrent layer; returns how many there were before.
    pub(super) fn take_steps(&self, count: usize) -> Result<usize> {
        let before = self.steps.get();
        let all = before.saturating_add(count);
        if all > MAX_STEPS {
            return fail(format!(
                "the recurrent layers so far take {all} steps, more than {MAX_STEPS} in one pass: cut the sequence \
                 into shorter ones, and pass the state of each on to the next"
            ));
        }
        self.steps.set(all);
        Ok(before)
    }

    /// A shape of sizes that a file asks for, if it is not far larger than what the model was given.
    pub(super) fn shape(&self, sizes: &[usize]) -> Result<Shape> {
        let shape = Shape::from(sizes);
        if shape.rank() > MAX_RANK {
            return fail(format!("a shape of {} axes, more than {MAX_RANK}", shape.rank()));
        }
        if checks::span(sizes) > self.limit {
            return fail(format!(
                "a value of shape {shape} is refused: it has more than {} elements, {}",
                self.limit,
                if self.limit < MAX_ELEMENTS {
                    "far more than the model and its inputs"
                } else {
                    "more than indices of 32 bits reach"
                }
            ));
        }
        Ok(shape)
    }
}

/// What comes after a node.
pub(super) struct Later<'a> {
    pub(super) nodes: &'a [Node],
    pub(super) outputs: &'a [Place],
    /// What there is so far.
    pub(super) values: &'a [Option<Value>],
}

impl Later<'_> {
    /// The tensors that will be used.
    fn tensors(&self) -> Vec<Tensor> {
        let mut wanted: BTreeSet<Place> = self.outputs.iter().copied().collect();
        wanted_by(self.nodes, &mut wanted);
        let tensor = |place: Place| match self.values.get(place)?.as_ref()? {
            Value::Tensor(tensor) => Some(tensor.clone()),
            Value::Host(_) => None,
        };
        wanted.into_iter().filter_map(tensor).collect()
    }
}

/// Adds the places that nodes, and the graphs in them, read.
pub(super) fn wanted_by(nodes: &[Node], wanted: &mut BTreeSet<Place>) {
    for node in nodes {
        wanted.extend(node.inputs.iter().flatten());
        for attribute in node.attributes.values() {
            if let Attribute::Graph(graph) = attribute {
                wanted.extend(&graph.outputs);
                wanted_by(&graph.nodes, wanted);
            }
        }
    }
}

/// One evaluation of a node.
pub(super) struct Call<'a> {
    pub(super) node: &'a Node,
    pub(super) inputs: &'a [Option<Value>],
    pub(super) pass: &'a Pass<'a>,
    pub(super) later: Later<'a>,
}

impl Call<'_> {
    /// Version of the operators of the node's domain.
    pub(super) fn opset(&self) -> i64 {
        self.node.opset
    }

    pub(super) fn device(&self) -> &Device {
        self.pass.device
    }

    pub(super) fn shape(&self, sizes: &[usize]) -> Result<Shape> {
        self.pass.shape(sizes)
    }

    /// Input number `number`, if it is there.
    pub(super) fn given(&self, number: usize) -> Option<&Value> {
        self.inputs.get(number)?.as_ref()
    }

    pub(super) fn value(&self, number: usize) -> Result<&Value> {
        match self.given(number) {
            Some(value) => Ok(value),
            None => fail(format!("has no input {number}")),
        }
    }

    /// All inputs, which must be there.
    pub(super) fn values(&self) -> Result<Vec<&Value>> {
        if self.inputs.is_empty() {
            return fail("has no inputs");
        }
        (0..self.inputs.len()).map(|number| self.value(number)).collect()
    }

    /// All inputs, if each is there and on the host.
    pub(super) fn hosts(&self) -> Option<Vec<&HostTensor>> {
        let host = |value: &'_ Option<Value>| matches!(value, Some(Value::Host(_)));
        if !self.inputs.iter().all(host) {
            return None;
        }
        let inner = self.inputs.iter().filter_map(|value| match value {
            Some(Value::Host(host)) => Some(host),
            _ => None,
        });
        Some(inner.collect())
    }

    /// The value as a tensor.
    pub(super) fn on_device(&self, value: &Value) -> Result<Tensor> {
        match value {
            Value::Tensor(tensor) => Ok(tensor.clone()),
            Value::Host(host) => host.to_tensor(self.device()),
        }
    }

    pub(super) fn tensor(&self, number: usize) -> Result<Tensor> {
        self.on_device(self.value(number)?)
    }

    pub(super) fn optional_tensor(&self, number: usize) -> Result<Option<Tensor>> {
        self.given(number).map(|value| self.on_device(value)).transpose()
    }

    /// A tensor of f32 or f16.
    pub(super) fn float(&self, number: usize) -> Result<Tensor> {
        float(self.tensor(number)?)
    }

    pub(super) fn optional_float(&self, number: usize) -> Result<Option<Tensor>> {
        self.optional_tensor(number)?.map(float).transpose()
    }

    /// A tensor that can be computed with: u8 becomes i32.
    pub(super) fn number(&self, number: usize) -> Result<Tensor> {
        checks::as_number(self.tensor(number)?)
    }

    /// A tensor of truth values.
    pub(super) fn bool(&self, number: usize) -> Result<Tensor> {
        let tensor = self.tensor(number)?;
        match tensor.dtype() {
            DType::Bool => Ok(tensor),
            other => fail(format!("input {number} is {other}{}, not bool", tensor.shape())),
        }
    }

    /// A tensor of integers, as i32.
    pub(super) fn index(&self, number: usize) -> Result<Tensor> {
        let tensor = self.tensor(number)?;
        match tensor.dtype() {
            DType::I32 => Ok(tensor),
            DType::U8 | DType::U32 => Ok(tensor.to_dtype(DType::I32)),
            other => fail(format!("input {number} is {other}{}, not integers", tensor.shape())),
        }
    }

    /// The elements of an input on the host. One that is computed on the device is read, which is an error in a
    /// captured step.
    pub(super) fn host(&self, number: usize) -> Result<HostTensor> {
        match self.value(number)? {
            Value::Tensor(tensor) if tensor.numel() > HOST_ELEMENTS => fail(format!(
                "input {number} is {}{}, more than the {HOST_ELEMENTS} elements that decide on shapes",
                tensor.dtype(),
                tensor.shape()
            )),
            _ => self.read(number),
        }
    }

    /// The same however many elements there are: for operators that work on the host.
    pub(super) fn read(&self, number: usize) -> Result<HostTensor> {
        match self.value(number)? {
            Value::Host(host) => Ok(host.clone()),
            Value::Tensor(tensor) => self.read_tensor(tensor),
        }
    }

    /// The elements of a value on the way to an output. What will be used later is computed with it, and kept: else what
    /// both come from would be computed again after each reading.
    pub(super) fn read_tensor(&self, tensor: &Tensor) -> Result<HostTensor> {
        self.pass.has_read.set(true);
        if tensor.node().value().is_none() {
            let mut nodes = vec![tensor.node().clone()];
            nodes.extend(self.later.tensors().iter().map(|tensor| tensor.node().clone()));
            realize(&nodes)?;
        }
        HostTensor::read(tensor)
    }

    /// The integers of an input, whatever its shape.
    pub(super) fn ints(&self, number: usize) -> Result<Vec<i64>> {
        let host = self.host(number)?;
        match host.to_i64() {
            Some(values) => Ok(values),
            None => fail(format!("input {number} is {}{}, not integers", host.dtype, host.shape)),
        }
    }

    pub(super) fn optional_ints(&self, number: usize) -> Result<Option<Vec<i64>>> {
        self.given(number).map(|_| self.ints(number)).transpose()
    }

    /// The only number of an input.
    pub(super) fn scalar(&self, number: usize) -> Result<f64> {
        let host = self.host(number)?;
        match host.to_f64()[..] {
            [value] => Ok(value),
            _ => fail(format!("input {number} is {}{}, not one number", host.dtype, host.shape)),
        }
    }

    pub(super) fn scalar_int(&self, number: usize) -> Result<i64> {
        match self.ints(number)?[..] {
            [value] => Ok(value),
            _ => fail(format!("input {number} is of shape {}, not one number", self.value(number)?.shape())),
        }
    }

    /// Whether output `number` is asked for.
    pub(super) fn wants(&self, number: usize) -> bool {
        self.node.outputs.get(number).is_some_and(Option::is_some)
    }

    /// The type in the file of input 0 and of what arithmetic makes of it, if it is known. Bytes are bytes here, too.
    pub(super) fn element(&self) -> Option<ElementType> {
        let is_byte = self.given(0).is_some_and(|value| value.dtype() == DType::U8);
        let of_bytes = is_byte.then_some(ElementType::Uint8);
        self.input_type(0).or(self.output_type(0)).or(of_bytes)
    }

    /// The type in the file of an input, if it is known.
    pub(super) fn input_type(&self, number: usize) -> Option<ElementType> {
        self.node.input_types.get(number).copied().flatten()
    }

    pub(super) fn output_type(&self, number: usize) -> Option<ElementType> {
        self.node.output_types.get(number).copied().flatten()
    }

    fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.node.attributes.get(name)
    }

    pub(super) fn attribute_or_none<T>(
        &self,
        name: &str,
        kind: &str,
        of: impl Fn(&Attribute) -> Option<T>,
    ) -> Result<Option<T>> {
        match self.attribute(name) {
            None => Ok(None),
            Some(attribute) => match of(attribute) {
                Some(value) => Ok(Some(value)),
                None => fail(format!("attribute `{name}` is not {kind}")),
            },
        }
    }

    pub(super) fn int_or_none(&self, name: &str) -> Result<Option<i64>> {
        self.attribute_or_none(name, "an integer", |attribute| match attribute {
            Attribute::Int(value) => Some(*value),
            _ => None,
        })
    }

    pub(super) fn int(&self, name: &str, default: i64) -> Result<i64> {
        Ok(self.int_or_none(name)?.unwrap_or(default))
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool> {
        Ok(self.int(name, 0)? != 0)
    }

    pub(super) fn number_or_none(&self, name: &str) -> Result<Option<f64>> {
        self.attribute_or_none(name, "a number", |attribute| match attribute {
            Attribute::Float(value) => Some(f64::from(*value)),
            _ => None,
        })
    }

    pub(super) fn number_attribute(&self, name: &str, default: f64) -> Result<f64> {
        Ok(self.number_or_none(name)?.unwrap_or(default))
    }

    pub(super) fn text(&self, name: &str, default: &'static str) -> Result<String> {
        let text = self.attribute_or_none(name, "text", |attribute| match attribute {
            Attribute::Text(value) => Some(value.clone()),
            _ => None,
        })?;
        Ok(text.unwrap_or_else(|| default.to_owned()))
    }

    pub(super) fn texts(&self, name: &str) -> Result<Option<Vec<String>>> {
        self.attribute_or_none(name, "texts", |attribute| match attribute {
            Attribute::Texts(values) => Some(values.clone()),
            _ => None,
        })
    }

    pub(super) fn floats(&self, name: &str) -> Result<Option<Vec<f32>>> {
        self.attribute_or_none(name, "numbers", |attribute| match attribute {
            Attribute::Floats(values) => Some(values.clone()),
            _ => None,
        })
    }

    pub(super) fn list(&self, name: &str) -> Result<Option<Vec<i64>>> {
        self.attribute_or_none(name, "integers", |attribute| match attribute {
            Attribute::Ints(values) => Some(values.clone()),
            _ => None,
        })
    }

    pub(super) fn constant(&self, name: &str) -> Result<Option<Value>> {
        self.attribute_or_none(name, "a tensor", |attribute| match attribute {
            Attribute::Tensor(value) => Some(value.clone()),
            _ => None,
        })
    }

    /// A list that is an attribute before version `since` and input `number` from then on.
    pub(super) fn list_or_input(&self, name: &str, since: i64, number: usize) -> Result<Option<Vec<i64>>> {
        if self.opset() < since { self.list(name) } else { self.optional_ints(number) }
    }

    /// Attribute `axis` of a value of this shape, from the front.
    pub(super) fn axis_attribute(&self, default: i64, shape: &Shape) -> Result<usize> {
        checks::axis(self.int("axis", default)?, shape.rank(), shape)
    }

    /// Both as tensors of one type that broadcast to each other.
    pub(super) fn pair(&self, a: Tensor, b: Tensor) -> Result<(Tensor, Tensor)> {
        self.broadcast(&[a.shape(), b.shape()])?;
        checks::alike(a, b)
    }

    /// The shape that all broadcast to.
    pub(super) fn broadcast(&self, shapes: &[&Shape]) -> Result<Shape> {
        let mut whole = Shape::from([]);
        for shape in shapes {
            whole = match whole.broadcast(shape) {
                Some(whole) => whole,
                None => {
                    let all: Vec<String> = shapes.iter().map(ToString::to_string).collect();
                    return fail(format!("shapes {} do not broadcast", all.join(" and ")));
                }
            };
        }
        self.shape(&whole)
    }
}
