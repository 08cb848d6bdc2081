"""Reads GGUF files, versions 2 and 3, little-endian: metadata, and tensors, dequantised to float32.

A file begins with the magic GGUF, the version, the number of tensors and of metadata entries;
for each metadata entry, its name, type and value;
for each tensor, its name, dimensions (the innermost first), type, and the offset of its data;
the data, each tensor at a multiple of general.alignment.

ggml's source defines the layouts of blocks. A block has 32 or 256 weights. q is the integer stored for a weight, d and
m are the block's scale and minimum, and in the K types s and t are those of 32 or 16 weights within it, in units of d
and m.

    Q4_0  d (q - 8)     Q5_0  d (q - 16)    Q8_0  d q      Q4_K, Q5_K  d s q - m t
    Q4_1  d q + m       Q5_1  d q + m       Q6_K  d s (q - 32)
    MXFP4 2^(e - 127) v, v one of 16 numbers (Open Compute Project 2023)
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from chainrule.base.bfloat16 import BFLOAT16
from chainrule.base.files import open_regular
from chainrule.errors import ModelFormatError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jaxtyping import Float16, Float32, Shaped, UInt8
    from numpy import ndarray

    Blocks = UInt8[ndarray, "blocks bytes"]
    Weights = Float32[ndarray, "blocks weights"]


class Parts(NamedTuple):
    """What blocks hold. scale, minimum: d and m, in float16; None where there is none. scales, minima: s and t; None
    where a block has only d and m. numbers: q. offset: what is taken from q.
    """

    scale: Float16[ndarray, " blocks"]
    minimum: Float16[ndarray, " blocks"] | None
    scales: Shaped[ndarray, "blocks parts"] | None
    minima: UInt8[ndarray, "blocks parts"] | None
    numbers: UInt8[ndarray, "blocks weights"]
    offset: int = 0

    def weights(self) -> Weights:
        """The weights in float32."""
        d, q = self.scale.astype(np.float32)[:, None], self.numbers.astype(np.float32) - np.float32(self.offset)
        m = None if self.minimum is None else self.minimum.astype(np.float32)[:, None]
        if self.scales is None:
            return d * q if m is None else d * q + m
        count = self.scales.shape[1]
        weights = (d * self.scales.astype(np.float32))[:, :, None] * q.reshape(len(q), count, -1)
        if m is not None and self.minima is not None:
            weights -= (m * self.minima.astype(np.float32))[:, :, None]
        return weights.reshape(q.shape)


class BlockType(NamedTuple):
    """weights, bytes: how many a block has. parts, decode: of blocks; the weights themselves where there are no parts,
    and None for types that are not quantised; `dtype` is theirs.
    """

    name: str
    weights: int
    bytes: int
    parts: Callable[[Blocks], Parts] | None = None
    dtype: np.dtype[Any] = np.dtype("<f4")
    decode: Callable[[Blocks], Weights] | None = None

    @property
    def is_quantised(self) -> bool:
        return self.parts is not None or self.decode is not None


def _half(blocks: Blocks, begin: int) -> Float16[ndarray, " blocks"]:
    """One float16 from each block, at an offset."""
    return np.ascontiguousarray(blocks[:, begin : begin + 2]).view("<f2")[:, 0]


def _nibbles(packed: Blocks) -> UInt8[ndarray, "blocks 2*bytes"]:
    """The lower halves of bytes, then the upper ones."""
    return np.concatenate([packed & 0x0F, packed >> 4], axis=1)


def _fifth_bits(packed: Blocks) -> UInt8[ndarray, "blocks 32"]:
    """The fifth bits of 32 weights, packed into 4 bytes."""
    return np.unpackbits(packed, axis=1, bitorder="little") << 4


def _q4_0(blocks: Blocks) -> Parts:
    return Parts(_half(blocks, 0), None, None, None, _nibbles(blocks[:, 2:]), 8)


def _q4_1(blocks: Blocks) -> Parts:
    return Parts(_half(blocks, 0), _half(blocks, 2), None, None, _nibbles(blocks[:, 4:]))


def _q5_0(blocks: Blocks) -> Parts:
    numbers = _nibbles(blocks[:, 6:]) | _fifth_bits(blocks[:, 2:6])
    return Parts(_half(blocks, 0), None, None, None, numbers, 16)


def _q5_1(blocks: Blocks) -> Parts:
    numbers = _nibbles(blocks[:, 8:]) | _fifth_bits(blocks[:, 4:8])
    return Parts(_half(blocks, 0), _half(blocks, 2), None, None, numbers)


def _q8_0(blocks: Blocks) -> Parts:
    return Parts(_half(blocks, 0), None, None, None, blocks[:, 2:] ^ 0x80, 128)  # with a sign, in the file


def _six_bit_pairs(packed: Blocks) -> tuple[UInt8[ndarray, "blocks 8"], UInt8[ndarray, "blocks 8"]]:
    """Eight scales and eight minima of 6 bits each, from 12 bytes: the last four have their upper bits in the first."""
    first, second, low = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = np.concatenate([first & 0x3F, (low & 0x0F) | (first >> 6) << 4], axis=1)
    minima = np.concatenate([second & 0x3F, (low >> 4) | (second >> 6) << 4], axis=1)
    return scales, minima


def _by_scales_and_minima(blocks: Blocks, q: UInt8[ndarray, "blocks 256"]) -> Parts:
    return Parts(_half(blocks, 0), _half(blocks, 2), *_six_bit_pairs(blocks[:, 4:16]), q)


def _nibbles_by_64(packed: UInt8[ndarray, "blocks 128"]) -> UInt8[ndarray, "blocks 256"]:
    """32 bytes hold 64 weights: their lower halves the first 32."""
    return _nibbles(packed.reshape(-1, 32)).reshape(-1, 256)


def _q4_k(blocks: Blocks) -> Parts:
    return _by_scales_and_minima(blocks, _nibbles_by_64(blocks[:, 16:]))


def _q5_k(blocks: Blocks) -> Parts:
    shifts = np.arange(8, dtype=np.uint8)[:, None]
    fifth = ((blocks[:, None, 16:48] >> shifts) & 1) << 4  # (blocks, 8, 32): bit i of each byte is of sub-block i
    return _by_scales_and_minima(blocks, _nibbles_by_64(blocks[:, 48:]) | fifth.reshape(-1, 256))


def _q6_k(blocks: Blocks) -> Parts:
    low = blocks[:, :128].reshape(-1, 2, 64)  # of each half of the block
    low = np.concatenate([low & 0x0F, low >> 4], axis=2)  # (blocks, 2, 128)
    shifts = np.arange(0, 8, 2, dtype=np.uint8)[:, None]
    high = (blocks[:, 128:192].reshape(-1, 2, 1, 32) >> shifts) & 3  # (blocks, 2, 4, 32)
    numbers = (low | high.reshape(-1, 2, 128) << 4).reshape(-1, 256)
    return Parts(_half(blocks, 208), None, blocks[:, 192:208].view(np.int8), None, numbers, 32)


# The numbers of four bits, FP4 E2M1: a sign, two bits of exponent, and one more.
MXFP4_VALUES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def _mxfp4(blocks: Blocks) -> Weights:
    scales = np.ldexp(np.float64(1), blocks[:, :1].astype(np.int64) - 127)
    with np.errstate(over="ignore"):  # beyond float32, it is infinite
        return (scales * MXFP4_VALUES[_nibbles(blocks[:, 1:])]).astype(np.float32)


BLOCK_TYPES: dict[int, BlockType] = {
    0: BlockType("F32", 1, 4, dtype=np.dtype("<f4")),
    1: BlockType("F16", 1, 2, dtype=np.dtype("<f2")),
    2: BlockType("Q4_0", 32, 18, _q4_0),
    3: BlockType("Q4_1", 32, 20, _q4_1),
    6: BlockType("Q5_0", 32, 22, _q5_0),
    7: BlockType("Q5_1", 32, 24, _q5_1),
    8: BlockType("Q8_0", 32, 34, _q8_0),
    12: BlockType("Q4_K", 256, 144, _q4_k),
    13: BlockType("Q5_K", 256, 176, _q5_k),
    14: BlockType("Q6_K", 256, 210, _q6_k),
    39: BlockType("MXFP4", 32, 17, decode=_mxfp4),
    30: BlockType("BF16", 1, 2, dtype=BFLOAT16),
}


def dequantise(kind: BlockType, data: UInt8[ndarray, " bytes"]) -> ndarray:
    """The weights, one after the other: float32 if they were quantised, else in their own type."""
    blocks = data.reshape(-1, kind.bytes)
    if kind.parts is not None:
        return kind.parts(blocks).weights().reshape(-1)
    return data.view(kind.dtype) if kind.decode is None else kind.decode(blocks).reshape(-1)


MAGIC = b"GGUF"
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_FLOAT, _STRING, _ARRAY = 6, 8, 9
_ALIGNMENT = 32  # of tensors, in bytes, where a file does not say
_MAX_DIMENSIONS, _MAX_SIZE = 4, 1 << 40
_COPIED = 1 << 16  # bytes, up to which an array is a copy: a view would keep the pages of the file around it


class _Layout(NamedTuple):
    kind: BlockType
    shape: tuple[int, ...]  # the outermost dimension first
    begin: int
    bytes: int
    mapped: mmap.mmap


class Tensors(Mapping[str, "ndarray"]):
    """The tensors of a file, or of several, read on access."""

    def __init__(self, layouts: dict[str, _Layout]) -> None:
        self._layouts = layouts

    def __or__(self, others: Tensors) -> Tensors:
        """The tensors of both."""
        return Tensors(self._layouts | others._layouts)

    def __getitem__(self, name: str) -> ndarray:
        layout = self._layouts[name]
        data = np.frombuffer(layout.mapped, np.uint8, layout.bytes, layout.begin)
        if layout.bytes <= _COPIED:
            data = data.copy()
        return dequantise(layout.kind, data).reshape(layout.shape)

    def stored(self, name: str) -> tuple[BlockType, UInt8[ndarray, "*rows blocks bytes"]]:
        """The type of a tensor, and its blocks as they are in the file."""
        layout = self._layouts[name]
        data = np.frombuffer(layout.mapped, np.uint8, layout.bytes, layout.begin)
        return layout.kind, data.reshape(*layout.shape[:-1], -1, layout.kind.bytes)

    def __iter__(self) -> Iterator[str]:
        return iter(self._layouts)

    def __len__(self) -> int:
        return len(self._layouts)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each tensor, by name, the outermost dimension first."""
        return {name: layout.shape for name, layout in self._layouts.items()}

    def kinds(self) -> dict[str, str]:
        """The type of each tensor, by name."""
        return {name: layout.kind.name for name, layout in self._layouts.items()}


