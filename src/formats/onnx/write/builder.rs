//! The nodes and constants of a model that is written.

use std::collections::{HashMap, HashSet};

use prost::Message as _;

use crate::dtype::{DType, Scalar};
use crate::error::{Error, Result};

use super::super::proto::{
    AttributeProto, AttributeType, Dimension, ElementType, GraphProto, ModelProto, NodeProto, OperatorSetId,
    Size as ProtoSize, StringStringEntry, TensorProto, TensorShape, TensorType, TypeProto, ValueInfo,
};
use super::size::Size;

/// The version of the operators: bitwise ones came with it, and programs of 2023 and later read it.
pub(super) const OPSET: i64 = 18;
/// The version of the format that came with it.
const IR_VERSION: i64 = 8;
/// What a message of protobuf may hold.
const MAX_BYTES: usize = i32::MAX as usize;

/// The name of a value of the model.
pub(super) type Name = String;

/// A value of the model.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) name: Name,
    /// Its axes. Those that broadcasting adds or repeats may be missing in front, or be of size 1.
    pub(super) dims: Vec<Size>,
}

/// What is known of a model while it is written.
#[derive(Default)]
pub(super) struct Builder {
    nodes: Vec<NodeProto>,
    initializers: Vec<TensorProto>,
    names: HashSet<String>,
    /// Small constants by what they are.
    constants: HashMap<(i32, Vec<i64>, Vec<u8>), Name>,
    /// What reshaped values were before.
    reshaped: HashMap<Name, Value>,
    /// The value of shape `[1]` that is the batch's size.
    batch: Option<Name>,
    /// The module that nodes belong to.
    module: String,
}

/// How elements of a type are stored: u32 as 64 bits, for which more operators are defined, and which indices have.
pub(super) const fn element_type(dtype: DType) -> ElementType {
    match dtype {
        DType::F32 => ElementType::Float,
        DType::F16 => ElementType::Float16,
        DType::I32 => ElementType::Int32,
        DType::U32 => ElementType::Int64,
        DType::U8 => ElementType::Uint8,
        DType::Bool => ElementType::Bool,
    }
}

/// Row-major elements in memory as they are stored.
pub(super) fn stored(dtype: DType, bytes: Vec<u8>) -> Vec<u8> {
    if dtype == DType::U32 {
        let words = bytemuck::pod_collect_to_vec::<u8, u32>(&bytes);
        return words.iter().flat_map(|&word| i64::from(word).to_le_bytes()).collect();
    }
    bytes
}

