"""Records what PyTorch's layers compute, for `tests/suite/layers.rs`: outputs, gradients and running statistics.

    python tests/reference/record_layers.py          # needs torch and safetensors; writes layers.safetensors beside itself

Recorded with torch 2.15.0 on a CPU. Weights and inputs come from the integer hash of `record.py`, which the test repeats bit for
bit, so the file holds results alone: computed in float64, stored in float32. The gradient is that of the sum of all outputs,
each weighted by the hash of `weight0`, `weight1`, ... Names: `ROW/out0`, `ROW/in0` (gradient by an input), `ROW/grad/PARAMETER`,
`ROW/buffer/BUFFER` (after the call).
"""

import pathlib

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

from record import classes, fill, signed


def floats(*shape):
    return lambda k: torch.from_numpy(signed(f"input{k}", shape)).double().requires_grad_()


def indices(bound, *shape):
    return lambda k: classes(f"input{k}", shape, bound)


def fill_buffers(model):
    """Means are v/8, variances 1 + v/8."""
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            if name.endswith("num_batches_tracked"):
                continue
            centre = 1.0 if name.endswith("var") else 0.0
            value = signed(name, tuple(buffer.shape)) * np.float32(0.125) + np.float32(centre)
            buffer.copy_(torch.from_numpy(value))


rows = {}


def row(name, module, *inputs, call=None, train=True):
    assert name not in rows, name
    rows[name] = (module, inputs, call or (lambda module, *inputs: module(*inputs)), train)


row("linear", nn.Linear(7, 5), floats(3, 2, 7))
row("linear without bias", nn.Linear(7, 5, bias=False), floats(3, 7))
row("bilinear", nn.Bilinear(5, 7, 3), floats(2, 5), floats(2, 7))
row("conv1d", nn.Conv1d(4, 6, 3, stride=2, padding=2, dilation=2, groups=2), floats(2, 4, 11))
row("conv1d same", nn.Conv1d(3, 5, 4, padding="same"), floats(2, 3, 9))
row("conv2d", nn.Conv2d(4, 6, (3, 5), stride=2, padding=(1, 2), groups=2), floats(2, 4, 9, 7))
row("conv2d reflect", nn.Conv2d(3, 5, 3, padding=1, padding_mode="reflect"), floats(2, 3, 5, 6))
row("conv2d circular", nn.Conv2d(3, 5, 3, padding=1, padding_mode="circular", bias=False), floats(2, 3, 5, 6))
row("conv2d replicate", nn.Conv2d(3, 5, 3, stride=2, padding=1, padding_mode="replicate"), floats(1, 3, 5, 6))
row("conv3d", nn.Conv3d(3, 4, (2, 3, 2), stride=(1, 2, 1), padding=1), floats(2, 3, 4, 5, 3))
row("conv_transpose1d", nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), floats(2, 4, 5))
row("conv_transpose2d", nn.ConvTranspose2d(3, 5, (3, 2), stride=(2, 1), padding=1, dilation=(1, 2)), floats(2, 3, 4, 5))
row("conv_transpose3d", nn.ConvTranspose3d(3, 2, 2, stride=2, bias=False), floats(1, 3, 2, 3, 2))
row("batch_norm1d", nn.BatchNorm1d(5), floats(7, 5))
row("batch_norm1d sequence", nn.BatchNorm1d(5), floats(3, 5, 4))
row("batch_norm2d", nn.BatchNorm2d(5), floats(3, 5, 4, 3))
row("batch_norm2d in use", nn.BatchNorm2d(5), floats(3, 5, 4, 3), train=False)
row("batch_norm2d over all batches", nn.BatchNorm2d(5, eps=1e-3, momentum=None), floats(3, 5, 4, 3))
row("batch_norm2d without affine", nn.BatchNorm2d(5, affine=False), floats(3, 5, 4, 3))
row("batch_norm3d", nn.BatchNorm3d(3), floats(2, 3, 2, 3, 2))
row("layer_norm", nn.LayerNorm(7), floats(3, 5, 7))
row("layer_norm of two axes", nn.LayerNorm([5, 7], eps=1e-3), floats(3, 5, 7))
row("layer_norm without bias", nn.LayerNorm(7, bias=False), floats(3, 7))
row("rms_norm", nn.RMSNorm(7), floats(3, 5, 7))
row("group_norm", nn.GroupNorm(3, 6), floats(2, 6, 5, 3))
row("instance_norm1d", nn.InstanceNorm1d(3), floats(2, 3, 7))
row("instance_norm2d", nn.InstanceNorm2d(3, affine=True), floats(2, 3, 5, 4))
row("instance_norm3d", nn.InstanceNorm3d(3), floats(2, 3, 2, 3, 4))
row("instance_norm1d tracking", nn.InstanceNorm1d(3, track_running_stats=True), floats(2, 3, 7))
row("instance_norm2d tracking", nn.InstanceNorm2d(3, affine=True, track_running_stats=True, momentum=0.3), floats(2, 3, 5, 4))
row("instance_norm2d in use", nn.InstanceNorm2d(3, affine=True, track_running_stats=True), floats(2, 3, 5, 4), train=False)
row("embedding", nn.Embedding(11, 5), indices(11, 3, 4))
row("embedding with padding", nn.Embedding(5, 3, padding_idx=2), indices(5, 4, 6))
for mode in ["sum", "mean", "max"]:
    row(f"embedding_bag {mode}", nn.EmbeddingBag(7, 3, mode=mode), indices(7, 4, 5))
    row(f"embedding_bag {mode} with padding", nn.EmbeddingBag(3, 4, mode=mode, padding_idx=1), indices(3, 5, 4))
