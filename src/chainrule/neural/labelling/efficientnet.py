"""EfficientNet-Lite0 (Tan and Le 2019, without squeeze-and-excitation, with ReLU6), as TensorFlow pads.

Legend: B pictures, C channels, H height, W width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.neural.labelling.convolutions import initialise

if TYPE_CHECKING:
    from jaxtyping import Float


class Stage(NamedTuple):
    """Blocks of one kind: filters they give, how many there are, the stride of the first, kernel, expansion."""

    filters: int
    blocks: int
    stride: int
    kernel: int
    expansion: int


STAGES = (  # Tan and Le 2019, table 1
    Stage(16, 1, 1, 3, 1),
    Stage(24, 2, 2, 3, 6),
    Stage(40, 2, 2, 5, 6),
    Stage(80, 3, 2, 3, 6),
    Stage(112, 3, 1, 5, 6),
    Stage(192, 4, 2, 5, 6),
    Stage(320, 1, 1, 3, 6),
)
STEM = 32  # filters
EPSILON = 1e-3  # of batch normalisation


class SameConvolution(nn.Conv2d):
    """A convolution padded so that its output has ceil(size / stride) places; an odd zero comes at the end."""

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B filters h w"]:
        """As TensorFlow's "same": max((ceil(n / s) - 1) s + k - n, 0) zeros in all."""
        (top, bottom), (left, right) = (self.zeros(size) for size in x.shape[2:])
        return super().forward(F.pad(x, (left, right, top, bottom)))

    def zeros(self, size: int) -> tuple[int, int]:
        """How many come before and after this many rows or columns."""
        kernel, stride = self.kernel_size[0], self.stride[0]
        both = max((-(-size // stride) - 1) * stride + kernel - size, 0)
        return both // 2, both - both // 2


class MobileBlock(nn.Module):
    """1x1 to more channels, a filter for each, 1x1 to fewer, and the sum with the input where shapes agree."""

    def __init__(self, before: int, stage: Stage, stride: int) -> None:
        super().__init__()
        inner = before * stage.expansion
        self.layers = nn.Sequential()
        if stage.expansion > 1:
            self.layers.extend([SameConvolution(before, inner, 1, bias=False), norm(inner), nn.ReLU6()])
        depthwise = SameConvolution(inner, inner, stage.kernel, stride, groups=inner, bias=False)
        self.layers.extend([depthwise, norm(inner), nn.ReLU6()])
        self.layers.extend([SameConvolution(inner, stage.filters, 1, bias=False), norm(stage.filters)])
        self.is_residual = stride == 1 and before == stage.filters

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B filters h w"]:
        """As the class says."""
        y = cast("Tensor", self.layers(x))
        return y + x if self.is_residual else y

    def branches(self) -> list[nn.Sequential]:
        """The ways through the block, whose outputs are summed."""
        return [self.layers, *([nn.Sequential()] if self.is_residual else [])]


class LiteLayers(nn.Sequential):
    """stem, stage1 to stage7: a grid at a 32nd of the size."""

    def __init__(self, channels: int, stages: int = len(STAGES)) -> None:
        """stages: how many; the last ones are left out."""
        super().__init__()
        self.add_module(
            "stem", nn.Sequential(SameConvolution(channels, STEM, 3, 2, bias=False), norm(STEM), nn.ReLU6())
        )
        before = STEM
        for i, stage in enumerate(STAGES[:stages], 1):
            layer = nn.Sequential()
            for block in range(stage.blocks):
                layer.append(MobileBlock(before, stage, 1 if block else stage.stride))
                before = stage.filters
            self.add_module(f"stage{i}", layer)
        self.width = before
        initialise(self, mode="fan_out")


def lite_head(before: int, width: int) -> nn.Sequential:
    """From the last maps, (B, before, h, w), to the vector that labels are read from, (B, width)."""
    head = nn.Sequential(
        SameConvolution(before, width, 1, bias=False), norm(width), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )
    initialise(head, mode="fan_out")
    return head


def norm(channels: int) -> nn.BatchNorm2d:
    """Batch normalisation with this network's constants."""
    return nn.BatchNorm2d(channels, eps=EPSILON)
