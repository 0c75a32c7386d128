//! Layers: plain structs of variables that are named by path, as in PyTorch's `state_dict`, with PyTorch's defaults.
//!
//! What they compute is a method of [`Tensor`](crate::tensor::Tensor); those without variables are here too, for
//! [`Sequential`]. Files of weights are read and written by name ([`load_weights`], [`save_weights`]).

mod activation;
mod attention;
mod conv;
mod dropout;
mod embedding;
mod embedding_bag;
mod functions;
mod init;
mod linear;
mod module;
mod norm;
mod padding;
mod pattern;
mod pooling;
mod quantize;
mod recurrent;
mod sequential;
mod state;
mod summary;
mod transformer;
mod variables;
mod weights;

pub use activation::{
    CELU, ELU, GELU, GELUTanh, GLU, Hardshrink, Hardsigmoid, Hardswish, Hardtanh, LeakyReLU, LogSigmoid, LogSoftmax,
    Mish, PReLU, RReLU, ReLU, ReLU6, SELU, SiLU, Sigmoid, Softmax, Softmin, Softplus, Softshrink, Softsign, Tanh,
    Tanhshrink,
};
pub use attention::{Attention, AttentionMasks, AttentionOptions, InProjection, KeyValueCache, MultiheadAttention};
pub use conv::{Conv, Conv1d, Conv2d, Conv3d, ConvTranspose, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d};
pub use dropout::{
    AlphaDropout, ChannelDropout, Dropout, Dropout1d, Dropout2d, Dropout3d, FeatureAlphaDropout, StochasticDepth,
};
pub use embedding::Embedding;
pub use embedding_bag::{BagMode, EmbeddingBag};
pub use functions::{
    ChannelShuffle, CosineSimilarity, Flatten, Fold, Identity, LocalResponseNorm, PairwiseDistance, PixelShuffle,
    PixelUnshuffle, Softmax2d, Threshold, Unflatten, Unfold, Upsample,
};
pub(crate) use init::Generator;
pub use init::{Init, Initial, Nonlinearity, fans};
pub use linear::{Bilinear, Linear};
pub(crate) use module::Scope;
pub use module::{Mode, Module, block, checkpoint_blocks, freeze_statistics};
pub use norm::{
    BatchNorm, BatchNorm1d, BatchNorm2d, BatchNorm3d, GroupNorm, InstanceNorm, InstanceNorm1d, InstanceNorm2d,
    InstanceNorm3d, InstanceStatistics, LayerNorm, LayerNorm2d, RMSNorm,
};
pub use padding::{
    CircularPad, CircularPad1d, CircularPad2d, CircularPad3d, ConstantPad, ConstantPad1d, ConstantPad2d, ConstantPad3d,
    ReflectionPad, ReflectionPad1d, ReflectionPad2d, ReflectionPad3d, ReplicationPad, ReplicationPad1d,
    ReplicationPad2d, ReplicationPad3d, ZeroPad, ZeroPad1d, ZeroPad2d, ZeroPad3d,
};
pub(crate) use pattern::matches;
pub use pattern::trainable;
pub use pooling::{
    AdaptiveAvgPool, AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AdaptiveMaxPool, AdaptiveMaxPool1d,
    AdaptiveMaxPool2d, AdaptiveMaxPool3d, AvgPool, AvgPool1d, AvgPool2d, AvgPool3d, LPPool, LPPool1d, LPPool2d,
    LPPool3d, MaxPool, MaxPool1d, MaxPool2d, MaxPool3d, MaxUnpool, MaxUnpool1d, MaxUnpool2d, MaxUnpool3d,
};
pub(crate) use quantize::round_to_codes;
pub use quantize::{Quantized, quantize};
pub use recurrent::{GRU, GRUCell, LSTM, LSTMCell, RNN, RNNCell, RNNReLU, RecurrentOptions};
pub use sequential::{Block, Residual, Sequential};
pub(crate) use state::repeated_name;
pub use state::{LoadOptions, LoadReport, load_state, load_state_with, state};
pub use summary::{LayerSummary, Summary, parameter_count, summary};
pub use transformer::{
    Activation, DecoderCache, Transformer, TransformerDecoder, TransformerDecoderLayer, TransformerEncoder,
    TransformerEncoderLayer, TransformerOptions,
};
pub use variables::Variables;
pub(crate) use weights::{NamedValue, in_files, reason, serialize};
pub use weights::{load_tensors, load_weights, save_tensors, save_weights, to_safetensors, weights_from_bytes};
