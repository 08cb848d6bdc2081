"""GGUF files: metadata, and tensors that may be quantised. Version 2 and 3, little-endian.

GGUF, version, number of tensors, number of metadata
metadata: a name, a type, a value
tensors: a name, its sides (the inner one first), a type, and where its data begins
the data, each tensor at a multiple of general.alignment
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.errors import ModelFormatError
from chainrule.storage.gguf_blocks import BLOCK_TYPES, BlockType, dequantise

if TYPE_CHECKING:
    from pathlib import Path

    from numpy import ndarray

MAGIC = b"GGUF"
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MOST_SIDES, _LARGEST = 4, 1 << 40


class _Layout(NamedTuple):
    kind: BlockType
    shape: tuple[int, ...]  # the outer side first
    begin: int
    bytes: int


class Tensors(Mapping[str, "ndarray"]):
    """The tensors of a file, read when they are asked for."""

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
        """The type of each."""
        return {name: layout.kind.name for name, layout in self._layouts.items()}


class Gguf(NamedTuple):
    metadata: dict[str, Any]
    tensors: Tensors


def is_gguf(path: Path) -> bool:
    """Whether a regular file begins as one; a pipe is not opened, which would wait for somebody to write."""
    if not path.is_file():
        return False
    try:
        with open(path, "rb") as file:
            return file.read(4) == MAGIC
    except OSError:
        return False


def open_gguf(path: Path) -> Gguf:
    """Raises ModelFormatError; nothing is allocated by what a header claims."""
    try:
        with open(path, "rb") as file:
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
    """What is wrong, without the file."""


class _Cursor:
    """Goes through a header from its beginning."""

    def __init__(self, mapped: mmap.mmap) -> None:
        self.mapped, self.place = mapped, 0

    def number(self, code: str) -> Any:
        [value] = struct.unpack_from("<" + code, self.mapped, self.place)
        self.place += struct.calcsize("<" + code)
        return value

    def count(self, least: int) -> int:
        """How many of something follow that have at least so many bytes each. Raises _FileError."""
        number = int(self.number("Q"))
        if number * least > len(self.mapped) - self.place:
            raise _FileError(
                f"its header claims {number:,} values at byte {self.place:,}, but the file has {len(self.mapped):,} "
                "bytes; it is cut off or damaged"
            )
        return number

    def string(self) -> str:
        length = self.count(1)
        self.place += length
        return self.mapped[self.place - length : self.place].decode()

    def value(self, kind: int) -> Any:
        """Raises _FileError."""
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        if kind == _STRING:
            return self.string()
        if kind != _ARRAY:
            raise _FileError(f"its metadata has a value of type {kind}, which is not known; it is damaged")
        kind = int(self.number("I"))
        if kind in _NUMBERS:
            code = np.dtype(_NUMBERS[kind]).newbyteorder("<")
            number = self.count(code.itemsize)
            values = np.frombuffer(self.mapped, code, number, self.place)
            self.place += values.nbytes
            return values.tolist()
        if kind != _STRING:
            raise _FileError(f"its metadata has an array of type {kind}, which is not known; it is damaged")
        return [self.string() for _ in range(self.count(8))]


def _read(mapped: mmap.mmap) -> Gguf:
    """Raises _FileError, struct.error, UnicodeDecodeError."""
    cursor = _Cursor(mapped)
    cursor.place = len(MAGIC)
    version = cursor.number("I")
    if mapped[: len(MAGIC)] != MAGIC or version not in (2, 3):
        raise _FileError(f"is GGUF of version {version}; expected 2 or 3, little-endian")
    tensors, values = cursor.count(24), cursor.count(13)
    metadata: dict[str, Any] = {}
    for _ in range(values):
        name = cursor.string()
        metadata[name] = cursor.value(cursor.number("I"))
    alignment = metadata.get("general.alignment", 32)
    if type(alignment) is not int or not 1 <= alignment <= 1 << 20:
        raise _FileError(f"general.alignment is {alignment!r}; expected a number of bytes")
    layouts: dict[str, _Layout] = {}
    for _ in range(tensors):
        name = cursor.string()
        if name in layouts:
            raise _FileError(f"has the tensor {name!r} twice")
        layouts[name] = _layout(cursor, name)
    base = -(-cursor.place // alignment) * alignment
    for name, layout in layouts.items():
        if base + layout.begin + layout.bytes > len(mapped):
            raise _FileError(f"the tensor {name!r} ends after the file does; it is cut off or damaged")
    return Gguf(metadata, Tensors(mapped, {n: each._replace(begin=base + each.begin) for n, each in layouts.items()}))


def _layout(cursor: _Cursor, name: str) -> _Layout:
    """Raises _FileError."""
    sides = cursor.number("I")
    if sides > _MOST_SIDES:
        raise _FileError(f"the tensor {name!r} has {sides} dimensions; expected at most {_MOST_SIDES}")
    shape = tuple(int(cursor.number("Q")) for _ in range(sides))[::-1]
    number, begin = cursor.number("I"), int(cursor.number("Q"))
    if number not in BLOCK_TYPES:
        known = ", ".join(kind.name for kind in BLOCK_TYPES.values())
        raise _FileError(f"the tensor {name!r} is of ggml's type {number}, which is not read here; known are {known}")
    kind = BLOCK_TYPES[number]
    size = math.prod(shape)
    if size > _LARGEST or (shape and shape[-1] % kind.weights):
        raise _FileError(f"the tensor {name!r} is {list(shape)}, which cannot be in {kind.name}; the file is damaged")
    return _Layout(kind, shape, begin, size // kind.weights * kind.bytes)
