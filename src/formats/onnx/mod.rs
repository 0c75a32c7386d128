//! ONNX models.

pub(crate) mod proto;
