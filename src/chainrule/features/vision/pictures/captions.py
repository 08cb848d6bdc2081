"""Pictures with captions: JSON lines, CSV, TSV or Parquet of a path and one caption or several.

{"image": "1.jpg", "captions": ["a dog runs", "the dog is running"]}   a path counts from the folder of this file

Lines may also have boxes, as those of `boxes.py` have; their labels, or phrases, say what is in them.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from chainrule.base.progress import Progress, silent
from chainrule.errors import TextError
from chainrule.features.vision.pictures.boxes import BoxLabels, boxes_framed, boxes_of_record, check_boxes
from chainrule.features.vision.pictures.picture import Picture, as_picture, fit_to_frame
from chainrule.text.corpus.reading import suggest_fields
from chainrule.text.corpus.records import raise_error, read_items

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chainrule.features.vision.pictures.picture import Frame
    from chainrule.text.corpus.records import OnBad, Record

_EXAMPLE = '{"image": "1.jpg", "captions": ["a dog runs"]}'
_PATHS, _TEXTS = ("image", "picture"), ("captions", "caption")  # the first of both is the usual one


class CaptionedPicture(NamedTuple):
    """A picture and its captions, one or more. picture: None where vectors stand for it. boxes: with their phrases.

    good:  CaptionedPicture(chainrule.as_picture("dog.jpg"), ("a dog runs", "the dog is running"))
    """

    picture: Picture | None
    captions: tuple[str, ...]
    place: str = "a captioned picture"  # the line of its file, for messages
    boxes: BoxLabels | None = None


def read_captions(
    name: str | os.PathLike[str],
    frame: Frame | None = None,
    on_bad: OnBad = raise_error,
    progress: Progress = silent,
    *,
    with_pictures: bool = True,
    with_boxes: bool = False,
) -> list[CaptionedPicture]:
    """The captioned pictures of a file of records.

    frame: the size to scale pictures to; by default they keep their own. on_bad: a callback that gets a TextError with
    file and line for each line without a caption, or whose picture cannot be read, which is left out. with_pictures:
    whether to read the pictures; else only their captions, for vectors that stand for them. with_boxes: whether to read
    their boxes, where lines have them, each labelled by its phrase, or by its label. Raises TextError where there is
    none.

    good:  chainrule.read_captions("train.jsonl")
    """
    name = os.fspath(name)

    def read(record: Record) -> CaptionedPicture:
        fields, place = record.fields, record.location
        captions, boxes = _captions(fields, place), None
        if with_boxes and "boxes" in fields:
            boxes = boxes_of_record(fields, place, ("phrase", "label"))
        if not with_pictures:
            return CaptionedPicture(None, captions, place)
        picture = as_picture(os.path.join(os.path.dirname(name), _path(fields, place)))
        if boxes is not None:
            check_boxes(boxes, (picture.pixels.shape[0], picture.pixels.shape[1]), place)
        if frame is not None:
            boxes = None if boxes is None else boxes_framed(picture, boxes, frame)
            picture = Picture(fit_to_frame(picture, frame), picture.name)
        return CaptionedPicture(picture, captions, place, boxes)

    return read_items(
        name,
        read,
        "captioned picture",
        on_bad,
        expected=f"lines such as {_EXAMPLE}",
        progress=progress,
        task="reading pictures",
    )


def digest_of_captions(pictures: Sequence[CaptionedPicture]) -> str:
    """Return the SHA-256 of pictures and their captions, whatever file they are from."""
    rows = [
        (str(item.picture), item.captions, *(() if item.boxes is None else (repr(item.boxes),))) for item in pictures
    ]
    return hashlib.sha256(repr(rows).encode("utf-8", "surrogatepass")).hexdigest()


def check_captions(pictures: Sequence[Any], *, with_pictures: bool = True) -> list[CaptionedPicture]:
    """Check captioned pictures given from Python. Raises TypeError, TextError."""
    pictures = list(pictures)
    if not pictures:
        raise TextError("there are no captioned pictures; at least one is needed")
    for item in pictures:
        if not isinstance(item, CaptionedPicture):
            raise TypeError(f"this takes captioned pictures, as read_captions gives them, not {type(item).__name__}")
        if with_pictures and not isinstance(item.picture, Picture):
            raise TypeError(f"{item.place}: picture is {item.picture!r}; expected a picture, as as_picture gives it")
        _check_texts(item.captions, item.place)
    return pictures


def _captions(record: Mapping[str, Any], place: str) -> tuple[str, ...]:
    """Return the captions in a record. Raises TextError."""
    field = next((field for field in _TEXTS if field in record), None)
    if field is None:
        raise TextError(f"{place}: the picture has no caption; {suggest_fields(record, '')}; expected {_EXAMPLE}")
    given = record[field]
    captions = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, list) else given
    _check_texts(captions, place)
    return tuple(" ".join(caption.split()) for caption in captions)


def _check_texts(captions: object, place: str) -> None:
    """Raise TextError unless there are captions, all of them texts that are not empty."""
    is_texts = isinstance(captions, tuple) and all(isinstance(text, str) and text.strip() for text in captions)
    if not is_texts or not captions:
        shown = list(captions) if isinstance(captions, tuple) else captions
        raise TextError(
            f"{place}: the captions are {shown!r}; expected a list of at least one text, none of them empty"
        )


def _path(record: Mapping[str, Any], place: str) -> str:
    """Return the path of the picture in a record. Raises TextError."""
    field = next((field for field in _PATHS if field in record), None)
    if field is None:
        raise TextError(f"{place}: the captions have no picture; {suggest_fields(record, '')}; expected {_EXAMPLE}")
    path = record[field]
    if not isinstance(path, str) or not path:
        raise TextError(f"{place}: {field} is {path!r}; expected the path of a JPEG or PNG file")
    return path
