//! Answers of a model in an ONNX file, brasa's own or another program's.

use std::path::{Path, PathBuf};

use crate::data::Normalization;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::formats::onnx::{Dimension, Model};
use crate::tensor::{Interpolation, Tensor, no_grad};

use super::Predictor;
use super::export::{CLASSES, COLUMNS, GIVEN, LEVELS, MEAN, NUMBERS, STD};
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
    /// Height and width of pictures, where the file leaves them open.
    pub size: Option<[usize; 2]>,
}

impl Predictor {
    /// The model in an ONNX file, of one input of pictures, `[batch, channels, height, width]` or
    /// `[batch, height, width, channels]`, or of rows of numbers, `[batch, features]`; its first output is logits or
    /// probabilities, `[batch, classes]`, or of each pixel, or of squares of pixels, between which they are interpolated; of
    /// two classes those of the second one suffice. Where a sigmoid comes last, each class has a probability of its own.
    /// What a file that brasa wrote states about its input is heeded.
    ///
    /// ```no_run
    /// use brasa::train::{Predictor, Preprocessing};
    ///
    /// let scale = Some((vec![0.485, 0.456, 0.406], vec![0.229, 0.224, 0.225])); // ImageNet's
    /// let preprocessing = Preprocessing { scale, ..Preprocessing::default() };
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
        let asked = Asked::of(&model, preprocessing.size, path)?;
        if let Some((mean, std)) = &preprocessing.scale {
            asked.check_scale(mean, std).map_err(|reason| Error::Config(format!("{}: {reason}", path.display())))?;
        }
        let normalization = normalization(&model, &asked.shape, preprocessing);
        let (mean, std) = asked.levels(&normalization);
        let said = Said::of(&model, &asked, path)?;
        let classes = said.classes(&model, preprocessing, path)?;
        let columns = if let [features] = asked.shape[..] { names(&model, COLUMNS, features) } else { None };
        let rows = asked.rows;
        let input = InputRecord {
            shape: asked.shape.clone(),
            mean,
            std,
            segments: said.segments,
            columns: columns.unwrap_or_default(),
            regresses: said.are_numbers,
            // the model tells them in their own units
            scales: None,
            counts: None,
        };
        let answers = Answers { model, asked, said, normalization, path: path.to_owned() };
        let answer = move |inputs: &Tensor| no_grad(|| answers.of(inputs));
        Ok(Self::new(device, classes, input, rows, Box::new(answer)))
    }
}

