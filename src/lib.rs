//! brasa trains and runs neural networks on whatever GPU the machine has.

// the table of ops, which names the crate as its users do, is a module of unit tests too
#[cfg(test)]
extern crate self as brasa;

pub mod autodiff;
#[cfg(feature = "cli")]
pub mod cli;
mod cpu;
pub mod custom;
pub mod data;
pub mod debug;
pub mod device;
pub mod dtype;
pub mod error;
mod files;
mod free_list;
mod gpu;
pub mod graph;
pub mod models;
pub mod nn;
pub mod ops;
pub mod optim;
pub mod plan;
pub mod runtime;
pub mod semantics;
pub mod shape;
pub mod stage;
mod status;
pub mod tensor;
pub mod timing;
pub mod train;

pub use device::Device;
pub use dtype::{DType, Element, Scalar};
pub use error::{Error, Result};
pub use gpu::wgpu;
pub use shape::Shape;
pub use stage::Stage;
pub use tensor::{Tensor, no_grad};

/// The README's examples, so that they are compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExamples;
