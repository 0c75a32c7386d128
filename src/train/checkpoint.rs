//! Files that a run goes on from: everything that decides its next numbers, in one safetensors file.
//!
//! Tensors are `model.NAME`, `average.NAME`, `optimizer.NAME` and `other.NAME`; what is no tensor is JSON in the
//! header's metadata. Any reader of safetensors sees both. A file has a version; one of another version is refused with
//! words that say which can be read. It also has a checksum over all of this, because a run that went on from damaged
//! numbers would look like any other.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use serde::{Deserialize, Serialize};

use crate::data::State;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::files::write_whole;
use crate::nn::{LoadOptions, LoadReport, Module, NamedValue, in_files, reason, serialize, weights_from_bytes};
use crate::optim::Scheduler;
use crate::shape::Shape;
use crate::tensor::Tensor;

use super::environment::Environment;
use super::length::Length;
use super::record::number;
use super::scores::TestMetrics;

/// The only version that is written and read.
pub const CHECKPOINT_VERSION: u32 = 2;

const FORMAT: &str = "brasa-checkpoint";
const SUFFIX: &str = "safetensors";
/// What names of tensors begin with.
pub(super) const MODEL: &str = "model.";
pub(super) const AVERAGE: &str = "average.";
pub(super) const OPTIMIZER: &str = "optimizer.";
pub(super) const OTHER: &str = "other.";
/// All of them; the averaged weights, by which a run is judged, before the model's.
const PARTS: [&str; 4] = [AVERAGE, MODEL, OPTIMIZER, OTHER];

/// Where a run stands, beside its tensors.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Progress {
    /// Steps done.
    pub steps: u64,
    /// How long the run was to be. Checkpoints from before this was kept have none.
    #[serde(default)]
    pub length: Option<Length>,
    /// The epoch that is under way, from 0.
    pub epoch: usize,
    /// Sums over the part of that epoch that is done.
    pub sums: EpochSums,
    /// That epoch was told of, and its evaluation is what is left of it.
    #[serde(default)]
    pub epoch_told: bool,
    /// Where the stream of training batches stands.
    pub data: State,
    pub scheduler: (Scheduler, f64),
    /// That of the last step. Checkpoints from before this was kept have none.
    #[serde(default)]
    pub learning_rate: Option<f64>,
    /// Seed, position and draws of the device's random numbers.
    pub random: [u32; 3],
    /// Those of the devices that learn beside it.
    #[serde(default)]
    pub random_of_others: Vec<[u32; 3]>,
    /// The last evaluation.
    pub test: Option<TestMetrics>,
    /// The step behind which that was, if it was within an epoch.
    #[serde(default)]
    pub test_mid_epoch: Option<u64>,
    /// The best evaluation of those whose weights are written.
    pub best: Option<TestMetrics>,
    /// What callbacks keep, by their names.
    pub callbacks: BTreeMap<String, serde_json::Value>,
    /// Seconds of training and evaluation.
    pub seconds: f64,
    /// Energy used in them, if it was told all the time.
    #[serde(default)]
    pub joules: Option<f64>,
    /// Length of `metrics.jsonl`: what was written after the checkpoint is written again.
    pub metrics_bytes: u64,
    pub environment: Environment,
}

impl Progress {
    /// Epochs that have begun.
    pub(super) fn epochs_begun(&self) -> usize {
        // behind the last step of an epoch, the data are at the beginning of the next one, which has not begun
        let is_within = self.data.epoch() > self.epoch || self.data.samples() > 0;
        self.epoch + usize::from(is_within)
    }
}

/// Sums over an epoch. What is not finite is `null` in JSON.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct EpochSums {
    /// Sum of losses over what targets count, in f64: a long epoch of small losses must not lose any.
    #[serde(deserialize_with = "number")]
    pub loss: f64,
    /// Of numbers, less than f32 holds, if they are missed by far.
    #[serde(deserialize_with = "number")]
    pub correct: f64,
    pub targets: f64,
    /// What the targets count together. NaN in checkpoints from before this was kept, which have losses over targets.
    #[serde(default = "unknown", deserialize_with = "number")]
    pub counted: f64,
    pub samples: usize,
}

