//! A model's weights as a file, under PyTorch's names: safetensors is written and read, what `torch.save` writes is
//! read.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use half::{bf16, f16};
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensorError, SafeTensors};

use crate::device::Device;
use crate::dtype::{DType, Scalar};
use crate::error::{Error, Result, StateMismatch};
use crate::files::{stand_in, write_whole};
use crate::formats::torch;
use crate::runtime::Var;
use crate::tensor::Tensor;

use super::Variables;
use super::state::{LoadOptions, LoadReport, fit, named};

/// The weights of `model` as the contents of a safetensors file: what [`state`](super::state) lists. Counters are
/// written with 64 bits, as PyTorch's.
///
/// # Errors
/// If the device fails.
#[track_caller]
pub fn to_safetensors<M: Variables + ?Sized>(model: &M) -> Result<Vec<u8>> {
    let mut values = Vec::new();
    for (name, variable) in named(model) {
        let bytes = pollster::block_on(variable.tensor().to_bytes())?;
        let (dtype, bytes) = stored(&variable, bytes);
        values.push(NamedValue { name, dtype, shape: variable.shape().to_vec(), bytes });
    }
    serialize(&values, None, Path::new("weights"))
}

/// One tensor of a safetensors file.
pub(crate) struct NamedValue {
    pub(crate) name: String,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    /// As they are stored, as many as type and shape ask for.
    pub(crate) bytes: Vec<u8>,
}

/// The contents of a safetensors file with these values; `path` is for messages.
pub(crate) fn serialize(
    values: &[NamedValue],
    metadata: Option<HashMap<String, String>>,
    path: &Path,
) -> Result<Vec<u8>> {
    let views = values.iter().map(|NamedValue { name, dtype, shape, bytes }| {
        let view = TensorView::new(*dtype, shape.clone(), bytes).expect("bytes are those of the shape and type");
        (name, view)
    });
    safetensors::serialize(views, metadata).map_err(|error| Error::format(path, reason(&error)))
}

/// Writes the weights of `model` to `path`, whole or not at all.
///
/// # Errors
/// If the device fails or the file cannot be written.
///
/// ```
/// use brasa::Device;
/// use brasa::nn::{Init, Linear, LoadOptions, load_weights, save_weights};
///
/// let (device, path) = (Device::cpu(), std::env::temp_dir().join("brasa-example.safetensors"));
/// let trained = Linear::new(3, 2, &Init::new(&device, 1))?;
/// save_weights(&trained, &path)?;
/// let other = Linear::new(3, 2, &Init::new(&device, 2))?;
/// load_weights(&other, &path, &LoadOptions::default())?;
/// assert_eq!(other.weight.tensor().to_vec::<f32>()?, trained.weight.tensor().to_vec::<f32>()?);
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), brasa::Error>(())
/// ```
#[track_caller]
pub fn save_weights<M: Variables + ?Sized>(model: &M, path: impl AsRef<Path>) -> Result<()> {
    write_whole(path.as_ref(), &to_safetensors(model)?)
}

/// Writes named tensors, such as [`state`](super::state) lists or
/// [`Optimizer::state_dict`](crate::optim::Optimizer::state_dict), as a safetensors file to `path`, whole or not at
/// all.
///
/// # Errors
/// If the device fails or the file cannot be written.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use brasa::nn::{load_tensors, save_tensors};
/// use brasa::{Device, Tensor};
///
/// let (device, path) = (Device::cpu(), std::env::temp_dir().join("brasa-tensors.safetensors"));
/// let mean = Tensor::from_slice(&[0.5_f32, 0.25], [2], &device)?;
/// save_tensors(&BTreeMap::from([("mean".to_owned(), mean)]), &path)?;
/// assert_eq!(load_tensors(&path, &device)?["mean"].to_vec::<f32>()?, [0.5, 0.25]);
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), brasa::Error>(())
/// ```
pub fn save_tensors(tensors: &BTreeMap<String, Tensor>, path: impl AsRef<Path>) -> Result<()> {
    let mut values = Vec::with_capacity(tensors.len());
    for (name, tensor) in tensors {
        let bytes = pollster::block_on(tensor.to_bytes())?;
        let (dtype, shape) = (in_files(tensor.dtype()), tensor.shape().to_vec());
        values.push(NamedValue { name: name.clone(), dtype, shape, bytes });
    }
    write_whole(path.as_ref(), &serialize(&values, None, path.as_ref())?)
}

