"""Records what PyTorch computes for the ops that `tests/suite/torch_ops` replays: inputs, outputs and gradients.

    python tests/reference/record_ops.py

writes `ops.safetensors` beside this file. PyTorch computes in float64 from inputs that are exact in float32, so a
recorded value is the true one to float32's rounding. The gradient is that of the sum of all float outputs, weighted by
`weight` below. Inputs that are integers or truth values have none.
"""

import json
import math
import pathlib
import struct

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
GENERATOR = torch.Generator().manual_seed(7)
INF, NAN = float("inf"), float("nan")
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 3.0, -3.0, 6.0, 1e-6, -1e-6, 1e-20, 20.0, -20.0, 88.0, -88.0, 100.0, -100.0, INF, -INF, NAN]
rows = {}


def row(name, call, *cases):
    assert name not in rows, name
    rows[name] = (call, cases)


class Values(list):
    """Inputs of which only the outputs are recorded: PyTorch's gradient is an accident of its formula there."""


def rand(*shape, low=-2.0, high=2.0):
    values = torch.rand(shape, generator=GENERATOR) * (high - low) + low
    return values.float().double()


def ints(*shape, low=0, high=5):
    return torch.randint(low, high, shape, generator=GENERATOR, dtype=torch.int32)


def special(*values):
    return torch.tensor(values, dtype=torch.float32).double()


def pairs(values):
    """All pairs of some values."""
    first, second = torch.meshgrid(special(*values), special(*values), indexing="ij")
    return first.reshape(-1), second.reshape(-1)


def weight(count, output):
    """Exact in every float type; the same formula stands in the test."""
    return ((torch.arange(count) * 37 + output * 11) % 13 - 6) / 4


def unary(name, call, low=-3.0, high=3.0, extremes=SPECIAL):
    row(name, call, [rand(3, 5, low=low, high=high)], [special(*extremes)])


def binary(name, call, low=-3.0, high=3.0, extremes=(0.0, -0.0, 1.0, -2.5, 3.0, INF, -INF, NAN), kind=list):
    row(name, call, [rand(3, 5, low=low, high=high), rand(5, low=low, high=high)], kind(pairs(extremes)))


# elementwise
NUMBERS = SPECIAL[:-1]
for name in ("abs", "sign"):
    unary(name, getattr(torch, name), extremes=NUMBERS)  # of NaN they are 0, and NaN here
for name in "exp expm1 log1p sqrt rsqrt reciprocal sin cos tan atan sinh cosh tanh asinh sigmoid floor ceil".split():
    finite = [x for x in SPECIAL if abs(x) != INF] if name in ("sin", "cos", "tan") else SPECIAL
    unary(name, getattr(torch, name), extremes=finite)
for name in "round trunc erf erfc exp2 square relu isinf isfinite isnan isposinf isneginf signbit deg2rad rad2deg".split():
    unary(name, getattr(torch, name))
FAR = special(0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)
row("erfc_far", lambda x, log: torch.erfc(x) / log.exp(), [FAR, -FAR.square().float().double()])
for name in "log log2 log10".split():
    unary(name, getattr(torch, name), low=0.1, high=4.0)
unary("asin", torch.asin, -1, 1)
unary("acos", torch.acos, -1, 1)
unary("acosh", torch.acosh, 1, 9)
unary("atanh", torch.atanh, -1, 1)
unary("logit", torch.logit, 0.01, 0.99, [0.0, 0.5, 1.0, NAN])
unary("frac", torch.frac)
unary("neg", torch.neg)
for name in "relu6 selu silu hardswish hardsigmoid mish softsign logsigmoid tanhshrink softplus hardtanh gelu".split():
    unary(name, getattr(F, name))
