//! Models as ONNX files: a traced graph, op by op, with the layers that other programs know by name found again.

mod attention;
mod builder;
mod contract;
mod elementwise;
mod matching;
mod patterns;
mod size;
#[cfg(test)]
mod tests;
mod trace;
mod views;
mod windows;

use std::collections::HashMap;
use std::path::Path;

use crate::device::Device;
use crate::dtype::{DType, Scalar};
use crate::error::{Error, Result};
use crate::files::write_whole;
use crate::graph::reference;
use crate::graph::{Node, NodeRef, Op, Source};
use crate::nn::{Mode, Module};
use crate::runtime::Var;
use crate::shape::Shape;
use crate::tensor::Tensor;

use builder::{Builder, Name, Value, element_type, info, stored};
use size::Size;
use trace::{Traced, resolved, what};

/// An input of a model that is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Input {
    /// What it is called.
    pub name: String,
    /// Of one sample if there is an axis for the batch in front of it, else of the whole.
    pub shape: Shape,
    /// The elements' type. u32 is written as int64, in which other programs have indices.
    pub dtype: DType,
    /// Whether there is an axis for the batch in front.
    pub batched: bool,
}

impl Input {
    /// An input of samples of this shape, behind an axis for the batch.
    pub fn new(name: &str, shape: impl Into<Shape>, dtype: DType) -> Self {
        Self { name: name.to_owned(), shape: shape.into(), dtype, batched: true }
    }

    /// The same without an axis for the batch.
    #[must_use]
    pub fn without_batch(mut self) -> Self {
        self.batched = false;
        self
    }
}

/// The size of the batch of a model that is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Batch {
    /// It is left open: an axis named `batch`.
    #[default]
    Named,
    /// Always this one.
    Fixed(usize),
}

/// How a model is written.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExportOptions {
    /// The size of the batch.
    pub batch: Batch,
    /// Names and values that are noted in the file (`metadata_props`).
    pub metadata: Vec<(String, String)>,
    /// What the model is, in words.
    pub description: String,
}

/// Writes a model of one input, as it is under [`Mode::Evaluate`], to `path`, whole or not at all: an ONNX model of
/// opset 18, with an output `output`. Weights have the names of their variables.
///
/// ```
/// use brasa::formats::onnx::{ExportOptions, Input, Model, export};
/// use brasa::nn::{Init, Linear, Module};
/// use brasa::{DType, Device, Tensor};
///
/// let device = Device::cpu();
/// let layer = Linear::new(3, 2, &Init::new(&device, 0))?;
/// let path = std::env::temp_dir().join("brasa-example.onnx");
/// export(&layer, &Input::new("x", [3], DType::F32), &path, &ExportOptions::default())?;
///
/// let read = Model::load(&path, &device)?;
/// let x = Tensor::ones([5, 3], &device);
/// assert!(read.run(&[x.clone()])?[0].allclose(&layer.forward(&x), 1e-6, 1e-6)?);
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), brasa::Error>(())
/// ```
///
/// # Errors
/// If there is an op that ONNX has not, the device fails, or the file cannot be written.
pub fn export<M: Module + ?Sized>(
    model: &M,
    input: &Input,
    path: impl AsRef<Path>,
    options: &ExportOptions,
) -> Result<()> {
    let variables = model.variables();
    let Some(first) = variables.first() else {
        return Err(Error::Export("the model has no variables: export it as a function".into()));
    };
    let bytes = export_function(first.device(), std::slice::from_ref(input), &["output"], options, |inputs| {
        vec![Mode::Evaluate.scope(|| model.forward(&inputs[0]))]
    })?;
    write_whole(path.as_ref(), &bytes)
}

/// The contents of an ONNX file of what `function` computes from `inputs`; its results are called `outputs`. It is
/// traced, as by a [`Step`](crate::runtime::Step): once, or for two sizes of the batch where that is left open.
///
/// # Errors
/// If there is an op that ONNX has not, or the device fails.
///
/// # Panics
/// If there are other results than names for them.
#[track_caller]
pub fn export_function(
    device: &Device,
    inputs: &[Input],
    outputs: &[&str],
    options: &ExportOptions,
    function: impl Fn(&[Tensor]) -> Vec<Tensor>,
) -> Result<Vec<u8>> {
    let traced = Traced::new(device, inputs, options.batch, &function)?;
    let results = traced.outputs.len();
    assert!(results == outputs.len(), "export_function: {results} results, but names for {}", outputs.len());
    Writer::new(&traced).write(inputs, outputs, options)
}

