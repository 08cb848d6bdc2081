"""A model folder: read, check, write, commit.

    config.json                  what the model is, which files belong to it, and how it came about
    arrays-<digest>.safetensors  its numbers, named by their content
    tokenizer-<digest>.json      what a tokenizer needs besides, where it needs something
    README.md                    a model card for people

Replacing config.json is the one commit point: whatever happens before it leaves the old model whole, and what happens
after it can only leave a file behind that nobody names, or an old model card. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from chainrule.base.distributions import check_savable
from chainrule.base.files import check_writable, locked, sync_folder
from chainrule.base.progress import Progress, silent
from chainrule.errors import ModelFormatError, OutputError
from chainrule.storage.config_json import (
    CONFIG,
    FORMAT,
    FileEntry,
    ModelEntry,
    TokenizerEntry,
    check_unedited,
    config_bytes,
    read_config,
)
from chainrule.storage.safetensors import MappedFile, file_digest, open_tensors, write_tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy import ndarray

CARD, ARRAYS, TOKENIZER = "README.md", "arrays.safetensors", "tokenizer.json"
SOURCE_TOKENIZER = "source-tokenizer.json"  # of a conditional model whose sources are cut in another way
_DATA = (ARRAYS, TOKENIZER, SOURCE_TOKENIZER)  # the data files that there are
RUN = ("checkpoints", "log.jsonl", "tensorboard")  # what training that is not over, or was killed, leaves
_TEMPORARY = ".tmp"
_SEAL = b"\n<!-- SHA-256 of the above: "
_NAMED_BY_CONTENT = re.compile("|".join(rf"{Path(n).stem}-[0-9a-f]{{16}}\{Path(n).suffix}" for n in _DATA))
_LEFTOVER = re.compile(rf"({'|'.join(map(re.escape, (*_DATA, CONFIG, CARD)))})\.[0-9a-f]{{8}}\{_TEMPORARY}")


def check_target(folder: Path, *, overwrite: bool) -> None:
    """Raises OutputError where a model could not or should not be saved; ask before the work, not after it."""
    try:
        if folder.is_dir():
            if (folder / CONFIG).exists():
                if not overwrite:
                    raise OutputError(
                        f"{folder}: there is a model already; say overwrite=True to replace it, "
                        "or choose another folder"
                    )
            elif not all(path.name in RUN or _is_ours(path) for path in folder.iterdir()):
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
    texts: Mapping[str, bytes] | None = None,
    overwrite: bool = False,
    progress: Progress = silent,
) -> None:
    """Saves a model and commits it. texts: what further data files hold; tokenizer.json, source-tokenizer.json.

    Raises OutputError; then, and when interrupted, what was there before is still there, unless the commit was made.
    Raises EstimationError where a number is NaN.
    """
    for name, array in arrays.items():
        check_savable(name, array)
    texts = texts or {}
    if not texts.keys() <= set(_DATA[1:]):
        raise ValueError(f"a model folder has no data files {sorted(texts)}; it may have {', '.join(_DATA[1:])}")
    check_target(folder, overwrite=overwrite)
    tag = f".{secrets.token_hex(4)}{_TEMPORARY}"
    with _undone_on_failure(folder) as make, locked(folder):
        check_target(folder, overwrite=overwrite)  # again: another process may have been first
        written = {name: make(name + tag) for name in (ARRAYS, *texts)}
        digests = {ARRAYS: write_tensors(written[ARRAYS], arrays, progress)}
        for name, data in texts.items():
            digests[name] = _write_synced(written[name], data)
        files = {
            name: FileEntry(
                name=_named_by_content(name, digests[name]), bytes=path.stat().st_size, sha256=digests[name]
            )
            for name, path in written.items()
        }
        readme, config = make(CARD + tag), make(CONFIG + tag)
        entry = ModelEntry(
            format=FORMAT,
            checksum="",
            family=family,
            settings=settings,
            tokenizer=tokenizer,
            files=files,
            record=record,
        )
        _write_synced(config, config_bytes(entry))
        _write_synced(readme, _sealed(card.encode("utf-8", "replace")))
        for name, path in written.items():
            os.replace(path, make(files[name].name))
        sync_folder(folder)
        os.replace(config, folder / CONFIG)  # the commit
        os.replace(readme, folder / CARD)
        sync_folder(folder)
        named = {file.name for file in files.values()}
        for old in filter(_is_ours, folder.iterdir()):
            if old.name not in named:
                with suppress(OSError):
                    old.unlink()


class Opened(NamedTuple):
    """What a model folder holds."""

    entry: ModelEntry
    arrays: dict[str, ndarray]  # mapped into memory
    texts: dict[str, bytes]  # the further data files
    mapped: MappedFile


def open_model(folder: Path) -> Opened:
    """Constant time, but for further data files, which are read and checked. Raises ModelFormatError."""
    while True:
        before = _bytes_of(folder / CONFIG)
        try:
            entry = read_config(folder)
            texts = {name: _text_of(folder, entry, name) for name in entry.files if name != ARRAYS}
            mapped = MappedFile(_data_file(folder, entry, ARRAYS))
            return Opened(entry, open_tensors(_data_file(folder, entry, ARRAYS)), texts, mapped)
        except ModelFormatError:
            if before == _bytes_of(folder / CONFIG):
                raise
            # Another process replaced the model while it was being opened: the new one is whole.


def verify_model(folder: Path, progress: Progress = silent) -> ModelEntry:
    """Reads every byte that was written and compares the checksums.

    Raises ModelFormatError, which names all files that differ.
    """
    entry = read_config(folder)
    checks = [partial(check_unedited, folder, entry), partial(_check_card, folder / CARD)]
    checks += [partial(_check_data, folder, entry, name, progress) for name in sorted({ARRAYS, *entry.files})]
    wrong: list[ModelFormatError] = []
    for check in checks:
        try:
            check()
        except ModelFormatError as error:
            wrong.append(error)
    if wrong:
        raise ModelFormatError("; also ".join(map(str, wrong))) from wrong[0]
    return entry


def _data_file(folder: Path, entry: ModelEntry, name: str) -> Path:
    """The path of a data file that is there and has its size. Raises ModelFormatError."""
    if name not in _DATA:
        raise ModelFormatError(f"{folder / CONFIG}: files.{name}: there are only {' and '.join(_DATA)}")
    data = entry.files.get(name)
    if data is None or Path(data.name).name != data.name or data.name in ("", "..") or "\0" in data.name:
        raise ModelFormatError(f"{folder / CONFIG}: files.{name} must name a file in the folder")
    path = folder / data.name
    try:
        size = path.stat().st_size
    except OSError as error:
        raise ModelFormatError(f"{path}: cannot be opened: {error.strerror}; the model is incomplete") from error
    if size != data.bytes:
        raise ModelFormatError(f"{path}: has {size:,} bytes, expected {data.bytes:,}; it was cut off or changed")
    return path


def _text_of(folder: Path, entry: ModelEntry, name: str) -> bytes:
    """What a data file holds that is small enough to be checked each time. Raises ModelFormatError."""
    _check_data(folder, entry, name, silent)
    return _data_file(folder, entry, name).read_bytes()


def _check_data(folder: Path, entry: ModelEntry, name: str, progress: Progress) -> None:
    path, expected = _data_file(folder, entry, name), entry.files[name].sha256
    try:
        found = file_digest(path, progress)
    except OSError as error:
        raise ModelFormatError(f"{path}: cannot be read: {error.strerror}") from error
    if found != expected:
        raise ModelFormatError(
            f"{path}: its SHA-256 is {found}, expected {expected}; the file has changed since it was written"
        )


def _check_card(path: Path) -> None:
    """A missing card is no error: no program needs it, and a kill right behind a first commit leaves none."""
    card = _bytes_of(path)
    if card is not None and card != _sealed(card.rpartition(_SEAL)[0]):
        raise ModelFormatError(
            f"{path}: the card was edited or damaged since it was written; the model does not need it"
        )


def _sealed(card: bytes) -> bytes:
    """A card with its own checksum below, so that it can be checked whichever model a kill leaves it beside."""
    return card + _SEAL + hashlib.sha256(card).hexdigest().encode() + b" -->\n"


@contextmanager
def _undone_on_failure(folder: Path) -> Iterator[Callable[[str], Path]]:
    """Gives a maker of paths for new files.

    Where the work fails, the files are removed, and the folders too that were made for them; what config.json names
    once it has been replaced stays.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    before = _bytes_of(folder / CONFIG)
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
        committed = (
            _bytes_of(folder / CONFIG) != before
        )  # asked of the disk, since Ctrl-C may come right behind the commit
        for path in paths:
            if not (committed and _NAMED_BY_CONTENT.fullmatch(path.name)):
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
    return _NAMED_BY_CONTENT.fullmatch(path.name) is not None or _LEFTOVER.fullmatch(path.name) is not None


def _named_by_content(name: str, digest: str) -> str:
    return f"{Path(name).stem}-{digest[:16]}{Path(name).suffix}"


def _bytes_of(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _write_synced(path: Path, data: bytes) -> str:
    """Writes and syncs a file; its SHA-256. Raises OSError."""
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return hashlib.sha256(data).hexdigest()


VOCABULARY_ARRAYS, SPELLER_ARRAYS = "vocabulary.", "speller."  # what the names of their arrays begin with in a folder
