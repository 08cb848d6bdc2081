"""Sources that are vectors: positions or regions of a picture.

A region has a vector of: features of the picture's maps within its box; perhaps those of its phrase; and left, top,
right and bottom as shares of the picture.
Legend: M sources, S vectors of a source, F numbers in each vector or place, W of a phrase, N boxes, k cells on each
side of a box, H height and W width in pixels, C colours, D width.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.base.progress import Progress, silent
from chainrule.errors import SettingError
from chainrule.features.vision.network.body import PictureBody, annotation_vectors
from chainrule.features.vision.network.vit import sinusoids_2d

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Float32, Shaped, UInt8
    from numpy import ndarray

    from chainrule.features.seq2seq.network.config import Seq2SeqConfig
    from chainrule.features.vision.network.config import PictureLabelling
    from chainrule.features.vision.pictures.picture import Frame

SIDES = 4  # numbers at the end of a vector that say where its box is
CELLS = 3  # on each side of a box
_SAMPLES = 2  # on each side of a cell, as in He et al. 2017


def pooled_cells(maps: Float[Tensor, "F h w"], boxes: Float[Tensor, "N 4"], cells: int = CELLS) -> Tensor:
    """The mean of the maps over each cell of each box, by bilinear samples: (N, cells, cells, F).

    RoIAlign (He et al. 2017, section 3), with 2 x 2 samples a cell. boxes: as shares of the picture.
    """
    count = cells * _SAMPLES
    steps = (torch.arange(count, device=maps.device, dtype=boxes.dtype) + 0.5) / count
    low, high = boxes[:, :2], boxes[:, 2:]
    points = low[:, None] + (high - low)[:, None] * steps[:, None]  # (N, count, 2), of x and of y
    x, y = points[..., 0][:, None].expand(-1, count, -1), points[..., 1][:, :, None].expand(-1, -1, count)
    at = 2 * torch.stack((x, y), -1).flatten(0, 1) - 1  # (N * count, count, 2), as grid_sample counts
    sampled = F.grid_sample(maps[None], at[None], padding_mode="border", align_corners=False)[
        0
    ]  # (F, N * count, count)
    return F.avg_pool2d(sampled.view(len(sampled), len(boxes), count, count).transpose(0, 1), _SAMPLES).permute(
        0, 2, 3, 1
    )


@torch.inference_mode()
def region_cells(
    body: PictureBody, pictures: Sequence[UInt8[ndarray, "H W C"]], boxes: Sequence[Float32[ndarray, "N 4"]]
) -> list[Float32[ndarray, "N k*k F+4"]]:
    """The vectors of the cells of boxes in pictures, each with where the cell is. boxes: as shares of the picture."""
    results = []
    for own, box in zip(body.eval().maps(pictures).float(), boxes, strict=True):
        pooled = pooled_cells(own, torch.from_numpy(box).to(own.device)).flatten(1, 2).cpu().numpy()
        results.append(np.concatenate([pooled, cells_of(box)], -1))
    return results


def cells_of(boxes: Float32[ndarray, "N 4"], cells: int = CELLS) -> Float32[ndarray, "N k*k 4"]:
    """The boxes of the cells of each box, row by row."""
    low, sides = boxes[:, None, :2], (boxes[:, 2:] - boxes[:, :2])[:, None] / cells
    rows, columns = np.divmod(np.arange(cells * cells), cells)
    first = low + np.stack([columns, rows], -1) * sides
    return np.concatenate([first, first + sides], -1).astype(np.float32)


def as_shares(boxes: Float32[ndarray, "N 4"], frame: Frame) -> Float32[ndarray, "N 4"]:
    """Boxes in pixels of the frame as shares of its width and height."""
    return (boxes / np.array([frame.width, frame.height] * 2)).astype(np.float32)


def region_rows(
    regions: Float32[ndarray, "N F"],
    boxes: Float32[ndarray, "N 4"],
    phrases: Float32[ndarray, "N W"] | None = None,
) -> Float32[ndarray, "N F+W+4"]:
    """A source of regions. boxes: as shares of the picture."""
    return np.hstack([regions, *(() if phrases is None else (phrases,)), boxes]).astype(np.float32)


def boxes_of(source: Float32[ndarray, "S D"]) -> Float32[ndarray, "S 4"]:
    """Where the box of each vector of a source is, as shares of the picture."""
    return source[:, -SIDES:]


def spread_on_picture(
    weights: Float32[ndarray, "T S"], boxes: Float32[ndarray, "S 4"], rows: int, columns: int
) -> Float32[ndarray, "T rows columns"]:
    """Weights of boxes, spread on the places of a picture: each evenly over its box, so that the sum stays the same."""
    edges = [np.arange(count)[None] for count in (rows, columns)]
    covered = [
        np.clip(np.minimum(high[:, None] * count, edge + 1) - np.maximum(low[:, None] * count, edge), 0, None)
        for edge, count, low, high in zip(
            edges, (rows, columns), (boxes[:, 1], boxes[:, 0]), (boxes[:, 3], boxes[:, 2]), strict=True
        )
    ]
    shares = covered[0][:, :, None] * covered[1][:, None]  # (S, rows, columns): the area of each place in the box
    shares /= np.maximum(shares.sum((1, 2), keepdims=True), 1e-9)
    return np.einsum("ts,sij->tij", weights, shares).astype(np.float32)


_BATCH = 64  # pictures that are encoded at once


class VectorInput(nn.Module):
    """Vectors of sources, normalised and projected to the width of the decoder; those of pixels by a picture encoder.

    body: the picture encoder; None where sources are vectors only. is_tuned: whether it is trained with the rest; else
    it stays in evaluation mode, so that its batch normalisation does not change.
    """

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        assert config.source_width is not None
        self.regions = RegionParts(config) if config.reads_regions else None
        width = config.source_width if self.regions is None else self.regions.width
        self.norm = nn.LayerNorm(width) if config.source_norm else nn.Identity()
        self.project = nn.Linear(width, config.width)
        nn.init.xavier_uniform_(self.project.weight)
        nn.init.zeros_(self.project.bias)
        self.places = None
        if config.placed and not config.reads_regions:
            rows, columns = config.source_grid
            places = sinusoids_2d(config.width, rows, columns).flatten(1).mT.contiguous()  # as fused optimisers need it
            self.places = nn.Parameter(places)
        self.body: PictureBody | None = None
        self.is_tuned = False

    def attach(self, body: PictureBody, *, is_tuned: bool) -> None:
        """Makes an encoder of pictures a part of this module.

        In training, pictures are neither mirrored nor moved, since captions may say where something is.
        """
        body.pool, body.flip, body.shift = nn.Identity(), False, (0, 0)
        self.body, self.is_tuned = body, is_tuned
        body.requires_grad_(is_tuned)
        self.train(self.training)

    def train(self, mode: bool = True) -> VectorInput:
        """As `nn.Module.train`; an encoder that is not tuned stays in evaluation mode."""
        super().train(mode)
        if self.body is not None and not self.is_tuned:
            self.body.eval()
        return self

    def forward(self, sources: Float[Tensor, "M S F"] | UInt8[Tensor, "M H W C"]) -> Float[Tensor, "M S D"]:
        """The vectors that the decoder attends to."""
        if sources.dtype == torch.uint8:
            assert self.body is not None
            sources = annotation_vectors(self.body, list(sources.cpu().numpy()))
        if self.regions is not None:
            of_maps, others = self.regions(sources)
            return cast("Tensor", self.project(self.norm(of_maps)) + others)
        x = self.project(self.norm(sources))
        return x if self.places is None else x + self.places


class RegionParts(nn.Module):
    """The parts of regions' vectors that are not features of maps: phrases and places, each projected by itself."""

    def __init__(self, config: Seq2SeqConfig) -> None:
        """width: how many numbers of a region's vector are features of maps."""
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
        """The features of maps unchanged, and the sum of the projections of the other parts, (M, S, D)."""
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
    sources: Sequence[Shaped[ndarray, "*shape"]], config: Seq2SeqConfig, body: PictureBody | None
) -> None:
    """Raises SettingError where a source is neither the vectors nor the pixels that a model reads."""
    expected = (config.max_source, cast("int", config.source_width))
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


