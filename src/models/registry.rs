//! Models by name: what the command line offers, and those of programs.

use std::fmt;
use std::sync::{PoisonError, RwLock};

use crate::device::Device;
use crate::error::{Error, Result};
use crate::nn::{Init, Module};

use super::{
    CifarResNet, ConvNeXt, ConvNeXtOptions, DigitsCnn, Gpt, GptOptions, Mlp, MobileNetV2, ResNet, ResNetOptions,
    TutorialCnn, UNet, VGG, VGGOptions, VisionTransformer, VisionTransformerOptions,
};

/// What the data ask of a model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelSpec {
    /// Shape of one sample: `[channels, height, width]` for images, `[sequence]` for token numbers.
    pub input: Vec<usize>,
    /// Number of classes, of numbers to predict, or of different tokens.
    pub classes: usize,
    /// Seed of the first weights.
    pub seed: u64,
}

/// What a model is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Task {
    /// One class for each sample.
    Classify,
    /// One class for each pixel.
    Segment,
    /// The next token of a text.
    Continue,
}

/// A model that can be made by name.
pub struct Entry {
    /// What the command line calls it.
    pub name: &'static str,
    /// One line for lists.
    pub about: &'static str,
    /// What it is for.
    pub task: Task,
    make: &'static Make,
}

/// What makes a model with its first weights.
type Make = dyn Fn(&ModelSpec, &Init) -> Result<Box<dyn Module>> + Send + Sync;