for name, mode, padding in [("sum", "sum", None), ("mean", "mean", None), ("max", "max", None), ("mean with padding", "mean", 1), ("max with padding", "max", 1)]:
    row(
        f"embedding_bag {name} by offsets",
        nn.EmbeddingBag(7, 3, mode=mode, padding_idx=padding),
        indices(7, 9),
        call=lambda m, index: m(index, torch.tensor([0, 3, 3, 8])),
    )
row(
    "embedding_bag weighted",
    nn.EmbeddingBag(7, 3, mode="sum"),
    indices(7, 4, 5),
    floats(4, 5),
    call=lambda m, index, weights: m(index, per_sample_weights=weights),
)
row(
    "embedding_bag weighted by offsets",
    nn.EmbeddingBag(7, 3, mode="sum", padding_idx=2),
    indices(7, 9),
    floats(9),
    call=lambda m, index, weights: m(index, torch.tensor([0, 3, 3, 8]), per_sample_weights=weights),
)
row("prelu", nn.PReLU(), floats(3, 5))
row("prelu by channel", nn.PReLU(5), floats(3, 5, 4))

ACTIVATIONS = [
    nn.ReLU(), nn.ReLU6(), nn.GELU(), nn.GELU(approximate="tanh"), nn.SiLU(), nn.Mish(), nn.SELU(), nn.Sigmoid(),
    nn.LogSigmoid(), nn.Tanh(), nn.Tanhshrink(), nn.Softsign(), nn.Hardsigmoid(), nn.Hardswish(), nn.LeakyReLU(), nn.ELU(),
    nn.CELU(), nn.Softplus(), nn.Hardtanh(), nn.Softshrink(), nn.Hardshrink(), nn.GLU(), nn.Softmax(-1), nn.LogSoftmax(-1),
    nn.Softmin(-1), nn.Threshold(0.5, 7.0), nn.Softplus(2.0, 1.5), nn.RReLU().eval(),
]
row(
    "activations",
    nn.ModuleList(ACTIVATIONS),
    floats(3, 8),
    call=lambda modules, x: tuple(module(4 * x) for module in modules),
    train=False,
)
FUNCTIONS = [
    nn.MaxPool2d(2), nn.AvgPool2d(3), nn.AdaptiveAvgPool2d((2, 3)), nn.AdaptiveMaxPool2d(2), nn.Upsample(scale_factor=2),
    nn.Upsample(scale_factor=2, mode="bilinear"), nn.PixelShuffle(2), nn.Flatten(), nn.Unflatten(1, (2, -1)), nn.Identity(),
    nn.ChannelShuffle(2), nn.LPPool2d(2, (3, 2)), nn.ReflectionPad2d((1, 2, 0, 3)), nn.ReplicationPad2d(2),
    nn.CircularPad2d((1, 0, 2, 3)), nn.ZeroPad2d(1), nn.ConstantPad2d((-1, 2, 0, -2), 3.5), nn.Softmax2d(),
    nn.Unfold((2, 3), padding=1, stride=2), nn.LocalResponseNorm(3, alpha=0.5),
]
row("functions", nn.ModuleList(FUNCTIONS), floats(2, 4, 5, 7), call=lambda modules, x: tuple(module(x) for module in modules))

