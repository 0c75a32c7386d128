//! Element types, and one element of any of them.

use std::borrow::Cow;
use std::fmt;

use half::f16;

/// The type of a tensor's elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// IEEE single precision, the default.
    F32,
    /// IEEE half precision; stored in 16 bits, computed in 32.
    F16,
    /// Signed 32-bit integer, wrapping.
    I32,
    /// Unsigned 32-bit integer, wrapping.
    U32,
    /// Unsigned byte: pictures and masks. Storage only, computed as `U32`.
    U8,
    /// Truth value, one byte in memory (0 or 1).
    Bool,
}

impl DType {
    /// Every element type.
    pub const ALL: [Self; 6] = [Self::F32, Self::F16, Self::I32, Self::U32, Self::U8, Self::Bool];

    /// Bytes of one element in memory.
    pub const fn size_bytes(self) -> usize {
        match self {
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F16 => 2,
            Self::U8 | Self::Bool => 1,
        }
    }

    /// The same elements with one pattern of bits for each value: any byte but 0 is a `true`, which kernels take for 1.
    pub(crate) fn canonical(self, bytes: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Self::Bool if bytes.iter().any(|&byte| byte > 1) => bytes.iter().map(|&byte| u8::from(byte != 0)).collect(),
            _ => Cow::Borrowed(bytes),
        }
    }

    /// True for `F32` and `F16`.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F16)
    }

    /// True if `value` is a number of this integer type; of other types, always.
    pub(crate) fn holds(self, value: i64) -> bool {
        match self {
            Self::F32 | Self::F16 | Self::Bool => true,
            Self::I32 => i32::try_from(value).is_ok(),
            Self::U32 => u32::try_from(value).is_ok(),
            Self::U8 => u8::try_from(value).is_ok(),
        }
    }

    /// The same of a number that may have a fraction, which no integer type has.
    pub(crate) fn holds_number(self, value: f64) -> bool {
        self.is_float() || self == Self::Bool || (value.fract() == 0.0 && self.holds(value as i64))
    }

    /// The largest finite value of a float type; of other types infinity, which they do not overflow to.
    pub(crate) const fn largest_finite(self) -> f64 {
        match self {
            Self::F32 => f32::MAX as f64,
            Self::F16 => 65504.0,
            Self::I32 | Self::U32 | Self::U8 | Self::Bool => f64::INFINITY,
        }
    }

    /// Whether `got`, a value of this type, is `expected` without any tolerance: the same, both no number, or the
    /// infinity that it overflows to.
    pub(crate) fn same_or_overflown(self, got: f64, expected: f64) -> bool {
        let overflown =
            got.is_infinite() && got.signum() == expected.signum() && expected.abs() > self.largest_finite();
        got == expected || got.is_nan() && expected.is_nan() || overflown
    }

    /// The name in messages and dumps, as in Rust.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::I32 => "i32",
            Self::U32 => "u32",
            Self::U8 => "u8",
            Self::Bool => "bool",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One element: a type and its bits (so that it can be hashed, and NaN travels unharmed).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Scalar {
    /// Its type.
    pub dtype: DType,
    /// Its bits, zero-extended to 32.
    pub bits: u32,
}

impl Scalar {
    /// `value` rounded to `dtype`; integers truncate and saturate as Rust's `as` does.
    pub fn new(dtype: DType, value: f64) -> Self {
        let bits = match dtype {
            DType::F32 => (value as f32).to_bits(),
            DType::F16 => u32::from(f16::from_f64(value).to_bits()),
            DType::I32 => (value as i32).cast_unsigned(),
            DType::U32 => value as u32,
            DType::U8 => u32::from(value as u8),
            DType::Bool => u32::from(value != 0.0),
        };
        Self { dtype, bits }
    }

    /// The value, exactly.
    pub fn to_f64(self) -> f64 {
        match self.dtype {
            DType::F32 => f64::from(f32::from_bits(self.bits)),
            DType::F16 => f16::from_bits(self.bits as u16).to_f64(),
            DType::I32 => f64::from(self.bits.cast_signed()),
            DType::U32 | DType::U8 | DType::Bool => f64::from(self.bits),
        }
    }
}

impl From<f32> for Scalar {
    fn from(value: f32) -> Self {
        Self { dtype: DType::F32, bits: value.to_bits() }
    }
}

impl From<i32> for Scalar {
    fn from(value: i32) -> Self {
        Self { dtype: DType::I32, bits: value.cast_unsigned() }
    }
}

impl From<u32> for Scalar {
    fn from(value: u32) -> Self {
        Self { dtype: DType::U32, bits: value }
    }
}

impl fmt::Debug for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.to_f64(), self.dtype)
    }
}

/// A Rust type that is the element of a tensor.
pub trait Element: Copy + Send + Sync + 'static {
    /// The corresponding element type.
    const DTYPE: DType;
    /// The bytes of `values`, as they lie in memory.
    fn to_bytes(values: &[Self]) -> Cow<'_, [u8]>;
    /// Appends the values in `bytes`, whose length is a multiple of the element's size.
    fn append(values: &mut Vec<Self>, bytes: &[u8]);
    /// The values in `bytes`, whose length is a multiple of the element's size.
    fn from_bytes(bytes: &[u8]) -> Vec<Self> {
        let mut values = Vec::with_capacity(bytes.len() / Self::DTYPE.size_bytes());
        Self::append(&mut values, bytes);
        values
    }
}

macro_rules! pod_element {
    ($($rust:ty => $dtype:ident),*) => {$(
        impl Element for $rust {
            const DTYPE: DType = DType::$dtype;
            fn to_bytes(values: &[Self]) -> Cow<'_, [u8]> {
                Cow::Borrowed(bytemuck::cast_slice(values))
            }
            fn append(values: &mut Vec<Self>, bytes: &[u8]) {
                match bytemuck::try_cast_slice(bytes) {
                    Ok(aligned) => values.extend_from_slice(aligned),
                    Err(_) => values.extend(bytemuck::pod_collect_to_vec::<u8, $rust>(bytes)),
                }
            }
        }
    )*};
}
pod_element!(f32 => F32, f16 => F16, i32 => I32, u32 => U32, u8 => U8);

impl Element for bool {
    const DTYPE: DType = DType::Bool;
    fn to_bytes(values: &[Self]) -> Cow<'_, [u8]> {
        values.iter().map(|&v| u8::from(v)).collect()
    }
    fn append(values: &mut Vec<Self>, bytes: &[u8]) {
        values.extend(bytes.iter().map(|&b| b != 0));
    }
}