/// What a model is to be given.
struct Asked {
    /// Of a sample: `[channels, height, width]` or `[features]`.
    shape: Vec<usize>,
    /// Whether the model has the channels of pictures behind their width.
    channels_last: bool,
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
    fn of(model: &Model, size: Option<[usize; 2]>, path: &Path) -> Result<Self> {
        let [input] = model.inputs() else {
            let count = model.inputs().len();
            return Err(Error::format(path, format!("it has {count} inputs; only models with one can be asked")));
        };
        let sample = input.dimensions.as_deref().and_then(<[Dimension]>::split_first);
        let (shape, channels_last) = sample.and_then(|(_, dimensions)| of_sample(dimensions, size)).ok_or_else(|| {
            let reason = match sample {
                Some((_, [_, _, _])) if size.is_none() => {
                    "supported are pictures of 1 or 3 channels; where the file leaves their height and width open, give them \
                     with --image-size"
                }
                _ => {
                    "supported are [batch, 1 or 3 channels, height, width], [batch, height, width, 1 or 3 channels] and \
                     [batch, features], with the number of channels or features in the file"
                }
            };
            Error::format(path, format!("its input is {input}; {reason}"))
        })?;
        if size.is_some_and(|size| shape[1..] != size) {
            return Err(Error::Config(format!("{}: its input is {input}: leave out --image-size", path.display())));
        }
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
        let is_ours = given.is_some();
        Ok(Self { shape, channels_last, dtype, rows, is_ours, has_levels, text: input.to_string() })
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

    /// Samples as `model` takes them; its first output, f32, with classes behind the batch.
    fn run(&self, model: &Model, samples: &Tensor) -> Result<Tensor> {
        let given = if self.channels_last { samples.permute([0, 2, 3, 1]) } else { samples.clone() };
        let said = model.run(&[given.to_dtype(self.dtype)])?.remove(0).to_dtype(DType::F32);
        let said = if self.channels_last && said.rank() == 4 { said.permute([0, 3, 1, 2]) } else { said };
        Ok(match *said.shape().dims() {
            // means of all pixels, whose axes are still there
            [rows, classes, 1, 1] if self.shape[1..] != [1, 1] => said.reshape([rows, classes]),
            _ => said,
        })
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
    /// Whether these are numbers to be told, as of brasa's own files, not classes.
    are_numbers: bool,
}

impl Said {
    /// Asks the model once, to learn what its outputs are.
    fn of(model: &Model, asked: &Asked, path: &Path) -> Result<Self> {
        let shape = [&[asked.rows.unwrap_or(1)], &asked.shape[..]].concat();
        let said = asked.run(model, &Tensor::zeros(shape, model.device()))?;
        let (segments, count) = match *said.shape().dims() {
            [_, classes] => (false, classes),
            [_, classes, height, width] if is_part(&asked.shape, [height, width]) => (true, classes),
            _ => {
                let said = model.outputs().first().map(ToString::to_string).unwrap_or_default();
                let reason = format!("its first output is {said}, not [batch, classes] or classes of pixels");
                return Err(Error::format(path, reason));
            }
        };
        if count == 0 {
            return Err(Error::format(path, "its output has no classes"));
        }
        if segments && count > 256 {
            return Err(Error::format(path, format!("masks have 256 classes at most, not {count}")));
        }
        let are_numbers = !segments && names(model, NUMBERS, count).is_some();
        Ok(Self { segments, count, is_sigmoid: model.last_operator() == Some("Sigmoid"), are_numbers })
    }

    /// Names of the classes: the caller's, the file's, or numbers.
    fn classes(&self, model: &Model, preprocessing: &Preprocessing, path: &Path) -> Result<Vec<String>> {
        if let Some(numbers) = names(model, NUMBERS, self.count).filter(|_| self.are_numbers) {
            return match &preprocessing.classes {
                None => Ok(numbers),
                Some(_) => {
                    Err(Error::format(path, "the model predicts numbers, whose names are in the file: give no classes"))
                }
            };
        }
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
    /// Logarithms of probabilities, or the class of each pixel, or numbers.
    fn of(&self, inputs: &Tensor) -> Result<Tensor> {
        let samples = inputs.shape()[0];
        let Said { segments, count, is_sigmoid, are_numbers } = self.said;
        let said = self.asked.run(&self.model, &self.scaled(inputs))?;
        if said.shape().get(..2) != Some(&[samples, count]) {
            let reason = format!("of {samples} samples it says {}: use --batch-size 1", said.shape());
            return Err(Error::format(&self.path, reason));
        }
        if are_numbers {
            return Ok(said);
        }
        let said = if segments { said.interpolate(&self.asked.shape[1..], Interpolation::Linear) } else { said };
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

    /// Inputs in the units of those that the model takes. Rows have been scaled before.
    fn scaled(&self, inputs: &Tensor) -> Tensor {
        let is_bytes = inputs.dtype() == DType::U8 && !self.asked.has_levels;
        if is_bytes { self.normalization.apply(inputs) } else { inputs.clone() }
    }
}

/// The shape of a sample, if it is one of pictures or rows and known, and whether channels come last in the file. Where it
/// leaves height and width of pictures open, they are these.
fn of_sample(dimensions: &[Dimension], size: Option<[usize; 2]>) -> Option<(Vec<usize>, bool)> {
    let fixed = |dimension: &Dimension| match dimension {
        Dimension::Fixed(size) => Some(*size).filter(|&size| size > 0),
        _ => None,
    };
    let picture = |channels: &Dimension, sides: [&Dimension; 2]| {
        let channels = fixed(channels).filter(|channels| [1, 3].contains(channels))?;
        let side = |axis: usize| match sides[axis] {
            Dimension::Fixed(_) => fixed(sides[axis]),
            _ => size.map(|size| size[axis]),
        };
        Some(vec![channels, side(0)?, side(1)?])
    };
    match dimensions {
        [features] => Some((vec![fixed(features)?], false)),
        [first, second, third] => picture(first, [second, third])
            .map(|shape| (shape, false))
            .or_else(|| Some((picture(third, [first, second])?, true))),
        _ => None,
    }
}

/// Whether `[height, width]` are those of a picture `[channels, height, width]`, or an equal part of both.
fn is_part(picture: &[usize], [height, width]: [usize; 2]) -> bool {
    let &[_, whole_height, whole_width] = picture else { return false };
    let is_whole = height > 0 && width > 0 && whole_height % height == 0 && whole_width % width == 0;
    is_whole && whole_height / height == whole_width / width
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
