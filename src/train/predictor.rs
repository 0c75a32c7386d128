//! What a run's model says about pictures, and rows of tables, of one's own.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::data::{MAX_PICTURE_BYTES, Resize, Sample, Values, decode_picture, read_file};
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::nn::{self, Mode, Module, Quantized};
use crate::runtime::Step;
use crate::shape::Shape;
use crate::tensor::{Tensor, no_grad};

use super::learned::{change_levels, few_levels, levels};
use super::learner::{LIKELIEST, Numbers, likeliest};
use super::pictures;
use super::record::InputRecord;
use super::run::{BEST, WEIGHTS};
use super::saved_model::{SavedModel, saved_weights};

/// The model of a run, with weights that it has saved. Answers for as many samples as before are one replay of a plan.
///
/// ```
/// use brasa::train::{Config, Control, Predictor, Trainer};
///
/// # let out = tempfile::tempdir().unwrap();
/// let config = Config { device: Some("cpu".into()), epochs: 1, out: out.path().into(), ..Config::default() };
/// let summary = Trainer::new(config)?.run(&Control::default(), &mut |_| {})?;
/// let predictor = Predictor::open(&summary.folder, Some("cpu"))?;
/// # let file = out.path().join("picture.png");
/// # image::GrayImage::new(20, 30).save(&file).unwrap();
/// let picture = predictor.read_picture(&file)?;
/// assert_eq!(picture.size, [30, 20], "of the file; the model is given 8x8");
/// let predicted = predictor.predict(&[picture.sample])?;
/// let (class, probability) = predicted[0].likeliest[0];
/// println!("{} ({probability})", predictor.classes()[class as usize]);
/// # Ok::<(), brasa::Error>(())
/// ```
pub struct Predictor {
    device: Device,
    classes: Vec<String>,
    input: InputRecord,
    /// How many samples the model takes at once, if it takes no other number.
    rows: Option<usize>,
    /// How many classes it tells.
    most: usize,
    answer: Answer,
    /// The model itself, of a run.
    model: Option<Arc<dyn Module>>,
}

impl fmt::Debug for Predictor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Predictor")
            .field("device", &self.device)
            .field("classes", &self.classes)
            .field("input", &self.input)
            .finish_non_exhaustive()
    }
}

/// What a model says about samples: logarithms of probabilities, `[batch, classes]`, or the classes of all pixels, u8, or
/// standardised numbers, `[batch, numbers]`.
pub(super) type Answer = Box<dyn Fn(&Tensor) -> Result<Tensor> + Send + Sync>;

/// A picture as a model is given it.
#[derive(Clone, PartialEq, Debug)]
pub struct GivenPicture {
    /// In the size, the channels and the levels of those that the model has learned from.
    pub sample: Sample,
    /// Height and width that it had, upright.
    pub size: [usize; 2],
}

/// What a model says about a sample.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Prediction {
    /// The likeliest classes with their probabilities, likeliest first, five unless [`Predictor::with_likeliest`] asked
    /// for others; empty but of classification.
    pub likeliest: Vec<(u32, f32)>,
    /// The class of each pixel, `[height, width]` as the model was given them; empty but of segmentation.
    pub mask: Vec<u8>,
    /// The numbers, in their own units, as [`Predictor::classes`] names them; empty but of regression.
    pub numbers: Vec<f32>,
}

/// A picture and what a model says about it.
#[derive(Clone, PartialEq, Debug)]
pub struct PredictedPicture {
    /// Pixels from top to bottom, as the model was given them.
    pub height: usize,
    /// And from left to right.
    pub width: usize,
    /// RGB, `[height, width, 3]`.
    pub pixels: Vec<u8>,
    /// What the model says.
    pub prediction: Prediction,
}

impl Predictor {
    /// The model of the run in `folder`, which may be going on, with the weights that it saved last, on this device, or
    /// that of the run's settings.
    ///
    /// # Errors
    /// If there is no run that has saved weights, or the device fails.
    pub fn open(folder: &Path, device: Option<&str>) -> Result<Self> {
        Self::open_saved(folder, [WEIGHTS, BEST], device)
    }

