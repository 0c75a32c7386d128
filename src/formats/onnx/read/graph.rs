//! Graphs as they are run: names resolved to places, nodes in an order in which inputs come before their users.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use crate::device::Device;
use crate::error::{Error, Result};
use crate::runtime::{Var, VarKind};

use super::super::proto::{AttributeProto, AttributeType, ElementType, GraphProto, NodeProto, TensorProto, ValueInfo};
use super::call::fail;
use super::external::Files;
use super::order::order;
use super::stored::Stored;
use super::table::{Operator, operator};
use super::types;
use super::value::Value;

/// Where the value of a name lies while a model runs.
pub(super) type Place = usize;

pub(super) struct Graph {
    /// What is known before it runs.
    pub(super) constants: Vec<(Place, Constant)>,
    pub(super) inputs: Vec<Place>,
    pub(super) nodes: Vec<Node>,
    pub(super) outputs: Vec<Place>,
}

pub(super) enum Constant {
    Value(Value),
    Var(Var),
}

/// A use of an operator.
pub(super) struct Node {
    pub(super) operator: &'static Operator,
    /// Its name in the file, or its number.
    pub(super) name: String,
    /// Version of its domain's operators.
    pub(super) opset: i64,
    pub(super) inputs: Vec<Option<Place>>,
    pub(super) outputs: Vec<Option<Place>>,
    pub(super) input_types: Vec<Option<ElementType>>,
    pub(super) output_types: Vec<Option<ElementType>>,
    pub(super) attributes: BTreeMap<String, Attribute>,
    /// The input of integers that is given less their zero point, as floats.
    pub(super) centred: Option<usize>,
}

pub(super) enum Attribute {
    Float(f32),
    Int(i64),
    Text(String),
    Tensor(Value),
    Graph(Graph),
    Floats(Vec<f32>),
    Ints(Vec<i64>),
    Texts(Vec<String>),
}

/// How an operator and a node of it are named in messages.
pub(super) fn title(node: &NodeProto, number: usize) -> String {
    format!("{} \"{}\"", node.op_type, name(node, number))
}

fn name(node: &NodeProto, number: usize) -> String {
    if node.name.is_empty() { format!("#{number}") } else { node.name.clone() }
}

/// ONNX's own domain has two names.
pub(super) fn domain(name: &str) -> &str {
    if name == "ai.onnx" { "" } else { name }
}

/// A shape error with what it is about in front.
pub(super) fn about(what: impl FnOnce() -> String) -> impl FnOnce(Error) -> Error {
    move |error| match error {
        Error::Shape(reason) => Error::Shape(format!("{}: {reason}", what())),
        other => other,
    }
}

