"""PyTorch twins of `brasa::models`, written from the papers and torchvision's and timm's published definitions, with their
`state_dict` keys. Input: `[batch, 3, height, width]`."""

import torch
import torch.nn.functional as F
from torch import nn


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, inputs, outputs, stride, padded=False):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
        self.downsample, self.pad = shortcut(inputs, outputs, stride, padded)

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.pad:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.pad, self.pad))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        inner = outputs // 4
        self.conv1, self.bn1 = nn.Conv2d(inputs, inner, 1, bias=False), nn.BatchNorm2d(inner)
        self.conv2, self.bn2 = nn.Conv2d(inner, inner, 3, stride, 1, bias=False), nn.BatchNorm2d(inner)
        self.conv3, self.bn3 = nn.Conv2d(inner, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        self.downsample, _ = shortcut(inputs, outputs, stride, False)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


def shortcut(inputs, outputs, stride, padded):
    """(projection or None, channels to pad on each side)"""
    if inputs == outputs and stride == 1:
        return None, 0
    if padded:
        return None, (outputs - inputs) // 2
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)), 0


def stage(block, inputs, outputs, count, stride, **options):
    return nn.Sequential(
        *(block(inputs if i == 0 else outputs, outputs, stride if i == 0 else 1, **options) for i in range(count))
    )


class ResNet(nn.Module):
    def __init__(self, block, counts, width=64, classes=1000):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        inputs = width
        for number, count in enumerate(counts):
            outputs = width * 2**number * block.expansion
            setattr(self, f"layer{number + 1}", stage(block, inputs, outputs, count, 1 if number == 0 else 2))
            inputs = outputs
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        return self.fc(self.layer4(self.layer3(self.layer2(self.layer1(x)))).mean((2, 3)))


class CifarResNet(nn.Module):
    def __init__(self, depth, padded, classes=10):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        count = depth // 6
        self.layer1 = stage(BasicBlock, 16, 16, count, 1, padded=padded)
        self.layer2 = stage(BasicBlock, 16, 32, count, 2, padded=padded)
        self.layer3 = stage(BasicBlock, 32, 64, count, 2, padded=padded)
        self.fc = nn.Linear(64, classes)

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(F.relu(self.bn1(self.conv1(x))))))
        return self.fc(x.mean((2, 3)))


class Vgg(nn.Module):
    def __init__(self, counts, norm, width=64, hidden=4096, classes=1000):
        super().__init__()
        layers, inputs = [], 3
        for number, count in enumerate(counts):
            outputs = width * 2 ** min(number, 3)
            for _ in range(count):
                layers.append(nn.Conv2d(inputs, outputs, 3, 1, 1))
                layers += [nn.BatchNorm2d(outputs)] if norm else []
                layers.append(nn.ReLU())
                inputs = outputs
            layers.append(nn.MaxPool2d(2, 2))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Linear(inputs * 49, hidden), nn.ReLU(), nn.Dropout(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(),
            nn.Linear(hidden, classes),
        )

    def forward(self, x):
        return self.classifier(F.adaptive_avg_pool2d(self.features(x), 7).flatten(1))


def eights(value):
    rounded = max(8, int(value + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * value else rounded


def normed(inputs, outputs, kernel, stride, groups):
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU6())


class InvertedResidual(nn.Module):
    def __init__(self, inputs, outputs, stride, expansion):
        super().__init__()
        inner = inputs * expansion
        layers = [normed(inputs, inner, 1, 1, 1)] if expansion > 1 else []
        layers += [normed(inner, inner, 3, stride, inner), nn.Conv2d(inner, outputs, 1, bias=False), nn.BatchNorm2d(outputs)]
        self.conv = nn.Sequential(*layers)
        self.around = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.conv(x) if self.around else self.conv(x)


class MobileNetV2(nn.Module):
    def __init__(self, width=1.0, classes=1000):
        super().__init__()
        inputs = eights(32 * width)
        layers = [normed(3, inputs, 3, 2, 1)]
        settings = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
        for expansion, outputs, count, stride in settings:
            outputs = eights(outputs * width)
            for index in range(count):
                layers.append(InvertedResidual(inputs, outputs, stride if index == 0 else 1, expansion))
                inputs = outputs
        last = eights(1280 * max(1.0, width))
        self.features = nn.Sequential(*layers, normed(inputs, last, 1, 1, 1))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(last, classes))

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


