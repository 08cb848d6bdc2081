"""What goes on inside a network that reads pictures: its filters, its maps, and what excites a unit most.

Legend: N pictures, D channels (units) of a layer's maps, h and w their height and width, C colours, k size of a filter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import nn

from chainrule.base.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtyping import Float32, Int64
    from numpy import ndarray
    from torch import Tensor

    from chainrule.neural.labelling.pictures import PictureBody, Pixels

_BATCH = 64  # pictures


class Excitement(NamedTuple):
    """How strongly each unit of a layer answers each picture, and at which row and column most."""

    strengths: Float32[ndarray, "N D"]
    rows: Int64[ndarray, "N D"]
    columns: Int64[ndarray, "N D"]

    def strongest(self, unit: int, most: int) -> list[int]:
        """The pictures that excite a unit most, the first of equal ones first."""
        return np.argsort(-self.strengths[:, unit], kind="stable")[:most].tolist()


def layer_names(body: PictureBody) -> list[str]:
    """The names of the layers, in order."""
    return [name for name, _ in body.layers.named_children()]


def first_filters(body: PictureBody) -> Float32[ndarray, "D C k k"] | None:
    """The weights of the first convolution, or of the map of patches."""
    first = next((module for module in body.layers.modules() if isinstance(module, nn.Conv2d)), None)
    return None if first is None else first.weight.detach().float().cpu().numpy()


@torch.inference_mode()
def maps_of(body: PictureBody, inputs: Sequence[Pixels]) -> dict[str, Float32[ndarray, "N D h w"]]:
    """The maps of each layer."""
    return {name: maps.float().cpu().numpy() for name, maps in _through(body, inputs)}


@torch.inference_mode()
def excitements(body: PictureBody, inputs: Sequence[Pixels], progress: Progress = silent) -> dict[str, Excitement]:
    """By layer, how each unit answers each picture (Zeiler and Fergus 2014, section 2)."""
    parts: dict[str, list[Excitement]] = {}
    for first in range(0, len(inputs), _BATCH):
        progress("looking at pictures", first, len(inputs))
        for name, maps in _through(body, inputs[first : first + _BATCH]):
            values, places = maps.float().flatten(2).max(2)  # (n, D)
            across = maps.shape[3]
            rows, columns = (array.cpu().numpy() for array in (places // across, places % across))
            parts.setdefault(name, []).append(Excitement(values.cpu().numpy(), rows, columns))
    return {
        name: Excitement(*(np.concatenate(arrays) for arrays in zip(*own, strict=True))) for name, own in parts.items()
    }


def _through(body: PictureBody, inputs: Sequence[Pixels]) -> Iterator[tuple[str, Tensor]]:
    x = body.numbers(inputs)
    for name, layer in body.layers.named_children():
        x = layer(x)
        yield name, x