fn unknown() -> f64 {
    f64::NAN
}

/// Writes a checkpoint, whole or not at all.
pub(super) fn save(path: &Path, state: BTreeMap<String, Tensor>, progress: &Progress) -> Result<()> {
    let mut values = Vec::with_capacity(state.len());
    for (name, tensor) in state {
        let bytes = pollster::block_on(tensor.to_bytes())?;
        values.push(NamedValue { name, dtype: in_files(tensor.dtype()), shape: tensor.shape().to_vec(), bytes });
    }
    let json = serde_json::to_string(progress).expect("plain numbers and strings");
    let tensors = values.iter().map(|value| (value.name.as_str(), value.dtype, &value.shape[..], &value.bytes[..]));
    let metadata = HashMap::from([
        ("crc32c".to_owned(), checksum(&json, tensors)),
        ("format".to_owned(), FORMAT.to_owned()),
        ("version".to_owned(), CHECKPOINT_VERSION.to_string()),
        ("progress".to_owned(), json),
    ]);
    write_whole(path, &serialize(&values, Some(metadata), path)?)
}

/// Reads a checkpoint; its tensors lie on `device`.
pub(super) fn load(path: &Path, device: &Device) -> Result<(BTreeMap<String, Tensor>, Progress)> {
    let bytes = std::fs::read(path).map_err(|error| Error::io(path, error))?;
    let file = SafeTensors::deserialize(&bytes).map_err(|error| Error::format(path, reason(&error)))?;
    let mut tensors = file.tensors();
    tensors.sort_by(|a, b| a.0.cmp(&b.0));
    let in_file = tensors.iter().map(|(name, view)| (name.as_str(), view.dtype(), view.shape(), view.data()));
    let progress = read_progress(path, &bytes, in_file)?;
    let mut state = BTreeMap::new();
    for (name, view) in tensors {
        let known = DType::ALL.into_iter().find(|&dtype| in_files(dtype) == view.dtype());
        let Some(dtype) = known else {
            let message = format!("`{name}` has elements of type {:?}, which no checkpoint of ours has", view.dtype());
            return Err(Error::format(path, message));
        };
        let tensor = Tensor::from_bytes(view.data(), Shape::from(view.shape()), dtype, device)?;
        state.insert(name, tensor);
    }
    Ok((state, progress))
}

/// Sets the variables of `model` to the weights in a file, which may be a checkpoint.
pub(super) fn load_weights(model: &dyn Module, path: &Path) -> Result<LoadReport> {
    let bytes = std::fs::read(path).map_err(|error| Error::io(path, error))?;
    weights_from_bytes(model, path, &bytes, &load_options(prefix_of_weights(&bytes)))
}

/// What the names of a model's weights begin with in a checkpoint, of the averaged ones where it has such; `None` of
/// other files.
pub(super) fn prefix_of_weights(bytes: &[u8]) -> Option<&'static str> {
    let (_, header) = SafeTensors::read_metadata(bytes).ok()?;
    header.metadata().as_ref()?.get("format").filter(|format| *format == FORMAT)?;
    PARTS.into_iter().find(|part| header.tensors().keys().any(|name| name.starts_with(part)))
}

/// How the weights whose names begin so become a model's.
pub(super) fn load_options(prefix: Option<&str>) -> LoadOptions {
    let Some(prefix) = prefix else { return LoadOptions::default() };
    let others = PARTS.into_iter().filter(|&part| part != prefix);
    others.fold(LoadOptions::default(), |options, part| options.skip(&format!("{part}*"))).rename(prefix, "")
}

