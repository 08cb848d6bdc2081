"""Writes GGUF files, version 3: metadata of plain types, and tensors in any of ggml's types, as bytes."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.base.files import replace_file
from chainrule.features.open.gguf.file import BLOCK_TYPES, MAGIC

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy import ndarray

    Value = str | bool | int | float | Sequence[str] | Sequence[bool] | Sequence[int] | Sequence[float]

_ALIGNMENT = 32
_TYPES: dict[type, tuple[int, str]] = {bool: (7, "?"), int: (4, "I"), float: (6, "f")}
_STRING, _ARRAY, _SIGNED = 8, 9, (5, "i")
NUMBERS = {kind.name: number for number, kind in BLOCK_TYPES.items()}


class Written(NamedTuple):
    """A tensor for a file. kind: ggml's type, by name. shape: the outermost dimension first. data: returns its
    bytes.
    """

    kind: str
    shape: tuple[int, ...]
    data: Callable[[], ndarray]

    @property
    def bytes(self) -> int:
        kind = BLOCK_TYPES[NUMBERS[self.kind]]
        return int(np.prod(self.shape, dtype=np.int64)) // kind.weights * kind.bytes


def in_float32(tensor: ndarray) -> Written:
    return Written("F32", tensor.shape, lambda: np.ascontiguousarray(tensor, "<f4"))


def write_gguf(path: Path, metadata: Mapping[str, Value], tensors: Mapping[str, Written]) -> None:
    """Write a file that replaces `path` when it is whole. Raises OutputError."""
    header = MAGIC + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for name, value in metadata.items():
        header += _text(name) + _value(value)
    begin = 0
    for name, tensor in tensors.items():
        sizes = tensor.shape[::-1]
        header += _text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, NUMBERS[tensor.kind], begin)
        begin += -(-tensor.bytes // _ALIGNMENT) * _ALIGNMENT
    with replace_file(path) as file:
        file.write(header + b"\0" * (-len(header) % _ALIGNMENT))
        for tensor in tensors.values():
            file.write(np.ascontiguousarray(tensor.data()).view(np.uint8).data)
            file.write(b"\0" * (-tensor.bytes % _ALIGNMENT))


def _text(value: str) -> bytes:
    data = value.encode("utf-8", "surrogateescape")
    return struct.pack("<Q", len(data)) + data


def _value(value: Value) -> bytes:
    """Return a value after the number of its type; arrays of integers are signed, as those of llama.cpp's converter."""
    if isinstance(value, str):
        return struct.pack("<I", _STRING) + _text(value)
    if isinstance(value, bool | int | float):
        number, code = _TYPES[type(value)]
        return struct.pack(f"<I{code}", number, value)
    if not value or isinstance(value[0], str):
        return struct.pack("<IIQ", _ARRAY, _STRING, len(value)) + b"".join(_text(str(one)) for one in value)
    number, code = _SIGNED if type(value[0]) is int else _TYPES[type(value[0])]
    return struct.pack(f"<IIQ{len(value)}{code}", _ARRAY, number, len(value), *value)
