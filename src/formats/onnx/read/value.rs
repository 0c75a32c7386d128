//! Values while a model runs: tensors on the device, and small ones on the host, where shapes are computed.

use half::f16;

use crate::device::Device;
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::graph::reference::decode;
use crate::shape::Shape;
use crate::tensor::Tensor;

use super::call::fail;

/// A value may have this many elements, however small the model is.
pub(super) const ELEMENTS: usize = 1 << 24;
/// The most elements that are kept on the host and computed there.
pub(super) const HOST_ELEMENTS: usize = 4096;
/// More axes are no tensor's.
pub(super) const MAX_RANK: usize = 32;

/// What a name of the graph stands for.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Tensor(Tensor),
    Host(HostTensor),
}

/// A small constant. Integers are of 64 bits until they meet a tensor.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct HostTensor {
    pub(super) shape: Shape,
    pub(super) data: HostData,
    /// What it is on a device.
    pub(super) dtype: DType,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum HostData {
    Ints(Vec<i64>),
    Floats(Vec<f32>),
    Bools(Vec<bool>),
}

impl HostData {
    /// The elements with these numbers, which there are.
    pub(super) fn pick(&self, places: &[usize]) -> Self {
        match self {
            Self::Ints(values) => Self::Ints(places.iter().map(|&at| values[at]).collect()),
            Self::Floats(values) => Self::Floats(places.iter().map(|&at| values[at]).collect()),
            Self::Bools(values) => Self::Bools(places.iter().map(|&at| values[at]).collect()),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Ints(values) => values.len(),
            Self::Floats(values) => values.len(),
            Self::Bools(values) => values.len(),
        }
    }
}

impl HostTensor {
    /// Elements as they are in a type: floats of few bits are rounded.
    pub(super) fn new(shape: impl Into<Shape>, mut data: HostData, dtype: DType) -> Self {
        if let (DType::F16, HostData::Floats(values)) = (dtype, &mut data) {
            values.iter_mut().for_each(|value| *value = f16::from_f32(*value).to_f32());
        }
        Self { shape: shape.into(), data, dtype }
    }

    pub(super) fn ints(shape: impl Into<Shape>, values: Vec<i64>) -> Self {
        Self { shape: shape.into(), data: HostData::Ints(values), dtype: DType::I32 }
    }

    pub(super) fn floats(shape: impl Into<Shape>, values: Vec<f32>) -> Self {
        Self { shape: shape.into(), data: HostData::Floats(values), dtype: DType::F32 }
    }

    pub(super) fn bools(shape: impl Into<Shape>, values: Vec<bool>) -> Self {
        Self { shape: shape.into(), data: HostData::Bools(values), dtype: DType::Bool }
    }

    /// The elements as numbers.
    pub(super) fn to_f64(&self) -> Vec<f64> {
        match &self.data {
            HostData::Ints(values) => values.iter().map(|&value| value as f64).collect(),
            HostData::Floats(values) => values.iter().map(|&value| value.into()).collect(),
            HostData::Bools(values) => values.iter().map(|&value| u8::from(value).into()).collect(),
        }
    }

    /// The elements as integers; `None` if they are floats.
    pub(super) fn to_i64(&self) -> Option<Vec<i64>> {
        match &self.data {
            HostData::Ints(values) => Some(values.clone()),
            HostData::Floats(_) => None,
            HostData::Bools(values) => Some(values.iter().map(|&value| value.into()).collect()),
        }
    }

    /// On a device.
    pub(super) fn to_tensor(&self, device: &Device) -> Result<Tensor> {
        if let HostData::Ints(values) = &self.data
            && let Some(value) = values.iter().find(|&&value| !self.dtype.holds(value))
        {
            return fail(format!("{value} does not fit into {}, in which devices compute", self.dtype));
        }
        let values = self.to_f64();
        if let [value] = values[..] {
            return Ok(Tensor::constant(self.shape.clone(), Scalar::new(self.dtype, value), device));
        }
        let bytes: Vec<u8> = values
            .into_iter()
            .flat_map(|value| {
                let bits = Scalar::new(self.dtype, value).bits.to_le_bytes();
                bits.into_iter().take(self.dtype.size_bytes())
            })
            .collect();
        Tensor::from_bytes(&bytes, self.shape.clone(), self.dtype, device)
    }

    /// The elements of a tensor, which are computed and waited for.
    pub(super) fn read(tensor: &Tensor) -> Result<Self> {
        let (shape, dtype) = (tensor.shape().clone(), tensor.dtype());
        let values = decode(dtype, &pollster::block_on(tensor.to_bytes())?);
        let data = match dtype {
            DType::F32 | DType::F16 => HostData::Floats(values.into_iter().map(|value| value as f32).collect()),
            DType::Bool => HostData::Bools(values.into_iter().map(|value| value != 0.0).collect()),
            _ => HostData::Ints(values.into_iter().map(|value| value as i64).collect()),
        };
        Ok(Self { shape, data, dtype })
    }
}

impl Value {
    pub(super) fn shape(&self) -> &Shape {
        match self {
            Self::Tensor(tensor) => tensor.shape(),
            Self::Host(host) => &host.shape,
        }
    }

    pub(super) fn dtype(&self) -> DType {
        match self {
            Self::Tensor(tensor) => tensor.dtype(),
            Self::Host(host) => host.dtype,
        }
    }
}

impl From<Tensor> for Value {
    fn from(tensor: Tensor) -> Self {
        Self::Tensor(tensor)
    }
}

impl From<HostTensor> for Value {
    fn from(host: HostTensor) -> Self {
        Self::Host(host)
    }
}
