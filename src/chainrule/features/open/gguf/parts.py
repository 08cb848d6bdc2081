"""GGUF models in several files, named model-00001-of-00003.gguf: the first has the metadata, and each some tensors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from chainrule.errors import ModelFormatError
from chainrule.features.open.gguf.file import Gguf, open_gguf

if TYPE_CHECKING:
    from pathlib import Path

_NAME = re.compile(r"(?P<stem>.*-)(?P<number>\d{5})-of-(?P<count>\d{5})(?P<ending>\.gguf)", re.IGNORECASE)


def parts_of(path: Path) -> list[Path]:
    """Return the files of a model by the name of one of them, whether or not they exist."""
    match = _NAME.fullmatch(path.name)
    if match is None:
        return [path]
    numbers = range(1, int(match["count"]) + 1)
    return [path.with_name(f"{match['stem']}{own:05}-of-{match['count']}{match['ending']}") for own in numbers]


def first_part(path: Path) -> Path:
    """Return the file that has the metadata: the first of several, or the only one."""
    first = next(iter(parts_of(path)), path)
    return first if first.is_file() else path


def open_parts(path: Path) -> Gguf:
    """Open a model in one file, or in several of which any is named. Raises ModelFormatError where one is missing."""
    opened = open_gguf(path)
    count = opened.metadata.get("split.count")
    if count in (None, 0, 1):
        return opened
    number = opened.metadata.get("split.no")
    is_part = f"is part {number + 1 if isinstance(number, int) else '?'} of {count}"
    paths = parts_of(path)
    if len(paths) != count:
        raise ModelFormatError(
            f"{path}: {is_part}, and the others are found by its name; expected one like model-00001-of-"
            f"{count:05}.gguf, as it had where it came from"
        )
    if missing := [own.name for own in paths if not own.is_file()]:
        others = "" if len(missing) == 1 else f", as are {len(missing) - 1} more"
        raise ModelFormatError(f"{path}: {is_part}, and {missing[0]} is missing beside it{others}; get it, too")
    parts = [open_gguf(own) for own in paths]
    tensors = parts[0].tensors
    for index, (own, part) in enumerate(zip(paths, parts, strict=True)):
        said = part.metadata.get("split.no"), part.metadata.get("split.count")
        if said != (index, count):
            raise ModelFormatError(
                f"{own}: says that its split.no is {said[0]} of {said[1]}; expected {index} of {count}, by its name"
            )
        if index and (twice := tensors.keys() & part.tensors.keys()):
            raise ModelFormatError(f"{own}: has the tensor {min(twice)!r}, which another part has, too")
        tensors |= part.tensors
    if (all_tensors := parts[0].metadata.get("split.tensors.count", len(tensors))) != len(tensors):
        raise ModelFormatError(f"{paths[0]}: the parts have {len(tensors)} tensors; the first says {all_tensors}")
    return Gguf(parts[0].metadata, tensors)
