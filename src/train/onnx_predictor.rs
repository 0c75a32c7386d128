//! Answers of a model in an ONNX file, brasa's own or another program's.

use std::path::Path;

use crate::data::Normalization;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::formats::onnx::{Dimension, Model};
use crate::tensor::{Tensor, no_grad};

use super::Predictor;
use super::export::{CLASSES, COLUMNS, GIVEN, LEVELS, MEAN, STD};
use super::record::InputRecord;

/// A row of what a model says adds up to 1 within this if it is probabilities.
const SUM_TOLERANCE: f64 = 1e-3;

/// What an ONNX file of another program does not tell of pictures.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Preprocessing {
    /// What of each channel (or of all) becomes 0, and how much becomes 1, where levels go from 0 to 1: the mean and
    /// standard deviation of PyTorch's `Normalize`. Without them, the model is given levels from 0 to 1. A file that
    /// brasa wrote tells them itself.
    pub scale: Option<(Vec<f32>, Vec<f32>)>,
    /// Names of the classes, or the file's own, or else their numbers.
    pub classes: Option<Vec<String>>,
}

impl Predictor {
    /// The model in an ONNX file, of one input of pictures, `[batch, channels, height, width]`, or of rows of numbers,
    /// `[batch, features]`; its first output is logits or probabilities, `[batch, classes]`, or of each pixel; of two classes
    /// those of the second one suffice. Where a sigmoid comes last, each class has a probability of its own. What a
    /// file that brasa wrote tells of its input is heeded.
    ///
    /// ```no_run
    /// use brasa::train::{Predictor, Preprocessing};
    ///
    /// let scale = Some((vec![0.485, 0.456, 0.406], vec![0.229, 0.224, 0.225])); // ImageNet's
    /// let preprocessing = Preprocessing { scale, classes: None };
    /// let predictor = Predictor::open_onnx("resnet50.onnx".as_ref(), &preprocessing, Some("gpu"))?;
    /// let said = predictor.predict_file("cat.jpg".as_ref())?;
    /// println!("class {}", said.prediction.likeliest[0].0);
    /// # Ok::<(), brasa::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the file cannot be read or is no such model, it tells itself what is told here, or the device fails.
    pub fn open_onnx(path: &Path, preprocessing: &Preprocessing, device: Option<&str>) -> Result<Self> {
        let device = device.map_or_else(Device::best, Device::named)?;
        let model = Model::load(path, &device)?;
        let wrong = |reason: String| Error::format(path, reason);
        let [input] = model.inputs() else {
            return Err(wrong(format!("it has {} inputs; answers are told of models with one", model.inputs().len())));
        };
        let shape = sample_shape(input.dimensions.as_deref()).ok_or_else(|| {
            wrong(format!(
                "its input is {input}; answers are told of [batch, 1 or 3 channels, height, width] and [batch, features], with all \
                 sizes but the batch's in the file"
            ))
        })?;
        let dtype = input.dtype.unwrap_or(DType::F32);
        let rows = match input.dimensions.as_deref() {
            Some([Dimension::Fixed(rows), ..]) => Some(*rows),
            _ => None,
        };
        if rows == Some(0) {
            return Err(wrong(format!("its input is {input}: batches of nothing")));
        }
        let is_ours = model.metadata().contains_key(GIVEN);
        if let Some((mean, std)) = &preprocessing.scale {
            if is_ours {
                let message = "it tells itself by which mean and deviation pictures are scaled: give neither";
                return Err(Error::Config(format!("{}: {message}", path.display())));
            }
            if let [channels, _, _] = &shape[..]
                && [mean, std].iter().any(|numbers| numbers.len() != 1 && numbers.len() != *channels)
            {
                let [mean, std] = [mean.len(), std.len()];
                return Err(wrong(format!(
                    "its input is {input}, with {mean} numbers for the mean and {std} for the scale"
                )));
            }
            if mean.len() != std.len() || !std.iter().all(|&std| std > 0.0) {
                return Err(wrong(format!(
                    "the scale is {mean:?} and {std:?}: as many numbers for the mean as for the deviation, and these greater \
                     than 0"
                )));
            }
        }
        let normalization = normalization(&model, &shape, preprocessing);
        // of whole numbers, levels are what there is
        let has_levels = !dtype.is_float() || model.metadata().get(GIVEN).is_some_and(|given| given == LEVELS);
        // of rows that the model scales itself nothing is left to do, and pictures of other programs have 256 levels,
        // whatever is done to them
        let (mean, std) = match (&shape[..], has_levels) {
            ([features], true) => (vec![0.0; *features], vec![1.0; *features]),
            ([_, ..], _) if shape.len() == 3 && !is_ours => (vec![0.0], vec![255.0]),
            _ => (normalization.mean.clone(), normalization.std.clone()),
        };
        // once, to learn what its outputs are
        let blank = Tensor::zeros_of([&[rows.unwrap_or(1)], &shape[..]].concat(), dtype, &device);
        let outputs = model.run(&[blank])?;
        let (segments, count) = match outputs.first().map(|output| output.shape().dims()) {
            Some(&[_, classes]) => (false, classes),
            Some(&[_, classes, height, width]) if shape[1..] == [height, width] => (true, classes),
            _ => {
                let said = model.outputs().first().map(ToString::to_string).unwrap_or_default();
                return Err(wrong(format!(
                    "its first output is {said}, not [batch, classes] or a class of each pixel"
                )));
            }
        };
        if count == 0 {
            return Err(wrong("it tells no classes".into()));
        }
        let (told, is_sigmoid) = (count, model.last_operator() == Some("Sigmoid"));
        let count = told.max(2);
        if told == 1
            && !segments
            && !is_sigmoid
            && preprocessing.classes.as_ref().is_none_or(|names| names.len() != count)
        {
            return Err(wrong(
                "it tells one number for each sample: name two classes, if that is how likely the second one is; any other number is \
                 for programs (`brasa::formats::onnx::Model`)"
                    .into(),
            ));
        }
        if segments && count > 256 {
            return Err(wrong(format!("masks have 256 classes at most, not {count}")));
        }
        let numbered = || (0..count).map(|number| number.to_string()).collect();
        let classes = preprocessing.classes.clone().or_else(|| names(&model, CLASSES, count)).unwrap_or_else(numbered);
        if classes.len() != count {
            return Err(wrong(format!("there are names for {} classes, but the model tells {count}", classes.len())));
        }
        let columns = if let [features] = shape[..] { names(&model, COLUMNS, features) } else { None };
        let file = path.to_owned();
        let answer = move |inputs: &Tensor| -> Result<Tensor> {
            no_grad(|| {
                let samples = inputs.shape()[0];
                let inputs = match inputs.dtype() {
                    DType::U8 if has_levels => inputs.to_dtype(dtype),
                    DType::U8 => normalization.apply(inputs).to_dtype(dtype),
                    _ => inputs.to_dtype(dtype),
                };
                let said = model.run(&[inputs])?.remove(0).to_dtype(DType::F32);
                if said.shape().get(..2) != Some(&[samples, told]) {
                    let reason = format!("of {samples} samples it says {}: use --batch-size 1", said.shape());
                    return Err(Error::format(&file, reason));
                }
                if told == 1 {
                    // of the second class
                    let second = if is_sigmoid { said } else { said.sigmoid() };
                    let both = Tensor::cat(&[&(1.0 - &second), &second], 1);
                    return Ok(if segments { both.argmax(1).to_dtype(DType::U8) } else { both.log() });
                }
                if segments {
                    return Ok(said.argmax(1).to_dtype(DType::U8));
                }
                // each class for itself, or one of all
                Ok(if is_sigmoid { said.log() } else { log_probabilities(&said) })
            })
        };
        let input = InputRecord { shape, mean, std, segments, columns: columns.unwrap_or_default() };
        Ok(Self::new(device, classes, input, rows, Box::new(answer)))
    }
}