unary("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"))
unary("leaky_relu", lambda x: F.leaky_relu(x, 0.25))
unary("elu", lambda x: F.elu(x, 1.5))
unary("celu", lambda x: F.celu(x, 1.5))
unary("softplus_beta", lambda x: F.softplus(x, beta=2))
unary("softplus_threshold", lambda x: F.softplus(x, beta=2, threshold=1.5))
unary("softshrink", lambda x: F.softshrink(x, 0.5))
unary("hardshrink", lambda x: F.hardshrink(x, 0.5))
unary("threshold", lambda x: F.threshold(x, 0.5, 7.0))
unary("clamp", lambda x: torch.clamp(x, -0.5, 1.0))
unary("clamp_min", lambda x: torch.clamp_min(x, 0.5))
unary("clamp_max", lambda x: torch.clamp_max(x, 0.5))
unary("nan_to_num", lambda x: torch.nan_to_num(x, 1.5, 100.0, -50.0))
unary("pow_half", lambda x: x.pow(2.5))
unary("pow_whole", lambda x: x.pow(3))
binary("atan2", torch.atan2)
binary("hypot", torch.hypot)
binary("logaddexp", torch.logaddexp, kind=Values)
binary("logaddexp2", torch.logaddexp2, kind=Values)
binary("xlogy", torch.xlogy, 0.1, 3.0, kind=Values)
binary("copysign", torch.copysign, kind=Values)
binary("maximum", torch.maximum)
binary("minimum", torch.minimum)
binary("fmod", torch.fmod, kind=Values)
binary("remainder", torch.remainder, kind=Values)
binary("floor_divide", lambda a, b: torch.floor_divide(a.detach(), b.detach()))
binary("div_trunc", lambda a, b: torch.div(a, b, rounding_mode="trunc"))
binary("div", torch.div)
binary("mul", torch.mul)
binary("pow", torch.pow, 0.2, 3.0)
binary("isclose", lambda a, b: torch.isclose(a, b, rtol=0.5, atol=0.25))
binary("isclose_nan", lambda a, b: torch.isclose(a, b, equal_nan=True))
row("floor_divide_int", torch.floor_divide, [ints(3, 5, low=-9, high=9), ints(5, low=1, high=5)], [ints(7, low=-9, high=9), ints(7, low=-4, high=0)])
row("remainder_int", torch.remainder, [ints(3, 5, low=-9, high=9), ints(5, low=1, high=5)], [ints(7, low=-9, high=9), ints(7, low=-4, high=0)])
row("bitwise_not", torch.bitwise_not, [ints(7, low=-9, high=9)], [ints(7, high=2).bool()])
row("logical_xor", torch.logical_xor, [ints(9, high=2), ints(9, high=2)])
row("lerp", lambda a, b: torch.lerp(a, b, 0.75), [rand(3, 5), rand(5)])
row("lerp_tensor", torch.lerp, [rand(3, 5), rand(5), rand(3, 1, low=-1)])
row("addcmul", lambda a, b, c: torch.addcmul(a, b, c, value=0.5), [rand(3, 5), rand(5), rand(3, 1)])
row("addcdiv", lambda a, b, c: torch.addcdiv(a, b, c, value=0.5), [rand(3, 5), rand(5), rand(3, 1, low=1)])
row("clamp_tensors", torch.clamp, [rand(3, 5), rand(5, low=-1, high=1), rand(5, low=-1, high=1)], [special(-1, 0, 1, NAN, INF), special(-1, 0, 0, 0, 0), special(1, 0, 1, 0, 0)])
row("prelu", F.prelu, [rand(2, 3, 2), rand(3)], [special(0.0, -1.0, NAN, -INF), special(0.25)])
row("glu", lambda x: F.glu(x, 1), [rand(2, 6, 3)])
row("where", lambda c, a, b: torch.where(c, a, b), [ints(3, 5, high=2).bool(), rand(3, 5), rand(5)])

# reductions
X = [rand(3, 5, 4)]
WITH_ZEROS = special(*[0.0, 2.0, -1.0, 0.0, 3.0, 0.5] * 4).reshape(4, 6)
WITH_NANS = special(*[1.0, NAN, -1.0, INF, 3.0, 0.5, NAN, NAN, -INF, 2.0, 2.0, 0.0]).reshape(2, 6)
TIES = special(*[1.0, 3.0, 3.0, -2.0, -2.0, 3.0, 0.0, -0.0, 0.0, -5.0, -5.0, -5.0]).reshape(2, 6)
row("sum", lambda x: x.sum((0, 2)), X, [WITH_NANS[None]])
row("mean", lambda x: x.mean(1, keepdim=True), X, [WITH_NANS[None]])
row("prod", lambda x: x.prod(1), X, [WITH_ZEROS])
row("amax", lambda x: x.amax(1), X, [TIES])
row("amin", lambda x: x.amin((0, 1)), X, [TIES])
row("max", lambda x: x.max(1), X, [TIES], Values([WITH_NANS]))
row("min", lambda x: x.min(1), X, [TIES], Values([WITH_NANS]))
row("argmax", lambda x: (x.argmax(1), x.argmax(0, keepdim=True), x.argmax()), X, [TIES])
row("argmin", lambda x: (x.argmin(1), x.argmin(0, keepdim=True), x.argmin()), X, [TIES])
row("any_all", lambda x: (x.any(1), x.all(1), x.any(), x.all()), [WITH_ZEROS], [rand(2, 3)])
row("var", lambda x: (x.var(1), x.var((0, 2), correction=0), x.var()), X)
row("std", lambda x: (x.std(1), x.std((0, 2), correction=0, keepdim=True), x.std()), X, [torch.ones(1, 4, 2).double()])
row("logsumexp", lambda x: x.logsumexp(1), X, [special(-INF, 0.0, 1.0, 100.0, 100.0, -INF).reshape(2, 3)])
row("count_nonzero", lambda x: x.count_nonzero(1), [WITH_ZEROS], [ints(3, 4, high=2)])
row("nansum", lambda x: x.nansum(1), X, [WITH_NANS])
row("nanmean", lambda x: x.nanmean(1), X, [special(1.0, NAN, 3.0, NAN, NAN, 5.0).reshape(2, 3)])
ZERO_ROW = [torch.cat([rand(1, 4), torch.zeros(1, 4).double(), special(0.0, 2.0, -2.0, 1.0)[None]])]
for name, p in {"0": 0, "1": 1, "2": 2, "3": 3, "half": 0.5, "inf": INF, "minus_inf": -INF}.items():
    row(f"norm_{name}", lambda x, p=p: torch.linalg.vector_norm(x, p, dim=1), X, ZERO_ROW if p != 0.5 else Values(ZERO_ROW))
