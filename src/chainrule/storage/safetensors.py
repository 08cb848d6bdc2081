"""Named arrays in one file, in the safetensors layout: 8 bytes of header length, a JSON header, the arrays' bytes.
Nothing is executed.

Reading checks the header against the file's size before anything is allocated, and maps the arrays into memory instead
of copying them.
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
from chainrule.base.progress import Progress, silent
from chainrule.errors import ModelFormatError

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
    """Writes and syncs a file; its SHA-256. metadata: what the header says beside the arrays. Raises OSError."""
    # Wider types first, so that every array begins at a multiple of its item size.
    ordered = dict(sorted(arrays.items(), key=lambda item: (-item[1].dtype.itemsize, item[0])))
    header: dict[str, Any] = {} if metadata is None else {_METADATA: metadata}
    place = 0
    for name, array in ordered.items():
        header[name] = {
            "dtype": _NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [place, place + array.nbytes],
        }
        place += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % _ALIGNMENT)
    digest = hashlib.sha256()
    with open(path, "wb") as file, ThreadPoolExecutor(1) as beside:

        def put(data: bytes | memoryview) -> None:
            hashed = beside.submit(digest.update, data)
            file.write(data)
            hashed.result()

        put(len(text).to_bytes(8, "little") + text)
        header_size = written = 8 + len(text)
        for array in ordered.values():
            data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
            while data:
                # Whole chunks from multiples of _CHUNK on: so the system keeps them in large pages, quicker to map.
                part = data[: _CHUNK - written % _CHUNK]
                put(part)
                data, written = data[len(part) :], written + len(part)
                progress("saving", written - header_size, place)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def open_tensors(path: Path) -> dict[str, ndarray]:
    """The arrays of a file, mapped privately: they can be written to, and the file stays as it is.

    Raises ModelFormatError.
    """
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(size - 8, _MAX_HEADER):
                raise ModelFormatError(
                    f"{path}: the header claims {length:,} bytes, but the file has {size:,}; "
                    "it is cut off or no safetensors file"
                )
            header = file.read(length)
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            if hasattr(mmap, "MADV_HUGEPAGE"):  # look-ups far apart wait less for the tables of large pages
                with suppress(OSError):
                    mapped.madvise(mmap.MADV_HUGEPAGE)
    except OSError as error:
        raise ModelFormatError(f"{path}: cannot be opened: {error.strerror}") from error
    try:
        entries = json.loads(header)
        if not isinstance(entries, dict):
            raise TypeError
    except (ValueError, TypeError, RecursionError) as error:
        raise ModelFormatError(f"{path}: the header is no JSON object; the file is damaged") from error
    base = 8 + length
    places = {name: _place_of(path, name, entry, size - base) for name, entry in entries.items() if name != _METADATA}
    spans = sorted((place.start, place.stop) for place in places.values())
    if [0, *(stop for _, stop in spans)] != [*(start for start, _ in spans), size - base]:
        raise ModelFormatError(
            f"{path}: the arrays do not lie side by side from the header to the file's end; it is cut off or damaged"
        )
    return {name: _mapped_array(mapped, base, place) for name, place in places.items()}


class MappedFile:
    """A file as it was when it was opened, so that a change in place can be told: what is mapped would change with it.

    A file that is replaced by another, as our own saves do, is no change: what is mapped stays what it was.
    """

    def __init__(self, path: Path) -> None:
        """Raises ModelFormatError where there is no such file."""
        self._path = path
        try:
            self._opened = os.stat(path)
        except OSError as error:
            raise ModelFormatError(f"{path}: cannot be opened: {error.strerror}") from error

    def check(self) -> None:
        """Raises ModelFormatError where the file was written to, cut off or touched; costs a microsecond."""
        try:
            now = os.stat(self._path)
        except OSError:  # gone, and its pages are still ours
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
    """The SHA-256 of a file. Raises OSError."""
    digest = hashlib.sha256()
    size, done = os.path.getsize(path), 0
    with open(path, "rb") as file:
        while data := file.read(_CHUNK):
            digest.update(data)
            done += len(data)
            progress("verifying", done, size)
    return digest.hexdigest()


class _Place(NamedTuple):
    dtype: np.dtype[Any]
    shape: list[int]
    start: int  # of its bytes, after the header
    stop: int


def _place_of(path: Path, name: str, entry: Any, room: int) -> _Place:
    """Where an array lies in the `room` bytes after the header. Raises ModelFormatError."""
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
    # Zeros left out, since NumPy wants the other sides of an empty array to be in bounds too.
    sane = len(shape) <= _MAX_DIMENSIONS and math.prod(filter(None, shape)) * dtype.itemsize < _MAX_BYTES
    if not (sane and 0 <= start <= stop <= room and stop - start == math.prod(shape) * dtype.itemsize):
        raise ModelFormatError(
            f"{path}: the array {name!r} does not fit its place in the file: {reprlib.repr(entry)}; "
            "the file is cut off or damaged"
        )
    return _Place(dtype, shape, start, stop)


def _mapped_array(mapped: mmap.mmap, base: int, place: _Place) -> ndarray:
    array = np.frombuffer(mapped, np.uint8, place.stop - place.start, base + place.start)
    if (base + place.start) % place.dtype.itemsize:  # written by another program
        array = array.copy()
    return array.view(place.dtype).reshape(place.shape)
