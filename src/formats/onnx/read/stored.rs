//! Tensors as files hold them: in one of several fields, as raw bytes, or in another file.

use half::bf16;

use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::shape::{MAX_ELEMENTS, Shape};
use crate::tensor::Tensor;

use super::super::proto::{ElementType, TensorProto};
use super::call::fail;
use super::checks::{sizes, span};
use super::external::Files;
use super::value::{ELEMENTS, HOST_ELEMENTS, HostData, HostTensor, MAX_RANK, Value};

/// A float of this size is none of a weight.
const HIDING: f32 = 1e30;
/// The most floats that are kept on the host.
const HOST_FLOATS: usize = 64;

/// A tensor's elements in the type that devices have for them.
pub(super) struct Stored {
    pub(super) shape: Shape,
    pub(super) element: ElementType,
    pub(super) dtype: DType,
    /// Integers of 64 bits, or what is on a device.
    elements: Elements,
}

enum Elements {
    Ints(Vec<i64>),
    Bytes(Vec<u8>),
}

impl ElementType {
    /// The type with this number in a file.
    pub(in super::super) fn of(number: i32) -> Result<Self> {
        match Self::try_from(number) {
            Ok(Self::Undefined) | Err(_) => fail(format!("elements of type number {number} cannot be read")),
            Ok(element) => Ok(element),
        }
    }

    /// What its elements are here.
    pub(in super::super) fn dtype(self) -> Result<DType> {
        Ok(match self {
            Self::Float | Self::Double | Self::Bfloat16 => DType::F32,
            Self::Float16 => DType::F16,
            Self::Int8 | Self::Int16 | Self::Int32 | Self::Int64 => DType::I32,
            Self::Uint16 | Self::Uint32 | Self::Uint64 => DType::U32,
            Self::Uint8 => DType::U8,
            Self::Bool => DType::Bool,
            Self::String | Self::Undefined => return fail(format!("elements of type {} cannot be read", self.name())),
        })
    }

    /// As ONNX's documentation has it.
    pub(in super::super) fn name(self) -> &'static str {
        match self {
            Self::Undefined => "undefined",
            Self::Float => "float32",
            Self::Uint8 => "uint8",
            Self::Int8 => "int8",
            Self::Uint16 => "uint16",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::String => "string",
            Self::Bool => "bool",
            Self::Float16 => "float16",
            Self::Double => "float64",
            Self::Uint32 => "uint32",
            Self::Uint64 => "uint64",
            Self::Bfloat16 => "bfloat16",
        }
    }

    /// Bytes of an element in a file.
    const fn size(self) -> usize {
        match self {
            Self::Double | Self::Int64 | Self::Uint64 => 8,
            Self::Float | Self::Int32 | Self::Uint32 => 4,
            Self::Float16 | Self::Bfloat16 | Self::Int16 | Self::Uint16 => 2,
            _ => 1,
        }
    }

    /// The smallest and largest number of a type of integers.
    pub(super) fn range(self) -> Option<(i64, i64)> {
        Some(match self {
            Self::Uint8 => (0, u8::MAX.into()),
            Self::Int8 => (i8::MIN.into(), i8::MAX.into()),
            Self::Uint16 => (0, u16::MAX.into()),
            Self::Int16 => (i16::MIN.into(), i16::MAX.into()),
            Self::Int32 => (i32::MIN.into(), i32::MAX.into()),
            Self::Uint32 => (0, u32::MAX.into()),
            Self::Int64 => (i64::MIN, i64::MAX),
            _ => return None,
        })
    }
}

impl Stored {
    /// What a message says, or one of the other files.
    pub(super) fn read(tensor: TensorProto, files: &mut Files<'_>) -> Result<Self> {
        let element = ElementType::of(tensor.data_type)?;
        let dtype = element.dtype()?;
        if tensor.dims.len() > MAX_RANK {
            return fail(format!("it has {} axes, more than {MAX_RANK}", tensor.dims.len()));
        }
        let shape = Shape::from(sizes(&tensor.dims, "dimensions")?);
        let count = shape.numel();
        if count > MAX_ELEMENTS {
            return fail(format!("its shape {shape} has more elements than indices of 32 bits reach"));
        }
        if count == 0 && span(&shape) > ELEMENTS {
            return fail(format!("its shape {shape} has no elements, and sizes of more than {ELEMENTS} beside the 0"));
        }
        let raw = match tensor.data_location {
            0 if tensor.raw_data.is_empty() => from_fields(&tensor, element),
            0 => tensor.raw_data,
            1 => files.read(&tensor.external_data, count * element.size())?,
            other => return fail(format!("its elements are in a place of kind {other}, which is not known")),
        };
        if raw.len() != count * element.size() {
            return fail(format!(
                "it has {} bytes for {} elements of {}, shape {shape}: is the file whole?",
                raw.len(),
                count,
                element.name()
            ));
        }
        let elements = elements(raw, element);
        Ok(Self { shape, element, dtype, elements })
    }