row("normalize", lambda x: F.normalize(x, dim=1), X, ZERO_ROW)
LONG = rand(2, 300, 3)
row("cumsum", lambda x: x.cumsum(1), X, [LONG], [ints(3, 20)], [special(1.0, INF, 2.0, -INF, 3.0, NAN, 1.0).reshape(1, 7)])
row("cumprod", lambda x: x.cumprod(1), X, [WITH_ZEROS], [rand(1, 40, low=0.8, high=1.3)], [ints(2, 9, low=1, high=3)])
row("cummax", lambda x: x.cummax(1), X, [TIES], [LONG], Values([WITH_NANS]), [ints(2, 30)])
row("cummin", lambda x: x.cummin(1), X, [TIES], [LONG], Values([WITH_NANS]), [ints(2, 30)])
row("logcumsumexp", lambda x: x.logcumsumexp(1), X, [LONG], Values([special(-INF, -INF, 0.0, 1.0, 100.0, INF, 0.0)[None]]))

# movement
M = [rand(3, 4, 2)]
row("roll", lambda x: (x.roll(1, 0), x.roll((-1, 3), (1, 2))), M)
row("repeat", lambda x: (x.repeat(2, 1, 3, 2), x.tile(2)), M)
row("repeat_interleave", lambda x: x.repeat_interleave(3, 1), M)
row("rot90", lambda x: tuple(x.rot90(k, (1, 2)) for k in range(-1, 4)), M)
row("flip", lambda x: x.flip((0, 2)), M)
row("movedim", lambda x: (x.movedim(0, 2), x.movedim((0, 1), (-1, 0))), M)
row("unflatten", lambda x: x.unflatten(1, (2, -1)), M)
row("unbind", lambda x: x.unbind(1), M)
row("split_sizes", lambda x: x.split((1, 3), 1), M)
row("unfold", lambda x: (x.unfold(1, 3, 1), x.unfold(0, 1, 2)), M)
row("diagonal", lambda x: (x.diagonal(), x.diagonal(1, 1, 0), x.diagonal(-1, 0, 2)), M)
row("diag", lambda x: (x.diag(), x.diag(-1), x[0].diag(2)), [rand(3, 5)])
row("diag_embed", lambda x: (torch.diag_embed(x), torch.diag_embed(x, -2)), [rand(2, 3)])
row("trace", lambda x: x.trace(), [rand(3, 5)])
row("tril", lambda x: (x.tril(), x.triu(1), x.tril(-1), x.triu(-1)), [rand(2, 3, 4)], [special(NAN, INF, -INF, 1.0).reshape(2, 2)])
row("meshgrid", lambda x, y: torch.meshgrid(x, y, indexing="ij"), [rand(3), rand(2)])
row("pad_reflect", lambda x: F.pad(x, (2, 1, 1, 0), mode="reflect"), [rand(2, 3, 4)], [special(NAN, INF, -INF, 1.0).reshape(1, 1, 4)[:, :, :].expand(1, 2, 4)])
row("pad_replicate", lambda x: F.pad(x, (2, 1, 3, 0), mode="replicate"), [rand(2, 2, 3, 4)])
row("pad_circular", lambda x: F.pad(x, (2, 1, 3, 0), mode="circular"), [rand(2, 2, 3, 4)])
row("pad_constant", lambda x: F.pad(x, (2, -1, 1, 0), value=7.0), M)
row("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), [rand(2, 8, 2, 3)])
row("pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), [rand(2, 2, 4, 6)])
row("channel_shuffle", lambda x: F.channel_shuffle(x, 3), [rand(2, 6, 2)])
row("im2col", lambda x: F.unfold(x, (2, 3), dilation=(1, 2), padding=(1, 2), stride=(2, 1)), [rand(2, 3, 5, 4)])
row("col2im", lambda x: F.fold(x, (5, 4), (2, 3), dilation=(1, 2), padding=(1, 2), stride=(2, 1)), [rand(2, 12, 12)])
row("gather", lambda x, i: x.gather(1, i.long()), [rand(3, 5, 2), ints(2, 4, 2)], [rand(3), ints(2, high=3)][:0] or [rand(1, 5), ints(1, 7)])
row("take_along_dim", lambda x, i: x.take_along_dim(i.long(), 1), [rand(3, 5, 2), ints(1, 4, 1)])
row("index_select", lambda x, i: x.index_select(1, i.long()), [rand(3, 5, 2), ints(4)])
row("masked_scatter", lambda x, m, s: x.masked_scatter(m, s), [rand(3, 5), ints(5, high=2).bool(), rand(4, 4)], [rand(4), ints(3, 4, high=2).bool(), rand(12)], [special(NAN, INF, 1.0, -0.0), special(1, 0, 1, 0).bool(), special(-INF, NAN, 7.0)])
row("bincount", lambda n, w: torch.bincount(n, w, 6), Values([ints(9), rand(9)]))
row("masked_fill", lambda x, m: x.masked_fill(m, 7.0), [rand(3, 5), ints(5, high=2).bool()])

# linear algebra
A, B, C = rand(2, 3, 4), rand(2, 4, 5), rand(2, 3, 5)
row("matmul", torch.matmul, [A, B], [rand(4), rand(4)], [rand(3, 4), rand(4)], [rand(4), B], [rand(5, 1, 3, 4), B], [rand(0, 3), rand(3, 2)], [rand(3, 0), rand(0, 2)], [ints(3, 4), ints(4, 2)])
row("bmm", torch.bmm, [A, B])
row("mv", torch.mv, [rand(3, 4), rand(4)])
row("dot", torch.dot, [rand(7), rand(7)])
row("outer", torch.outer, [rand(3), rand(4)])
row("inner", torch.inner, [rand(2, 3), rand(4, 3)])
row("kron", torch.kron, [rand(2, 3), rand(4, 2)], [rand(3), rand(2, 2)])
row("addmm", lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2.0), [rand(5), rand(3, 4), rand(4, 5)])
row("baddbmm", lambda c, a, b: torch.baddbmm(c, a, b, beta=0.5, alpha=2.0), [C, A, B])
row("tensordot", lambda a, b: torch.tensordot(a, b, dims=([2, 0], [1, 0])), [A, B])
for number, (text, shapes) in enumerate({
    "ij,jk->ik": [(3, 4), (4, 5)],
    "ij,jk": [(3, 4), (4, 5)],
    "ba,ca": [(3, 4), (5, 4)],
    "ii->i": [(4, 4)],
    "ii": [(4, 4)],
    "ij->": [(3, 4)],
    "ij->ji": [(3, 4)],
    "...ij,...jk->...ik": [(2, 1, 3, 4), (6, 4, 5)],
    "...i,i->...": [(2, 3, 4), (4,)],
    "bij,bjk,bkl->bil": [(2, 3, 4), (2, 4, 2), (2, 2, 3)],
    "i,j->ij": [(3,), (4,)],
    "ijj,j->i": [(2, 3, 3), (3,)],
    "abc,acd,b->d": [(2, 3, 4), (2, 4, 5), (3,)],
    "i...->...": [(3, 2, 2)],
    "bhid,bhjd->bhij": [(2, 2, 3, 4), (2, 2, 5, 4)],
}.items()):
    row(f"einsum {text}", lambda *x, text=text: torch.einsum(text, *x), [rand(*shape) for shape in shapes])

# windows
W1, W2, W3 = rand(2, 4, 9), rand(2, 4, 7, 6), rand(1, 4, 4, 5, 3)
CONV = dict(stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2)
row("conv1d", lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=3, dilation=2, groups=2), [W1, rand(6, 2, 3), rand(6)], [W1[0], rand(6, 2, 3), rand(6)])
row("conv2d", lambda x, w, b: F.conv2d(x, w, b, **CONV), [W2, rand(6, 2, 3, 2), rand(6)], [W2[0], rand(6, 2, 3, 2), rand(6)])
row("conv3d", lambda x, w, b: F.conv3d(x, w, b, stride=(1, 2, 1), padding=(0, 1, 1)), [W3, rand(3, 4, 2, 3, 2), rand(3)])
row("conv2d_same", lambda x, w: F.conv2d(x, w, padding="same", dilation=(1, 3)), [W2, rand(3, 4, 3, 2)])
row("conv2d_valid", lambda x, w: F.conv2d(x, w, padding="valid"), [W2, rand(3, 4, 3, 2)])
row("conv_transpose1d", lambda x, w, b: F.conv_transpose1d(x, w, b, stride=3, padding=1, output_padding=2, dilation=2, groups=2), [W1[:, :, :4], rand(4, 3, 3), rand(6)])
row("conv_transpose2d", lambda x, w, b: F.conv_transpose2d(x, w, b, stride=(2, 1), padding=(1, 0), output_padding=(1, 0)), [W2[:, :, :3, :4], rand(4, 3, 3, 2), rand(3)])
row("conv_transpose3d", lambda x, w: F.conv_transpose3d(x, w, stride=(1, 2, 1), padding=(0, 1, 1)), [W3[:, :, :2, :3], rand(4, 2, 2, 3, 2)])
ODD = rand(2, 3, 7, 6)
POOL_TIES = ints(1, 2, 5, 5, high=3).double()
row("max_pool1d", lambda x: F.max_pool1d(x, 3, stride=2, padding=1, dilation=2, ceil_mode=True), [W1], [W1[0]])
row("max_pool2d", lambda x: F.max_pool2d(x, (3, 2), stride=(2, 1), padding=1, dilation=(1, 2)), [ODD], [POOL_TIES], Values([torch.where(ODD > 1, NAN, ODD)]))
row("max_pool2d_ceil", lambda x: F.max_pool2d(x, 3, stride=2, padding=1, ceil_mode=True), [ODD], [POOL_TIES], [rand(1, 1, 6, 8)])
row("max_pool3d", lambda x: F.max_pool3d(x, 2, ceil_mode=True), [W3])
row("max_pool1d_indices", lambda x: F.max_pool1d(x, 3, stride=2, padding=1, dilation=2, ceil_mode=True, return_indices=True), [W1], [W1[0]])
NEGATIVE = torch.where(ODD > 0.5, ODD, -INF)
row("max_pool2d_indices", lambda x: F.max_pool2d(x, 3, stride=2, padding=1, ceil_mode=True, return_indices=True), [ODD], [POOL_TIES], [rand(1, 1, 6, 8)], Values([NEGATIVE]))
row("max_pool3d_indices", lambda x: F.max_pool3d(x, 2, ceil_mode=True, return_indices=True), [W3])
row("max_unpool1d", lambda x, i: F.max_unpool1d(x, i.long(), 2, output_size=(9,)), [rand(2, 4, 4), F.max_pool1d(W1, 2, return_indices=True)[1].int()])
row("max_unpool2d", lambda x, i: F.max_unpool2d(x, i.long(), 2, output_size=(7, 6)), [rand(2, 3, 3, 3), F.max_pool2d(ODD, 2, return_indices=True)[1].int()])
row("max_unpool3d", lambda x, i: F.max_unpool3d(x, i.long(), 2, output_size=(4, 5, 3)), [rand(1, 4, 2, 2, 1), F.max_pool3d(W3, 2, return_indices=True)[1].int()])
row("avg_pool1d", lambda x: F.avg_pool1d(x, 4, stride=3, padding=2, ceil_mode=True), [W1])
row("avg_pool2d", lambda x: F.avg_pool2d(x, (3, 2), stride=(2, 1), padding=1), [ODD])
row("avg_pool2d_ceil", lambda x: F.avg_pool2d(x, 3, stride=2, padding=1, ceil_mode=True), [ODD], [rand(1, 1, 6, 8)])
row("avg_pool2d_inside", lambda x: F.avg_pool2d(x, 3, stride=2, padding=1, ceil_mode=True, count_include_pad=False), [ODD], [rand(1, 1, 6, 8)])
row("avg_pool2d_divisor", lambda x: F.avg_pool2d(x, 3, divisor_override=2), [ODD])
row("avg_pool3d", lambda x: F.avg_pool3d(x, (2, 3, 1), padding=(1, 0, 0), count_include_pad=False), [W3])
row("lp_pool1d", lambda x: F.lp_pool1d(x, 2, 3, stride=2), [W1])
row("lp_pool2d", lambda x: F.lp_pool2d(x, 3, (3, 2), stride=2, ceil_mode=True), [rand(2, 3, 7, 5, low=0.5)])
row("lp_pool3d", lambda x: F.lp_pool3d(x, 2, 2), [rand(1, 2, 4, 5, 3, low=0.5)])
row("adaptive_avg_pool1d", lambda x: F.adaptive_avg_pool1d(x, 4), [W1])
row("adaptive_avg_pool2d", lambda x: (F.adaptive_avg_pool2d(x, (3, 4)), F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, (7, 3))), [ODD])
row("adaptive_avg_pool3d", lambda x: F.adaptive_avg_pool3d(x, (3, 2, 2)), [W3])
row("adaptive_max_pool1d", lambda x: F.adaptive_max_pool1d(x, 4), [W1])
row("adaptive_max_pool2d", lambda x: (F.adaptive_max_pool2d(x, (3, 4)), F.adaptive_max_pool2d(x, 1)), [ODD], [POOL_TIES])
row("adaptive_max_pool3d", lambda x: F.adaptive_max_pool3d(x, (3, 2, 2)), [W3])
for mode in ("nearest", "nearest-exact"):
    row(f"interpolate {mode}", lambda x, mode=mode: (F.interpolate(x, (5, 11), mode=mode), F.interpolate(x, (14, 12), mode=mode), F.interpolate(x, scale_factor=1.6, mode=mode)), [ODD])
