//! Files that other programs read or write: TensorBoard's event files, PyTorch's state dicts, ONNX models. (Weights as safetensors are in
//! [`nn`](crate::nn), where the names are.)

pub mod onnx;
pub mod tensorboard;
pub(crate) mod torch;
