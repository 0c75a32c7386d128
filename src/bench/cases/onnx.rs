//! Inference of a model in an ONNX file.

use std::path::{Path, PathBuf};

use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::formats::onnx::{Dimension, Model, TensorInfo};
use crate::shape::MAX_ELEMENTS;
use crate::tensor::Tensor;

use super::super::Suite;
use super::super::method::Work;
use super::Case;
use super::infer::of_batch;

/// Sizes of the batch that are measured where the file leaves it open.
const BATCHES: [usize; 3] = [1, 8, 64];

/// A model, and the sizes of axes that its file leaves open, by name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OnnxModel {
    /// The file.
    pub path: PathBuf,
    /// Names and sizes. That of the first axis of the first input is the batch's, and need not be there.
    pub axes: Vec<(String, usize)>,
}

impl OnnxModel {
    /// The size that an axis of this name was given.
    fn size(&self, name: &str) -> Option<usize> {
        self.axes.iter().find(|(known, _)| known == name).map(|known| known.1)
    }
}

/// A case for each size of the batch.
pub(in super::super) fn cases(of: &OnnxModel) -> Result<Vec<Case>> {
    let model = Model::load(&of.path, &Device::cpu())?;
    let inputs = model.inputs();
    let has = |name: &str| {
        let named = |dimension: &Dimension| matches!(dimension, Dimension::Named(known) if known == name);
        inputs.iter().filter_map(|input| input.dimensions.as_ref()).flatten().any(named)
    };
    if let Some((name, _)) = of.axes.iter().find(|(name, _)| !has(name)) {
        let inputs: Vec<String> = inputs.iter().map(ToString::to_string).collect();
        return Err(Error::Config(format!(
            "{}: no axis is named `{name}` in {}",
            of.path.display(),
            inputs.join("; ")
        )));
    }
    let is_twice =
        |(number, (name, _)): &(usize, &(String, usize))| of.axes[..*number].iter().any(|(before, _)| before == name);
    if let Some((_, (name, _))) = of.axes.iter().enumerate().find(is_twice) {
        return Err(Error::Config(format!("{}: the axis `{name}` is given two sizes", of.path.display())));
    }
    let batch = inputs.first().and_then(|input| input.dimensions.as_ref()).and_then(|dimensions| dimensions.first());
    let batches = match batch {
        Some(Dimension::Fixed(size)) => vec![*size],
        Some(Dimension::Named(name)) => of.size(name).map_or_else(|| BATCHES.to_vec(), |size| vec![size]),
        Some(Dimension::Unknown) => BATCHES.to_vec(),
        None => vec![1],
    };
    let name = of.path.file_stem().map_or_else(|| "model".into(), |stem| stem.to_string_lossy().into_owned());
    let cases = batches.into_iter().map(|size| {
        let shapes = inputs.iter().map(|input| sizes(input, batch, size, of)).collect::<Result<Vec<_>>>()?;
        Ok(case(&name, &of.path, inputs, shapes, size))
    });
    cases.collect()
}

/// The shape of an input in a batch of this size.
fn sizes(input: &TensorInfo, batch: Option<&Dimension>, rows: usize, of: &OnnxModel) -> Result<Vec<usize>> {
    let open = |what: &str, hint: &str| {
        Error::Config(format!("{}: the file leaves {what} of {input} open{hint}", of.path.display()))
    };
    let Some(dimensions) = &input.dimensions else { return Err(open("the number of axes", "")) };
    let size = |(axis, dimension): (usize, &Dimension)| match dimension {
        Dimension::Fixed(size) => Ok(*size),
        Dimension::Named(name) => match of.size(name) {
            Some(size) => Ok(size),
            None if batch == Some(dimension) => Ok(rows),
            None => Err(open(&format!("`{name}`"), &format!(": say how large it is, such as --axis {name}=128"))),
        },
        Dimension::Unknown if axis == 0 => Ok(rows),
        Dimension::Unknown => Err(open(&format!("axis {axis}"), " and gives it no name")),
    };
    let sizes = dimensions.iter().enumerate().map(size).collect::<Result<Vec<_>>>()?;
    let elements = sizes.iter().try_fold(1_usize, |all, &size| all.checked_mul(size));
    if elements.is_none_or(|elements| elements > MAX_ELEMENTS) {
        let axes: Vec<String> = of.axes.iter().map(|(name, size)| format!("{name}={size}")).collect();
        let given = if axes.is_empty() { String::new() } else { format!(" with --axis {}", axes.join(" --axis ")) };
        return Err(Error::Config(format!(
            "{}: {input} is of the sizes {sizes:?}{given}, more than the {MAX_ELEMENTS} elements there may be",
            of.path.display()
        )));
    }
    Ok(sizes)
}