row("interpolate linear", lambda x: F.interpolate(x, 13, mode="linear"), [W1])
for aligned in (False, True):
    name = " aligned" if aligned else ""
    for mode in ("bilinear", "bicubic"):
        row(f"interpolate {mode}{name}", lambda x, mode=mode, aligned=aligned: tuple(F.interpolate(x, size, mode=mode, align_corners=aligned) for size in ((5, 11), (14, 12), (1, 7))), [ODD])
row("interpolate trilinear", lambda x: F.interpolate(x, scale_factor=1.5, mode="trilinear"), [W3])
row("interpolate trilinear aligned", lambda x: (F.interpolate(x, (3, 7, 4), mode="trilinear", align_corners=True), F.interpolate(x, (2, 3, 1), mode="trilinear")), [W3])
row("interpolate nearest 3d", lambda x: (F.interpolate(x, (3, 7, 4), mode="nearest"), F.interpolate(x, (2, 3, 6), mode="nearest-exact")), [W3])
row("interpolate nearest 1d", lambda x: (F.interpolate(x, 13, mode="nearest"), F.interpolate(x, 5, mode="nearest-exact")), [W1])
row("interpolate area", lambda x: (F.interpolate(x, (5, 11), mode="area"), F.interpolate(x, scale_factor=0.5, mode="area")), [ODD])
# what is not finite stays within the windows that reach it; no window of these sizes ends where rounding decides
SPOTS = torch.where(ODD > 1.9, INF, torch.where(ODD < -1.9, NAN, ODD))
for mode in ("bilinear", "bicubic"):
    row(f"interpolate {mode} antialias", lambda x, mode=mode: (*(F.interpolate(x, size, mode=mode, antialias=True) for size in ((2, 11), (14, 3), (4, 2))), F.interpolate(x, scale_factor=0.4, mode=mode, antialias=True)), [ODD], Values([SPOTS]))
