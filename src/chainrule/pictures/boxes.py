"""Boxes in pictures: their overlap, which of several say the same, and where they are in a scaled picture.

A box is left, top, right, bottom in pixels, from the left upper corner of the picture: that of all of a picture is
0, 0, width, height. Legend: N, M boxes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np

from chainrule.errors import TextError

if TYPE_CHECKING:
    from jaxtyping import Bool, Float32, Float64, Int64
    from numpy import ndarray

    from chainrule.pictures.picture import Frame

    Boxes = Float32[ndarray, "N 4"]


class BoxLabels(Sequence[str]):
    """Boxes of a picture and the label of each. Its repr has a digest of the boxes.

    good:  BoxLabels([[0, 0, 20, 10]], ["cat"])
    """

    def __init__(self, boxes: Sequence[Sequence[float]] | Boxes, labels: Sequence[str]) -> None:
        self.boxes, self.labels = np.array(boxes, np.float32).reshape(-1, 4), tuple(labels)
        if len(self.boxes) != len(self.labels):
            raise TextError(f"there are {len(self.boxes)} boxes and {len(self.labels)} labels; expected one each")

    def __len__(self) -> int:
        return len(self.labels)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> BoxLabels: ...
    def __getitem__(self, index: int | slice) -> str | BoxLabels:
        if isinstance(index, slice):
            return BoxLabels(self.boxes[index], self.labels[index])
        return self.labels[index]

    def __repr__(self) -> str:
        return f"BoxLabels({self.labels!r}, {hashlib.sha256(self.boxes.tobytes()).hexdigest()})"


class Detection(NamedTuple):
    """A box that a detector proposes. score: the probability that there is such a thing."""

    box: tuple[float, float, float, float]
    label: str
    score: float


def overlaps(first: Float32[ndarray, "N 4"], second: Float32[ndarray, "M 4"]) -> Float64[ndarray, "N M"]:
    """The area that two boxes share over the area of both together."""
    first, second = first.astype(np.float64), second.astype(np.float64)
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    shared = np.maximum(high - low, 0).prod(2)
    areas = [(boxes[:, 2:] - boxes[:, :2]).prod(1) for boxes in (first, second)]
    union = areas[0][:, None] + areas[1] - shared
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)


def suppress_overlapping(
    boxes: Float32[ndarray, "N 4"], scores: Float32[ndarray, " N"], most: float = 0.5
) -> Int64[ndarray, " kept"]:
    """The boxes that are left, best first, when each goes that overlaps a better one that stays by more than `most`.

    Non-maximum suppression; of equal scores, the first box is the better one.
    """
    order = np.argsort(-scores, kind="stable")
    shares = overlaps(boxes[order], boxes[order])
    kept: list[int] = []
    for i in range(len(order)):
        if not kept or shares[i, kept].max() <= most:
            kept.append(i)
    return order[kept]


def in_reading_order(boxes: Float32[ndarray, "N 4"]) -> Float32[ndarray, "N 4"]:
    """Boxes from left to right by their left edges; from top to bottom where these are the same."""
    return boxes[np.lexsort((boxes[:, 1], boxes[:, 0]))]


def boxes_in_frame(
    boxes: Boxes, size: tuple[int, int], frame: Frame
) -> tuple[Float32[ndarray, "N 4"], Bool[ndarray, " N"]]:
    """Where the boxes of a picture are after `framed`, and which of them are: those whose centre is in the frame.

    size: height and width of the picture. Boxes are cut off at the edges of the frame.
    """
    scale, offset = frame.mapping(*size)
    moved = boxes * scale + offset
    centres, edges = (moved[:, :2] + moved[:, 2:]) / 2, np.array([frame.width, frame.height])
    is_inside = ((centres >= 0) & (centres < edges)).all(1)
    return np.clip(moved, 0, np.tile(edges, 2)).astype(np.float32), is_inside


def boxes_in_picture(boxes: Boxes, size: tuple[int, int], frame: Frame) -> Float32[ndarray, "N 4"]:
    """The inverse of `boxes_in_frame`: where boxes in the frame are in the picture, at whose edges they end."""
    scale, offset = frame.mapping(*size)
    return np.clip((boxes - offset) / scale, 0, [size[1], size[0]] * 2).astype(np.float32)


def check_boxes(labels: object, size: tuple[int, int], place: str) -> BoxLabels:
    """Boxes given from Python or a file, within a picture of this height and width. Raises TextError."""
    if not isinstance(labels, BoxLabels):
        raise TextError(f"{place}: expected BoxLabels, as read_boxes gives them")
    height, width = size
    for (left, top, right, bottom), label in zip(labels.boxes.tolist(), labels, strict=True):
        shown = f"{place}: the box of {label!r} is {left:g}, {top:g}, {right:g}, {bottom:g}"
        if not (left < right and top < bottom):  # no number is in no order, either
            raise TextError(f"{shown}; expected left, top, right, bottom, with left < right and top < bottom")
        if left < 0 or top < 0 or right > width or bottom > height:
            raise TextError(f"{shown}, outside its picture of {width} x {height} pixels")
        if not isinstance(label, str) or not label.strip():
            raise TextError(f"{place}: the label of a box is {label!r}; expected a string that is not empty")
    return labels
