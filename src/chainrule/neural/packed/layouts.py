"""Matrices in four to eight bits: the forms of their blocks, which are those of GGUF files, and how vectors meet them.

A packed matrix (N, K) is one tensor of bytes, so that code that moves, shares or saves tensors needs to know nothing of
it: a head of HEAD bytes (int32: N, K, the number of parts, and the size of a block and the number of groups of each),
then the parts, one after the other. A part is rows in one form (`block_kernels.Form`): groups of sixteen rows, in each
the blocks of 32 or 256 columns. The last group of the matrix is filled up with zeros. Parts differ where a file stores
matrices in different types that are one here (queries and keys, and values). Blocks take as many bytes as in a GGUF
file; those of Q4_K and Q5_K 3 % more, since their scales of six bits get a byte each.

A product rounds vectors to eight bits in blocks of 32; besides that, only sums are rounded.
"""

from __future__ import annotations

import math
import threading
import time
from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import torch

from chainrule.base.ahead import compile_ahead
from chainrule.base.jit import address_in_kernels, specialise, use_parallel_threads
from chainrule.base.lanes import LANES as LANES  # rows of a group
from chainrule.base.memory import zeros_side_by_side
from chainrule.neural.packed.block_kernels import (
    BLOCK,
    Form,
    multiplication,
    multiply_parts,
    put_integers,
    quantise,
    unpack_rows,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    from jaxtyping import Float, Float16, Float32, Int8, Int32, Int64, Shaped, UInt8
    from numpy import ndarray
    from torch import Tensor

# By the names of GGUF, where it has them.
FORMS = {
    "Q4_0": Form(4, 0, 8, has_minima=False),
    "Q4_1": Form(4, 0, 0, has_minima=True),
    "Q5_0": Form(4, 1, 16, has_minima=False),
    "Q5_1": Form(4, 1, 0, has_minima=True),
    "Q6_0": Form(4, 2, 32, has_minima=False),
    "Q8_0": Form(8, 0, 128, has_minima=False),
    "Q4_K": Form(4, 0, 0, has_minima=True, blocks=8),
    "Q5_K": Form(4, 1, 0, has_minima=True, blocks=8),
    "Q6_K": Form(4, 2, 32, has_minima=False, blocks=8, halved=True),
}
_BY_SIZE = {form.bytes: (name, form) for name, form in FORMS.items()}
HEAD, _MOST_PARTS = 64, 6
_TOGETHER = 1 << 20  # weights that are packed at a time
_HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)

_NO_BIAS = np.empty((1, 0), np.float32)
_lock = threading.Lock()  # Numba's simplest threads may not be asked twice at once


BY_BITS = {4: "Q4_1", 5: "Q5_1", 6: "Q6_0", 8: "Q8_0"}  # the forms in which weights are quantised here
_SHRINKS = (1.0, 0.95, 0.9, 0.85)  # of the range of a block with a minimum; the best one is taken


class Part(NamedTuple):
    """Rows of a matrix in one form. name: as in FORMS. groups: the bytes, a row for each group of sixteen rows."""

    name: str
    form: Form
    groups: UInt8[ndarray, "G bytes"]


class Matrix(NamedTuple):
    """A packed matrix, as its bytes say."""

    rows: int
    columns: int
    parts: list[Part]

    def table(self, threads: int) -> Int64[ndarray, "parts 5"]:
        """Return what `multiply_parts` has to know, on one thread or on several. The parts must not be freed before."""
        table, row = [], 0
        for name, _, groups in self.parts:
            table.append([_address(name, threads > 1), groups.ctypes.data, *groups.shape, row])
            row += LANES * len(groups)
        return np.array(table)


