"""The vectors of pictures that captioners read: those of positions, or of regions.

A region has a vector of: features of the picture's maps within its box; perhaps those of its phrase; and left, top,
right and bottom as shares of the picture.
Legend: M sources, S vectors of a source, F numbers in each vector or place, W of a phrase, N boxes, k cells on each
side of a box, H height and W width in pixels, C colours, D width.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from chainrule.base.progress import Progress, silent
from chainrule.errors import SettingError
from chainrule.features.seq2seq.network.vector_sources import SIDES
from chainrule.features.vision.network.body import annotation_vectors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Float32, UInt8
    from numpy import ndarray
    from torch import Tensor

    from chainrule.features.vision.network.body import PictureBody
    from chainrule.features.vision.network.config import PictureLabelling
    from chainrule.features.vision.pictures.picture import Frame

CELLS = 3  # on each side of a box
_SAMPLES = 2  # on each side of a cell, as in He et al. 2017


def pooled_cells(maps: Float[Tensor, "F h w"], boxes: Float[Tensor, "N 4"], cells: int = CELLS) -> Tensor:
    """Return the mean of the maps over each cell of each box, by bilinear samples: (N, cells, cells, F).

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
    """Return the vectors of the cells of boxes in pictures, each with where the cell is.

    boxes: as shares of the picture.
    """
    results = []
    for own, box in zip(body.eval().maps(pictures).float(), boxes, strict=True):
        pooled = pooled_cells(own, torch.from_numpy(box).to(own.device)).flatten(1, 2).cpu().numpy()
        results.append(np.concatenate([pooled, cells_of(box)], -1))
    return results


def cells_of(boxes: Float32[ndarray, "N 4"], cells: int = CELLS) -> Float32[ndarray, "N k*k 4"]:
    """Return the boxes of the cells of each box, row by row."""
    low, sides = boxes[:, None, :2], (boxes[:, 2:] - boxes[:, :2])[:, None] / cells
    rows, columns = np.divmod(np.arange(cells * cells), cells)
    first = low + np.stack([columns, rows], -1) * sides
    return np.concatenate([first, first + sides], -1).astype(np.float32)


def as_shares(boxes: Float32[ndarray, "N 4"], frame: Frame) -> Float32[ndarray, "N 4"]:
    """Return boxes in pixels of the frame as shares of its width and height."""
    return (boxes / np.array([frame.width, frame.height] * 2)).astype(np.float32)


def region_rows(
    regions: Float32[ndarray, "N F"],
    boxes: Float32[ndarray, "N 4"],
    phrases: Float32[ndarray, "N W"] | None = None,
) -> Float32[ndarray, "N F+W+4"]:
    """Return a source of regions. boxes: as shares of the picture."""
    return np.hstack([regions, *(() if phrases is None else (phrases,)), boxes]).astype(np.float32)


def boxes_of(source: Float32[ndarray, "S D"]) -> Float32[ndarray, "S 4"]:
    """Return where the box of each vector of a source is, as shares of the picture."""
    return source[:, -SIDES:]


def spread_on_picture(
    weights: Float32[ndarray, "T S"], boxes: Float32[ndarray, "S 4"], rows: int, columns: int
) -> Float32[ndarray, "T rows columns"]:
    """Return weights of boxes, spread on the places of a picture: each evenly over its box, so that the sum stays the
    same.
    """
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


def grid_of(body: PictureBody) -> tuple[int, int, int]:
    """Return the rows and columns of the places for which a picture encoder gives vectors, and the numbers in each."""
    frame = body.frame
    blank = np.zeros((frame.height, frame.width, frame.channels), np.uint8)
    mode = body.training
    with torch.no_grad():
        _, width, rows, columns = body.eval().maps([blank]).shape
    body.train(mode)
    return rows, columns, width


def body_for_size(body: PictureBody, config: PictureLabelling) -> PictureBody:
    """Return a copy of an encoder for pictures of another size, those of `config`. Raises SettingError."""
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
    """Return the vectors of pictures that have the encoder's own size. The encoder must be in evaluation mode."""
    vectors: list[Float32[ndarray, "S F"]] = []
    for first in range(0, len(pictures), _BATCH):
        progress("encoding pictures", first, len(pictures))
        vectors.extend(annotation_vectors(body, pictures[first : first + _BATCH]).float().cpu().numpy())
    return vectors
