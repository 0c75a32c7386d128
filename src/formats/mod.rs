//! Files that other programs read: TensorBoard's event files. (Weights as safetensors are in [`nn`](crate::nn), where the names
//! are.)

pub mod tensorboard;
