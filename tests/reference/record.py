"""Records the losses of PyTorch training runs that `tests/suite/followed.rs` repeats.

    python3 tests/reference/record.py          # writes training.json beside itself

Recorded with Python 3.11, torch 2.15.0, numpy 2, on a CPU (x86-64). Nothing is read or downloaded: weights and data come from
an integer hash of (name, index), which the Rust test repeats bit for bit, so the file holds the numbers to compare with and
nothing else. Every run is made in float64, which is the expected result, and 1 + PERTURBED times in float32: with the same
first weights, then with weights that are off by up to one float32 rounding, and every second time without oneDNN, so that sums
run in another order. How far these runs lie from the expected one is what rounding alone does, and the test takes its tolerance
from it.

That is no bell curve everywhere. Where a rounding decides on which side of a ReLU's kink one activation falls, a run takes
another branch: of 25 runs of ResNet-20 over 20 steps at the learning rate 0.05, half ended with a sum of squares within 6e-5 of
the expected one and the furthest 1.5e-3 off, so the largest of a few runs says little. Hence the many runs, a tolerance for
each step, and for ResNet-20 a rate so low that the branches stay together (the largest distance of a loss after 20 steps with
momentum is 5e-4 at 1e-4, 1e-4 at 2e-5 and 6e-6 at 5e-6). The losses of the others are off by about 1e-6 at most.

Fields of a run: `f64` (the loss of each training step, before its update), `eval_f64` (the loss of the same batch in
evaluation mode after the last step, which sees running statistics), `sums_f64` (after the last step, the sum of squares of
each state tensor that is named in `checked`), and `spread` (of each step's loss), `eval_spread`, `sums_spread`: the largest
distances from the float64 run.
"""

import json
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from torch_models import VisionTransformer

PERTURBED = 24


def hash32(name, count):
    """`count` hashed u32: FNV-1a of the name, plus the index, through a 32-bit finaliser ("lowbias32")."""
    seed = 0x811C9DC5
    for byte in name.encode():
        seed = (seed ^ byte) * 0x01000193 & 0xFFFFFFFF
    with np.errstate(over="ignore"):
        x = np.uint32(seed) + np.arange(count, dtype=np.uint32)
        x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
        x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
        return x ^ (x >> np.uint32(16))


def signed(name, shape):
    """float32 in [-1, 1), multiples of 2^-23: exact."""
    count = int(np.prod(shape))
    return ((hash32(name, count) >> np.uint32(8)).astype(np.float32) * np.float32(2**-23) - np.float32(1)).reshape(shape)


def classes(name, shape, bound):
    """Class numbers below `bound`."""
    return torch.from_numpy((hash32(name, int(np.prod(shape))) % np.uint32(bound)).astype(np.int64).reshape(shape))


