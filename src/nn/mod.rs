//! Layers: plain structs of variables that are named by path, as in PyTorch's `state_dict`.
//!
//! Functions without variables (ReLU, pooling, softmax, losses) are methods of [`Tensor`](crate::tensor::Tensor).

mod attention;
mod conv;
mod dropout;
mod init;
mod linear;
mod module;
mod norm;
mod sequential;
mod state;

pub use attention::{Attention, MultiheadAttention, TransformerBlock};
pub use conv::Conv2d;
pub use dropout::Dropout;
pub use init::{Init, Initial, Nonlinearity, fans};
pub use linear::{Embedding, Linear};
pub use module::{Mode, Module};
pub use norm::{BatchNorm2d, LayerNorm};
pub use sequential::Sequential;
pub use state::{Summary, load_state, state, summary};
