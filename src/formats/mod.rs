//! Files that other programs read or write: ONNX models, TensorBoard's event files, PyTorch's state dicts. (Weights as
//! safetensors are in [`nn`](crate::nn), where the names are.)

pub mod onnx;
pub mod tensorboard;
pub(crate) mod torch;
