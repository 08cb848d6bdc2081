"""JSON files of channels: an object with a field that says of which kind and version it is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from chainrule.base.files import read_file, replace_file
from chainrule.errors import ModelFormatError

if TYPE_CHECKING:
    from pathlib import Path

_VERSION = 1


def write_object(path: Path, kind: str, content: dict[str, Any]) -> None:
    """Raises OutputError."""
    with replace_file(path) as file:
        file.write(json.dumps({kind: _VERSION, **content}, ensure_ascii=False, indent=0).encode() + b"\n")


def read_object(path: Path, kind: str, expected: str) -> dict[str, Any]:
    """expected: what the file should be, for messages. Raises ModelFormatError, which names the file."""
    try:
        content = json.loads(read_file(path))
    except OSError as error:
        raise ModelFormatError(f"{path}: cannot be read: {error.strerror}; expected {expected}") from error
    except (ValueError, RecursionError) as error:
        raise ModelFormatError(f"{path}: is not JSON ({error}); expected {expected}") from None
    if not isinstance(content, dict) or content.get(kind) != _VERSION:
        raise ModelFormatError(f"{path}: has no field {kind!r} with the value {_VERSION}; expected {expected}")
    return content
