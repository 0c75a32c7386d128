//! ONNX models: what is traced here is written for other programs.

mod proto;
mod write;

pub use write::{Batch, ExportOptions, Input, export, export_function};