    pub(super) fn numel(&self) -> usize {
        self.shape.numel()
    }

    /// Whether floats are so large that they hide what they are added to: no weights.
    pub(super) fn is_mask(&self) -> bool {
        let Elements::Bytes(bytes) = &self.elements else { return false };
        let hides = |bits: &[u8]| match *bits {
            [a, b, c, d] => f32::from_le_bytes([a, b, c, d]).abs() >= HIDING,
            [a, b] => half::f16::from_le_bytes([a, b]).to_f32().abs() >= half::f16::MAX.to_f32(),
            _ => false,
        };
        self.dtype.is_float() && bytes.chunks_exact(self.dtype.size_bytes()).any(hides)
    }

    /// A small one on the host, another on the device.
    pub(super) fn into_value(self, device: &Device) -> Result<Value> {
        let numel = self.numel();
        let most = if self.dtype.is_float() { HOST_FLOATS } else { HOST_ELEMENTS };
        if numel > most {
            return self.into_tensor(device).map(Value::Tensor);
        }
        Ok(Value::Host(self.into_host()))
    }

    /// On the host, however large it is.
    pub(super) fn into_host(self) -> HostTensor {
        let Self { shape, dtype, elements, .. } = self;
        let data = match elements {
            Elements::Ints(values) => HostData::Ints(values),
            Elements::Bytes(bytes) => {
                let values = crate::graph::reference::decode(dtype, &bytes);
                match dtype {
                    DType::F32 | DType::F16 => HostData::Floats(values.into_iter().map(|value| value as f32).collect()),
                    DType::Bool => HostData::Bools(values.into_iter().map(|value| value != 0.0).collect()),
                    _ => HostData::Ints(values.into_iter().map(|value| value as i64).collect()),
                }
            }
        };
        HostTensor { shape, data, dtype }
    }

    pub(super) fn into_tensor(self, device: &Device) -> Result<Tensor> {
        let bytes = match self.elements {
            Elements::Bytes(bytes) => bytes,
            Elements::Ints(values) => {
                if let Some(value) = values.iter().find(|&&value| !self.dtype.holds(value)) {
                    return fail(format!("{value} does not fit into {}, in which devices compute", self.dtype));
                }
                // the lower half is the number in 32 bits, signed or not
                values.iter().flat_map(|&value| (value as u32).to_le_bytes()).collect()
            }
        };
        Tensor::from_bytes(&bytes, self.shape, self.dtype, device)
    }
}

/// The bytes of the elements of the one field that a type has, little-endian.
fn from_fields(tensor: &TensorProto, element: ElementType) -> Vec<u8> {
    let ints = &tensor.int32_data;
    match element {
        ElementType::Float => tensor.float_data.iter().flat_map(|value| value.to_le_bytes()).collect(),
        ElementType::Double => tensor.double_data.iter().flat_map(|value| value.to_le_bytes()).collect(),
        ElementType::Int64 => tensor.int64_data.iter().flat_map(|value| value.to_le_bytes()).collect(),
        ElementType::Uint64 => tensor.uint64_data.iter().flat_map(|value| value.to_le_bytes()).collect(),
        ElementType::Uint32 => tensor.uint64_data.iter().flat_map(|&value| (value as u32).to_le_bytes()).collect(),
        ElementType::Int32 => ints.iter().flat_map(|value| value.to_le_bytes()).collect(),
        ElementType::Float16 | ElementType::Bfloat16 | ElementType::Int16 | ElementType::Uint16 => {
            ints.iter().flat_map(|&value| (value as u16).to_le_bytes()).collect()
        }
        _ => ints.iter().map(|&value| value as u8).collect(),
    }
}

/// Elements as they lie in a file, in the types that they have here.
fn elements(raw: Vec<u8>, element: ElementType) -> Elements {
    macro_rules! numbers {
        ($type:ty) => {
            raw.chunks_exact(size_of::<$type>())
                .map(|chunk| <$type>::from_le_bytes(chunk.try_into().unwrap_or_default()))
        };
    }
    macro_rules! ints {
        ($type:ty) => {
            // unsigned ones beyond the range stay beyond that of 32 bits
            Elements::Ints(numbers!($type).map(|value| i64::try_from(value).unwrap_or(i64::MAX)).collect())
        };
    }
    match element {
        ElementType::Double => Elements::Bytes(numbers!(f64).flat_map(|value| (value as f32).to_le_bytes()).collect()),
        ElementType::Bfloat16 => {
            let floats = numbers!(u16).map(|bits| bf16::from_bits(bits).to_f32());
            Elements::Bytes(floats.flat_map(f32::to_le_bytes).collect())
        }
        ElementType::Int64 => ints!(i64),
        ElementType::Int32 => ints!(i32),
        ElementType::Int16 => ints!(i16),
        ElementType::Int8 => ints!(i8),
        ElementType::Uint64 => ints!(u64),
        ElementType::Uint32 => ints!(u32),
        ElementType::Uint16 => ints!(u16),
        _ => Elements::Bytes(raw),
    }
}
