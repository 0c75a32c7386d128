"""Records values and gradients of PyTorch's losses, for `tests/suite/losses.rs`.

    python3 tests/reference/record_losses.py    # writes tests/reference/losses.json

Recorded with torch 2.15.0 on a CPU, in float64, of inputs that are exact in float32. A case has the loss's name, its options, the
inputs (shape, values, and the gradient if it has one) and the value. Gradients are those of the sum of the values times
`cos(number of the element)`. torchvision and MONAI, which have the focal and the Dice loss, are not needed: these are written
here from their definitions.
"""

import itertools
import json
import pathlib

import torch
import torch.nn.functional as F

from record import classes, signed

CASES = []
FAR = [1e4, -1e4, 100.25, -100.25, 20.0, -20.0, 0.0, 0.5, 9999.0, 1e-3]


def floats(name, *shape, low=-2.0, high=2.0, far=False):
    """Values in low..high; with `far` some of them extreme."""
    values = torch.from_numpy(signed(name, shape)).double() * ((high - low) / 2) + (high + low) / 2
    values = values.float().double()
    if far:
        flat = values.flatten()
        flat[: len(FAR)] = torch.tensor(FAR, dtype=torch.float64)[: len(flat)]
    return values


def signs(name, *shape):
    return classes(name, shape, 2).double() * 2 - 1


def short(x):
    """Nine digits: all that float32 has."""
    return [float(f"{value:.9g}") for value in x.flatten().tolist()]


def case(loss, function, inputs, fixed=(), **options):
    """`function(*inputs, **options)`; inputs are float tensors with gradients, integer tensors, and `fixed` has none."""
    leaves = [x.clone().requires_grad_() if x.is_floating_point() else x for x in inputs] + list(fixed)
    value = function(*leaves)
    weights = torch.cos(torch.arange(value.numel(), dtype=torch.float64)).reshape(value.shape)
    (value * weights).sum().backward()
    CASES.append({
        "loss": loss,
        "options": options,
        "inputs": [
            {"shape": list(x.shape), "values": short(x.detach()), "integer": not x.is_floating_point(),
             "gradient": None if x.grad is None else short(x.grad)}
            for x in leaves
        ],
        "value": short(value.detach()),
    })


REDUCTIONS = ("none", "mean", "sum")
# extreme values once
KINDS = (("none", False), ("none", True), ("mean", False), ("sum", False))


def label_losses():
    for shape, (reduction, far) in itertools.product([(5, 7), (3, 4, 3, 2), (6,)], KINDS):
        x = floats("logits", *shape, far=far)
        count = shape[1] if len(shape) > 1 else shape[0]
        rest = shape[:1] + shape[2:] if len(shape) > 1 else ()
        y = classes("labels", rest, count)
        w = floats("weights", count, low=0.2, high=2.0)
        ignored = y.clone()
        if rest:
            ignored.view(-1)[1] = -100
            ignored.view(-1)[2] = -100
        for smoothing in (0.0, 0.15):
            def run(x, y, smoothing=smoothing):
                return F.cross_entropy(x, y, label_smoothing=smoothing, reduction=reduction)

            def weighted(x, y, w, smoothing=smoothing):
                return F.cross_entropy(x, y, weight=w, label_smoothing=smoothing, ignore_index=-100, reduction=reduction)

            case("cross_entropy", run, [x, y], reduction=reduction, smoothing=smoothing)
            if rest:
                case("cross_entropy", weighted, [x, ignored], [w], reduction=reduction, smoothing=smoothing, ignore=-100)
        if far:
            continue
        case("nll_loss", lambda x, y: F.nll_loss(x, y, reduction=reduction), [x, y], reduction=reduction)
        soft = torch.softmax(floats("soft", *shape), 1 if rest else 0).float().double()
        case("cross_entropy_soft", lambda x, t: F.cross_entropy(x, t, reduction=reduction), [x, soft], reduction=reduction,
             smoothing=0.0)
        if rest:
            case("nll_loss", lambda x, y, w: F.nll_loss(x, y, w, ignore_index=-100, reduction=reduction), [x, ignored], [w],
                 reduction=reduction, ignore=-100)
            case("cross_entropy_soft", lambda x, t, w: F.cross_entropy(x, t, w, label_smoothing=0.2, reduction=reduction),
                 [x, soft], [w], reduction=reduction, smoothing=0.2)
        if len(shape) == 2:
            for p, margin in ((1, 1.0), (2, 0.7)):
                case("multi_margin_loss",
                     lambda x, y: F.multi_margin_loss(x, y, p=p, margin=margin, reduction=reduction), [x, y],
                     reduction=reduction, p=p, margin=margin)
                case("multi_margin_loss",
                     lambda x, y, w: F.multi_margin_loss(x, y, p=p, margin=margin, weight=w, reduction=reduction), [x, y], [w],
                     reduction=reduction, p=p, margin=margin)