impl Entry {
    /// True if it may consist of [blocks](crate::nn::block), whose values need not be kept.
    pub fn has_blocks(&self) -> bool {
        !matches!(self.name, "mlp" | "cnn" | "tutorial-cnn")
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Entry {}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A classifier of images with sides of at least `$least`.
macro_rules! classifier {
    ($name:literal, $least:literal, $about:literal, |$image:pat_param, $classes:ident, $init:ident| $make:expr) => {
        Entry {
            name: $name,
            about: $about,
            task: Task::Classify,
            make: &|spec, $init| {
                let ($image, $classes) = (image(spec, $name, $least)?, spec.classes);
                Ok(Box::new($make?))
            },
        }
    };
}

/// Brasa's own.
pub static MODELS: &[Entry] = &[
    Entry {
        name: "mlp",
        about: "three linear layers (128 and 64 hidden values) over the flattened sample",
        task: Task::Classify,
        make: &|spec, init| Ok(Box::new(Mlp::new(&[spec.input.iter().product(), 128, 64, spec.classes], init)?)),
    },
    classifier!("cnn", 4, "three 3x3 convolutions, for small pictures such as the digits", |image, classes, init| {
        DigitsCnn::new(image, classes, init)
    }),
    classifier!("tutorial-cnn", 16, "the network of PyTorch's CIFAR tutorial", |image, classes, init| {
        TutorialCnn::new(image, classes, init)
    }),
    classifier!("resnet20", 1, "ResNet-20 for CIFAR (He et al. 2016), 0.27 M parameters", |[c, ..], classes, init| {
        CifarResNet::new(20, c, classes, init)
    }),
    classifier!("resnet32", 1, "ResNet-32 for CIFAR, 0.47 M parameters", |[c, ..], classes, init| {
        CifarResNet::new(32, c, classes, init)
    }),
    classifier!("resnet56", 1, "ResNet-56 for CIFAR, 0.86 M parameters", |[c, ..], classes, init| {
        CifarResNet::new(56, c, classes, init)
    }),
    classifier!("resnet110", 1, "ResNet-110 for CIFAR, 1.7 M parameters", |[c, ..], classes, init| {
        CifarResNet::new(110, c, classes, init)
    }),
    classifier!(
        "resnet18",
        1,
        "ResNet-18 for ImageNet (He et al. 2016), 11.7 M parameters",
        |[c, ..], classes, init| { ResNet::new(ResNetOptions::depth(18), c, classes, init) }
    ),
    classifier!("resnet34", 1, "ResNet-34 for ImageNet, 21.8 M parameters", |[c, ..], classes, init| {
        ResNet::new(ResNetOptions::depth(34), c, classes, init)
    }),
    classifier!("resnet50", 1, "ResNet-50 for ImageNet, 25.6 M parameters", |[c, ..], classes, init| {
        ResNet::new(ResNetOptions::depth(50), c, classes, init)
    }),
    classifier!("vgg11", 32, "VGG-11 (Simonyan and Zisserman 2015), 133 M parameters", |[c, ..], classes, init| {
        VGG::new(VGGOptions::depth(11, false), c, classes, init)
    }),
    classifier!("vgg11-bn", 32, "VGG-11 with batch norm", |[c, ..], classes, init| {
        VGG::new(VGGOptions::depth(11, true), c, classes, init)
    }),
    classifier!("vgg16", 32, "VGG-16, 138 M parameters", |[c, ..], classes, init| {
        VGG::new(VGGOptions::depth(16, false), c, classes, init)
    }),
    classifier!("vgg16-bn", 32, "VGG-16 with batch norm", |[c, ..], classes, init| {
        VGG::new(VGGOptions::depth(16, true), c, classes, init)
    }),
    classifier!("mobilenet-v2", 1, "MobileNetV2 (Sandler et al. 2018), 3.5 M parameters", |[c, ..], classes, init| {
        MobileNetV2::new(1.0, c, classes, init)
    }),
    classifier!("convnext-tiny", 32, "ConvNeXt-T (Liu et al. 2022), 28.6 M parameters", |[c, ..], classes, init| {
        ConvNeXt::new(ConvNeXtOptions::TINY, c, classes, init)
    }),
    Entry {
        name: "vit-tiny",
        about: "ViT-Ti (Touvron et al. 2021), 5.7 M parameters; patches of 16x16 pixels, of 4x4 below 64x64",
        task: Task::Classify,
        make: &|spec, init| {
            let [channels, height, width] = image(spec, "vit-tiny", 4)?;
            let patch = if height.min(width) < 64 { 4 } else { 16 };
            divisible("vit-tiny", [height, width], patch)?;
            let options = VisionTransformerOptions { patch, ..VisionTransformerOptions::TINY };
            Ok(Box::new(VisionTransformer::new(options, [channels, height, width], spec.classes, init)?))
        },
    },
    Entry {
        name: "unet",
        about: "U-Net for segmentation (Ronneberger et al. 2015), 16 to 128 channels; sides divisible by 8",
        task: Task::Segment,
        make: &|spec, init| {
            let [channels, height, width] = image(spec, "unet", 8)?;
            divisible("unet", [height, width], 8)?;
            Ok(Box::new(UNet::new(channels, &UNet::WIDTHS, spec.classes, init)?))
        },
    },
    Entry {
        name: "gpt",
        about: "a small GPT: 4 pre-norm transformer blocks of width 128 with 4 heads",
        task: Task::Continue,
        make: &|spec, init| {
            let &[sequence] = &spec.input[..] else {
                return Err(Error::Shape(format!("model `gpt` wants samples [sequence], not {:?}", spec.input)));
            };
            Ok(Box::new(Gpt::new(GptOptions::new(spec.classes, sequence), init)?))
        },
    },
];

/// Those of this process's programs.
static ADDED: RwLock<Vec<&'static Entry>> = RwLock::new(Vec::new());

/// All of them: brasa's own and those that were [added](add).
pub fn all() -> Vec<&'static Entry> {
    let added = ADDED.read().unwrap_or_else(PoisonError::into_inner);
    MODELS.iter().chain(added.iter().copied()).collect()
}

/// Adds a model of a program's own, which [`create`], a run's settings ([`ModelName`](crate::train::ModelName)) and the
/// window's form then know by `name`, as long as the process runs: [`Trainer`](crate::train::Trainer) trains it,
/// resumes its runs and predicts with what they saved. Other processes, `brasa view` among them, see its runs; what has
/// to make the model, such as `brasa infer`, needs a program that adds it.
///
/// `make` gets what the data ask for and gives a model from samples `[batch, input...]` to logits `[batch, classes]`, or
/// numbers where the data have some ([`Task::Classify`]), or `[batch, classes, height, width]` ([`Task::Segment`]).
///
/// ```
/// use brasa::data::digits;
/// use brasa::models::{self, Task};
/// use brasa::nn::{Linear, Module};
/// use brasa::train::{Config, Control, ModelName, Trainer};
/// use brasa::{Result, Tensor};
///
/// /// Two linear layers with a wave between them.
/// struct Waves(Linear, Linear);
///
/// brasa::variables!(Waves: 0, 1);
///
/// impl Module for Waves {
///     fn forward(&self, input: &Tensor) -> Tensor {
///         self.1.forward(&self.0.forward(&input.flatten(1, -1)).sin())
///     }
/// }
///
/// # fn main() -> Result<()> {
/// models::add("waves", "two linear layers with a wave between them", Task::Classify, |spec, init| {
///     let first = Linear::new(spec.input.iter().product(), 64, &init.at("first"))?;
///     Ok(Box::new(Waves(first, Linear::new(64, spec.classes, &init.at("second"))?)))
/// })?;
/// # let out = tempfile::tempdir().unwrap();
/// let config = Config {
///     model: ModelName::new("waves")?,
///     epochs: 2,
///     device: Some("cpu".into()),
///     out: out.path().into(),
///     ..Config::default()
/// };
/// let summary = Trainer::new(config)?.run(&Control::default(), &mut |_| {})?;
/// assert!(summary.test.unwrap().score() > 0.7);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If there is a model of that name, or it is not a name: a letter, then small letters, digits and hyphens.
pub fn add(
    name: &str,
    about: &str,
    task: Task,
    make: impl Fn(&ModelSpec, &Init) -> Result<Box<dyn Module>> + Send + Sync + 'static,
) -> Result<()> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(is_part) {
        let message = format!("`{name}` is not a model's name: a letter, then small letters, digits and hyphens");
        return Err(Error::Config(message));
    }
    let mut added = ADDED.write().unwrap_or_else(PoisonError::into_inner);
    if MODELS.iter().chain(added.iter().copied()).any(|entry| entry.name == name) {
        return Err(Error::Config(format!("there is a model `{name}` already")));
    }
    // settings hold entries wherever they go, so they stay as long as the process does
    let [name, about] = [name, about].map(|text| &*text.to_owned().leak());
    added.push(Box::leak(Box::new(Entry { name, about, task, make: Box::leak(Box::new(make)) })));
    Ok(())
}

