"""Reads GGUF files, versions 2 and 3, little-endian: metadata, and tensors that may be quantised.

The magic GGUF, the version, the number of tensors and of metadata entries;
for each metadata entry, its name, type and value;
for each tensor, its name, dimensions (the innermost first), type, and the offset of its data;
the data, each tensor at a multiple of general.alignment.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.files import open_regular
from chainrule.errors import ModelFormatError
from chainrule.storage.gguf_blocks import BLOCK_TYPES, BlockType, dequantise

if TYPE_CHECKING:
    from pathlib import Path

    from numpy import ndarray

MAGIC = b"GGUF"
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MAX_DIMENSIONS, _MAX_SIZE = 4, 1 << 40


class _Layout(NamedTuple):
    kind: BlockType
    shape: tuple[int, ...]  # the outermost dimension first
    begin: int
    bytes: int


class Tensors(Mapping[str, "ndarray"]):
    """The tensors of a file, read on access."""

    def __init__(self, mapped: mmap.mmap, layouts: dict[str, _Layout]) -> None:
        self._mapped, self._layouts = mapped, layouts

    def __getitem__(self, name: str) -> ndarray:
        layout = self._layouts[name]
        data = np.frombuffer(self._mapped, np.uint8, layout.bytes, layout.begin)
        return dequantise(layout.kind, data).reshape(layout.shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._layouts)

    def __len__(self) -> int:
        return len(self._layouts)

    def kinds(self) -> dict[str, str]:
        """The type of each tensor, by name."""
        return {name: layout.kind.name for name, layout in self._layouts.items()}


class Gguf(NamedTuple):
    """The contents of a file."""

    metadata: dict[str, Any]
    tensors: Tensors


def is_gguf(path: Path) -> bool:
    """Whether a path is a GGUF file. Only regular files are opened: opening a pipe would wait for its writer."""
    if not path.is_file():
        return False
    try:
        with open_regular(path) as file:
            return file.read(4) == MAGIC
    except OSError:
        return False


def open_gguf(path: Path) -> Gguf:
    """Opens a file, mapped into memory; sizes in its header are checked before use. Raises ModelFormatError."""
    try:
        with open_regular(path) as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except (OSError, ValueError) as error:
        raise ModelFormatError(f"{path}: cannot be opened: {getattr(error, 'strerror', None) or error}") from error
    try:
        return _read(mapped)
    except _FileError as error:
        raise ModelFormatError(f"{path}: {error}") from None
    except (struct.error, UnicodeDecodeError, IndexError) as error:
        raise ModelFormatError(f"{path}: is cut off or damaged: {error}") from error


class _FileError(Exception):
    """A damaged file; the message does not name it."""


class _Cursor:
    """Reads a header value by value."""

    def __init__(self, mapped: mmap.mmap) -> None:
        self.mapped, self.position = mapped, 0

    def number(self, code: str) -> Any:
        [value] = struct.unpack_from("<" + code, self.mapped, self.position)
        self.position += struct.calcsize("<" + code)
        return value

    def count(self, least: int) -> int:
        """The number of values that follow. least: bytes of each, at least. Raises _FileError."""
        number = int(self.number("Q"))
        if number * least > len(self.mapped) - self.position:
            raise _FileError(
                f"its header claims {number:,} values at byte {self.position:,}, but the file has {len(self.mapped):,} "
                "bytes; it is cut off or damaged"
            )
        return number

    def string(self) -> str:
        length = self.count(1)
        self.position += length
        return self.mapped[self.position - length : self.position].decode()

    def value(self, kind: int) -> Any:
        """A value of a type. Raises _FileError."""
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        if kind == _STRING:
            return self.string()
        if kind != _ARRAY:
            raise _FileError(f"its metadata has a value of unknown type {kind}; the file is damaged")
        kind = int(self.number("I"))
        if kind in _NUMBERS:
            code = np.dtype(_NUMBERS[kind]).newbyteorder("<")
            number = self.count(code.itemsize)
            values = np.frombuffer(self.mapped, code, number, self.position)
            self.position += values.nbytes
            return values.tolist()
        if kind != _STRING:
            raise _FileError(f"its metadata has an array of unknown type {kind}; the file is damaged")
        return [self.string() for _ in range(self.count(8))]


def _read(mapped: mmap.mmap) -> Gguf:
    """Raises _FileError, struct.error, UnicodeDecodeError."""
    cursor = _Cursor(mapped)
    cursor.position = len(MAGIC)
    version = cursor.number("I")
    if mapped[: len(MAGIC)] != MAGIC or version not in (2, 3):
        raise _FileError(f"is GGUF version {version}; expected 2 or 3, little-endian")
    tensors, values = cursor.count(24), cursor.count(13)
    metadata: dict[str, Any] = {}
    for _ in range(values):
        name = cursor.string()
        metadata[name] = cursor.value(cursor.number("I"))
    alignment = metadata.get("general.alignment", 32)
    if type(alignment) is not int or not 1 <= alignment <= 1 << 20:
        raise _FileError(f"general.alignment is {alignment!r}; expected a number of bytes from 1 to 1,048,576")
    layouts: dict[str, _Layout] = {}
    for _ in range(tensors):
        name = cursor.string()
        if name in layouts:
            raise _FileError(f"has the tensor {name!r} twice; the file is damaged")
        layouts[name] = _layout(cursor, name)
    base = -(-cursor.position // alignment) * alignment
    for name, layout in layouts.items():
        if base + layout.begin + layout.bytes > len(mapped):
            raise _FileError(f"the tensor {name!r} ends after the end of the file; it is cut off or damaged")
    absolute = {name: layout._replace(begin=base + layout.begin) for name, layout in layouts.items()}
    return Gguf(metadata, Tensors(mapped, absolute))


def _layout(cursor: _Cursor, name: str) -> _Layout:
    """Raises _FileError."""
    dimensions = cursor.number("I")
    if dimensions > _MAX_DIMENSIONS:
        raise _FileError(f"the tensor {name!r} has {dimensions} dimensions; expected at most {_MAX_DIMENSIONS}")
    shape = tuple(int(cursor.number("Q")) for _ in range(dimensions))[::-1]
    number, begin = cursor.number("I"), int(cursor.number("Q"))
    if number not in BLOCK_TYPES:
        known = ", ".join(kind.name for kind in BLOCK_TYPES.values())
        raise _FileError(
            f"the tensor {name!r} has ggml's type {number}, which is not supported; expected one of {known}"
        )
    kind = BLOCK_TYPES[number]
    size = math.prod(shape)
    if size > _MAX_SIZE or (shape and shape[-1] % kind.weights):
        raise _FileError(
            f"the tensor {name!r} has the shape {list(shape)}, which {kind.name} cannot store; the file is damaged"
        )
    return _Layout(kind, shape, begin, size // kind.weights * kind.bytes)
