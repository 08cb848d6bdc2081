"""Quantised weights. Those of GGUF files stay as they are stored (`StoredMatrix`), since only the order of their rows
changes here. Of Hugging Face folders, those of gpt-oss (MXFP4) are unpacked, all others refused by name.

MXFP4 (Open Compute Project 2023): 32 neighbours of a row share a power of two, and each is one of 16 numbers. A tensor
X is stored as X_blocks, uint8 (experts, rows, blocks, 16), two numbers a byte, the lower half first, and X_scales,
uint8 (experts, rows, blocks), exponents plus 127; unpacked, X is (experts, 32 blocks, rows).
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.bfloat16 import BFLOAT16
from chainrule.errors import ModelFormatError
from chainrule.features.open.gguf.file import MXFP4_VALUES
from chainrule.storage.config_json import CONFIG
from chainrule.storage.hugging_face import line_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Int64, UInt8
    from numpy import ndarray

    from chainrule.features.open.gguf.file import BlockType
    from chainrule.neural.packed.layouts import Quantised
    from chainrule.storage.hugging_face import Checkpoint

_FIELD, _BLOCKS, _SCALES = "quantization_config", "_blocks", "_scales"
_BIAS, _NAN = 127, 255  # of exponents; the one that stands for no number


def unpacked(checkpoint: Checkpoint) -> Checkpoint:
    """Return the checkpoint with weights in bfloat16, if they are in MXFP4; unchanged if they are not quantised.

    Raises ModelFormatError for any other quantisation.
    """
    said = checkpoint.config.get(_FIELD)
    if said is None:
        return checkpoint
    kind = said.get("quant_method") if isinstance(said, dict) else said
    if kind != "mxfp4":
        raise ModelFormatError(
            f"{checkpoint.location}: {CONFIG}: {_FIELD} says that weights are quantised by {kind!r}; expected mxfp4 "
            "or none. Get the model before it was quantised, or its GGUF file"
            f"{line_of(checkpoint.location, CONFIG, _FIELD)}"
        )
    tensors = _Unpacked(checkpoint)
    config = {name: value for name, value in checkpoint.config.items() if name != _FIELD}
    files = {name: checkpoint.files.get(tensors.source(name), checkpoint.location) for name in tensors}
    return checkpoint._replace(config=config, tensors=tensors, files=files)


class _Unpacked(Mapping[str, "ndarray"]):
    """Tensors by name, unpacked on access. The last one is kept, since experts share one."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._tensors, self._location = checkpoint.tensors, checkpoint.location
        packed = {name.removesuffix(_BLOCKS) for name in self._tensors if name.endswith(_BLOCKS)}
        self._packed = {name for name in packed if name + _SCALES in self._tensors}
        halves = {name + half for name in self._packed for half in (_BLOCKS, _SCALES)}
        self._names = dict.fromkeys([*(name for name in self._tensors if name not in halves), *sorted(self._packed)])
        self._last: tuple[str, ndarray] | None = None

    def source(self, name: str) -> str:
        """Return the name of the tensor in the file."""
        return name + _BLOCKS if name in self._packed else name

    def __getitem__(self, name: str) -> ndarray:
        if name not in self._packed:
            return self._tensors[name]
        if self._last is None or self._last[0] != name:
            self._last = None  # before the next one takes memory
            self._last = name, self._unpack(name)
        return self._last[1]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def _unpack(self, name: str) -> ndarray:
        """Unpack a tensor. Raises ModelFormatError."""
        blocks, scales = self._tensors[name + _BLOCKS], self._tensors[name + _SCALES]
        fits = blocks.ndim == 4 and blocks.shape[3] == 16 and blocks.shape[:3] == scales.shape
        if not fits or blocks.dtype != np.uint8 or scales.dtype != np.uint8 or (scales == _NAN).any():
            raise ModelFormatError(
                f"{self._location}: the tensors {name + _BLOCKS!r} {list(blocks.shape)} and {name + _SCALES!r} "
                f"{list(scales.shape)} are no weights in MXFP4; the file is damaged"
            )
        return unpack_mxfp4(blocks, scales)