/// What makes graphs of messages.
pub(super) struct Builder<'a> {
    pub(super) device: &'a Device,
    files: Files<'a>,
    /// Versions of the domains' operators.
    pub(super) opsets: HashMap<String, i64>,
    /// The places of names, in each graph around this one from the outermost on.
    scopes: Vec<HashMap<String, Place>>,
    /// Types of each place, as far as they are told or follow from those before.
    types: Vec<Option<ElementType>>,
    /// Elements of everything that is stored.
    pub(super) elements: usize,
    pub(super) variables: Vec<Var>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(device: &'a Device, folder: Option<&'a Path>, opsets: HashMap<String, i64>) -> Self {
        let (scopes, types, variables) = (Vec::new(), Vec::new(), Vec::new());
        Self { device, files: Files::of(folder), opsets, scopes, types, elements: 0, variables }
    }

    /// How many places there are.
    pub(super) fn places(&self) -> usize {
        self.types.len()
    }

    /// A graph, and those within it. Only those of the outermost one have variables.
    pub(super) fn graph(&mut self, proto: GraphProto) -> Result<Graph> {
        let outermost = self.scopes.is_empty();
        self.scopes.push(HashMap::new());
        let mut types = HashMap::new();
        for info in proto.input.iter().chain(&proto.output).chain(&proto.value_info) {
            let told = info.r#type.as_ref().and_then(|of| of.tensor_type.as_ref());
            if let Some(element) = told.and_then(|tensor| types::known(tensor.elem_type)) {
                types.insert(info.name.as_str(), element);
            }
        }
        let kinds = if outermost { Kinds::of(&proto) } else { Kinds::default() };
        let mut constants = Vec::new();
        for tensor in proto.initializer {
            let name = tensor.name.clone();
            let what = || format!("initializer `{name}`");
            let place = self.define(&name).map_err(about(what))?;
            let (constant, element) = self.initializer(tensor, &kinds).map_err(about(what))?;
            self.types[place] = Some(element);
            constants.push((place, constant));
        }
        let mut inputs = Vec::new();
        for input in &proto.input {
            // before version 4 of the format, initializers are among the inputs
            if !self.scope().contains_key(&input.name) {
                let place = self.define(&input.name).map_err(about(|| "the graph's inputs".into()))?;
                self.types[place] = types.get(input.name.as_str()).copied();
                inputs.push(place);
            }
        }
        for (number, node) in proto.node.iter().enumerate() {
            for output in node.output.iter().filter(|output| !output.is_empty()) {
                let place = self.define(output).map_err(about(|| title(node, number)))?;
                self.types[place] = types.get(output.as_str()).copied();
            }
        }
        let order = order(&proto.node)?;
        let mut protos: Vec<Option<NodeProto>> = proto.node.into_iter().map(Some).collect();
        let mut nodes = Vec::with_capacity(order.len());
        for number in order {
            if let Some(node) = protos[number].take() {
                let title = title(&node, number);
                nodes.push(self.node(node, number).map_err(about(|| title))?);
            }
        }
        let find = |output: &ValueInfo| self.find(&output.name).map_err(about(|| "the graph's outputs".into()));
        let outputs = proto.output.iter().map(find).collect::<Result<_>>()?;
        self.scopes.pop();
        Ok(Graph { constants, inputs, nodes, outputs })
    }

    fn scope(&self) -> &HashMap<String, Place> {
        self.scopes.last().expect("a graph is being made")
    }

    fn define(&mut self, name: &str) -> Result<Place> {
        let place = self.types.len();
        let scope = self.scopes.last_mut().expect("a graph is being made");
        if name.is_empty() {
            return fail("a value has no name");
        }
        if scope.insert(name.to_owned(), place).is_some() {
            return fail(format!("there are two values named `{name}`"));
        }
        self.types.push(None);
        Ok(place)
    }

    fn find(&self, name: &str) -> Result<Place> {
        match self.scopes.iter().rev().find_map(|scope| scope.get(name)) {
            Some(&place) => Ok(place),
            None => fail(format!("nothing computes `{name}`")),
        }
    }

    fn initializer(&mut self, tensor: TensorProto, kinds: &Kinds) -> Result<(Constant, ElementType)> {
        let kind = kinds.kind(&tensor.name);
        let name = tensor.name.clone();
        let stored = Stored::read(tensor, &mut self.files)?;
        let element = stored.element;
        self.elements = self.elements.saturating_add(stored.numel());
        let constant = match kind {
            Some(kind)
                if stored.dtype.is_float() && stored.shape.rank() > 0 && stored.numel() > 0 && !stored.is_mask() =>
            {
                let var = Var::new(&name, kind, &stored.into_tensor(self.device)?)?;
                self.variables.push(var.clone());
                Constant::Var(var)
            }
            _ => Constant::Value(stored.into_value(self.device)?),
        };
        Ok((constant, element))
    }

    fn node(&mut self, proto: NodeProto, number: usize) -> Result<Node> {
        let name = name(&proto, number);
        let domain = domain(&proto.domain);
        let Some(&opset) = self.opsets.get(domain) else {
            let of = if domain.is_empty() { "ONNX itself".to_owned() } else { format!("domain `{domain}`") };
            return fail(format!("the model does not say which version of the operators of {of} it has"));
        };
        let Some(operator) = operator(domain, &proto.op_type) else {
            return fail("is not known here");
        };
        if opset < operator.since {
            return fail(format!(
                "is of version {opset} of the operators, and is known here since version {}: \
                 `onnx.version_converter` makes a newer model",
                operator.since
            ));
        }
        let place = |name: &String| if name.is_empty() { Ok(None) } else { self.find(name).map(Some) };
        let inputs = proto.input.iter().map(place).collect::<Result<Vec<_>>>()?;
        let outputs = proto.output.iter().map(place).collect::<Result<Vec<_>>>()?;
        let told = |places: &[Option<Place>]| {
            let element = |place: &Option<Place>| place.and_then(|place| self.types[place]);
            places.iter().map(element).collect::<Vec<_>>()
        };
        let input_types = told(&inputs);
        for (number, &place) in outputs.iter().enumerate() {
            let Some(place) = place else { continue };
            if self.types[place].is_none() {
                self.types[place] = types::of_output(&proto, number, &input_types);
            }
        }
        let mut attributes = BTreeMap::new();
        for attribute in proto.attribute {
            let name = attribute.name.clone();
            let value = self.attribute(attribute).map_err(about(|| format!("attribute `{name}`")))?;
            if attributes.insert(name.clone(), value).is_some() {
                return fail(format!("attribute `{name}` occurs twice"));
            }
        }
        // an `If` has the types of its branches
        if let Some(Attribute::Graph(branch)) = attributes.get("then_branch") {
            for (place, &inner) in outputs.iter().zip(&branch.outputs) {
                let Some(place) = *place else { continue };
                self.types[place] = self.types[place].or(self.types[inner]);
            }
        }
        let output_types = outputs.iter().map(|place| place.and_then(|place| self.types[place])).collect();
        Ok(Node { operator, name, opset, inputs, outputs, input_types, output_types, attributes, centred: None })
    }

    fn attribute(&mut self, proto: AttributeProto) -> Result<Attribute> {
        let text = |bytes: &[u8]| match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => fail("is no text"),
        };
        let kind = AttributeType::try_from(proto.r#type);
        Ok(match kind {
            Ok(AttributeType::Float) => Attribute::Float(proto.f),
            Ok(AttributeType::Int) => Attribute::Int(proto.i),
            Ok(AttributeType::String) => Attribute::Text(text(&proto.s)?),
            Ok(AttributeType::Floats) => Attribute::Floats(proto.floats),
            Ok(AttributeType::Ints) => Attribute::Ints(proto.ints),
            Ok(AttributeType::Strings) => {
                Attribute::Texts(proto.strings.iter().map(|bytes| text(bytes)).collect::<Result<_>>()?)
            }
            Ok(AttributeType::Tensor) => {
                let Some(tensor) = proto.t else { return fail("has no tensor") };
                let stored = Stored::read(tensor, &mut self.files)?;
                self.elements = self.elements.saturating_add(stored.numel());
                Attribute::Tensor(stored.into_value(self.device)?)
            }
            Ok(AttributeType::Graph) => {
                let Some(graph) = proto.g else { return fail("has no graph") };
                Attribute::Graph(self.graph(graph)?)
            }
            Ok(AttributeType::Undefined) | Err(_) => {
                return fail(format!("is of kind {}, which is not known", proto.r#type));
            }
        })
    }
}

/// What initializers are for, as their users tell.
#[derive(Default)]
struct Kinds {
    used: HashSet<String>,
    /// Running statistics.
    buffers: HashSet<String>,
    /// What decides on shapes, is a factor of a quantisation, or a state to begin from: constants.
    constants: HashSet<String>,
}

impl Kinds {
    fn of(graph: &GraphProto) -> Self {
        let mut kinds = Self::default();
        for node in &graph.node {
            for (number, input) in node.input.iter().enumerate() {
                kinds.used.insert(input.clone());
                match (node.op_type.as_str(), number) {
                    ("BatchNormalization", 3 | 4) => drop(kinds.buffers.insert(input.clone())),
                    ("Resize" | "Upsample" | "Clip" | "Pad" | "Dropout" | "OneHot" | "Range", 1..)
                    // states to begin from
                    | ("LSTM" | "GRU" | "RNN", 5 | 6) => {
                        kinds.constants.insert(input.clone());
                    }
                    (kind, 1..)
                        if kind.contains("uantize")
                            || kind.starts_with("QLinear")
                            || matches!(kind, "QGemm" | "MatMulIntegerToFloat") =>
                    {
                        kinds.constants.insert(input.clone());
                    }
                    _ => {}
                }
            }
        }
        // branches see the names around them
        let mut inner: Vec<&GraphProto> = branches(graph).collect();
        while let Some(branch) = inner.pop() {
            kinds.used.extend(branch.node.iter().flat_map(|node| &node.input).cloned());
            kinds.used.extend(branch.output.iter().map(|output| output.name.clone()));
            inner.extend(branches(branch));
        }
        kinds
    }

    /// The kind of variable that an initializer is, if it is one.
    fn kind(&self, name: &str) -> Option<VarKind> {
        if !self.used.contains(name) || self.constants.contains(name) {
            None
        } else if self.buffers.contains(name) {
            Some(VarKind::Buffer)
        } else {
            Some(VarKind::Parameter)
        }
    }
}

/// The graphs that nodes have as attributes.
fn branches(graph: &GraphProto) -> impl Iterator<Item = &GraphProto> {
    graph.node.iter().flat_map(|node| &node.attribute).filter_map(|attribute| attribute.g.as_ref())
}