row("fold", nn.Fold((5, 4), (2, 3), padding=1, stride=2), floats(2, 12, 6))
row("lp_pool1d", nn.LPPool1d(4, 3), floats(2, 3, 8))
row("lp_pool3d", nn.LPPool3d(2, 2), floats(1, 2, 4, 3, 5))
row("max_unpool2d", nn.ModuleList([nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)]), floats(2, 3, 4, 6), call=lambda m, x: m[1](*m[0](x)))
row("cosine_similarity", nn.CosineSimilarity(), floats(3, 5, 2), floats(3, 5, 2))
row("pairwise_distance", nn.PairwiseDistance(3.0), floats(3, 5), floats(3, 5))

PADDING = torch.tensor([[False] * 5, [False, False, False, True, True]])
HIDDEN = torch.tensor([[(query + key) % 3 == 2 for key in range(5)] for query in range(3)])


def causal(length):
    return torch.ones(length, length, dtype=torch.bool).triu(1)


def attention():
    return nn.MultiheadAttention(6, 2, batch_first=True)


row("attention", attention(), floats(2, 5, 6), call=lambda m, x: m(x, x, x))
row("attention causal", attention(), floats(2, 5, 6), call=lambda m, x: m(x, x, x, attn_mask=causal(5)))
row(
    "attention across",
    attention(),
    floats(2, 3, 6),
    floats(2, 5, 6),
    call=lambda m, q, k: m(q, k, k, key_padding_mask=PADDING, attn_mask=HIDDEN, average_attn_weights=False),
)
row(
    "attention three inputs",
    attention(),
    floats(2, 3, 6),
    floats(2, 5, 6),
    floats(2, 5, 6),
    call=lambda m, q, k, v: m(q, k, v, key_padding_mask=PADDING, need_weights=False)[0],
)


row(
    "attention of other widths",
    nn.MultiheadAttention(6, 2, kdim=3, vdim=4, bias=False, batch_first=True),
    floats(2, 3, 6),
    floats(2, 5, 3),
    floats(2, 5, 4),
)
row(
    "attention appended",
    nn.MultiheadAttention(6, 2, add_bias_kv=True, add_zero_attn=True, batch_first=True),
    floats(2, 5, 6),
    call=lambda m, x: m(x, x, x, attn_mask=causal(5), key_padding_mask=PADDING, average_attn_weights=False),
)
row(
    "attention appended to others",
    nn.MultiheadAttention(6, 3, kdim=4, vdim=4, add_bias_kv=True, batch_first=True),
    floats(2, 3, 6),
    floats(2, 5, 4),
    call=lambda m, q, k: m(q, k, k, need_weights=False)[0],
)


def layer(kind, **options):
    return kind(6, 2, 10, dropout=0.0, batch_first=True, **options)


ENCODER, DECODER = nn.TransformerEncoderLayer, nn.TransformerDecoderLayer
row("encoder layer", layer(ENCODER), floats(2, 5, 6))
row("encoder layer norm first", layer(ENCODER, norm_first=True, activation="gelu"), floats(2, 5, 6))
row(
    "encoder",
    nn.TransformerEncoder(layer(ENCODER), 2, nn.LayerNorm(6), enable_nested_tensor=False),
    floats(2, 5, 6),
    call=lambda m, x: m(x, src_key_padding_mask=PADDING),
)
row(
    "decoder layer",
    layer(DECODER),
    floats(2, 4, 6),
    floats(2, 5, 6),
    call=lambda m, x, memory: m(x, memory, tgt_mask=causal(4), memory_key_padding_mask=PADDING),
)
row(
    "decoder",
    nn.TransformerDecoder(layer(DECODER, norm_first=True, activation="gelu"), 2, nn.LayerNorm(6)),
    floats(2, 4, 6),
    floats(2, 5, 6),
    call=lambda m, x, memory: m(x, memory),
)


