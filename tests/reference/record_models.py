"""Records what PyTorch's networks compute, for `tests/suite/models.rs` and `tests/suite/weights.rs`.

    python tests/reference/record_models.py            # writes models.json and tiny_resnet.safetensors beside itself
    python tests/reference/record_models.py FOLDER     # writes whole networks with random weights to FOLDER

Recorded with torch 2.15.0 on a CPU. `models.json` holds the logits of networks whose weights and input are the integer hash of
`record.py` (running statistics as in `record_layers.py`), computed in float64 in evaluation mode, and of each network of
published size its number of parameters and a hash of its `state_dict`'s names and shapes. `tiny_resnet.safetensors` is
a small network as PyTorch saves it, after a training step, with an input and its logits.

With a folder, `NAME.safetensors` is a whole network with the weights PyTorch draws, and `NAME.io.safetensors` an input and its
logits; `BRASA_TORCH_WEIGHTS=FOLDER cargo test --test suite weights::` reads them.
"""

import json
import pathlib
import sys

import torch
from safetensors.torch import save_file
from torch import nn

from record import fill, signed
from record_layers import fill_buffers
from torch_models import FULL, SMALL, BasicBlock, ResNet

HERE = pathlib.Path(__file__).parent
# name: side of the input (a vision transformer's depends on it)
WHOLE = {"resnet18": 64, "mobilenet-v2": 64, "vit-tiny": 224}


def signature(module):
    """FNV-1a, 64 bits, of a line `name [a, b]` for each tensor of the state, in the order of names."""
    value = 0xCBF29CE484222325
    for name, tensor in sorted(module.state_dict().items()):
        for byte in f"{name} {list(tensor.shape)}\n".encode():
            value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def fill_network(module):
    """As `fill`, with kernels 2.5 times as large: about He's deviation, so that signals do not fade."""
    fill(module)
    fill_buffers(module)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() == 4:
                parameter.copy_((parameter.float() * 2.5).double())


def logits(module, side):
    module = module.double().eval()
    fill_network(module)
    with torch.no_grad():
        return module(torch.from_numpy(signed("input", (2, 3, side, side))).double())


def record():
    small = {name: logits(make(), side).flatten().tolist() for name, (make, side) in SMALL.items()}
    whole = {name: logits(FULL[name](), side)[:, :50].flatten().tolist() for name, side in WHOLE.items()}
    full = {}
    for name, make in FULL.items():
        with torch.device("meta"):
            module = make()
        count = sum(parameter.numel() for parameter in module.parameters())
        full[name] = {"parameters": count, "state": signature(module)}
    return {"small": small, "whole": whole, "full": full}


def tiny():
    torch.manual_seed(1)
    module = ResNet(BasicBlock, [1, 1, 1, 1], 4, 5)
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    input = torch.randn(3, 3, 32, 32)
    nn.functional.cross_entropy(module(input), torch.tensor([0, 3, 4])).backward()
    optimizer.step()
    module.eval()
    with torch.no_grad():
        return module.state_dict(), {"input": input, "logits": module(input)}


def write_whole(folder):
    torch.manual_seed(2)
    for name, side in WHOLE.items():
        module, input = FULL[name]().eval(), torch.randn(2, 3, side, side)
        save_file(module.state_dict(), folder / f"{name}.safetensors")
        with torch.no_grad():
            save_file({"input": input, "logits": module(input)}, folder / f"{name}.io.safetensors")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        write_whole(pathlib.Path(sys.argv[1]))
    else:
        (HERE / "models.json").write_text(json.dumps(record(), indent=1) + "\n")
        state, io = tiny()
        save_file(state, HERE / "tiny_resnet.safetensors")
        save_file(io, HERE / "tiny_resnet.io.safetensors")