def fill(model):
    """Matrices and kernels: uniform within 1/sqrt(fan in). Vectors: 1 + v/8 for scales, v/8 for biases."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            value = signed(name, tuple(parameter.shape))
            if parameter.dim() >= 2:
                value = value * np.float32(1 / np.sqrt(np.prod(parameter.shape[1:])))
            else:
                value = value * np.float32(0.125)
                if name.endswith("weight"):
                    value = value + np.float32(1)
            parameter.copy_(torch.from_numpy(value))


class TutorialCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 6, 5), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
        self.downsample = None
        if inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + shortcut)


class ResNet20(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(*(BasicBlock(16, 16, 1) for _ in range(3)))
        self.layer2 = nn.Sequential(BasicBlock(16, 32, 2), *(BasicBlock(32, 32, 1) for _ in range(2)))
        self.layer3 = nn.Sequential(BasicBlock(32, 64, 2), *(BasicBlock(64, 64, 1) for _ in range(2)))
        self.fc = nn.Linear(64, 10)

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(F.relu(self.bn1(self.conv1(x))))))
        return self.fc(x.mean((2, 3)))


class DoubleConv(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, 1, 1), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, 1, 1), nn.BatchNorm2d(outputs)

    def forward(self, x):
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))


class UNet(nn.Module):
    """Widths go down with max-pooling between, the last one is the bottom; up again with nearest upsampling and skips."""

    def __init__(self, inputs, widths, outputs):
        super().__init__()
        ins = [inputs, *widths[:-1]]
        self.down = nn.ModuleList(DoubleConv(i, o) for i, o in zip(ins[:-1], widths[:-1]))
        self.bottom = DoubleConv(widths[-2], widths[-1])
        self.up = nn.ModuleList(
            DoubleConv(below + skip, skip) for below, skip in zip(widths[:0:-1], widths[-2::-1])
        )
        self.head = nn.Conv2d(widths[0], outputs, 1)

    def forward(self, x):
        skips = []
        for block in self.down:
            x = block(x)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.bottom(x)
        for block, skip in zip(self.up, reversed(skips)):
            x = block(torch.cat([F.interpolate(x, scale_factor=2, mode="nearest"), skip], 1))
        return self.head(x)


class Gpt(nn.Module):
    def __init__(self, vocabulary, sequence, width, heads, layers):
        super().__init__()
        self.token_embedding = nn.Embedding(vocabulary, width)
        self.position_embedding = nn.Embedding(sequence, width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, tokens):
        length = tokens.shape[1]
        x = self.token_embedding(tokens) + self.position_embedding.weight[:length]
        mask = torch.full((length, length), float("-inf"), dtype=x.dtype).triu(1)
        for block in self.blocks:
            x = block(x, src_mask=mask)
        return self.head(self.norm(x)).transpose(1, 2)  # [batch, vocabulary, sequence], as cross-entropy wants it


class LstmClassifier(nn.Module):
    def __init__(self, vocabulary, features, hidden, classes):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, features)
        self.lstm = nn.LSTM(features, hidden, batch_first=True)
        self.fc = nn.Linear(hidden, classes)

    def forward(self, tokens):
        return self.fc(self.lstm(self.embedding(tokens))[0][:, -1])


def images(batch, *shape):
    return lambda dtype: torch.from_numpy(signed("input", (batch, *shape))).to(dtype)


def tokens(bound, *shape):
    return lambda _: classes("input", shape, bound)


def mlp():
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))


def momentum(lr):
    return lambda parameters: torch.optim.SGD(parameters, lr=lr, momentum=0.9, weight_decay=5e-3)


def nesterov(lr):
    return lambda parameters: torch.optim.SGD(parameters, lr=lr, momentum=0.9, nesterov=True, weight_decay=1e-2)


def adam(lr):
    return lambda parameters: torch.optim.Adam(parameters, lr=lr)


def adamw(lr):
    return lambda parameters: torch.optim.AdamW(parameters, lr=lr, weight_decay=0.1)


# name: (model, input of a dtype, target, tensors whose sum of squares is checked)
NETWORKS = {
    "mlp": (mlp, images(64, 64), classes("target", (64,), 10), ["0.weight", "4.weight", "4.bias"]),
    "cnn": (TutorialCnn, images(8, 3, 32, 32), classes("target", (8,), 10), ["conv1.weight", "fc1.weight", "fc3.bias"]),
    "resnet20": (
        ResNet20,
        images(8, 3, 16, 16),
        classes("target", (8,), 10),
        ["conv1.weight", "layer2.0.downsample.0.weight", "fc.weight", "bn1.running_mean", "layer3.2.bn2.running_var"],
    ),
    "unet": (
        lambda: UNet(3, [4, 8, 16], 3),
        images(2, 3, 16, 16),
        classes("target", (2, 16, 16), 3),
        ["down.0.conv1.weight", "up.1.conv2.weight", "head.weight", "bottom.bn1.running_var"],
    ),
    "gpt": (
        lambda: Gpt(32, 16, 32, 4, 2),
        tokens(32, 4, 16),
        classes("target", (4, 16), 32),
        ["token_embedding.weight", "blocks.1.self_attn.in_proj_weight", "norm.weight", "head.bias"],
    ),
    "lstm": (
        lambda: LstmClassifier(32, 16, 24, 5),
        tokens(32, 8, 12),
        classes("target", (8,), 5),
        ["embedding.weight", "lstm.weight_ih_l0", "lstm.weight_hh_l0", "lstm.bias_hh_l0", "fc.weight"],
    ),
    "vit": (
        lambda: VisionTransformer(16, 4, 32, 4, 2, 10),
        images(8, 3, 16, 16),
        classes("target", (8,), 10),
        ["cls_token", "pos_embed", "patch_embed.proj.weight", "blocks.1.attn.qkv.weight", "head.bias"],
    ),
}

# (network, optimizer): (the optimizer, largest global gradient norm or None)
RUNS = {
    ("mlp", "adam"): (adam(1e-3), None),
    ("mlp", "nesterov"): (nesterov(0.1), 0.1),
    ("cnn", "adam"): (adam(1e-3), None),
    ("resnet20", "momentum"): (momentum(5e-6), None),
    ("resnet20", "adam"): (adam(1e-6), None),
    ("resnet20", "adamw"): (adamw(1e-6), None),
    ("unet", "momentum"): (momentum(1e-2), None),
    ("unet", "adam"): (adam(1e-3), None),
    ("unet", "adamw"): (adamw(1e-3), None),
    ("gpt", "momentum"): (momentum(1e-2), None),
    ("gpt", "adam"): (adam(1e-3), None),
    ("gpt", "adamw"): (adamw(1e-3), None),
    ("lstm", "momentum"): (momentum(0.1), None),
    ("lstm", "adam"): (adam(1e-2), None),
    ("lstm", "adamw"): (adamw(1e-2), None),
    ("vit", "momentum"): (momentum(1e-2), None),
    ("vit", "adam"): (adam(1e-3), None),
    ("vit", "adamw"): (adamw(1e-3), None),
}
STEPS = 20


def perturb(model, seed):
    """Moves each weight by up to one float32 rounding."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.rand(parameter.shape, generator=generator, dtype=torch.float64) * 2 - 1
            parameter.copy_(parameter.double() * (1 + 2.0**-24 * noise))


