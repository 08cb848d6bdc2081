"""Layers of two-dimensional LSTMs over pictures, and a vector for each pixel.

Legend: B pictures, C channels of pixels, H height and W width of a picture, p height and width of a patch, what a cell
reads, h = H / p and w = W / p, rounded up, D width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.features.vision.network.grid_layers import GridLayer, wire_grids

if TYPE_CHECKING:
    from jaxtyping import Float

    from chainrule.features.vision.network.config import GridLabelling
    from chainrule.features.vision.pictures.picture import Frame


class GridLayers(nn.Module):
    """MapLayers from pixels to the hidden vectors of cells. Patches at the edges are padded with zeros."""

    def __init__(self, config: GridLabelling, *, shows_patches: bool) -> None:
        """Build the layers. shows_patches: whether the patch that a cell reads is appended to its hidden vector."""
        super().__init__()
        self.patch, self.shows_patches = config.patch, shows_patches
        read = config.frame.channels * config.patch**2
        self.width = config.width + read * shows_patches
        share = config.width // (config.directions * (2 if config.cell == "grid" else 1))
        self.layers = nn.ModuleList(
            GridLayer(inputs, share, config.cell, config.directions)
            for inputs in (read, *[config.width] * (config.layers - 1))
        )

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B width h w"]:
        """Return the last maps, as `MapLayers` does."""
        height, width = x.shape[2:]
        filled = F.pad(x, (0, -width % self.patch, 0, -height % self.patch))
        patches = F.pixel_unshuffle(filled, self.patch).permute(0, 2, 3, 1)  # (B, h, w, C p p)
        directions = len(cast("GridLayer", self.layers[0]).of_neighbours)
        wiring = wire_grids([(patches.shape[1], patches.shape[2])] * len(x), directions, x.device)
        hidden = patches.flatten(0, 2)
        for layer in self.layers:
            hidden = layer(hidden, wiring)
        maps = hidden.view(*patches.shape[:3], -1)
        if self.shows_patches:
            maps = torch.cat((maps, patches.to(maps.dtype)), 3)
        return maps.permute(0, 3, 1, 2)


class PixelVectors(nn.Module):
    """relu(W_k m + b_k) of the vector m of the cell that a pixel is in, k being its place in the cell."""

    def __init__(self, inputs: int, patch: int, width: int, frame: Frame) -> None:
        super().__init__()
        self.patch, self.size = patch, (frame.height, frame.width)
        self.of_cell = nn.Conv2d(inputs, width * patch**2, 1)

    def forward(self, maps: Float[Tensor, "B inputs h w"]) -> Float[Tensor, "U width"]:
        """Return the vectors of all pixels, picture by picture and row by row."""
        height, width = self.size
        pixels = F.pixel_shuffle(F.relu(self.of_cell(maps)), self.patch)[:, :, :height, :width]
        return pixels.permute(0, 2, 3, 1).flatten(0, 2)
