//! What wrong calls are told: at whose line, in the name of what was called, and with which reason.

use brasa::models::{CifarResNet, Generator, Gpt, GptOptions, Sampling};
use brasa::nn::{
    AdaptiveAvgPool2d, Attention, AvgPool2d, BagMode, BatchNorm1d, BatchNorm2d, Bilinear, Conv1d, Conv2d,
    ConvTranspose2d, Dropout, Embedding, EmbeddingBag, Flatten, GRU, GRUCell, GroupNorm, Init, InstanceNorm2d, LSTM,
    LSTMCell, LayerNorm, LayerNorm2d, Linear, MaxPool2d, Module, MultiheadAttention, PReLU, RMSNorm, RNN,
    RecurrentOptions, ReflectionPad2d, Sequential, TransformerEncoderLayer, TransformerOptions,
};
use brasa::ops::conv::ConvOptions;
use brasa::ops::pool::PoolOptions;
use brasa::optim::{
    Adagrad, AdagradOptions, Adam, AdamOptions, Lion, LionOptions, Momentum, Optimizer, RMSprop, RMSpropOptions, SGD,
    SGDOptions, WeightDecay,
};
use brasa::runtime::Var;
use brasa::tensor::{BinaryCrossEntropy, CrossEntropy, Mask, Reduction};
use brasa::{DType, Device, Error, Tensor};

use crate::common::{devices, panic_of};

/// A call that panics, and what it says.
type Case<'a> = (Box<dyn Fn() + 'a>, &'a str);

fn call<'a, T>(f: impl Fn() -> T + 'a) -> Box<dyn Fn() + 'a> {
    Box::new(move || drop(f()))
}