def focal(x, t, alpha, gamma):
    p = torch.sigmoid(x)
    p_t = p * t + (1 - p) * (1 - t)
    loss = F.binary_cross_entropy_with_logits(x, t, reduction="none") * (1 - p_t) ** gamma
    return (alpha * t + (1 - alpha) * (1 - t)) * loss if alpha >= 0 else loss


def reduced(losses, reduction):
    return {"none": losses, "mean": losses.mean(), "sum": losses.sum()}[reduction]


def dice(p, t, eps):
    axes = tuple(range(2, p.dim()))
    both = (p * t).sum(axes) if axes else p * t
    p, t = (p.sum(axes), t.sum(axes)) if axes else (p, t)
    return 1 - (2 * both + eps) / (p + t + eps)


def pair_losses():
    for reduction, far in KINDS:
        r = dict(reduction=reduction)
        x, t = floats("x", 3, 5, far=far), floats("t", 3, 5)
        case("mse_loss", lambda x, t: F.mse_loss(x, t, **r), [x, t], **r)
        case("l1_loss", lambda x, t: F.l1_loss(x, t, **r), [x, t], **r)
        for size in (1.0, 0.3):
            case("smooth_l1_loss", lambda x, t: F.smooth_l1_loss(x, t, beta=size, **r), [x, t], size=size, **r)
            case("huber_loss", lambda x, t: F.huber_loss(x, t, delta=size, **r), [x, t], size=size, **r)
        case("smooth_l1_loss", lambda x, t: F.smooth_l1_loss(x, t, beta=0.0, **r), [x, t], size=0.0, **r)

        yes = floats("yes", 3, 5, low=0.0, high=1.0)
        hard = classes("hard", (3, 5), 2).double()
        w, pos = floats("w", 3, 5, low=0.1, high=2.0), floats("pos", 5, low=0.5, high=4.0)
        logits = F.binary_cross_entropy_with_logits
        case("bce_logits", lambda x, t: logits(x, t, **r), [x, yes], **r)
        case("bce_logits", lambda x, t, w, p: logits(x, t, w, pos_weight=p, **r), [x, hard], [w, pos], **r)
        # PyTorch's overflows beyond
        case("soft_margin_loss", lambda x, y: F.soft_margin_loss(x, y, **r), [x.clamp(-500, 500)], [signs("s", 3, 5)], **r)
        for alpha, gamma in ((0.25, 2.0), (-1.0, 1.5)):
            x_focal = x if not far else x.clamp(-100, 30)  # where the definition above rounds 1 - p_t to 0 in f64
            case("focal", lambda x, t: reduced(focal(x, t, alpha, gamma), reduction), [x_focal], [hard], alpha=alpha,
                 gamma=gamma, **r)

        p = floats("p", 3, 5, low=0.02, high=0.98)
        if far:
            p.view(-1)[:3] = torch.tensor([0.0, 1.0, 1e-30], dtype=torch.float64)
            p = p.float().double()
            hard = hard.clone()
            hard.view(-1)[:3] = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)
        case("bce", lambda x, t, w: F.binary_cross_entropy(x, t, w, **r), [p], [hard, w], **r)
        if not far:
            case("bce", lambda x, t: F.binary_cross_entropy(x, t, **r), [p, yes], **r)

        logs = torch.log_softmax(x, 1).float().double()
        share = torch.softmax(t, 1).float().double()
        with_zero = share.clone()
        with_zero[0, 0] = 0.0
        case("kl_div", lambda x, t: F.kl_div(x, t, **r), [logs], [with_zero], log_target=False, **r)
        case("kl_div", lambda x, t: F.kl_div(x, t, **r), [logs, share], log_target=False, **r)
        case("kl_div", lambda x, t: F.kl_div(x, t, log_target=True, **r), [logs, share.log().float().double()],
             log_target=True, **r)

        y = signs("y", 3, 5)
        case("hinge_embedding_loss", lambda x, y: F.hinge_embedding_loss(x, y, margin=0.8, **r), [x], [y], margin=0.8, **r)
        case("margin_ranking_loss", lambda x, t, y: F.margin_ranking_loss(x, t, y, margin=0.3, **r), [x, t], [y], margin=0.3,
             **r)
        row = signs("row", 3)
        near = x.clamp(-50, 50)
        case("cosine_embedding_loss", lambda x, t, y: F.cosine_embedding_loss(x, t, y, margin=0.1, **r), [near, t], [row],
             margin=0.1, **r)
        n = floats("n", 3, 5)
        for power, swap in ((2.0, False), (2.0, True), (1.0, False), (3.0, True)):
            case("triplet_margin_loss", lambda x, t, n: F.triplet_margin_loss(x, t, n, margin=0.9, p=power, swap=swap, **r),
                 [near, t, n], margin=0.9, p=power, swap=swap, **r)

        counts = classes("counts", (3, 5), 6).double()
        rate, small = floats("rate", 3, 5, low=0.1, high=4.0), x.clamp(-60, 20)
        for full in (False, True):
            case("poisson_nll_loss", lambda x, t: F.poisson_nll_loss(x, t, full=full, **r), [small], [counts], log_input=True,
                 full=full, **r)
            case("poisson_nll_loss", lambda x, t: F.poisson_nll_loss(x, t, log_input=False, full=full, **r), [rate], [counts],
                 log_input=False, full=full, **r)
            variance = floats("variance", 3, 5, low=0.1, high=3.0)
            if far:
                variance.view(-1)[4] = 0.0
            near_x = x.clamp(-50, 50)
            case("gaussian_nll_loss", lambda x, t, v: F.gaussian_nll_loss(x, t, v, full=full, **r), [near_x, t, variance],
                 full=full, **r)

        masks = torch.sigmoid(floats("masks", 2, 3, 5, 2)).float().double()
        case("dice_loss", lambda p, t: reduced(dice(p, t, 1e-5), reduction), [masks], [classes("m", (2, 3, 5, 2), 2).double()],
             epsilon=1e-5, **r)
        labels = classes("seg", (2, 5, 2), 3)

        def multi(x, y):
            return reduced(dice(torch.softmax(x, 1), F.one_hot(y, 3).permute(0, 3, 1, 2).double(), 1.0), reduction)

        case("dice_loss_classes", multi, [floats("seg_x", 2, 3, 5, 2), labels], epsilon=1.0, **r)