Read = TypeVar("Read")


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


def is_named_gguf(path: Path) -> bool:
    """Return whether a file begins as GGUF or is named so; opening one that is named so only says what is wrong."""
    return is_gguf(path) or (path.suffix.lower() == ".gguf" and path.is_file())


def named_architecture(path: Path) -> str:
    """A file's general.architecture, which is the first of its metadata, or nothing. Raises ModelFormatError."""
    return _opened(path, _read_architecture)


class Header(NamedTuple):
    """What a file says of itself, whatever the types of its tensors. names, kinds: of tensors. numbers: in all."""

    metadata: dict[str, Any]
    names: list[str]
    kinds: list[str]
    numbers: int


def open_gguf(path: Path) -> Gguf:
    """Opens a file, mapped into memory; sizes in its header are checked before use. Raises ModelFormatError."""
    return _opened(path, _read)


def read_header(path: Path) -> Header:
    """What a file says of itself, even if its tensors cannot be read. Raises ModelFormatError."""
    return _opened(path, _read_header)


def _opened(path: Path, read: Callable[[mmap.mmap], Read]) -> Read:
    """What a function reads of a file. Raises ModelFormatError."""
    try:
        with open_regular(path) as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except ValueError:
        raise ModelFormatError(f"{path}: is empty; get it again") from None
    except OSError as error:
        raise ModelFormatError(f"{path}: cannot be opened: {error.strerror or error}") from error
    try:
        return read(mapped)
    except _FileError as error:
        raise ModelFormatError(f"{path}: {error}") from None
    except struct.error:
        raise ModelFormatError(
            f"{path}: ends within its header, at byte {len(mapped):,}; it is cut off; get it again"
        ) from None
    except IndexError as error:
        raise ModelFormatError(f"{path}: is cut off or damaged: {error}; get it again") from error


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
                "bytes; it is cut off or damaged; get it again"
            )
        return number

    def string(self) -> str:
        length, begin = self.count(1), self.position
        self.position += length
        try:
            return self.mapped[begin : self.position].decode()
        except UnicodeDecodeError:
            raise _FileError(f"its text at byte {begin:,} is no UTF-8; the file is damaged; get it again") from None

    def value(self, kind: int) -> Any:
        """A value of a type. Raises _FileError."""
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        if kind == _STRING:
            return self.string()
        if kind != _ARRAY:
            raise _FileError(f"its metadata has a value of unknown type {kind}; the file is damaged; get it again")
        kind = int(self.number("I"))
        if kind in _NUMBERS:
            code = np.dtype(_NUMBERS[kind]).newbyteorder("<")
            number = self.count(code.itemsize)
            values = np.frombuffer(self.mapped, code, number, self.position)
            self.position += values.nbytes
            return values.tolist()
        if kind != _STRING:
            raise _FileError(f"its metadata has an array of unknown type {kind}; the file is damaged; get it again")
        return [self.string() for _ in range(self.count(8))]


