"""Matrices as ggml has them in blocks: of packed rows as they are, where ggml has their form, or of numbers, rounded.

Legend: N rows, K columns, heads: blocks of 32 numbers in a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from chainrule.neural.layers.matrix_products import unpack
from chainrule.neural.packed.layouts import FORMS, LANES, matrix_of, rows_of

if TYPE_CHECKING:
    from jaxtyping import Float16, Float32, Int64, UInt8
    from numpy import ndarray

    from chainrule.neural.packed.layouts import Part

_BLOCK = 32
_SAME = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")  # forms of rows that ggml has, too, with one scale for 32 numbers


class PackedRows(NamedTuple):
    """Rows of a packed matrix, which may be chosen. packed: int8 with scales, or blocks."""

    packed: ndarray

    @property
    def kind(self) -> str:
        """The type in which ggml has them: their own, or eight bits."""
        if self.packed.dtype != np.uint8:
            return "Q8_0"
        names = {part.name for part in matrix_of(self.packed).parts}
        return names.pop() if len(names) == 1 and names <= {*_SAME} else "Q8_0"

    @property
    def has_six_bits(self) -> bool:
        """Whether it was quantised here to six bits, in blocks that ggml does not have."""
        return self.packed.dtype == np.uint8 and any(part.name == "Q6_0" for part in self._parts)

    def floats(self, rows: Int64[ndarray, " N"]) -> Float32[ndarray, "N K"]:
        """Return some rows in float32."""
        if self.packed.dtype != np.uint8:
            return unpack(torch.from_numpy(self.packed[rows])).numpy()
        return rows_of(torch.from_numpy(self.packed), torch.from_numpy(rows)).numpy()

    def blocks(self, rows: Int64[ndarray, " N"], kind: str) -> UInt8[ndarray, "N bytes"]:
        """Return some rows as ggml's blocks. kind: their type there."""
        numbers = self.floats(rows)
        if self.packed.dtype != np.uint8 or kind != self.kind:
            return in_eight_bits(numbers)
        scales, minima = (np.concatenate(halves)[rows] for halves in zip(*map(_halves, self._parts), strict=True))
        return _encoded(kind, numbers, scales, minima)

    @property
    def _parts(self) -> list[Part]:
        return matrix_of(self.packed).parts


def _halves(part: Part) -> tuple[Float16[ndarray, "N heads"], Float16[ndarray, "N heads"]]:
    """Return the scales and minima of rows; zeros where their form has no minima."""
    groups = len(part.groups)
    heads = part.groups.reshape(groups, -1, part.form.bytes)

    def by_row(place: int) -> Float16[ndarray, "N heads"]:
        own = np.ascontiguousarray(heads[:, :, 2 * LANES * place : 2 * LANES * (place + 1)]).view("<f2")
        return own.transpose(0, 2, 1).reshape(groups * LANES, -1)

    scales = by_row(0)
    return scales, by_row(1) if part.form.has_minima else np.zeros_like(scales)


def _encoded(
    kind: str,
    numbers: Float32[ndarray, "N K"],
    scales: Float16[ndarray, "N heads"],
    minima: Float16[ndarray, "N heads"],
) -> UInt8[ndarray, "N bytes"]:
    """Return blocks that hold these numbers exactly. scales, minima: those that they were rounded with."""
    form, rows = FORMS[kind], len(numbers)
    d, m = scales.astype(np.float32)[..., None], minima.astype(np.float32)[..., None]
    with np.errstate(invalid="ignore", divide="ignore"):
        steps = np.nan_to_num((numbers.reshape(rows, -1, _BLOCK) - m) / d)
    most = (1 << form.low_bits + form.more_bits) - 1
    q = (np.rint(steps) + form.offset).clip(0, most).astype(np.uint8)
    parts = [np.ascontiguousarray(half, "<f2")[..., None].view(np.uint8) for half in (scales, minima)]
    parts = parts if form.has_minima else parts[:1]
    if kind == "Q8_0":
        return np.concatenate([*parts, q ^ 0x80], 2).reshape(rows, -1)
    if form.more_bits:
        parts.append(np.packbits(q >> 4, axis=2, bitorder="little"))
    low = q & 0x0F
    return np.concatenate([*parts, low[..., :16] | low[..., 16:] << 4], 2).reshape(rows, -1)


def in_eight_bits(numbers: Float32[ndarray, "N K"]) -> UInt8[ndarray, "N bytes"]:
    """Return rows in Q8_0, rounded."""
    blocks = numbers.reshape(len(numbers), -1, _BLOCK)
    scales = (np.abs(blocks).max(2) / np.float32(127)).astype(np.float16)
    return _encoded("Q8_0", numbers, scales, np.zeros_like(scales))