/// The tensors of the file at `path`, on `device`: safetensors, or a state dict as `torch.save` writes it since PyTorch
/// 1.6, of which nothing is run. Floats of 64 bits and bf16 become f32; integers of other sizes i32, in which they
/// saturate.
///
/// # Errors
/// If the file cannot be read or is malformed, or the device fails.
pub fn load_tensors(path: impl AsRef<Path>, device: &Device) -> Result<BTreeMap<String, Tensor>> {
    let path = path.as_ref();
    let bytes = std::fs::read(path).map_err(|error| Error::io(path, error))?;
    let mut tensors = BTreeMap::new();
    let file = parsed(&bytes, path)?;
    if let Some((name, reason)) = file.unreadable.first() {
        return Err(unreadable(path, name, reason));
    }
    for tensor in file.tensors {
        let dtype = match tensor.dtype {
            Dtype::F64 | Dtype::F32 | Dtype::BF16 => DType::F32,
            Dtype::F16 => DType::F16,
            Dtype::BOOL => DType::Bool,
            Dtype::U8 => DType::U8,
            Dtype::U32 => DType::U32,
            _ => DType::I32,
        };
        let bytes = tensor.converted(dtype, path)?;
        let value = Tensor::from_bytes(&bytes, &tensor.shape[..], dtype, device)?;
        tensors.insert(tensor.name, value);
    }
    Ok(tensors)
}

/// Sets the variables of `model` to the values of their names in the file at `path`, which [`load_tensors`] could read,
/// converted to the variables' types; nothing changes unless all fit.
///
/// # Errors
/// If the file cannot be read or is malformed, and [`Error::State`] if names or shapes do not fit.
#[track_caller]
pub fn load_weights<M: Variables + ?Sized>(
    model: &M,
    path: impl AsRef<Path>,
    options: &LoadOptions,
) -> Result<LoadReport> {
    let path = path.as_ref();
    let bytes = std::fs::read(path).map_err(|error| Error::io(path, error))?;
    weights_from_bytes(model, path, &bytes, options)
}

/// [`load_weights`] from the contents of a file; `path` is for messages.
///
/// # Errors
/// As [`load_weights`].
#[track_caller]
pub fn weights_from_bytes<M: Variables + ?Sized>(
    model: &M,
    path: &Path,
    bytes: &[u8],
    options: &LoadOptions,
) -> Result<LoadReport> {
    let file = parsed(bytes, path)?;
    let keys = file.tensors.iter().map(|tensor| (tensor.name.as_str(), &tensor.shape[..]));
    let fitted = fit(model, keys, options);
    let missing = match &fitted {
        Ok((_, report)) => &report.missing,
        Err(problems) => &problems.missing,
    };
    // what is missing may be there, but not to be read
    let is_wanted = |name: &str| options.target(name).is_some_and(|target| missing.contains(&target));
    if let Some((name, reason)) = file.unreadable.iter().find(|(name, _)| is_wanted(name)) {
        return Err(unreadable(path, name, reason));
    }
    let (targets, report) =
        fitted.map_err(|problems| Box::new(StateMismatch { path: Some(path.to_owned()), ..problems }))?;
    let named: HashMap<&str, &InFile<'_>> = file.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
    // all conversions before the first change
    let mut values = Vec::with_capacity(targets.len());
    for (variable, key) in targets {
        let bytes = named[key.as_str()].converted(variable.dtype(), path)?;
        values.push((variable, bytes));
    }
    for (variable, bytes) in values {
        variable.set(&Tensor::from_bytes(&bytes, variable.shape(), variable.dtype(), variable.device())?)?;
    }
    Ok(report)
}

/// What is in a file.
struct Parsed<'a> {
    tensors: Vec<InFile<'a>>,
    /// Names of tensors that cannot be read, and why.
    unreadable: Vec<(String, String)>,
}

fn unreadable(path: &Path, name: &str, reason: &str) -> Error {
    Error::format(path, format!("`{name}` {reason}"))
}

/// A tensor in a file.
struct InFile<'a> {
    name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Cow<'a, [u8]>,
}

impl InFile<'_> {
    fn converted(&self, to: DType, path: &Path) -> Result<Vec<u8>> {
        converted(&self.bytes, self.dtype, to).ok_or_else(|| {
            let Self { name, dtype, .. } = self;
            Error::format(path, format!("`{name}` has elements of type {dtype:?}, which cannot be read"))
        })
    }
}