def grid_of(body: PictureBody) -> tuple[int, int, int]:
    """The rows and columns of the places for which a picture encoder gives vectors, and the numbers in each."""
    frame = body.frame
    blank = np.zeros((frame.height, frame.width, frame.channels), np.uint8)
    mode = body.training
    with torch.no_grad():
        _, width, rows, columns = body.eval().maps([blank]).shape
    body.train(mode)
    return rows, columns, width


def body_for_size(body: PictureBody, config: PictureLabelling) -> PictureBody:
    """A copy of an encoder for pictures of another size, those of `config`. Raises SettingError."""
    other = copy.deepcopy(body)
    other.frame, other.pool = config.frame, nn.Identity()
    try:
        grid_of(other)
    except RuntimeError as error:
        raise SettingError(
            f"this encoder reads pictures of {body.frame.height} x {body.frame.width} pixels only; leave size out, or "
            "choose a ConvNet"
        ) from error
    return other


@torch.inference_mode()
def vectors_of_pictures(
    body: PictureBody, pictures: Sequence[UInt8[ndarray, "H W C"]], progress: Progress = silent
) -> list[Float32[ndarray, "S F"]]:
    """The vectors of pictures that have the encoder's own size. The encoder must be in evaluation mode."""
    vectors: list[Float32[ndarray, "S F"]] = []
    for first in range(0, len(pictures), _BATCH):
        progress("encoding pictures", first, len(pictures))
        vectors.extend(annotation_vectors(body, pictures[first : first + _BATCH]).float().cpu().numpy())
    return vectors
