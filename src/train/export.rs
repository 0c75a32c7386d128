//! A run's model as a file for other programs.

use std::path::Path;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::files::write_whole;
use crate::formats::onnx::{Batch, ExportOptions, Input, export_function};
use crate::nn::{Mode, to_safetensors};

use super::learned::levels;
use super::run::{BEST, WEIGHTS};
use super::saved_model::{SavedModel, saved_weights};

/// What an exported model is given, and what it says.
const INPUT: &str = "input";
const OUTPUT: &str = "logits";
/// The output that is numbers, and the key of the metadata with their names, a list in JSON.
pub(super) const NUMBERS: &str = "numbers";
/// Keys of the metadata: names of the classes, a list in JSON.
pub(super) const CLASSES: &str = "classes";
/// What of a picture's levels, or of a table's columns, becomes 0, for all or for each, a list in JSON.
pub(super) const MEAN: &str = "mean";
/// And how much becomes 1.
pub(super) const STD: &str = "std";
/// Names of a table's columns, a list in JSON.
pub(super) const COLUMNS: &str = "columns";
/// What the input is: [`LEVELS`] or [`NORMALIZED`].
pub(super) const GIVEN: &str = "input";
/// Levels of pixels, or a table's own numbers, which the model normalises.
pub(super) const LEVELS: &str = "levels";
/// What has been normalised.
const NORMALIZED: &str = "normalized";

/// How a run's model is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ModelExport {
    /// The size of the batch, of ONNX.
    pub batch: Batch,
    /// True if the ONNX model is to be given what the network is, with mean and standard deviation taken care of; else
    /// it is given levels of pixels, or a table's own numbers, and does that itself.
    pub normalized_input: bool,
}

/// A file that was written.
#[derive(Clone, PartialEq, Debug)]
pub struct Exported {
    /// Its size.
    pub bytes: usize,
    /// What is in it, in words: inputs and outputs with their shapes.
    pub contents: String,
}

/// Writes the model of the run in `folder` to `path`, with these weights, or those of its best evaluation, or else its
/// last ones: as ONNX (`.onnx`), with all that it computes, or as weights by name (`.safetensors`).
///
/// An ONNX model has `input`, `[batch, channels, height, width]` or `[batch, features]`, and `logits`, `[batch,
/// classes]` or `[batch, classes, height, width]`, or of regression `numbers`, `[batch, numbers]` in their own units, all
/// f32; its `metadata_props` have `model`, `classes` (or `numbers`, their names), `mean` and
/// `std` of the levels of pixels, or of columns, the `columns`' names (lists in JSON), and whether `input` is `levels`
/// or `normalized`.
///
/// # Errors
/// If there is no run that has saved weights, or the file's name ends otherwise or cannot be written.
pub fn export(folder: &Path, weights: Option<&Path>, path: &Path, options: &ModelExport) -> Result<Exported> {
    let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_lowercase);
    let is_onnx = match ending.as_deref() {
        Some("onnx") => true,
        Some("safetensors") => false,
        _ => {
            let path = path.display();
            return Err(Error::Config(format!("{path}: models are written as FILE.onnx or FILE.safetensors")));
        }
    };
    let weights = weights.map_or_else(|| saved_weights(folder, [BEST, WEIGHTS]), |path| Ok(path.to_owned()))?;
    // nothing is computed
    let saved = SavedModel::open(folder, &weights, Some("cpu"))?;
    let (bytes, contents) = if is_onnx { onnx(&saved, options)? } else { safetensors(&saved)? };
    write_whole(path, &bytes)?;
    Ok(Exported { bytes: bytes.len(), contents })
}

fn safetensors(saved: &SavedModel) -> Result<(Vec<u8>, String)> {
    let count = saved.model.variables().len();
    Ok((to_safetensors(saved.model.as_ref())?, format!("{count} tensors by their names in PyTorch's `state_dict`")))
}

fn onnx(saved: &SavedModel, options: &ModelExport) -> Result<(Vec<u8>, String)> {
    let SavedModel { config, device, model, classes, input } = saved;
    let normalization = input.normalization();
    let name = config.model.to_string();
    let numbers = |numbers: &[f32]| serde_json::to_string(numbers).expect("plain data");
    let words = |words: &[String]| serde_json::to_string(words).expect("plain data");
    let metadata = [
        ("model", name.clone()),
        (if input.regresses { NUMBERS } else { CLASSES }, words(classes)),
        (COLUMNS, words(&input.columns)),
        (MEAN, numbers(&normalization.mean)),
        (STD, numbers(&normalization.std)),
        (GIVEN, if options.normalized_input { NORMALIZED } else { LEVELS }.to_owned()),
    ];
    // of pictures there are no columns
    let told = metadata.into_iter().filter(|(key, _)| *key != COLUMNS || !input.columns.is_empty());
    let metadata = told.map(|(key, value)| (key.to_owned(), value)).collect();
    let given = match (&input.shape[..], options.normalized_input) {
        (_, true) => "normalised as the run's data".to_owned(),
        ([_], false) => "a table's own numbers".to_owned(),
        (_, false) => format!("levels of pixels from 0 to {}", levels(&normalization)),
    };
    let (output, said) = match input.regresses {
        true => (NUMBERS, format!("`{NUMBERS}` are in their own units")),
        false => (OUTPUT, format!("`{OUTPUT}` are of the classes in `classes`")),
    };
    let description = format!("{name}, trained by brasa. `{INPUT}` is {given}; {said}.");
    let export = ExportOptions { batch: options.batch, metadata, description };
    let inputs = [Input::new(INPUT, input.shape.as_slice(), DType::F32)];
    let bytes = export_function(device, &inputs, &[output], &export, |inputs| {
        let inputs = if options.normalized_input { inputs[0].clone() } else { normalization.scaled(&inputs[0]) };
        let said = Mode::Evaluate.scope(|| model.forward(&inputs));
        vec![match input.scales.as_ref().filter(|_| input.regresses) {
            Some(scales) => scales.restored(&said),
            None => said,
        }]
    })?;
    let batch = match options.batch {
        Batch::Named => "batch".to_owned(),
        Batch::Fixed(size) => size.to_string(),
    };
    let axes = |sizes: &[usize]| sizes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let places = if input.segments { format!(", {}", axes(&input.shape[1..])) } else { String::new() };
    let contents = format!(
        "{INPUT} f32 [{batch}, {}], {given}; {output} f32 [{batch}, {}{places}]",
        axes(&input.shape),
        classes.len()
    );
    Ok((bytes, contents))
}
