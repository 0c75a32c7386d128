//! State dicts as PyTorch's `torch.save` writes them since version 1.6: a zip archive with a pickle of what was saved
//! and a file for each storage. Nothing in them is run.

mod pickle;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io::{Cursor, Read as _};
use std::rc::Rc;

use safetensors::tensor::Dtype;
use zip::ZipArchive;

use crate::units::some;

use pickle::{Id, MAX_BYTES, Pickle, Value};

/// Under which names training scripts save the weights beside other things.
const CONTAINERS: [&str; 4] = ["state_dict", "model_state_dict", "model", "net"];
/// How the functions begin that make tensors.
const REBUILD: [&str; 2] = ["torch._utils._rebuild", "torch._tensor._rebuild"];
/// Tensors may share a storage, as tied weights do, but not without end.
const MAX_TIMES: usize = 8;
/// More axes are no tensor's, and would take long.
const MAX_RANK: usize = 64;
/// Calls around the one that makes a tensor.
const MAX_WRAPPERS: usize = 4;
/// How `torch.save` before 1.6 begins: a pickle of protocol 2 with a number of ten bytes.
const LEGACY: &[u8] = b"\x80\x02\x8a\x0a";

/// What is in a file.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) tensors: Vec<StoredTensor>,
    /// Names of tensors that cannot be read, and why.
    pub(crate) unreadable: Vec<(String, String)>,
}

/// A tensor of a file.
#[derive(Debug)]
pub(crate) struct StoredTensor {
    pub(crate) name: String,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    /// Row-major, little-endian.
    pub(crate) bytes: Vec<u8>,
}

/// Whether the contents of a file look like those of `torch.save`.
pub(crate) fn is_of_torch(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(LEGACY)
}

/// The tensors of the state dict in a file: of one in what was saved by a usual name, or of what was saved. The error
/// says what is wrong, not where.
pub(crate) fn read(bytes: &[u8]) -> Result<Contents, String> {
    if bytes.starts_with(LEGACY) {
        return Err(
            "it is in the format of PyTorch before 1.6: `torch.save(torch.load(path), path)` writes another".into()
        );
    }
    let mut archive = Archive::open(bytes)?;
    let pickle = Pickle::read(&archive.file("data.pkl", MAX_BYTES)?)?;
    let mut storages = HashMap::new();
    let (mut contents, mut total) = (Contents::default(), 0_usize);
    let mut count = |more: usize| {
        total = total.saturating_add(more);
        let within = total <= MAX_TIMES * bytes.len();
        within.then_some(()).ok_or_else(|| format!("it takes more than {MAX_TIMES} times its size: is it damaged?"))
    };
    for (name, tensor) in state_dict(&pickle)? {
        count(name.len())?;
        let rebuilt = match Rebuilt::of(&pickle, tensor) {
            Ok(None) => continue,
            Ok(Some(rebuilt)) => rebuilt,
            Err(reason) => {
                count(reason.len())?;
                contents.unreadable.push((name.to_owned(), reason));
                continue;
            }
        };
        let storage = match storages.get(rebuilt.storage) {
            Some(storage) => Rc::clone(storage),
            None => {
                let name = format!("data/{}", rebuilt.storage);
                count(usize::try_from(archive.size(&name)?).unwrap_or(usize::MAX))?;
                let storage = Rc::new(archive.file(&name, u64::MAX)?);
                storages.insert(rebuilt.storage, Rc::clone(&storage));
                storage
            }
        };
        match rebuilt.elements(&storage) {
            Ok(bytes) => {
                count(bytes.len())?;
                let (name, dtype, shape) = (name.to_owned(), rebuilt.dtype, rebuilt.shape);
                contents.tensors.push(StoredTensor { name, dtype, shape, bytes });
            }
            Err(reason) => contents.unreadable.push((name.to_owned(), reason)),
        }
    }
    Ok(contents)
}

/// The files of an archive.
struct Archive<'a> {
    zip: ZipArchive<Cursor<&'a [u8]>>,
    /// The folder that all of them lie in, with its slash.
    folder: String,
}

impl<'a> Archive<'a> {
    fn open(bytes: &'a [u8]) -> Result<Self, String> {
        let zip = ZipArchive::new(Cursor::new(bytes)).map_err(|error| format!("{error}: is it whole?"))?;
        let mut names = zip.file_names().filter_map(Result::ok);
        let folder = names.find_map(|name| name.strip_suffix("data.pkl").map(str::to_owned));
        let folder = folder.ok_or("it is an archive, but not one of torch.save: there is no data.pkl in it")?;
        drop(names);
        let mut archive = Self { zip, folder };
        match archive.file("byteorder", 16) {
            Ok(order) if order != b"little" => Err("it was written on a big-endian machine: save it on another".into()),
            // files of before PyTorch 2.1 do not say
            _ => Ok(archive),
        }
    }