/// Turns nodes of the graph into nodes of a model.
struct Writer<'a> {
    traced: &'a Traced,
    to: Builder,
    /// The value of each node.
    values: HashMap<u64, Value>,
}

impl<'a> Writer<'a> {
    fn new(traced: &'a Traced) -> Self {
        Self { traced, to: Builder::default(), values: HashMap::new() }
    }

    fn write(mut self, inputs: &[Input], outputs: &[&str], options: &ExportOptions) -> Result<Vec<u8>> {
        let (mut given, mut results) = (Vec::new(), Vec::new());
        let names: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).chain(outputs.iter().copied()).collect();
        for (number, name) in names.iter().enumerate() {
            if name.is_empty() || names[..number].contains(name) {
                return Err(Error::Export(format!("`{name}` is not a name, or that of two inputs or outputs")));
            }
            self.to.unique(name);
        }
        for (input, leaf) in inputs.iter().zip(&self.traced.inputs) {
            let rest = input.shape.iter().map(|&size| Size::of(size));
            let batch = match options.batch {
                Batch::Named => Size { fixed: 0, per_batch: 1 },
                Batch::Fixed(size) => Size::of(size),
            };
            let dims: Vec<Size> = input.batched.then_some(batch).into_iter().chain(rest).collect();
            let name = input.name.clone();
            given.push(info(&name, input.dtype, &dims, "batch"));
            if input.batched && options.batch == Batch::Named {
                self.to.batch_of(&name);
            }
            self.values.insert(leaf.id, Value { name, dims });
        }
        for node in &self.traced.nodes {
            if self.values.contains_key(&node.id) || self.traced.is_constant(node) {
                continue;
            }
            self.to.enter(node.module.as_deref());
            let value = self.translated(node)?;
            self.values.insert(node.id, value);
        }
        self.to.enter(None);
        for (name, node) in outputs.iter().zip(&self.traced.outputs) {
            let value = self.whole(node)?;
            results.push((value, info(name, node.dtype, &self.traced.sizes(node), "batch")));
        }
        self.to.finish((given, results), &options.metadata, &options.description)
    }

    /// The value of a node, which may have to be broadcast.
    fn value(&mut self, node: &NodeRef) -> Result<Value> {
        let node = resolved(node);
        if let Some(value) = self.values.get(&node.id) {
            return Ok(value.clone());
        }
        let value = self.constant(node)?;
        self.values.insert(node.id, value.clone());
        Ok(value)
    }

    /// The value of a node with all its axes and sizes.
    fn whole(&mut self, node: &NodeRef) -> Result<Value> {
        let value = self.value(node)?;
        let sizes = self.traced.sizes(resolved(node));
        self.to.expanded(&value, &sizes)
    }

    /// The value of a node that depends on numbers only: one number, if all elements are the same.
    fn constant(&mut self, node: &NodeRef) -> Result<Value> {
        if let Op::Const(value) = node.op {
            return Ok(Value { name: self.to.scalar(value), dims: Vec::new() });
        }
        node.check_size()?;
        let numbers = reference::evaluate(std::slice::from_ref(node), &HashMap::<u64, Vec<f64>>::new()).remove(0);
        let elements: Vec<Scalar> = numbers.iter().map(|&number| Scalar::new(node.dtype, number)).collect();
        if let Some(first) = elements.first().filter(|first| elements.iter().all(|element| element == *first)) {
            return Ok(Value { name: self.to.scalar(*first), dims: Vec::new() });
        }
        let name = self.to.elements(&node.shape, node.dtype, elements.into_iter());
        Ok(Value { name, dims: self.traced.sizes(node) })
    }

    /// A node as nodes of the model.
    fn translated(&mut self, node: &NodeRef) -> Result<Value> {
        if let Some(known) = self.pattern(node)? {
            return Ok(known);
        }
        let sizes = self.traced.sizes(node);
        match &node.op {
            Op::Leaf => self.leaf(node),
            Op::Const(value) => Ok(Value { name: self.to.scalar(*value), dims: Vec::new() }),
            Op::Iota { axis } => self.iota(node, *axis),
            Op::Unary(op) => self.unary(*op, node),
            Op::Binary(op) => self.binary(*op, node),
            Op::Select => self.select(node),
            Op::Cast => self.cast(node),
            // an index outside is the business of whoever runs the model
            Op::CheckIndex { .. } => self.value(&node.inputs[0]),
            Op::Reshape => {
                let value = self.whole(&node.inputs[0])?;
                self.to.reshape(&value, &sizes)
            }
            Op::View(view) => self.view(view, node),
            Op::Reduce { op, axes } => self.reduce(*op, axes, node),
            // only a plan has blocks
            Op::Scan { op, axis, reverse, .. } => self.scan(*op, *axis, *reverse, node),
            Op::Contract(contract) => self.contract(contract, node, None),
            Op::Gather { axis } => {
                let (x, index) = (self.whole(&node.inputs[0])?, self.whole(&node.inputs[1])?);
                let axis = vec![builder::int("axis", *axis as i64)];
                Ok(self.to.value("Gather", &[&x.name, &index.name], axis, sizes))
            }
            Op::Attention(attention) => self.attention(attention, node),
            _ => Err(Error::Export(format!("there is no operator of ONNX for {}", what(node)))),
        }
    }

    /// A variable, or another tensor from outside, as a stored one.
    fn leaf(&mut self, node: &NodeRef) -> Result<Value> {
        let dims = self.traced.sizes(node);
        if dims.iter().any(|size| !size.is_fixed()) {
            return Err(trace::depends(&what(node)));
        }
        // a trace has one leaf for each variable
        let name = match &node.source {
            Some(Source::Var(cell)) => {
                let variable = Var(cell.clone());
                self.stored(variable.name(), &variable.tensor())?
            }
            _ => self.stored("tensor", &Tensor::from_node(node.clone()))?,
        };
        Ok(Value { name, dims })
    }

    fn stored(&mut self, name: &str, tensor: &Tensor) -> Result<Name> {
        let bytes = pollster::block_on(tensor.to_bytes())?;
        let dtype = tensor.dtype();
        // an empty name would be an input that is left out
        let name = if name.is_empty() { "tensor" } else { name };
        Ok(self.to.initializer(name, tensor.shape(), element_type(dtype), stored(dtype, bytes)))
    }

    /// Numbers that count along an axis, of size 1 along the others.
    fn iota(&mut self, node: &Node, axis: usize) -> Result<Value> {
        let sizes = self.traced.sizes(node);
        let Some(count) = sizes[axis].known() else { return self.count(node.dtype, axis, &sizes) };
        let mut dims = vec![Size::ONE; sizes.len()];
        dims[axis] = sizes[axis];
        let numbers = (0..count as u32).map(|number| Scalar::new(node.dtype, f64::from(number)));
        let shape = trace::fixed_shape(&dims).expect("its only size is known");
        let name = self.to.elements(&shape, node.dtype, numbers);
        Ok(Value { name, dims })
    }

    /// The same along an axis whose size depends on the batch.
    fn count(&mut self, dtype: DType, axis: usize, sizes: &[Size]) -> Result<Value> {
        let mut dims = vec![Size::ONE; sizes.len()];
        dims[axis] = sizes[axis];
        let [first, step] = [0, 1].map(|number| self.to.scalar(Scalar::new(DType::U32, f64::from(number))));
        let end = Value { name: self.to.sizes(&sizes[axis..=axis])?, dims: vec![Size::ONE] };
        let end = self.to.reshape(&end, &[])?;
        let numbers = self.to.value("Range", &[&first, &end.name, &step], Vec::new(), vec![sizes[axis]]);
        let numbers = if dtype == DType::U32 { numbers } else { self.cast_to(&numbers, dtype) };
        self.to.reshape(&numbers, &dims)
    }
}
