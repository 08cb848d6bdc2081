"""Model folders: opening, verifying, and saving in one atomic step.

    config.json                  what the model is, which files belong to it, and how it was made
    arrays-<digest>.safetensors  its arrays, named by their content
    tokenizer-<digest>.json      what the tokenizer needs besides the vocabulary, if anything
    shard-00000-<digest>.safetensors, ...  the arrays of parts of a model that may be larger than memory
    README.md                    a model card for people

Replacing config.json is the only commit point: a failure before it leaves the old model intact, and a failure after it
leaves at most an unused file or the old model card. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from chainrule.base.distributions import check_savable
from chainrule.base.files import (
    NGRAM_FILE_SUFFIXES,
    FolderPath,
    check_writable,
    ends_in,
    lock_folder,
    read_file,
    sync_folder,
)
from chainrule.base.progress import Progress, silent
from chainrule.errors import ModelFormatError, OutputError, os_errors_as
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
from chainrule.storage.hugging_face import is_hugging_face
from chainrule.storage.safetensors import MappedFile, file_digest, open_tensors, write_tensors
from chainrule.storage.sources import source_of, suggestion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy import ndarray

CARD, ARRAYS, TOKENIZER = "README.md", "arrays.safetensors", "tokenizer.json"
SOURCE_TOKENIZER = "source-tokenizer.json"  # of a seq2seq model whose sources have another tokenizer
_DATA = (ARRAYS, TOKENIZER, SOURCE_TOKENIZER)  # all data files that a folder may have
RUN = (
    "checkpoints",
    "log.jsonl",
    "tensorboard",
    "phrases",
    "discriminator",
)  # written during training, and left by training that was killed
# Who gives such a name expects a file.
_FILE_NAME = re.compile(r".+\.(txt|jsonl?|gz|bz2|xz|zst|zip|bin|gguf|pt|safetensors|vec)", re.IGNORECASE)
_TEMPORARY = ".tmp"
_SEAL = b"\n<!-- SHA-256 of the above: "
_SHARD = re.compile(r"(shard-\d{5})\.safetensors")
_NAMED_BY_CONTENT = re.compile(
    "|".join([rf"{Path(n).stem}-[0-9a-f]{{16}}\{Path(n).suffix}" for n in _DATA])
    + r"|shard-\d{5}-[0-9a-f]{16}\.safetensors"
)
_LEFTOVER = re.compile(
    rf"({'|'.join(map(re.escape, (*_DATA, CONFIG, CARD)))}|{_SHARD.pattern})\.[0-9a-f]{{8}}\{_TEMPORARY}"
)


def check_folder_name(folder: Path) -> None:
    """Raise OutputError where the name of a new model is that of a file, and not written with a slash at its end."""
    if isinstance(folder, FolderPath):
        return
    if ends_in(folder, NGRAM_FILE_SUFFIXES):
        raise OutputError(
            f"{folder}: this is the name of a file of n-grams, which `chainrule convert` makes of an n-gram model; a "
            "model is a folder: choose another name, or end it with a slash"
        )
    if folder.exists():
        return
    if folder.suffix.lower() == ".gguf":
        raise OutputError(
            f"{folder}: a GGUF file holds a Transformer that continues texts or embeds them, of a kind that llama.cpp "
            "has; this model is saved as a folder: choose another name"
        )
    if _FILE_NAME.fullmatch(folder.name):
        raise OutputError(
            f"{folder}: a model is a folder, and this is the name of a file; leave out {folder.suffix}, or, for an "
            "n-gram model as an ARPA file, choose a name that ends in .arpa or .arpa.gz; or end a folder's name with a "
            "slash"
        )


def check_target(folder: Path, *, overwrite: bool) -> None:
    """Raise OutputError if a model cannot or should not be saved here; to be called before the work, not after it."""
    with os_errors_as(OutputError, folder, "accessed", "choose another path"):
        check_folder_name(folder)
        if folder.is_dir():
            if (folder / CONFIG).exists():
                if _is_foreign(folder / CONFIG):
                    raise OutputError(f"{folder}: its {CONFIG} is of another program; choose another folder")
                if not overwrite:
                    raise OutputError(
                        f"{folder}: there is a model already; use overwrite=True to replace it, "
                        "or choose another folder"
                    )
            elif not all(path.name in RUN or _is_ours(path) for path in folder.iterdir()):
                raise OutputError(f"{folder}: this folder holds other files and no model; choose a new folder")
        elif folder.exists():
            raise OutputError(f"{folder}: a file is in the way; a model is a folder, so choose another name")
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
    """Save a model and commit it.

    arrays: one whose name begins with shard-00000/ is in a file of that shard. texts: the contents of further data
    files: tokenizer.json, source-tokenizer.json.
    Raises OutputError. After an error or an interrupt before the commit, the folder is as it was.
    Raises EstimationError if a number is NaN.
    """
    for name, array in arrays.items():
        check_savable(name, array)
    texts = texts or {}
    if not texts.keys() <= set(_DATA[1:]):
        raise ValueError(f"a model folder has no data files {sorted(texts)}; it may have {', '.join(_DATA[1:])}")
    check_target(folder, overwrite=overwrite)
    tag = f".{secrets.token_hex(4)}{_TEMPORARY}"
    with _undo_on_failure(folder) as new_path, lock_folder(folder):
        check_target(folder, overwrite=overwrite)  # again: another process may have been faster
        by_file = _by_file(arrays)
        written = {name: new_path(name + tag) for name in (*by_file, *texts)}
        digests = {name: write_tensors(written[name], own, progress) for name, own in by_file.items()}
        for name, data in texts.items():
            digests[name] = _write_synced(written[name], data)
        files = {
            name: FileEntry(name=_content_name(name, digests[name]), bytes=path.stat().st_size, sha256=digests[name])
            for name, path in written.items()
        }
        readme, config = new_path(CARD + tag), new_path(CONFIG + tag)
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
        _write_synced(readme, _with_checksum(card.encode("utf-8", "replace")))
        for name, path in written.items():
            os.replace(path, new_path(files[name].name))
        sync_folder(folder)
        os.replace(config, folder / CONFIG)  # the commit
        os.replace(readme, folder / CARD)
        sync_folder(folder)
        named = {file.name for file in files.values()}
        for old in filter(_is_ours, folder.iterdir()):
            if old.name not in named:
                with suppress(OSError):
                    old.unlink()


class FolderContents(NamedTuple):
    """The contents of a model folder."""

    entry: ModelEntry
    arrays: dict[str, ndarray]  # mapped into memory
    texts: dict[str, bytes]  # the other data files
    mapped: MappedFile


def saved_family(folder: Path) -> str | None:
    """Return the family of the model in a folder; None where there is no model folder of ours. Raises
    ModelFormatError.
    """
    is_ours = (folder / CONFIG).is_file() and not is_hugging_face(folder)
    return read_config(folder).family if is_ours else None


def base_of(folder: Path, *candidates: str | None) -> Path:
    """Return the first of some paths that exists, as they are or beside the folder. Raises ModelFormatError."""
    named = [name for name in candidates if name]
    for name in named:
        for path in (folder / name, Path(name)):
            if path.exists() or source_of(path) is not None:
                return path
    raise ModelFormatError(
        f"{folder}: is an adapter of {named[0] if named else 'a model that it does not name'}, and no such model is "
        "here; chainrule convert BASE OUTPUT --adapter "
        f"{folder} merges it with one that is elsewhere{suggestion(named[0]) if named else ''}"
    )


def open_model(folder: Path) -> FolderContents:
    """Open a model folder in constant time, except that it reads and checks the small data files.

    Raises ModelFormatError.
    """
    while True:
        before = _commit_of(folder)
        try:
            entry = read_config(folder)
            shards = {name: match[1] for name in entry.files if (match := _SHARD.fullmatch(name))}
            texts = {name: _read_checked(folder, entry, name) for name in entry.files if name not in {ARRAYS, *shards}}
            mapped = MappedFile(_data_file(folder, entry, ARRAYS))
            arrays = open_tensors(_data_file(folder, entry, ARRAYS))
            for name, shard in shards.items():
                own = open_tensors(_data_file(folder, entry, name))
                arrays.update({f"{shard}/{array}": numbers for array, numbers in own.items()})
            return FolderContents(entry, arrays, texts, mapped)
        except ModelFormatError:
            if before == _commit_of(folder):
                raise
            # Another process replaced the model while it was being opened: open the new one.


def _commit_of(folder: Path) -> tuple[int, int] | None:
    """Return what identifies the current replacement of the configuration: an equal one may come back after another."""
    try:
        status = (folder / CONFIG).stat()
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns


def open_data_file(folder: Path, entry: ModelEntry, name: str) -> dict[str, ndarray]:
    """Return the arrays of one data file, mapped into memory. Raises ModelFormatError."""
    return open_tensors(_data_file(folder, entry, name))


def verify_model(folder: Path, progress: Progress = silent) -> ModelEntry:
    """Read all files of a model and compare their checksums. Raises ModelFormatError, which names all that differ."""
    entry = read_config(folder)
    checks = [partial(check_unedited, folder, entry), partial(_check_card, folder / CARD)]
    checks += [partial(_check_data, folder, entry, name, progress) for name in sorted({ARRAYS, *entry.files})]
    errors: list[ModelFormatError] = []
    for check in checks:
        try:
            check()
        except ModelFormatError as error:
            errors.append(error)
    if errors:
        raise ModelFormatError("; also ".join(map(str, errors))) from errors[0]
    return entry


def _by_file(arrays: dict[str, ndarray]) -> dict[str, dict[str, ndarray]]:
    """Return the arrays of each data file."""
    files: dict[str, dict[str, ndarray]] = {ARRAYS: {}}
    for name, array in arrays.items():
        file, _, own = name.partition("/")
        if _SHARD.fullmatch(f"{file}.safetensors"):
            files.setdefault(f"{file}.safetensors", {})[own] = array
        else:
            files[ARRAYS][name] = array
    return files


def _data_file(folder: Path, entry: ModelEntry, name: str) -> Path:
    """Return the path of a data file, which exists and has the right size. Raises ModelFormatError."""
    if name not in _DATA and not _SHARD.fullmatch(name):
        raise ModelFormatError(f"{folder / CONFIG}: files.{name} is unknown; expected {' or '.join(_DATA)}")
    data = entry.files.get(name)
    if data is None or Path(data.name).name != data.name or data.name in ("", "..") or "\0" in data.name:
        raise ModelFormatError(f"{folder / CONFIG}: files.{name} must name a file in the folder")
    path = folder / data.name
    with os_errors_as(ModelFormatError, path, "opened", "the model is incomplete"):
        size = path.stat().st_size
    if size != data.bytes:
        raise ModelFormatError(f"{path}: has {size:,} bytes, expected {data.bytes:,}; it was cut off or changed")
    return path


def _read_checked(folder: Path, entry: ModelEntry, name: str) -> bytes:
    """Return the contents of a data file that is small enough to be checked every time. Raises ModelFormatError."""
    _check_data(folder, entry, name, silent)
    path = _data_file(folder, entry, name)
    with os_errors_as(ModelFormatError, path, "read"):
        return read_file(path)


def _check_data(folder: Path, entry: ModelEntry, name: str, progress: Progress) -> None:
    path, expected = _data_file(folder, entry, name), entry.files[name].sha256
    with os_errors_as(ModelFormatError, path, "read"):
        digest = file_digest(path, progress)
    if digest != expected:
        raise ModelFormatError(
            f"{path}: its SHA-256 is {digest}, expected {expected}; the file has changed since it was written"
        )


def _check_card(path: Path) -> None:
    """Check the card; a missing one is no error: no program needs it, and a kill right after a first commit leaves
    none.
    """
    card = _read_if_present(path)
    if card is not None and card != _with_checksum(card.rpartition(_SEAL)[0]):
        raise ModelFormatError(
            f"{path}: the card was edited or damaged after it was written; the model does not need it"
        )


def _with_checksum(card: bytes) -> bytes:
    """Return a card followed by its own checksum, so that it can be checked even if a kill leaves it with another
    model.
    """
    return card + _SEAL + hashlib.sha256(card).hexdigest().encode() + b" -->\n"


@contextmanager
def _undo_on_failure(folder: Path) -> Iterator[Callable[[str], Path]]:
    """Yield a function that gives the paths of new files in a folder.

    If the block fails, these files are removed, and the folders created for them. After the commit, the files that
    config.json names stay.
    """
    new_folders = [path for path in (folder, *folder.parents) if not path.exists()]
    before = _read_if_present(folder / CONFIG)
    new_files: list[Path] = []

    def new_path(name: str) -> Path:
        path = folder / name
        if not path.exists():  # a data file with the same content may exist already
            new_files.append(path)
        return path

    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield new_path
    except BaseException as error:
        # Ask the disk, not a variable: Ctrl-C may come right after the commit.
        committed = _read_if_present(folder / CONFIG) != before
        for path in new_files:
            if not (committed and _NAMED_BY_CONTENT.fullmatch(path.name)):
                with suppress(OSError):
                    path.unlink()
        for path in new_folders:
            with suppress(OSError):
                path.rmdir()
        if isinstance(error, OSError):
            outcome = f"the model was saved, but its {CARD} may not be" if committed else "nothing was changed"
            raise OutputError(f"{folder}: cannot be written: {error.strerror}; {outcome}") from error
        raise


def _is_foreign(config: Path) -> bool:
    """Return whether this is JSON that chainrule did not write, such as a config.json of Hugging Face."""
    try:
        return "family" not in json.loads(read_file(config))
    except (ValueError, TypeError, RecursionError):
        return False  # damaged, so it may have been ours


def _is_ours(path: Path) -> bool:
    """Return whether a file is a model's data, or left by a save that was killed."""
    return _NAMED_BY_CONTENT.fullmatch(path.name) is not None or _LEFTOVER.fullmatch(path.name) is not None


def _content_name(name: str, digest: str) -> str:
    return f"{Path(name).stem}-{digest[:16]}{Path(name).suffix}"


def _read_if_present(path: Path) -> bytes | None:
    try:
        return read_file(path)
    except OSError:
        return None


def _write_synced(path: Path, data: bytes) -> str:
    """Write and sync a file, and return its SHA-256. Raises OSError."""
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return hashlib.sha256(data).hexdigest()


VOCABULARY_ARRAYS, SPELLER_ARRAYS = "vocabulary.", "speller."  # prefixes of array names