    /// How many bytes a file claims to have.
    fn size(&mut self, name: &str) -> Result<u64, String> {
        self.zip.by_name(&format!("{}{name}", self.folder)).map(|file| file.size()).map_err(|error| wrong(name, &error))
    }

    fn file(&mut self, name: &str, most: u64) -> Result<Vec<u8>, String> {
        let file = self.zip.by_name(&format!("{}{name}", self.folder)).map_err(|error| wrong(name, &error))?;
        if file.size() > most {
            return Err(format!("{name} in the archive has {} bytes, more than is read", file.size()));
        }
        let (mut bytes, size) = (Vec::new(), file.size());
        // one more, as the checksum is looked at where the file ends
        file.take(size.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| wrong(name, &error))?;
        Ok(bytes)
    }
}

fn wrong(name: &str, error: &dyn std::fmt::Display) -> String {
    format!("{name} in the archive cannot be read: {error}")
}

/// Names and values of the state dict in a pickle.
fn state_dict(pickle: &Pickle) -> Result<Vec<(&str, Id)>, String> {
    let named = |value: &Value| -> Option<Vec<(&str, Id)>> {
        let Value::Dict(entries) = value else { return None };
        let name = |&(key, value): &(Id, Id)| match &pickle[key] {
            Value::Text(name) => Some((name.as_str(), value)),
            _ => None,
        };
        Some(entries.iter().filter_map(name).collect())
    };
    let Some(outer) = named(pickle.root()) else {
        return Err("it holds no state dict, but maybe a whole model: `torch.save(model.state_dict(), path)`".into());
    };
    let is_tensor = |value: Id| match pickle[value] {
        Value::Call(called, _) => matches!(&pickle[called], Value::Global(function) if makes_tensors(function)),
        _ => false,
    };
    let has_tensors = |entries: &[(&str, Id)]| entries.iter().any(|&(_, value)| is_tensor(value));
    // beside it there may be tensors, such as the best accuracy
    let inner = CONTAINERS.iter().filter_map(|wanted| outer.iter().find(|(name, _)| name == wanted));
    if let Some(inner) = inner.filter_map(|&(_, value)| named(&pickle[value])).find(|inner| has_tensors(inner)) {
        return Ok(inner);
    }
    if has_tensors(&outer) {
        return Ok(outer);
    }
    let names: Vec<&str> = outer.iter().map(|&(name, _)| name).collect();
    let there = if names.is_empty() { "nothing".to_owned() } else { some(&names) };
    Err(format!("there are no tensors in it, nor in what is called {}: it has {there}", CONTAINERS.join(", ")))
}

fn makes_tensors(function: &str) -> bool {
    REBUILD.iter().any(|start| function.starts_with(start))
}

/// How a tensor is made of a storage.
struct Rebuilt<'a> {
    storage: &'a str,
    dtype: Dtype,
    offset: usize,
    shape: Vec<usize>,
    /// In elements.
    strides: Vec<usize>,
}

impl<'a> Rebuilt<'a> {
    /// What a value says; nothing if it is no tensor.
    fn of(pickle: &'a Pickle, value: Id) -> Result<Option<Self>, String> {
        let Value::Call(mut function, mut arguments) = pickle[value] else { return Ok(None) };
        for _ in 0..=MAX_WRAPPERS {
            let (Value::Global(name), Value::Sequence(parts)) = (&pickle[function], &pickle[arguments]) else {
                return Ok(None);
            };
            (function, arguments) = match (name.as_str(), &parts[..]) {
                ("torch._utils._rebuild_tensor_v2", [storage, offset, shape, strides, rest @ ..]) => {
                    if rest
                        .get(2)
                        .is_some_and(|&metadata| matches!(&pickle[metadata], Value::Dict(all) if !all.is_empty()))
                    {
                        let reason = "is a negated or conjugated view: save it after `.resolve_neg().resolve_conj()`";
                        return Err(reason.into());
                    }
                    return Self::parts(pickle, [*storage, *offset, *shape, *strides]).map(Some);
                }
                // around a tensor
                ("torch._utils._rebuild_parameter" | "torch._utils._rebuild_parameter_with_state", [inner, ..]) => {
                    let Value::Call(function, arguments) = pickle[*inner] else { return Ok(None) };
                    (function, arguments)
                }
                // with attributes of its own: function, class, arguments, attributes
                ("torch._tensor._rebuild_from_type_v2", [inner, _, inner_arguments, ..]) => (*inner, *inner_arguments),
                (function, _) if makes_tensors(function) => {
                    return Err(format!("is made by {function}, which is not known here: save it dense, as float32"));
                }
                _ => return Ok(None),
            };
        }
        Err(format!("is damaged: more than {MAX_WRAPPERS} others are around it"))
    }

