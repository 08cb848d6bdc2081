"""Writes small data sets made by rule, to try things without a download; turns pictures into text, and back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from chainrule.base.arguments import check_least
from chainrule.base.files import check_new_file, check_writable, replace_file
from chainrule.errors import OutputError, SettingError, TextError
from chainrule.features.lectures.datasets.make import make_data
from chainrule.features.vision.pictures.codec import encode_png
from chainrule.features.vision.pictures.labelled import read_unlabelled
from chainrule.features.vision.pictures.picture import Frame, check_levels, line_of, pixels_of, side_by_side
from chainrule.models.progress_line import ProgressOption, callback, shows_progress
from chainrule.text.corpus.plain_text import lines_of

if TYPE_CHECKING:
    from chainrule.features.lectures.datasets import Name


def data(
    name: Name,
    folder: str | os.PathLike[str],
    *,
    examples: int | None = None,
    seed: int = 0,
    hard: bool = False,
    overwrite: bool = False,
) -> dict[str, int]:
    """Write a data set into a folder, and return the number of examples by file, or of pictures and sounds by folder.

    name: text, pairs, labels, trees, pictures, captions, minimal-pairs, dates, conversations or speech. examples: how
    many to train on; for validation and testing, a tenth of that each. seed: other examples. hard: in a harder form, on
    which models differ. overwrite: whether files of the same names are replaced. Raises SettingError, OutputError.

    good:  chainrule.data("pairs", "pairs/")
    """
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise OutputError(f"{target}: this is a file; name a folder")
    check_writable(target)
    files = make_data(name, examples, seed, hard=hard)
    existing = next((path for file in files if (path := target / file.name).exists()), None)
    if existing is not None and not overwrite:
        raise OutputError(f"{existing}: exists already; use overwrite=True to replace it, or choose another folder")
    counts: dict[str, int] = {}
    for file in files:
        path = target / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        with replace_file(path) as stream:
            stream.write(file.content)
        shown = path.parent if path.suffix in (".png", ".wav") else path
        counts[str(shown)] = counts.get(str(shown), 0) + file.examples
    return counts


@shows_progress
def write_pixels(
    pictures: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    size: tuple[int, int] = (32, 32),
    levels: int = 256,
    overwrite: bool = False,
    progress: ProgressOption = None,
) -> int:
    """Write pictures as a text, a picture a line: the shade of each pixel, row by row; return how many there are.

    pictures: a folder, at any depth, a file of JSON lines, or a single picture. size: the height and width that they
    are brought to. levels: shades of grey. Raises SettingError; TextError that names a picture; OutputError.

    good:  chainrule.write_pixels("faces/", "faces.txt", size=(16, 16), levels=16)
    """
    check_levels(levels)
    height, width = size
    if min(size) < 1:
        raise SettingError(f"size is {size}; expected a height and width of at least 1")
    check_new_file(Path(target), overwrite=overwrite)
    frame = Frame(height=height, width=width, colours="grey")
    found = read_unlabelled(pictures, frame, callback(progress))
    with replace_file(Path(target)) as file:
        for picture in found:
            file.write(f"{line_of(picture.pixels, levels)}\n".encode())
    return len(found)


def draw_pixels(
    lines: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    columns: int = 32,
    levels: int = 256,
    overwrite: bool = False,
) -> int:
    """Draw the lines of a text, as `write_pixels` wrote them or a model did, side by side; return how many there are.

    target: a PNG. columns: pixels in a row. Raises SettingError; TextError that names file and line; OutputError.

    good:  chainrule.draw_pixels("samples.txt", "samples.png", columns=16, levels=16)
    """
    check_levels(levels)
    check_least("columns", columns, 1)
    if Path(target).suffix.lower() != ".png":
        raise SettingError(f"{target}: the name of the picture must end in .png")
    check_new_file(Path(target), overwrite=overwrite)
    name = os.fspath(lines)
    pictures = [
        pixels_of(line, columns, levels, f"{name}, line {number}")
        for number, line in enumerate(lines_of(name), 1)
        if line.strip()
    ]
    if not pictures:
        raise TextError(f"{name}: there is no line of pixels in it; at least one is needed")
    with replace_file(Path(target)) as file:
        file.write(encode_png(side_by_side(pictures)))
    return len(pictures)
