"""LeNet (LeCun 1998), AlexNet (Krizhevsky 2012), VGG (Simonyan and Zisserman 2015) and EfficientNet-Lite0.

EfficientNet-Lite0 is that of Tan and Le 2019 without squeeze-and-excitation, with ReLU6; it pads as TensorFlow does.
Legend: B pictures, C channels, H height, W width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.errors import SettingError
from chainrule.neural.layers.basic import Dropout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float

    from chainrule.features.vision.network.config import Activation, MapNorm, MapPooling

ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh}


class Convolution(NamedTuple):
    """Settings of one convolution; pooled: whether its outputs are pooled."""

    channels: int
    kernel: int
    stride: int
    pooled: bool


class Convolution2d(nn.Conv2d):
    """`nn.Conv2d`, where a stride of a 1x1 kernel leaves out places before the product, which gives the same.

    oneDNN writes past its memory in the gradient of such a kernel if it reads fewer channels than a vector register
    holds (uxlfoundation/oneDNN issue 6035), and the process dies.
    """

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B filters h w"]:
        """Return the maps of `nn.Conv2d`."""
        if self.kernel_size != (1, 1) or self.padding != (0, 0):
            return super().forward(x)
        down, right = self.stride
        return nn.functional.conv2d(x[..., ::down, ::right], self.weight, self.bias)


class PlainLayers(nn.Sequential):
    """Convolutions, each with its norm, activation and pooling as one layer: conv1, conv2, ..."""

    def __init__(
        self,
        channels: int,
        convolutions: Sequence[Convolution],
        *,
        padded: bool,
        activation: Activation,
        norm: MapNorm,
        pooling: MapPooling,
        window: int,
    ) -> None:
        """Build the layers. channels: those of the pictures. window: the size of pooling's window, which moves by 2."""
        super().__init__()
        for i, (filters, kernel, stride, pooled) in enumerate(convolutions, 1):
            padding = (kernel - 1) // 2 if padded else 0
            layer = nn.Sequential(Convolution2d(channels, filters, kernel, stride, padding, bias=norm != "batch"))
            if norm == "batch":
                layer.append(nn.BatchNorm2d(filters))
            layer.append(ACTIVATIONS[activation]())
            if norm == "local":  # after the activation, with the constants of Krizhevsky et al. 2012, section 3.3
                layer.append(nn.LocalResponseNorm(5, k=2.0))
            if pooled:
                edge = (window - 1) // 2 if padded else 0
                layer.append(
                    nn.MaxPool2d(window, 2, edge)
                    if pooling == "max"
                    else nn.AvgPool2d(window, 2, edge, count_include_pad=False)
                )
            self.add_module(f"conv{i}", layer)
            channels = filters
        self.width = channels
        initialise(self)


def hidden_layers(
    layers: nn.Module,
    channels: int,
    size: tuple[int, int],
    widths: Sequence[int],
    activation: Activation,
    dropout: float,
) -> nn.Sequential:
    """Return hidden layers of these widths, at least one, from the flattened last maps to a vector.

    channels: those of the pictures. size: height and width of the pictures. Raises SettingError where nothing is left
    of so small pictures.
    """
    before = maps_shape(layers, channels, size).numel()
    pool = nn.Sequential(nn.Flatten())
    for i, width in enumerate(widths):
        pool.append(Dropout(dropout if i else 0.0))
        pool.append(nn.Linear(before, width))
        pool.append(ACTIVATIONS[activation]())
        before = width
    initialise(pool)
    return pool


def maps_shape(layers: nn.Module, channels: int, size: tuple[int, int]) -> torch.Size:
    """Return the shape of the last maps of one picture: channels, height, width. Raises SettingError."""
    training = layers.training
    try:
        with torch.no_grad():
            return cast("Tensor", layers.eval()(torch.zeros(1, channels, *size))).shape[1:]
    except RuntimeError as error:
        raise SettingError(
            f"pictures of {size[1]} x {size[0]} pixels are too small for these layers: nothing is left of them; give a "
            "larger size, or fewer pooled layers"
        ) from error
    finally:
        layers.train(training)


def initialise(layers: nn.Module, mode: Literal["fan_in", "fan_out"] = "fan_in") -> None:
    """Draw weights by He et al. (2015) for ReLU: fan_in keeps the size of outputs, fan_out that of gradients;
    biases 0.
    """
    for module in layers.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, mode=mode, nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)


class Stage(NamedTuple):
    """Blocks of one kind: their filters, how many blocks there are, the stride of the first, kernel, expansion."""

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
        """Pad as TensorFlow's "same" and convolve: max((ceil(n / s) - 1) s + k - n, 0) zeros in all."""
        (top, bottom), (left, right) = (self.zeros(size) for size in x.shape[2:])
        return super().forward(F.pad(x, (left, right, top, bottom)))

    def zeros(self, size: int) -> tuple[int, int]:
        """Return how many zeros come before and after this many rows or columns."""
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
        """Return the maps, as the class says."""
        y = cast("Tensor", self.layers(x))
        return y + x if self.is_residual else y

    def branches(self) -> list[nn.Sequential]:
        """Return the branches of the block, whose outputs are summed."""
        return [self.layers, *([nn.Sequential()] if self.is_residual else [])]


class LiteLayers(nn.Sequential):
    """The layers stem and stage1 to stage7; the last maps have a 32nd of the picture's height and width."""

    def __init__(self, channels: int, stages: int = len(STAGES)) -> None:
        """Build the layers. stages: how many to keep, from the first on."""
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
    """Return the layers from the last maps, (B, before, h, w), to the vector that labels are predicted from, (B,
    width).
    """
    head = nn.Sequential(
        SameConvolution(before, width, 1, bias=False), norm(width), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )
    initialise(head, mode="fan_out")
    return head


def norm(channels: int) -> nn.BatchNorm2d:
    """Return batch normalisation with this network's constants."""
    return nn.BatchNorm2d(channels, eps=EPSILON)
