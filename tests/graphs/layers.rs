//! Every layer of `brasa::nn`, made small.

use brasa::nn::*;
use brasa::ops::conv::ConvOptions;
use brasa::ops::pool::PoolOptions;
use brasa::runtime::{Var, VarKind};
use brasa::tensor::Interpolation;
use brasa::{Result, Tensor};

/// A layer of one float tensor.
pub(crate) struct Made {
    pub(crate) shape: &'static [usize],
    /// What its input's elements lie between.
    pub(crate) range: (f64, f64),
    pub(crate) module: Box<dyn Module>,
}

/// Layers with weights, of five inputs or six, and all that take one float tensor.
pub(crate) struct Layers {
    pub(crate) lstm: LSTM,
    pub(crate) gru: GRU,
    pub(crate) rnn: RNN,
    pub(crate) cell: LSTMCell,
    pub(crate) attention: MultiheadAttention,
    pub(crate) bilinear: Bilinear,
    pub(crate) embedding: Embedding,
    pub(crate) bag: EmbeddingBag,
    pub(crate) decoder: TransformerDecoder,
    pub(crate) transformer: Transformer,
    pub(crate) made: Vec<Made>,
}

impl Layers {
    pub(crate) fn new(init: &Init) -> Result<Self> {
        let recurrent = RecurrentOptions::default();
        let appended = AttentionOptions {
            attention: Attention::Causal,
            bias_key_value: true,
            zero_key_value: true,
            ..AttentionOptions::new(6, 2)
        };
        Ok(Self {
            lstm: LSTM::new(5, 3, RecurrentOptions { projection: Some(2), ..recurrent }, init)?,
            gru: GRU::new(5, 3, recurrent, init)?,
            rnn: RNN::new(5, 3, recurrent, init)?,
            cell: LSTMCell::new(5, 3, init)?,
            attention: MultiheadAttention::with(appended, init)?,
            bilinear: Bilinear::new(5, 6, 3, init)?,
            embedding: Embedding::with_padding(7, 3, 2, init)?,
            bag: EmbeddingBag::new(7, 3, BagMode::Mean, None, init)?,
            decoder: TransformerDecoder::new(transformer(), 1, false, init)?,
            transformer: Transformer::new(transformer(), 1, 1, init)?,
            made: [weighted(init)?, plain()].into_iter().flatten().collect(),
        })
    }

    /// What using them changes.
    pub(crate) fn buffers(&self) -> Vec<Var> {
        let variables = self.made.iter().flat_map(|made| made.module.variables());
        variables.filter(|variable| variable.kind() == VarKind::Buffer).collect()
    }
}

fn transformer() -> TransformerOptions {
    TransformerOptions { hidden: 8, dropout: 0.0, ..TransformerOptions::new(6, 2) }
}

fn of(shape: &'static [usize], module: impl Module + 'static) -> Made {
    Made { shape, range: (-3.0, 3.0), module: Box::new(module) }
}

const LENGTH: &[usize] = &[2, 2, 5];
const PICTURE: &[usize] = &[2, 2, 4, 3];
const SOLID: &[usize] = &[1, 2, 2, 3, 4];

fn conv() -> ConvOptions {
    ConvOptions::default().padding(1)
}

fn weighted(init: &Init) -> Result<Vec<Made>> {
    let residual = Residual(Linear::new(5, 5, init)?);
    let sequence = Sequential::new().push(Linear::new(5, 4, init)?).then(Tensor::tanh);
    let recurrent = RecurrentOptions::default();
    Ok(vec![
        of(&[2, 5], Linear::new(5, 3, init)?),
        of(&[2, 5], residual),
        of(&[2, 5], sequence),
        of(LENGTH, Conv1d::new(2, 3, 3, conv(), init)?),
        of(PICTURE, Conv2d::new(2, 3, 3, conv().stride(2), init)?),
        of(SOLID, Conv3d::new(2, 2, 2, conv(), init)?),
        of(LENGTH, ConvTranspose1d::new(2, 3, 3, conv(), init)?),
        of(PICTURE, ConvTranspose2d::new(2, 3, 3, conv().stride(2), init)?),
        of(&[1, 2, 2, 2, 2], ConvTranspose3d::new(2, 2, 2, ConvOptions::default(), init)?),
        of(LENGTH, BatchNorm1d::new(2, init)?),
        of(PICTURE, BatchNorm2d::new(2, init)?),
        of(SOLID, BatchNorm3d::new(2, init)?),
        of(LENGTH, InstanceNorm1d::new(init)),
        of(PICTURE, InstanceNorm2d::affine(2, init)?),
        of(SOLID, InstanceNorm3d::new(init).track_running_stats(2, init)?),
        of(LENGTH, LayerNorm::new(5, init)?),
        of(PICTURE, LayerNorm2d::new(2, init)?),
        of(LENGTH, RMSNorm::new(5, init)?),
        of(&[2, 4, 3], GroupNorm::new(2, 4, init)?),
        of(PICTURE, PReLU::new(2, init)?),
        of(&[2, 2, 5], RNNReLU::new(5, 3, recurrent, init)?),
        of(&[2, 5], RNNCell::new(5, 3, init)?),
        of(&[2, 5], GRUCell::new(5, 3, init)?),
        of(&[2, 3, 6], TransformerEncoderLayer::new(transformer(), init)?),
        of(&[2, 3, 6], TransformerEncoder::new(transformer(), 1, true, init)?),
    ])
}

