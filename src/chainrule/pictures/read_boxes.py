"""Pictures with boxes: JSON lines of a path, and the boxes of what it shows.

{"image": "1.jpg", "boxes": [{"box": [10, 20, 60, 90], "label": "dog"}]}   left, top, right, bottom, in pixels

A path counts from the folder of the file. A picture without anything in it has no boxes: [].
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.errors import TextError
from chainrule.pictures.boxes import BoxLabels, boxes_in_frame, check_boxes
from chainrule.pictures.picture import LabelledPicture, Picture, as_picture, framed
from chainrule.text.records import as_written, json_objects, raise_error, read_field

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtyping import Float32
    from numpy import ndarray

    from chainrule.pictures.picture import Frame
    from chainrule.text.records import OnBad

_EXAMPLE = '{"image": "1.jpg", "boxes": [{"box": [10, 20, 60, 90], "label": "dog"}]}'


def read_boxes(
    name: str | os.PathLike[str],
    frame: Frame | None = None,
    on_bad: OnBad = raise_error,
    progress: Progress = silent,
) -> list[LabelledPicture]:
    """Pictures with labelled boxes, from a file of JSON lines.

    frame: the size that they are kept at, and their boxes with them; by default their own. on_bad: called with a
    TextError that names file and line of each that cannot be read, or whose boxes are none of its own, which is left
    out. Raises TextError where there is no box.

    good:  chainrule.read_boxes("scenes.jsonl")
    """
    name = os.fspath(name)
    records, pictures = list(json_objects(name, on_bad)), []
    for i, (place, record) in enumerate(records):
        progress("reading pictures", i, len(records))
        try:
            pictures.append(_read_picture(os.path.dirname(name), place, record, frame))
        except TextError as error:
            on_bad(error if str(error).startswith(place) else TextError(f"{place}: {error}"))
    if not any(len(picture.labels) for picture in pictures):
        raise TextError(f"{name}: there is no picture with a box in it; expected lines such as {_EXAMPLE}")
    return pictures


def boxes_of_record(record: dict[str, Any], place: str, fields: tuple[str, ...] = ("label",)) -> BoxLabels:
    """The boxes in a line of a file, not yet held against the picture. Raises TextError.

    fields: where the label of a box may be, the first of them that is there.
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
    """The boxes where they are after `framed`; those that it cuts off are left out."""
    height, width = picture.pixels.shape[:2]
    boxes, is_inside = boxes_in_frame(labels.boxes, (height, width), frame)
    return BoxLabels(
        boxes[is_inside], [label for label, stays in zip(labels, is_inside.tolist(), strict=True) if stays]
    )


def box_rows(picture: LabelledPicture, frame: Frame, index: Mapping[str, int]) -> Float32[ndarray, "N 5"]:
    """The index of the label of each box, then its left, top, right and bottom in pixels of the frame."""
    labels = boxes_framed(picture.input, cast("BoxLabels", picture.labels), frame)
    return np.column_stack([np.array([index[label] for label in labels], np.float32), labels.boxes])


def _read_picture(folder: str, place: str, record: dict[str, Any], frame: Frame | None) -> LabelledPicture:
    """Raises TextError."""
    path = read_field(record, "picture" if "picture" in record else "image", place)
    if not isinstance(path, str) or not path:
        raise TextError(f"{place}: image is {path!r}; expected the path of a picture")
    labels = boxes_of_record(record, place, ("label", "phrase"))
    picture = as_picture(os.path.join(folder, path))
    height, width = picture.pixels.shape[:2]
    check_boxes(labels, (height, width), place)
    if frame is not None:
        labels = boxes_framed(picture, labels, frame)
        picture = Picture(framed(picture, frame), picture.name)
    return LabelledPicture(picture, labels, place)