fn parsed<'a>(bytes: &'a [u8], path: &Path) -> Result<Parsed<'a>> {
    if let Some(what) = stand_in(bytes) {
        return Err(Error::format(path, what));
    }
    if torch::is_of_torch(bytes) {
        let torch::Contents { tensors, unreadable } =
            torch::read(bytes).map_err(|reason| Error::format(path, reason))?;
        let in_file =
            |torch::StoredTensor { name, dtype, shape, bytes }| InFile { name, dtype, shape, bytes: Cow::Owned(bytes) };
        return Ok(Parsed { tensors: tensors.into_iter().map(in_file).collect(), unreadable });
    }
    let file = SafeTensors::deserialize(bytes).map_err(|error| Error::format(path, reason(&error)))?;
    let in_file = |(name, view): (String, TensorView<'a>)| InFile {
        name,
        dtype: view.dtype(),
        shape: view.shape().to_vec(),
        bytes: Cow::Borrowed(view.data()),
    };
    Ok(Parsed { tensors: file.tensors().into_iter().map(in_file).collect(), unreadable: Vec::new() })
}

/// What is wrong with a file, in words that say what to do.
pub(crate) fn reason(error: &SafeTensorError) -> String {
    let hint = match error {
        SafeTensorError::HeaderTooSmall | SafeTensorError::InvalidHeaderLength => {
            "it ends within its header: is it a safetensors file, and whole?"
        }
        SafeTensorError::HeaderTooLarge => "its header claims to be of more than 100 MB: is it a safetensors file?",
        SafeTensorError::MetadataIncompleteBuffer => "its length is not what its header says: is it whole?",
        _ => "it is damaged or no safetensors file",
    };
    format!("{error}: {hint}")
}

/// The bytes as they are stored, and their type.
fn stored(variable: &Var, bytes: Vec<u8>) -> (Dtype, Vec<u8>) {
    if variable.dtype() == DType::I32 && variable.name().ends_with("num_batches_tracked") {
        let counts = bytemuck::pod_collect_to_vec::<u8, i32>(&bytes);
        return (Dtype::I64, counts.iter().flat_map(|&count| i64::from(count).to_le_bytes()).collect());
    }
    (in_files(variable.dtype()), bytes)
}

pub(crate) const fn in_files(dtype: DType) -> Dtype {
    match dtype {
        DType::F32 => Dtype::F32,
        DType::F16 => Dtype::F16,
        DType::I32 => Dtype::I32,
        DType::U32 => Dtype::U32,
        DType::U8 => Dtype::U8,
        DType::Bool => Dtype::BOOL,
    }
}

/// The elements in another type: floats are rounded, integers saturate. `None` for types that are not known here.
fn converted(bytes: &[u8], from: Dtype, to: DType) -> Option<Vec<u8>> {
    macro_rules! elements {
        ($type:ty) => {{
            const SIZE: usize = size_of::<$type>();
            let read = |chunk: &[u8]| <$type>::from_le_bytes(chunk.try_into().unwrap_or([0; SIZE]));
            bytes.chunks_exact(SIZE).flat_map(|chunk| encoded(read(chunk), to)).collect()
        }};
    }
    Some(match from {
        from if from == in_files(to) && from != Dtype::BOOL => bytes.to_vec(),
        Dtype::F64 => elements!(f64),
        Dtype::F32 => elements!(f32),
        Dtype::F16 => elements!(f16),
        Dtype::BF16 => elements!(bf16),
        Dtype::I64 => elements!(i64),
        Dtype::I32 => elements!(i32),
        Dtype::I16 => elements!(i16),
        Dtype::I8 => elements!(i8),
        Dtype::U64 => elements!(u64),
        Dtype::U32 => elements!(u32),
        Dtype::U16 => elements!(u16),
        Dtype::U8 => elements!(u8),
        // any byte but 0 is true
        Dtype::BOOL => bytes.iter().flat_map(|&byte| encoded(u8::from(byte != 0), to)).collect(),
        _ => return None,
    })
}

/// A number that is read from a file.
trait Number {
    fn to_f64(self) -> f64;
}

macro_rules! numbers {
    ($($type:ty: |$value:ident| $f64:expr;)*) => {$(
        impl Number for $type {
            fn to_f64(self) -> f64 {
                let $value = self;
                $f64
            }
        }
    )*};
}
numbers! {
    f64: |value| value;
    f32: |value| value.into();
    f16: |value| value.to_f64();
    bf16: |value| value.to_f64();
    // beyond 2^53 to the nearest even, which is far beyond what fits into 32 bits
    i64: |value| value as f64;
    u64: |value| value as f64;
    i32: |value| value.into();
    u32: |value| value.into();
    i16: |value| value.into();
    u16: |value| value.into();
    i8: |value| value.into();
    u8: |value| value.into();
}

fn encoded(value: impl Number, to: DType) -> impl Iterator<Item = u8> {
    Scalar::new(to, value.to_f64()).bits.to_le_bytes().into_iter().take(to.size_bytes())
}
