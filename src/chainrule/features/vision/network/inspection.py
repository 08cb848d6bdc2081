"""Inside a network over pictures: its filters, its feature maps, what excites a unit most, and receptive fields.

The receptive field of a unit is the pixels that it depends on, by the geometry of the layers below it: an interval of
places, rows or columns, is followed from a layer's output to its input; where branches join, it is the union of what
they read.
Legend: N pictures, D channels (units) of a layer's maps, h and w their height and width, C colours, k size of a filter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from chainrule.base.progress import Progress, silent
from chainrule.features.vision.network.convolutions import SameConvolution
from chainrule.features.vision.network.vit import PatchTransformer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtyping import Float32, Int64
    from numpy import ndarray

    from chainrule.features.vision.network.body import PictureBody, Pixels

_BATCH = 64  # pictures


class UnitActivations(NamedTuple):
    """How strongly each unit of a layer responds to each picture, and at which row and column most."""

    strengths: Float32[ndarray, "N D"]
    rows: Int64[ndarray, "N D"]
    columns: Int64[ndarray, "N D"]

    def strongest(self, unit: int, most: int) -> list[int]:
        """Return the pictures that excite a unit most, the first of equal ones first."""
        return np.argsort(-self.strengths[:, unit], kind="stable")[:most].tolist()


def layer_names(body: PictureBody) -> list[str]:
    """Return the names of the layers, in order."""
    return [name for name, _ in body.layers.named_children()]


def first_filters(body: PictureBody) -> Float32[ndarray, "D C k k"] | None:
    """Return the weights of the first convolution, or of the map of patches."""
    first = next((module for module in body.layers.modules() if isinstance(module, nn.Conv2d)), None)
    return None if first is None else first.weight.detach().float().cpu().numpy()


@torch.inference_mode()
def feature_maps(body: PictureBody, inputs: Sequence[Pixels]) -> dict[str, Float32[ndarray, "N D h w"]]:
    """Return the maps of each layer."""
    return {name: maps.float().cpu().numpy() for name, maps in _through(body, inputs)}


@torch.inference_mode()
def excitements(body: PictureBody, inputs: Sequence[Pixels], progress: Progress = silent) -> dict[str, UnitActivations]:
    """Return, for each layer, how strongly each unit responds to each picture (Zeiler and Fergus 2014, section 2)."""
    parts: dict[str, list[UnitActivations]] = {}
    for first in range(0, len(inputs), _BATCH):
        progress("looking at pictures", first, len(inputs))
        for name, maps in _through(body, inputs[first : first + _BATCH]):
            values, places = maps.float().flatten(2).max(2)  # (n, D)
            across = maps.shape[3]
            rows, columns = (array.cpu().numpy() for array in (places // across, places % across))
            parts.setdefault(name, []).append(UnitActivations(values.cpu().numpy(), rows, columns))
    return {
        name: UnitActivations(*(np.concatenate(arrays) for arrays in zip(*own, strict=True)))
        for name, own in parts.items()
    }


def _through(body: PictureBody, inputs: Sequence[Pixels]) -> Iterator[tuple[str, Tensor]]:
    x = body.numbers(inputs)
    for name, layer in body.layers.named_children():
        x = layer(x)
        yield name, x


_WINDOWS = (nn.Conv2d, nn.MaxPool2d, nn.AvgPool2d)


class Box(NamedTuple):
    """Pixels from the top row and left column to the row and column before bottom and right."""

    top: int
    left: int
    bottom: int
    right: int


class Interval(NamedTuple):
    """Places from the first to the last."""

    first: int
    last: int


class ReceptiveFields:
    """The receptive fields of the layers of a network that reads pictures of one size."""

    def __init__(self, layers: Sequence[nn.Module], channels: int, size: tuple[int, int]) -> None:
        """Note the size that each layer reads.

        layers: in order, in evaluation mode. size: height and width of the pictures.
        """
        self.layers, self.size = list(layers), size
        self._sizes: dict[nn.Module, tuple[int, int]] = {}  # what each module reads
        modules = [module for layer in self.layers for module in layer.modules()]
        hooks = [module.register_forward_pre_hook(self._note_size) for module in modules]
        with torch.no_grad():
            x = torch.zeros(1, channels, *size, device=next(self.layers[0].parameters()).device)
            for layer in self.layers:
                x = layer(x)
        for hook in hooks:
            hook.remove()

    def of(self, layer: int, row: int, column: int) -> Box:
        """Return the pixels that a unit reads at this place of a layer's maps, within the picture.

        layer: its index, from 0.
        """
        spans = [Interval(row, row), Interval(column, column)]
        for module in reversed(self.layers[: layer + 1]):
            spans = [self._read_by(module, span, axis) for axis, span in enumerate(spans)]
        (top, bottom), (left, right) = (
            (max(0, span.first), min(side, span.last + 1)) for span, side in zip(spans, self.size, strict=True)
        )
        return Box(top, left, bottom, right)

    def _note_size(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if inputs and isinstance(inputs[0], Tensor) and inputs[0].ndim == 4:
            self._sizes[module] = (inputs[0].shape[2], inputs[0].shape[3])

    def _read_by(self, module: nn.Module, span: Interval, axis: int) -> Interval:
        if isinstance(module, _WINDOWS):
            kernel, stride = _side(module.kernel_size, axis), _side(module.stride, axis)
            if isinstance(module, SameConvolution):
                before = module.zeros(self._sizes[module][axis])[0]
            else:
                before = _side(module.padding, axis)
            return Interval(span.first * stride - before, span.last * stride - before + kernel - 1)
        if isinstance(module, PatchTransformer):
            return Interval(0, self._sizes[module][axis] - 1)
        if hasattr(module, "branches"):
            spans = [self._read_by(branch, span, axis) for branch in cast("Any", module).branches()]
            return Interval(min(own.first for own in spans), max(own.last for own in spans))
        if hasattr(module, "project"):
            return self._read_by(cast("nn.Module", module.project), span, axis)
        if isinstance(module, nn.Sequential):
            for inner in reversed(module):
                span = self._read_by(inner, span, axis)
        return span  # of norms and activations: the same place


def _side(value: Any, axis: int) -> int:
    return int(value[axis] if isinstance(value, tuple) else value)
