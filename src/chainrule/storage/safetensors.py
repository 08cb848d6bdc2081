"""Named arrays in a safetensors file: the header's length in 8 bytes, a JSON header, the bytes of the arrays.

Reading executes nothing, checks the header against the file's size before it allocates anything, and maps the arrays
into memory instead of copying them.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
import reprlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.bfloat16 import BFLOAT16
from chainrule.base.files import open_regular
from chainrule.base.progress import Progress, silent
from chainrule.base.scratch import release_pages
from chainrule.errors import ModelFormatError, os_errors_as

if TYPE_CHECKING:
    from pathlib import Path

    from numpy import ndarray

_TYPES: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
    "U8": np.dtype("|u1"),
    "U64": np.dtype("<u8"),
    "BF16": BFLOAT16,
    "F16": np.dtype("<f2"),
    "BOOL": np.dtype("|b1"),
    "I8": np.dtype("|i1"),
    "I16": np.dtype("<i2"),
    "U16": np.dtype("<u2"),
    "U32": np.dtype("<u4"),
}
_NAMES = {dtype: name for name, dtype in _TYPES.items()}
_METADATA = "__metadata__"
_ALIGNMENT = 64
_CHUNK = 1 << 24
_MAX_HEADER = 100_000_000  # the safetensors library's own bound
_MAX_DIMENSIONS, _MAX_BYTES = 32, 1 << 62  # within NumPy's own bounds


def write_tensors(
    path: Path,
    arrays: dict[str, ndarray],
    progress: Progress = silent,
    *,
    metadata: dict[str, str] | None = None,
) -> str:
    """Write and sync a file, and return its SHA-256. metadata: entries of the header besides the arrays.

    Raises OSError.
    """
    # Wider types first, so that every array starts at a multiple of its item size.
    ordered = dict(sorted(arrays.items(), key=lambda item: (-item[1].dtype.itemsize, item[0])))
    header: dict[str, Any] = {} if metadata is None else {_METADATA: metadata}
    offset = 0
    for name, array in ordered.items():
        header[name] = {
            "dtype": _NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % _ALIGNMENT)
    digest = hashlib.sha256()
    with open(path, "wb") as file, ThreadPoolExecutor(1) as hashing_thread:

        def write(data: bytes | memoryview) -> None:
            hashing = hashing_thread.submit(digest.update, data)
            file.write(data)
            hashing.result()

        write(len(text).to_bytes(8, "little") + text)
        header_size = written = 8 + len(text)
        for array in ordered.values():
            data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
            while data:
                # Chunks that start at multiples of _CHUNK: the system caches them in large pages, faster to map.
                part = data[: _CHUNK - written % _CHUNK]
                write(part)
                data, written = data[len(part) :], written + len(part)
                release_pages()
                progress("saving", written - header_size, offset)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def open_tensors(path: Path) -> dict[str, ndarray]:
    """Return the arrays of a file, mapped copy-on-write: they can be written to without changing the file.

    Raises ModelFormatError.
    """
    with os_errors_as(ModelFormatError, path, "opened"), open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, _MAX_HEADER):
            raise ModelFormatError(
                f"{path}: the header claims {length:,} bytes, but the file has {size:,}; "
                "it is cut off, or not a safetensors file"
            )
        header = file.read(length)
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        if hasattr(mmap, "MADV_HUGEPAGE"):  # fewer misses of the address cache in random look-ups
            with suppress(OSError):
                mapped.madvise(mmap.MADV_HUGEPAGE)
    try:
        entries = json.loads(header)
        if not isinstance(entries, dict):
            raise TypeError
    except (ValueError, TypeError, RecursionError) as error:
        raise ModelFormatError(f"{path}: the header is not a JSON object; the file is damaged") from error
    base = 8 + length
    layouts = {
        name: _check_layout(path, name, entry, size - base) for name, entry in entries.items() if name != _METADATA
    }
    spans = sorted((layout.start, layout.stop) for layout in layouts.values())
    if [0, *(stop for _, stop in spans)] != [*(start for start, _ in spans), size - base]:
        raise ModelFormatError(
            f"{path}: the arrays do not fill the file from the header to its end; it is cut off or damaged"
        )
    return {name: _map_array(mapped, base, layout) for name, layout in layouts.items()}


class MappedFile:
    """Detects that a file was changed in place after it was opened, since arrays mapped from it would change, too.

    Replacing the file by another one, as our own saves do, leaves the mapped arrays as they are and is no change.
    """

    def __init__(self, path: Path) -> None:
        """Note the state of the file. Raises ModelFormatError if there is no such file."""
        self._path = path
        with os_errors_as(ModelFormatError, path, "opened"):
            self._opened = os.stat(path)

    def check(self) -> None:
        """Raise ModelFormatError if the file was written to, truncated or touched. Takes a microsecond."""
        try:
            now = os.stat(self._path)
        except OSError:  # deleted; the mapped pages stay valid
            return
        if os.path.samestat(now, self._opened) and (now.st_size, now.st_mtime_ns) != (
            self._opened.st_size,
            self._opened.st_mtime_ns,
        ):
            raise ModelFormatError(
                f"{self._path}: has been written to since it was opened; open the model again, and save over it with "
                "chainrule or under another name (in Python, load(..., copy=True) keeps the numbers in memory)"
            )


def file_digest(path: Path, progress: Progress = silent) -> str:
    """Return the SHA-256 of a file. Raises OSError."""
    digest = hashlib.sha256()
    size, done = os.path.getsize(path), 0
    with open_regular(path) as file:
        while data := file.read(_CHUNK):
            digest.update(data)
            done += len(data)
            progress("verifying", done, size)
    return digest.hexdigest()


class _Layout(NamedTuple):
    dtype: np.dtype[Any]
    shape: list[int]
    start: int  # in bytes, from the end of the header
    stop: int


def _check_layout(path: Path, name: str, entry: Any, size: int) -> _Layout:
    """Return an array's entry in the header, checked against the `size` bytes after the header.

    Raises ModelFormatError.
    """
    match entry:
        case {"dtype": str(code), "shape": list(shape), "data_offsets": [int(start), int(stop)]} if (
            code in _TYPES and all(type(n) is int and n >= 0 for n in shape)
        ):
            dtype = _TYPES[code]
        case {"dtype": str(code)} if code not in _TYPES:
            raise ModelFormatError(
                f"{path}: the array {name!r} is of type {code}, which is not read here; expected one of "
                f"{', '.join(_TYPES)}"
            )
        case _:
            raise ModelFormatError(f"{path}: the header's entry for {name!r} is not understood: {reprlib.repr(entry)}")
    # Without zeros, since NumPy wants the other dimensions of an empty array to be within its bounds, too.
    in_bounds = len(shape) <= _MAX_DIMENSIONS and math.prod(filter(None, shape)) * dtype.itemsize < _MAX_BYTES
    if not (in_bounds and 0 <= start <= stop <= size and stop - start == math.prod(shape) * dtype.itemsize):
        raise ModelFormatError(
            f"{path}: the array {name!r} does not fit into the file: {reprlib.repr(entry)}; "
            "the file is cut off or damaged"
        )
    return _Layout(dtype, shape, start, stop)


def _map_array(mapped: mmap.mmap, base: int, layout: _Layout) -> ndarray:
    array = np.frombuffer(mapped, np.uint8, layout.stop - layout.start, base + layout.start)
    if (base + layout.start) % layout.dtype.itemsize:  # written by another program
        array = array.copy()
    return array.view(layout.dtype).reshape(layout.shape)
