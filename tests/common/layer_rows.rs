//! The layers that `reference/record_layers.py` records, made the same way here.

#![allow(unreachable_pub, reason = "a module of a test crate")]

use brasa::nn::*;
use brasa::ops::conv::ConvOptions;
use brasa::runtime::Var;
use brasa::tensor::{Interpolation, PadMode};
use brasa::{Device, Result, Tensor, variables};

use crate::common::reference::{classes, signed};

/// Shape of an input, and below what its elements are if they are indices.
pub enum Input {
    Floats(&'static [usize]),
    Indices(&'static [usize], u32),
}

impl Input {
    pub fn tensor(&self, number: usize, device: &Device) -> Tensor {
        let name = format!("input{number}");
        match *self {
            Self::Floats(shape) => Tensor::from_slice(&signed(&name, shape.iter().product()), shape, device),
            Self::Indices(shape, bound) => {
                Tensor::from_slice(&classes(&name, shape.iter().product(), bound), shape, device)
            }
        }
        .expect("memory")
    }
}

type Call = Box<dyn Fn(&[Tensor]) -> Vec<Tensor> + Send + Sync>;

/// A layer, whatever it takes and gives.
pub struct Layer {
    variables: Vec<Var>,
    pub call: Call,
}

variables!(Layer: variables);

impl Module for Layer {
    fn forward(&self, input: &Tensor) -> Tensor {
        (self.call)(std::slice::from_ref(input)).remove(0)
    }
}

pub struct Row {
    pub name: &'static str,
    pub inputs: Vec<Input>,
    pub make: fn(&Init) -> Result<Layer>,
    pub mode: Mode,
}

fn module(module: impl Module + 'static) -> Layer {
    Layer { variables: module.variables(), call: Box::new(move |inputs| vec![module.forward(&inputs[0])]) }
}

/// A layer that is called in another way.
fn called<M: Variables + Send + Sync + 'static>(module: M, call: fn(&M, &[Tensor]) -> Vec<Tensor>) -> Layer {
    Layer { variables: module.variables(), call: Box::new(move |inputs| call(&module, inputs)) }
}

fn row(name: &'static str, inputs: Vec<Input>, make: fn(&Init) -> Result<Layer>) -> Row {
    Row { name, inputs, make, mode: Mode::Train }
}

/// One float input.
fn one(name: &'static str, shape: &'static [usize], make: fn(&Init) -> Result<Layer>) -> Row {
    row(name, vec![Input::Floats(shape)], make)
}

fn conv() -> ConvOptions {
    ConvOptions::default()
}

/// True where `test(row, column)`.
fn mask(rows: usize, columns: usize, test: fn(usize, usize) -> bool, device: &Device) -> Tensor {
    let values: Vec<bool> = (0..rows * columns).map(|place| test(place / columns, place % columns)).collect();
    Tensor::from_slice(&values, [rows, columns], device).expect("memory")
}

fn padding(device: &Device) -> Tensor {
    mask(2, 5, |row, column| row == 1 && column > 2, device)
}

fn options() -> TransformerOptions {
    TransformerOptions { hidden: 10, dropout: 0.0, ..TransformerOptions::new(6, 2) }
}

fn norm_first() -> TransformerOptions {
    TransformerOptions { norm_first: true, activation: Activation::Gelu, ..options() }
}

fn deep() -> RecurrentOptions {
    RecurrentOptions { layers: 2, bidirectional: true, batch_first: true, ..Default::default() }
}

fn plain() -> RecurrentOptions {
    RecurrentOptions::default()
}

fn unbiased() -> RecurrentOptions {
    RecurrentOptions { bias: false, ..plain() }
}

fn lengths<const BATCH: usize>(of: [i32; BATCH], input: &Tensor) -> Tensor {
    Tensor::from_slice(&of, [BATCH], input.device()).expect("memory")
}

fn pair((output, state): (Tensor, Tensor)) -> Vec<Tensor> {
    vec![output, state]
}

fn lstm_outputs((output, (hidden, cell)): (Tensor, (Tensor, Tensor))) -> Vec<Tensor> {
    vec![output, hidden, cell]
}

pub fn rows() -> Vec<Row> {
    use Input::{Floats, Indices};
    let mut rows = vec![
        one("linear", &[3, 2, 7], |init| Ok(module(Linear::new(7, 5, init)?))),
        one("linear without bias", &[3, 7], |init| Ok(module(Linear::without_bias(7, 5, init)?))),
        row("bilinear", vec![Floats(&[2, 5]), Floats(&[2, 7])], |init| {
            Ok(called(Bilinear::new(5, 7, 3, init)?, |layer, x| vec![layer.forward(&x[0], &x[1])]))
        }),
        one("conv1d", &[2, 4, 11], |init| {
            Ok(module(Conv1d::new(4, 6, 3, conv().stride(2).padding(2).dilation(2).groups(2), init)?))
        }),
        one("conv1d same", &[2, 3, 9], |init| Ok(module(Conv1d::new(3, 5, 4, conv().same(), init)?))),
        one("conv2d", &[2, 4, 9, 7], |init| {
            let options = ConvOptions { padding: vec![1, 2], ..conv().stride(2).groups(2) };
            Ok(module(Conv2d::new(4, 6, [3, 5], options, init)?))
        }),
        one("conv2d reflect", &[2, 3, 5, 6], |init| {
            Ok(module(Conv2d::new(3, 5, 3, conv().padding(1), init)?.padding_mode(PadMode::Reflect)))
        }),
        one("conv2d circular", &[2, 3, 5, 6], |init| {
            Ok(module(Conv2d::without_bias(3, 5, 3, conv().padding(1), init)?.padding_mode(PadMode::Circular)))
        }),
        one("conv2d replicate", &[1, 3, 5, 6], |init| {
            let layer = Conv2d::new(3, 5, 3, conv().stride(2).padding(1), init)?;
            Ok(module(layer.padding_mode(PadMode::Replicate)))
        }),
        one("conv3d", &[2, 3, 4, 5, 3], |init| {
            let options = ConvOptions { stride: vec![1, 2, 1], ..conv().padding(1) };
            Ok(module(Conv3d::new(3, 4, [2, 3, 2], options, init)?))
        }),
        one("conv_transpose1d", &[2, 4, 5], |init| {
            let options = conv().stride(2).padding(1).output_padding(1).groups(2);
            Ok(module(ConvTranspose1d::new(4, 6, 3, options, init)?))
        }),
        one("conv_transpose2d", &[2, 3, 4, 5], |init| {
            let options = ConvOptions { stride: vec![2, 1], dilation: vec![1, 2], ..conv().padding(1) };
            Ok(module(ConvTranspose2d::new(3, 5, [3, 2], options, init)?))
        }),
        one("conv_transpose3d", &[1, 3, 2, 3, 2], |init| {
            Ok(module(ConvTranspose3d::without_bias(3, 2, 2, conv().stride(2), init)?))
        }),
        one("batch_norm1d", &[7, 5], |init| Ok(module(BatchNorm1d::new(5, init)?))),
        one("batch_norm1d sequence", &[3, 5, 4], |init| Ok(module(BatchNorm1d::new(5, init)?))),
        one("batch_norm2d", &[3, 5, 4, 3], |init| Ok(module(BatchNorm2d::new(5, init)?))),
        Row {
            mode: Mode::Evaluate,
            ..one("batch_norm2d in use", &[3, 5, 4, 3], |init| Ok(module(BatchNorm2d::new(5, init)?)))
        },
        one("batch_norm2d over all batches", &[3, 5, 4, 3], |init| {
            Ok(module(BatchNorm2d::new(5, init)?.epsilon(1e-3).momentum(None)))
        }),
        one("batch_norm2d without affine", &[3, 5, 4, 3], |init| Ok(module(BatchNorm2d::without_affine(5, init)?))),
        one("batch_norm3d", &[2, 3, 2, 3, 2], |init| Ok(module(BatchNorm3d::new(3, init)?))),
        one("layer_norm", &[3, 5, 7], |init| Ok(module(LayerNorm::new(7, init)?))),
        one("layer_norm of two axes", &[3, 5, 7], |init| Ok(module(LayerNorm::new([5, 7], init)?.epsilon(1e-3)))),
        one("layer_norm without bias", &[3, 7], |init| Ok(module(LayerNorm::without_bias(7, init)?))),
        one("rms_norm", &[3, 5, 7], |init| Ok(module(RMSNorm::new(7, init)?))),
        one("group_norm", &[2, 6, 5, 3], |init| Ok(module(GroupNorm::new(3, 6, init)?))),
        one("instance_norm1d", &[2, 3, 7], |init| Ok(module(InstanceNorm1d::new(init)))),
        one("instance_norm2d", &[2, 3, 5, 4], |init| Ok(module(InstanceNorm2d::affine(3, init)?))),
        one("instance_norm3d", &[2, 3, 2, 3, 4], |init| Ok(module(InstanceNorm3d::new(init)))),
        one("instance_norm1d tracking", &[2, 3, 7], |init| {
            Ok(module(InstanceNorm1d::new(init).track_running_stats(3, init)?))
        }),
        one("instance_norm2d tracking", &[2, 3, 5, 4], |init| {
            Ok(module(InstanceNorm2d::affine(3, init)?.track_running_stats(3, init)?.momentum(0.3)))
        }),
        Row {
            mode: Mode::Evaluate,
            ..one("instance_norm2d in use", &[2, 3, 5, 4], |init| {
                Ok(module(InstanceNorm2d::affine(3, init)?.track_running_stats(3, init)?))
            })
        },
        row("embedding", vec![Indices(&[3, 4], 11)], |init| Ok(module(Embedding::new(11, 5, init)?))),
        row("embedding with padding", vec![Indices(&[4, 6], 5)], |init| {
            Ok(module(Embedding::with_padding(5, 3, 2, init)?))
        }),
        one("prelu", &[3, 5], |init| Ok(module(PReLU::new(1, init)?))),
        one("prelu by channel", &[3, 5, 4], |init| Ok(module(PReLU::new(5, init)?))),
        Row { mode: Mode::Evaluate, ..one("activations", &[3, 8], |_| Ok(activations())) },
        one("functions", &[2, 4, 5, 7], |_| Ok(functions())),
        one("fold", &[2, 12, 6], |_| {
            Ok(module(Fold { size: [5, 4], kernel: [2, 3], options: conv().padding(1).stride(2) }))
        }),
        one("lp_pool1d", &[2, 3, 8], |_| Ok(module(LPPool1d::new(4.0, 3)))),
        one("lp_pool3d", &[1, 2, 4, 3, 5], |_| Ok(module(LPPool3d::new(2.0, 2)))),
        one("max_unpool2d", &[2, 3, 4, 6], |_| {
            Ok(called(MaxPool2d::new(2), |layer, x| {
                let (largest, indices) = layer.forward_with_indices(&x[0]);
                vec![MaxUnpool2d::new(2).forward(&largest, &indices)]
            }))
        }),
        row("cosine_similarity", vec![Floats(&[3, 5, 2]), Floats(&[3, 5, 2])], |_| {
            Ok(called(Identity, |_, x| vec![CosineSimilarity::default().forward(&x[0], &x[1])]))
        }),
        row("pairwise_distance", vec![Floats(&[3, 5]), Floats(&[3, 5])], |_| {
            let distance = |x: &[Tensor]| PairwiseDistance { p: 3.0, ..Default::default() }.forward(&x[0], &x[1]);
            Ok(Layer { variables: Vec::new(), call: Box::new(move |x| vec![distance(x)]) })
        }),
        row("attention of other widths", vec![Floats(&[2, 3, 6]), Floats(&[2, 5, 3]), Floats(&[2, 5, 4])], |init| {
            let (key_width, value_width) = (Some(3), Some(4));
            let options = AttentionOptions { key_width, value_width, bias: false, ..AttentionOptions::new(6, 2) };
            Ok(called(MultiheadAttention::with(options, init)?, |layer, x| {
                pair(layer.attend_with_weights(&x[0], &x[1], &x[2], AttentionMasks::default(), true))
            }))
        }),
        one("attention appended", &[2, 5, 6], |init| {
            let options = AttentionOptions {
                attention: Attention::Causal,
                bias_key_value: true,
                zero_key_value: true,
                ..AttentionOptions::new(6, 2)
            };
            Ok(called(MultiheadAttention::with(options, init)?, |layer, x| {
                let padding = padding(x[0].device());
                let masks = AttentionMasks { key_padding: Some(&padding), attn: None };
                let (_, weights) = layer.attend_with_weights(&x[0], &x[0], &x[0], masks, false);
                vec![layer.attend(&x[0], &x[0], &x[0], masks), weights]
            }))
        }),
        row("attention appended to others", vec![Floats(&[2, 3, 6]), Floats(&[2, 5, 4])], |init| {
            let (key_width, value_width) = (Some(4), Some(4));
            let options =
                AttentionOptions { key_width, value_width, bias_key_value: true, ..AttentionOptions::new(6, 3) };
            Ok(called(MultiheadAttention::with(options, init)?, |layer, x| {
                vec![layer.attend(&x[0], &x[1], &x[1], AttentionMasks::default())]
            }))
        }),
        row("transformer", vec![Floats(&[2, 5, 6]), Floats(&[2, 4, 6])], |init| {
            let options = TransformerOptions { attention: Attention::Causal, ..options() };
            Ok(called(Transformer::new(options, 1, 2, init)?, |layer, x| {
                let padding = padding(x[0].device());
                let none = AttentionMasks::default();
                let memory = AttentionMasks { key_padding: Some(&padding), attn: None };
                vec![layer.forward(&x[0], &x[1], [none, none, memory])]
            }))
        }),
        one("lstm projected", &[6, 3, 5], |init| {
            let options = RecurrentOptions { projection: Some(2), ..plain() };
            Ok(called(LSTM::new(5, 4, options, init)?, |layer, x| lstm_outputs(layer.run(&x[0], None))))
        }),
        row("lstm projected deep", vec![Floats(&[2, 4, 5]), Floats(&[4, 2, 3]), Floats(&[4, 2, 4])], |init| {
            let options = RecurrentOptions { projection: Some(3), ..deep() };
            Ok(called(LSTM::new(5, 4, options, init)?, |layer, x| lstm_outputs(layer.run(&x[0], Some((&x[1], &x[2]))))))
        }),
        one("attention", &[2, 5, 6], |init| {
            let layer = MultiheadAttention::new(6, 2, Attention::Full, init)?;
            Ok(called(layer, |layer, x| {
                pair(layer.attend_with_weights(&x[0], &x[0], &x[0], AttentionMasks::default(), true))
            }))
        }),
        one("attention causal", &[2, 5, 6], |init| {
            let layer = MultiheadAttention::new(6, 2, Attention::Causal, init)?;
            Ok(called(layer, |layer, x| {
                let (_, weights) = layer.attend_with_weights(&x[0], &x[0], &x[0], AttentionMasks::default(), true);
                vec![layer.forward(&x[0]), weights]
            }))
        }),
        row("attention across", vec![Floats(&[2, 3, 6]), Floats(&[2, 5, 6])], |init| {
            let layer = MultiheadAttention::new(6, 2, Attention::Full, init)?;
            Ok(called(layer, |layer, x| {
                let padding = padding(x[0].device());
                let hidden = mask(3, 5, |query, key| (query + key) % 3 == 2, x[0].device());
                let masks = AttentionMasks { key_padding: Some(&padding), attn: Some(&hidden) };
                pair(layer.attend_with_weights(&x[0], &x[1], &x[1], masks, false))
            }))
        }),
        row("attention three inputs", vec![Floats(&[2, 3, 6]), Floats(&[2, 5, 6]), Floats(&[2, 5, 6])], |init| {
            let layer = MultiheadAttention::new(6, 2, Attention::Full, init)?;
            Ok(called(layer, |layer, x| {
                let padding = padding(x[0].device());
                let masks = AttentionMasks { key_padding: Some(&padding), attn: None };
                vec![layer.attend(&x[0], &x[1], &x[2], masks)]
            }))
        }),
        one("encoder layer", &[2, 5, 6], |init| Ok(module(TransformerEncoderLayer::new(options(), init)?))),
        one("encoder layer norm first", &[2, 5, 6], |init| {
            Ok(module(TransformerEncoderLayer::new(norm_first(), init)?))
        }),
        one("encoder", &[2, 5, 6], |init| {
            Ok(called(TransformerEncoder::new(options(), 2, true, init)?, |layer, x| {
                let padding = padding(x[0].device());
                vec![layer.forward_masked(&x[0], AttentionMasks { key_padding: Some(&padding), attn: None })]
            }))
        }),
        row("decoder layer", vec![Floats(&[2, 4, 6]), Floats(&[2, 5, 6])], |init| {
            let options = TransformerOptions { attention: Attention::Causal, ..options() };
            let layer = TransformerDecoderLayer::new(options, init)?;
            Ok(called(layer, |layer, x| {
                let padding = padding(x[0].device());
                let encoded = AttentionMasks { key_padding: Some(&padding), attn: None };
                vec![layer.forward(&x[0], &x[1], AttentionMasks::default(), encoded)]
            }))
        }),
        row("decoder", vec![Floats(&[2, 4, 6]), Floats(&[2, 5, 6])], |init| {
            let layer = TransformerDecoder::new(norm_first(), 2, true, init)?;
            Ok(called(layer, |layer, x| {
                vec![layer.forward(&x[0], &x[1], AttentionMasks::default(), AttentionMasks::default())]
            }))
        }),
        one("lstm", &[6, 3, 5], |init| {
            Ok(called(LSTM::new(5, 4, plain(), init)?, |layer, x| lstm_outputs(layer.run(&x[0], None))))
        }),
        row("lstm deep", vec![Floats(&[2, 4, 5]), Floats(&[4, 2, 3]), Floats(&[4, 2, 3])], |init| {
            Ok(called(LSTM::new(5, 3, deep(), init)?, |layer, x| lstm_outputs(layer.run(&x[0], Some((&x[1], &x[2]))))))
        }),
        one("lstm without bias", &[3, 2, 5], |init| {
            Ok(called(LSTM::new(5, 4, unbiased(), init)?, |layer, x| lstm_outputs(layer.run(&x[0], None))))
        }),
        one("lstm padded", &[6, 3, 5], |init| {
            let layer = LSTM::new(5, 4, plain(), init)?;
            Ok(called(layer, |layer, x| lstm_outputs(layer.run_padded(&x[0], &lengths([3, 5, 1], &x[0]), None))))
        }),
        row("lstm padded deep", vec![Floats(&[2, 4, 5]), Floats(&[4, 2, 3]), Floats(&[4, 2, 3])], |init| {
            Ok(called(LSTM::new(5, 3, deep(), init)?, |layer, x| {
                lstm_outputs(layer.run_padded(&x[0], &lengths([2, 4], &x[0]), Some((&x[1], &x[2]))))
            }))
        }),
        one("gru padded", &[6, 3, 5], |init| {
            let layer = GRU::new(5, 4, plain(), init)?;
            Ok(called(layer, |layer, x| pair(layer.run_padded(&x[0], &lengths([3, 5, 1], &x[0]), None))))
        }),
        row("gru padded deep", vec![Floats(&[2, 4, 5]), Floats(&[4, 2, 3])], |init| {
            let layer = GRU::new(5, 3, deep(), init)?;
            Ok(called(layer, |layer, x| pair(layer.run_padded(&x[0], &lengths([2, 4], &x[0]), Some(&x[1])))))
        }),
        one("rnn padded", &[6, 3, 5], |init| {
            let layer = RNN::new(5, 4, plain(), init)?;
            Ok(called(layer, |layer, x| pair(layer.run_padded(&x[0], &lengths([3, 5, 1], &x[0]), None))))
        }),
        row("rnn padded deep", vec![Floats(&[2, 4, 5]), Floats(&[4, 2, 3])], |init| {
            let layer = RNN::new(5, 3, deep(), init)?;
            Ok(called(layer, |layer, x| pair(layer.run_padded(&x[0], &lengths([2, 4], &x[0]), Some(&x[1])))))
        }),
        one("gru", &[6, 3, 5], |init| {
            Ok(called(GRU::new(5, 4, plain(), init)?, |layer, x| pair(layer.run(&x[0], None))))
        }),
        row("gru deep", vec![Floats(&[2, 4, 5]), Floats(&[4, 2, 3])], |init| {
            Ok(called(GRU::new(5, 3, deep(), init)?, |layer, x| pair(layer.run(&x[0], Some(&x[1])))))
        }),
        one("gru without bias", &[3, 2, 5], |init| {
            Ok(called(GRU::new(5, 4, unbiased(), init)?, |layer, x| pair(layer.run(&x[0], None))))
        }),
        one("rnn", &[6, 3, 5], |init| {
            Ok(called(RNN::new(5, 4, plain(), init)?, |layer, x| pair(layer.run(&x[0], None))))
        }),
        row("rnn deep", vec![Floats(&[2, 4, 5]), Floats(&[4, 2, 3])], |init| {
            Ok(called(RNN::new(5, 3, deep(), init)?, |layer, x| pair(layer.run(&x[0], Some(&x[1])))))
        }),
        one("rnn without bias", &[3, 2, 5], |init| {
            Ok(called(RNN::new(5, 4, unbiased(), init)?, |layer, x| pair(layer.run(&x[0], None))))
        }),
        one("rnn relu", &[6, 3, 5], |init| {
            Ok(called(RNNReLU::new(5, 4, plain(), init)?, |layer, x| pair(layer.run(&x[0], None))))
        }),
        row("lstm cell", vec![Floats(&[3, 5]), Floats(&[3, 4]), Floats(&[3, 4])], |init| {
            Ok(called(LSTMCell::new(5, 4, init)?, |layer, x| pair(layer.step(&x[0], (&x[1], &x[2])))))
        }),
        row("gru cell", vec![Floats(&[3, 5]), Floats(&[3, 4])], |init| {
            Ok(called(GRUCell::new(5, 4, init)?, |layer, x| vec![layer.step(&x[0], &x[1])]))
        }),
        row("rnn cell", vec![Floats(&[3, 5]), Floats(&[3, 4])], |init| {
            Ok(called(RNNCell::new(5, 4, init)?, |layer, x| vec![layer.step(&x[0], &x[1])]))
        }),
    ];
    rows.extend([
        row("embedding_bag sum", vec![Indices(&[4, 5], 7)], |init| bag(BagMode::Sum, init)),
        row("embedding_bag sum with padding", vec![Indices(&[5, 4], 3)], |init| padded_bag(BagMode::Sum, init)),
        row("embedding_bag mean", vec![Indices(&[4, 5], 7)], |init| bag(BagMode::Mean, init)),
        row("embedding_bag mean with padding", vec![Indices(&[5, 4], 3)], |init| padded_bag(BagMode::Mean, init)),
        row("embedding_bag max", vec![Indices(&[4, 5], 7)], |init| bag(BagMode::Max, init)),
        row("embedding_bag max with padding", vec![Indices(&[5, 4], 3)], |init| padded_bag(BagMode::Max, init)),
        row("embedding_bag sum by offsets", vec![Indices(&[9], 7)], |init| uneven_bags(BagMode::Sum, None, init)),
        row("embedding_bag mean by offsets", vec![Indices(&[9], 7)], |init| uneven_bags(BagMode::Mean, None, init)),
        row("embedding_bag max by offsets", vec![Indices(&[9], 7)], |init| uneven_bags(BagMode::Max, None, init)),
        row("embedding_bag mean with padding by offsets", vec![Indices(&[9], 7)], |init| {
            uneven_bags(BagMode::Mean, Some(1), init)
        }),
        row("embedding_bag max with padding by offsets", vec![Indices(&[9], 7)], |init| {
            uneven_bags(BagMode::Max, Some(1), init)
        }),
        row("embedding_bag weighted", vec![Indices(&[4, 5], 7), Floats(&[4, 5])], |init| {
            let layer = EmbeddingBag::new(7, 3, BagMode::Sum, None, init)?;
            Ok(called(layer, |layer, x| vec![layer.with_weights(&x[0], &x[1])]))
        }),
        row("embedding_bag weighted by offsets", vec![Indices(&[9], 7), Floats(&[9])], |init| {
            let layer = EmbeddingBag::new(7, 3, BagMode::Sum, Some(2), init)?;
            Ok(called(layer, |layer, x| vec![layer.with_offsets(&x[0], &offsets(x[0].device()), Some(&x[1]))]))
        }),
    ]);
    rows
}

fn bag(mode: BagMode, init: &Init) -> Result<Layer> {
    Ok(module(EmbeddingBag::new(7, 3, mode, None, init)?))
}

fn padded_bag(mode: BagMode, init: &Init) -> Result<Layer> {
    Ok(module(EmbeddingBag::new(3, 4, mode, Some(1), init)?))
}

/// Where bags of 3, 0, 5 and 1 elements begin.
fn offsets(device: &Device) -> Tensor {
    Tensor::from_slice(&[0_i32, 3, 3, 8], 4, device).expect("memory")
}

fn uneven_bags(mode: BagMode, padding: Option<usize>, init: &Init) -> Result<Layer> {
    let layer = EmbeddingBag::new(7, 3, mode, padding, init)?;
    Ok(called(layer, |layer, x| vec![layer.with_offsets(&x[0], &offsets(x[0].device()), None)]))
}

fn several(modules: Vec<Box<dyn Module>>, scale: f64) -> Layer {
    let call = move |inputs: &[Tensor]| {
        let input = &inputs[0] * scale;
        modules.iter().map(|module| module.forward(&input)).collect()
    };
    Layer { variables: Vec::new(), call: Box::new(call) }
}

fn activations() -> Layer {
    several(
        vec![
            Box::new(ReLU),
            Box::new(ReLU6),
            Box::new(GELU),
            Box::new(GELUTanh),
            Box::new(SiLU),
            Box::new(Mish),
            Box::new(SELU),
            Box::new(Sigmoid),
            Box::new(LogSigmoid),
            Box::new(Tanh),
            Box::new(Tanhshrink),
            Box::new(Softsign),
            Box::new(Hardsigmoid),
            Box::new(Hardswish),
            Box::new(LeakyReLU::default()),
            Box::new(ELU::default()),
            Box::new(CELU::default()),
            Box::new(Softplus::default()),
            Box::new(Hardtanh::default()),
            Box::new(Softshrink::default()),
            Box::new(Hardshrink::default()),
            Box::new(GLU::default()),
            Box::new(Softmax::default()),
            Box::new(LogSoftmax::default()),
            Box::new(Softmin::default()),
            Box::new(Threshold { limit: 0.5, value: 7.0 }),
            Box::new(Softplus { beta: 2.0, threshold: 1.5 }),
            Box::new(RReLU::default()),
        ],
        4.0,
    )
}

fn functions() -> Layer {
    several(
        vec![
            Box::new(MaxPool2d::new(2)),
            Box::new(AvgPool2d::new(3)),
            Box::new(AdaptiveAvgPool2d::new([2, 3])),
            Box::new(AdaptiveMaxPool2d::new(2)),
            Box::new(Upsample::new(2.0)),
            Box::new(Upsample::new(2.0).mode(Interpolation::Linear)),
            Box::new(PixelShuffle(2)),
            Box::new(Flatten::default()),
            Box::new(Unflatten { axis: 1, sizes: vec![2, -1] }),
            Box::new(Identity),
            Box::new(ChannelShuffle(2)),
            Box::new(LPPool2d::new(2.0, [3, 2])),
            Box::new(ReflectionPad2d::sides([(0, 3), (1, 2)])),
            Box::new(ReplicationPad2d::new(2)),
            Box::new(CircularPad2d::sides([(2, 3), (1, 0)])),
            Box::new(ZeroPad2d::new(1)),
            Box::new(ConstantPad2d::sides([(0, -2), (-1, 2)], 3.5)),
            Box::new(Softmax2d),
            Box::new(Unfold { kernel: [2, 3], options: conv().padding(1).stride(2) }),
            Box::new(LocalResponseNorm { alpha: 0.5, ..LocalResponseNorm::new(3) }),
        ],
        1.0,
    )
}