def matrix_of(packed: UInt8[ndarray, " bytes"]) -> Matrix:
    """Return what the bytes of a packed matrix say, checked. Raises ValueError."""
    if packed.ndim != 1 or len(packed) < HEAD:
        raise ValueError(f"has the shape {list(packed.shape)}; expected one dimension of at least {HEAD} bytes")
    rows, columns, count, *sizes = packed[:HEAD].view("<i4").tolist()
    if not 0 < count <= _MOST_PARTS or rows < 0 or columns <= 0:
        raise ValueError(f"says that it has {count} parts, {rows} rows and {columns} columns")
    parts, at, groups_so_far = [], HEAD, 0
    for size, groups in zip(sizes[: 2 * count : 2], sizes[1 : 2 * count : 2], strict=True):
        if size not in _BY_SIZE:
            raise ValueError(f"has blocks of {size} bytes, which no known form has")
        name, form = _BY_SIZE[size]
        if columns % (BLOCK * form.blocks) or groups < 0:
            raise ValueError(f"has rows of {columns} numbers in {name}, whose blocks do not fill them")
        width = columns // (BLOCK * form.blocks) * size
        if at + groups * width > len(packed):
            raise ValueError(f"claims {groups} groups in {name}, more than it holds")
        parts.append(Part(name, form, packed[at : at + groups * width].reshape(groups, width)))
        at, groups_so_far = at + groups * width, groups_so_far + groups
    if at != len(packed) or -(-rows // LANES) != groups_so_far:
        raise ValueError(f"claims {rows} rows, but holds {groups_so_far * LANES}")
    return Matrix(rows, columns, parts)


class Quantised(NamedTuple):
    """Rows in one form. numbers: the integers without a sign. scale, minimum: of heads, float16; scales, minima: of
    blocks or their halves, where a head has several.
    """

    name: str
    numbers: UInt8[ndarray, "N K"]
    scale: Float16[ndarray, "N heads"]
    minimum: Float16[ndarray, "N heads"] | None
    scales: Shaped[ndarray, "N heads parts"] | None
    minima: UInt8[ndarray, "N heads blocks"] | None


def packed(rows: int, columns: int, parts: Sequence[tuple[str, int, Iterable[Quantised]]]) -> UInt8[ndarray, " bytes"]:
    """Return a matrix from parts: of each its form, its number of rows, and its rows some at a time, always whole
    groups but at the end of the last part.
    """
    compile_ahead("packed")
    sizes, total = [], HEAD
    for name, own_rows, _ in parts:
        groups, form = -(-own_rows // LANES), FORMS[name]
        sizes += [form.bytes, groups]
        total += groups * (columns // (BLOCK * form.blocks)) * form.bytes
    out = zeros_side_by_side(total)
    out[:HEAD].view("<i4")[: 3 + len(sizes)] = [rows, columns, len(parts), *sizes]
    for part, (_, _, chunks) in zip(matrix_of(out).parts, parts, strict=True):
        group = 0
        for chunk in chunks:
            count = -(-len(chunk.numbers) // LANES)
            _fill(part.form, chunk, part.groups[group : group + count])
            group += count
    return out


def pack(weight: Float[Tensor, "N K"], bits: int) -> UInt8[ndarray, " bytes"]:
    """Return a matrix, quantised in blocks of 32.

    bits: 4, 5, 6 or 8. K must be a multiple of 32. Blocks with NaN or infinity, or with numbers beyond float16, become
    NaN. Errors are at most half a step: of 4 and 5 bits, where that has the least squared error.
    """
    rows, columns = weight.shape
    step = max(1, _TOGETHER // columns // LANES) * LANES
    name = BY_BITS[bits]
    chunks = (_quantised(name, weight[begin : begin + step].float().numpy()) for begin in range(0, rows, step))
    return packed(rows, columns, [(name, rows, chunks)])


def _quantised(name: str, weight: Float32[ndarray, "n K"]) -> Quantised:
    """Quantise rows: with a minimum, by the one of four ranges with the least squared error; without, the largest
    number is kept.
    """
    form, blocks = FORMS[name], weight.reshape(len(weight), -1, BLOCK)
    most = (1 << form.low_bits + form.more_bits) - 1
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        if not form.has_minima:
            scale = _covering(np.abs(blocks).max(2), most // 2)
            numbers = np.rint(blocks / scale.astype(np.float32)[..., None]) + form.offset
            numbers = np.nan_to_num(numbers, nan=form.offset).clip(0, most).astype(np.uint8)
            return Quantised(name, numbers.reshape(weight.shape), scale, None, None, None)
        low, high = blocks.min(2), blocks.max(2)
        best, least = None, np.full(low.shape, np.inf, np.float32)
        for shrink in _SHRINKS:
            spare = (high - low) * np.float32((1 - shrink) / 2)
            scale = ((high - low - 2 * spare) / np.float32(most)).astype(np.float16)
            minimum = (low + spare).astype(np.float16)
            if best is None:  # the whole range, which must not shrink by rounding
                is_above = minimum > low + scale.astype(np.float32) / 2
                minimum = np.where(is_above, np.nextafter(minimum, np.float16(-np.inf)), minimum)
                reach = high - minimum.astype(np.float32)
                scale = np.where(reach > (most + 0.5) * scale.astype(np.float32), _covering(reach, most), scale)
            d, m = scale.astype(np.float32)[..., None], minimum.astype(np.float32)[..., None]
            numbers = np.nan_to_num(np.rint((blocks - m) / d)).clip(0, most).astype(np.uint8)
            error = np.square(d * numbers + m - blocks).sum(2)
            if best is None:
                best, least = Quantised(name, numbers, scale, minimum, None, None), error
                continue
            is_less = error < least
            least = np.where(is_less, error, least)
            assert best.minimum is not None
            best.numbers[is_less], best.scale[is_less] = numbers[is_less], scale[is_less]
            best.minimum[is_less] = minimum[is_less]
        assert best is not None
        return best._replace(numbers=best.numbers.reshape(weight.shape))


def _covering(largest: Float32[ndarray, "n blocks"], most: int) -> Float16[ndarray, "n blocks"]:
    """Return the nearest scales at which the largest number of each block is at most half a step above the largest
    integer. Subnormal scales have few digits, so that the nearest one may be far too small.
    """
    scale = (largest / np.float32(most)).astype(np.float16)
    is_small = largest > (most + 0.5) * scale.astype(np.float32)
    return np.where(is_small, np.nextafter(scale, np.float16(np.inf)), scale)


def _fill(form: Form, chunk: Quantised, out: UInt8[ndarray, "G bytes"]) -> None:
    """Write rows into groups that are 0."""
    heads = chunk.scale.shape[1]
    as_heads = out.reshape(len(out), heads, form.bytes)
    small = form.block_bytes - (form.low_bits + form.more_bits) * BLOCK * LANES // 8

    def by_lane(values: Shaped[ndarray, "N heads bytes"]) -> UInt8[ndarray, "G heads lanes bytes"]:
        """Order bytes by lane: (N, heads, n bytes) -> (G, heads, 16, n)"""
        whole = np.zeros((len(out) * LANES, *values.shape[1:]), np.uint8)
        whole[: len(values)] = values.view(np.uint8)
        return whole.reshape(len(out), LANES, heads, -1).transpose(0, 2, 1, 3)

    for place, halves in enumerate((chunk.scale, chunk.minimum)):
        if halves is not None:
            own = np.ascontiguousarray(halves, np.float16)[:, :, None].view(np.uint8)
            begin = 2 * LANES * place
            as_heads[:, :, begin : begin + 2 * LANES] = by_lane(own).reshape(len(out), heads, 2 * LANES)
    if chunk.scales is not None:
        scales = chunk.scales.reshape(len(chunk.scales), heads, form.blocks, -1)
        if chunk.minima is not None:
            scales = np.stack((chunk.scales, chunk.minima), 3)  # (N, heads, blocks, 2)
        each = by_lane(np.ascontiguousarray(scales).view(np.uint8).reshape(len(scales), heads, -1))
        each = each.reshape(len(out), heads, LANES, form.blocks, -1).transpose(0, 1, 3, 4, 2)  # of each block, by lane
        blocks = as_heads[:, :, form.head_bytes :].reshape(len(out), heads, form.blocks, form.block_bytes)
        blocks[..., :small] = each.reshape(len(out), heads, form.blocks, small)
        as_heads[:, :, form.head_bytes :] = blocks.reshape(len(out), heads, -1)
    put_integers(
        form.low_bits,
        form.more_bits,
        form.blocks,
        form.head_bytes + small,
        form.block_bytes,
        form.bytes,
        np.ascontiguousarray(chunk.numbers),
        out,
    )


def rows_of(packed: UInt8[Tensor, " bytes"], rows: Int64[Tensor, "*shape"]) -> Float32[Tensor, "*shape K"]:
    """Return some rows of a matrix, in float32."""
    matrix, wanted = matrix_of(packed.detach().numpy()), rows.reshape(-1).numpy()
    out = np.empty((len(wanted), matrix.columns), np.float32)
    first = 0
    for part in matrix.parts:
        last = first + len(part.groups) * LANES
        if len(matrix.parts) == 1:
            unpack_rows(_fields(part.form), part.groups, _halves(), wanted, out)
        else:
            own = np.flatnonzero((wanted >= first) & (wanted < last))
            some = np.empty((len(own), matrix.columns), np.float32)
            unpack_rows(_fields(part.form), part.groups, _halves(), wanted[own] - first, some)
            out[own] = some
        first = last
    return torch.from_numpy(out).view(*rows.shape, matrix.columns)


def unpacked(packed: UInt8[Tensor, " bytes"]) -> Float32[Tensor, "N K"]:
    """Return the weights in float32."""
    matrix, first = matrix_of(packed.detach().numpy()), 0
    out = np.empty((matrix.rows, matrix.columns), np.float32)
    for part in matrix.parts:
        own = out[first : first + len(part.groups) * LANES]
        unpack_rows(_fields(part.form), part.groups, _halves(), np.arange(len(own)), own)
        first += len(part.groups) * LANES
    return torch.from_numpy(out)


@cache
def _halves() -> Float32[ndarray, " 65536"]:
    return _HALVES.astype(np.float32)


@cache
def _fields(form: Form) -> tuple[int, ...]:
    return (*map(int, form), form.head_bytes, form.block_bytes, form.bytes)


@cache
def _address(name: str, parallel: bool) -> int:
    compile_ahead("packed")
    vectors = Vectors.empty(1, BLOCK)
    out, words = np.empty((1, LANES), np.float32), vectors.numbers.view(np.int32)
    examples = np.empty((1, LANES), np.uint8), words, vectors.scales, vectors.sums, out, 0
    return address_in_kernels(multiplication(FORMS[name], parallel=parallel), *examples)


class Vectors(NamedTuple):
    """Vectors in eight bits: integers, scales of blocks of 32, and the sums of integers of blocks of 16."""

    numbers: Int8[ndarray, "B K"]
    scales: Float32[ndarray, "B blocks"]
    sums: Int32[ndarray, "B halves"]

    @classmethod
    def empty(cls, count: int, width: int) -> Self:
        blocks = width // BLOCK
        scales, sums = np.empty((count, blocks), np.float32), np.empty((count, 2 * blocks), np.int32)
        return cls(np.empty((count, width), np.int8), scales, sums)


@cache
def _multiplier() -> Callable[..., None]:
    return specialise(multiply_parts, np.empty((1, 5), np.int64), tuple(Vectors.empty(1, BLOCK)), _NO_BIAS, _NO_BIAS)


def lock_of_kernels(threads: int) -> AbstractContextManager[Any]:
    """Set how many threads the kernels of the calling thread run on; return the lock to hold while they do."""
    if threads == 1:
        return nullcontext()
    use_parallel_threads(threads)
    return _lock


class _Steps:
    """On how many threads products with few vectors run: on all, or on one where other programs want the processors,
    too, since threads that wait for one another after each product then wait for the turns of the others. Both are
    tried now and then, as long as that costs little. Figures do not depend on it.
    """

    def __init__(self) -> None:
        self._seconds = {False: math.inf, True: math.inf}  # of a step, by whether it ran on all threads
        self._since = 0.0  # seconds of steps since the other way was tried
        self._is_on_all, self._is_timed, self._began = True, False, 0.0

    def choose(self, count: int) -> int:
        """Return the number for the step with that many vectors that comes next."""
        self._began, self._is_timed = 0.0, torch.get_num_threads() > 1 and count <= _FEW
        if self._is_timed:
            best = self._seconds[True] <= self._seconds[False]
            other = self._seconds[not best]
            is_due = other == math.inf or self._since * _SHARE > other
            self._is_on_all = best != is_due
            self._since = 0.0 if is_due else self._since
        return self.threads(count)

    def begin(self) -> None:
        """Say that the step begins now, and its kernels are loaded."""
        self._began = time.perf_counter() if self._is_timed else 0.0

    def end(self) -> None:
        """Say that the step has ended."""
        if self._began:
            seconds = time.perf_counter() - self._began
            self._since += seconds
            known = self._seconds[self._is_on_all]
            is_faster = seconds < known  # slower ones count a quarter, since most of them were disturbed for a moment
            self._seconds[self._is_on_all] = seconds if is_faster else known + (seconds - known) / _DISTURBED
            self._began = 0.0

    def threads(self, count: int) -> int:
        """Return the number for products with that many vectors."""
        threads = torch.get_num_threads()
        return threads if count > _FEW or self._is_on_all else 1


_FEW, _SHARE, _DISTURBED = 8, 0.05, 4  # vectors of a step; of the time, that trials may cost
steps = _Steps()


def product(
    x: Float32[Tensor, "*shape K"], packed: UInt8[Tensor, " bytes"], bias: Float[Tensor, " N"] | None = None
) -> Float32[Tensor, "*shape N"]:
    """Return W x + b, of vectors that are rounded to eight bits."""
    matrix = matrix_of(packed.detach().numpy())
    given = x.detach().reshape(-1, matrix.columns).contiguous().numpy()
    vectors = Vectors.empty(*given.shape)
    quantise(given, *vectors)
    out = np.empty((len(given), LANES * sum(len(part.groups) for part in matrix.parts)), np.float32)
    threads, used = torch.get_num_threads(), steps.threads(len(given))
    with lock_of_kernels(used):
        _multiplier()(matrix.table(used), tuple(vectors), _NO_BIAS, out)
    if torch.get_num_threads() != threads:  # where both share an OpenMP, Numba's first launch sets torch's number, too
        torch.set_num_threads(threads)
    out = out[:, : matrix.rows]
    if bias is not None:
        out += bias.detach().float().numpy()  # by this thread alone
    return torch.from_numpy(out).view(*x.shape[:-1], matrix.rows)
