"""The key of a server, in a file: on the command line, others could read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cyclopts import CycloptsError

from chainrule.errors import TextError

if TYPE_CHECKING:
    from pathlib import Path


def key_in(file: Path, *, shortest: int = 1) -> str:
    """shortest: characters that a key must have. Raises TextError, CycloptsError."""
    try:
        key = file.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError as error:
        raise TextError(f"{file}: not UTF-8 ({error.reason}); expected one line, the key") from error
    except OSError as error:
        raise CycloptsError(msg=f"--api-key-file {file}: cannot be read: {error.strerror}.") from error
    if len(key) < shortest or not key.isascii() or not key.isprintable() or " " in key:
        raise TextError(f"{file}: expected one line with a key of {shortest} or more visible ASCII characters")
    return key