/// The entry called `name`.
///
/// # Errors
/// If there is none; the message lists them all.
pub fn find(name: &str) -> Result<&'static Entry> {
    let entries = all();
    entries.iter().find(|entry| entry.name == name).copied().ok_or_else(|| unknown(name, &entries))
}

/// There is no model `name` among these.
pub(crate) fn unknown(name: &str, known: &[&Entry]) -> Error {
    let known = known.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", ");
    Error::Config(format!(
        "unknown model `{name}`; known are: {known}; one of a program's own is known to that program only"
    ))
}

/// The model called `name` for data such as `spec` says, on `device`.
///
/// # Errors
/// If there is none of that name, it does not fit the data, or there is no memory.
///
/// ```
/// use brasa::models::{ModelSpec, create};
/// use brasa::{Device, Tensor};
///
/// let device = Device::cpu();
/// let spec = ModelSpec { input: vec![1, 28, 28], classes: 10, seed: 0 };
/// let model = create("mlp", &spec, &device)?;
/// assert_eq!(model.forward(&Tensor::zeros([5, 1, 28, 28], &device)).shape().dims(), [5, 10]);
/// # Ok::<(), brasa::Error>(())
/// ```
pub fn create(name: &str, spec: &ModelSpec, device: &Device) -> Result<Box<dyn Module>> {
    create_with(name, spec, &Init::new(device, spec.seed))
}

/// [`create`] at a place of its own: `Init::zeros`, for one that is about to be loaded.
///
/// # Errors
/// As [`create`].
pub fn create_with(name: &str, spec: &ModelSpec, init: &Init) -> Result<Box<dyn Module>> {
    let entry = find(name)?;
    if spec.classes == 0 || spec.input.contains(&0) {
        return Err(Error::Shape(format!("model `{name}`: no classes or an empty sample in {spec:?}")));
    }
    (entry.make)(spec, init)
}

/// The sample's shape as an image of at least `least` pixels in both directions.
fn image(spec: &ModelSpec, name: &str, least: usize) -> Result<[usize; 3]> {
    match spec.input[..] {
        [channels, height, width] if height >= least && width >= least => Ok([channels, height, width]),
        _ => {
            let wanted = format!("[channels, height, width] with sides of at least {least}");
            let instead = match spec.input[..] {
                [_, _, _] => format!("add --image-size {least}"),
                _ => "take --model mlp".to_owned(),
            };
            Err(Error::Shape(format!("model `{name}` wants samples {wanted}, not {:?}: {instead}", spec.input)))
        }
    }
}

fn divisible(name: &str, [height, width]: [usize; 2], by: usize) -> Result<()> {
    if height.is_multiple_of(by) && width.is_multiple_of(by) {
        return Ok(());
    }
    // of the smaller side: it says how large patches are
    let less = height.min(width) / by * by;
    let instead = format!("take --image-size {less} or {}", less + by);
    Err(Error::Shape(format!("model `{name}`: {height}x{width} does not divide by {by}: {instead}")))
}
