//! What a file says of its inputs and outputs.

use std::fmt;

use crate::dtype::DType;
use crate::error::Result;
use crate::tensor::Tensor;

use super::super::proto::{ElementType, Size, ValueInfo};
use super::call::fail;

/// Name, type and sizes of an input or output of a [`Model`](super::Model), as its file says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorInfo {
    /// Its name in the file.
    pub name: String,
    /// The elements' type in the file, such as `int64`; empty if it is not told.
    pub element_type: String,
    /// What that is here: of the types of integers that there are no tensors of, i32 or u32, and f32 of floats.
    pub dtype: Option<DType>,
    /// Sizes of its axes; `None` if not even their number is told.
    pub dimensions: Option<Vec<Dimension>>,
}

/// What is known of the size of an axis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Dimension {
    /// It is this one.
    Fixed(usize),
    /// It has a name, such as `batch`.
    Named(String),
    /// Nothing.
    Unknown,
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(size) => write!(f, "{size}"),
            Self::Named(name) => f.write_str(name),
            Self::Unknown => f.write_str("?"),
        }
    }
}

impl fmt::Display for TensorInfo {
    /// `name: type [sizes]`, such as `input: float32 [batch, 3, 224, 224]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = if self.element_type.is_empty() { "any type" } else { &self.element_type };
        write!(f, "{}: {of}", self.name)?;
        match &self.dimensions {
            None => f.write_str(" of any shape"),
            Some(dimensions) => {
                let sizes: Vec<String> = dimensions.iter().map(ToString::to_string).collect();
                write!(f, " [{}]", sizes.join(", "))
            }
        }
    }
}

impl TensorInfo {
    /// Of an input, which must be a tensor.
    pub(super) fn of_input(info: &ValueInfo) -> Result<Self> {
        match info.r#type.as_ref().map(|of| &of.tensor_type) {
            Some(None) => fail(format!("input `{}` is no tensor: sequences and maps are not known here", info.name)),
            _ => Self::of(info),
        }
    }

    pub(super) fn of(info: &ValueInfo) -> Result<Self> {
        let name = info.name.clone();
        let Some(tensor) = info.r#type.as_ref().and_then(|of| of.tensor_type.as_ref()) else {
            return Ok(Self { name, element_type: String::new(), dtype: None, dimensions: None });
        };
        let (element_type, dtype) = match ElementType::try_from(tensor.elem_type) {
            Ok(ElementType::Undefined) => (String::new(), None),
            Ok(element) => (element.name().to_owned(), Some(element.dtype()?)),
            Err(_) => return fail(format!("`{name}` is of type number {}, which is not known", tensor.elem_type)),
        };
        let dimensions = tensor.shape.as_ref().map(|shape| {
            let dimension = |value: &Option<Size>| match value {
                Some(Size::Fixed(size)) => usize::try_from(*size).map_or(Dimension::Unknown, Dimension::Fixed),
                Some(Size::Named(name)) if !name.is_empty() => Dimension::Named(name.clone()),
                _ => Dimension::Unknown,
            };
            shape.dim.iter().map(|dim| dimension(&dim.value)).collect()
        });
        Ok(Self { name, element_type, dtype, dimensions })
    }

    /// Whether `tensor` is one that the file speaks of.
    pub(super) fn check(&self, tensor: &Tensor) -> Result<()> {
        let fits = self.dimensions.as_ref().is_none_or(|dimensions| {
            let size = |(dimension, &size): (&Dimension, &usize)| match dimension {
                Dimension::Fixed(fixed) => *fixed == size,
                Dimension::Named(_) | Dimension::Unknown => true,
            };
            dimensions.len() == tensor.rank() && dimensions.iter().zip(tensor.shape().iter()).all(size)
        });
        if fits && self.dtype.is_none_or(|dtype| dtype == tensor.dtype()) {
            return Ok(());
        }
        let as_here = match self.dtype {
            Some(dtype) => format!(", which is {dtype} here"),
            None => String::new(),
        };
        fail(format!("input {self}{as_here}: {}{} does not fit", tensor.dtype(), tensor.shape()))
    }
}