    fn parts(pickle: &'a Pickle, [storage, offset, shape, strides]: [Id; 4]) -> Result<Self, String> {
        let damaged = || "is damaged: its storage, offset, sizes and strides are not what PyTorch writes".to_owned();
        let size = |id: Id| match pickle[id] {
            Value::Int(number) => usize::try_from(number).ok(),
            _ => None,
        };
        let sizes = |id: Id| match &pickle[id] {
            Value::Sequence(parts) => parts.iter().map(|&part| size(part)).collect::<Option<Vec<_>>>(),
            _ => None,
        };
        let Value::Outside(storage) = &pickle[storage] else { return Err(damaged()) };
        // ("storage", its class, its key, where it lay, how many elements it has)
        let Value::Sequence(storage) = &pickle[*storage] else { return Err(damaged()) };
        let [_, class, key, ..] = storage[..] else { return Err(damaged()) };
        let (Value::Global(class), Value::Text(storage)) = (&pickle[class], &pickle[key]) else {
            return Err(damaged());
        };
        let dtype = dtype(class).ok_or_else(|| format!("is of {class}, which cannot be read: save it as float32"))?;
        let read = (size(offset), sizes(shape), sizes(strides));
        let (Some(offset), Some(shape), Some(strides)) = read else { return Err(damaged()) };
        if shape.len() != strides.len() || shape.len() > MAX_RANK {
            return Err(damaged());
        }
        Ok(Self { storage, dtype, offset, shape, strides })
    }

    /// The elements in row-major order.
    fn elements(&self, storage: &[u8]) -> Result<Vec<u8>, String> {
        let outside = || "is damaged: it reaches beyond its storage".to_owned();
        let size = self.dtype.bitsize() / 8;
        let count = self.shape.iter().try_fold(1_usize, |count, &size| count.checked_mul(size)).ok_or_else(outside)?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let last = self
            .shape
            .iter()
            .zip(&self.strides)
            .try_fold(self.offset, |last, (&size, &stride)| last.checked_add((size - 1).checked_mul(stride)?));
        let end = last.and_then(|last| last.checked_add(1)?.checked_mul(size)).ok_or_else(outside)?;
        if end > storage.len() {
            return Err(outside());
        }
        if count > storage.len() / size {
            return Err("repeats elements of its storage: save it after `.contiguous()`".into());
        }
        let mut dense = 1;
        let is_dense = self.shape.iter().zip(&self.strides).rev().all(|(&size, &stride)| {
            let fits = size == 1 || stride == dense;
            dense *= size;
            fits
        });
        if is_dense {
            return Ok(storage[self.offset * size..end].to_vec());
        }
        let mut bytes = Vec::with_capacity(count * size);
        let mut point = vec![0; self.shape.len()];
        for _ in 0..count {
            let at = point.iter().zip(&self.strides).map(|(at, stride)| at * stride).sum::<usize>() + self.offset;
            bytes.extend_from_slice(&storage[at * size..(at + 1) * size]);
            for (coordinate, &size) in point.iter_mut().zip(&self.shape).rev() {
                *coordinate += 1;
                if *coordinate < size {
                    break;
                }
                *coordinate = 0;
            }
        }
        Ok(bytes)
    }
}

/// The type of a storage's elements.
fn dtype(class: &str) -> Option<Dtype> {
    Some(match class.strip_prefix("torch.")? {
        "FloatStorage" => Dtype::F32,
        "DoubleStorage" => Dtype::F64,
        "HalfStorage" => Dtype::F16,
        "BFloat16Storage" => Dtype::BF16,
        "LongStorage" => Dtype::I64,
        "IntStorage" => Dtype::I32,
        "ShortStorage" => Dtype::I16,
        "CharStorage" => Dtype::I8,
        "ByteStorage" => Dtype::U8,
        "BoolStorage" => Dtype::BOOL,
        _ => return None,
    })
}
