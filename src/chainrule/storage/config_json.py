"""config.json: what a model is, which files belong to it, and how it came about. Strict: an unknown field is an error.

It carries a checksum of itself, which `verify` compares and opening does not, so that people may edit it.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from chainrule.errors import ModelFormatError

if TYPE_CHECKING:
    from pathlib import Path

FORMAT: Literal[1] = 1
CONFIG = "config.json"
_UNFINISHED = "checkpoints/checkpoint.json"  # what training that is not over has written


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class FileEntry(_Strict):
    name: str
    bytes: int
    sha256: str


class TokenizerEntry(_Strict):
    kind: str
    markers: Literal["error", "skip", "keep"]
    normalise: tuple[Literal["nfc", "nfkc", "lower"], ...] = ()
    unicode: str  # the version of the character classes and of normalisation


class ModelEntry(_Strict):
    """What config.json holds. `checksum` comes first, so that no text of the others can be taken for it."""

    format: Literal[1]
    checksum: str  # SHA-256 of the file as it is with nothing between these quotes
    family: str
    settings: dict[str, Any]
    tokenizer: TokenizerEntry
    files: dict[str, FileEntry]  # data files by what they hold: arrays.safetensors, tokenizer.json
    record: dict[str, Any]


def config_bytes(entry: ModelEntry) -> bytes:
    """What config.json is to hold, with its checksum; that of the entry does not count."""
    blank = json.dumps({**entry.model_dump(), "checksum": ""}, indent=2, ensure_ascii=False) + "\n"
    # A recorded file name may be no text at all, and its lone surrogates no UTF-8.
    data = blank.encode("utf-8", "replace")
    return data.replace(b'""', f'"{hashlib.sha256(data).hexdigest()}"'.encode(), 1)


def read_config(folder: Path) -> ModelEntry:
    """Raises ModelFormatError."""
    path = folder / CONFIG
    if os.path.isfile(folder):
        raise ModelFormatError(f"{folder}: is a file; expected the folder of a model, with a {CONFIG} in it")
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise ModelFormatError(
            f"{folder}: is a pipe or a device; a model is a folder or a file that can be read at any place: copy it to "
            "one"
        )
    if not os.path.isdir(folder):
        raise ModelFormatError(
            f"{folder}: there is no such folder or file; a model is a folder with a {CONFIG} in it, or an ARPA file"
        )
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        if (folder / _UNFINISHED).exists():
            raise ModelFormatError(
                f"{folder}: this folder has the checkpoints of a run, and no model yet; go on with the command that "
                "began it and --resume (in Python: resume=True, and then save the model there)"
            ) from error
        raise ModelFormatError(f"{folder}: this folder is no model, since it has no {CONFIG}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ModelFormatError(f"{path}: cannot be read: {error}") from error
    try:
        return ModelEntry.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        if first["type"] == "json_invalid":
            raise ModelFormatError(f"{path}: is cut off or damaged: {first['msg']}; save the model anew") from error
        raise ModelFormatError(f"{path}: {place}: {first['msg']}, found {str(first['input'])[:80]!r}") from error


def check_unedited(folder: Path, entry: ModelEntry) -> None:
    """Raises ModelFormatError where config.json, of which `entry` was read, is not as it was written."""
    data = (folder / CONFIG).read_bytes()
    blank = data.replace(f'"{entry.checksum}"'.encode("utf-8", "replace"), b'""', 1)
    found = hashlib.sha256(blank).hexdigest()
    if found != entry.checksum:
        raise ModelFormatError(
            f"{folder / CONFIG}: its checksum is {found}, expected {entry.checksum}; it was edited or damaged since "
            "it was written. If the change is yours, chainrule convert to a new folder writes it with a new checksum"
        )
