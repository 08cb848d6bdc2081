"""The body of networks that label pictures: pixels to numbers, layers that give maps, one vector a picture.

Legend: B pictures, U units of all, C channels of pixels, H height and W width of a map, D channels of the last map, L
places in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn

from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtyping import Float, UInt8
    from numpy import ndarray

    from chainrule.features.vision.network.config import PictureLabelling

    Pixels = UInt8[ndarray, "H W C"]

_CELL = 64  # pixels that count as one cell of a picture's size


class MapLayers(Protocol):
    """A torch module from the numbers of pictures to maps, layer by layer.

    width: the channels of the last maps. A picture's maps depend on no other picture, in evaluation.
    """

    width: int

    def __call__(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B width h w"]:
        """Return the last maps."""

    def named_children(self) -> Iterator[tuple[str, nn.Module]]:
        """Return the layers, in order, each applied to what the one before it gives."""


class PictureBody(nn.Module):
    """Layers that give maps, and a pool that makes vectors of the last maps."""

    embedding = None
    _means: Tensor
    _deviations: Tensor

    def __init__(
        self, config: PictureLabelling, layers: MapLayers, pool: nn.Module, width: int, unit: str = "picture"
    ) -> None:
        """Store the layers and the pool.

        pool: from maps, (B, layers.width, h, w), to vectors: one for each picture, (B, width), or one for each pixel.
        """
        super().__init__()
        self.frame, self.flip, self.unit = config.frame, config.flip, unit
        self.shift = tuple(int(config.shift * side) for side in (config.frame.height, config.frame.width))
        self.layers, self.pool, self.width = cast("nn.Module", layers), pool, width
        means, deviations = (np.array(own, np.float32) for own in (config.pixel_means, config.pixel_deviations))
        if self.frame.channels == 1:
            means, deviations = means.mean(keepdims=True), deviations.mean(keepdims=True)
        self.register_buffer("_means", torch.from_numpy(means)[:, None, None], persistent=False)
        self.register_buffer("_deviations", torch.from_numpy(deviations)[:, None, None], persistent=False)

    def forward(self, inputs: Sequence[Pixels]) -> Float[Tensor, "U width"]:
        """Return the vectors of the units of all inputs, as `Body` does.

        In training, pictures are mirrored and moved at random, unless their pixels are labelled.
        """
        return cast("Tensor", self.pool(self.maps(inputs)))

    def maps(self, inputs: Sequence[Pixels]) -> Float[Tensor, "B D h w"]:
        """Return the last maps of pictures."""
        return cast("Tensor", self.layers(self.numbers(inputs)))

    def numbers(self, inputs: Sequence[Pixels]) -> Float[Tensor, "B C H W"]:
        """Return the pixels of pictures as the first layer reads them."""
        pixels = np.stack([self._varied(item) if self.training and self.unit == "picture" else item for item in inputs])
        x = torch.from_numpy(pixels).to(self._means.device).permute(0, 3, 1, 2)
        return x.float().sub(self._means).div_(self._deviations).contiguous(memory_format=torch.channels_last)

    def _varied(self, item: Pixels) -> Pixels:
        """Return a picture mirrored and moved at random, by torch's generator; new pixels at its edges mirror those
        inside.
        """
        if any(self.shift):
            rows, columns = (int(torch.randint(2 * most + 1, ())) for most in self.shift)
            (high, wide), (height, width) = self.shift, item.shape[:2]
            around = np.pad(item, ((high, high), (wide, wide), (0, 0)), "reflect")
            item = around[rows : rows + height, columns : columns + width]
        if self.flip and bool(torch.rand(()) < 0.5):
            item = item[:, ::-1]
        return item

    def check(self, item: Pixels) -> None:
        """Raise SettingError where a picture has another shape than the network reads."""
        expected = (self.frame.height, self.frame.width, self.frame.channels)
        if item.shape != expected or item.dtype != np.uint8:
            raise SettingError(f"a picture has the shape {item.shape} of {item.dtype}; expected bytes of {expected}")

    def size(self, item: Pixels) -> int:
        """Return the number of cells of 8 x 8 pixels, at least 1."""
        return max(1, item.shape[0] * item.shape[1] // _CELL)

    def units(self, item: Pixels) -> int:
        """Return one, the whole picture; or its pixels."""
        return item.shape[0] * item.shape[1] if self.unit == "pixel" else 1


def annotation_vectors(body: PictureBody, inputs: Sequence[Pixels]) -> Float[Tensor, "B L D"]:
    """Return a vector for each place of the last maps, row by row from the top left (Xu et al. 2015, section 3.1.1)."""
    return body.maps(inputs).flatten(2).mT
