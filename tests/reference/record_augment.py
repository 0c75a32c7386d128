"""Records augmented pictures as PyTorch computes them, for `src/data/augment/tests.rs`.

    python3 tests/reference/record_augment.py    # writes tests/reference/augment.json

Recorded with torch 2.15.0 on a CPU, in float64. Changes of place are `grid_sample` and `pad`; changes of colour and blur are
the formulas of torchvision 0.24 (`transforms/v2/functional`), which is not needed: they are written out here. A case has the
augmentation whose parameters it is, the picture (shape, levels), the parameters, the result before it is rounded, and, where
pixels change their places, a mask before and after.
"""

import json
import math
import pathlib

import torch
import torch.nn.functional as F

torch.manual_seed(0)
BRIGHTNESS, CONTRAST, SATURATION, HUE, BLUR, ERASE = 9, 10, 11, 12, 13, 16


def row(map_=None, **values):
    """A row of parameters; what is not named changes nothing."""
    result = [0.0] * 26
    result[:9] = [value for line in (map_ or [[1, 0, 0], [0, 1, 0], [0, 0, 1]]) for value in line]
    for place in (BRIGHTNESS, CONTRAST, SATURATION, 21):
        result[place] = 1.0
    for name, value in values.items():
        place = globals()[name]
        for offset, number in enumerate(value if isinstance(value, tuple) else (value,)):
            result[place + offset] = number
    return torch.tensor(result, dtype=torch.float32).tolist()  # as f32 holds them


def grid(parameters, height, width):
    """For grid_sample with align_corners: where each pixel comes from."""
    map_ = torch.tensor(parameters[:9], dtype=torch.float64).reshape(3, 3)
    y, x = torch.meshgrid(torch.arange(height, dtype=torch.float64), torch.arange(width, dtype=torch.float64), indexing="ij")
    points = torch.stack([x - (width - 1) / 2, y - (height - 1) / 2, torch.ones_like(x)])
    u, v, w = torch.einsum("ij,jhw->ihw", map_, points)
    return torch.stack([u / w / ((width - 1) / 2), v / w / ((height - 1) / 2)], -1)[None]


MODES = {"fill": "zeros", "border": "border", "reflect": "reflection"}


def warp(picture, parameters, edge="fill", fill=0.0):
    where = grid(parameters, *picture.shape[1:])
    moved = F.grid_sample(picture[None] - fill, where, "bilinear", MODES[edge], align_corners=True)
    return moved[0] + fill


def warp_mask(mask, parameters, edge="fill"):
    where = grid(parameters, *mask.shape)
    moved = F.grid_sample(mask[None, None].double() - 255, where, "nearest", MODES[edge], align_corners=True)
    return moved[0, 0] + 255


def blend(first, second, ratio):
    return (ratio * first + (1.0 - ratio) * second).clamp(0, 255)


def grey(picture):
    if picture.shape[0] == 1:
        return picture
    r, g, b = picture
    return (0.2989 * r + 0.587 * g + 0.114 * b)[None]


def hue(picture, factor):
    r, g, b = picture / 255
    maxc, minc = torch.stack([r, g, b]).amax(0), torch.stack([r, g, b]).amin(0)
    eqc = maxc == minc
    cr = maxc - minc
    ones = torch.ones_like(maxc)
    s = cr / torch.where(eqc, ones, maxc)
    divisor = torch.where(eqc, ones, cr)
    rc, gc, bc = (maxc - r) / divisor, (maxc - g) / divisor, (maxc - b) / divisor
    hr = (maxc == r) * (bc - gc)
    hg = ((maxc == g) & (maxc != r)) * (2.0 + rc - bc)
    hb = ((maxc != g) & (maxc != r)) * (4.0 + gc - rc)
    h = torch.fmod((hr + hg + hb) / 6.0 + 1.0, 1.0)
    h = (h + factor) % 1.0
    i = torch.floor(h * 6.0)
    f = h * 6.0 - i
    p = (maxc * (1.0 - s)).clamp(0, 1)
    q = (maxc * (1.0 - s * f)).clamp(0, 1)
    t = (maxc * (1.0 - s * (1.0 - f))).clamp(0, 1)
    i = i.long() % 6
    v = maxc
    tables = [(v, q, p, p, t, v), (t, v, v, q, p, p), (p, p, t, v, v, q)]
    return torch.stack([torch.stack(table).gather(0, i[None])[0] for table in tables]) * 255


def blur(picture, sigma, limit):
    radius = math.ceil(3 * limit)
    x = torch.arange(-radius, radius + 1, dtype=torch.float64)
    kernel = torch.exp(-0.5 * (x / sigma) ** 2)
    kernel = kernel / kernel.sum()
    channels = picture.shape[0]
    kernel2d = (kernel[:, None] * kernel[None]).expand(channels, 1, -1, -1)
    padded = F.pad(picture[None], [radius] * 4, mode="reflect")
    return F.conv2d(padded, kernel2d, groups=channels)[0]


def f32(value):
    return torch.tensor(value, dtype=torch.float32).double().item()


cases = []


