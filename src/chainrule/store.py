"""A model folder: read, check, write, commit.

    config.json                  what the model is, which files belong to it, and how it came about
    arrays-<digest>.safetensors  its numbers, named by their content
    README.md                    a model card for people

Replacing config.json is the one commit point: whatever happens before it leaves the old model whole, and what happens
after it can only leave a file behind that nobody names. Nothing is ever unpickled.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from chainrule.errors import ModelFormatError, OutputError
from chainrule.files import check_writable, locked, sync_folder
from chainrule.progress import Progress, silent
from chainrule.tensors import file_digest, open_tensors, write_tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy import ndarray

FORMAT: Literal[1] = 1
CONFIG, CARD, ARRAYS = "config.json", "README.md", "arrays"
_SUFFIX, _TEMPORARY = ".safetensors", ".tmp"
_DATA_OR_LEFTOVER = re.compile(
    rf"{ARRAYS}-[0-9a-f]{{16}}{re.escape(_SUFFIX)}"
    rf"|({ARRAYS}|{re.escape(CONFIG)}|{re.escape(CARD)})\.[0-9a-f]{{8}}{re.escape(_TEMPORARY)}"
)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class FileEntry(_Strict):
    name: str
    bytes: int
    sha256: str


class TokenizerEntry(_Strict):
    kind: str
    markers: Literal["error", "skip", "keep"]
    unicode: str  # the version of the character classes


class ModelEntry(_Strict):
    """What config.json holds."""

    format: Literal[1]
    family: str
    settings: dict[str, Any]
    tokenizer: TokenizerEntry
    files: dict[str, FileEntry]
    record: dict[str, Any]


def check_target(folder: Path, *, overwrite: bool) -> None:
    """Raises OutputError where a model could not or should not be saved; ask before the work, not after it."""
    try:
        if folder.is_dir():
            if (folder / CONFIG).exists():
                if not overwrite:
                    raise OutputError(
                        f"{folder}: there is a model already; say --overwrite (overwrite=True) to replace it, "
                        "or choose another folder"
                    )
            elif not all(map(_is_ours, folder.iterdir())):
                raise OutputError(f"{folder}: this folder has other things in it and is no model; choose a new one")
        elif folder.exists():
            raise OutputError(f"{folder}: a file is in the way; a model is a folder, so choose another name")
    except OSError as error:
        raise OutputError(f"{folder}: cannot be looked into: {error.strerror}; choose another place") from error
    check_writable(folder)


def save_model(
    folder: Path,
    *,
    family: str,
    settings: dict[str, Any],
    tokenizer: TokenizerEntry,
    arrays: dict[str, ndarray],
    record: dict[str, Any],
    card: str,
    overwrite: bool = False,
    progress: Progress = silent,
) -> None:
    """Saves a model and commits it.

    Raises OutputError; then, and when interrupted, what was there before is still there, unless the commit was made.
    """
    check_target(folder, overwrite=overwrite)
    tag = f".{secrets.token_hex(4)}{_TEMPORARY}"
    with _undone_on_failure(folder) as make, locked(folder):
        check_target(folder, overwrite=overwrite)  # again: another process may have been first
        written = make(ARRAYS + tag)
        digest = write_tensors(written, arrays, progress)
        data = FileEntry(name=f"{ARRAYS}-{digest[:16]}{_SUFFIX}", bytes=written.stat().st_size, sha256=digest)
        entry = ModelEntry(
            format=FORMAT, family=family, settings=settings, tokenizer=tokenizer, files={ARRAYS: data}, record=record
        )
        config, readme = make(CONFIG + tag), make(CARD + tag)
        _write_synced(config, json.dumps(entry.model_dump(), indent=2, ensure_ascii=False) + "\n")
        _write_synced(readme, card)
        os.replace(written, make(data.name))
        sync_folder(folder)
        os.replace(config, folder / CONFIG)  # the commit
        os.replace(readme, folder / CARD)
        sync_folder(folder)
        for old in filter(_is_ours, folder.iterdir()):
            if old.name != data.name:
                with suppress(OSError):
                    old.unlink()


def open_model(folder: Path) -> tuple[ModelEntry, dict[str, ndarray]]:
    """What a folder holds, its arrays mapped into memory. Constant time. Raises ModelFormatError."""
    while True:
        before = _config_bytes(folder)
        try:
            entry = _read_config(folder)
            return entry, open_tensors(_data_file(folder, entry))
        except ModelFormatError:
            if before == _config_bytes(folder):
                raise
            # Another process replaced the model while it was being opened: the new one is whole.


def verify_model(folder: Path, progress: Progress = silent) -> ModelEntry:
    """Reads every byte and compares the checksums. Raises ModelFormatError where one differs."""
    entry = _read_config(folder)
    path = _data_file(folder, entry)
    expected = entry.files[ARRAYS].sha256
    try:
        found = file_digest(path, progress)
    except OSError as error:
        raise ModelFormatError(f"{path}: cannot be read: {error.strerror}") from error
    if found != expected:
        raise ModelFormatError(
            f"{path}: its SHA-256 is {found}, expected {expected}; the file has changed since it was written"
        )
    return entry


def _read_config(folder: Path) -> ModelEntry:
    path = folder / CONFIG
    if not os.path.isdir(folder):
        raise ModelFormatError(
            f"{folder}: there is no such folder or file; a model is a folder with a {CONFIG} in it, or an ARPA file"
        )
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ModelFormatError(f"{folder}: this folder is no model, since it has no {CONFIG}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ModelFormatError(f"{path}: cannot be read: {error}") from error
    try:
        return ModelEntry.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise ModelFormatError(f"{path}: {place}: {first['msg']}, found {str(first['input'])[:80]!r}") from error


def _data_file(folder: Path, entry: ModelEntry) -> Path:
    data = entry.files.get(ARRAYS)
    if data is None or Path(data.name).name != data.name or data.name in ("", "..") or "\0" in data.name:
        raise ModelFormatError(f"{folder / CONFIG}: files.{ARRAYS} must name a file in the folder")
    path = folder / data.name
    try:
        size = path.stat().st_size
    except OSError as error:
        raise ModelFormatError(f"{path}: cannot be opened: {error.strerror}; the model is incomplete") from error
    if size != data.bytes:
        raise ModelFormatError(f"{path}: has {size:,} bytes, expected {data.bytes:,}; it was cut off or changed")
    return path


@contextmanager
def _undone_on_failure(folder: Path) -> Iterator[Callable[[str], Path]]:
    """Gives a maker of paths for new files.

    Where the work fails, the files are removed, and the folders too that were made for them; what config.json names
    once it has been replaced stays.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    before = _config_bytes(folder)
    paths: list[Path] = []

    def make(name: str) -> Path:
        path = folder / name
        if not path.exists():  # a data file of the same content may be there already
            paths.append(path)
        return path

    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield make
    except BaseException as error:
        committed = _config_bytes(folder) != before  # asked of the disk, since Ctrl-C may come right behind the commit
        for path in paths:
            if not (committed and path.suffix == _SUFFIX):
                with suppress(OSError):
                    path.unlink()
        for path in made:
            with suppress(OSError):
                path.rmdir()
        if isinstance(error, OSError):
            outcome = f"the model was saved, but perhaps not its {CARD}" if committed else "nothing was changed"
            raise OutputError(f"{folder}: cannot be written: {error.strerror}; {outcome}") from error
        raise


def _is_ours(path: Path) -> bool:
    """Whether a file is a model's data or what a killed save left behind."""
    return _DATA_OR_LEFTOVER.fullmatch(path.name) is not None


def _config_bytes(folder: Path) -> bytes | None:
    try:
        return (folder / CONFIG).read_bytes()
    except OSError:
        return None


def _write_synced(path: Path, text: str) -> None:
    # A recorded file name may be no text at all, and its lone surrogates no UTF-8.
    with open(path, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
