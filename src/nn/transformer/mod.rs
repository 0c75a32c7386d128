//! Transformer layers and stacks of them, with PyTorch's keys.

mod layers;
mod stacks;

pub use layers::{Activation, DecoderCache, TransformerDecoderLayer, TransformerEncoderLayer, TransformerOptions};
pub use stacks::{Transformer, TransformerDecoder, TransformerEncoder};
