"""Pictures to caption, by the names of files, and their captions as results."""

from __future__ import annotations

import sys
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

from chainrule.base.results import Shown
from chainrule.base.tables import printable
from chainrule.errors import SettingError
from chainrule.features.vision.picture_encoder import read_vectors
from chainrule.features.vision.pictures.boxes import read_boxes
from chainrule.features.vision.pictures.captions import CaptionedPicture
from chainrule.features.vision.pictures.labelled import picture_paths
from chainrule.features.vision.pictures.picture import as_picture

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chainrule.base.progress import Progress
    from chainrule.features.vision.model import Caption, CaptionModel, Sentence
    from chainrule.features.vision.pictures.boxes import BoxLabels

_AT_ONCE = 64  # pictures


def pictures_of(
    captioner: CaptionModel, pictures: Sequence[str], progress: Progress
) -> Iterator[list[tuple[str, Any]]]:
    """Yield pictures, or their vectors, with their names, some at a time. Raises TextError, SettingError."""

    def kind_of(name: str) -> str:
        special = "-" if name == "-" else ".npy" if name.endswith(".npy") else ""
        return "boxes" if captioner.needs_boxes and name != "-" else special

    for kind, names in groupby(pictures, kind_of):
        if kind == "-":
            lines = (line.strip() for line in sys.stdin)
            yield from ([(line, as_picture(line))] for line in lines if line)
        elif kind == "boxes":
            for name in names:
                yield from _with_boxes(name, progress)
        elif kind == ".npy":
            for name in names:
                rows, place = read_vectors(name), f"{name}, row" if len(pictures) > 1 else "row"
                for first in range(0, len(rows), _AT_ONCE):
                    yield [(f"{place} {first + i}", row) for i, row in enumerate(rows[first : first + _AT_ONCE])]
        else:
            paths = [path for name in names for path in picture_paths(name)]
            for first in range(0, len(paths), _AT_ONCE):
                progress("captioning", first, len(paths))
                yield [(path, as_picture(path)) for path in paths[first : first + _AT_ONCE]]


def _with_boxes(pictures: str, progress: Progress) -> Iterator[list[tuple[str, Any]]]:
    """Yield pictures of a file whose lines have boxes, some at a time. Raises TextError, SettingError."""
    if not pictures.endswith(".jsonl"):
        raise SettingError(f"{pictures}: this model needs the boxes of each picture; name JSON lines with image, boxes")
    read = read_boxes(pictures, progress=progress)
    for first in range(0, len(read), _AT_ONCE):
        chosen = read[first : first + _AT_ONCE]
        yield [
            (item.input.name, CaptionedPicture(item.input, (), item.place, cast("BoxLabels", item.labels)))
            for item in chosen
        ]


def shown_captions(
    number: int, name: str, captions: list[Caption], nbest: int, sentences: list[Sentence] | None
) -> Shown:
    """Return the captions of a picture.

    number: of the picture, from 0. sentences: those of the first caption, if it is a paragraph.
    """
    record: dict[str, Any] = {"picture": name, "captions": [one.as_json() for one in captions]}
    if sentences is not None:
        record["sentences"] = [one._asdict() for one in sentences]
    rows = [{"picture": name, **one} for one in record["captions"]]
    if nbest > 1:
        lines = [
            f"{number} ||| {printable(one.text)} ||| log_prob= {one.log_prob:.4f} ||| {one.score:.4f}"
            for one in captions
        ]
    else:
        lines = [f"{printable(captions[0].text) if captions else ''}\t{printable(name)}"]
    return Shown("\n".join(lines), record, rows)