TRANSFORMER = nn.Transformer(6, 2, 1, 2, 10, dropout=0.0, batch_first=True)
row(
    "transformer",
    TRANSFORMER,
    floats(2, 5, 6),
    floats(2, 4, 6),
    call=lambda m, source, target: m(source, target, tgt_mask=causal(4), memory_key_padding_mask=PADDING),
)


def flat(result):
    output, state = result
    return (output, *(state if isinstance(state, tuple) else (state,)))


def padded(lengths):
    """Calls a recurrent layer with sequences of these lengths."""

    def call(module, input, *state):
        packed = nn.utils.rnn.pack_padded_sequence(input, lengths, module.batch_first, enforce_sorted=False)
        output, state = module(packed, state if len(state) > 1 else state[0]) if state else module(packed)
        times = input.shape[1 if module.batch_first else 0]
        output, _ = nn.utils.rnn.pad_packed_sequence(output, module.batch_first, total_length=times)
        return flat((output, state))

    return call


for name, kind in [("lstm", nn.LSTM), ("gru", nn.GRU), ("rnn", nn.RNN)]:
    row(f"{name} padded", kind(5, 4), floats(6, 3, 5), call=padded([3, 5, 1]))
    deep = kind(5, 3, num_layers=2, bidirectional=True, batch_first=True)
    states = (floats(4, 2, 3),) * (2 if name == "lstm" else 1)
    row(f"{name} padded deep", deep, floats(2, 4, 5), *states, call=padded([2, 4]))
for name, kind in [("lstm", nn.LSTM), ("gru", nn.GRU), ("rnn", nn.RNN)]:
    row(name, kind(5, 4), floats(6, 3, 5), call=lambda m, x: flat(m(x)))
    deep = kind(5, 3, num_layers=2, bidirectional=True, batch_first=True)
    states = (floats(4, 2, 3),) * (2 if name == "lstm" else 1)
    row(
        f"{name} deep",
        deep,
        floats(2, 4, 5),
        *states,
        call=lambda m, x, *state: flat(m(x, state if len(state) > 1 else state[0])),
    )
    row(f"{name} without bias", kind(5, 4, bias=False), floats(3, 2, 5), call=lambda m, x: flat(m(x)))
row("lstm projected", nn.LSTM(5, 4, proj_size=2), floats(6, 3, 5), call=lambda m, x: flat(m(x)))
row(
    "lstm projected deep",
    nn.LSTM(5, 4, num_layers=2, bidirectional=True, batch_first=True, proj_size=3),
    floats(2, 4, 5),
    floats(4, 2, 3),
    floats(4, 2, 4),
    call=lambda m, x, *state: flat(m(x, state)),
)
row("rnn relu", nn.RNN(5, 4, nonlinearity="relu"), floats(6, 3, 5), call=lambda m, x: flat(m(x)))
row("lstm cell", nn.LSTMCell(5, 4), floats(3, 5), floats(3, 4), floats(3, 4), call=lambda m, x, h, c: m(x, (h, c)))
row("gru cell", nn.GRUCell(5, 4), floats(3, 5), floats(3, 4))
row("rnn cell", nn.RNNCell(5, 4), floats(3, 5), floats(3, 4))


def record():
    tensors = {}
    for name, (module, makers, call, train) in rows.items():
        module = module.double().train(train)
        fill(module)
        fill_buffers(module)
        inputs = [make(k) for k, make in enumerate(makers)]
        outputs = call(module, *inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        loss = 0.0
        for k, output in enumerate(outputs):
            tensors[f"{name}/out{k}"] = output
            loss = loss + (output * torch.from_numpy(signed(f"weight{k}", tuple(output.shape))).double()).sum()
        loss.backward()
        for k, tensor in enumerate(inputs):
            if tensor.is_floating_point():
                tensors[f"{name}/in{k}"] = tensor.grad
        for parameter, value in module.named_parameters():
            tensors[f"{name}/grad/{parameter}"] = value.grad
        for buffer, value in module.named_buffers():
            tensors[f"{name}/buffer/{buffer}"] = value
    return {name: value.detach().to(torch.float32).contiguous() for name, value in tensors.items()}


if __name__ == "__main__":
    target = pathlib.Path(__file__).with_name("layers.safetensors")
    save_file(record(), target)
    print(f"{len(rows)} rows, {target.stat().st_size} bytes")