def _read_architecture(mapped: mmap.mmap) -> str:
    """Raises as `_read`."""
    cursor, _, values = _begin(mapped)
    for _ in range(values):
        name = cursor.string()
        value = cursor.value(cursor.number("I"))
        if name == "general.architecture":
            return str(value)
    return ""


def _read_metadata(mapped: mmap.mmap) -> tuple[_Cursor, int, dict[str, Any]]:
    """A cursor at the entries of tensors, their number, and the metadata. Raises as `_read`."""
    cursor, tensors, values = _begin(mapped)
    metadata: dict[str, Any] = {}
    for _ in range(values):
        name = cursor.string()
        metadata[name] = cursor.value(cursor.number("I"))
    return cursor, tensors, metadata


def _begin(mapped: mmap.mmap) -> tuple[_Cursor, int, int]:
    """A cursor at the metadata, and the numbers of tensors and of entries of metadata. Raises as `_read`."""
    if mapped[: len(MAGIC)] != MAGIC:
        raise _FileError(
            f"is named .gguf, and begins with {mapped[: len(MAGIC)]!r}, not with GGUF's four bytes {MAGIC!r}; download "
            "the file again, or give the name of what it is"
        )
    cursor = _Cursor(mapped)
    cursor.position = len(MAGIC)
    version = cursor.number("I")
    if version not in (2, 3):
        raise _FileError(f"is GGUF version {version}; expected 2 or 3, little-endian")
    return cursor, cursor.count(24), cursor.count(13)


