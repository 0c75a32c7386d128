//! Most integration tests, in one program: linking one takes as long as running many tests. `cargo test --test suite
//! losses::` runs those of a module.
//!
//! They run in threads of one process, so whatever counts objects, breaks a device or seeds its random numbers opens a
//! device of its own (`common::fresh_devices`), and what depends on environment variables starts the program again.
//! Apart from them stand `allocation`, which counts what the whole process takes, `cli`, which needs the program
//! `brasa`, `graphs`, which is to be run for hours, `limits`, whose tensors take much of the memory there is, `malformed`,
//! which damages files, and `ui`, which works the window's widgets.

#[path = "../common/mod.rs"]
mod common;

mod autodiff;
mod beside;
mod corners;
mod custom;
mod determinism;
mod dtypes;
mod eager;
mod early_stopping;
mod edges;
mod exported;
mod faults;
mod fft;
mod followed;
mod gate;
mod interop;
mod layers;
mod leaves;
mod linalg;
mod long_sums;
mod losses;
mod memory;
mod messages;
mod models;
mod onnx;
mod ops;
mod optim;
mod own_data;
mod own_model;
mod parallel;
mod plans;
mod quantized;
mod recorded;
mod regression;
mod runs;
mod schedules;
mod sequences;
mod shaders;
mod sort;
mod state;
mod torch_ops;
mod training;
mod values;
mod weights;
