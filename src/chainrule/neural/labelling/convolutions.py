"""Networks of convolutions in a row: LeNet (LeCun 1998), AlexNet (Krizhevsky 2012), VGG (Simonyan and Zisserman 2015).

Legend: B pictures, C channels, H height, W width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, cast

import torch
from torch import Tensor, nn

from chainrule.errors import SettingError
from chainrule.neural.dropout import Dropout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float

    from chainrule.neural.config.pictures import Activation, MapNorm, MapPooling

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
        """The maps of `nn.Conv2d`."""
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
        """channels: of the pictures. window: of pooling, which moves by 2."""
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
    """From the last maps, laid out in a row, to a vector, by hidden layers of these widths; at least one.

    channels, size: of the pictures, height and width. Raises SettingError where nothing is left of so small pictures.
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
    """The shape of the last maps of one picture: channels, height, width. Raises SettingError."""
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
    """Weights by He et al. (2015) for ReLU: fan_in keeps the size of outputs, fan_out that of gradients; biases 0."""
    for module in layers.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, mode=mode, nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
