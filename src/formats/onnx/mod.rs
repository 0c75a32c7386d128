//! ONNX models (<https://onnx.ai>): the format in which PyTorch, TensorFlow and scikit-learn hand networks on.
//!
//! A [`Model`] is read from a file and runs on any device. Its floating weights are variables under their names in the
//! file, so that it is a [`Module`](crate::nn::Module) like any other: it may be trained further, and its weights
//! saved.
//!
//! ```no_run
//! use brasa::formats::onnx::Model;
//! use brasa::{Device, Tensor};
//!
//! let device = Device::best()?;
//! let model = Model::load("resnet50.onnx", &device)?;
//! for input in model.inputs() {
//!     println!("{input}"); // input: float32 [batch, 3, 224, 224]
//! }
//! let picture = Tensor::zeros([1, 3, 224, 224], &device);
//! let logits = &model.run(&[picture])?[0];
//! # Ok::<(), brasa::Error>(())
//! ```
//!
//! [`export`] writes a module for other programs, and [`export_function`] any function of tensors.

mod proto;
mod read;
mod write;

pub use read::{Dimension, Model, TensorInfo, supported_operators};
pub use write::{Batch, ExportOptions, Input, export, export_function};
