"""Residual networks (He et al. 2016) and inception networks (Szegedy et al. 2015): layers with branches that join.

Modules of ResNets have torchvision's names and order, so that weights change sides by name.
Legend: B pictures, C channels, H height, W width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from chainrule.features.vision.network.convolutions import Convolution2d, initialise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float

    from chainrule.features.vision.network.config import Stem

# Filters of the branches of each inception block (Szegedy et al. 2015, table 1), for a stem of 64: 1x1; 1x1 before 3x3,
# 3x3; 1x1 before 5x5, 5x5; 1x1 after pooling.
INCEPTIONS = (
    ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64)),
    (
        (192, 96, 208, 16, 48, 64),
        (160, 112, 224, 24, 64, 64),
        (128, 128, 256, 24, 64, 64),
        (112, 144, 288, 32, 64, 64),
        (256, 160, 320, 32, 128, 128),
    ),
    ((256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)),
)


class Residual(nn.Module):
    """y = ReLU(x + F(x)), where x passes a 1x1 convolution if F changes its shape (He et al. 2016, equation 2).

    basic       F: 3x3, 3x3
    bottleneck  F: 1x1, 3x3, 1x1 with four times as many filters; the 3x3 one strides, as in torchvision (v1.5)
    """

    def __init__(self, before: int, filters: int, stride: int, *, is_bottleneck: bool) -> None:
        super().__init__()
        self.width = 4 * filters if is_bottleneck else filters
        kernels: tuple[tuple[int, int, int, int], ...]  # channels read and given, kernel, stride
        if is_bottleneck:
            kernels = ((before, filters, 1, 1), (filters, filters, 3, stride), (filters, self.width, 1, 1))
        else:
            kernels = ((before, filters, 3, stride), (filters, filters, 3, 1))
        self.count = len(kernels)
        for i, (own, after, kernel, step) in enumerate(kernels, 1):
            self.add_module(f"conv{i}", nn.Conv2d(own, after, kernel, step, kernel // 2, bias=False))
            self.add_module(f"bn{i}", nn.BatchNorm2d(after))
        self.downsample = (
            nn.Sequential(Convolution2d(before, self.width, 1, stride, bias=False), nn.BatchNorm2d(self.width))
            if stride > 1 or before != self.width
            else None
        )

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B width h w"]:
        """Return y."""
        y = x
        for i in range(1, self.count + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            if i < self.count:
                y = torch.relu(y)
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))

    def branches(self) -> list[nn.Sequential]:
        """Return the branches of the block, whose outputs are summed."""
        convolutions = [cast("nn.Module", getattr(self, f"conv{i}")) for i in range(1, self.count + 1)]
        return [nn.Sequential(*convolutions), self.downsample or nn.Sequential()]

    def start_as_identity(self) -> None:
        """Let the last norm begin at 0, so that F does (Goyal et al. 2017, section 5.1)."""
        nn.init.zeros_(getattr(self, f"bn{self.count}").weight)


class ResidualLayers(nn.Sequential):
    """The layers of a ResNet: stem, layer1, ..., each after the first of these at half the size and twice the width."""

    def __init__(
        self,
        channels: int,
        blocks: Sequence[int],
        width: int,
        *,
        stem: Stem,
        is_bottleneck: bool,
        starts_as_identity: bool,
    ) -> None:
        """Build the layers.

        channels: those of the pictures. blocks: how many each layer has. width: the filters of the stem and the first
        layer.
        """
        super().__init__()
        self.add_module("stem", stem_of(stem, channels, width))
        before = width
        for i, count in enumerate(blocks):
            layer = nn.Sequential()
            for j in range(count):
                block = Residual(before, width << i, 2 if i and not j else 1, is_bottleneck=is_bottleneck)
                layer.append(block)
                before = block.width
            self.add_module(f"layer{i + 1}", layer)
        self.width = before
        initialise(self, mode="fan_out")
        if starts_as_identity:
            for module in self.modules():
                if isinstance(module, Residual):
                    module.start_as_identity()


def stem_of(kind: Stem, channels: int, width: int) -> nn.Sequential:
    """Return the layers before the blocks: small, a 3x3 convolution; large, 7x7 and pooling, to a quarter of the
    size.
    """
    kernel, stride = (3, 1) if kind == "small" else (7, 2)
    stem = nn.Sequential(
        nn.Conv2d(channels, width, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(width), nn.ReLU()
    )
    if kind == "large":
        stem.append(nn.MaxPool2d(3, 2, 1))
    return stem


class Inception(nn.Module):
    """Convolutions of 1x1, 3x3 and 5x5, and pooling, side by side (Szegedy et al. 2015, figure 2b)."""

    def __init__(self, before: int, filters: Sequence[int], *, normed: bool) -> None:
        """Build the branches. filters: as in INCEPTIONS."""
        super().__init__()
        one, before_three, three, before_five, five, pooled = filters

        def unit(own: int, after: int, kernel: int) -> nn.Sequential:
            return convolution(own, after, kernel, normed=normed)

        self.one = unit(before, one, 1)
        self.three = nn.Sequential(unit(before, before_three, 1), unit(before_three, three, 3))
        self.five = nn.Sequential(unit(before, before_five, 1), unit(before_five, five, 5))
        self.pooled = nn.Sequential(nn.MaxPool2d(3, 1, 1), unit(before, pooled, 1))
        self.width = one + three + five + pooled

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B width H W"]:
        """Return the maps of all branches."""
        return torch.cat([branch(x) for branch in self.branches()], 1)

    def branches(self) -> list[nn.Sequential]:
        """Return the branches of the block, whose outputs are concatenated."""
        return [self.one, self.three, self.five, self.pooled]


class InceptionLayers(nn.Sequential):
    """GoogLeNet's layers: stem, conv2, and three groups of inception blocks, 3, 4 and 5, with pooling before 4 and 5.

    Without its two further outputs for labels, which helped gradients before batch normalisation did.
    """

    def __init__(self, channels: int, blocks: Sequence[int], width: int, *, stem: Stem, normed: bool) -> None:
        """Build the layers.

        blocks: how many each group has. width: the filters of the stem, to which all others are in the paper's
        proportion.
        """
        super().__init__()
        kernel, stride = (3, 1) if stem == "small" else (7, 2)
        first = convolution(channels, width, kernel, stride, normed=normed)
        second = nn.Sequential(
            convolution(width, width, 1, normed=normed), convolution(width, 3 * width, 3, normed=normed)
        )
        if stem == "large":
            first.append(nn.MaxPool2d(3, 2, 1))
            second.append(nn.MaxPool2d(3, 2, 1))
        self.add_module("stem", first)
        self.add_module("conv2", second)
        before = 3 * width
        for number, (table, count) in enumerate(zip(INCEPTIONS, blocks, strict=True), 3):
            layer = nn.Sequential()
            if number > 3:
                layer.append(nn.MaxPool2d(3, 2, 1))
            for row in table[:count]:
                block = Inception(before, [max(1, filters * width // 64) for filters in row], normed=normed)
                layer.append(block)
                before = block.width
            self.add_module(f"inception{number}", layer)
        self.width = before
        initialise(self)


def convolution(before: int, filters: int, kernel: int, stride: int = 1, *, normed: bool) -> nn.Sequential:
    """Return a convolution that keeps the size but for its stride, perhaps batch normalisation, and ReLU."""
    layer = nn.Sequential(nn.Conv2d(before, filters, kernel, stride, kernel // 2, bias=not normed))
    if normed:
        layer.append(nn.BatchNorm2d(filters))
    layer.append(nn.ReLU())
    return layer
