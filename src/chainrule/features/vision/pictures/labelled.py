"""Pictures on disk with labels, of the whole picture or of each pixel.

Folders       animals/cat/1.jpg  animals/dog/2.png       the label is the folder below the one that is given
JSON lines    {"picture": "cat/1.jpg", "label": "cat"}   a path counts from the folder of this file
CSV and TSV   picture,label                              also Parquet
Pixels        {"picture": "1.png", "labels": "1-labels.png", "names": ["sky", "sea"]}   JSON lines or Parquet

The picture of labels is a PNG in grey or with a palette, of the same size; its values, 0 and up, are positions in
names.
Legend: H height, W width, in pixels.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.arguments import as_examples
from chainrule.base.memory import check_fits
from chainrule.base.progress import Progress, silent
from chainrule.errors import TextError
from chainrule.features.classify.labelled.texts import UnitLabels
from chainrule.features.vision.pictures.boxes import check_boxes
from chainrule.features.vision.pictures.codec import SUFFIXES, decode_values
from chainrule.features.vision.pictures.picture import LabelledPicture, Picture, as_picture, fit_to_frame
from chainrule.text.corpus.reading import FORMATS, text_suffix
from chainrule.text.corpus.records import Record, raise_error, read_field, read_items

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from chainrule.features.vision.pictures.picture import Frame
    from chainrule.text.corpus.records import OnBad

_OTHER_SUFFIXES = (".gif", ".bmp", ".webp", ".tif", ".tiff", ".heic", ".avif", ".jp2")
_RECORDS = (*FORMATS, ".tsv")
_EXPECTED = f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"


class PicturePath(NamedTuple):
    """The path of a picture, its label if it has one, and the place that says so, for messages."""

    path: str
    label: str | None
    place: str
    record: Record | None = None  # of the file that names it


def read_pictures(
    name: str | os.PathLike[str],
    frame: Frame | None = None,
    on_bad: OnBad = raise_error,
    progress: Progress = silent,
) -> list[LabelledPicture]:
    """The labelled pictures of a folder of class folders, or of a file of records.

    frame: the size to scale pictures to; by default they keep their own. on_bad: a callback that gets a TextError that
    names the file of each picture that cannot be read, or has no label, which is left out. Raises TextError where there
    is no picture; EstimationError where they do not fit into memory.

    good:  chainrule.read_pictures("animals/")
    """
    name = os.fspath(name)
    paths = _in_class_folders(Path(name), on_bad) if os.path.isdir(name) else _in_records(name, True, on_bad)
    pictures = [
        LabelledPicture(picture, (path.label or "",), path.place)
        for path, picture in _opened(list(paths), frame, on_bad, progress)
    ]
    if not pictures:
        raise TextError(
            f"{name}: there is no labelled picture in it; expected folders named as their labels with {_EXPECTED} "
            'files in them, or JSON lines such as {"picture": "1.jpg", "label": "cat"}'
        )
    return pictures


def read_unlabelled(
    name: str | os.PathLike[str], frame: Frame | None = None, progress: Progress = silent
) -> list[Picture]:
    """The pictures of a folder, at any depth, of a file of records, or a single one. Raises TextError."""
    name = os.fspath(name)
    paths = _unlabelled_paths(name)
    pictures = [picture for _, picture in _opened(paths, frame, raise_error, progress)]
    if not pictures:
        raise TextError(f"{name}: there is no picture in it; expected {_EXPECTED} files")
    return pictures


def picture_paths(name: str | os.PathLike[str]) -> list[str]:
    """Return the paths of the pictures that `read_unlabelled` reads. Raises TextError."""
    name = os.fspath(name)
    paths = [path.path for path in _unlabelled_paths(name)]
    if not paths:
        raise TextError(f"{name}: there is no picture in it; expected {_EXPECTED} files")
    return paths


def _unlabelled_paths(name: str) -> list[PicturePath]:
    if os.path.isdir(name):
        return [PicturePath(os.fspath(path), None, os.fspath(path)) for path in _files_in(Path(name), raise_error)]
    if text_suffix(name) in _RECORDS:
        return _in_records(name, False, raise_error)
    return [PicturePath(name, None, name)]


def check_pictures(examples: Iterable[Any], unit: str = "picture") -> list[LabelledPicture]:
    """Check labelled pictures given from Python. unit: picture, pixel or box. Raises TypeError, TextError."""
    examples = as_examples(examples, LabelledPicture, "labelled pictures", "read_pictures")
    for picture, labels, place in examples:
        if not isinstance(picture, Picture):
            raise TypeError(f"{place}: expected a picture, as as_picture gives it; found {picture!r}")
        if unit == "box":
            check_boxes(labels, (picture.pixels.shape[0], picture.pixels.shape[1]), place)
            continue
        if unit == "pixel":
            if not isinstance(labels, UnitLabels) or len(labels) != picture.pixels[..., 0].size:
                raise TextError(f"{place}: expected UnitLabels of each pixel, as read_pixel_labels gives them")
            continue
        if not isinstance(labels, tuple) or len(labels) != 1 or not isinstance(labels[0], str) or not labels[0].strip():
            raise TextError(f"{place}: the labels are {labels!r}; expected a tuple of one string that is not empty")
    return examples


def _in_class_folders(folder: Path, on_bad: OnBad) -> Iterator[PicturePath]:
    """Yield the pictures of a folder: the label is the name of the first folder below the given one."""
    for own in sorted(folder.iterdir()):
        if own.is_dir() and not own.name.startswith("."):
            yield from (PicturePath(os.fspath(path), own.name, os.fspath(path)) for path in _files_in(own, on_bad))
        elif own.suffix.lower() in SUFFIXES:
            on_bad(TextError(f"{own}: has no label; put it into a folder that is named as its label"))


def _files_in(folder: Path, on_bad: OnBad) -> Iterator[Path]:
    """Yield the JPEG and PNG files of a folder, at any depth, in order; hidden ones, and files of other kinds, are no
    pictures, but those of other picture formats are bad.
    """
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = Path(parent, name)
            if name.startswith("."):
                continue
            if path.suffix.lower() in SUFFIXES:
                yield path
            elif path.suffix.lower() in _OTHER_SUFFIXES:
                on_bad(TextError(f"{path}: is not a JPEG or PNG picture; convert it, or leave it out"))


def _in_records(name: str, is_labelled: bool, on_bad: OnBad) -> list[PicturePath]:
    """Raises TextError."""
    if text_suffix(name) not in _RECORDS:
        raise TextError(
            f"{name}: is neither a folder nor a file of records; expected folders named as their labels, or a .jsonl, "
            ".csv, .tsv or .parquet file"
            if os.path.exists(name)
            else f"{name}: there is no such file or folder"
        )
    expected = 'records such as {"picture": "1.jpg", "label": "cat"}'
    return read_items(
        name, lambda record: _of_record(name, record, is_labelled), "labelled picture", on_bad, expected=expected
    )


def _of_record(name: str, record: Record, is_labelled: bool) -> PicturePath:
    """Return the path of the picture in a record, with its label. Raises TextError."""
    path = read_field(record.fields, "image" if "image" in record.fields else "picture")
    if not isinstance(path, str) or not path:
        raise TextError(f"picture is {path!r}; expected the path of a picture")
    label = read_field(record.fields, "label") if is_labelled else None
    label = str(label) if type(label) is int else label
    if is_labelled and (not isinstance(label, str) or not label.strip()):
        raise TextError(f"label is {label!r}; expected a string that is not empty, or a whole number")
    return PicturePath(os.path.join(os.path.dirname(name), path), label, record.location, record)


def _opened(
    paths: Sequence[PicturePath], frame: Frame | None, on_bad: OnBad, progress: Progress
) -> Iterator[tuple[PicturePath, Picture]]:
    """Yield the pictures that can be decoded. Raises EstimationError where all do not fit into memory."""
    if frame is not None:
        size = frame.height * frame.width * frame.channels
        check_fits(len(paths) * size, f"keeping {len(paths):,} pictures of {frame.width} x {frame.height} pixels")
    for i, path in enumerate(paths):
        progress("reading pictures", i, len(paths))
        try:
            picture = as_picture(path.path)
        except TextError as error:
            error = error if path.path in path.place else TextError(f"{path.place}: {error}")
            error.record = path.record or Record({}, path.place)
            on_bad(error)
            continue
        yield path, picture if frame is None else Picture(fit_to_frame(picture, frame), picture.name)


_MOST_NAMES = 256  # a PNG has 8 bits for each value


def read_pixel_labels(
    name: str | os.PathLike[str],
    frame: Frame | None = None,
    on_bad: OnBad = raise_error,
    progress: Progress = silent,
) -> list[LabelledPicture]:
    """Pictures with a label for each of their pixels, row by row, from a file of records.

    frame: the size that all must have, and their colours. on_bad: a callback that gets a TextError for each picture
    that cannot be read or whose labels do not suit it, which is left out. Raises TextError where there is no picture.

    good:  chainrule.read_pixel_labels("scenes.jsonl")
    """
    name = os.fspath(name)
    if text_suffix(name) not in _RECORDS:
        raise TextError(
            f"{name}: is not a file of records (.jsonl) that name each picture and the picture of its labels"
        )

    def checked(task: str, done: float, total: float | None) -> None:
        if frame is not None and total and not done:
            size = 2 * int(total) * frame.height * frame.width * frame.channels
            check_fits(size, f"keeping {int(total):,} pictures")
        progress(task, done, total)

    return read_items(
        name,
        lambda record: _read_example(os.path.dirname(name), record, frame),
        "picture with labelled pixels",
        on_bad,
        progress=checked,
        task="reading pictures",
    )


def _read_example(folder: str, record: Record, frame: Frame | None) -> LabelledPicture:
    """Return the picture in a record, with the labels of its pixels. Raises TextError."""
    paths = [read_field(record.fields, field) for field in ("picture", "labels")]
    names = read_field(record.fields, "names")
    if not all(isinstance(path, str) and path for path in paths):
        raise TextError(f"picture and labels are {paths[0]!r} and {paths[1]!r}; expected the paths of two pictures")
    if not isinstance(names, list) or not all(isinstance(own, str) and own.strip() for own in names):
        raise TextError(f"names is {names!r}; expected a list of labels, such as ['sky', 'sea']")
    if not 1 < len(set(names)) == len(names) <= _MOST_NAMES:
        raise TextError(
            f"there are {len(names)} names, {len(set(names))} different; expected 2 to {_MOST_NAMES}, once each"
        )
    picture = as_picture(os.path.join(folder, paths[0]))
    values = decode_values(os.path.join(folder, paths[1]))
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
        picture = Picture(fit_to_frame(picture, frame), picture.name)
    return LabelledPicture(picture, UnitLabels(names, values.ravel()), record.location)


def check_framed(picture: Picture, frame: Frame) -> None:
    """Raise TextError where a picture would be scaled, since its labels would not be."""
    height, width = picture.pixels.shape[:2]
    if (height, width) != (frame.height, frame.width):
        raise TextError(
            f"{picture.name}: has {width} x {height} pixels, but the network reads {frame.width} x {frame.height}; "
            f"where pixels are labelled, pictures are not scaled: set size to {height} {width}, or scale the files"
        )