class LayerNorm2d(nn.LayerNorm):
    def __init__(self, channels):
        super().__init__(channels, eps=1e-6)

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Permute(nn.Module):
    def __init__(self, *axes):
        super().__init__()
        self.axes = axes

    def forward(self, x):
        return x.permute(self.axes)


class ConvNeXtBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.block = nn.Sequential(
            nn.Conv2d(width, width, 7, padding=3, groups=width), Permute(0, 2, 3, 1), nn.LayerNorm(width, eps=1e-6),
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), Permute(0, 3, 1, 2),
        )
        self.layer_scale = nn.Parameter(torch.full((width, 1, 1), 1e-6))

    def forward(self, x):
        return x + self.layer_scale * self.block(x)


class ConvNeXt(nn.Module):
    def __init__(self, counts=(3, 3, 9, 3), widths=(96, 192, 384, 768), classes=1000):
        super().__init__()
        layers = [nn.Sequential(nn.Conv2d(3, widths[0], 4, 4), LayerNorm2d(widths[0]))]
        for number, (count, width) in enumerate(zip(counts, widths)):
            if number > 0:
                layers.append(nn.Sequential(LayerNorm2d(widths[number - 1]), nn.Conv2d(widths[number - 1], width, 2, 2)))
            layers.append(nn.Sequential(*(ConvNeXtBlock(width) for _ in range(count))))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(LayerNorm2d(widths[3]), nn.Flatten(1), nn.Linear(widths[3], classes))

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3), keepdim=True))


class VitAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.qkv, self.proj, self.heads = nn.Linear(width, 3 * width), nn.Linear(width, width), heads

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = self.qkv(x).reshape(batch, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, tokens, width))


class VitBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.attn = VitAttention(width, heads)
        self.mlp = nn.Sequential()
        self.mlp.fc1, self.mlp.act, self.mlp.fc2 = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    def __init__(self, side=224, patch=16, width=192, heads=3, layers=12, classes=1000):
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(torch.zeros(1, (side // patch) ** 2 + 1, width))
        self.patch_embed = nn.Module()
        self.patch_embed.proj = nn.Conv2d(3, width, patch, patch)
        self.blocks = nn.Sequential(*(VitBlock(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, classes)

    def forward(self, x):
        x = self.patch_embed.proj(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], 1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


# The networks of published size, by the names that `brasa` gives them.
FULL = {
    "resnet18": lambda: ResNet(BasicBlock, [2, 2, 2, 2]),
    "resnet34": lambda: ResNet(BasicBlock, [3, 4, 6, 3]),
    "resnet50": lambda: ResNet(Bottleneck, [3, 4, 6, 3]),
    "vgg11": lambda: Vgg([1, 1, 2, 2, 2], False),
    "vgg11-bn": lambda: Vgg([1, 1, 2, 2, 2], True),
    "vgg16": lambda: Vgg([2, 2, 3, 3, 3], False),
    "vgg16-bn": lambda: Vgg([2, 2, 3, 3, 3], True),
    "mobilenet-v2": lambda: MobileNetV2(),
    "convnext-tiny": lambda: ConvNeXt(),
    "vit-tiny": lambda: VisionTransformer(),
    "resnet20": lambda: CifarResNet(20, False),
    "resnet32": lambda: CifarResNet(32, False),
    "resnet56": lambda: CifarResNet(56, False),
    "resnet110": lambda: CifarResNet(110, False),
}

# Small ones of the same making: (network, side of its input).
SMALL = {
    "resnet basic": (lambda: ResNet(BasicBlock, [2, 1, 1, 1], 4, 7), 32),
    "resnet bottleneck": (lambda: ResNet(Bottleneck, [1, 2, 1, 1], 4, 7), 32),
    "resnet cifar padded": (lambda: CifarResNet(14, True, 7), 16),
    "vgg": (lambda: Vgg([1, 1, 2, 1, 1], False, 4, 16, 7), 32),
    "vgg bn": (lambda: Vgg([1, 2, 1, 1, 1], True, 4, 16, 7), 32),
    "mobilenet": (lambda: MobileNetV2(0.25, 7), 32),
    "convnext": (lambda: ConvNeXt([1, 1, 2, 1], [4, 8, 8, 16], 7), 32),
    "vit": (lambda: VisionTransformer(16, 4, 12, 3, 2, 7), 16),
}