/// An attribute of whole numbers.
pub(super) fn ints(name: &str, ints: impl Into<Vec<i64>>) -> AttributeProto {
    let r#type = AttributeType::Ints.into();
    AttributeProto { name: name.into(), ints: ints.into(), r#type, ..AttributeProto::default() }
}

/// The same of sizes and axes.
pub(super) fn sizes(name: &str, sizes: &[usize]) -> AttributeProto {
    ints(name, sizes.iter().map(|&size| size as i64).collect::<Vec<_>>())
}

/// An attribute of one whole number.
pub(super) fn int(name: &str, i: i64) -> AttributeProto {
    AttributeProto { name: name.into(), i, r#type: AttributeType::Int.into(), ..AttributeProto::default() }
}

/// An attribute of one word.
pub(super) fn word(name: &str, word: &str) -> AttributeProto {
    let r#type = AttributeType::String.into();
    AttributeProto { name: name.into(), s: word.into(), r#type, ..AttributeProto::default() }
}

/// An attribute of one number.
pub(super) fn float(name: &str, f: f64) -> AttributeProto {
    let r#type = AttributeType::Float.into();
    AttributeProto { name: name.into(), f: f as f32, r#type, ..AttributeProto::default() }
}

impl Builder {
    /// Nodes from now on belong to this module.
    pub(super) fn enter(&mut self, module: Option<&str>) {
        module.unwrap_or_default().clone_into(&mut self.module);
    }

    /// `wanted`, or with a number behind it if that is taken.
    pub(super) fn unique(&mut self, wanted: &str) -> Name {
        let mut name = wanted.to_owned();
        let mut number = 1;
        while !self.names.insert(name.clone()) {
            number += 1;
            name = format!("{wanted}_{number}");
        }
        name
    }

    /// A node's only output.
    pub(super) fn node(&mut self, op: &str, inputs: &[&str], attributes: Vec<AttributeProto>) -> Name {
        let module = if self.module.is_empty() { String::new() } else { format!("{}.", self.module) };
        let output = self.unique(&format!("{module}{op}"));
        self.nodes.push(NodeProto {
            input: inputs.iter().map(|&input| input.to_owned()).collect(),
            output: vec![output.clone()],
            name: format!("/{output}"),
            op_type: op.into(),
            attribute: attributes,
            domain: String::new(),
        });
        output
    }

    /// A node whose output has these axes.
    pub(super) fn value(
        &mut self,
        op: &str,
        inputs: &[&str],
        attributes: Vec<AttributeProto>,
        dims: Vec<Size>,
    ) -> Value {
        Value { name: self.node(op, inputs, attributes), dims }
    }

    /// A stored tensor; one of a name that is taken gets another.
    pub(super) fn initializer(&mut self, name: &str, dims: &[usize], data_type: ElementType, bytes: Vec<u8>) -> Name {
        let name = self.unique(name);
        self.initializers.push(TensorProto {
            dims: dims.iter().map(|&size| size as i64).collect(),
            data_type: data_type.into(),
            name: name.clone(),
            raw_data: bytes,
            ..TensorProto::default()
        });
        name
    }

    /// A small constant; equal ones are one.
    pub(super) fn constant(&mut self, dims: &[usize], data_type: ElementType, bytes: Vec<u8>) -> Name {
        let key = (data_type.into(), dims.iter().map(|&size| size as i64).collect::<Vec<_>>(), bytes);
        if let Some(name) = self.constants.get(&key) {
            return name.clone();
        }
        let name = self.initializer("constant", dims, data_type, key.2.clone());
        self.constants.insert(key, name.clone());
        name
    }

    /// A constant of these elements, row-major.
    pub(super) fn elements(&mut self, dims: &[usize], dtype: DType, elements: impl Iterator<Item = Scalar>) -> Name {
        let size = dtype.size_bytes();
        let bytes = elements.flat_map(|element| element.bits.to_le_bytes().into_iter().take(size)).collect();
        self.constant(dims, element_type(dtype), stored(dtype, bytes))
    }

    /// A number of this type, of shape `[]`.
    pub(super) fn scalar(&mut self, value: Scalar) -> Name {
        self.elements(&[], value.dtype, std::iter::once(value))
    }

    /// A vector of factors, as sizes are scaled.
    pub(super) fn factors(&mut self, factors: &[f32]) -> Name {
        self.constant(&[factors.len()], ElementType::Float, bytemuck::cast_slice(factors).to_vec())
    }

    /// A vector of whole numbers, as axes and sizes are given.
    pub(super) fn numbers(&mut self, numbers: &[i64]) -> Name {
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.constant(&[numbers.len()], ElementType::Int64, bytes)
    }

    /// The size of the batch is that of the first axis of this input, or of one before.
    pub(super) fn batch_of(&mut self, input: &str) {
        if self.batch.is_some() {
            return;
        }
        let shape = self.node("Shape", &[input], vec![int("start", 0), int("end", 1)]);
        self.batch = Some(shape);
    }

    /// A vector of these sizes.
    pub(super) fn sizes(&mut self, sizes: &[Size]) -> Result<Name> {
        if sizes.iter().all(|size| size.is_fixed()) {
            return Ok(self.numbers(&sizes.iter().map(|size| size.fixed).collect::<Vec<_>>()));
        }
        let Some(batch) = self.batch.clone() else {
            return Err(Error::Export("no input has a batch, but sizes depend on it".into()));
        };
        let mut parts = Vec::new();
        for size in sizes {
            let mut part = self.numbers(&[if size.is_fixed() { size.fixed } else { size.per_batch }]);
            if !size.is_fixed() {
                part = if size.per_batch == 1 { batch.clone() } else { self.node("Mul", &[&batch, &part], Vec::new()) };
                if size.fixed != 0 {
                    let fixed = self.numbers(&[size.fixed]);
                    part = self.node("Add", &[&part, &fixed], Vec::new());
                }
            }
            parts.push(part);
        }
        if let [one] = &parts[..] {
            return Ok(one.clone());
        }
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        Ok(self.node("Concat", &parts, vec![int("axis", 0)]))
    }

    /// The value with all axes of `sizes`, repeated where it is of size 1.
    pub(super) fn expanded(&mut self, value: &Value, sizes: &[Size]) -> Result<Value> {
        if value.dims == sizes {
            return Ok(value.clone());
        }
        // where it has that size already, 1 asks for nothing
        let missing = sizes.len() - value.dims.len();
        let wanted = |axis: usize| {
            let own = axis.checked_sub(missing).map(|axis| value.dims[axis]);
            if own == Some(sizes[axis]) { Size::ONE } else { sizes[axis] }
        };
        let shape = self.sizes(&(0..sizes.len()).map(wanted).collect::<Vec<_>>())?;
        Ok(self.value("Expand", &[&value.name, &shape], Vec::new(), sizes.to_vec()))
    }

    /// The value with axes of size 1 in front, so that it has `rank`.
    pub(super) fn of_rank(&mut self, value: &Value, rank: usize) -> Result<Value> {
        let missing = rank.saturating_sub(value.dims.len());
        let dims = [&vec![Size::ONE; missing], value.dims.as_slice()].concat();
        self.reshape(value, &dims)
    }

    /// The same elements with other axes.
    pub(super) fn reshape(&mut self, value: &Value, dims: &[Size]) -> Result<Value> {
        // what was reshaped before is reshaped from what it was
        let value = self.reshaped.get(&value.name).cloned().unwrap_or_else(|| value.clone());
        if value.dims == dims {
            return Ok(value);
        }
        // 0 stands for the size of the input's axis at this place, and one -1 for what is left
        let as_before = |axis: usize, size: &Size| value.dims.get(axis) == Some(size);
        let number = |(axis, size): (usize, &Size)| match size {
            size if size.is_fixed() => size.fixed,
            size if as_before(axis, size) => 0,
            _ => -1,
        };
        let target: Vec<i64> = dims.iter().enumerate().map(number).collect();
        let is_empty = dims.iter().any(|size| size.known() == Some(0));
        let simple = target.iter().filter(|&&size| size == -1).count() <= 1 && !is_empty;
        let (shape, attributes) =
            if simple { (self.numbers(&target), Vec::new()) } else { (self.sizes(dims)?, vec![int("allowzero", 1)]) };
        let result = self.value("Reshape", &[&value.name, &shape], attributes, dims.to_vec());
        self.reshaped.insert(result.name.clone(), value);
        Ok(result)
    }

    /// Output axis `i` is axis `order[i]`.
    pub(super) fn transpose(&mut self, value: &Value, order: &[usize]) -> Value {
        if order.iter().enumerate().all(|(place, &axis)| place == axis) {
            return value.clone();
        }
        let dims = order.iter().map(|&axis| value.dims[axis]).collect();
        let order: Vec<i64> = order.iter().map(|&axis| axis as i64).collect();
        self.value("Transpose", &[&value.name], vec![ints("perm", order)], dims)
    }

    /// The model, without what no output needs.
    pub(super) fn finish(
        mut self,
        (inputs, outputs): (Vec<ValueInfo>, Vec<(Value, ValueInfo)>),
        metadata: &[(String, String)],
        description: &str,
    ) -> Result<Vec<u8>> {
        let mut named = Vec::new();
        for (value, info) in outputs {
            // names of outputs are the caller's, and an output may be an input or a constant
            self.nodes.push(NodeProto {
                input: vec![value.name],
                output: vec![info.name.clone()],
                name: format!("/{}", info.name),
                op_type: "Identity".into(),
                ..NodeProto::default()
            });
            named.push(info);
        }
        let mut needed: HashSet<String> = named.iter().map(|info| info.name.clone()).collect();
        let mut nodes = Vec::new();
        for node in self.nodes.into_iter().rev() {
            if node.output.iter().any(|output| needed.contains(output)) {
                needed.extend(node.input.iter().cloned());
                nodes.push(node);
            }
        }
        nodes.reverse();
        self.initializers.retain(|initializer| needed.contains(&initializer.name));
        let entry = |(key, value): &(String, String)| StringStringEntry { key: key.clone(), value: value.clone() };
        let model = ModelProto {
            ir_version: IR_VERSION,
            producer_name: "brasa".into(),
            producer_version: env!("CARGO_PKG_VERSION").into(),
            doc_string: description.to_owned(),
            graph: Some(GraphProto {
                node: named_by_outputs(nodes),
                name: "model".into(),
                initializer: self.initializers,
                input: inputs,
                output: named,
                value_info: Vec::new(),
            }),
            opset_import: vec![OperatorSetId { domain: String::new(), version: OPSET }],
            metadata_props: metadata.iter().map(entry).collect(),
        };
        if model.encoded_len() > MAX_BYTES {
            return Err(Error::Export("it takes more than the 2 GiB that a protobuf message may hold".into()));
        }
        Ok(model.encode_to_vec())
    }
}

/// The nodes without those that only give an output its name, where the value is that of a node and not used by that
/// name itself.
fn named_by_outputs(mut nodes: Vec<NodeProto>) -> Vec<NodeProto> {
    let mut uses: HashMap<String, usize> = HashMap::new();
    for input in nodes.iter().flat_map(|node| &node.input) {
        *uses.entry(input.clone()).or_default() += 1;
    }
    let mut renamed = HashMap::new();
    let computed: HashSet<String> = nodes.iter().flat_map(|node| node.output.iter().cloned()).collect();
    nodes.retain(|node| {
        let [input] = &node.input[..] else { return true };
        let redundant = node.op_type == "Identity" && uses[input] == 1 && computed.contains(input);
        if redundant {
            renamed.insert(input.clone(), node.output[0].clone());
        }
        !redundant
    });
    for output in nodes.iter_mut().flat_map(|node| &mut node.output) {
        if let Some(name) = renamed.get(output) {
            output.clone_from(name);
        }
    }
    nodes
}

/// An input or output of the model.
pub(super) fn info(name: &str, dtype: DType, dims: &[Size], batch: &str) -> ValueInfo {
    let dimension = |size: &Size| {
        let value = match *size {
            Size { fixed, per_batch: 0 } => ProtoSize::Fixed(fixed),
            Size { fixed: 0, per_batch: 1 } => ProtoSize::Named(batch.into()),
            Size { fixed: 0, per_batch } => ProtoSize::Named(format!("{per_batch}*{batch}")),
            Size { fixed, per_batch } => ProtoSize::Named(format!("{fixed}+{per_batch}*{batch}")),
        };
        Dimension { value: Some(value) }
    };
    let shape = Some(TensorShape { dim: dims.iter().map(dimension).collect() });
    let tensor_type = Some(TensorType { elem_type: element_type(dtype).into(), shape });
    ValueInfo { name: name.into(), r#type: Some(TypeProto { tensor_type }), doc_string: String::new() }
}