def unpack_mxfp4(
    blocks: UInt8[ndarray, "experts rows blocks 16"], scales: UInt8[ndarray, "experts rows blocks"]
) -> ndarray:
    """Return the weights, in bfloat16, which holds all of them exactly: (experts, 32 blocks, rows)."""
    exponents = np.arange(_NAN + 1)[:, None] - _BIAS
    with np.errstate(over="ignore"):  # beyond float32, it is infinite
        values = np.ldexp(MXFP4_VALUES, exponents, dtype=np.float64).astype(np.float32)
    table = (values.view(np.uint32) >> np.uint32(16)).astype(np.uint16)  # (exponents, 16)
    experts, rows, count, _ = blocks.shape
    weights = np.empty((experts, rows, count, 16, 2), np.uint16)
    for own, packed, scale in zip(weights, blocks, scales, strict=True):  # one by one, to save memory
        own[..., 0] = table[scale[..., None], packed & 0x0F]
        own[..., 1] = table[scale[..., None], packed >> 4]
    return weights.view(BFLOAT16).reshape(experts, rows, 32 * count).swapaxes(1, 2)


_TOGETHER = 1 << 20  # weights that are packed at a time
_FAR = 1 << 40


class StoredMatrix(NamedTuple):
    """Rows of blocks, as a file has them. sources: of each tensor its type and its blocks, (rows, blocks, bytes).
    order: the rows of the matrix, as numbers of rows of all sources; -1 for one of zeros. is_transposed: whether these
    rows are the columns of what it stands for.
    """

    sources: tuple[tuple[BlockType, UInt8[ndarray, "rows blocks bytes"]], ...]
    order: Int64[ndarray, " N"]
    is_transposed: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = len(self.order), self.columns
        return (columns, rows) if self.is_transposed else (rows, columns)

    @property
    def columns(self) -> int:
        """The numbers in a row of blocks."""
        kind, blocks = self.sources[0]
        return blocks.shape[1] * kind.weights

    def with_rows(self, rows: Int64[ndarray, " n"]) -> StoredMatrix:
        """Return some rows, by their numbers in this matrix; -1 for one of zeros."""
        return self._replace(order=np.where(rows < 0, -1, self.order[rows]))

    def pack(self) -> UInt8[ndarray, " bytes"] | None:
        """Return the matrix for products; None where rows of different types do not come in groups, or are columns.

        Raises ValueError where a scale is not a number.
        """
        from chainrule.neural.packed.layouts import FORMS, LANES, packed

        if self.is_transposed:
            return None
        ends = np.cumsum([len(blocks) for _, blocks in self.sources])
        of_source = np.searchsorted(ends, self.order, "right")
        types = [list(FORMS).index(kind.name) for kind, _ in self.sources]
        of_type = np.where(self.order < 0, -1, np.array([*types, -1])[of_source])
        if not len(of_type) or (of_type < 0).all():
            return None
        known = np.maximum.accumulate(np.where(of_type < 0, 0, np.arange(len(of_type))))
        of_type = np.where(of_type[known] < 0, of_type[of_type >= 0][0], of_type[known])  # zeros: of any type
        borders = [0, *(np.flatnonzero(np.diff(of_type)) + 1).tolist(), len(of_type)]
        if any(border % LANES for border in borders[:-1]) or len(borders) > 7:
            return None
        parts = [
            (list(FORMS)[of_type[begin]], end - begin, self._chunks(begin, end, of_source))
            for begin, end in pairwise(borders)
        ]
        matrix = packed(*self.shape, parts)
        for _, blocks in self.sources:
            release_mapped(blocks)
        return matrix

    def _chunks(self, begin: int, end: int, of_source: Int64[ndarray, " N"]) -> Iterator[Quantised]:
        """Yield the rows from `begin` to `end`, some groups at a time. Raises ValueError."""
        step = max(1, _TOGETHER // self.columns // 16) * 16  # whole groups
        ends = np.cumsum([0, *(len(blocks) for _, blocks in self.sources)])
        for first in range(begin, end, step):
            order, own = self.order[first : min(first + step, end)], of_source[first : min(first + step, end)]
            numbers = np.unique(own[order >= 0]).tolist()
            kind, blocks = self.sources[numbers[0] if numbers else 0]
            if len(numbers) == 1 and (order >= 0).all() and (np.diff(order) == 1).all():
                start = order[0] - ends[numbers[0]]
                chosen = blocks[start : start + len(order)]
            else:
                chosen = np.zeros((len(order), *blocks.shape[1:]), np.uint8)
                for number in numbers:
                    is_own = (own == number) & (order >= 0)
                    chosen[is_own] = self.sources[number][1][order[is_own] - ends[number]]
            yield _quantised(kind, chosen)
            release_mapped(chosen)


def _quantised(kind: BlockType, blocks: UInt8[ndarray, "rows blocks bytes"]) -> Quantised:
    """Return blocks as quantised rows. Raises ValueError."""
    from chainrule.neural.packed.layouts import Quantised

    assert kind.parts is not None
    rows, heads = blocks.shape[:2]
    parts = kind.parts(blocks.reshape(-1, kind.bytes))
    for halves in (parts.scale, parts.minimum):
        if halves is not None and not np.isfinite(halves).all():
            raise ValueError("holds NaN or infinity")
    return Quantised(
        kind.name,
        parts.numbers.reshape(rows, -1),
        parts.scale.reshape(rows, heads),
        None if parts.minimum is None else parts.minimum.reshape(rows, heads),
        None if parts.scales is None else parts.scales.reshape(rows, heads, -1),
        None if parts.minima is None else parts.minima.reshape(rows, heads, -1),
    )


def changed(change: Callable[[list[ndarray]], ndarray], matrices: Sequence[StoredMatrix]) -> StoredMatrix | None:
    """Return the matrix that a function of arrays makes of matrices, where it only joins them, transposes and chooses
    rows; else None.

    It is tried on the numbers of the rows, in three columns that any computation would change in different ways.
    """
    if len({matrix.columns for matrix in matrices}) != 1:
        return None
    sources = tuple(source for matrix in matrices for source in matrix.sources)
    order, first = [], 0
    for matrix in matrices:
        order.append(np.where(matrix.order < 0, -1, matrix.order + first))
        first += sum(len(blocks) for _, blocks in matrix.sources)
    all_rows = np.concatenate(order)
    probes, first = [], 0
    for matrix in matrices:
        rows = np.arange(first, first + len(matrix.order)) + 1
        probes.append(np.stack((rows, rows + _FAR, -rows), 0 if matrix.is_transposed else 1))
        first += len(rows)
    try:
        made = change(probes)
    except (ValueError, IndexError, TypeError, AttributeError):
        return None
    if made.ndim != 2 or made.dtype != np.int64:
        return None
    for is_transposed, columns in ((False, made.T), (True, made)):
        if len(columns) != 3:
            continue
        number, far, negative = columns
        is_same = (far == number + _FAR) & (negative == -number) & (number > 0) & (number <= len(all_rows))
        if is_same.all():
            return StoredMatrix(sources, all_rows[number - 1], is_transposed)
    return None


def release_mapped(array: ndarray) -> None:
    """Give back the memory of a file's pages that an array views, which are read from the file again if need be.

    For mappings that nobody writes to; anything else is left alone.
    """
    mapped: Any = array
    while isinstance(mapped, np.ndarray):
        mapped = mapped.base
    mapped = mapped.obj if isinstance(mapped, memoryview) else mapped
    if not (isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED") and array.flags.c_contiguous):
        return
    first = np.frombuffer(mapped, np.uint8, 1).ctypes.data
    begin = array.ctypes.data - first
    end = begin + array.nbytes
    begin = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE
    if end > begin:
        mapped.madvise(mmap.MADV_DONTNEED, begin, end - begin)
