"""Pictures whose pixels are labelled: a picture, and a second one of the same size whose values stand for labels.

JSON lines    {"picture": "1.png", "labels": "1-labels.png", "names": ["sky", "sea"]}

The picture of labels is a PNG in grey or with a palette; its values, 0 and up, are positions in names. Paths count from
the folder of the file. Legend: H height, W width, in pixels.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.memory import check_fits
from chainrule.base.progress import Progress, silent
from chainrule.errors import TextError
from chainrule.pictures.decoding import decoded_values
from chainrule.pictures.picture import LabelledPicture, Picture, as_picture, framed
from chainrule.text.reading import FORMATS, text_suffix
from chainrule.text.records import json_objects, raise_error, read_field
from chainrule.text.unit_labels import UnitLabels

if TYPE_CHECKING:
    from chainrule.pictures.picture import Frame
    from chainrule.text.records import OnBad

_MOST_NAMES = 256  # a PNG has 8 bits for each value


def read_pixel_labels(
    name: str | os.PathLike[str],
    frame: Frame | None = None,
    on_bad: OnBad = raise_error,
    progress: Progress = silent,
) -> list[LabelledPicture]:
    """Pictures with a label for each of their pixels, row by row, from a file of JSON lines.

    frame: the size that all must have, and their colours. on_bad: called with a TextError for each picture that cannot
    be read or whose labels do not suit it, which is left out. Raises TextError where there is no picture.

    good:  chainrule.read_pixel_labels("scenes.jsonl")
    """
    name = os.fspath(name)
    if FORMATS.get(text_suffix(name)) != "json":
        raise TextError(f"{name}: is no file of JSON lines (.jsonl), which name pictures and pictures of their labels")
    examples = []
    records = list(json_objects(name, on_bad))
    if frame is not None:
        check_fits(2 * len(records) * frame.height * frame.width * frame.channels, f"keeping {len(records):,} pictures")
    for i, (place, record) in enumerate(records):
        progress("reading pictures", i, len(records))
        try:
            examples.append(_read_example(os.path.dirname(name), place, record, frame))
        except TextError as error:
            on_bad(error if str(error).startswith(place) else TextError(f"{place}: {error}"))
    if not examples:
        raise TextError(f"{name}: there is no picture with labelled pixels in it; at least one is needed")
    return examples


def _read_example(folder: str, place: str, record: dict[str, Any], frame: Frame | None) -> LabelledPicture:
    """Raises TextError."""
    paths = [read_field(record, field, place) for field in ("picture", "labels")]
    names = read_field(record, "names", place)
    if not all(isinstance(path, str) and path for path in paths):
        raise TextError(f"picture and labels are {paths[0]!r} and {paths[1]!r}; expected the paths of two pictures")
    if not isinstance(names, list) or not all(isinstance(own, str) and own.strip() for own in names):
        raise TextError(f"names is {names!r}; expected a list of labels, such as ['sky', 'sea']")
    if not 1 < len(set(names)) == len(names) <= _MOST_NAMES:
        raise TextError(
            f"there are {len(names)} names, {len(set(names))} different; expected 2 to {_MOST_NAMES}, once each"
        )
    picture = as_picture(os.path.join(folder, paths[0]))
    values = decoded_values(os.path.join(folder, paths[1]))
    height, width = picture.pixels.shape[:2]
    if values.shape != (height, width):
        raise TextError(
            f"the picture has {width} x {height} pixels, but its labels {values.shape[1]} x {values.shape[0]}; "
            "expected a label for each pixel"
        )
    if int(values.max()) >= len(names):
        row, column = np.argwhere(values >= len(names))[0].tolist()
        raise TextError(
            f"the label of the pixel in row {row}, column {column} is {values[row, column]}, but there are "
            f"{len(names)} names; expected 0 to {len(names) - 1}"
        )
    if frame is not None:
        check_framed(picture, frame)
        picture = Picture(framed(picture, frame), picture.name)
    return LabelledPicture(picture, UnitLabels(names, values.ravel()), place)


def check_framed(picture: Picture, frame: Frame) -> None:
    """Raises TextError where a picture would be scaled, and its labels not."""
    height, width = picture.pixels.shape[:2]
    if (height, width) != (frame.height, frame.width):
        raise TextError(
            f"{picture.name}: has {width} x {height} pixels, and the network reads {frame.width} x {frame.height}; "
            f"where pixels are labelled, pictures are not scaled: set size to {height} {width}, or scale the files"
        )