GRID = rand(2, 3, 5, 2, low=-1.7, high=1.7)
EDGES = torch.stack(pairs([-1.0, 1.0, 0.0, -3.0, 0.5]), -1).reshape(1, 5, 5, 2)
for outside in ("zeros", "border", "reflection"):
    for aligned in (False, True):
        for mode in ("bilinear", "nearest"):
            call = lambda x, grid, mode=mode, outside=outside, aligned=aligned: F.grid_sample(x, grid, mode, outside, aligned)
            row(f"grid_sample {mode} {outside} {str(aligned).lower()}", call, [rand(2, 3, 4, 6), GRID], Values([rand(1, 2, 4, 6), EDGES]))
SOLID = rand(2, 2, 3, 1, 4, 3, low=-1.7, high=1.7)[0]
for mode, outside, aligned in (("bilinear", "zeros", False), ("bilinear", "border", True), ("bilinear", "reflection", False), ("nearest", "zeros", True), ("nearest", "reflection", True)):
    call = lambda x, grid, mode=mode, outside=outside, aligned=aligned: F.grid_sample(x, grid, mode, outside, aligned)
    row(f"grid_sample 3d {mode} {outside} {str(aligned).lower()}", call, [rand(2, 3, 2, 4, 5), SOLID])
row("affine_grid 3d", lambda theta: (F.affine_grid(theta, (2, 1, 2, 3, 4), False), F.affine_grid(theta, (2, 1, 1, 3, 2), True)), [rand(2, 3, 4)])
row("affine_grid", lambda theta: (F.affine_grid(theta, (2, 1, 3, 4), False), F.affine_grid(theta, (2, 1, 3, 1), True)), [rand(2, 2, 3)])