/// Name, type, shape and bytes of a tensor in a file.
type InFile<'a> = (&'a str, safetensors::Dtype, &'a [usize], &'a [u8]);

/// The CRC-32C of all that a checkpoint says, its tensors in the order of their names.
fn checksum<'a>(progress: &str, tensors: impl Iterator<Item = InFile<'a>>) -> String {
    let sum = tensors.fold(crc32c::crc32c(progress.as_bytes()), |sum, (name, dtype, shape, bytes)| {
        let head = format!("{name}\0{dtype:?}{shape:?}");
        crc32c::crc32c_append(crc32c::crc32c_append(sum, head.as_bytes()), bytes)
    });
    format!("{sum:08x}")
}

fn read_progress<'a>(path: &Path, bytes: &[u8], tensors: impl Iterator<Item = InFile<'a>>) -> Result<Progress> {
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(|error| Error::format(path, reason(&error)))?;
    let metadata = header.metadata().clone().unwrap_or_default();
    if metadata.get("format").is_none_or(|format| format != FORMAT) {
        return Err(Error::format(path, "it holds weights, and is no checkpoint that a run can go on from"));
    }
    let version = metadata.get("version").map_or("unknown", String::as_str);
    if version != CHECKPOINT_VERSION.to_string() {
        let message = format!("it is a checkpoint of version {version}; this program reads {CHECKPOINT_VERSION} only");
        return Err(Error::format(path, message));
    }
    let json = metadata.get("progress").map_or("", String::as_str);
    if metadata.get("crc32c") != Some(&checksum(json, tensors)) {
        return Err(Error::format(path, "it is damaged: what it holds is not what was written (its checksum differs)"));
    }
    serde_json::from_str(json).map_err(|error| Error::format(path, format!("its progress cannot be read: {error}")))
}

/// The checkpoints in `folder`, by step, the last one first.
pub(super) fn list(folder: &Path) -> Vec<(u64, PathBuf)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let number = |path: &Path| -> Option<u64> {
        if path.extension()? != SUFFIX {
            return None;
        }
        path.file_stem()?.to_str()?.strip_prefix("step-")?.parse().ok()
    };
    let mut found: Vec<_> = entries.filter_map(|entry| Some((number(&entry.path())?, entry.path()))).collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    found
}

/// The steps after which the last checkpoint of the run in this folder was written, if it has any.
#[cfg(feature = "ui")]
pub(crate) fn last_saved(run: &Path) -> Option<u64> {
    list(&run.join(super::folder::CHECKPOINTS)).first().map(|(steps, _)| *steps)
}

/// Takes checkpoints of more than so many steps out of the list, where a run goes on from an earlier one because they
/// could not be read: they are no part of what it becomes, and must not count as those that are kept.
pub(super) fn set_aside(folder: &Path, steps: u64) -> Result<()> {
    for (_, path) in list(folder).into_iter().filter(|(number, _)| *number > steps) {
        let aside = path.with_extension(format!("{SUFFIX}.left-out"));
        std::fs::rename(&path, aside).map_err(|error| Error::io(&path, error))?;
    }
    Ok(())
}

/// The name of the checkpoint after `steps` steps.
pub(super) fn file_name(steps: u64) -> String {
    format!("step-{steps:08}.{SUFFIX}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_an_epoch_are_read_back_whatever_they_are() {
        let sums = EpochSums { loss: f64::INFINITY, correct: f64::NEG_INFINITY, counted: 4.0, ..EpochSums::default() };
        let json = serde_json::to_string(&sums).expect("plain numbers");
        let back: EpochSums = serde_json::from_str(&json).expect("what was written");
        assert!(back.loss.is_nan() && back.correct.is_nan() && back.counted == 4.0, "{json}");
        let old: EpochSums =
            serde_json::from_str(r#"{"loss":1.5,"correct":2,"targets":3,"samples":3}"#).expect("an old one");
        assert!(old.loss == 1.5 && old.counted.is_nan());
    }
}
