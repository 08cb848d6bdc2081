"""Atomic replacement of files: a failure or a kill at any moment leaves the old file or the new one.

Also reading small files and JSON, compression, checks that a path can be written, and locking and syncing of folders.
"""

from __future__ import annotations

import bz2
import codecs
import errno
import gzip
import json
import lzma
import math
import os
import secrets
import stat
import sys
import zlib
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from chainrule.errors import OutputError, os_errors_as

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


# Opens compressed bytes, given a path or a file, by the path's suffix; below, the errors it raises besides OSError.
DECOMPRESSORS: dict[str, Callable[..., Any]] = {
    ".gz": gzip.open,
    ".zst": zstd.open,
    ".xz": lzma.open,
    ".bz2": bz2.open,
}
DECOMPRESSION_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, zstd.ZstdError)
_COMPRESSORS: dict[str, Callable[..., Any]] = {
    ".gz": lambda file: gzip.GzipFile("", "wb", 6, file, mtime=0),  # the same content gives the same bytes
    ".zst": lambda file: zstd.ZstdFile(file, "wb", options={zstd.CompressionParameter.checksum_flag: 1}),
    ".xz": partial(lzma.LZMAFile, mode="wb"),
    ".bz2": partial(bz2.BZ2File, mode="wb"),
}
# How names of files end that hold n-grams for other programs: ARPA, automata of OpenFst, word lists of Android.
ARPA_SUFFIXES, FST_SUFFIXES, WORD_LIST_SUFFIXES = (
    tuple(f"{form}{compression}" for compression in ("", *DECOMPRESSORS)) for form in (".arpa", ".fst.txt", ".combined")
)
NGRAM_FILE_SUFFIXES = (*ARPA_SUFFIXES, *FST_SUFFIXES, *WORD_LIST_SUFFIXES)

_PIECE = 1 << 16  # bytes
MOST_READ = 1 << 28  # bytes of a file that is read whole: a tokenizer of a million tokens has a tenth of that


def read_file(
    path: str | os.PathLike[str], most: int = MOST_READ, *, pipes: bool = False, is_text: bool = False
) -> bytes:
    """Return the bytes of a small file, such as one of JSON, a tokenizer, a template or a list.

    most: how many it may have. pipes: whether a pipe is allowed, too, as for the key of a server. is_text: whether a
    byte order mark at the beginning is left out. Raises OSError, whose strerror says what to do.

    good:  read_file(folder / "config.json")
    bad:   Path(name).read_bytes()     # waits at a pipe for ever, and reads a device until memory is full
    """
    with open_regular(path, pipes=pipes) as file:
        size = os.fstat(file.fileno()).st_size  # a buffer of `most` bytes may not fit into memory
        content = file.read(min(size, most) + 1)
        while len(content) <= most and (more := file.read(_PIECE)):  # of a pipe, or of a file that grows
            content += more
        if len(content) > most:
            size = max(os.fstat(file.fileno()).st_size, len(content))
            raise OSError(errno.EFBIG, f"it has {size:,} bytes or more; expected at most {most:,}", os.fspath(path))
    return content.removeprefix(codecs.BOM_UTF8) if is_text else content


def read_text(path: str | os.PathLike[str], most: int = MOST_READ, *, pipes: bool = False) -> str:
    """Return the text of a small file in UTF-8, without a byte order mark. The arguments are those of `read_file`.

    Raises OSError, UnicodeDecodeError.
    """
    return read_file(path, most, pipes=pipes, is_text=True).decode()


def check_small(path: str | os.PathLike[str], most: int = MOST_READ) -> None:
    """Raise OSError as `read_file` would, where another function reads the file, perhaps through a decompressor."""
    with open_regular(path) as file:
        if (size := os.fstat(file.fileno()).st_size) > most:
            raise OSError(errno.EFBIG, f"it has {size:,} bytes; expected at most {most:,}", os.fspath(path))


def open_regular(path: str | os.PathLike[str], *, pipes: bool = False) -> BinaryIO:
    """Return a regular file, after following links, to read. pipes: whether a pipe is allowed, too.

    Raises OSError, also for folders, sockets and devices, and for pipes, without waiting for a writer.
    """
    _check_regular(os.stat(path).st_mode, path, pipes=pipes)  # before opening, which waits at a pipe
    return Path(path).open("rb")


def _check_regular(mode: int, path: str | os.PathLike[str], *, pipes: bool) -> None:
    """Raise OSError if a path is not a regular file; with `pipes`, a pipe is allowed, too."""
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(mode) and not (pipes and stat.S_ISFIFO(mode)):
        what = "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
        raise OSError(errno.EINVAL, f"it is {what}; expected a regular file: copy it to one", os.fspath(path))