fn plain() -> Vec<Made> {
    let positive = |made| Made { range: (0.3, 2.0), ..made };
    let mut all = vec![
        positive(of(LENGTH, LPPool1d::new(3.0, 2))),
        positive(of(PICTURE, LPPool2d::new(2.0, 2))),
        positive(of(SOLID, LPPool3d::new(2.0, 2))),
    ];
    all.extend([
        of(LENGTH, MaxPool1d::new(2)),
        of(PICTURE, MaxPool2d::new(2)),
        of(SOLID, MaxPool3d::new(2)),
        of(LENGTH, AvgPool1d::new(2)),
        of(PICTURE, AvgPool2d::with(PoolOptions::new(2).stride(1))),
        of(SOLID, AvgPool3d::new(2)),
        of(LENGTH, AdaptiveAvgPool1d::new(3)),
        of(PICTURE, AdaptiveAvgPool2d::new(2)),
        of(SOLID, AdaptiveAvgPool3d::new([1, 2, 3])),
        of(LENGTH, AdaptiveMaxPool1d::new(3)),
        of(PICTURE, AdaptiveMaxPool2d::new(2)),
        of(SOLID, AdaptiveMaxPool3d::new([1, 2, 3])),
        of(LENGTH, ReflectionPad1d::new(2)),
        of(PICTURE, ReflectionPad2d::new(1)),
        of(SOLID, ReflectionPad3d::sides([(0, 1), (2, 0), (1, 1)])),
        of(LENGTH, ReplicationPad1d::new(2)),
        of(PICTURE, ReplicationPad2d::new(1)),
        of(SOLID, ReplicationPad3d::new(1)),
        of(LENGTH, CircularPad1d::new(2)),
        of(PICTURE, CircularPad2d::new(1)),
        of(SOLID, CircularPad3d::new(1)),
        of(LENGTH, ZeroPad1d::new(2)),
        of(PICTURE, ZeroPad2d::new(1)),
        of(SOLID, ZeroPad3d::new(1)),
        of(LENGTH, ConstantPad1d::new(-1, 0.5)),
        of(PICTURE, ConstantPad2d::new(1, 0.5)),
        of(SOLID, ConstantPad3d::new(1, -0.5)),
        of(LENGTH, Dropout::new(0.3)),
        of(LENGTH, Dropout1d::new(0.3)),
        of(PICTURE, Dropout2d::new(0.3)),
        of(SOLID, Dropout3d::new(0.3)),
        of(LENGTH, AlphaDropout::new(0.3)),
        of(PICTURE, FeatureAlphaDropout::new(0.3)),
        of(PICTURE, StochasticDepth::new(0.3)),
        of(PICTURE, Upsample::new(2.0).mode(Interpolation::Linear)),
        of(&[1, 4, 2, 3], PixelShuffle(2)),
        of(&[1, 2, 2, 4], PixelUnshuffle(2)),
        of(&[1, 4, 3], ChannelShuffle(2)),
        of(PICTURE, Flatten::default()),
        of(PICTURE, Unflatten { axis: 2, sizes: vec![2, -1] }),
        of(PICTURE, Identity),
        of(PICTURE, Unfold { kernel: [2, 2], options: ConvOptions::default() }),
        of(&[1, 8, 6], Fold { size: [4, 3], kernel: [2, 2], options: ConvOptions::default() }),
        of(PICTURE, LocalResponseNorm::new(2)),
        of(PICTURE, Softmax2d),
    ]);
    all.extend(activations());
    all
}

fn activations() -> Vec<Made> {
    let mut all: Vec<Box<dyn Module>> = vec![
        Box::new(ReLU),
        Box::new(ReLU6),
        Box::new(RReLU::default()),
        Box::new(LeakyReLU::default()),
        Box::new(GELU),
        Box::new(GELUTanh),
        Box::new(SiLU),
        Box::new(Mish),
        Box::new(SELU),
        Box::new(ELU::default()),
        Box::new(CELU::default()),
        Box::new(Sigmoid),
        Box::new(LogSigmoid),
    ];
    all.extend([
        Box::new(Tanh) as Box<dyn Module>,
        Box::new(Tanhshrink),
        Box::new(Softsign),
        Box::new(Hardsigmoid),
        Box::new(Hardswish),
        Box::new(Softplus { beta: 2.0, threshold: 1.5 }),
        Box::new(Hardtanh::default()),
        Box::new(Softshrink::default()),
        Box::new(Hardshrink::default()),
        Box::new(Threshold { limit: 0.25, value: 0.5 }),
        Box::new(Softmax::default()),
        Box::new(Softmin::default()),
        Box::new(LogSoftmax::default()),
        Box::new(GLU { axis: 1 }),
    ]);
    all.into_iter().map(|module| Made { shape: PICTURE, range: (-3.0, 3.0), module }).collect()
}
