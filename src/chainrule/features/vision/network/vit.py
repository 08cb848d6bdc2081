"""The patch Transformer, ViT (Dosovitskiy et al. 2021): patches of a picture are the tokens of our Transformer encoder.

Legend: B pictures, C channels, H height, W width, D width of vectors, h and w patches down and across.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from chainrule.neural.config import MaskedConfig
from chainrule.neural.encoders.transformer import Transformer
from chainrule.neural.layers.positions import sinusoids_2d

if TYPE_CHECKING:
    from jaxtyping import Float


class Patches(nn.Module):
    """A linear map of each patch, and a vector of its place (equation 1), which is learned and begins as sinusoids."""

    def __init__(self, channels: int, patch: int, size: tuple[int, int], width: int, *, placed: bool) -> None:
        """Build the map of patches. size: height and width of the pictures. placed: whether places have vectors."""
        super().__init__()
        self.project = nn.Conv2d(channels, width, patch, patch)
        self.places = nn.Parameter(sinusoids_2d(width, size[0] // patch, size[1] // patch)) if placed else None
        nn.init.trunc_normal_(self.project.weight, std=(channels * patch * patch) ** -0.5)

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D h w"]:
        """Return a vector for each patch."""
        maps = cast("Tensor", self.project(x))
        return maps if self.places is None else maps + self.places


class PatchTransformer(nn.Module):
    """Each patch attends to all patches."""

    def __init__(self, width: int, layers: int, heads: int, dropout: float) -> None:
        super().__init__()
        config = MaskedConfig(width=width, layers=layers, heads=heads, dropout=dropout, positions="none")
        self.blocks = Transformer(config, is_bidirectional=True)

    def forward(self, maps: Float[Tensor, "B D h w"]) -> Float[Tensor, "B D h w"]:
        """Return the hidden vectors of the last layer, arranged as their patches are in the picture."""
        tokens = maps.flatten(2).mT.contiguous()  # (B, h*w, D)
        hidden = cast("Tensor", self.blocks(tokens)[0])
        return hidden.mT.reshape(maps.shape)


class PublishedTransformer(nn.Module):
    """As Dosovitskiy et al. 2021: a learned vector, x_class in equation 1, stands before those of the patches."""

    def __init__(self, width: int, layers: int, heads: int, dropout: float) -> None:
        super().__init__()
        config = MaskedConfig(
            width=width,
            layers=layers,
            heads=heads,
            dropout=dropout,
            positions="none",
            norm="layer",
            norm_place="pre",
            norm_gain=True,
            norm_epsilon=1e-12,
            biases=True,
            query_key_norm=False,
            feed_forward="gelu_exact",
        )
        self.first = nn.Parameter(torch.zeros(width))
        self.blocks = Transformer(config, is_bidirectional=True)

    def forward(self, maps: Float[Tensor, "B D h w"]) -> Float[Tensor, "B D 1 1+h*w"]:
        """Return the hidden vectors of the last layer in a line, that of the learned one first."""
        first = self.first.expand(len(maps), 1, -1)
        hidden = cast("Tensor", self.blocks(torch.cat((first, maps.flatten(2).mT), 1))[0])
        return hidden.mT[:, :, None].contiguous()


class PatchLayers(nn.Sequential):
    """The layers of a ViT: patches, then blocks."""

    def __init__(self, patches: Patches, blocks: PatchTransformer | PublishedTransformer, width: int) -> None:
        super().__init__()
        self.add_module("patches", patches)
        self.add_module("blocks", blocks)
        self.width = width
