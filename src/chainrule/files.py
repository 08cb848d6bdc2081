"""Files that are replaced in one step, so that a failure or a kill at any moment leaves the old one or the new one."""

from __future__ import annotations

import os
import secrets
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from chainrule.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def replaced(path: Path) -> Iterator[BinaryIO]:
    """A file to write to that takes the place of `path` when all went well, and vanishes otherwise.

    Raises OutputError, also for an OSError of the caller's while it writes.
    """
    target = Path(os.path.realpath(path))  # a link stays a link
    if target.is_dir():
        raise OutputError(f"{path}: this is a folder; name a file")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        try:
            with open(temporary, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
        sync_folder(target.parent)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}; nothing was changed") from error


def sync_folder(folder: Path) -> None:
    """Makes new names in a folder last. Raises OSError."""
    if os.name == "nt":
        return  # folders cannot be opened there
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
