"""Records the learning rates of PyTorch's schedulers, for `tests/suite/schedules.rs`.

    python3 tests/reference/record_schedules.py    # writes tests/reference/schedules.json

Recorded with torch 2.15.0. For each schedule, written as brasa writes it: the learning rates of 130 steps for an optimizer of
learning rate 0.1. For plateaus, the metric of each step is `METRICS` of its number.
"""

import json
import math
import pathlib
import warnings

import torch
from torch.optim import lr_scheduler as L

STEPS = 130
BASE = 0.1
METRICS = [math.exp(-0.3 * min(i % 37, 12)) + 0.001 * ((i * 7919) % 13) for i in range(STEPS)]

CASES = {
    "constant": lambda o: L.ConstantLR(o, factor=1.0),
    "constant:factor=0.3,steps=17": lambda o: L.ConstantLR(o, factor=0.3, total_iters=17),
    "linear:steps=5": lambda o: L.LinearLR(o),
    "linear:start=0.01,end=0.7,steps=40": lambda o: L.LinearLR(o, start_factor=0.01, end_factor=0.7, total_iters=40),
    "step:size=7": lambda o: L.StepLR(o, 7),
    "step:size=30,gamma=0.5": lambda o: L.StepLR(o, 30, gamma=0.5),
    "multistep:at=10/25/25/60,gamma=0.3": lambda o: L.MultiStepLR(o, [10, 25, 25, 60], gamma=0.3),
    "exponential:gamma=0.97": lambda o: L.ExponentialLR(o, 0.97),
    "polynomial:steps=100,power=2.5": lambda o: L.PolynomialLR(o, total_iters=100, power=2.5),
    "polynomial:steps=60": lambda o: L.PolynomialLR(o, total_iters=60),
    "cosine:steps=130": lambda o: L.CosineAnnealingLR(o, 130),
    "cosine:steps=50,min=0.004": lambda o: L.CosineAnnealingLR(o, 50, eta_min=0.004),
    "cosine-restarts:first=10": lambda o: L.CosineAnnealingWarmRestarts(o, 10),
    "cosine-restarts:first=7,longer=2,min=0.001": lambda o: L.CosineAnnealingWarmRestarts(o, 7, 2, eta_min=0.001),
    "onecycle:steps=130": lambda o: L.OneCycleLR(o, BASE, total_steps=STEPS),
    "onecycle:steps=130,anneal=linear,rise=0.25,div=10,final=50": lambda o: L.OneCycleLR(
        o, BASE, total_steps=STEPS, anneal_strategy="linear", pct_start=0.25, div_factor=10, final_div_factor=50
    ),
    "onecycle:steps=130,three-phase=true": lambda o: L.OneCycleLR(o, BASE, total_steps=STEPS, three_phase=True),
    "onecycle:steps=130,three-phase=true,anneal=linear,rise=0.4": lambda o: L.OneCycleLR(
        o, BASE, total_steps=STEPS, three_phase=True, anneal_strategy="linear", pct_start=0.4
    ),
    "cyclic:max=0.5,up=8": lambda o: L.CyclicLR(o, BASE, 0.5, step_size_up=8),
    "cyclic:max=0.5,up=8,down=13,mode=triangular2": lambda o: L.CyclicLR(
        o, BASE, 0.5, step_size_up=8, step_size_down=13, mode="triangular2"
    ),
    "cyclic:max=0.5,up=11,mode=exp_range,gamma=0.99": lambda o: L.CyclicLR(
        o, BASE, 0.5, step_size_up=11, mode="exp_range", gamma=0.99
    ),
    "linear:start=0.1,steps=20 * exponential:gamma=0.95": lambda o: L.ChainedScheduler(
        [L.LinearLR(o, start_factor=0.1, total_iters=20), L.ExponentialLR(o, 0.95)]
    ),
    "constant:factor=0.5,steps=9 * step:size=20 * cosine:steps=130": lambda o: L.ChainedScheduler(
        [L.ConstantLR(o, factor=0.5, total_iters=9), L.StepLR(o, 20), L.CosineAnnealingLR(o, 130)]
    ),
    "linear:start=0.2,steps=10 then@10 cosine:steps=120,min=0.001": lambda o: L.SequentialLR(
        o, [L.LinearLR(o, start_factor=0.2, total_iters=10), L.CosineAnnealingLR(o, 120, eta_min=0.001)], [10]
    ),
    "constant:factor=0.1,steps=1000 then@20 exponential:gamma=0.9 then@70 step:size=15": lambda o: L.SequentialLR(
        o, [L.ConstantLR(o, factor=0.1, total_iters=1000), L.ExponentialLR(o, 0.9), L.StepLR(o, 15)], [20, 70]
    ),
    "plateau:patience=2": lambda o: L.ReduceLROnPlateau(o, patience=2),
    "plateau:patience=3,factor=0.5,cooldown=5,min=0.003": lambda o: L.ReduceLROnPlateau(
        o, patience=3, factor=0.5, cooldown=5, min_lr=0.003
    ),
    "plateau:mode=max,factor=0.7,patience=4,threshold=0.05,threshold-mode=abs": lambda o: L.ReduceLROnPlateau(
        o, mode="max", factor=0.7, patience=4, threshold=0.05, threshold_mode="abs"
    ),
    "plateau:mode=max,factor=0.7,patience=1,threshold=0.01": lambda o: L.ReduceLROnPlateau(
        o, mode="max", factor=0.7, patience=1, threshold=0.01
    ),
    "plateau:factor=0.7,patience=0,threshold=0.01,threshold-mode=abs": lambda o: L.ReduceLROnPlateau(
        o, factor=0.7, patience=0, threshold=0.01, threshold_mode="abs"
    ),
}


def main():
    warnings.simplefilter("ignore")  # SequentialLR calls what it says not to call
    record = {}
    for name, make in CASES.items():
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=BASE, momentum=0.9)
        scheduler = make(optimizer)
        rates = []
        for step in range(STEPS):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step(*([METRICS[step]] if name.startswith("plateau") else []))
        record[name] = rates
        print(f"{name}: {rates[0]:.6f} {rates[60]:.6f} {rates[-1]:.6f}")
    path = pathlib.Path(__file__).parent / "schedules.json"
    path.write_text(json.dumps({"metrics": METRICS, "rates": record}, indent=None).replace("], ", "],\n") + "\n")


if __name__ == "__main__":
    main()