def train(network, optimizer, dtype, seed=None):
    make_model, make_input, target, checked = NETWORKS[network]
    make_optimizer, max_norm = optimizer
    model = make_model()
    fill(model)
    model.to(dtype)
    if seed is not None:
        perturb(model, seed)
    x = make_input(dtype)
    optimizer = make_optimizer(model.parameters())
    losses = []
    for _ in range(STEPS):
        loss = F.cross_entropy(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        if max_norm is not None:
            nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        evaluated = F.cross_entropy(model(x), target).item()
    state = model.state_dict()
    return losses, evaluated, [state[name].double().square().sum().item() for name in checked]


def float32_runs(network, optimizer):
    """As often as the spread is taken from."""
    for seed in [None, *range(PERTURBED)]:
        with torch.backends.mkldnn.flags(enabled=seed is None or seed % 2 == 1):
            yield train(network, optimizer, torch.float32, seed)


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    records = {}
    for (network, name), optimizer in RUNS.items():
        losses, evaluated, sums = train(network, optimizer, torch.float64)
        others = list(float32_runs(network, optimizer))
        record = {
            "checked": NETWORKS[network][-1],
            "f64": losses,
            "eval_f64": evaluated,
            "sums_f64": sums,
            "spread": [max(abs(other[0][step] - loss) for other in others) for step, loss in enumerate(losses)],
            "eval_spread": max(abs(other[1] - evaluated) for other in others),
            "sums_spread": [max(abs(other[2][index] - exact) for other in others) for index, exact in enumerate(sums)],
        }
        records[f"{network} {name}"] = record
        print(f"{network} {name}: loss {losses[0]:.4f} to {losses[-1]:.4f}, up to {max(record['spread']):.1e} off,",
              f"evaluated {evaluated:.4f}, up to {record['eval_spread']:.1e} off; sums up to {max(record['sums_spread']):.1e} off",
              flush=True)
    path = pathlib.Path(__file__).parent / "training.json"
    path.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