/// The shape of a sample, if it is one of pictures or rows and known.
fn sample_shape(dimensions: Option<&[Dimension]>) -> Option<Vec<usize>> {
    let size = |dimension: &Dimension| match dimension {
        Dimension::Fixed(size) if *size > 0 => Some(*size),
        _ => None,
    };
    let shape: Vec<usize> = dimensions?.get(1..)?.iter().map(size).collect::<Option<_>>()?;
    matches!(shape[..], [_] | [1 | 3, _, _]).then_some(shape)
}

/// What the model sees of bytes: as its file says, or the caller, or from 0 to 1.
fn normalization(model: &Model, shape: &[usize], preprocessing: &Preprocessing) -> Normalization {
    let list = |key: &str| model.metadata().get(key).and_then(|text| serde_json::from_str::<Vec<f32>>(text).ok());
    let fits = |numbers: &Vec<f32>| [1, shape[0]].contains(&numbers.len());
    if let (Some(mean), Some(std)) = (list(MEAN).filter(fits), list(STD).filter(fits))
        && mean.len() == std.len()
    {
        return Normalization { mean, std };
    }
    match (&preprocessing.scale, shape) {
        // rows are given as they are
        (_, [features]) => Normalization { mean: vec![0.0; *features], std: vec![1.0; *features] },
        (Some((mean, std)), _) => {
            let bytes = |levels: &[f32]| levels.iter().map(|level| level * 255.0).collect();
            Normalization { mean: bytes(mean), std: bytes(std) }
        }
        (None, _) => Normalization::default(),
    }
}

/// So many names, if the file has them.
fn names(model: &Model, key: &str, count: usize) -> Option<Vec<String>> {
    let listed = model.metadata().get(key).and_then(|text| serde_json::from_str::<Vec<String>>(text).ok());
    listed.filter(|names| names.len() == count)
}

/// Logarithms of probabilities, of these or of logits.
fn log_probabilities(said: &Tensor) -> Tensor {
    let from_logits = said.log_softmax(1);
    let sums = said.sum_keepdim(1);
    let one = (&sums - 1.0).abs().le(SUM_TOLERANCE);
    let are_probabilities = one.logical_and(&said.min_keepdim(1).ge(0.0));
    are_probabilities.expand(said.shape()).where_(said.log(), from_logits)
}
