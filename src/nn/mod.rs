//! Layers: plain structs of variables that are named by path, as in PyTorch's `state_dict`, with PyTorch's defaults.
//!
//! What they compute is a method of [`Tensor`](crate::tensor::Tensor); those without variables are here too, for
//! [`Sequential`]. Files of weights are read and written by name ([`load_weights`], [`save_weights`]).

mod activation;
mod attention;
mod conv;
mod dropout;
mod embedding;
mod functions;
mod init;
mod linear;
mod module;
mod norm;
mod pattern;
mod recurrent;
mod sequential;
mod state;
mod summary;
mod transformer;
mod weights;

pub use activation::{
    CELU, ELU, GELU, GELUTanh, GLU, Hardshrink, Hardsigmoid, Hardswish, Hardtanh, LeakyReLU, LogSigmoid, LogSoftmax,
    Mish, PReLU, ReLU, ReLU6, SELU, SiLU, Sigmoid, Softmax, Softplus, Softshrink, Softsign, Tanh, Tanhshrink,
};
pub use attention::{Attention, AttentionMasks, KeyValueCache, MultiheadAttention};
pub use conv::{Conv, Conv1d, Conv2d, Conv3d, ConvTranspose, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d};
pub use dropout::{AlphaDropout, ChannelDropout, Dropout, Dropout1d, Dropout2d, Dropout3d, StochasticDepth};
pub use embedding::{BagMode, Embedding, EmbeddingBag};
pub use functions::{
    AdaptiveAvgPool, AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AdaptiveMaxPool, AdaptiveMaxPool1d,
    AdaptiveMaxPool2d, AdaptiveMaxPool3d, AvgPool, AvgPool1d, AvgPool2d, AvgPool3d, ChannelShuffle, Flatten, Identity,
    MaxPool, MaxPool1d, MaxPool2d, MaxPool3d, PixelShuffle, PixelUnshuffle, Unflatten, Upsample,
};
pub(crate) use init::Generator;
pub use init::{Init, Initial, Nonlinearity, fans};
pub use linear::{Bilinear, Linear};
pub(crate) use module::Scope;
pub use module::{Mode, Module, freeze_statistics};
pub use norm::{
    BatchNorm, BatchNorm1d, BatchNorm2d, BatchNorm3d, GroupNorm, InstanceNorm, InstanceNorm1d, InstanceNorm2d,
    InstanceNorm3d, LayerNorm, LayerNorm2d, RMSNorm,
};
pub use pattern::trainable;
pub use recurrent::{GRU, GRUCell, LSTM, LSTMCell, RNN, RNNCell, RNNReLU, RecurrentOptions};
pub use sequential::{Residual, Sequential};
pub use state::{LoadOptions, LoadReport, load_state, load_state_with, state};
pub use summary::{LayerSummary, Summary, parameter_count, summary};
pub use transformer::{
    Activation, TransformerDecoder, TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer,
    TransformerOptions,
};
pub use weights::{from_safetensors, load_weights, save_weights, to_safetensors};
