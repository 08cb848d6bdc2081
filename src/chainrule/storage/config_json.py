"""config.json: what a model is, which files belong to it, and how it was made. An unknown field is an error.

It contains a checksum of itself. `verify` compares it; opening a model does not, so that people may edit the file.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from chainrule.base.files import nan_key, read_file, read_text
from chainrule.errors import ModelFormatError, os_errors_as
from chainrule.storage.sources import suggestion

if TYPE_CHECKING:
    from pathlib import Path

FORMAT: Literal[1] = 1
CONFIG = "config.json"
_AGAIN = "undo what was edited, or copy the folder again"
_CHECKPOINTS, _CHECKPOINT, _LOG = "checkpoints", "checkpoints/checkpoint.json", "log.jsonl"  # written during training


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
    """The contents of config.json. `checksum` comes early, so that no text in a later field can be mistaken for it."""

    format: Literal[1]
    checksum: str  # SHA-256 of the file with this string empty
    family: str
    settings: dict[str, Any]
    tokenizer: TokenizerEntry
    files: dict[str, FileEntry]  # data files by content: arrays.safetensors, tokenizer.json
    record: dict[str, Any]


def config_bytes(entry: ModelEntry) -> bytes:
    """Return the bytes of config.json with its checksum computed anew; the entry's own is ignored."""
    blank = json.dumps({**entry.model_dump(), "checksum": ""}, indent=2, ensure_ascii=False) + "\n"
    # A recorded file name may not be text; UTF-8 cannot encode its lone surrogates.
    data = blank.encode("utf-8", "replace")
    return data.replace(b'""', f'"{hashlib.sha256(data).hexdigest()}"'.encode(), 1)


def read_config(folder: Path) -> ModelEntry:
    """Read and check the config.json of a model folder. Raises ModelFormatError."""
    path = folder / CONFIG
    if os.path.isfile(folder):
        raise ModelFormatError(f"{folder}: is a file; expected the folder of a model, with a {CONFIG} in it")
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise ModelFormatError(
            f"{folder}: is a pipe or a device; expected a model's folder or file, which can be read at any position: "
            "copy it to one"
        )
    if not os.path.isdir(folder):
        raise ModelFormatError(
            f"{folder}: there is no such folder or file; a model is a folder with a {CONFIG} in it, or a file"
            f"{suggestion(folder)}"
        )
    try:
        text = read_text(path)
    except FileNotFoundError as error:
        raise ModelFormatError(f"{folder}: {_why_no_model(folder)}") from error
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or f"{error}; {_AGAIN}"
        raise ModelFormatError(f"{path}: cannot be read: {why}") from error
    try:
        entry = ModelEntry.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the file"
        if first["type"] == "json_invalid":
            raise ModelFormatError(f"{path}: is cut off or damaged: {first['msg']}; {_AGAIN}") from error
        version = json.loads(text).get("format") if text.lstrip().startswith("{") else None
        if isinstance(version, int) and version > FORMAT:
            raise ModelFormatError(
                f"{path}: has format {version}, which a newer chainrule writes; this one reads up to {FORMAT}: "
                "install a newer one"
            ) from error
        found = first["msg"] + f", found {str(first['input'])[:80]!r}" * (first["type"] != "missing")
        raise ModelFormatError(f"{path}: {field}: {found}; {_AGAIN}") from error
    if (key := nan_key({"settings": entry.settings, "record": entry.record})) is not None:
        raise ModelFormatError(f"{path}: {key} is NaN; expected a number, as when it was saved")
    return entry


def _why_no_model(folder: Path) -> str:
    """Say what a folder without config.json seems to be, and what the user can do."""
    if (folder / _CHECKPOINT).exists() or any(folder.glob(f"*/{_CHECKPOINT}")):  # of a phase before the main one
        return "training into this folder has not ended, so there is no model yet; repeat it with resume=True"
    if any(folder.glob("*.safetensors")):
        return f"its {CONFIG} is missing, without which its arrays are no model; {_AGAIN}"
    if (folder / _CHECKPOINTS).is_dir() or (folder / _LOG).is_file():
        return "training into this folder was stopped before its first checkpoint, so there is no model; train again"
    return f"this folder is not a model, since it has no {CONFIG}"


def check_unedited(folder: Path, entry: ModelEntry) -> None:
    """Raise ModelFormatError if config.json, from which `entry` was read, has changed since it was written."""
    with os_errors_as(ModelFormatError, folder / CONFIG, "read"):
        data = read_file(folder / CONFIG)
    blank = data.replace(f'"{entry.checksum}"'.encode("utf-8", "replace"), b'""', 1)
    checksum = hashlib.sha256(blank).hexdigest()
    if checksum != entry.checksum:
        raise ModelFormatError(
            f"{folder / CONFIG}: its checksum is {checksum}, expected {entry.checksum}; it was edited or damaged after "
            "it was written. If the edit is yours, chainrule convert to a new folder writes it with a new checksum"
        )
