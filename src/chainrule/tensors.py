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
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import ModelFormatError
from chainrule.progress import Progress, silent

if TYPE_CHECKING:
    from pathlib import Path

    from numpy import ndarray

_TYPES = {"F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8", "U8": "|u1"}
_NAMES = {np.dtype(code): name for name, code in _TYPES.items()}
_ALIGNMENT = 64
_CHUNK = 1 << 24
_MAX_HEADER = 100_000_000  # the safetensors library's own bound


def write_tensors(path: Path, arrays: dict[str, ndarray], progress: Progress = silent) -> str:
    """Writes and syncs a file; its SHA-256. Raises OSError."""
    # Wider types first, so that every array begins at a multiple of its item size.
    ordered = dict(sorted(arrays.items(), key=lambda item: (-item[1].dtype.itemsize, item[0])))
    header: dict[str, Any] = {}
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
    with open(path, "wb") as file:

        def put(data: bytes | memoryview) -> None:
            file.write(data)
            digest.update(data)

        put(len(text).to_bytes(8, "little") + text)
        done = 0
        for array in ordered.values():
            data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
            for start in range(0, len(data), _CHUNK):
                put(data[start : start + _CHUNK])
                done += len(data[start : start + _CHUNK])
                progress("saving", done, place)
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
    except OSError as error:
        raise ModelFormatError(f"{path}: cannot be opened: {error.strerror}") from error
    try:
        entries = json.loads(header)
        if not isinstance(entries, dict):
            raise TypeError
    except (ValueError, TypeError, RecursionError) as error:
        raise ModelFormatError(f"{path}: the header is no JSON object; the file is damaged") from error
    arrays = {}
    for name, entry in entries.items():
        if name != "__metadata__":
            arrays[name] = _mapped_array(path, name, entry, mapped, 8 + length)
    return arrays


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


def _mapped_array(path: Path, name: str, entry: Any, mapped: mmap.mmap, base: int) -> ndarray:
    try:
        dtype = np.dtype(_TYPES[entry["dtype"]])
        shape = [int(n) for n in entry["shape"] if type(n) is int and n >= 0]
        start, stop = (int(n) for n in entry["data_offsets"])
        whole = len(shape) == len(entry["shape"]) and 0 <= start <= stop <= len(mapped) - base
        fits = whole and stop - start == math.prod(shape) * dtype.itemsize
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ModelFormatError(
            f"{path}: the header's entry for {name!r} is not understood: {str(entry)[:200]}"
        ) from error
    if not fits:
        raise ModelFormatError(
            f"{path}: the array {name!r} does not fit its place in the file: {str(entry)[:200]}; "
            "the file is cut off or damaged"
        )
    array = np.frombuffer(mapped, np.uint8, stop - start, base + start)
    if (base + start) % dtype.itemsize:  # written by another program
        array = array.copy()
    return array.view(dtype).reshape(shape)