    /// The same with the weights of the run's best evaluation, if those are there: what `brasa infer` and `brasa eval`
    /// take.
    ///
    /// # Errors
    /// As of [`open`](Self::open).
    pub fn open_best(folder: &Path, device: Option<&str>) -> Result<Self> {
        Self::open_saved(folder, [BEST, WEIGHTS], device)
    }

    fn open_saved(folder: &Path, names: [&str; 2], device: Option<&str>) -> Result<Self> {
        Self::open_with(folder, saved_weights(folder, names)?, device)
    }

    /// The same with the weights in a file.
    ///
    /// # Errors
    /// If there is no run, the weights are not its model's, or the device fails.
    pub fn open_with(folder: &Path, weights: impl AsRef<Path>, device: Option<&str>) -> Result<Self> {
        let SavedModel { config, device, model, classes, input } = SavedModel::open(folder, weights.as_ref(), device)?;
        let (numbers, normalization) = (Numbers::of(&config), input.normalization());
        let InputRecord { segments, regresses, .. } = input;
        let model: Arc<dyn Module> = model.into();
        let own = Arc::clone(&model);
        let step = Step::new(&device, move |inputs| {
            let inputs = normalization.apply(&inputs[0]);
            let logits = Mode::Evaluate.scope(|| numbers.forward(model.as_ref(), &inputs)).to_dtype(DType::F32);
            vec![no_grad(|| match (segments, regresses) {
                (true, _) => logits.argmax(1).to_dtype(DType::U8),
                (_, true) => logits,
                _ => logits.log_softmax(1),
            })]
        })?;
        let step = Mutex::new(step);
        let answer = move |inputs: &Tensor| Ok(step.lock().run(std::slice::from_ref(inputs))?.remove(0));
        Ok(Self { model: Some(own), ..Self::new(device, classes, input, None, Box::new(answer)) })
    }

    pub(super) fn new(
        device: Device,
        classes: Vec<String>,
        input: InputRecord,
        rows: Option<usize>,
        answer: Answer,
    ) -> Self {
        Self { device, classes, input, rows, most: LIKELIEST, answer, model: None }
    }

    /// Keeps the model's weights in 8 bits, as [`nn::quantize`] does: a quarter of the memory, and answers that differ a
    /// little. What that took and takes.
    ///
    /// # Errors
    /// If the model is from an ONNX file, has no weights to keep so, or the device fails.
    pub fn quantize(&self) -> Result<Quantized> {
        let Some(model) = &self.model else {
            let message =
                "quantize: an ONNX model's weights stay as they are in its file, which may itself be quantised";
            return Err(Error::Config(message.into()));
        };
        nn::quantize(model.as_ref())
    }