fn case(name: &str, path: &Path, inputs: &[TensorInfo], shapes: Vec<Vec<usize>>, batch: usize) -> Case {
    let file = path.to_owned();
    let dtypes: Vec<DType> = inputs.iter().map(|input| input.dtype.unwrap_or(DType::F32)).collect();
    let make = move |device: &Device| -> Result<Box<dyn Work>> {
        let model = Model::load(&file, device)?;
        let mut inputs = Vec::with_capacity(shapes.len());
        for (shape, &dtype) in shapes.iter().zip(&dtypes) {
            // zeros are an index into anything
            let input = if dtype.is_float() {
                Tensor::rand(shape.as_slice(), device).to_dtype(dtype)
            } else {
                Tensor::zeros_of(shape.as_slice(), dtype, device)
            };
            input.realize()?;
            inputs.push(input);
        }
        device.sync()?;
        Ok(Box::new(Running { model, inputs }))
    };
    of_batch(Case::new(Suite::Infer, format!("{name}_b{batch}"), make).quick(true), name, batch)
}

/// A model that is given the same inputs each time.
struct Running {
    model: Model,
    inputs: Vec<Tensor>,
}

impl Work for Running {
    fn start(&mut self) -> Result<()> {
        self.model.run(&self.inputs).map(drop)
    }

    fn wait(&mut self) -> Result<()> {
        self.model.device().sync()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field of a message: a number, or text and messages, which are short here.
    fn number(field: u8, value: u8) -> Vec<u8> {
        vec![field << 3, value]
    }

    fn bytes(field: u8, contents: impl AsRef<[u8]>) -> Vec<u8> {
        let contents = contents.as_ref();
        assert!(contents.len() < 128, "a length in one byte");
        [&[(field << 3) | 2, contents.len() as u8][..], contents].concat()
    }

    /// `y` is `exp(x)`, and `i` says where `x` is not 0: how many places there are depends on its values.
    fn model() -> Vec<u8> {
        let node = |op: &str, output: &str| bytes(1, [bytes(1, "x"), bytes(2, output), bytes(4, op)].concat());
        let value =
            |field, name: &str, tensor: Vec<u8>| bytes(field, [bytes(1, name), bytes(2, bytes(1, tensor))].concat());
        let floats = [number(1, 1), bytes(2, bytes(1, number(1, 4)))].concat();
        let graph = [
            node("Exp", "y"),
            node("NonZero", "i"),
            bytes(2, "g"),
            value(11, "x", floats.clone()),
            value(12, "y", floats),
            value(12, "i", number(1, 7)),
        ];
        [number(1, 8), bytes(8, number(2, 13)), bytes(7, graph.concat())].concat()
    }

    #[test]
    fn what_is_timed_is_computed_though_shapes_depend_on_values() {
        let cpu = Device::cpu();
        let model = Model::from_bytes(&model(), None, &cpu).expect("a model");
        let input = Tensor::full([4], 2.0_f32, &cpu);
        for _ in 0..2 {
            let outputs = model.run(std::slice::from_ref(&input)).expect("it runs");
            assert_eq!(outputs.len(), 2);
            assert!(outputs.iter().all(|output| output.node().value().is_some()));
        }
    }
}
