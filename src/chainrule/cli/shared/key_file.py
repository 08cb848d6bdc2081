"""The key of a server, in a file: on the command line, others could read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cyclopts import CycloptsError

from chainrule.base.files import read_file
from chainrule.errors import TextError

if TYPE_CHECKING:
    from pathlib import Path


_LARGEST = 1 << 16  # bytes of a file


def key_in(file: Path, *, shortest: int = 1) -> str:
    """shortest: characters that a key must have. Raises TextError, CycloptsError."""
    try:
        key = read_file(file, _LARGEST, pipes=True).decode().strip()
    except UnicodeDecodeError as error:
        raise TextError(f"{file}: not UTF-8 ({error.reason}); expected one line, the key") from error
    except OSError as error:
        raise CycloptsError(msg=f"--api-key-file {file}: cannot be read: {error.strerror}.") from error
    if len(key) < shortest or not key.isascii() or not key.isprintable() or " " in key:
        raise TextError(f"{file}: expected one line with a key of {shortest} or more visible ASCII characters")
    return key