# softmax, normalisation, attention
ROWS = special(1.0, 100.0, -100.0, 0.0, -INF, 2.0, 1.0, 1.0, 1.0).reshape(3, 3)
row("softmax", lambda x: x.softmax(1), X, [ROWS])
row("log_softmax", lambda x: x.log_softmax(1), X, [ROWS])
row("softmin", lambda x: F.softmin(x, 1), X)
N = rand(3, 4, 2, 3)
row("layer_norm", lambda x, w, b: F.layer_norm(x, (2, 3), w, b), [N, rand(2, 3), rand(2, 3)])
row("rms_norm", lambda x, w: F.rms_norm(x, (3,), w, 1e-5), [N, rand(3)])
row("group_norm", lambda x, w, b: F.group_norm(x, 2, w, b), [N, rand(4), rand(4)])
row("instance_norm", lambda x, w, b: F.instance_norm(x, weight=w, bias=b), [N, rand(4), rand(4)])
row("batch_norm", lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), [N, rand(4), rand(4)])
row("local_response_norm", lambda x: F.local_response_norm(x, 3, alpha=0.5, beta=0.6, k=0.7), [N], [rand(2, 5, 4)])
row("cosine_similarity", lambda x, y: F.cosine_similarity(x, y, 1), [rand(3, 5, 2), rand(3, 5, 1)], [torch.zeros(1, 3).double(), rand(1, 3)])
row("pairwise_distance", lambda x, y: F.pairwise_distance(x, y, 3.0), [rand(3, 5), rand(3, 5)])
row("batch_norm_eval", lambda x, m, v, w, b: F.batch_norm(x, m.detach(), v.detach(), w, b), [N, rand(4), rand(4, low=0.5), rand(4), rand(4)])
Q, K, V = rand(2, 4, 3, 4), rand(2, 4, 3, 4), rand(2, 4, 3, 5)
row("attention", F.scaled_dot_product_attention, [Q, K, V], [Q[0, 0], K[0, 0], V[0, 0]])
row("attention_causal", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), [Q, K, V])
row("attention_bias", F.scaled_dot_product_attention, [Q, K, V, rand(3, 3)])
row("attention_mask", F.scaled_dot_product_attention, [Q, K, V, special(1, 0, 1, 1, 1, 0, 0, 1, 0).bool().reshape(3, 3)])
row("attention_grouped", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.3, enable_gqa=True), [Q, K[:, :2], V[:, :2]])
row("linear", F.linear, [rand(2, 3, 4), rand(5, 4), rand(5)])
row("slice_scatter", lambda x, y: torch.slice_scatter(x, y, 1, 1, 4), [rand(3, 5, 2), rand(3, 3, 2)], [special(NAN, INF, 1.0, -0.0, 2.0)[None], rand(1, 3)])
row("slice_step_scatter", lambda x, y: torch.slice_scatter(x, y, 0, 1, 7, 3), [rand(8, 2), rand(2, 2)], [rand(7), rand(2)])
row("select_scatter", lambda x, y: torch.select_scatter(x, y, -2, 2), [rand(3, 4, 2), rand(3, 2)], [rand(3, 1), rand(1)])
row("diagonal_scatter", lambda x, y: torch.diagonal_scatter(x, y, 1, 0, -1), [rand(3, 2, 5), rand(2, 3)], [rand(4, 2, 2), rand(2, 1)])
row("diagonal_scatter_below", lambda x, y: torch.diagonal_scatter(x, y, -1, 1, 0), [rand(3, 5), rand(3)], [rand(4, 2, 3), rand(3, 1)])
row("index_fill", lambda x, i: x.index_fill(1, i.long(), 0.5), [rand(3, 5, 2), ints(4, high=5)], [rand(2, 3), ints(0)])