def ctc():
    for reduction, zero_infinity in itertools.product(REDUCTIONS, (False, True)):
        time, batch, count = 9, 4, 5
        x = floats("ctc", time, batch, count, far=zero_infinity).clamp(-60, 60)
        labels = classes("ctc_labels", (batch, 4), count - 1)
        labels = labels + (labels >= 2).long()  # never the blank, which is 2
        labels[1] = 3  # a repetition needs a blank between
        times, lengths = torch.tensor([9, 8, 5, 9 if zero_infinity else 7]), torch.tensor([4, 3, 1, 0])
        if zero_infinity:
            times[2], lengths[2] = 3, 4

        def run(x, y, times, lengths):
            return F.ctc_loss(F.log_softmax(x, 2), y, times, lengths, blank=2, reduction=reduction, zero_infinity=zero_infinity)

        case("ctc_loss", run, [x, labels, times, lengths], reduction=reduction, zero_infinity=zero_infinity, blank=2)


def main():
    torch.set_num_threads(1)
    label_losses()
    pair_losses()
    ctc()
    path = pathlib.Path(__file__).parent / "losses.json"
    path.write_text("[\n" + ",\n".join(json.dumps(case) for case in CASES) + "\n]\n")
    print(len(CASES), "cases of", len({case["loss"] for case in CASES}), "losses,", path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
