"""Records what PyTorch's optimizers do in their first steps, for `tests/suite/optim.rs`.

    python3 tests/reference/record_optim.py    # writes tests/reference/optim.json

Recorded with torch 2.15.0 on a CPU, in float64. Two problems: a network 6 -> 7 -> 3 with tanh and cross-entropy (loss of each
step, all parameters after the last one), and Rosenbrock's valley (the point after each step). Weights and data are those of
`record.py`'s integer hash, which the Rust test repeats bit for bit.

PyTorch has no Lion and no LAMB: they are written here from the algorithms of their papers. Its Muon iterates in bfloat16; here
that one conversion is left out, so that the rest can be compared.
"""

import inspect
import json
import math
import pathlib

import torch
import torch.nn.functional as F
from torch.optim import _muon

from record import classes, signed

STEPS = 20

exec(inspect.getsource(_muon._zeropower_via_newtonschulz).replace("torch.bfloat16", "grad.dtype"), vars(_muon))


class Lion(torch.optim.Optimizer):
    """Chen et al., arXiv 2302.06675, algorithm 2."""

    def __init__(self, params, lr, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                c = beta1 * m + (1 - beta1) * p.grad
                p.sub_(group["lr"] * (c.sign() + group["weight_decay"] * p))
                m.copy_(beta2 * m + (1 - beta2) * p.grad)


class Lamb(torch.optim.Optimizer):
    """You et al., arXiv 1904.00962, algorithm 2, with phi the identity."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                t = state["t"] = state.get("t", 0) + 1
                m = state.setdefault("m", torch.zeros_like(p))
                v = state.setdefault("v", torch.zeros_like(p))
                m.copy_(beta1 * m + (1 - beta1) * p.grad)
                v.copy_(beta2 * v + (1 - beta2) * p.grad**2)
                r = (m / (1 - beta1**t)) / ((v / (1 - beta2**t)).sqrt() + group["eps"])
                u = r + group["weight_decay"] * p
                ratio = p.norm() / u.norm() if p.norm() > 0 and u.norm() > 0 else 1.0
                p.sub_(group["lr"] * ratio * u)


def clip_norm(params):
    torch.nn.utils.clip_grad_norm_(params, 0.05)


def clip_norm_max(params):
    torch.nn.utils.clip_grad_norm_(params, 0.02, norm_type=math.inf)


def clip_norm_3(params):
    torch.nn.utils.clip_grad_norm_(params, 0.03, norm_type=3.0)


def clip_value(params):
    torch.nn.utils.clip_grad_value_(params, 0.01)


O = torch.optim

# name: (optimizer, its options, learning rate in the valley, clipping)
CASES = {
    "sgd": (O.SGD, dict(lr=0.5), 1e-4, None),
    "sgd_momentum": (O.SGD, dict(lr=0.5, momentum=0.9, weight_decay=0.01), 1e-4, None),
    "sgd_dampened": (O.SGD, dict(lr=0.5, momentum=0.8, dampening=0.3), 1e-4, None),
    "sgd_nesterov": (O.SGD, dict(lr=0.5, momentum=0.9, nesterov=True, weight_decay=0.02), 1e-4, None),
    "sgd_maximize": (O.SGD, dict(lr=0.1, momentum=0.5, maximize=True), 1e-5, None),
    "sgd_clip_norm": (O.SGD, dict(lr=0.5), 0.5, clip_norm),
    "sgd_clip_norm_max": (O.SGD, dict(lr=0.5), 0.5, clip_norm_max),
    "sgd_clip_norm_3": (O.SGD, dict(lr=0.5), 0.5, clip_norm_3),
    "sgd_clip_value": (O.SGD, dict(lr=0.5), 0.5, clip_value),
    "adam": (O.Adam, dict(lr=0.02), 0.05, None),
    "adam_options": (O.Adam, dict(lr=0.02, betas=(0.7, 0.95), eps=1e-3, weight_decay=0.05), 0.05, None),
    "adam_amsgrad": (O.Adam, dict(lr=0.1, betas=(0.9, 0.8), amsgrad=True), 0.05, None),
    "adamw": (O.AdamW, dict(lr=0.02), 0.05, None),
    "adamw_amsgrad": (O.AdamW, dict(lr=0.1, betas=(0.9, 0.8), amsgrad=True, weight_decay=0.3), 0.05, None),
    "nadam": (O.NAdam, dict(lr=0.02), 0.05, None),
    "nadam_decoupled": (
        O.NAdam,
        dict(lr=0.02, momentum_decay=0.1, weight_decay=0.2, decoupled_weight_decay=True),
        0.05,
        None,
    ),
    "radam": (O.RAdam, dict(lr=0.05), 1e-4, None),
    "radam_options": (O.RAdam, dict(lr=0.05, betas=(0.8, 0.9), eps=1e-4, weight_decay=0.1), 2e-4, None),
    "rmsprop": (O.RMSprop, dict(lr=0.005), 0.01, None),
    "rmsprop_centered": (O.RMSprop, dict(lr=0.002, alpha=0.9, eps=1e-5, centered=True), 0.01, None),
    "rmsprop_momentum": (O.RMSprop, dict(lr=0.002, momentum=0.7, weight_decay=0.1), 0.01, None),
    "adagrad": (O.Adagrad, dict(lr=0.1), 0.1, None),
    "adagrad_options": (
        O.Adagrad,
        dict(lr=0.2, lr_decay=0.1, weight_decay=0.05, initial_accumulator_value=0.02, eps=1e-3),
        0.1,
        None,
    ),
    "adadelta": (O.Adadelta, dict(lr=1.0), 1.0, None),
    "adadelta_options": (O.Adadelta, dict(lr=3.0, rho=0.8, eps=1e-4, weight_decay=0.05), 1.0, None),
    "adamax": (O.Adamax, dict(lr=0.05), 0.05, None),
    "adamax_options": (O.Adamax, dict(lr=0.05, betas=(0.8, 0.9), eps=1e-2, weight_decay=0.1), 0.05, None),
    "rprop": (O.Rprop, dict(lr=0.02), 0.05, None),
    "rprop_options": (O.Rprop, dict(lr=0.05, etas=(0.3, 1.5), step_sizes=(1e-3, 0.08)), 0.02, None),
    "asgd": (O.ASGD, dict(lr=0.5), 1e-4, None),
    "asgd_options": (O.ASGD, dict(lr=0.5, lambd=0.2, alpha=0.6, t0=3, weight_decay=0.01), 1e-4, None),
    "lion": (Lion, dict(lr=0.02), 0.02, None),
    "lion_options": (Lion, dict(lr=0.02, betas=(0.8, 0.9), weight_decay=0.5), 0.02, None),
    "lamb": (Lamb, dict(lr=0.05), 0.05, None),
    "lamb_options": (Lamb, dict(lr=0.05, betas=(0.8, 0.9), eps=1e-3, weight_decay=0.5), 0.05, None),
    # vectors go to SGD
    "muon": (O.Muon, dict(lr=0.05), 0.05, None),
    "muon_match_rms": (O.Muon, dict(lr=0.2, weight_decay=0.3, momentum=0.8, adjust_lr_fn="match_rms_adamw"), 0.1, None),
    "muon_plain": (O.Muon, dict(lr=0.05, nesterov=False, ns_steps=3, adjust_lr_fn="spectral_unclamped"), 0.05, None),
}


def parameters():
    shapes = {"fc1.weight": (7, 6), "fc1.bias": (7,), "fc2.weight": (3, 7), "fc2.bias": (3,)}
    return {name: (torch.from_numpy(signed(name, shape)).double() * 0.5).requires_grad_() for name, shape in shapes.items()}


def network(p):
    x = torch.from_numpy(signed("input", (16, 6))).double()
    hidden = torch.tanh(x @ p["fc1.weight"].T + p["fc1.bias"])
    return F.cross_entropy(hidden @ p["fc2.weight"].T + p["fc2.bias"], classes("target", (16,), 3))


def steps(params, optimizers, loss_of, clip):
    for _ in range(STEPS):
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        if clip:
            clip(params)
        for optimizer in optimizers:
            optimizer.step()
        yield loss.item()


def train(make, options, clip):
    p = parameters()
    tensors = list(p.values())
    if make is O.Muon:
        split = [[t for t in tensors if t.dim() == 2], [t for t in tensors if t.dim() != 2]]
        optimizers = [make(split[0], **options), O.SGD(split[1], lr=0.5)]
    else:
        optimizers = [make(tensors, **options)]
    losses = list(steps(tensors, optimizers, lambda: network(p), clip))
    return {"losses": losses, "parameters": [value for t in tensors for value in t.detach().flatten().tolist()]}


def valley(make, options, clip):
    xy = torch.tensor([[-1.25, 0.75]], dtype=torch.float64, requires_grad=True)

    def loss():
        x, y = xy[0]
        return (1 - x) ** 2 + 100 * (y - x * x) ** 2

    return [xy.detach().flatten().tolist() for _ in steps([xy], [make([xy], **options)], loss, clip)]


def groups():
    """Two groups of AdamW: the matrices decay, the vectors do not and learn faster."""
    p = parameters()
    matrices, vectors = [t for t in p.values() if t.dim() == 2], [t for t in p.values() if t.dim() != 2]
    optimizer = O.AdamW([dict(params=matrices, weight_decay=0.3), dict(params=vectors, lr=0.1, weight_decay=0.0)], lr=0.02)
    losses = list(steps(list(p.values()), [optimizer], lambda: network(p), clip_norm))
    return {"losses": losses, "parameters": [value for t in p.values() for value in t.detach().flatten().tolist()]}


def main():
    torch.set_num_threads(1)
    record = {}
    for name, (make, options, valley_lr, clip) in CASES.items():
        record[name] = train(make, options, clip)
        record[name]["valley"] = valley(make, {**options, "lr": valley_lr}, clip)
        print(f"{name}: loss {record[name]['losses'][0]:.4f} to {record[name]['losses'][-1]:.4f},",
              "valley {:.3f} {:.3f}".format(*record[name]["valley"][-1]))
    record["groups"] = {**groups(), "valley": []}
    path = pathlib.Path(__file__).parent / "optim.json"
    path.write_text(json.dumps(record, indent=0) + "\n")


if __name__ == "__main__":
    main()