# decompositions and solvers; what has arbitrary signs is recorded without them
L = torch.linalg


def regular(x):
    return x * 0.3 + 2 * torch.eye(x.shape[-1])


def definite(x):
    return x @ x.mT * 0.3 + torch.eye(x.shape[-1])


def symmetric(x):
    return x + x.mT


def absolute(results):
    return [result.abs() for result in results]


SQUARES = [rand(5, 5)], [rand(2, 1, 3, 3)]
SYSTEMS = [rand(5, 5), rand(5, 2)], [rand(4, 4), rand(4)], [rand(2, 1, 3, 3), rand(4, 3, 2)]
row("linalg.cholesky", lambda x: L.cholesky(definite(x)), *SQUARES)
row("cholesky_solve", lambda x, b: torch.cholesky_solve(b, L.cholesky(definite(x))), SYSTEMS[0], [rand(2, 3, 3), rand(2, 3, 2)])
row("linalg.solve_triangular", lambda x, b: L.solve_triangular(regular(x), b, upper=False), SYSTEMS[0], SYSTEMS[2])
row("linalg.solve_triangular_unit", lambda x, b: L.solve_triangular(regular(x), b, upper=True, unitriangular=True), SYSTEMS[0], SYSTEMS[2])
row("linalg.solve", lambda x, b: L.solve(regular(x).flip(-1), b), *SYSTEMS)
for name in "inv det slogdet".split():
    row(f"linalg.{name}", lambda x, name=name: getattr(L, name)(regular(x).flip(-1)), *SQUARES)
row("linalg.matrix_power", lambda x: [L.matrix_power(x, 3), L.matrix_power(regular(x), -2)], *SQUARES)
row("linalg.qr", lambda x: absolute(L.qr(x)), [rand(5, 3)], [rand(2, 4, 2)])
row("linalg.qr_wide", lambda x, y: absolute(L.qr(torch.cat([regular(x), y], -1))), [rand(3, 3), rand(3, 2)])
row("linalg.lstsq", lambda x, b: L.lstsq(x, b, driver="gels").solution, [rand(6, 3), rand(6, 2)], [rand(3, 6), rand(3, 2)])
row("linalg.eigh", lambda x: absolute(L.eigh(symmetric(x))), *SQUARES)
row("linalg.eigvalsh", lambda x: L.eigvalsh(symmetric(x)), *SQUARES)
row("linalg.svd", lambda x: absolute(L.svd(x, full_matrices=False)), [rand(5, 3)], [rand(2, 3, 5)])
row("linalg.svdvals", L.svdvals, [rand(5, 3)], [rand(2, 3, 4)])
row("linalg.pinv", L.pinv, [rand(5, 3)], [rand(2, 3, 5)], [rand(4, 2) @ rand(2, 3)])
row("linalg.cond", L.cond, [rand(5, 3)], [rand(2, 4, 3)])
row("linalg.matrix_rank", L.matrix_rank, [rand(5, 3)], [torch.ones(2, 4, 3)])


# Fourier transforms; complex values are recorded as pairs
def paired(results):
    results = results if isinstance(results, (tuple, list)) else [results]
    return [torch.view_as_real(x.resolve_conj()) if x.is_complex() else x for x in results]


def transform(name, call, *cases):
    """Of complex numbers, whose parts are two inputs."""
    row(name, lambda re, im: paired(call(torch.complex(re, im))), *[[rand(*shape), rand(*shape)] for shape in cases])