    /// The same, which tells up to so many of the likeliest classes.
    #[must_use]
    pub fn with_likeliest(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// Names of the classes, or of the numbers that are predicted.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// What the model is given.
    pub fn input(&self) -> &InputRecord {
        &self.input
    }

    /// Where it answers.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The picture in a file: JPEG, PNG, BMP, WebP or GIF. It is brought to the size, the channels and the levels of
    /// those that the model has learned from.
    ///
    /// # Errors
    /// If it is not a picture that can be read, or the model is given no pictures.
    pub fn read_picture(&self, path: &Path) -> Result<GivenPicture> {
        let mut bytes = Vec::new();
        read_file(path, MAX_PICTURE_BYTES, &mut bytes)?;
        self.decode_picture(&bytes, path)
    }

    /// The same from a file's contents; `path` is for messages.
    ///
    /// # Errors
    /// As of [`read_picture`](Self::read_picture).
    pub fn decode_picture(&self, bytes: &[u8], path: &Path) -> Result<GivenPicture> {
        let &[channels @ (1 | 3), height, width] = &self.input.shape[..] else {
            let columns = self.input.shape.iter().product::<usize>();
            return Err(Error::format(path, format!("the model is given rows of {columns} numbers, not pictures")));
        };
        let mut sample = Sample::default();
        decode_picture(bytes, channels, &mut sample).map_err(|reason| Error::format(path, reason))?;
        let size = [sample.shape[1], sample.shape[2]];
        Resize { height, width }.apply(&mut sample)?;
        change_levels(&mut sample, levels(&self.input.normalization()) / 255.0);
        Ok(GivenPicture { sample, size })
    }

    /// A row of a table with its features in the order and the units of those that the model has learned from; `None`
    /// if there are not as many.
    pub fn row(&self, features: &[f32]) -> Option<Sample> {
        let scales = self.input.normalization();
        if self.input.shape != [features.len()] || scales.mean.len() != features.len() {
            return None;
        }
        let mut values = features.to_vec();
        scales.standardise(&mut values);
        Some(Sample { shape: vec![values.len()], input: Values::F32(values), ..Sample::default() })
    }

    /// What the model says about each of these samples, all of which it is given at once.
    ///
    /// # Errors
    /// If the device fails.
    ///
    /// # Panics
    /// If a sample is not of the shape of those that the model has learned from.
    #[track_caller]
    pub fn predict(&self, samples: &[Sample]) -> Result<Vec<Prediction>> {
        let mut said = Vec::with_capacity(samples.len());
        for some in samples.chunks(self.rows.unwrap_or(samples.len()).max(1)) {
            said.extend(self.predict_at_once(some)?);
        }
        Ok(said)
    }

    #[track_caller]
    fn predict_at_once(&self, samples: &[Sample]) -> Result<Vec<Prediction>> {
        let Some(first) = samples.first() else { return Ok(Vec::new()) };
        let mut bytes = Vec::with_capacity(samples.len() * first.input.as_bytes().len());
        for Sample { shape, input, .. } in samples {
            let learned = &self.input.shape;
            assert_eq!(shape, learned, "predict: a sample is {shape:?}, but the model has learned from {learned:?}");
            bytes.extend_from_slice(input.as_bytes());
        }
        // where the model takes no fewer, the others are blank
        let rows = self.rows.unwrap_or(samples.len());
        bytes.resize(bytes.len() / samples.len() * rows, 0);
        let shape = Shape::from([&[rows], &self.input.shape[..]].concat());
        let inputs = Tensor::from_bytes(&bytes, shape, first.input.dtype(), &self.device)?;
        let said = (self.answer)(&inputs)?;
        let each = said.numel() / rows;
        Ok(if self.input.segments {
            let masks = said.to_vec::<u8>()?;
            let of = |mask: &[u8]| Prediction { mask: mask.to_vec(), ..Prediction::default() };
            masks.chunks_exact(each).take(samples.len()).map(of).collect()
        } else if self.input.regresses {
            let mut numbers = said.to_vec::<f32>()?;
            if let Some(scales) = &self.input.scales {
                scales.restore(&mut numbers);
            }
            let of = |numbers: &[f32]| Prediction { numbers: numbers.to_vec(), ..Prediction::default() };
            numbers.chunks_exact(each).take(samples.len()).map(of).collect()
        } else {
            let logarithms = said.to_vec::<f32>()?;
            let of = |row| Prediction { likeliest: likeliest(row, self.most), ..Prediction::default() };
            logarithms.chunks_exact(each).take(samples.len()).map(of).collect()
        })
    }

    /// What the model says about the picture in a file, and how it saw it.
    ///
    /// # Errors
    /// If it is not a picture that can be read, or the device fails.
    pub fn predict_file(&self, path: &Path) -> Result<PredictedPicture> {
        let sample = self.read_picture(path)?.sample;
        let prediction = self.predict(std::slice::from_ref(&sample))?.remove(0);
        let &[channels, height, width] = &sample.shape[..] else { unreachable!("pictures have three axes") };
        let largest = few_levels(&self.input.normalization()).map_or(255, |largest| largest as u8);
        let pixels = pictures::interleaved(sample.input.as_bytes(), channels, largest);
        let pixels = if channels == 3 { pixels } else { pixels.iter().flat_map(|&level| [level; 3]).collect() };
        Ok(PredictedPicture { height, width, pixels, prediction })
    }
}
