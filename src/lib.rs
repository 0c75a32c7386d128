//! Trains and runs neural networks on whatever GPU the machine has, through WGSL kernels on Vulkan, Metal or DX12, with
//! a native CPU backend beside it.
//!
//! # A first program
//!
//! Tensors have PyTorch's functions under PyTorch's names. Nothing is computed before a value is read, and a [`Step`]
//! is planned once, with forward, loss, gradients and update as one set of fused kernels, and then only replayed.
//!
//! ```
//! use brasa::prelude::*;
//!
//! # fn main() -> Result<()> {
//! let device = Device::cpu(); // or Device::best()?, Device::gpu(0)?
//! let x = Tensor::from_slice(&[0.0_f32, 1.0, 2.0, 3.0], [4, 1], &device)?;
//! let y = &x * 2.0 + 1.0;
//!
//! let model = nn::Linear::new(1, 1, &Init::new(&device, 0))?;
//! let options = optim::SGDOptions { learning_rate: 0.1, ..Default::default() };
//! let optimizer = optim::SGD::new(&model.parameters(), options)?;
//! let mut step = Step::new(&device, move |inputs| {
//!     let loss = (model.forward(&inputs[0]) - &inputs[1]).square().mean();
//!     optimizer.update(&loss.backward());
//!     vec![loss]
//! })?;
//!
//! let mut losses = Vec::new();
//! for _ in 0..200 {
//!     losses.push(step.run(&[x.clone(), y.clone()])?[0].item::<f32>()?);
//! }
//! step.ensure_finite()?; // a step that meets a NaN changes nothing from then on
//! assert!(losses[199] < 1e-4 * losses[0]);
//! # Ok(())
//! # }
//! ```
//!
//! # From a call to a value
//!
//! A method of [`Tensor`] checks shapes, at the caller's line, and adds a node to a [`graph`]. [`autodiff`] adds the
//! nodes of the gradients. When a value is read, or a step is captured, [`plan`] turns the part of the graph that it
//! needs into fused kernels over numbered buffers, and the [`device`] runs them: WGSL through wgpu, or native vector
//! code.
//!
//! # Debug builds
//!
//! Cargo compiles dependencies of debug builds without optimization, which makes the CPU backend and planning about ten
//! times slower. This in an application's `Cargo.toml` makes them fast there, too:
//!
//! ```toml
//! [profile.dev.package."*"]
//! opt-level = 3
//! ```
//!
//! # Where to go next
//!
//! * [`Tensor`] has everything one can do with a tensor; [`semantics`] settles what ops mean in doubtful cases.
//! * [`nn`] has layers and files of weights, [`optim`] optimizers and schedules, [`models`] whole networks, [`data`]
//!   data sets and the loader.
//! * [`runtime`] has variables ([`Var`]), captured steps ([`Step`]), checkpointing and seeds.
//! * [`train`] is the training loop of the program `brasa`, without a front end: settings in, events out.
//! * [`runs`] reads what runs wrote and are writing: curves, states, predictions, event files of other programs.
//! * [`formats::onnx`] runs ONNX models, and writes them.
//! * [`custom`] turns a WGSL kernel of your own into an op.
//! * [`Device::from_wgpu`] shares a device with an application that uses [`wgpu`] itself.
//! * [`debug`] lists the environment variables that show what happens.
//!
//! A wrong shape or type is a bug in the caller's code and panics at the caller's line, with both shapes; what goes
//! wrong outside of the program, such as no memory, a lost device or a damaged file, is an [`Error`].
//!
//! [`Step`]: runtime::Step
//! [`Var`]: runtime::Var

pub mod autodiff;
pub mod bench;
#[cfg(feature = "cli")]
pub mod cli;
mod colors;
mod cpu;
pub mod custom;
pub mod data;
pub mod debug;
pub mod device;
pub mod doctor;
pub mod dtype;
pub mod error;
pub mod fft;
mod files;
pub mod formats;
mod free_list;
mod gpu;
pub mod graph;
mod hash;
pub mod linalg;
mod matmul_precision;
pub mod models;
pub mod nn;
pub mod ops;
pub mod optim;
pub mod parallel;
pub mod plan;
mod pool;
pub mod prelude;
pub mod runs;
pub mod runtime;
pub mod semantics;
mod sensors;
pub mod shape;
pub mod stage;
mod status;
pub mod tensor;
pub mod timing;
pub mod train;
#[cfg(feature = "ui")]
pub mod ui;
mod units;

pub use device::Device;
pub use dtype::{DType, Element, Scalar};
pub use error::{Error, Result};
pub use gpu::wgpu;
pub use matmul_precision::MatmulPrecision;
pub use shape::Shape;
pub use stage::Stage;
pub use tensor::{Tensor, no_grad};

/// How this was compiled: `release` or `debug`.
pub(crate) const BUILD: &str = if cfg!(debug_assertions) { "debug" } else { "release" };

/// The README's examples, so that they are compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExamples;

/// The examples of docs/onnx.md.
#[cfg(doctest)]
#[doc = include_str!("../docs/onnx.md")]
pub struct OnnxExamples;
