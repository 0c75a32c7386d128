"""Writes state dicts with torch.save: state.pth, checkpoint.pth with one among other things, others.pth with tensors of other
kinds.

python tests/reference/record_state.py
"""

import collections
import os

import torch

HERE = os.path.dirname(os.path.abspath(__file__))


def numbers(count, dtype=torch.float32):
    """Multiples of 1/8 around 0, exact in every type."""
    return ((torch.arange(count, dtype=torch.float32) - count // 2) / 8).to(dtype)


def state():
    layer = torch.nn.Linear(3, 2)
    with torch.no_grad():
        layer.weight.copy_(numbers(6).reshape(2, 3))
        layer.bias.copy_(numbers(2))
    whole = numbers(24)
    return collections.OrderedDict(
        [
            ("fc.weight", layer.weight),  # a parameter
            ("fc.bias", layer.state_dict()["bias"]),
            ("transposed", numbers(6).reshape(2, 3).t()),
            ("channels_last", numbers(24).reshape(1, 2, 3, 4).contiguous(memory_format=torch.channels_last)),
            ("part", whole[6:18].reshape(3, 4)[:, 1:3]),
            ("same", whole),
            ("double", numbers(3, torch.float64)),
            ("half", numbers(3, torch.float16)),
            ("bfloat", numbers(3, torch.bfloat16)),
            ("num_batches_tracked", torch.tensor(7)),
            ("bytes", torch.tensor([0, 1, 255], dtype=torch.uint8)),
            ("truth", torch.tensor([True, False, True])),
            ("empty", torch.zeros(0, 3)),
            ("version", 2),  # no tensor
        ]
    )


torch.save(state(), os.path.join(HERE, "state.pth"))
layer = torch.nn.Linear(2, 1)
with torch.no_grad():
    layer.weight.copy_(numbers(2).reshape(1, 2))
    layer.bias.fill_(0.5)
optimizer = torch.optim.Adam(layer.parameters())
layer(torch.ones(1, 2)).sum().backward()
checkpoint = {
    "epoch": 3,
    "best_acc1": torch.tensor(0.5),
    "args": {"lr": 1e-3},
    "seen": {1, 2},
    "raw": bytearray(b"raw"),
    "large": 1 << 80,
    "model_state_dict": layer.state_dict(),
    "optimizer": optimizer.state_dict(),
}
torch.save(checkpoint, os.path.join(HERE, "checkpoint.pth"), pickle_protocol=5)

# One tensor that is read, and some that are not.
odd = torch.zeros(2)
odd.note = "an attribute"
others = {
    "weight": numbers(2).reshape(1, 2),
    "bias": odd,
    "negative": torch.complex(numbers(3), numbers(3)).conj().imag,
    "complex": torch.zeros(2, dtype=torch.complex64),
    "sparse": torch.eye(2).to_sparse(),
    "unsigned": torch.zeros(2, dtype=torch.uint16),
}
torch.save(others, os.path.join(HERE, "others.pth"))