def case(name, text, picture, parameters, expected, mask=None, expected_mask=None):
    cases.append(
        {
            "name": name,
            "augment": text,
            "shape": list(picture.shape),
            "picture": picture.int().flatten().tolist(),
            "parameters": parameters,
            "expected": [round(value, 6) for value in expected.double().flatten().tolist()],
            "mask": None if mask is None else mask.flatten().tolist(),
            "expected_mask": None if expected_mask is None else expected_mask.int().flatten().tolist(),
        }
    )


def translation(x, y):
    return [[1, 0, x], [0, 1, y], [0, 0, 1]]


for shape in [(3, 7, 5), (1, 6, 9)]:
    picture = torch.randint(0, 256, shape).double()
    mask = torch.randint(0, 4, shape[1:])
    channels, height, width = shape

    def moved(name, text, map_, expected=None, edge="fill", fill=0.0):
        parameters = row(map_)
        value = warp(picture, parameters, edge, fill) if expected is None else expected
        case(name, text, picture, parameters, value, mask, warp_mask(mask, parameters, edge))

    moved("flip", "flip", [[-1, 0, 0], [0, 1, 0], [0, 0, 1]], picture.flip(2))
    moved("both flips", "flip,vertical-flip", [[-1, 0, 0], [0, -1, 0], [0, 0, 1]], picture.flip(1, 2))
    for x, y in [(0, 0), (2, -1), (-3, 3), (9, 0)]:
        padded = F.pad(picture[None], [9] * 4, value=77)[0]
        shifted = padded[:, 9 + y : 9 + y + height, 9 + x : 9 + x + width]
        moved(f"crop {x} {y}", "crop=9,fill=77", translation(x, y), shifted)
    for edge, mode in [("border", "replicate"), ("reflect", "reflect")]:
        padded = F.pad(picture[None], [4] * 4, mode=mode)[0]
        shifted = padded[:, 4 - 3 : 4 - 3 + height, 4 + 2 : 4 + 2 + width]
        moved(f"crop {edge}", f"crop=4,edge={edge}", translation(2, -3), shifted, edge)
        flipped = F.pad(picture[None], [4] * 4, mode=mode)[0][:, 4 + 1 : 4 + 1 + height, 4 + 3 : 4 + 3 + width].flip(2)
        moved(f"crop {edge}, flip", f"crop=4,flip,edge={edge}", [[-1, 0, 3], [0, 1, 1], [0, 0, 1]], flipped, edge)
    cos, sin = math.cos(0.4), math.sin(0.4)
    rotation = [[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]]
    for edge in MODES:
        moved(f"rotate {edge}", f"rotate,edge={edge}", rotation, None, edge)
    moved("rotate fill", "rotate,fill=100", rotation, None, "fill", 100.0)
    moved("resized crop", "resized-crop", [[0.6, 0, 0.72], [0, 0.43, -1.13], [0, 0, 1]])
    moved("shear", "shear,scale", [[1.13, 0.31, 0.2], [0, 0.87, 0.1], [0, 0, 1]])
    moved("perspective", "perspective", [[1.2, 0.1, 0.3], [-0.05, 1.3, 0.2], [0.03, -0.02, 1]])

    def changed(name, text, expected, **values):
        case(name, text, picture, row(None, **values), expected)

    changed("brighter", "brightness", (picture * f32(1.4)).clamp(0, 255), BRIGHTNESS=1.4)
    changed("darker", "brightness", (picture * f32(0.3)).clamp(0, 255), BRIGHTNESS=0.3)
    for factor in (0.4, 1.7):
        changed(f"contrast {factor}", "contrast", blend(picture, grey(picture).mean(), f32(factor)), CONTRAST=factor)
        saturated = blend(picture, grey(picture), f32(factor)) if channels == 3 else picture
        changed(f"saturation {factor}", "saturation", saturated, SATURATION=factor)
    for factor in (-0.5, -0.13, 0.0, 0.21, 0.37):
        changed(f"hue {factor}", "hue=0.5", hue(picture, f32(factor)) if channels == 3 else picture, HUE=factor)
    for sigma in (0.1, 0.7, 1.2):
        changed(f"blur {sigma}", "blur=1.2", blur(picture, f32(sigma), 1.2), BLUR=sigma)
    erased = picture.clone()
    erased[:, 1:4, 2:5] = 9
    parameters = row(None, ERASE=(1.0, 2.0, 4.0, 5.0))
    hidden = mask.clone()
    hidden[1:4, 2:5] = 255
    case("erase", "erase,fill=9", picture, parameters, erased, mask, hidden)

    parameters = row(rotation, BRIGHTNESS=1.2, CONTRAST=0.7, SATURATION=1.5, HUE=0.1, BLUR=0.6, ERASE=(0.0, 0.0, 2.0, 1.0))
    value = warp(picture, parameters)
    value = (value * f32(1.2)).clamp(0, 255)
    value = blend(value, grey(value).mean(), f32(0.7))
    if channels == 3:
        value = hue(blend(value, grey(value), f32(1.5)), f32(0.1))
    value = blur(value, f32(0.6), 1.0)
    value[:, 0:2, 0:1] = 0
    hidden = warp_mask(mask, parameters)
    hidden[0:2, 0:1] = 255
    case("all", "rotate,color,hue,blur,erase", picture, parameters, value, mask, hidden)

path = pathlib.Path(__file__).with_name("augment.json")
path.write_text(json.dumps(cases, separators=(",", ":")) + "\n")
print(len(cases), "cases")