def mel_filters(n, bands, rate):
    """The triangles as torchaudio's `melscale_fbanks` defines them."""
    mel = torch.linspace(0, 2595 * math.log10(1 + rate / 1400), bands + 2)
    edges = 700 * (10 ** (mel / 2595) - 1)
    apart = edges[None] - torch.linspace(0, rate / 2, n // 2 + 1)[:, None]
    between = edges.diff()
    return torch.minimum(apart[:, 2:] / between[1:], -apart[:, :-2] / between[:-1]).clamp(min=0)


T = torch.fft
for name in "fft ifft".split():
    transform(f"fft.{name}", lambda z, f=getattr(T, name): [f(z), f(z, 5, 0), f(z, 9, 1)], (3, 8), (4, 7, 2), (2, 37))
transform("fft.irfft", lambda z: [T.irfft(z), T.irfft(z, 7, 0), T.irfft(z, 4, 1)], (4, 5), (3, 4, 2))
transform("fft.fft2", lambda z: [T.fft2(z), T.ifft2(z), T.irfft2(z)], (2, 3, 4))
transform("fft.fftn", lambda z: [T.fftn(z, dim=(0, 2)), T.ifftn(z), T.irfftn(z, s=(2, 7), dim=(0, 2))], (2, 3, 4))
row("fft.rfft", lambda x: paired([T.rfft(x), T.rfft(x, 5, 0), T.rfft(x, 9, 1)]), [rand(3, 8)], [rand(4, 7, 2)], [rand(2, 37)])
row("fft.rfftn", lambda x: paired([T.rfft2(x), T.rfftn(x, dim=(2, 0))]), [rand(2, 3, 4)])
row("fft.fftshift", lambda x: [T.fftshift(x), T.ifftshift(x, 1)], [rand(4, 5)])
row("fft.fftfreq", lambda x: [x * T.fftfreq(5, 0.1), x[0] * T.rfftfreq(9, 2.0)], [rand(2, 5)])
row("stft", lambda x: paired(torch.stft(x, 8, 3, window=torch.hann_window(8), return_complex=True)), [rand(2, 20)], [rand(11)])
row("stft_uncentered", lambda x: paired(torch.stft(x, 9, 2, 6, torch.hamming_window(6, False), False, return_complex=True)), [rand(2, 20)])
transform("istft", lambda z: torch.istft(z, 8, 3, window=torch.hann_window(8), length=17), (2, 5, 7))
for name in "hann hamming blackman bartlett".split():
    row(f"{name}_window", lambda x, f=getattr(torch, f"{name}_window"): [f(8) * x, f(8, periodic=False) * x, f(1)], [rand(8)])
row("mel_filters", lambda x: x @ mel_filters(16, 4, 1000.0), [rand(3, 9)])
row("complex", lambda a, b, c, d: paired([
    torch.complex(a, b) * torch.complex(c, d),
    torch.complex(a, b) / torch.complex(c, d),
    torch.complex(a, b).exp() + torch.complex(c, d).conj() - a,
    torch.complex(a, b).abs(),
    torch.complex(a, b).angle(),
    torch.polar(a.abs(), b),
    torch.complex(a, b) @ torch.complex(c, d).mT,
]), [rand(3, 2, low=0.5), rand(3, 2), rand(3, 2), rand(3, 2, low=0.5)])
row("complex_abs", lambda a, b: torch.complex(a, b).abs(), [special(0.0, 3.0, 0.0, -1e-3), special(0.0, 4.0, -2.0, 0.0)])


def record():
    tensors = {}
    for name, (call, cases) in rows.items():
        for number, inputs in enumerate(cases):
            smooth = not isinstance(inputs, Values)
            inputs = [x.clone().requires_grad_(x.is_floating_point() and smooth) for x in inputs]
            outputs = call(*inputs)
            outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
            total = sum(
                (out.reshape(-1) * weight(out.numel(), k)).sum()
                for k, out in enumerate(outputs)
                if out.is_floating_point() and out.requires_grad
            )
            if torch.is_tensor(total):
                total.backward()
            for k, x in enumerate(inputs):
                tensors[f"{name}/{number}/in{k}"] = x
                if x.grad is not None:
                    tensors[f"{name}/{number}/grad{k}"] = x.grad
            for k, out in enumerate(outputs):
                tensors[f"{name}/{number}/out{k}"] = out
    return tensors


def write(path, tensors):
    """The safetensors format: the header's length, the header, the data."""
    kinds = {torch.float64: ("F32", torch.float32), torch.bool: ("BOOL", torch.bool)}
    header, data = {}, b""
    for name, tensor in tensors.items():
        kind, stored = kinds.get(tensor.dtype, ("I32", torch.int32))
        content = tensor.detach().to(stored).contiguous().numpy().tobytes()
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


if __name__ == "__main__":
    target = pathlib.Path(__file__).with_name("ops.safetensors")
    write(target, record())
    print(f"{len(rows)} ops, {target.stat().st_size} bytes")
