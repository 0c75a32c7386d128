//! Ready networks, and how to make one by name.

mod cnn;
mod gpt;
mod mlp;
mod resnet;
mod unet;

use crate::device::Device;
use crate::error::{Error, Result};
use crate::nn::{Init, Module};

pub use cnn::{DigitsCnn, TutorialCnn};
pub use gpt::{Gpt, GptOptions};
pub use mlp::Mlp;
pub use resnet::{BasicBlock, ResNet20};
pub use unet::{DoubleConv, UNet};

/// What the data ask of a model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelSpec {
    /// Shape of one sample: `[channels, height, width]` for images, `[sequence]` for token numbers.
    pub input: Vec<usize>,
    /// Number of classes, or of different tokens.
    pub classes: usize,
    /// Seed of the first weights.
    pub seed: u64,
}

/// A model that can be made by name.
pub struct Entry {
    /// What the command line calls it.
    pub name: &'static str,
    /// One line for lists.
    pub about: &'static str,
    make: fn(&ModelSpec, &Init) -> Result<Box<dyn Module>>,
}

/// All of them.
pub const MODELS: [Entry; 6] = [
    Entry {
        name: "mlp",
        about: "three linear layers (128 and 64 hidden values) over the flattened sample",
        make: |spec, init| Ok(Box::new(Mlp::new(&[spec.input.iter().product(), 128, 64, spec.classes], init)?)),
    },
    Entry {
        name: "cnn",
        about: "three 3x3 convolutions for images from 4x4 pixels on, such as the 8x8 digits",
        make: |spec, init| {
            let [channels, height, width] = image(spec, "cnn", 4)?;
            Ok(Box::new(DigitsCnn::new([channels, height, width], spec.classes, init)?))
        },
    },
    Entry {
        name: "tutorial-cnn",
        about: "the network of PyTorch's CIFAR tutorial: two 5x5 convolutions, three linear layers",
        make: |spec, init| {
            let [channels, height, width] = image(spec, "tutorial-cnn", 16)?;
            Ok(Box::new(TutorialCnn::new([channels, height, width], spec.classes, init)?))
        },
    },
    Entry {
        name: "resnet20",
        about: "ResNet-20 for CIFAR (He et al. 2016)",
        make: |spec, init| {
            let [channels, ..] = image(spec, "resnet20", 1)?;
            Ok(Box::new(ResNet20::new(channels, spec.classes, init)?))
        },
    },
    Entry {
        name: "unet",
        about: "U-Net for segmentation, 16 to 128 channels; sides divisible by 8",
        make: |spec, init| {
            let [channels, height, width] = image(spec, "unet", 8)?;
            if height % 8 != 0 || width % 8 != 0 {
                let message =
                    format!("model `unet` halves its input three times: {height}x{width} does not divide by 8");
                return Err(Error::Shape(message));
            }
            Ok(Box::new(UNet::new(channels, &UNet::WIDTHS, spec.classes, init)?))
        },
    },
    Entry {
        name: "gpt",
        about: "a small GPT: 4 pre-norm transformer blocks of width 128 with 4 heads",
        make: |spec, init| {
            let &[sequence] = &spec.input[..] else {
                return Err(Error::Shape(format!("model `gpt` wants samples [sequence], not {:?}", spec.input)));
            };
            Ok(Box::new(Gpt::new(GptOptions::new(spec.classes, sequence), init)?))
        },
    },
];

/// The model called `name` for data such as `spec` says, on `device`.
pub fn create(name: &str, spec: &ModelSpec, device: &Device) -> Result<Box<dyn Module>> {
    let Some(entry) = MODELS.iter().find(|entry| entry.name == name) else {
        let known = MODELS.map(|entry| entry.name).join(", ");
        return Err(Error::Config(format!("unknown model `{name}`; known are: {known}")));
    };
    if spec.classes == 0 || spec.input.contains(&0) {
        return Err(Error::Shape(format!("model `{name}`: no classes or an empty sample in {spec:?}")));
    }
    (entry.make)(spec, &Init::new(device, spec.seed))
}

/// The sample's shape as an image of at least `least` pixels in both directions.
fn image(spec: &ModelSpec, name: &str, least: usize) -> Result<[usize; 3]> {
    match spec.input[..] {
        [channels, height, width] if height >= least && width >= least => Ok([channels, height, width]),
        _ => {
            let wanted = format!("[channels, height, width] with sides of at least {least}");
            Err(Error::Shape(format!("model `{name}` wants samples {wanted}, not {:?}", spec.input)))
        }
    }
}
