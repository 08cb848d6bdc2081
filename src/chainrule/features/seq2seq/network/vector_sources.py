"""Sources that are vectors, or the pixels that an encoder of pictures makes vectors of.

Vectors are projected to the width of the network or, if they follow each other in time, convolved.
A region of a picture has a vector of: features of the picture's maps within its box; perhaps those of its phrase; and
left, top, right and bottom as shares of the picture.
Legend: M sources, S vectors of a source, F numbers in each vector or place, H height and W width in pixels, C colours,
D width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.errors import SettingError
from chainrule.neural.layers.positions import sinusoids_2d

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Shaped, UInt8
    from numpy import ndarray

    from chainrule.features.seq2seq.network.config import Seq2SeqConfig

    Pixels = UInt8[ndarray, "H W C"]

SIDES = 4  # numbers at the end of a vector that say where its box is


class PictureEncoder(Protocol):
    """A torch module that gives maps of pictures; their places are the vectors of a source.

    pool: what makes one vector of the maps. flip, shift: how pictures are varied in training.
    """

    pool: nn.Module
    flip: bool
    shift: tuple[int, ...]

    def maps(self, inputs: Sequence[Pixels]) -> Float[Tensor, "M F h w"]:
        """Return the last maps of pictures."""

    def check(self, item: Pixels) -> None:
        """Raise SettingError where a picture has another shape than the encoder reads."""

    def requires_grad_(self, requires_grad: bool) -> Any:
        """Set whether the parameters need gradients, as `nn.Module.requires_grad_` does."""


class VectorInput(nn.Module):
    """Vectors of sources, normalised and projected to the width of the decoder; those of pixels by a picture encoder.

    body: the picture encoder; None where sources are vectors only. is_tuned: whether it is trained with the rest; else
    it stays in evaluation mode, so that its batch normalisation does not change.
    """

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        assert config.source_width is not None
        self.body: Any = None
        self.is_tuned = False
        self.places = None
        self.convolutions = SourceConvolutions(config) if config.convolved_source else None
        if self.convolutions is not None:
            return
        self.regions = RegionParts(config) if config.reads_regions else None
        width = config.source_width if self.regions is None else self.regions.width
        self.norm = nn.LayerNorm(width) if config.source_norm else nn.Identity()
        self.project = nn.Linear(width, config.width)
        nn.init.xavier_uniform_(self.project.weight)
        nn.init.zeros_(self.project.bias)
        if config.placed and not config.reads_regions:
            rows, columns = config.source_grid
            places = sinusoids_2d(config.width, rows, columns).flatten(1).mT.contiguous()  # as fused optimisers need it
            self.places = nn.Parameter(places)

    def attach(self, body: PictureEncoder, *, is_tuned: bool) -> None:
        """Make an encoder of pictures a part of this module.

        In training, pictures are neither mirrored nor moved, since captions may say where something is.
        """
        body.pool, body.flip, body.shift = nn.Identity(), False, (0, 0)
        self.body, self.is_tuned = body, is_tuned
        body.requires_grad_(is_tuned)
        self.train(self.training)

    def train(self, mode: bool = True) -> VectorInput:
        """Set the mode as `nn.Module.train` does; an encoder that is not tuned stays in evaluation mode."""
        super().train(mode)
        if self.body is not None and not self.is_tuned:
            self.body.eval()
        return self

    def forward(self, sources: Float[Tensor, "M S F"] | UInt8[Tensor, "M H W C"]) -> Float[Tensor, "M S D"]:
        """Return the vectors that the decoder attends to, or that its encoder reads."""
        if self.convolutions is not None:
            return cast("Tensor", self.convolutions(sources))
        if sources.dtype == torch.uint8:
            assert self.body is not None
            sources = self.body.maps(list(sources.cpu().numpy())).flatten(2).mT
        if self.regions is not None:
            of_maps, others = self.regions(sources)
            return cast("Tensor", self.project(self.norm(of_maps)) + others)
        x = self.project(self.norm(sources))
        return x if self.places is None else x + self.places


class SourceConvolutions(nn.Module):
    """Two convolutions over time with GELUs, as Whisper reads log-mel frames (Radford et al. 2022, section 2.2)."""

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        assert config.source_width is not None
        self.first = nn.Conv1d(config.source_width, config.width, 3, padding=1)
        self.second = nn.Conv1d(config.width, config.width, 3, stride=2, padding=1)

    def forward(self, sources: Float[Tensor, "M 2*S F"]) -> Float[Tensor, "M S D"]:
        """Return half as many vectors."""
        return F.gelu(self.second(F.gelu(self.first(sources.mT)))).mT


class RegionParts(nn.Module):
    """The parts of regions' vectors that are not features of maps: phrases and places, each projected by itself."""

    def __init__(self, config: Seq2SeqConfig) -> None:
        """Build the projections of phrases and places.

        width: how many numbers of a region's vector are features of maps.
        """
        super().__init__()
        assert config.source_width is not None
        self.width, self.phrase_width = config.source_width - config.phrase_width - SIDES, config.phrase_width
        self.phrases, self.dropout = None, 0.0
        if config.phrase_width:
            self.dropout = config.hidden_maps
            norm = nn.LayerNorm(config.phrase_width)
            self.phrases = nn.Sequential(norm, nn.Linear(config.phrase_width, config.width))
        self.boxes = (
            nn.Sequential(nn.Linear(SIDES, config.width), nn.ReLU(), nn.Linear(config.width, config.width))
            if config.placed
            else None
        )

    def forward(self, sources: Float[Tensor, "M S F"]) -> tuple[Float[Tensor, "M S width"], Tensor]:
        """Return the features of maps unchanged, and the sum of the projections of the other parts, (M, S, D)."""
        of_maps, phrases, boxes = torch.split(sources, [self.width, self.phrase_width, SIDES], -1)
        if self.training and self.dropout:
            of_maps = of_maps * (torch.rand_like(of_maps[..., :1]) >= self.dropout)
        others = sources.new_zeros(())
        if self.phrases is not None:
            others = others + self.phrases(phrases)
        if self.boxes is not None:
            others = others + self.boxes(boxes)
        return of_maps, others


def check_vectors(
    sources: Sequence[Shaped[ndarray, "*shape"]], config: Seq2SeqConfig, body: PictureEncoder | None
) -> None:
    """Raise SettingError where a source is neither the vectors nor the pixels that a model reads."""
    expected = (config.source_rows, cast("int", config.source_width))
    for number, source in enumerate(sources, 1):
        if source.dtype == np.uint8:
            if body is None:
                raise SettingError("this model has no encoder of pictures; give it the vectors of its own encoder")
            body.check(source)
        elif config.reads_regions:
            if source.dtype != np.float32 or source.ndim != 2 or source.shape[1] != expected[1]:
                raise SettingError(
                    f"source {number} is {source.dtype} of the shape {source.shape}; expected float32, a row of "
                    f"{expected[1]} numbers for each region"
                )
            if not 0 < len(source) <= expected[0]:
                raise SettingError(
                    f"source {number} has {len(source):,} vectors of regions; expected 1 to {expected[0]:,}"
                )
        elif source.dtype != np.float32 or source.shape != expected:
            raise SettingError(
                f"source {number} is {source.dtype} of the shape {source.shape}; expected float32 of {expected}, the "
                "vectors of the encoder that the model was trained with"
            )
