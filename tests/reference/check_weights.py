"""Loads files that brasa saved into PyTorch, strictly, and compares the logits.

    BRASA_SAVE_WEIGHTS=FOLDER cargo test --test suite pytorch_loads
    python tests/reference/check_weights.py FOLDER

FOLDER holds `NAME.safetensors`, written by `nn::save_weights`, and `NAME.io.safetensors` with an input and brasa's logits.
"""

import pathlib
import sys

import torch
from safetensors.torch import load_file

from torch_models import FULL

folder = pathlib.Path(sys.argv[1])
checked = 0
for name, make in FULL.items():
    path = folder / f"{name}.safetensors"
    if not path.exists():
        continue
    module, io = make(), load_file(folder / f"{name}.io.safetensors")
    state = load_file(path)
    assert state.keys() == module.state_dict().keys(), f"{name}: {state.keys() ^ module.state_dict().keys()}"
    module.load_state_dict(state, strict=True)
    with torch.no_grad():
        expected = module.eval()(io["input"])
    difference = (io["logits"] - expected).abs().max().item()
    print(f"{name}: {len(state)} tensors, logits within {difference:.1e} of up to {expected.abs().max().item():.2f}")
    assert difference <= 1e-4 * max(1.0, expected.abs().max().item()), name
    checked += 1
assert checked > 0, "no files there"