def _read_header(mapped: mmap.mmap) -> Header:
    """Raises as `_read`."""
    cursor, tensors, metadata = _read_metadata(mapped)
    names: list[str] = []
    kinds: list[str] = []
    numbers = 0
    for _ in range(tensors):
        names.append(cursor.string())
        shape, number, _ = _entry(cursor, names[-1])
        kinds.append(BLOCK_TYPES[number].name if number in BLOCK_TYPES else f"ggml's type {number}")
        numbers += math.prod(shape)
    return Header(metadata, names, kinds, numbers)


def _read(mapped: mmap.mmap) -> Gguf:
    """Raises _FileError, struct.error, UnicodeDecodeError."""
    cursor, tensors, metadata = _read_metadata(mapped)
    alignment = metadata.get("general.alignment", _ALIGNMENT)
    if type(alignment) is not int or not 1 <= alignment <= 1 << 20:
        raise _FileError(f"general.alignment is {alignment!r}; expected a number of bytes from 1 to 1,048,576")
    layouts: dict[str, _Layout] = {}
    for _ in range(tensors):
        name = cursor.string()
        if name in layouts:
            raise _FileError(f"has the tensor {name!r} twice; the file is damaged; get it again")
        layouts[name] = _layout(cursor, name)
    base = -(-cursor.position // alignment) * alignment
    for name, layout in layouts.items():
        if base + layout.begin + layout.bytes > len(mapped):
            raise _FileError(
                f"the tensor {name!r} ends after the end of the file; it is cut off or damaged; get it again"
            )
    absolute = {name: layout._replace(begin=base + layout.begin) for name, layout in layouts.items()}
    return Gguf(metadata, Tensors(absolute))


def _entry(cursor: _Cursor, name: str) -> tuple[tuple[int, ...], int, int]:
    """The shape of a tensor, the outermost dimension first, ggml's number of its type, and where it begins.

    Raises _FileError.
    """
    dimensions = cursor.number("I")
    if dimensions > _MAX_DIMENSIONS:
        raise _FileError(f"the tensor {name!r} has {dimensions} dimensions; expected at most {_MAX_DIMENSIONS}")
    shape = tuple(int(cursor.number("Q")) for _ in range(dimensions))[::-1]
    return shape, int(cursor.number("I")), int(cursor.number("Q"))


def _layout(cursor: _Cursor, name: str) -> _Layout:
    """Raises _FileError."""
    shape, number, begin = _entry(cursor, name)
    if number not in BLOCK_TYPES:
        known = ", ".join(kind.name for kind in BLOCK_TYPES.values())
        raise _FileError(
            f"the tensor {name!r} has ggml's type {number}, which is not supported; expected one of {known}"
        )
    kind = BLOCK_TYPES[number]
    size = math.prod(shape)
    if size > _MAX_SIZE or (shape and shape[-1] % kind.weights):
        raise _FileError(
            f"the tensor {name!r} has the shape {list(shape)}, which {kind.name} cannot store; the file is damaged; "
            "get it again"
        )
    return _Layout(kind, shape, begin, size // kind.weights * kind.bytes, cursor.mapped)
