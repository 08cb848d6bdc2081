"""The formats of others that models are written in, by the ending of a file or by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.base.files import DECOMPRESSORS, ends_in
from chainrule.errors import SettingError
from chainrule.kinds import writers

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.kinds import Writer


def writer_of(path: Path) -> Writer | None:
    """Return the writer of a file by the ending of its name, which may be compressed; None for a folder of ours."""
    for writer in writers():
        endings = tuple(f"{writer.name}{compression}" for compression in ("", *DECOMPRESSORS))
        if writer.name.startswith(".") and ends_in(path, endings):
            return writer
    return None


def named_writers() -> dict[str, Writer]:
    """Return the writers that have a name, by it."""
    return {writer.name: writer for writer in writers() if not writer.name.startswith(".")}


def writer_named(name: str) -> Writer:
    """Return the writer of this name. Raises SettingError."""
    known = named_writers()
    if name not in known:
        raise SettingError(f"to is {name!r}; expected {' or '.join(known)}, or nothing")
    return known[name]