class FolderPath(type(Path())):  # type: ignore[misc]  # a concrete path of this system, from Python 3.12 on just Path
    """A path that was written with a slash at its end, and so is that of a folder, whatever its name looks like."""

    def __truediv__(self, name: str | os.PathLike[str]) -> Path:
        """Return the path of a name in the folder, as a path without a slash at its end."""
        return Path(self, name)


def ending_of(path: str | os.PathLike[str], suffixes: tuple[str, ...]) -> str:
    """Return the longest of these in which the name of a file ends, in small letters or capitals; empty without any.

    suffixes: in small letters. A slash at its end makes any name that of a folder, which ends in none.
    """
    name = "" if isinstance(path, FolderPath) else os.fspath(path).lower()
    return max((suffix for suffix in suffixes if name.endswith(suffix)), key=len, default="")


def ends_in(path: str | os.PathLike[str], suffixes: tuple[str, ...]) -> bool:
    """Return whether the name of a file ends in one of these: as `ending_of`."""
    return bool(ending_of(path, suffixes))


def describe_duplicate(names: Sequence[str]) -> str | None:
    """Return the first file or folder named twice, for a message: `a twice`, or `a twice, also as ./a`; None if none
    is.
    """
    names_by_path: dict[str, str] = {}
    for name in names:
        path = os.path.realpath(name)
        if path in names_by_path:
            first = names_by_path[path]
            return f"{first} twice" + (f", also as {name}" if name != first else "")
        names_by_path[path] = name
    return None


@contextmanager
def replace_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a file to write to. It replaces `path` at the end of the `with` block, or disappears if the block fails.

    Raises OutputError, also for an OSError inside the block.
    """
    target = Path(os.path.realpath(path))  # a link stays a link
    if target.is_dir():
        raise OutputError(f"{path}: this is a folder; name a file")
    if target.exists() and not target.is_file():
        raise OutputError(f"{path}: this is a device or a pipe, which cannot be replaced; name a file")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    with os_errors_as(OutputError, path, "written", "nothing was changed"):
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


@contextmanager
def compressing(file: BinaryIO, path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yield the file itself, or a file that compresses into it if the path ends in .gz, .zst, .xz or .bz2."""
    compressor = _COMPRESSORS.get(Path(path).suffix.lower())
    if compressor is None:
        yield file
    else:
        with compressor(file) as compressed:
            yield compressed


def check_writable(path: Path) -> None:
    """Raise OutputError if `path` cannot be written or created; to be called before the work, not after it."""
    with os_errors_as(OutputError, path, "accessed", "choose another path"):
        existing = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    if existing != path and not existing.is_dir():
        raise OutputError(f"{path}: cannot be written, since {existing} is a file and not a folder")
    if not os.access(existing, os.W_OK):
        raise OutputError(f"{path}: cannot be written: no permission to write to {existing}")


def check_new_file(path: Path, *, overwrite: bool, inputs: Iterable[str | os.PathLike[str]] = ()) -> None:
    """Check, before the work, that a file may be written to. inputs: files to read, which it must not replace.

    Raises OutputError.
    """
    if path.is_dir():
        raise OutputError(f"{path}: this is a folder; name a file")
    if path.exists():
        if any(os.path.exists(name) and path.samefile(name) for name in inputs):
            raise OutputError(f"{path}: is one of the files to read; choose another name")
        if not overwrite:
            raise OutputError(f"{path}: exists already; use overwrite=True to replace it, or choose another name")
    if not path.absolute().parent.is_dir():
        raise OutputError(f"{path}: there is no folder {path.parent} to write it in; create it first")
    check_writable(path.parent)


@contextmanager
def lock_folder(folder: Path, *, wait: bool = True) -> Iterator[None]:
    """Lock a folder against other processes. If one has it, waits, or raises BlockingIOError. Raises OSError."""
    try:
        import fcntl
    except ImportError:  # not on Windows: there, the user has to avoid two writers at once
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Sync a folder to disk, so that new file names survive a power cut. Raises OSError."""
    if os.name == "nt":
        return  # Windows cannot open folders
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def parse_json(text: str | bytes) -> Any:
    """Parse a text in JSON. Raises ValueError, which names the key, where a number is NaN: Python's `json` reads
    that.
    """
    read = json.loads(text)
    if (key := nan_key(read)) is not None:
        raise ValueError(f"{key} is NaN; expected a number")
    return read


def nan_key(read: Any, key: str = "") -> str | None:
    """Return where NaN is in what was read, such as settings.network.dropout; None if there is none."""
    if isinstance(read, dict | list):
        entries = read.items() if isinstance(read, dict) else enumerate(read)
        places = (nan_key(entry, f"{key}.{name}" if key else str(name)) for name, entry in entries)
        return next((place for place in places if place is not None), None)
    return key if isinstance(read, float) and math.isnan(read) else None
