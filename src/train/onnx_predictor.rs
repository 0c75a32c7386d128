//! Answers of a model in an ONNX file, brasa's own or another program's.

use std::path::{Path, PathBuf};

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

/// What an ONNX file of another program does not tell of its input and its classes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Preprocessing {
    /// What of each channel (or of all) becomes 0, and how much becomes 1, where levels go from 0 to 1: the mean and
    /// standard deviation of PyTorch's `Normalize`. Without them, the model is given levels from 0 to 1. Of rows, what of
    /// each column (or of all) becomes 0 and how much of its unit becomes 1; without them, they are given as they are. A
    /// file that brasa wrote states them itself.
    pub scale: Option<(Vec<f32>, Vec<f32>)>,
    /// Names of the classes, or the file's own, or else their numbers.
    pub classes: Option<Vec<String>>,
}

impl Predictor {
    /// The model in an ONNX file, of one input of pictures, `[batch, channels, height, width]`, or of rows of numbers,
    /// `[batch, features]`; its first output is logits or probabilities, `[batch, classes]`, or of each pixel; of two classes
    /// those of the second one suffice. Where a sigmoid comes last, each class has a probability of its own. What a
    /// file that brasa wrote states about its input is heeded.
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
    /// If the file cannot be read or is no such model, it states itself what is given here, or the device fails.
    pub fn open_onnx(path: &Path, preprocessing: &Preprocessing, device: Option<&str>) -> Result<Self> {
        let device = device.map_or_else(Device::best, Device::named)?;
        let model = Model::load(path, &device)?;
        let asked = Asked::of(&model, path)?;
        if let Some((mean, std)) = &preprocessing.scale {
            asked.check_scale(mean, std).map_err(|reason| Error::Config(format!("{}: {reason}", path.display())))?;
        }
        let normalization = normalization(&model, &asked.shape, preprocessing);
        let (mean, std) = asked.levels(&normalization);
        let said = Said::of(&model, &asked, path)?;
        let classes = said.classes(&model, preprocessing, path)?;
        let columns = if let [features] = asked.shape[..] { names(&model, COLUMNS, features) } else { None };
        let (rows, segments) = (asked.rows, said.segments);
        let input =
            InputRecord { shape: asked.shape.clone(), mean, std, segments, columns: columns.unwrap_or_default() };
        let answers = Answers { model, asked, said, normalization, path: path.to_owned() };
        let answer = move |inputs: &Tensor| no_grad(|| answers.of(inputs));
        Ok(Self::new(device, classes, input, rows, Box::new(answer)))
    }
}

/// What a model is to be given.
struct Asked {
    /// Of a sample.
    shape: Vec<usize>,
    dtype: DType,
    /// Samples of a batch, if there must be so many.
    rows: Option<usize>,
    /// Whether the file states how inputs are scaled, as brasa's own do.
    is_ours: bool,
    /// Whether it takes levels of bytes as they are.
    has_levels: bool,
    /// As the file has it, for messages.
    text: String,
}

impl Asked {
    fn of(model: &Model, path: &Path) -> Result<Self> {
        let [input] = model.inputs() else {
            let count = model.inputs().len();
            return Err(Error::format(path, format!("it has {count} inputs; only models with one can be asked")));
        };
        let shape = sample_shape(input.dimensions.as_deref()).ok_or_else(|| {
            let reason = format!(
                "its input is {input}; supported are [batch, 1 or 3 channels, height, width] and [batch, features], with all \
                 sizes but the batch's in the file"
            );
            Error::format(path, reason)
        })?;
        let rows = match input.dimensions.as_deref() {
            Some([Dimension::Fixed(rows), ..]) => Some(*rows),
            _ => None,
        };
        if rows == Some(0) {
            return Err(Error::format(path, format!("its input is {input}: batches of nothing")));
        }
        let dtype = input.dtype.unwrap_or(DType::F32);
        let given = model.metadata().get(GIVEN);
        // of whole numbers, levels are what there is
        let has_levels = !dtype.is_float() || given.is_some_and(|given| given == LEVELS);
        Ok(Self { shape, dtype, rows, is_ours: given.is_some(), has_levels, text: input.to_string() })
    }

    /// Whether inputs can be scaled so; what is wrong otherwise.
    fn check_scale(&self, mean: &[f32], std: &[f32]) -> Result<(), String> {
        if self.is_ours {
            return Err("the file states its own mean and deviation: give neither".into());
        }
        if !self.dtype.is_float() {
            return Err(format!(
                "its input is {}: whole numbers are not scaled; give no mean and deviation",
                self.text
            ));
        }
        // a number for each channel, or for each column
        if [mean, std].iter().any(|numbers| numbers.len() != 1 && numbers.len() != self.shape[0]) {
            let (mean, std, all) = (mean.len(), std.len(), self.shape[0]);
            return Err(format!(
                "its input is {}, with {mean} numbers for the mean and {std} for the scale: give 1 or {all} of each",
                self.text
            ));
        }
        if mean.len() != std.len() || !std.iter().all(|&std| std > 0.0) {
            return Err(format!(
                "the scale is {mean:?} and {std:?}: as many numbers for the mean as for the deviation, and these greater \
                 than 0"
            ));
        }
        Ok(())
    }