/// Each says just this, at a line of this file.
fn check(cases: &[Case<'_>]) {
    let mut wrong = String::new();
    for (call, expected) in cases {
        let (message, file, line) = panic_of(call);
        if message != *expected || file != file!() {
            wrong += &format!("\n{message}\n    at {file}:{line} instead of\n{expected}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn layers_refuse_shapes_at_the_callers_line() {
    let device = Device::cpu();
    let init = Init::new(&device, 1);
    let zeros = |shape: &[usize]| Tensor::zeros(shape, &device);
    let [x1, x2, x3, x4] = [&[7][..], &[2, 7], &[2, 3, 7], &[2, 3, 7, 7]].map(zeros);
    let ints = x2.to_dtype(DType::I32);
    let options = ConvOptions::default;
    let linear = Linear::new(5, 4, &init.at("fc1")).expect("memory");
    let nameless = Linear::new(5, 4, &init).expect("memory");
    let bilinear = Bilinear::new(7, 5, 4, &init).expect("memory");
    let conv1 = Conv1d::new(5, 4, 3, options(), &init.at("a.conv")).expect("memory");
    let conv2 = Conv2d::new(5, 4, 3, options(), &init).expect("memory");
    let transposed = ConvTranspose2d::new(5, 4, 3, options(), &init).expect("memory");
    let batch1 = BatchNorm1d::new(3, &init).expect("memory");
    let batch2 = BatchNorm2d::new(3, &init).expect("memory");
    let layer = LayerNorm::new(5, &init.at("norm")).expect("memory");
    let layer2 = LayerNorm2d::new(5, &init).expect("memory");
    let rms = RMSNorm::new(5, &init).expect("memory");
    let group = GroupNorm::new(2, 4, &init.at("norm")).expect("memory");
    let instance = InstanceNorm2d::new(&init);
    let affine = InstanceNorm2d::affine(5, &init).expect("memory");
    let embedding = Embedding::new(5, 4, &init.at("table")).expect("memory");
    let bag = EmbeddingBag::new(5, 4, BagMode::Sum, None, &init).expect("memory");
    let prelu = PReLU::new(5, &init).expect("memory");
    let lstm = LSTM::new(5, 4, RecurrentOptions::default(), &init.at("lstm")).expect("memory");
    let gru = GRU::new(7, 4, RecurrentOptions { batch_first: true, ..Default::default() }, &init).expect("memory");
    let rnn = RNN::new(5, 4, RecurrentOptions::default(), &init).expect("memory");
    let gru_cell = GRUCell::new(5, 4, &init).expect("memory");
    let lstm_cell = LSTMCell::new(7, 4, &init).expect("memory");
    let attention = MultiheadAttention::new(8, 2, Attention::Full, &init.at("attn")).expect("memory");
    let queries = zeros(&[2, 3, 8]);
    let encoder = TransformerEncoderLayer::new(TransformerOptions::new(8, 2), &init).expect("memory");
    check(&[
        (
            call(|| linear.forward(&x2)),
            "linear: [2, 7] x [4, 5], last axes differ or the weight is not [outputs, inputs] (in `fc1`)",
        ),
        (
            call(|| nameless.forward(&x2)),
            "linear: [2, 7] x [4, 5], last axes differ or the weight is not [outputs, inputs]",
        ),
        (
            call(|| linear.forward(&ints.narrow(1, 0, 5))),
            "linear: i32 and f32 do not mix; cast one with to_dtype (in `fc1`)",
        ),
        (
            call(|| bilinear.forward(&x2, &x2)),
            "bilinear: [2, 7] and [2, 7], not [.., 7] and [.., 5] with the same axes before",
        ),
        (call(|| conv1.forward(&x3)), "conv1d: [2, 3, 7] x [4, 5, 3], 3 channels != 5 x 1 groups (in `a.conv`)"),
        (call(|| conv2.forward(&x2)), "conv2d: [2, 7] x [4, 5, 3, 3], both need 4 axes"),
        (call(|| conv2.forward(&zeros(&[1, 5, 2, 9]))), "conv2d: [1, 5, 2, 9] x [4, 5, 3, 3], the kernel does not fit"),
        (
            call(|| transposed.forward(&x4)),
            "conv_transpose2d: [2, 3, 7, 7] x [5, 4, 3, 3], 3 channels != 5 or no multiple of 1 groups",
        ),
        (call(|| batch1.forward(&x4)), "batch norm: [2, 3, 7, 7] is not [batch, 3 channels, 1 axes]"),
        (call(|| batch2.forward(&zeros(&[2, 5, 7, 7]))), "batch norm: [2, 5, 7, 7] is not [batch, 3 channels, 2 axes]"),
        (call(|| layer.forward(&x2)), "layer norm: the last axes of [2, 7] are not [5] (in `norm`)"),
        (call(|| layer2.forward(&x2)), "layer norm: [2, 7] is not [batch, channels, height, width]"),
        (call(|| rms.forward(&x2)), "rms norm: the last axis of [2, 7] is not [5]"),
        (call(|| group.forward(&x2)), "group_norm: [2, 7] in 2 groups of channels"),
        (call(|| group.forward(&zeros(&[2, 6]))), "group_norm: [2, 6] with statistics or weights [4], not [channels]"),
        (call(|| instance.forward(&x2)), "instance norm: [2, 7] is not [batch, channels, 2 axes]"),
        (call(|| affine.forward(&x4)), "group_norm: [2, 3, 7, 7] with statistics or weights [5], not [channels]"),
        (call(|| embedding.forward(&x2)), "embedding: the index is f32; cast to i32 with to_dtype"),
        (call(|| bag.forward(&ints.flatten(0, 1))), "embedding bag: indices [14] are not [batch, bag]"),
        (call(|| prelu.forward(&x2)), "prelu: [2, 7] with weights [5], neither one nor [channels]"),
        (call(|| lstm.forward(&x3)), "lstm: input [2, 3, 7] is not [time, batch, 5] (in `lstm`)"),
        (
            call(|| gru.run(&x3, Some(&zeros(&[1, 3, 4])))),
            "gru: the initial state is [1, 3, 4], not [layers · directions, batch, hidden] = [1, 2, 4]",
        ),
        (
            call(|| rnn.run_padded(&zeros(&[3, 2, 5]), &ints, None)),
            "rnn: lengths are i32 [2, 7], not i32 [batch] = [2]",
        ),
        (call(|| rnn.forward(&x1)), "rnn: input [7] is not [time, batch, 5]"),
        (call(|| gru_cell.forward(&x1)), "gru: input [7] is not [batch, 5]"),
        (
            call(|| lstm_cell.step(&x2, (&zeros(&[2, 4]), &zeros(&[2, 5])))),
            "lstm: the state is [2, 5], not [batch, hidden] = [2, 4]",
        ),
        (call(|| attention.forward(&x3)), "attention: input [2, 3, 7] is not [batch, sequence, 8] (in `attn`)"),
        (
            call(|| attention.forward(&queries.to_dtype(DType::I32))),
            "linear: i32 and f32 do not mix; cast one with to_dtype (in `attn`)",
        ),
        (
            call(|| attention.attend(&queries, &queries, &queries.narrow(1, 0, 2), Default::default())),
            "scaled_dot_product_attention: queries [2, 2, 3, 4], keys [2, 2, 3, 4] and values [2, 2, 2, 4] do not fit: \
             [.., queries, features], [.., keys, features], [.., keys, outputs] (in `attn`)",
        ),
        (call(|| encoder.forward(&x3)), "transformer: input [2, 3, 7] is not [batch, sequence, 8]"),
        (call(|| MaxPool2d::new(8).forward(&x2)), "max_pool2d: [2, 7] is not [batch, channels, 2 axes]"),
        (call(|| AvgPool2d::new(3).forward(&x2)), "avg_pool2d: [2, 7] is not [batch, channels, 2 axes]"),
        (call(|| AdaptiveAvgPool2d::new(3).forward(&x2)), "adaptive_avg_pool2d: [2, 7] in [3, 3] parts"),
        (call(|| ReflectionPad2d::new(3).forward(&x2)), "padding: [2, 7] is not [batch, channels, 2 axes]"),
        (call(|| Flatten::default().forward(&x1)), "flatten: [7] has no axis 1"),
    ]);
}

/// Where a call through a pointer loses the caller's line, the message has it.
#[test]
fn a_layer_in_a_model_is_named_with_the_line_that_called_the_model() {
    let device = Device::cpu();
    let init = Init::new(&device, 1);
    let model = Sequential::new()
        .push(Conv2d::new(3, 4, 3, ConvOptions::default(), &init.at(0)).expect("memory"))
        .then(Tensor::relu)
        .push(Linear::new(5, 4, &init.at(2)).expect("memory"));
    let ((message, ..), line) = (panic_of(|| model.forward(&Tensor::zeros([1, 3, 9, 9], &device))), line!());
    let place = format!("(in `2`, called at {}:{line}:", file!());
    assert!(message.starts_with("linear: [1, 4, 7, 7] x [4, 5],") && message.contains(&place), "{message}");
    let network = CifarResNet::new(20, 3, 10, &init).expect("memory");
    let (message, file, _) = panic_of(|| network.forward(&Tensor::zeros([1, 1, 32, 32], &device)));
    assert_eq!(
        (message.as_str(), file.as_str()),
        ("conv2d: [1, 1, 32, 32] x [16, 3, 3, 3], 1 channels != 3 x 1 groups (in `conv1`)", file!())
    );
    // and nothing is left of it
    let (message, ..) = panic_of(|| Tensor::zeros([2], &device).matmul(&Tensor::zeros([3], &device)));
    assert_eq!(message, "matmul: [2] x [3], inner 2 != 3");
}

#[test]
fn messages_name_the_method_that_was_called() {
    let device = Device::cpu();
    let zeros = |shape: &[usize]| Tensor::zeros(shape, &device);
    let (a, b) = (zeros(&[3, 4]), zeros(&[4, 5]));
    let (ints, bytes, mask) = (a.to_dtype(DType::I32), a.to_dtype(DType::U8), a.gt(0.0));
    let picture = zeros(&[1, 2, 5, 5]);
    let kernel = zeros(&[3, 2, 3, 3]);
    let options = ConvOptions::default();
    let mix = |name: &str| format!("{name}: i32 and f32 do not mix; cast one with to_dtype");
    let mixes = ["matmul", "linear", "conv2d", "outer", "tensordot", "einsum"].map(mix);
    let [matmul, linear, conv2d, outer, tensordot, einsum] = &mixes;
    let row = ints.select(0, 0);
    check(&[
        (call(|| ints.matmul(&b)), matmul),
        (call(|| ints.linear(&b.t(), None)), linear),
        (call(|| picture.to_dtype(DType::I32).conv2d(&kernel, None, &options)), conv2d),
        (call(|| row.outer(&zeros(&[2]))), outer),
        (call(|| ints.tensordot(&b, 1, 0)), tensordot),
        (call(|| Tensor::einsum("ij,jk", &[&ints, &b])), einsum),
        (call(|| bytes.matmul(&bytes.t())), "matmul: not defined for u8; cast with to_dtype"),
        (
            call(|| a.contract(&ints, &[0, 1], &[0, 1], &[0])),
            "contract: f32 and i32 do not mix; cast one with to_dtype",
        ),
        (call(|| a.tensordot(&b, 0, 0)), "tensordot: [3, 4] x [4, 5], axis 0 is 3 and axis 0 4"),
        (call(|| a.inner(&b)), "inner: [3, 4] x [4, 5], axis -1 is 4 and axis -1 5"),
        (call(|| a.mv(&zeros(&[3]))), "mv: [3, 4] x [3], inner 4 != 3"),
        (call(|| zeros(&[3]).dot(&zeros(&[2]))), "dot: [3] x [2], inner 3 != 2"),
        (call(|| zeros(&[1, 3, 4]).bmm(&zeros(&[1, 3, 4]))), "bmm: [1, 3, 4] x [1, 3, 4], inner 4 != 3"),
        (call(|| a.addmm(&a, &a, 1.0, 1.0)), "addmm: [3, 4] x [3, 4], inner 4 != 3"),
        (call(|| a.addmm(&a, &b, 1.0, 1.0)), "addmm: f32[3, 4] does not broadcast to the product f32[3, 5]"),
        (call(|| a.linear(&b.t(), Some(&a))), "linear: [3, 4] x [5, 4], the bias is [3, 4]"),
        (call(|| picture.conv2d(&kernel, Some(&a), &options)), "conv2d: the bias is [3, 4], not [3]"),
        (call(|| a.select(0, 5)), "select: index 5 of axis 0 of [3, 4]"),
        (call(|| a.select(2, 0)), "select: [3, 4] has no axis 2"),
        (call(|| a.narrow(1, 3, 2)), "narrow: 2 elements from 3 on of axis 1 of [3, 4]"),
        (call(|| a.narrow(1, 3, usize::MAX)), "narrow: 18446744073709551615 elements from 3 on of axis 1 of [3, 4]"),
        (call(|| a.slice(0, 1..4)), "slice: 1..4 of axis 0 of [3, 4]"),
        (call(|| a.slice_step(-1, 1..=7, -2)), "slice_step: 1..8 of axis -1 of [3, 4]"),
        (call(|| a.split(1, 2)), "split: [3, 4] has no axis 2"),
        (call(|| a.chunk(2, 2)), "chunk: [3, 4] has no axis 2"),
        (call(|| a.unbind(2)), "unbind: [3, 4] has no axis 2"),
        (call(|| a.split_sizes(&[1, 2], 2)), "split_sizes: [3, 4] has no axis 2"),
        (call(|| a.topk(1, 2, true)), "topk: [3, 4] has no axis 2"),
        (call(|| a.kthvalue(1, 2)), "kthvalue: [3, 4] has no axis 2"),
        (call(|| a.softmax(2)), "softmax: [3, 4] has no axis 2"),
        (call(|| a.softmin(2)), "softmin: [3, 4] has no axis 2"),
        (call(|| a.log_softmax(2)), "log_softmax: [3, 4] has no axis 2"),
        (call(|| a.argmax(2)), "argmax: [3, 4] has no axis 2"),
        (call(|| a.quantile(0.5, 2)), "quantile: [3, 4] has no axis 2"),
        (call(|| a.roll(1, 2)), "roll: [3, 4] has no axis 2"),
        (call(|| a.glu(2)), "glu: [3, 4] has no axis 2"),
        (call(|| a.unflatten(1, [3, 2])), "unflatten: axis 1 of [3, 4] cannot become [3, 2]"),
        (call(|| a.masked_fill(&ints, 0.0)), "masked_fill: the mask is i32, not bool"),
        (call(|| a.masked_fill(&b.gt(0.0), 0.0)), "masked_fill: the mask [4, 5] does not broadcast to [3, 4]"),
        (call(|| a.masked_fill(&mask, &ints)), "masked_fill: i32 and f32 do not mix; cast one with to_dtype"),
        (call(|| ints.where_(&a, 0.0)), "where_: the condition is i32, not bool"),
        (call(|| a.item::<f32>()), "item: [3, 4] has 12 elements; use to_vec"),
        (call(|| row.narrow(0, 0, 1).item::<f32>()), "item: the elements are i32, not f32; cast with to_dtype"),
        (
            call(|| a.index_add(0, &row, &zeros(&[4, 4]).to_dtype(DType::I32))),
            "index_add: f32 and i32 do not mix; cast one with to_dtype",
        ),
        (call(|| bytes.scatter_add(0, &ints, &bytes)), "scatter_add: not defined for u8; cast with to_dtype"),
        (
            call(|| a.scaled_dot_product_attention(&a, &a, Mask::Allowed(&ints.narrow(1, 0, 3)))),
            "scaled_dot_product_attention: the mask is i32, not bool",
        ),
        (
            call(|| a.scaled_dot_product_attention(&a, &a, Mask::Added(&a))),
            "scaled_dot_product_attention: the mask [3, 4] does not broadcast to [3, 3]",
        ),
        (
            call(|| {
                a.binary_cross_entropy_with(&a, &BinaryCrossEntropy { weight: Some(b.clone()), ..Default::default() })
            }),
            "binary_cross_entropy: [3, 4] with weights [4, 5]",
        ),
        (
            call(|| zeros(&[1, 2, 3]).affine_grid([1, 1, 5, 6], false)),
            "affine_grid: the size is [1, 1, 5, 6], not [rows, columns] or [planes, rows, columns]",
        ),
        (call(|| a.pad(&[(isize::MAX, 1), (0, 0)], 0.0)), "pad: [3, 4] by [(9223372036854775807, 1), (0, 0)]"),
        (call(|| a.split_sizes(&[usize::MAX, 4], 0)), "split_sizes: [18446744073709551615, 4] along axis 0 of [3, 4]"),
        (call(|| a.mse_loss(&ints, Reduction::Mean)), "mse_loss: f32 with target i32; cast one with to_dtype"),
        (call(|| a.mse_loss(&b, Reduction::Mean)), "mse_loss: [3, 4] with target [4, 5]"),
        (
            call(|| {
                let labels = row.narrow(0, 0, 3);
                a.cross_entropy_with(&labels, &CrossEntropy { weight: Some(b.clone()), ..Default::default() })
            }),
            "cross_entropy: weights [4, 5] for 4 classes",
        ),
        (call(|| a.cross_entropy(&row)), "cross_entropy: [3, 4] with labels [4]"),
        (
            call(|| a.nll_loss(&ints.select(1, 0).to_dtype(DType::F32), Reduction::Mean)),
            "nll_loss: the index is f32; cast to i32 with to_dtype",
        ),
    ]);
}

#[test]
fn windows_and_batches_of_nothing_are_refused_with_the_reason() {
    let device = Device::cpu();
    let init = Init::new(&device, 1);
    let zeros = |shape: &[usize]| Tensor::zeros(shape, &device);
    let (picture, kernel) = (zeros(&[1, 2, 5, 5]), zeros(&[3, 2, 3, 3]));
    let stride = ConvOptions::default().stride(0);
    let norm = BatchNorm2d::new(2, &init.at("bn")).expect("memory");
    let pool = || PoolOptions::new(2);
    check(&[
        (call(|| picture.conv2d(&kernel, None, &stride)), "conv2d: stride 0, which is to be at least 1"),
        (
            call(|| picture.conv_transpose2d(&kernel.transpose(0, 1), None, &stride)),
            "conv_transpose2d: stride 0, which is to be at least 1",
        ),
        (call(|| Conv2d::new(2, 3, 3, stride.clone(), &init)), "convolution: stride 0, which is to be at least 1"),
        (
            call(|| Conv2d::new(2, 3, 3, ConvOptions { padding: vec![1; 3], ..Default::default() }, &init)),
            "convolution: padding [1, 1, 1] for 2 axes",
        ),
        (
            call(|| ConvTranspose2d::new(2, 3, 3, stride.clone(), &init)),
            "convolution: stride 0, which is to be at least 1",
        ),
        (call(|| picture.max_pool2d(2, 0, 0)), "max_pool2d: stride 0, which is to be at least 1"),
        (call(|| picture.avg_pool2d(2, 0, 0)), "avg_pool2d: stride 0, which is to be at least 1"),
        (call(|| picture.avg_pool2d(0, 1, 0)), "avg_pool2d: kernel 0, which is to be at least 1"),
        (call(|| MaxPool2d::new(0).forward(&picture)), "max_pool2d: kernel 0, which is to be at least 1"),
        (
            call(|| MaxPool2d::with(pool().stride(0).ceil_mode()).forward(&picture)),
            "max_pool2d: stride 0, which is to be at least 1",
        ),
        (
            call(|| norm.forward(&zeros(&[1, 2, 1, 1]))),
            "batch norm: 1 values per channel in [1, 2, 1, 1], and training needs 2 or more (in `bn`)",
        ),
        (
            call(|| norm.forward(&zeros(&[0, 2, 3, 3]))),
            "batch norm: 0 values per channel in [0, 2, 3, 3], and training needs 2 or more (in `bn`)",
        ),
        (call(|| GRU::new(5, 4, RecurrentOptions { layers: 0, ..Default::default() }, &init)), "gru: no layers"),
    ]);
}

#[test]
fn settings_out_of_range_are_refused_where_they_are_given() {
    let device = Device::cpu();
    let init = Init::new(&device, 1);
    let var = || [Var::parameter("p", &Tensor::zeros([2], &device)).expect("memory")];
    let adam = |options: AdamOptions| {
        move || Adam::new(&[Var::parameter("p", &Tensor::zeros([2], &Device::cpu())).expect("memory")], options)
    };
    let options = AdamOptions::default();
    let optimizer = Adam::new(&var(), options).expect("memory");
    let attention = || MultiheadAttention::new(4, 2, Attention::Full, &init).expect("memory");
    let twice = || var().into_iter().cycle().take(2).collect::<Vec<_>>();
    check(&[
        (call(move || Adam::new(&twice(), options)), "arena `optimizer.0.parameters`: `p` is given twice"),
        (
            call(adam(AdamOptions { learning_rate: -0.5, ..options })),
            "optimizer: learning_rate is -0.5, which is to be at least 0 and finite",
        ),
        (
            call(adam(AdamOptions { learning_rate: f32::NAN, ..options })),
            "optimizer: learning_rate is NaN, which is to be at least 0 and finite",
        ),
        (
            call(adam(AdamOptions { beta1: 1.0, ..options })),
            "optimizer: beta1 is 1, which is to be at least 0 and below 1",
        ),
        (
            call(adam(AdamOptions { beta2: -0.5, ..options })),
            "optimizer: beta2 is -0.5, which is to be at least 0 and below 1",
        ),
        (
            call(adam(AdamOptions { epsilon: -1e-8, ..options })),
            "optimizer: epsilon is -0.00000001, which is to be at least 0 and finite",
        ),
        (
            call(adam(AdamOptions { weight_decay: WeightDecay::Decoupled(-0.5), ..options })),
            "optimizer: weight_decay is -0.5, which is to be at least 0 and finite",
        ),
        (
            call(|| SGD::new(&var(), SGDOptions { momentum: Momentum::Nesterov(-0.5), ..Default::default() })),
            "optimizer: momentum is -0.5, which is to be at least 0 and finite",
        ),
        (
            call(|| Lion::new(&var(), LionOptions { beta2: f64::NAN, ..Default::default() })),
            "optimizer: beta2 is NaN, which is to be at least 0 and below 1",
        ),
        (
            call(|| RMSprop::new(&var(), RMSpropOptions { alpha: 1.5, ..Default::default() })),
            "optimizer: alpha is 1.5, which is to be at least 0 and below 1",
        ),
        (
            call(|| Adagrad::new(&var(), AdagradOptions { learning_rate_decay: -0.5, ..Default::default() })),
            "optimizer: learning_rate_decay is -0.5, which is to be at least 0 and finite",
        ),
        (
            call(|| optimizer.set_learning_rate(f32::INFINITY)),
            "optimizer: learning_rate is inf, which is to be at least 0 and finite",
        ),
        (
            call(|| optimizer.set_learning_rates(&[-1.0])),
            "optimizer: learning_rate is -1, which is to be at least 0 and finite",
        ),
        (call(|| optimizer.set_learning_rates(&[])), "set_learning_rates: 0 learning rates for 1 groups"),
        (call(|| Dropout::new(1.5)), "dropout: 1.5 is not a probability"),
        (call(|| Tensor::zeros([2], &device).dropout(f64::NAN)), "dropout: NaN is not a probability"),
        (call(|| attention().dropout(-0.5)), "dropout: -0.5 is not a probability"),
        (
            call(|| LSTM::new(5, 4, RecurrentOptions { dropout: 2.0, ..Default::default() }, &init)),
            "dropout: 2 is not a probability",
        ),
        (call(|| GroupNorm::new(3, 4, &init)), "group norm: 4 channels do not divide into 3 groups"),
        (call(|| Embedding::with_padding(3, 4, 3, &init)), "embedding: padding row 3 of 3"),
    ]);
    assert_eq!(optimizer.learning_rates(), [options.learning_rate]);
    Adam::new(&var(), AdamOptions { learning_rate: 0.0, beta1: 0.0, epsilon: 0.0, ..options }).expect("memory");
}

#[test]
fn a_sampling_that_draws_from_nothing_is_refused() {
    let sizes = GptOptions { width: 16, heads: 2, layers: 1, ..GptOptions::new(50, 12) };
    let model = Gpt::new(sizes, &Init::new(&Device::cpu(), 0)).expect("memory");
    let mut generator = Generator::new(&std::sync::Arc::new(model)).expect("memory");
    let drawn = Sampling { temperature: 1.0, top_k: Some(1), seed: 0 };
    generator.generate(&[7, 3], 2, drawn).expect("tokens");
    for (sampling, expected) in [
        (Sampling { top_k: Some(0), ..drawn }, "sampling: top_k is 0, which is to be at least 1"),
        (Sampling { temperature: -0.5, ..drawn }, "sampling: the temperature is -0.5, which is to be at least 0"),
        (Sampling { temperature: f64::NAN, ..drawn }, "sampling: the temperature is NaN, which is to be at least 0"),
    ] {
        assert_eq!(generator.generate(&[7, 3], 2, sampling).expect_err("refused").to_string(), expected);
    }
}

#[test]
fn draws_by_weights_that_are_none_are_an_error_that_says_so() {
    for device in devices() {
        for replacement in [true, false] {
            for wrong in [[0.0_f32; 3], [1.0, f32::NAN, 1.0], [1.0, -1.0, 3.0], [1.0, f32::INFINITY, 0.0]] {
                let weights = Tensor::from_slice(&[[1.0, 2.0, 3.0], wrong].concat(), [2, 3], &device).expect("memory");
                let (drawn, line) = (weights.multinomial(2, replacement), line!());
                let error = drawn.to_vec::<i32>().expect_err("no weights");
                assert!(matches!(error, Error::IndexOutOfRange { .. }), "{error}");
                let (message, place) = (error.to_string(), format!("multinomial at {}:{line}:", file!()));
                let reason = ": a row of weights is all 0, or has one that is negative or not finite";
                assert!(message.starts_with(&place) && message.ends_with(reason), "{message} of {wrong:?}");
                let good = weights.narrow(0, 0, 1).multinomial(2, replacement).to_vec::<i32>().expect("indices");
                assert!(good.iter().all(|index| (0..3).contains(index)), "{good:?}");
            }
        }
    }
}
