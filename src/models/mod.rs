//! Ready networks, and how to make one by name.

mod blocks;
mod cnn;
mod convnext;
mod generate;
mod gpt;
mod mlp;
mod mobilenet;
mod registry;
mod resnet;
mod unet;
mod vgg;
mod vit;

pub use cnn::{DigitsCnn, TutorialCnn};
pub use convnext::{ConvNeXt, ConvNeXtOptions};
pub use generate::{Generator, Sampling};
pub use gpt::{Gpt, GptOptions};
pub use mlp::Mlp;
pub use mobilenet::MobileNetV2;
pub(crate) use registry::unknown;
pub use registry::{Entry, MODELS, ModelSpec, Task, add, all, create, create_with, find};
pub use resnet::{BasicBlock, Bottleneck, CifarResNet, ResNet, ResNetOptions, Shortcut};
pub use unet::{DoubleConv, UNet};
pub use vgg::{VGG, VGGOptions};
pub use vit::{VisionTransformer, VisionTransformerOptions};