    /// Mean and deviation by which a sample is brought to what the model is given.
    fn levels(&self, normalization: &Normalization) -> (Vec<f32>, Vec<f32>) {
        match self.shape[..] {
            // of rows that the model scales itself nothing is left to do
            [features] if self.has_levels => (vec![0.0; features], vec![1.0; features]),
            // pictures of other programs have 256 levels, whatever is done to them
            [_, _, _] if !self.is_ours => (vec![0.0], vec![255.0]),
            _ => (normalization.mean.clone(), normalization.std.clone()),
        }
    }
}

/// What a model says.
struct Said {
    /// Classes of pixels, not of samples.
    segments: bool,
    /// Numbers for each sample or pixel.
    count: usize,
    /// Whether each is a probability of its own.
    is_sigmoid: bool,
}

impl Said {
    /// Asks the model once, to learn what its outputs are.
    fn of(model: &Model, asked: &Asked, path: &Path) -> Result<Self> {
        let shape = [&[asked.rows.unwrap_or(1)], &asked.shape[..]].concat();
        let outputs = model.run(&[Tensor::zeros_of(shape, asked.dtype, model.device())])?;
        let (segments, count) = match outputs.first().map(|output| output.shape().dims()) {
            Some(&[_, classes]) => (false, classes),
            Some(&[_, classes, height, width]) if asked.shape[1..] == [height, width] => (true, classes),
            _ => {
                let said = model.outputs().first().map(ToString::to_string).unwrap_or_default();
                let reason = format!("its first output is {said}, not [batch, classes] or a class of each pixel");
                return Err(Error::format(path, reason));
            }
        };
        if count == 0 {
            return Err(Error::format(path, "its output has no classes"));
        }
        if segments && count > 256 {
            return Err(Error::format(path, format!("masks have 256 classes at most, not {count}")));
        }
        Ok(Self { segments, count, is_sigmoid: model.last_operator() == Some("Sigmoid") })
    }

    /// Names of the classes: the caller's, the file's, or numbers.
    fn classes(&self, model: &Model, preprocessing: &Preprocessing, path: &Path) -> Result<Vec<String>> {
        // one number stands for two classes
        let count = self.count.max(2);
        let given = preprocessing.classes.as_ref();
        let is_number = self.count == 1 && !self.segments && !self.is_sigmoid;
        if is_number && given.is_none_or(|names| names.len() != count) {
            let reason = "it outputs one number for each sample: name two classes if that is the probability of the second one; any \
                          other number is for programs (`brasa::formats::onnx::Model`)";
            return Err(Error::format(path, reason));
        }
        let numbered = || (0..count).map(|number| number.to_string()).collect();
        let classes = given.cloned().or_else(|| names(model, CLASSES, count)).unwrap_or_else(numbered);
        if classes.len() != count {
            let reason = format!("there are names for {} classes, but the model outputs {count}", classes.len());
            return Err(Error::format(path, reason));
        }
        Ok(classes)
    }
}

/// Gives a model inputs, and makes of its outputs what a predictor answers.
struct Answers {
    model: Model,
    asked: Asked,
    said: Said,
    normalization: Normalization,
    path: PathBuf,
}

impl Answers {
    /// Logarithms of probabilities, or the class of each pixel.
    fn of(&self, inputs: &Tensor) -> Result<Tensor> {
        let samples = inputs.shape()[0];
        let Said { segments, count, is_sigmoid } = self.said;
        let said = self.model.run(&[self.given(inputs)])?.remove(0).to_dtype(DType::F32);
        if said.shape().get(..2) != Some(&[samples, count]) {
            let reason = format!("of {samples} samples it says {}: use --batch-size 1", said.shape());
            return Err(Error::format(&self.path, reason));
        }
        if count == 1 {
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
    }

    /// Inputs as the model takes them. Rows have been scaled before.
    fn given(&self, inputs: &Tensor) -> Tensor {
        let is_bytes = inputs.dtype() == DType::U8 && !self.asked.has_levels;
        if is_bytes { self.normalization.apply(inputs) } else { inputs.clone() }.to_dtype(self.asked.dtype)
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

/// What the model sees of bytes: as its file says, or the caller, or from 0 to 1; of rows what they are, without a word.
fn normalization(model: &Model, shape: &[usize], preprocessing: &Preprocessing) -> Normalization {
    let list = |key: &str| model.metadata().get(key).and_then(|text| serde_json::from_str::<Vec<f32>>(text).ok());
    let fits = |numbers: &Vec<f32>| [1, shape[0]].contains(&numbers.len());
    if let (Some(mean), Some(std)) = (list(MEAN).filter(fits), list(STD).filter(fits))
        && mean.len() == std.len()
    {
        return Normalization { mean, std };
    }
    match (&preprocessing.scale, shape) {
        // of rows, each column has numbers of its own
        (Some((mean, std)), [features]) => {
            let each = |numbers: &[f32]| numbers.iter().copied().cycle().take(*features).collect();
            Normalization { mean: each(mean), std: each(std) }
        }
        (None, [features]) => Normalization { mean: vec![0.0; *features], std: vec![1.0; *features] },
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
