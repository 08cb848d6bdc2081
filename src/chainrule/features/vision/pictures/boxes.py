"""Boxes in pictures: their overlap, which of several to keep, where they are in a scaled picture; and files of them.

A box is left, top, right, bottom in pixels, from the left upper corner of the picture: that of all of a picture is
0, 0, width, height. Files are JSON lines, or Parquet, of a path and the boxes of what the picture shows:

{"image": "1.jpg", "boxes": [{"box": [10, 20, 60, 90], "label": "dog"}]}   left, top, right, bottom, in pixels

A path counts from the folder of the file. A picture without anything in it has no boxes: [].
Legend: N, M boxes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast, overload

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.errors import TextError
from chainrule.features.vision.pictures.picture import LabelledPicture, Picture, as_picture, fit_to_frame
from chainrule.text.corpus.records import as_written, raise_error, read_field, read_items

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtyping import Bool, Float32, Float64, Int64
    from numpy import ndarray

    from chainrule.features.vision.pictures.picture import Frame
    from chainrule.text.corpus.records import OnBad, Record

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
    """Return the area that two boxes share over the area of both together."""
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
    """Return the boxes that are kept, best first: those that overlap no better kept box by more than `most`.

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
    """Return boxes from left to right by their left edges; from top to bottom where these are the same."""
    return boxes[np.lexsort((boxes[:, 1], boxes[:, 0]))]


def boxes_in_frame(
    boxes: Boxes, size: tuple[int, int], frame: Frame
) -> tuple[Float32[ndarray, "N 4"], Bool[ndarray, " N"]]:
    """Return the boxes of a picture after `framed`, and which of them remain: those whose centre is in the frame.

    size: height and width of the picture. Boxes are cut off at the edges of the frame.
    """
    scale, offset = frame.mapping(*size)
    moved = boxes * scale + offset
    centres, edges = (moved[:, :2] + moved[:, 2:]) / 2, np.array([frame.width, frame.height])
    is_inside = ((centres >= 0) & (centres < edges)).all(1)
    return np.clip(moved, 0, np.tile(edges, 2)).astype(np.float32), is_inside


def boxes_in_picture(boxes: Boxes, size: tuple[int, int], frame: Frame) -> Float32[ndarray, "N 4"]:
    """Return the inverse of `boxes_in_frame`: boxes in the frame as boxes in the picture, clipped at its edges."""
    scale, offset = frame.mapping(*size)
    return np.clip((boxes - offset) / scale, 0, [size[1], size[0]] * 2).astype(np.float32)


def check_boxes(labels: object, size: tuple[int, int], place: str) -> BoxLabels:
    """Return boxes given from Python or a file, within a picture of this height and width. Raises TextError."""
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


_EXAMPLE = '{"image": "1.jpg", "boxes": [{"box": [10, 20, 60, 90], "label": "dog"}]}'


def read_boxes(
    name: str | os.PathLike[str],
    frame: Frame | None = None,
    on_bad: OnBad = raise_error,
    progress: Progress = silent,
) -> list[LabelledPicture]:
    """Return pictures with labelled boxes, from a file of JSON lines.

    frame: the size to scale pictures and boxes to; by default pictures keep their own. on_bad: a callback that gets a
    TextError with file and line for each picture that cannot be read, or has boxes outside of it, which is left out.
    Raises TextError where there is no box.

    good:  chainrule.read_boxes("scenes.jsonl")
    """
    name = os.fspath(name)
    folder, what, expected = os.path.dirname(name), "picture with a box", f"lines such as {_EXAMPLE}"
    pictures = read_items(
        name,
        lambda record: _read_picture(folder, record, frame),
        what,
        on_bad,
        expected=expected,
        progress=progress,
        task="reading pictures",
    )
    if not any(len(picture.labels) for picture in pictures):
        raise TextError(f"{name}: there is no {what} in it; expected {expected}")
    return pictures


def boxes_of_record(record: Mapping[str, Any], place: str, fields: tuple[str, ...] = ("label",)) -> BoxLabels:
    """Return the boxes in a line of a file, not yet compared with the picture's size. Raises TextError.

    fields: names of fields for the label of a box, of which the first that exists is read.
    """
    given = read_field(record, "boxes", place)
    if not isinstance(given, list) or not all(isinstance(item, dict) for item in given):
        raise TextError(f"{place}: boxes is {given!r}; expected a list of objects, such as in {_EXAMPLE}")
    boxes, labels = [], []
    for item in given:
        box = item.get("box")
        if not isinstance(box, list) or len(box) != 4 or not all(type(side) in (int, float) for side in box):
            raise TextError(f"{place}: box is {box!r}; expected four numbers, left, top, right, bottom in pixels")
        label = next((item[field] for field in fields if field in item), None)
        label = as_written(label)
        label = str(label) if type(label) is int else label
        if not isinstance(label, str) or not label.strip():
            raise TextError(f"{place}: a box has the {fields[0]} {label!r}; expected a string that is not empty")
        boxes.append(box)
        labels.append(" ".join(label.split()))
    return BoxLabels(boxes, labels)


def boxes_framed(picture: Picture, labels: BoxLabels, frame: Frame) -> BoxLabels:
    """Return the boxes after `framed`; those that it cuts off are left out."""
    height, width = picture.pixels.shape[:2]
    boxes, is_inside = boxes_in_frame(labels.boxes, (height, width), frame)
    return BoxLabels(
        boxes[is_inside], [label for label, stays in zip(labels, is_inside.tolist(), strict=True) if stays]
    )


def box_rows(picture: LabelledPicture, frame: Frame, index: Mapping[str, int]) -> Float32[ndarray, "N 5"]:
    """Return the index of the label of each box, then its left, top, right and bottom in pixels of the frame."""
    labels = boxes_framed(picture.input, cast("BoxLabels", picture.labels), frame)
    return np.column_stack([np.array([index[label] for label in labels], np.float32), labels.boxes])


def _read_picture(folder: str, record: Record, frame: Frame | None) -> LabelledPicture:
    """Return the picture in a record, with its boxes. Raises TextError."""
    fields, place = record.fields, record.location
    field = "image" if "image" in fields and "picture" not in fields else "picture"
    path = read_field(fields, field)
    if not isinstance(path, str) or not path:
        raise TextError(f"{field} is {path!r}; expected the path of a picture")
    labels = boxes_of_record(fields, place, ("label", "phrase"))
    picture = as_picture(os.path.join(folder, path))
    height, width = picture.pixels.shape[:2]
    check_boxes(labels, (height, width), place)
    if frame is not None:
        labels = boxes_framed(picture, labels, frame)
        picture = Picture(fit_to_frame(picture, frame), picture.name)
    return LabelledPicture(picture, labels, place)
