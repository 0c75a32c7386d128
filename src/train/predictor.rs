//! What a run's model says about pictures of one's own.

use std::path::{Path, PathBuf};

use crate::data::{MAX_PICTURE_BYTES, Resize, Sample, Values, decode_picture, read_file};
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::models::{self, ModelSpec};
use crate::nn::{LoadOptions, Mode, Module, load_weights};
use crate::tensor::{Tensor, no_grad};

use super::learned::{change_levels, few_levels, levels};
use super::learner::{Numbers, likeliest};
use super::record::{InputRecord, RUN, RunRecord};
use super::run::{BEST, WEIGHTS};
use super::{Trainer, pictures};

/// The model of a run, with the weights that it saved last.
///
/// ```
/// use brasa::train::{Config, Control, Predictor, Trainer};
///
/// # let out = tempfile::tempdir().unwrap();
/// let config = Config { device: Some("cpu".into()), epochs: 1, out: out.path().into(), ..Config::default() };
/// let summary = Trainer::new(config)?.run(&Control::default(), &mut |_| {})?;
/// let predictor = Predictor::open(&summary.folder, Some("cpu"))?;
/// # let picture = out.path().join("picture.png");
/// # image::GrayImage::new(20, 30).save(&picture).unwrap();
/// let predicted = predictor.predict_file(&picture)?;
/// assert_eq!((predicted.height, predicted.width), (8, 8), "as the model is given digits");
/// let (class, probability) = predicted.likeliest[0];
/// println!("{} ({probability})", predictor.classes()[class as usize]);
/// # Ok::<(), brasa::Error>(())
/// ```
pub struct Predictor {
    device: Device,
    model: Box<dyn Module>,
    numbers: Numbers,
    classes: Vec<String>,
    input: InputRecord,
    weights: PathBuf,
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
    /// The likeliest classes with their probabilities, likeliest first, five at most; empty of segmentation.
    pub likeliest: Vec<(u32, f32)>,
    /// The class of each pixel, `[height, width]`; empty but of segmentation.
    pub mask: Vec<u8>,
}

impl Predictor {
    /// The model of the run in `folder`, which may be going on, on this device, or that of the run's settings.
    ///
    /// # Errors
    /// If there is no run that has saved weights, its model is not given pictures, or the device fails.
    pub fn open(folder: &Path, device: Option<&str>) -> Result<Self> {
        let config = Trainer::config_of(folder)?;
        let record = folder.join(RUN);
        let text = std::fs::read_to_string(&record).map_err(|error| Error::io(&record, error))?;
        let run: RunRecord = serde_json::from_str(&text).map_err(|error| Error::format(&record, error.to_string()))?;
        let RunRecord { classes, input, .. } = run;
        if !matches!(input.shape[..], [1 | 3, _, _]) {
            let message = format!("{}: its model is given {:?}, and no pictures", folder.display(), input.shape);
            return Err(Error::Config(message));
        }
        let device = device.or(config.device.as_deref()).map_or_else(Device::best, Device::named)?;
        device.set_matmul_precision(config.matmul_precision);
        let spec = ModelSpec { input: input.shape.clone(), classes: classes.len(), seed: u64::from(config.seed) };
        let model = models::create(&config.model.to_string(), &spec, &device)?;
        let saved = [WEIGHTS, BEST].map(|name| folder.join(name));
        let Some(weights) = saved.into_iter().find(|path| path.exists()) else {
            return Err(Error::Config(format!("{}: this run has saved no weights yet", folder.display())));
        };
        load_weights(model.as_ref(), &weights, &LoadOptions::default())?;
        Ok(Self { device, model, numbers: Numbers::of(&config), classes, input, weights })
    }

    /// Takes the weights that the run has saved meanwhile.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn reload(&self) -> Result<()> {
        load_weights(self.model.as_ref(), &self.weights, &LoadOptions::default()).map(drop)
    }

    /// Names of the classes.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// What the model says about the picture in a file: JPEG, PNG, BMP, WebP or GIF. It is brought to the size, the channels
    /// and the levels of those that the model has learned from.
    ///
    /// # Errors
    /// If it is no picture that can be read, or the device fails.
    pub fn predict_file(&self, path: &Path) -> Result<PredictedPicture> {
        let mut bytes = Vec::new();
        read_file(path, MAX_PICTURE_BYTES, &mut bytes)?;
        let &[channels, height, width] = &self.input.shape[..] else { unreachable!("pictures have three axes") };
        let mut sample = Sample::default();
        decode_picture(&bytes, channels, &mut sample).map_err(|reason| Error::format(path, reason))?;
        Resize { height, width }.apply(&mut sample)?;
        let normalization = self.input.normalization();
        let few = few_levels(&normalization);
        change_levels(&mut sample, levels(&normalization) / 255.0);
        let Values::U8(planes) = &sample.input else { unreachable!("pictures are bytes") };
        let pixels = pictures::interleaved(planes, channels, few.map_or(255, |largest| largest as u8));
        let pixels = if channels == 3 { pixels } else { pixels.iter().flat_map(|&level| [level; 3]).collect() };
        let picture = Tensor::from_bytes(planes, [1, channels, height, width], DType::U8, &self.device)?;
        let logits = no_grad(|| {
            Mode::Evaluate.scope(|| self.numbers.forward(self.model.as_ref(), &normalization.apply(&picture)))
        });
        let logits = logits.to_dtype(DType::F32);
        let mut predicted = PredictedPicture { height, width, pixels, likeliest: Vec::new(), mask: Vec::new() };
        if self.input.segments {
            let said = no_grad(|| logits.argmax(1)).to_vec::<i32>()?;
            predicted.mask = said.into_iter().map(|class| class as u8).collect();
        } else {
            predicted.likeliest = likeliest(&no_grad(|| logits.log_softmax(1)).to_vec::<f32>()?);
        }
        Ok(predicted)
    }
}
